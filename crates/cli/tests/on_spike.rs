// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reactions to spikes, and snapshots of a run that goes on: on demand, and after a spike.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::stranger::{Stranger, cannot_follow, changes};
use crate::common::{
    Going, command, folder, isolator, lives, read, short, skipped_for_lack_of_cpus, wait_for,
};

/// Every latency is a spike, and the verdict is another matter.
const ALL_SPIKES: [&str; 4] = ["--threshold", "1ns", "--limit", "100%"];

/// The JSON of `verb` over a bundle in the folder.
fn json(folder: &Path, verb: &str, bundle: &str) -> Value {
    let ran = isolator(folder, &[verb, bundle, "--json", "-"]);
    assert!(ran.status.is_some(), "{ran:#?}");
    ran.json()
}

fn is_whole(snapshot: &Path) -> bool {
    snapshot.join("report.html").exists()
}

/// Fails where something half made lies beside the bundles.
fn nothing_half_made(folder: &Path) {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let half = names.filter(|name| name.to_string_lossy().contains(".part-")).collect::<Vec<_>>();
    assert!(half.is_empty(), "{half:?}");
}

#[test]
fn a_snapshot_on_demand_is_a_bundle_of_its_own_and_the_run_goes_on() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let args = short("run", &["--duration", "300s", "--limit", "100%"]);
    let going = Going::run(folder.path(), &mut command(folder.path(), &args));
    for (number, seconds) in [(1, 2), (2, 4)] {
        going.wait_for_seconds(seconds);
        going.signal(Signal::USR1);
        let snapshot = folder.path().join(format!("run.snapshot-{number}"));
        wait_for("the snapshot", || is_whole(&snapshot));
    }
    assert!(lives(going.pid()));
    going.wait_for_seconds(5);
    going.signal(Signal::INT);
    going.end().judged();
    for (number, least) in [(1, 1_500), (2, 3_500)] {
        let document = json(folder.path(), "report", &format!("run.snapshot-{number}"));
        assert!(document["rows"][0]["count"].as_u64().unwrap() >= least, "{document:#}");
        assert!(document["notes"].to_string().contains("a snapshot on demand, at "), "{document:#}");
        let missing = document["missing"].as_array().unwrap();
        assert!(
            missing.len() == 1 && missing[0].as_str().unwrap().contains("did not end in order"),
            "{missing:#?}"
        );
        isolator(folder.path(), &["why", &format!("run.snapshot-{number}")]).ended(0);
    }
    assert_eq!(read(&folder.path().join("run/manifest.json"))["state"], "interrupted");
    nothing_half_made(folder.path());
}

#[test]
fn what_is_done_about_a_spike_runs_on_housekeeping_cpus_and_is_told_of_it() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let sleep = Stranger::start("sleep", &["600"]);
    let signal = format!("signal:TERM:{}", sleep.process());
    let script = "grep Cpus_allowed_list /proc/self/status >> told; env >> told";
    let actions =
        ["--on-spike", script, "--on-spike", &signal, "--on-spike", "snapshot", "--on-spike", "exit 7"];
    let args = short("b", &[&ALL_SPIKES[..], &actions, &["--duration", "3s"]].concat());
    isolator(folder.path(), &args).judged();
    let manifest = read(&folder.path().join("b/manifest.json"));
    let told = fs::read_to_string(folder.path().join("told")).unwrap();
    let house_keeping = manifest["asked"]["house_keeping"].as_str().unwrap();
    assert!(told.starts_with(&format!("Cpus_allowed_list:\t{house_keeping}\n")), "{told}");
    for fact in
        ["ISOLATOR_PROBE=wakeup\n", "ISOLATOR_LOAD=idle\n", "ISOLATOR_LATENCY_NS=", "ISOLATOR_BUNDLE=/"]
    {
        assert!(told.contains(fact), "{told}");
    }
    wait_for("the signal's effect", || !lives(sleep.0.id()));
    let notes = manifest["notes"].to_string();
    assert!(notes.contains("on spikes: acted 1 times; "), "{notes}");
    assert!(
        notes.contains("on spikes: exit 7 failed 1 times, at first because it ended with status 7"),
        "{notes}"
    );
    let why = json(folder.path(), "why", "b.snapshot-1");
    assert!(!why["spikes"].as_array().unwrap().is_empty(), "{why:#}");
    let snapshot = read(&folder.path().join("b.snapshot-1/manifest.json"));
    assert!(snapshot["notes"].to_string().contains("a snapshot after a spike of "), "{snapshot:#}");
    nothing_half_made(folder.path());
}

#[test]
fn a_late_cycle_of_a_program_is_acted_on_by_its_name() {
    skip_if!(cannot_follow());
    let folder = folder();
    let servo = Stranger::start(changes(folder.path()), &["late"]);
    let process = servo.process();
    let args = [
        "monitor",
        &process,
        "--duration",
        "4s",
        "--limit",
        "100%",
        "-o",
        "b",
        "--on-spike-every",
        "1s",
        "--on-spike",
        "env | grep ISOLATOR_ >> told",
    ];
    isolator(folder.path(), &args).ended(2);
    let told = fs::read_to_string(folder.path().join("told")).unwrap();
    let count = told.matches("ISOLATOR_THREAD_NAME=servo\n").count();
    // Late ten times a second, and acted on once.
    assert!((2..=5).contains(&count), "{told}");
    assert!(told.contains("ISOLATOR_CAUSE="), "{told}");
}

#[test]
fn what_cannot_be_done_about_spikes_is_refused_before_anything_is_measured() {
    let folder = folder();
    let refused = |args: &[&str], line: &str| isolator(folder.path(), args).refused(line);
    refused(
        &["prove", "--on-spike", "signal:USR1:4194305"],
        "cannot act on spikes by signal:USR1:4194305: no such process; give a process that runs",
    );
    refused(
        &["measure", "wakeup", "--on-spike", " "],
        "cannot act on spikes by: it names nothing to do; give a command, snapshot or signal:NAME:PID",
    );
    assert_eq!(isolator(folder.path(), &["prove", "--on-spike-every", "1s"]).status, Some(1));
    let mut none = command(folder.path(), &["prove", "--on-spike", "true", "--on-spike-every", "0"]);
    assert_eq!(none.output().unwrap().status.code(), Some(1));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}
