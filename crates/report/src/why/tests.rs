// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names, times and chains as a person reads them.

use super::*;

#[test]
fn a_lock_names_its_owner_and_what_that_waited_for() {
    let thread = |tid, name: &str, function: Option<&str>| Owner {
        tid,
        name: name.into(),
        function: function.map(str::to_string),
    };
    let logger = thread(12, "logger", Some("servo!flush_log"));
    let link = |kind, name: &str, owner| ChainLink {
        thread: thread(12, "logger", None),
        kind,
        name: name.into(),
        duration_ns: 6_512_000,
        owner,
    };
    let mut cause = Cause::timed(CauseKind::Lock, "servo!buffer_lock", 0, 7_000_000);
    cause.owner = Some(logger);
    cause.function = Some("servo!step".into());
    cause.chain = vec![
        link(CauseKind::Wait, "poll", None),
        link(CauseKind::Thread, "rustc", Some(thread(9, "rustc", None))),
        link(CauseKind::IdleExit, "idle", None),
        link(CauseKind::Lock, "servo!disk_lock", Some(thread(14, "writer", None))),
    ];
    assert_eq!(
        detail(&cause, Sign::Plain),
        "asked for in servo!step, held by logger (thread 12) in servo!flush_log, logger waited 6,512.0 us for poll, \
         logger waited 6,512.0 us for its CPU, which rustc had, \
         logger waited 6,512.0 us for its CPU to leave idle, \
         logger waited 6,512.0 us for lock servo!disk_lock held by writer (thread 14)"
    );
}

#[test]
fn a_sender_is_said_as_far_as_it_is_known() {
    let known = Sender {
        cpu: Some(0),
        comm: Some("ec\u{1b}ho".into()),
        pid: Some(4211),
        call_site: Some("text_poke_bp_batch".into()),
        context: None,
        function: None,
    };
    assert_eq!(
        sent(&known, "call function"),
        "sent by cpu 0 `ec\u{fffd}ho` (pid 4211) in text_poke_bp_batch"
    );
    assert_eq!(sent(&Sender::default(), ""), "");
}

#[test]
fn a_late_cycle_names_its_row_and_ends_with_its_work() {
    let of = |probe: &str| ExplainedSpike {
        monotonic_ns: 0,
        at_ns: 0,
        wall_time: None,
        cpu: 1,
        load: "idle".into(),
        probe: probe.into(),
        period_ns: Some(1_000_000),
        latency_ns: 6_747_000,
        missed: 0,
        unexplained_ns: None,
        much_unexplained: false,
        unexplained_detail: None,
        causes: Vec::new(),
        siblings: Vec::new(),
        mostly: None,
        advice: Vec::new(),
    };
    let said = |probe| (place(&of(probe)), over(&of(probe)));
    assert_eq!(said("wakeup"), ("cpu 1 · load idle".to_string(), "program runs"));
    assert_eq!(said("loop"), ("loop · cpu 1 · load idle".to_string(), "program runs"));
    assert_eq!(said("response"), ("response · cpu 1 · load idle".to_string(), "cycle ends"));
}
