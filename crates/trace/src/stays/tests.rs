// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records from the text of small traces.

use std::io::Write;

use ftrace::recorded::{Trace, TracePart};

use super::*;
use crate::record::Stay;
use crate::wait::Wait;

#[derive(Debug)]
struct NoNames;

impl Functions for NoNames {
    fn function(&self, _: u64) -> Option<&str> {
        None
    }

    fn is_kernel(&self, _: u32, name: &str) -> bool {
        name.starts_with("kworker/")
    }
}

/// The thread that the traces are about.
const THREAD: u32 = 7;

/// The records of [`THREAD`] in a trace of these events, each after its thread, its context and its
/// microsecond.
fn records(events: &str) -> Vec<ThreadRecord> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for event in events.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if event.starts_with("CPU:") {
            writeln!(file, "{event}").unwrap();
            continue;
        }
        let mut words = event.splitn(5, ' ');
        let mut word = || words.next().unwrap();
        let (thread, cpu, context, us, rest) = (word(), word(), word(), word(), word());
        writeln!(file, "name-{thread} [{cpu:0>3}] d.{context}1. 1.{us:0>6}: {rest}").unwrap();
    }
    let mut trace = Trace::open(file.path()).unwrap();
    let mut stays = Stays::new(Box::new(NoNames), true);
    stays.watch(THREAD);
    let mut records = Vec::new();
    while let Some(part) = trace.next_part().unwrap() {
        match part {
            TracePart::Event(event) => stays.add(&event),
            TracePart::Lost { .. } => stays.lose(),
        }
        records.extend(std::iter::from_fn(|| stays.next_record()));
    }
    records
}

fn stays(events: &str) -> Vec<Stay> {
    let stay = |record: ThreadRecord| match record.kind {
        ThreadEvent::Stay(stay) => Some(*stay),
        _ => None,
    };
    records(events).into_iter().filter_map(stay).collect()
}

fn ns(us: u64) -> u64 {
    1_000_000_000 + us * 1_000
}

const SLEEPS: &str = "7 1 . 100 sys_enter: NR 230 (1, 1, 0, 0, 0, 0)
    7 1 . 101 hrtimer_start: hrtimer=00000000ed7dc722 function=hrtimer_wakeup expires=1001000000 softexpires=1001000000
    7 1 . 110 sched_switch: prev_comm=ctl prev_pid=7 prev_prio=19 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120";

const WAKES: &str = "0 1 h 1005 hrtimer_expire_entry: hrtimer=00000000ed7dc722 function=hrtimer_wakeup now=1001004000
    0 1 h 1006 sched_waking: comm=ctl pid=7 prio=19 target_cpu=001
    0 1 h 1007 hrtimer_expire_exit: hrtimer=00000000ed7dc722
    0 1 . 1010 sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ctl next_pid=7 next_prio=19
    7 1 . 1012 sys_exit: NR 230 = 0";

const ENDS: &str = "7 1 . 1300 sys_enter: NR 230 (1, 1, 0, 0, 0, 0)
    7 1 . 1310 sched_switch: prev_comm=ctl prev_pid=7 prev_prio=19 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120";

#[test]
fn a_timer_wakes_a_thread_that_sleeps_in_a_call() {
    let found = stays(&[SLEEPS, WAKES, ENDS].join("\n"));
    assert_eq!(found.len(), 2);
    assert!(found[0].is_begin_unseen);
    assert_eq!(Wait::of(&found[0]), Some(Wait::Sleep { clock: 1, is_absolute: true }));
    let stay = &found[1];
    assert_eq!((stay.woken_ns, stay.in_ns, stay.out_ns), (Some(ns(1_006)), ns(1_010), ns(1_310)));
    // It was due before its interrupt came.
    assert_eq!((stay.waking.due_ns, stay.waking.timer, stay.waking.by()), (Some(ns(1_000)), None, None));
    assert_eq!((stay.prio, stay.policy, stay.after.id, stay.is_begin_unseen), (19, 1, 0, false));
}

#[test]
fn a_timer_within_anothers_function_and_a_thread_that_preempts_it_take_no_wakeup_from_it() {
    let serves = "33 1 . 1000 hrtimer_expire_entry: hrtimer=00000000ed7dc722 function=posix_timer_fn now=1001000000
        33 1 h 1001 hrtimer_expire_entry: hrtimer=00000000aaaaaaaa function=tick_nohz_handler now=1001001000
        33 1 h 1002 hrtimer_expire_exit: hrtimer=00000000aaaaaaaa
        33 1 . 1003 sched_switch: prev_comm=ktimers/1 prev_pid=33 prev_prio=98 prev_state=R ==> next_comm=log next_pid=9 next_prio=9";
    let returns = "9 1 . 1005 sched_switch: prev_comm=log prev_pid=9 prev_prio=9 prev_state=S ==> next_comm=ktimers/1 next_pid=33 next_prio=98";
    let wakes = "sched_waking: comm=ctl pid=7 prio=19 target_cpu=001";
    let comes = "33 1 . 1010 sched_switch: prev_comm=ktimers/1 prev_pid=33 prev_prio=98 prev_state=R ==> next_comm=ctl next_pid=7 next_prio=19";
    let waking = |by: &str| stays(&[SLEEPS, serves, by, comes, ENDS].join("\n")).pop().unwrap().waking;
    let by_timer = waking(&format!("{returns}\n33 1 . 1006 {wakes}"));
    assert_eq!((by_timer.due_ns, by_timer.by()), (Some(ns(1_000)), None));
    let by_thread = waking(&format!("9 1 . 1004 {wakes}\n{returns}"));
    assert_eq!((by_thread.due_ns, by_thread.by().map(|(id, _)| id)), (None, Some(9)));
}

#[test]
fn a_thread_in_between_is_told_and_a_preempted_one_waits_for_nothing() {
    let between = "0 1 . 1010 sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=log next_pid=9 next_prio=9
        9 1 . 1050 sched_switch: prev_comm=log prev_pid=9 prev_prio=9 prev_state=S ==> next_comm=ctl next_pid=7 next_prio=19
        7 1 . 1060 sched_switch: prev_comm=ctl prev_pid=7 prev_prio=19 prev_state=R+ ==> next_comm=kworker/1:0 next_pid=12 next_prio=9
        12 1 . 1070 sched_switch: prev_comm=kworker/1:0 prev_pid=12 prev_prio=9 prev_state=I ==> next_comm=ctl next_pid=7 next_prio=19";
    let wakes: Vec<&str> = WAKES.lines().take(3).collect();
    let all = records(&[SLEEPS, &wakes.join("\n"), between, ENDS].join("\n"));
    let switched: Vec<_> = all
        .iter()
        .filter_map(|record| match &record.kind {
            ThreadEvent::Switched { to, .. } => Some((record.at_ns, to.name.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(switched, [(ns(1_010), "log"), (ns(1_060), "kworker/1:0")]);
    let stays: Vec<_> = all
        .iter()
        .filter_map(|record| match &record.kind {
            ThreadEvent::Stay(stay) => Some(stay),
            _ => None,
        })
        .collect();
    assert_eq!((stays[1].after.name.as_str(), Wait::of(stays[1])), ("log", None));
    let next = &stays[1].leaving.next;
    assert_eq!(
        (next.name.as_str(), stays[2].after.is_kernel, stays[2].woken_ns),
        ("kworker/1:0", true, None)
    );
}

#[test]
fn the_waker_is_a_thread_or_the_interrupt_that_came_to_it() {
    let by = |wakes: &str| {
        let comes = "0 1 . 1010 sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ctl next_pid=7 next_prio=19";
        stays(&[SLEEPS, wakes, comes, ENDS].join("\n")).pop().unwrap().waking
    };
    let runs = "0 2 . 900 sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a b next_pid=8 next_prio=120";
    let thread = by(&format!("{runs}\n8 2 . 1006 sched_waking: comm=ctl pid=7 prio=19 target_cpu=001"));
    assert_eq!((thread.by(), thread.is_elsewhere), (Some((8, "a b")), true));
    let irq = "8 2 h 1004 irq_handler_entry: irq=24 name=virtio0-req
        8 2 h 1006 sched_waking: comm=ctl pid=7 prio=19 target_cpu=001
        8 2 h 1007 irq_handler_exit: irq=24 ret=handled";
    let irq = by(&format!("{runs}\n{irq}"));
    assert_eq!((irq.by(), irq.interrupt.clone()), (None, Some(Interrupt::Hard("virtio0-req".into()))));
    let softirq = "8 2 s 1004 softirq_entry: vec=3 [action=NET_RX]\n8 2 s 1006 sched_waking: comm=ctl pid=7 prio=19 target_cpu=001";
    assert_eq!(by(&format!("{runs}\n{softirq}")).interrupt, Some(Interrupt::Soft(3)));
    let raised = format!("{runs}\n8 2 . 1003 softirq_raise: vec=3 [action=NET_RX]\n{softirq}");
    assert_eq!(by(&raised).by(), Some((8, "a b")), "a softirq that the thread asked for is its own");
}

#[test]
fn an_event_that_comes_before_the_thread_sleeps_ends_a_stay() {
    let woken = "8 2 . 1200 sched_waking: comm=ctl pid=7 prio=19 target_cpu=001";
    // It went on, and slept later.
    let found = stays(
        &[SLEEPS, WAKES, woken, ENDS, &WAKES.replace(" 10", " 20"), &ENDS.replace(" 13", " 23")].join("\n"),
    );
    let ends: Vec<_> = found.iter().map(|stay| (stay.out_ns, stay.leaving.is_cut, stay.woken_ns)).collect();
    assert_eq!(
        ends,
        [
            (ns(110), false, None),
            (ns(1_200), true, Some(ns(1_006))),
            (ns(1_310), false, Some(ns(1_200))),
            (ns(2_310), false, Some(ns(2_006))),
        ]
    );
    // It was about to sleep: the wakeup is that of its next stay.
    let comes = "0 1 . 1320 sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ctl next_pid=7 next_prio=19";
    let found = stays(&[SLEEPS, WAKES, woken, ENDS, comes, &ENDS.replace(" 13", " 23")].join("\n"));
    let woken: Vec<_> = found.iter().map(|stay| (stay.out_ns, stay.woken_ns)).collect();
    assert_eq!(woken, [(ns(110), None), (ns(1_310), Some(ns(1_006))), (ns(2_310), Some(ns(1_200)))]);
}

#[test]
fn nothing_is_made_of_a_hole() {
    let found = stays(
        &[SLEEPS, "CPU:1 [LOST 12 EVENTS]", ENDS, &WAKES.replace(" 10", " 20"), &ENDS.replace(" 13", " 23")]
            .join("\n"),
    );
    assert_eq!(found.iter().map(|stay| stay.lost).collect::<Vec<_>>(), [0, 1, 0]);
    assert!(found[1].is_begin_unseen && found[1].woken_ns.is_none() && found[1].waking.due_ns.is_none());
}
