// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions on spikes: parsed from text, limited in rate, with a description of the spike, noted if they fail.

use evidence::cause::{Cause, CauseKind};
use evidence::manifest::{RowKey, Second};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn key() -> RowKey {
    RowKey { thread_name: Some("servo".into()), ..RowKey::new("loop", "idle", 3, Some(1_000_000)) }
}

fn spike(latency_ns: u64) -> Spike {
    let mut cause = Cause::timed(CauseKind::Thread, "rustc", 0, 4_000);
    cause.detail = Some("ordinary".into());
    Spike {
        at_ns: 7,
        monotonic_ns: 1_007,
        wall_time: Some("2026-11-25T00:00:00Z".into()),
        missed: 2,
        causes: vec![cause],
        ..Spike::new(key(), latency_ns)
    }
}

/// A row whose series had these spikes since the last poll.
fn progress(spikes: &[Option<u64>]) -> RowProgress {
    let series = |latency_ns: &Option<u64>| SeriesProgress {
        key: key(),
        thread: 4711,
        priority: 40,
        so_far: Second::default(),
        last_ns: 0,
        limit_ns: 1_000,
        lost: 0,
        latency: None,
        spike: latency_ns.map(spike),
    };
    RowProgress { elapsed: HOUR, length: None, series: spikes.iter().map(series).collect() }
}

fn acting(actions: &[&str]) -> OnSpike {
    let actions = actions.iter().map(|text| SpikeAction::parse(text).unwrap()).collect();
    let snapshots = SnapshotCommand { program: "/bin/false".into(), arguments: Vec::new() };
    OnSpike::new(actions, HOUR, snapshots, Arc::default())
}

#[test]
fn refuses_what_cannot_be_done_in_one_line() {
    for (text, line) in [
        ("", "cannot act on spikes by: it names nothing to do; give a command, snapshot or signal:NAME:PID"),
        (
            "signal:USR1",
            "cannot act on spikes by signal:USR1: it names no process; give it as signal:USR1:4711",
        ),
        (
            "signal:USR3:1",
            "cannot act on spikes by signal:USR3:1: there is no signal 'USR3'; choose one of HUP, INT, QUIT, ABRT, KILL, \
             USR1, USR2, ALRM, TERM, CONT, STOP, WINCH",
        ),
        (
            "signal:TERM:x",
            "cannot act on spikes by signal:TERM:x: 'x' is not a process; give it as signal:USR1:4711",
        ),
        (
            "signal:SIGTERM:4194305",
            "cannot act on spikes by signal:SIGTERM:4194305: no such process; give a process that runs",
        ),
    ] {
        assert_eq!(SpikeAction::parse(text).unwrap_err().to_string(), line);
    }
}

#[test]
fn acts_on_the_longest_spike_once_in_an_interval() {
    let folder = tempfile::tempdir().unwrap();
    let facts = folder.path().join("facts");
    let mut on_spike = acting(&[&format!("env | grep ^ISOLATOR_ | sort > {}", facts.display())]);
    on_spike.poll(folder.path(), &progress(&[None]));
    on_spike.poll(folder.path(), &progress(&[Some(5_000), Some(6_000), None]));
    on_spike.poll(folder.path(), &progress(&[Some(9_000)]));
    assert_eq!(
        on_spike.end(),
        ["on spikes: acted 1 times; 1 times spikes came within 1h of that, and were only counted"]
    );
    let told = std::fs::read_to_string(facts).unwrap();
    let expected = [
        format!("ISOLATOR_BUNDLE={}", folder.path().display()),
        "ISOLATOR_CAUSE=thread rustc".into(),
        "ISOLATOR_CAUSE_NS=4000".into(),
        "ISOLATOR_CPU=3".into(),
        "ISOLATOR_LATENCY_NS=6000".into(),
        "ISOLATOR_LIMIT_NS=1000".into(),
        "ISOLATOR_LOAD=idle".into(),
        "ISOLATOR_MISSED=2".into(),
        "ISOLATOR_MONOTONIC_NS=1007".into(),
        "ISOLATOR_PROBE=loop".into(),
        "ISOLATOR_THREAD=4711".into(),
        "ISOLATOR_THREAD_NAME=servo".into(),
        "ISOLATOR_WALL_TIME=2026-11-25T00:00:00Z".into(),
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn notes_what_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut on_spike = acting(&["exit 3", "no-such-program 2>/dev/null", "snapshot"]);
    on_spike.poll(folder.path(), &progress(&[Some(5_000)]));
    let notes = on_spike.end();
    assert_eq!(
        notes[1..],
        [
            "on spikes: exit 3 failed 1 times, at first because it ended with status 3",
            "on spikes: no-such-program 2>/dev/null failed 1 times, at first because it ended with status 127: there is \
             no such program",
            "on spikes: snapshot failed 1 times, at first because it ended with status 1",
        ]
    );
}

#[test]
fn a_signal_goes_to_its_process_alone_and_fails_once_that_is_gone() {
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    let text = format!("signal:TERM:{}", sleep.id());
    let mut on_spike = acting(&[&text]);
    on_spike.poll(Path::new("/"), &progress(&[Some(5_000)]));
    assert!(sleep.wait().unwrap().code().is_none(), "it was not ended by the signal");
    on_spike.last = None;
    on_spike.poll(Path::new("/"), &progress(&[Some(5_000)]));
    let gone = format!("on spikes: {text} failed 1 times, at first because no such process");
    assert_eq!(on_spike.end()[1..], [gone]);
}

#[test]
fn a_snapshot_on_demand_needs_no_spike() {
    let folder = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicBool::new(true));
    let snapshots = SnapshotCommand { program: "/bin/true".into(), arguments: Vec::new() };
    let mut on_spike = OnSpike::new(Vec::new(), HOUR, snapshots, Arc::clone(&asked));
    on_spike.poll(folder.path(), &progress(&[None]));
    assert!(!asked.load(Ordering::SeqCst) && on_spike.taken == 1);
    assert_eq!(on_spike.end(), [""; 0]);
}
