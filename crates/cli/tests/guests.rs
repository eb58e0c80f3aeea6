// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab with real kernels: what is asserted are counts and their order, which do not depend on the host's
//! load. `make test` boots one of them, `make proof-guests` all.
//!
//! Needs QEMU, the guest program and the scope beside the program (`make guest`), and package sources that
//! have the kernel; missing tools are printed and the test is skipped.

use std::fs;
use std::path::Path;

use crate::common::{self, Ran, isolator};
use serde_json::Value;

/// The program that guests run.
fn guest_program() -> std::path::PathBuf {
    Path::new(common::PROGRAM).with_file_name(format!("isolator-{}", std::env::consts::ARCH))
}

/// Runs `lab run` with these arguments; `None`, with the reason printed, where guests cannot be run here.
fn lab(folder: &Path, args: &[&str]) -> Option<Ran> {
    in_lab(folder, &[&["run"], args].concat())
}

/// Likewise any of the lab's verbs.
fn in_lab(folder: &Path, args: &[&str]) -> Option<Ran> {
    let beside = guest_program();
    if !beside.is_file() {
        println!("skipped: there is no {}; run make guest", beside.display());
        return None;
    }
    let run = || isolator(folder, &[&["lab"], args].concat());
    let mut ran = run();
    // A host that stops a guest for seconds spoils a run, but hardly three in turn.
    for _ in 0..2 {
        if ran.stderr.contains("while this machine is less busy") {
            let bundle = args.iter().skip_while(|arg| **arg != "-o").nth(1);
            bundle.iter().for_each(|bundle| fs::remove_dir_all(folder.join(bundle)).unwrap());
            ran = run();
        }
    }
    let missing =
        ["it is not installed", "cannot find the kernel", "cannot run apt-get", "none was built for"];
    if ran.status == Some(1) && missing.iter().any(|why| ran.stderr.contains(why)) {
        println!("skipped: {}", ran.stderr);
        return None;
    }
    Some(ran)
}

fn document(ran: &Ran) -> Value {
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn row<'a>(document: &'a Value, scenario: &str) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().find(|row| row["scenario"] == scenario).unwrap()
}

#[test]
fn each_switch_of_a_static_key_is_three_interruptions_and_silence_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["quiet", "static-keys", "--witness", "--fresh", "--json", "-", "-o", "bundle", "--quiet"];
    let Some(ran) = lab(folder.path(), &args) else { return };
    let document = document(&ran);
    assert_eq!((&document["mode"], &document["guest_log"]["verdict"]), (&"count".into(), &"clean".into()));
    // Two or three by itself; the witness's collector and a busy host bring a few more.
    assert!(row(&document, "quiet")["excursions"].as_u64().unwrap() <= 12, "{document:#}");
    if std::env::consts::ARCH == "x86_64" {
        let calls = &row(&document, "static-keys")["by_entry"]["asm_sysvec_call_function_single"]["count"];
        // Two calls that come close together are one interruption where the host kept the guest's CPU away.
        assert!((350..=366).contains(&calls.as_u64().unwrap()), "{document:#}");
    }
    let witness = &document["witness"][1];
    assert!(witness["recall"].as_f64().unwrap() >= 0.99, "{document:#}");
    assert!(folder.path().join("bundle/report.html").is_file());
}

/// Needs a kernel of `make kernel`.
#[test]
fn what_a_stock_kernel_delivers_the_isolator_defers_and_the_scope_sees_none_of_it() {
    let folder = tempfile::tempdir().unwrap();
    for (isolate, bundle) in [("--isolate", "a"), ("--isolate=default,exclusive", "b")] {
        let args = ["static-keys", "--kernel", "isolator", isolate, "--json", "-", "-o", bundle, "--quiet"];
        let Some(ran) = lab(folder.path(), &args) else { return };
        let document = document(&ran);
        let row = row(&document, "static-keys");
        // 120 switches are 360 synchronisations, a few of which come while the CPU is in the kernel anyway.
        let deferred = row["isolation"]["defer_sync"].as_u64().unwrap();
        assert!((340..=366).contains(&deferred), "{document:#}");
        assert!(row["excursions"].as_u64().unwrap() <= 10, "{document:#}");
    }
}

#[test]
#[ignore = "minutes: make proof-guests"]
fn a_guest_that_writes_files_has_a_disk() {
    let missing = ["fio", "/usr/sbin/mke2fs"].into_iter().find(|program| !common::installed(program));
    skip_if!(common::skipped(missing.is_some(), &format!("it needs {missing:?}")));
    let folder = tempfile::tempdir().unwrap();
    let args = ["disk", "--loads", "storage", "--json", "-", "-o", "bundle", "--quiet"];
    let Some(ran) = lab(folder.path(), &args) else { return };
    // On a starved host the load may have no time to load; that is reported.
    let starved = ran.stderr.contains("the load in disk under storage took no effect");
    skip_if!(common::skipped(starved, &ran.stderr));
    let document = document(&ran);
    let (storm, load) = (&document["storms"][0], &document["loads"][0]);
    assert_eq!((&storm["took_effect"], &load["took_effect"]), (&true.into(), &true.into()), "{document:#}");
    assert!(storm["did"].as_str().unwrap().contains("the disk counted"), "{storm:#}");
    assert!(load["did"].as_str().unwrap().contains("fio"), "{load:#}");
    let manifest = fs::read_to_string(folder.path().join("bundle/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["state"], "finished", "storms ended the window, as they should");
}

#[test]
#[ignore = "minutes: make proof-guests"]
fn without_the_boot_line_the_tick_is_there_and_the_baseline_gate_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let run = |boot: &str, bundle: &str| {
        let args = ["quiet", "--boot", boot, "--json", "-", "-o", bundle, "--quiet"];
        lab(folder.path(), &args)
    };
    let Some(full) = run("full", "full") else { return };
    let Some(isolcpus) = run("isolcpus", "isolcpus") else { return };
    let excursions = |ran: &Ran| row(&document(ran), "quiet")["excursions"].as_u64().unwrap();
    assert!(excursions(&isolcpus) > 100 * excursions(&full).max(1));

    let compared = isolator(folder.path(), &["compare", "isolcpus", "full"]);
    compared.refused(
        "cannot compare isolcpus with full: the lab counted, and kept no latencies to compare; for the counts side by side run isolator report isolcpus full",
    );
    let baseline = folder.path().join("full/lab.json");
    let mut changed: Value = serde_json::from_slice(&fs::read(&baseline).unwrap()).unwrap();
    let gate = |file: &str| isolator(folder.path(), &["lab", "gate", file, "-o", &format!("{file}.bundle")]);
    assert_eq!(gate("full/lab.json").status, Some(0));
    changed["boot_line"] = document(&isolcpus)["boot_line"].clone();
    fs::write(folder.path().join("changed.json"), changed.to_string()).unwrap();
    let grown = gate("changed.json");
    assert_eq!(grown.status, Some(2), "{}", grown.stderr);
    assert!(grown.stdout.contains("quiet on cpu 1: excursions through"), "{}", grown.stdout);
    assert!(grown.stdout.ends_with("==> MORE THAN THE BASELINE\n"), "{}", grown.stdout);
}

#[test]
#[ignore = "minutes: make proof-guests"]
fn in_virtual_time_two_runs_agree_to_a_thousandth_and_storms_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |bundle: &str| {
        let args = ["cyclic", "--mode", "virtual", "--fresh", "-o", bundle, "--quiet"];
        let ran = lab(folder.path(), &args)?;
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let shown = isolator(folder.path(), &["report", bundle, "--json", "-", "--quiet"]);
        let document: Value = serde_json::from_str(&shown.stdout).unwrap();
        Some(document["rows"][0].clone())
    };
    let (Some(one), Some(two)) = (run("one"), run("two")) else { return };
    assert_eq!((&one["count"], &one["missed"]), (&two["count"], &two["missed"]));
    // On a quiet host the two are the same to the last count; on a busy one the emulator's own threads meet
    // at other moments, and some wakeups come a few instructions earlier or later.
    for figure in ["mean_ns", "p50_ns", "p99_ns"] {
        let (one, two) = (one[figure].as_f64().unwrap(), two[figure].as_f64().unwrap());
        assert!((one / two - 1.0).abs() < 1e-3, "{figure}: {one} and {two}");
    }
    let ran = isolator(folder.path(), &["lab", "run", "static-keys", "--mode", "virtual"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.starts_with("isolator: cannot run in virtual mode static-keys: "), "{}", ran.stderr);
}

/// A guest is quiet enough to see each sender; the newest kernel has to pass the trial like any other.
#[test]
#[ignore = "minutes: make proof-guests"]
fn in_a_guest_watch_names_who_sends() {
    names_who_sends("debian-rt");
    names_who_sends("debian-rt:7.2");
}

fn names_who_sends(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = guest_program();
    let watch = ["watch", "--senders", "--cpus", "0-1", "--interval", "500ms", "--count", "4", "--json"];
    let guest = ["program", "--kernel", kernel, "--boot", "isolcpus", program.to_str().unwrap()];
    let args = [&guest[..], &watch].concat();
    let Some(ran) = in_lab(folder.path(), &args) else { return };
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let documents: Vec<Value> =
        ran.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(documents.len(), 4, "{}", ran.stdout);
    for document in &documents {
        common::conforms(document, "watch");
        for sent in document["senders"].as_array().unwrap() {
            let sender = &sent["sender"];
            assert!(
                sender["cpu"].is_u64() && sender["pid"].is_u64() && sent["count"].as_u64() > Some(0),
                "{sent:#}"
            );
        }
    }
    assert!(
        documents.iter().any(|document| document["senders"] != Value::Array(Vec::new())),
        "{documents:#?}"
    );
}

/// Who gives the edges is on the host here: what enters the guest is memory alone, and the scope bounds each
/// answer all the same.
#[test]
#[ignore = "minutes: make proof-guests"]
fn edges_that_the_host_gives_through_memory_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = "[[scenario]]\nname='host'\nabout='no storm'\nprobe='response-ivshmem'\nperiod_us=100\n";
    fs::write(folder.path().join("host.toml"), scenario).unwrap();
    let args = ["host.toml", "--duration", "15s", "--boot", "full", "--json", "-", "-o", "bundle", "--quiet"];
    let Some(ran) = lab(folder.path(), &args) else { return };
    let document = document(&ran);
    let responses = &row(&document, "host")["responses"];
    let counted = |kind: &str| responses[kind]["count"].as_u64().unwrap();
    assert!(counted("quiet") > 10, "{document:#}");
    assert_eq!(responses["edges"], counted("quiet") + counted("interrupted"), "{document:#}");
    let ran = isolator(folder.path(), &["lab", "run", "host.toml", "--mode", "virtual"]);
    assert!(ran.stderr.contains("the one that polls keeps its turn"), "{}", ran.stderr);
}
