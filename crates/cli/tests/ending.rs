// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that does not reach its end: killed, or ended by Ctrl-C. What was measured stays, what was started
//! goes.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn read(going: &Going, name: &str) -> Value {
    let text = fs::read_to_string(going.bundle.join(name)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[test]
fn a_killed_run_leaves_no_load_and_loses_at_most_the_last_second() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let load = if installed("stress-ng") { "cpu" } else { "timers" };
    let going = Going::start(folder.path(), &["--loads", load]);
    going.wait_for_seconds(3);
    let (load, before) = (going.descendants(), fs::read_dir(&going.bundle).unwrap().count());
    assert!(load.len() >= 2, "a supervisor and what it supervises: {load:?}");
    let seconds = going.seconds_written() as u64;
    going.signal(Signal::KILL);
    assert_eq!(going.end().status, None);
    wait_for("the end of the load", || !load.iter().any(|pid| lives(*pid)));
    wait_for("the end of its files", || fs::read_dir(folder.path().join("run")).unwrap().count() <= before);
    let left = fs::read_dir(folder.path().join("run")).unwrap().flatten().map(|file| file.file_name());
    let left = left.filter(|name| name.to_string_lossy().starts_with("isolator")).collect::<Vec<_>>();
    assert!(left.is_empty(), "{left:?}");

    let ran = isolator(folder.path(), &["report", "run", "--json", "-"]).ended(2);
    let incomplete =
        "the run did not end in order (killed, or still running): its last second may be missing";
    assert!(ran.stderr.replace("\n  ", " ").contains(incomplete), "{ran:#?}");
    let document = ran.json();
    assert!(document["missing"].to_string().contains(incomplete), "{document:#}");
    let row = &document["rows"][0];
    let cycles = row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap();
    // A second of 1000 cycles may begin or end in the midst of one that was late.
    assert!(cycles >= seconds * 990, "{seconds} s were on disk: {document:#}");
    assert!(folder.path().join("run/report.html").exists());
}

#[test]
fn the_first_ctrl_c_ends_the_run_with_results() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let going = Going::start(folder.path(), &["--loads", "timers,idle", "--limit", "1ns", "--json", "-"]);
    going.wait_for_seconds(1);
    going.signal(Signal::INT);
    let bundle = going.bundle.clone();
    let ran = going.end().ended(2);
    let document = ran.json();
    assert!(document["rows"][0]["count"].as_u64() > Some(0), "{document:#}");
    assert_eq!(document["missing"], serde_json::json!([]), "{document:#}");
    assert_eq!(document["not_run"][0]["load"], "idle", "{document:#}");
    assert!(document["notes"].to_string().contains("the run was ended before its time"), "{document:#}");
    assert!(ran.stderr.contains("==> DOES NOT HOLD"), "{ran:#?}");
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(bundle.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(
        (&manifest["state"], &manifest["rows"][0]["state"]),
        (&"interrupted".into(), &"interrupted".into())
    );
    assert!(bundle.join("report.html").exists());
}

#[test]
fn one_probe_alone_goes_on_until_ctrl_c() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let policy = if may_be_real_time() { "fifo" } else { "other" };
    let args = ["measure", "wakeup", "--warm-up", "0", "-o", "run", "--policy", policy, "--json", "-"];
    let going = Going::run(folder.path(), &mut command(folder.path(), &args));
    going.wait_for_seconds(2);
    going.signal(Signal::TERM);
    let ran = going.end().judged();
    assert!(!ran.json()["notes"].to_string().contains("before its time"), "{ran:#?}");
    assert!(ran.stderr.contains("T: 0 ("), "cyclictest's line: {ran:#?}");
}

#[test]
fn the_second_ctrl_c_ends_it_at_once() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    // A load that does not heed its end keeps the program busy after the first.
    let stubborn = "custom=trap '' TERM; sleep 60; sleep 60";
    let going = Going::start(folder.path(), &["--loads", stubborn, "--json", "-"]);
    going.wait_for_seconds(1);
    let load = going.descendants();
    going.signal(Signal::INT);
    wait_for("the end of the row", || read(&going, "manifest.json")["rows"][0]["state"] == "interrupted");
    going.signal(Signal::INT);
    let bundle = going.bundle.clone();
    let ran = going.end().ended(1);
    assert_eq!(ran.stdout, "", "no results");
    assert!(!bundle.join("report.html").exists());
    wait_for("the end of the load", || !load.iter().any(|pid| lives(*pid)));
}

#[test]
fn ctrl_c_is_noticed_while_a_load_gets_going() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    // One that uses no CPU time never gets going.
    let path = tool(folder.path(), "stress-ng", "exec sleep 60");
    let mut command = command(folder.path(), &short("run", &["--loads", "cpu", "--json", "-"]));
    let going = Going::run(folder.path(), command.env("PATH", path));
    wait_for("the load", || !going.descendants().is_empty());
    going.signal(Signal::INT);
    let ran = going.end().ended(1);
    assert_eq!(ran.json()["not_run"][0]["reason"], "the run was ended before it began", "{ran:#?}");
    let line = "isolator: cannot measure wakeup under cpu: the run was ended before it began\n";
    assert!(ran.stderr.ends_with(line), "{ran:#?}");
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let mut command = command(folder.path(), &short("run", &["--loads", "idle,timers", "--json", "-"]));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 2)));
    let document = isolator(folder.path(), &["report", "run", "--json", "-", "--quiet"]).judged().json();
    assert_eq!(
        (document["rows"].as_array().map(Vec::len), &document["missing"]),
        (Some(2), &serde_json::json!([]))
    );
}

#[test]
fn a_result_that_cannot_be_printed_is_no_success() {
    let folder = folder();
    fs::write(folder.path().join("t.txt"), "T: 0 ( 1) P:80 I:1000 C: 10 Min: 1 Act: 2 Avg: 2 Max: 5\n")
        .unwrap();
    isolator(folder.path(), &["import", "t.txt", "-o", "b"]).ended(0);
    for args in [&["export", "b", "--as", "csv"][..], &["report", "b", "--quiet", "--json"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ran: Ran = command(folder.path(), args).stdout(full).output().unwrap().into();
        let line = "cannot write standard output: no space left on device; free some space, or choose another folder with -o";
        ran.refused(line);
    }
}

/// Manifests below `evidence`, each of a run.
fn runs(folder: &Path) -> Vec<Value> {
    let bundles = fs::read_dir(folder.join("evidence")).into_iter().flatten().flatten();
    let texts = bundles.filter_map(|bundle| fs::read_to_string(bundle.path().join("manifest.json")).ok());
    texts.map(|text| serde_json::from_str(&text).unwrap_or_default()).collect()
}

#[test]
fn it_is_measured_again_and_again_until_a_signal_that_ends_the_last_run_in_order() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let args = short("run", &["--every", "10ms"]);
    let args: Vec<&str> = args.into_iter().filter(|arg| !["-o", "run"].contains(arg)).collect();
    let mut child = command(folder.path(), &args).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the third run", || runs(folder.path()).len() >= 3);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = child.wait().unwrap();
    assert!(matches!(ended.code(), Some(0..=2)), "{ended} {:?}", ended.signal());
    let states: Vec<Value> = runs(folder.path()).iter().map(|run| run["state"].clone()).collect();
    let finished = states.iter().filter(|state| **state == "finished").count();
    assert!(finished >= 2 && !states.contains(&"running".into()), "{states:?}");
}

#[test]
fn what_cannot_be_measured_is_not_tried_again() {
    let folder = folder();
    let ran = isolator(folder.path(), &["prove", "--every", "10ms", "--limit", "1s", "--period", "1ms"]);
    let line = "isolator: the limit 1,000,000 us is above the period 1,000 us";
    assert!(ran.stderr.starts_with(line) && ran.stderr.lines().count() == 1, "{ran:#?}");
    ran.ended(1);
    isolator(folder.path(), &["prove", "--every", "10ms", "-o", "x"])
        .refused("--every cannot be given together with --output; see isolator prove --help");
}
