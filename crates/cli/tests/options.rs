// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects of options on the measurement: periods, timers, policies, idle states, loads.

use std::fs;
use std::path::Path;

use crate::common::*;
use serde_json::Value;

/// The rows of a short run.
fn rows(folder: &std::path::Path, name: &str, more: &[&str]) -> Vec<Value> {
    let args = [more, &["--json", "-", "--quiet"]].concat();
    isolator(folder, &short(name, &args)).judged().json()["rows"].as_array().unwrap().clone()
}

#[test]
fn two_periods_make_two_threads_on_the_cpu_with_rows_of_their_own() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let rows = rows(folder.path(), "b", &["--period", "250us,1ms", "--limit", "10%"]);
    let [base, servo] = rows.as_slice() else { panic!("{rows:#?}") };
    assert_eq!((&base["period_ns"], &base["limit_ns"]), (&250_000.into(), &25_000.into()));
    assert_eq!((&servo["period_ns"], &servo["limit_ns"]), (&1_000_000.into(), &100_000.into()));
    assert_eq!(base["cpu"], servo["cpu"]);
    assert_ne!(base["granted"]["thread"], servo["granted"]["thread"]);
    let cycles = |row: &Value| row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap();
    assert_eq!((cycles(base), cycles(servo)), (4000, 1000), "every cycle is a sample or a missed one");
    if may_be_real_time() {
        let priorities = (&base["granted"]["priority"], &servo["granted"]["priority"]);
        assert_eq!(priorities, (&80.into(), &79.into()), "the faster one goes first");
    }
}

#[test]
fn the_base_thread_of_a_machine_tool_can_be_measured() {
    skip_if!(skipped_for_lack_of_cpus() || skipped_for_lack_of_permission());
    let folder = folder();
    let rows = rows(folder.path(), "b", &["--period", "25us,1ms"]);
    let cycles = |row: &Value| row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap();
    assert_eq!((cycles(&rows[0]), cycles(&rows[1])), (40_000, 1000), "{rows:#?}");
}

#[test]
fn each_timer_measures_every_cycle() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    for timer in ["nanosleep", "timerfd"] {
        let rows = rows(folder.path(), timer, &["--timer", timer, "--loops", "500"]);
        let (count, missed) = (rows[0]["count"].as_u64().unwrap(), rows[0]["missed"].as_u64().unwrap());
        assert!((1..=500).contains(&count) && count + missed >= 500, "{timer}: {rows:#?}");
    }
}

#[test]
fn the_policy_that_is_in_force_is_in_the_evidence() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    if !skipped_for_lack_of_permission() {
        for policy in ["fifo", "rr"] {
            let rows = rows(folder.path(), policy, &["--policy", policy, "--priority", "33"]);
            let granted = &rows[0]["granted"];
            assert_eq!((&granted["policy"], &granted["priority"]), (&policy.into(), &33.into()));
        }
    }
    let other =
        isolator(folder.path(), &short("other", &["--policy", "other", "--json", "-"])).ended(2).json();
    assert_eq!(other["rows"][0]["granted"]["policy"], "other");
    let codes = other["taints"].as_array().unwrap().iter().map(|taint| &taint["code"]).collect::<Vec<_>>();
    assert!(codes.contains(&&"not-real-time-policy".into()), "{codes:?}");
}

#[test]
fn a_deadline_policy_measures_or_is_refused_and_leaves_nothing() {
    skip_if!(skipped_for_lack_of_cpus() || skipped_for_lack_of_permission());
    let folder = folder();
    let ran = isolator(folder.path(), &short("b", &["--policy", "deadline", "--json", "-", "--quiet"]));
    if ran.status == Some(1) {
        let line = ran.line();
        assert!(line.starts_with("cannot set SCHED_DEADLINE 250000:1000000:1000000 ns: "), "{line}");
        assert!(!folder.path().join("b").exists());
    } else {
        let document = ran.judged().json();
        assert_eq!(document["rows"][0]["granted"]["policy"], "deadline", "{document:#}");
        assert!(document["rows"][0]["count"].as_u64() > Some(0), "{document:#}");
    }
    // The kernel takes no deadline of less than 100 us unless told so.
    let ran = isolator(
        folder.path(),
        &short("c", &["--policy", "deadline", "--period", "1us", "--limit", "1us", "--quiet"]),
    );
    let line = ran.line();
    assert!(line.starts_with("cannot set SCHED_DEADLINE 250:1000:1000 ns: "), "{line}");
    assert!(!folder.path().join("c").exists(), "nothing was measured, so nothing is left");
}

#[test]
fn idle_states_are_bounded_while_it_measures_and_free_again_afterwards() {
    let device = "/dev/cpu_dma_latency";
    let allowed = fs::OpenOptions::new().read(true).write(true).open(device).is_ok();
    skip_if!(skipped_for_lack_of_cpus() || skipped(!allowed, "it needs /dev/cpu_dma_latency"));
    let bound = || i32::from_ne_bytes(fs::read(device).unwrap()[..4].try_into().unwrap());
    // The kernel uses the smallest of all requests.
    let before = bound();
    skip_if!(skipped(before <= 20, "another program limits idle states already"));
    let folder = folder();
    let going = Going::start(folder.path(), &["--dma-latency", "20"]);
    going.wait_for_seconds(1);
    assert_eq!(bound(), 20);
    going.signal(rustix::process::Signal::INT);
    let ran = going.end().judged();
    let announced =
        "isolator: requesting 20 us in /dev/cpu_dma_latency while measuring; it ends with this program";
    assert_eq!(ran.stdout.lines().next(), Some(announced));
    assert_eq!(bound(), before);

    let args = ["run", "--policy", "other", "--dma-latency", "30", "--", "od", "-An", "-td4", "-N4", device];
    let ran = isolator(folder.path(), &args).ended(0);
    assert_eq!(ran.stdout.trim(), "30");
    assert_eq!(ran.stderr, "isolator: 30 us requested in /dev/cpu_dma_latency until the command ends\n");
    assert_eq!(bound(), before);
}

#[test]
fn a_load_that_ends_by_itself_taints_its_row() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let args = short("b", &["--loads", "custom=echo gone; exit 3", "--json", "-", "--quiet"]);
    let document = isolator(folder.path(), &args).ended(2).json();
    let taint = document["taints"].as_array().unwrap().iter().find(|taint| taint["code"] == "load").unwrap();
    assert!(taint["reason"].as_str().unwrap().contains("with status 3"), "{document:#}");
    let load = isolator(folder.path(), &["load", "custom=exit 3", "--quiet"]);
    let line = load.line();
    assert!(line.starts_with("load custom=exit 3: ") && line.contains("status 3"), "{line}");
}

#[test]
fn the_help_names_every_probe() {
    for verb in ["prove", "measure"] {
        let help = isolator(Path::new("/"), &[verb, "--help"]).ended(0).stdout;
        for name in measure::probes::NAMES {
            assert!(help.contains(name), "{verb}: {name}: {help}");
        }
    }
}

#[test]
fn help_and_page_name_every_tool_imported() {
    let below = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(below.join("../../docs/reference/import.md")).unwrap();
    let help = isolator(Path::new("/"), &["import", "--help"]).ended(0).stdout;
    let fixtures = below.join("../exchange/tests/fixtures/import");
    let files = [fixtures.clone(), fixtures.join("others")].map(|folder| fs::read_dir(folder).unwrap());
    let read = |file: fs::DirEntry| exchange::import::import(&file.path()).ok();
    let tools: std::collections::BTreeSet<String> = files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(read)
        .map(|bundle| bundle.manifest.written_by.program)
        .collect();
    assert!(tools.len() > 10, "{tools:?}");
    let texts = [help, page].map(|text| text.to_lowercase());
    let is_named = |tool: &&String| tool.split(' ').all(|word| texts.iter().all(|text| text.contains(word)));
    let missing: Vec<_> = tools.iter().filter(|tool| !is_named(tool)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}
