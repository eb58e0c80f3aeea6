// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts of windows: short sequences with one correct result, and sums that hold for any events.

use std::ops::Range;

use cause::account::{Account, Occupant, Point, Span, Woken, account};
use cause::edges::Edges;
use cause::event::{ContextKind, DelayedWakeup, Event, EventKind, Sent, Task, Vector};
use proptest::prelude::*;

#[path = "accounting/blame.rs"]
mod blame;

const CPU: u32 = 3;
const OWN: u32 = 100;
const TIMER: ContextKind = ContextKind::Vector(Vector::LocalTimer);
const CALL_VECTOR: ContextKind = ContextKind::Vector(Vector::CallFunction);

fn task(pid: u32) -> Task {
    Task { pid, comm: format!("task-{pid}"), prio: Some(120), kernel: Some(false), context: None }
}

fn at(monotonic_ns: u64, kind: EventKind) -> Event {
    Event { monotonic_ns, cpu: CPU, kind }
}

fn switch(monotonic_ns: u64, from: u32, to: u32) -> Event {
    at(monotonic_ns, EventKind::Switch { from, to: task(to) })
}

fn enter(monotonic_ns: u64, context: ContextKind) -> Event {
    at(monotonic_ns, EventKind::Enter(context))
}

fn exit(monotonic_ns: u64, context: ContextKind) -> Event {
    at(monotonic_ns, EventKind::Exit(context))
}

/// Without a calibration.
fn accounted(events: &[Event], window: Range<u64>) -> Account {
    account(CPU, events, window, &[OWN], &Edges::default())
}

const EDGES: Edges = Edges { entry_ns: 30, exit_ns: 50, return_ns: 80 };

fn accounted_with_edges(events: &[Event], window: Range<u64>) -> Account {
    account(CPU, events, window, &[OWN], &EDGES)
}

/// The entry and exit in each.
fn edges(account: &Account) -> Vec<u64> {
    account.spans.iter().map(|span| span.entry_exit_ns).collect()
}

/// The occupants, with begin and duration.
fn spans(account: &Account) -> Vec<(Occupant, u64, u64)> {
    account.spans.iter().map(|span| (span.occupant.clone(), span.begin_ns, span.duration_ns)).collect()
}

#[test]
fn a_woken_thread_has_the_cpu_until_the_measured_one() {
    let irq = ContextKind::Irq(45);
    let events = [
        switch(50, OWN, 0),
        at(60, EventKind::Idle(2)),
        enter(1_000, irq),
        at(1_100, EventKind::Waking { woken: 7, waker: Task::default() }),
        exit(1_300, irq),
        switch(1_400, 0, 7),
        enter(2_000, TIMER),
        at(2_050, EventKind::Waking { woken: OWN, waker: Task::default() }),
        exit(2_100, TIMER),
        switch(9_000, 7, OWN),
    ];
    let account = accounted(&events, 500..9_200);
    assert_eq!(
        spans(&account),
        [
            (Occupant::Idle(Some(2)), 500, 600),
            (Occupant::Context(irq), 1_000, 300),
            (Occupant::Thread(task(7)), 1_400, 7_500),
            (Occupant::Context(TIMER), 2_000, 100),
        ]
    );
    assert_eq!(account.unexplained_ns, 200);
    assert_eq!(account.spans[2].woken, Some(Woken::Here(Occupant::Context(irq))));
    assert!(account.is_whole);
}

fn kept(monotonic_ns: u64, stack: &[u64]) -> Event {
    let kept = DelayedWakeup { woken: Some(OWN), stack: stack.to_vec(), ..DelayedWakeup::default() };
    at(monotonic_ns, EventKind::Kept(Box::new(kept)))
}

/// The stacks of the spans.
fn stacks(account: &Account) -> Vec<(Occupant, Vec<u64>)> {
    let of = |span: &Span| Some((span.occupant.clone(), span.kept.as_ref()?.stack.clone()));
    account.spans.iter().filter_map(of).collect()
}

#[test]
fn a_wakeups_stack_goes_to_the_interrupted_span() {
    let wakeup = [enter(2_000, TIMER), kept(2_050, &[1, 2]), exit(2_100, TIMER)];
    let events = [&[switch(50, OWN, 7)][..], &wakeup, &[switch(9_000, 7, 8), switch(9_500, 8, OWN)]].concat();
    assert_eq!(stacks(&accounted(&events, 1_990..9_600)), [(Occupant::Thread(task(7)), vec![1, 2])]);
    // The context above the thread delayed it, and not the thread.
    let softirq = ContextKind::Softirq(3);
    let events = [&[switch(50, OWN, 7), enter(60, softirq)][..], &wakeup, &[exit(8_000, softirq)]].concat();
    assert_eq!(stacks(&accounted(&events, 1_990..8_000)), [(Occupant::Context(softirq), vec![1, 2])]);
}

#[test]
fn a_wakeup_before_the_window_counts_until_its_thread_runs() {
    // It waits for the CPU since then.
    let events = [switch(50, OWN, 7), kept(60, &[1]), switch(900, 7, OWN)];
    assert_eq!(stacks(&accounted(&events, 100..1_000)), [(Occupant::Thread(task(7)), vec![1])]);
    let ran =
        [switch(50, OWN, 7), kept(60, &[1]), switch(70, 7, OWN), switch(80, OWN, 7), switch(900, 7, OWN)];
    assert_eq!(stacks(&accounted(&ran, 100..1_000)), []);
    // Nor does one that found the CPU free.
    let events = [switch(50, OWN, 0), kept(160, &[1]), switch(900, 0, OWN), kept(950, &[2])];
    assert_eq!(stacks(&accounted(&events, 100..1_000)), []);
}

#[test]
fn a_thread_has_its_name_at_that_time() {
    let named = |comm: &str| Occupant::Thread(Task { comm: comm.into(), ..task(7) });
    let renamed =
        |monotonic_ns, pid, comm: &str| at(monotonic_ns, EventKind::Renamed { pid, comm: comm.into() });
    let events = [
        switch(50, OWN, 7),
        renamed(90, 7, "before"),
        renamed(300, 7, "after"),
        renamed(310, 8, "another"),
        switch(900, 7, OWN),
    ];
    let account = accounted(&events, 100..1_000);
    assert_eq!(spans(&account), [(named("before"), 100, 200), (named("after"), 300, 600)]);
}

#[test]
fn does_not_count_nested_interrupts_twice() {
    let softirq = ContextKind::Softirq(3);
    let events = [
        switch(0, 0, OWN),
        enter(100, softirq),
        enter(200, TIMER),
        at(290, EventKind::Nmi { handler: 9, duration_ns: 50 }),
        exit(300, TIMER),
        exit(500, softirq),
    ];
    let account = accounted(&events, 50..600);
    assert_eq!(
        spans(&account),
        [
            (Occupant::Context(softirq), 100, 300),
            (Occupant::Context(TIMER), 200, 50),
            (Occupant::Nmi(9), 240, 50),
        ]
    );
    assert_eq!(account.unexplained_ns, 150);
}

#[test]
fn an_ipi_has_the_sender_of_its_request() {
    let sent =
        |pid, request| Sent { by: task(pid), cpu: 0, request: Some(request), function: 0xf, stack: vec![1] };
    let call = ContextKind::Call { function: 0xf, request: 0xc2 };
    let events = [
        switch(0, 0, OWN),
        Event { monotonic_ns: 90, cpu: 0, kind: EventKind::Sent(Box::new(sent(11, 0xc1))) },
        Event { monotonic_ns: 95, cpu: 0, kind: EventKind::Sent(Box::new(sent(12, 0xc2))) },
        enter(100, CALL_VECTOR),
        enter(110, call),
        exit(140, call),
        exit(150, CALL_VECTOR),
    ];
    let account = accounted(&events, 50..200);
    assert_eq!(spans(&account), [(Occupant::Context(call), 100, 50)]);
    assert_eq!(account.spans[0].sent.as_ref().map(|sent| sent.by.pid), Some(12));
}

#[test]
fn an_interrupt_that_called_nothing_served_the_last_request() {
    let wake = Sent { by: task(5), cpu: 1, request: Some(0xaa), function: 0xbb, stack: Vec::new() };
    let events = [
        switch(0, 0, OWN),
        Event { monotonic_ns: 90, cpu: 1, kind: EventKind::Sent(Box::new(wake.clone())) },
        enter(100, CALL_VECTOR),
        exit(150, CALL_VECTOR),
    ];
    let account = accounted(&events, 50..200);
    assert_eq!((account.spans.len(), account.spans[0].sent.as_ref()), (1, Some(&wake)));
}

#[test]
fn one_reschedule_serves_all_requests() {
    let asks = |monotonic_ns, pid| {
        let sent = Sent { by: task(pid), cpu: 0, ..Sent::default() };
        Event { monotonic_ns, cpu: 0, kind: EventKind::Sent(Box::new(sent)) }
    };
    let vector = ContextKind::Vector(Vector::Reschedule);
    let events = [
        switch(0, 0, OWN),
        asks(10, 8),
        asks(20, 9),
        enter(100, vector),
        exit(110, vector),
        enter(150, vector),
        exit(160, vector),
    ];
    let sender = |span: usize| accounted(&events, 50..200).spans[span].sent.as_ref().map(|sent| sent.by.pid);
    assert_eq!((sender(0), sender(1)), (Some(9), None));
}

#[test]
fn softirqs_wait_when_their_thread_waits() {
    let softirq = ContextKind::Softirq(1);
    let events = [
        switch(0, OWN, 20),
        enter(100, softirq),
        switch(200, 20, 30),
        switch(300, 30, 20),
        exit(400, softirq),
        switch(500, 20, OWN),
    ];
    let account = accounted(&events, 0..600);
    assert_eq!(
        spans(&account),
        [
            (Occupant::Thread(task(20)), 0, 100),
            (Occupant::Context(softirq), 100, 200),
            (Occupant::Thread(task(30)), 200, 100),
            (Occupant::Thread(task(20)), 400, 100),
        ]
    );
}

#[test]
fn a_page_fault_lasts_until_its_thread_goes_on() {
    let syscall = ContextKind::Syscall(1);
    let events = [
        switch(0, 0, OWN),
        at(10, EventKind::Fault(0xbad)),
        at(100, EventKind::Fault(0x1000)),
        at(300, EventKind::Fault(0x2000)),
        enter(400, syscall),
        exit(450, syscall),
    ];
    let account = accounted(&events, 50..500);
    assert_eq!(
        spans(&account),
        [
            (Occupant::Fault(0x1000), 100, 200),
            (Occupant::Fault(0x2000), 300, 100),
            (Occupant::Context(syscall), 400, 50),
        ]
    );
    assert_eq!(account.unexplained_ns, 100, "a fault from before the window is over");
}

#[test]
fn lists_events_that_take_no_time() {
    let events = [
        at(10, EventKind::Frequency { khz: 800_000 }),
        at(100, EventKind::Frequency { khz: 3_000_000 }),
        at(110, EventKind::Migrate { pid: OWN, to: 3 }),
        at(120, EventKind::Migrate { pid: 55, to: 3 }),
        at(130, EventKind::TickKept(4)),
    ];
    let account = accounted(&events, 50..200);
    assert_eq!(account.points, [(100, Point::Frequency(3_000_000)), (110, Point::Migrated(3))]);
    assert_eq!((account.tick_kept, account.unexplained_ns), (Some(4), 150));
}

#[test]
fn reports_a_ring_that_is_too_short() {
    assert!(!accounted(&[switch(100, 0, OWN)], 50..200).is_whole);
    assert!(!accounted(&[], 50..200).is_whole);
    assert_eq!(accounted(&[], 50..200).unexplained_ns, 150);
}

#[test]
fn a_gap_beside_one_interruption_is_its_edges() {
    let events = [switch(0, 0, OWN), enter(100, TIMER), exit(110, TIMER)];
    let short = accounted_with_edges(&events, 80..150);
    assert_eq!(spans(&short), [(Occupant::Context(TIMER), 80, 70)]);
    assert_eq!((edges(&short), short.unexplained_ns), (vec![60], 0));
    // The firmware, or a hypervisor, had the rest.
    let long = accounted_with_edges(&events, 50..1_000);
    assert_eq!(spans(&long), [(Occupant::Context(TIMER), 70, 90)]);
    assert_eq!((edges(&long), long.unexplained_ns), (vec![80], 860));
}

#[test]
fn a_gap_without_events_stays_unexplained() {
    let events = [switch(0, 0, OWN), enter(100, TIMER), exit(110, TIMER)];
    let account = accounted_with_edges(&events, 500..520);
    assert_eq!((account.spans.len(), account.unexplained_ns), (0, 20));
}

#[test]
fn between_two_interruptions_each_has_its_edge() {
    let irq = ContextKind::Irq(9);
    let events = [switch(0, 0, OWN), enter(100, TIMER), exit(110, TIMER), enter(150, irq), exit(160, irq)];
    // 40 ns are less than an exit and an entry: 25 and 15.
    let account = accounted_with_edges(&events, 90..170);
    assert_eq!(spans(&account), [(Occupant::Context(TIMER), 90, 45), (Occupant::Context(irq), 135, 35)]);
    assert_eq!((edges(&account), account.unexplained_ns), (vec![35, 25], 0));
}

#[test]
fn a_sleeper_returns_from_the_kernel_after_the_switch_to_it() {
    let events = [
        switch(50, OWN, 0),
        enter(1_000, TIMER),
        exit(1_100, TIMER),
        at(1_150, EventKind::Waking { woken: OWN, waker: Task::default() }),
        switch(1_200, 0, OWN),
    ];
    let account = accounted_with_edges(&events, 900..1_260);
    assert_eq!(
        spans(&account),
        [
            (Occupant::Idle(None), 900, 200),
            (Occupant::Context(TIMER), 1_000, 100),
            (Occupant::Return, 1_200, 60)
        ]
    );
    assert_eq!(account.unexplained_ns, 0);
    assert!(account.spans[2].woken.is_some());
    let late = accounted_with_edges(&events, 900..1_500);
    assert_eq!((edges(&late), late.unexplained_ns), (vec![0, 0, 80], 220));
}

#[test]
fn a_thread_that_took_the_cpu_has_both_switches() {
    let events = [switch(0, 0, OWN), switch(100, OWN, 7), switch(500, 7, OWN)];
    let account = accounted_with_edges(&events, 80..550);
    assert_eq!(spans(&account), [(Occupant::Thread(task(7)), 80, 470)]);
    assert_eq!((edges(&account), account.unexplained_ns), (vec![70], 0));
}

#[test]
fn edges_of_a_call_are_those_of_the_interrupt_that_called_it() {
    let call = ContextKind::Call { function: 0xf, request: 0xc2 };
    let events = [
        switch(0, 0, OWN),
        enter(100, CALL_VECTOR),
        enter(110, call),
        exit(140, call),
        exit(150, CALL_VECTOR),
    ];
    let account = accounted_with_edges(&events, 80..190);
    assert_eq!(spans(&account), [(Occupant::Context(call), 80, 110)]);
    assert_eq!((edges(&account), account.unexplained_ns), (vec![60], 0));
}

#[test]
fn a_calibration_measures_around_one_interruption() {
    let events = [
        switch(0, 0, OWN),
        enter(100, CALL_VECTOR),
        exit(150, CALL_VECTOR),
        switch(400, OWN, 0),
        switch(600, 0, OWN),
        enter(800, TIMER),
        exit(810, TIMER),
    ];
    let around = |window| cause::account::around(CPU, &events, window, &[OWN]);
    assert_eq!(around(80..190), Some((Some(20), 40)));
    assert_eq!(around(450..625), Some((None, 25)), "it slept");
    assert_eq!(around(200..300), None, "nothing happened");
    assert_eq!(around(80..805), None, "more than one context");
    assert_eq!(around(120..190), None, "the interruption began before");
}

#[test]
fn a_thread_that_ended_has_no_later_time() {
    let exit_call = ContextKind::Syscall(syscalls::Sysno::exit as u64);
    let account = accounted(&[switch(0, 0, OWN), enter(10, exit_call)], 50..200);
    assert_eq!((account.spans.len(), account.unexplained_ns), (0, 150));
}

#[test]
fn before_the_first_event_the_occupant_is_unknown() {
    let events = [switch(1_000, 7, OWN), enter(1_100, TIMER), exit(1_150, TIMER)];
    let account = accounted_with_edges(&events, 200..1_160);
    // Thread 7 may have come just before.
    assert_eq!(spans(&account), [(Occupant::Return, 1_000, 72), (Occupant::Context(TIMER), 1_072, 88)]);
    assert_eq!((account.unexplained_ns, account.longest_unexplained), (800, 200..1_000));
    assert!(!account.is_whole);
}

fn things() -> impl Strategy<Value = ContextKind> {
    prop_oneof![
        (0..3u32).prop_map(ContextKind::Irq),
        Just(TIMER),
        Just(CALL_VECTOR),
        Just(ContextKind::Vector(Vector::Reschedule)),
        (0..2u64).prop_map(|request| ContextKind::Call { function: 5, request }),
        (0..3u32).prop_map(ContextKind::Softirq),
        (0..2u64).prop_map(ContextKind::Work),
        Just(ContextKind::Syscall(1)),
    ]
}

fn whats() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        4 => things().prop_map(EventKind::Enter),
        4 => things().prop_map(EventKind::Exit),
        3 => (0..4u32, prop_oneof![Just(OWN), 0..4u32])
            .prop_map(|(from, to)| EventKind::Switch { from, to: task(to) }),
        1 => (0..3_000u64).prop_map(|duration_ns| EventKind::Nmi { handler: 1, duration_ns }),
        1 => (0..3u32).prop_map(EventKind::Idle),
        1 => (0..9u64).prop_map(EventKind::Fault),
        1 => (0..2u64).prop_map(EventKind::Timer),
        1 => (0..4u32).prop_map(|woken| EventKind::Waking { woken, waker: task(9) }),
        1 => (0..9u64, 0..2i32).prop_map(|(address, in_user_mode)| {
            let priorities = (None, Some(19 + in_user_mode * 101));
            let in_user_mode = in_user_mode > 0;
            let (woken, stack) = (Some(OWN), vec![address]);
            let kept = DelayedWakeup { woken, priorities, in_user_mode, stack, ..DelayedWakeup::default() };
            EventKind::Kept(Box::new(kept))
        }),
        1 => (0..4u32).prop_map(|pid| EventKind::Renamed { pid, comm: "other".into() }),
        1 => (0..2u64).prop_map(|request| {
            EventKind::Sent(Box::new(Sent { request: Some(request), ..Sent::default() }))
        }),
    ]
}

fn edges_of_any_length() -> impl Strategy<Value = Edges> {
    let ns = || prop_oneof![Just(0), 0..2_000u64, Just(u64::MAX)];
    (ns(), ns(), ns()).prop_map(|(entry_ns, exit_ns, return_ns)| Edges { entry_ns, exit_ns, return_ns })
}

fn story() -> impl Strategy<Value = Vec<Event>> {
    let event = (0..1_000u64, 0..2u32, whats());
    proptest::collection::vec(event, 0..200).prop_map(|steps| {
        let mut now = 0;
        let event = |(step, cpu, kind): (u64, u32, EventKind)| {
            now += step;
            Event { monotonic_ns: now, cpu: CPU - cpu, kind }
        };
        steps.into_iter().map(event).collect()
    })
}

proptest! {
    #[test]
    fn durations_and_the_remainder_are_the_window(
        events in story(),
        begin in 0..80_000u64,
        length in 0..80_000u64,
        edges in edges_of_any_length(),
    ) {
        let window = begin..begin + length;
        let account = account(CPU, &events, window.clone(), &[OWN], &edges);
        let explained = account.spans.iter().map(|span| span.duration_ns).sum::<u64>();
        prop_assert_eq!(explained + account.unexplained_ns, length);
        for span in &account.spans {
            prop_assert!(window.contains(&span.begin_ns), "{:?}", span);
            prop_assert!(span.entry_exit_ns <= span.duration_ns, "{:?}", span);
            prop_assert!(span.begin_ns + span.duration_ns <= window.end, "{:?}", span);
        }
        prop_assert!(account.spans.is_sorted_by_key(|span| span.begin_ns));
        prop_assert!(account.points.iter().all(|(monotonic_ns, _)| window.contains(monotonic_ns)));
    }

    #[test]
    fn edges_reduce_only_the_remainder(
        events in story(),
        begin in 0..80_000u64,
        length in 0..80_000u64,
        edges in edges_of_any_length(),
    ) {
        let window = begin..begin + length;
        let bare = accounted(&events, window.clone());
        let whole = account(CPU, &events, window, &[OWN], &edges);
        let sum: u64 = whole.spans.iter().map(|span| span.entry_exit_ns).sum();
        prop_assert_eq!(whole.unexplained_ns + sum, bare.unexplained_ns);
        // A span whose entry and exit events have one time has no other time.
        let handled = |account: &Account| {
            let spans = account.spans.iter();
            spans.map(|span| span.duration_ns.saturating_sub(span.entry_exit_ns)).sum::<u64>()
        };
        prop_assert_eq!(handled(&bare), handled(&whole));
        let most = edges.entry_ns.max(edges.exit_ns).max(edges.return_ns);
        if most == 0 {
            prop_assert_eq!(bare, whole);
        }
    }

    #[test]
    fn what_came_after_the_next_switch_changes_nothing(
        events in story(), begin in 0..40_000u64, length in 0..40_000u64
    ) {
        let window = begin..begin + length;
        // The switch still shows the thread that ran until then.
        let is_over = |event: &&Event| {
            event.monotonic_ns >= window.end && matches!(event.kind, EventKind::Switch { .. })
        };
        let until = events.iter().position(|event| is_over(&event)).map_or(events.len(), |place| place + 1);
        let before = events[..until].to_vec();
        prop_assert_eq!(accounted(&events, window.clone()), accounted(&before, window));
    }
}

/// No switch leaves a loop that never sleeps.
#[test]
fn without_a_switch_the_measured_thread_has_the_cpu() {
    let interrupted = [enter(500, TIMER), exit(600, TIMER), enter(1_030, TIMER), exit(1_200, TIMER)];
    let account = accounted_with_edges(&interrupted, 1_000..1_250);
    assert_eq!(spans(&account), [(Occupant::Context(TIMER), 1_000, 250)]);
    assert_eq!(account.unexplained_ns, 0);
    // Not if a switch in the window leaves a thread.
    let events = [&interrupted[..], &[switch(1_210, 7, OWN)]].concat();
    let account = accounted_with_edges(&events, 1_000..1_250);
    assert!(
        account.spans.iter().any(|span| matches!(&span.occupant, Occupant::Thread(task) if task.pid == 7))
    );
}
