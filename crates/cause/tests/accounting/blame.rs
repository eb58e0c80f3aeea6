// SPDX-License-Identifier: MIT OR Apache-2.0
//! No innocent thread is blamed: not in user mode, not before a switch, not while the measured one is stolen
//! from, throttled or stopped.

use cause::account::{Account, Occupant, Span, Withheld};
use cause::event::{ContextKind, DelayedWakeup, Event, EventKind, Task};

use super::{OWN, TIMER, accounted, accounted_with_edges, at, enter, exit, kept, spans, switch, task};

/// The wakeup's interrupt found user mode, with the priorities of the thread that had the CPU and of the
/// measured one.
fn found_user_mode(monotonic_ns: u64, has: i32, woken: i32) -> Event {
    let priorities = (Some(has), Some(woken));
    let kept = DelayedWakeup { woken: Some(OWN), priorities, in_user_mode: true, ..DelayedWakeup::default() };
    at(monotonic_ns, EventKind::Kept(Box::new(kept)))
}

/// Thread 7 has the CPU from long before the window on. The timer is due at 1,000 and its interrupt comes at
/// 9,000.
fn late(has: i32, woken: i32, clock: &[(u64, u64)]) -> Account {
    let to = Task { prio: Some(has), ..task(7) };
    let mut events = vec![
        at(50, EventKind::Switch { from: OWN, to }),
        enter(9_000, TIMER),
        found_user_mode(9_020, has, woken),
        exit(9_100, TIMER),
        switch(9_150, 7, OWN),
    ];
    events.extend(clock.iter().map(|(at_ns, stolen_ns)| at(*at_ns, EventKind::Stolen(*stolen_ns))));
    events.sort_by_key(|event| event.monotonic_ns);
    accounted_with_edges(&events, 1_000..9_250)
}

const FIFO: i32 = 19;
const NORMAL: i32 = 120;

#[test]
fn a_thread_in_user_mode_keeps_no_wakeup() {
    let account = late(NORMAL, FIFO, &[]);
    let expected = [(Occupant::Context(TIMER), 8_970, 161), (Occupant::Return, 9_131, 99)];
    assert_eq!(spans(&account)[..1].len() + 1, expected.len());
    assert!(!account.spans.iter().any(|span| matches!(span.occupant, Occupant::Thread(_))), "{account:?}");
    assert_eq!((account.late_ns, account.longest_unexplained.clone()), (7_970, 1_000..8_970));
    assert!(account.unexplained_ns >= 7_970 && !account.has_steal_clock);
}

#[test]
fn the_hypervisors_clock_explains_a_late_interrupt() {
    // 6,000 of the time between the last switch and the interrupt.
    let account = late(NORMAL, FIFO, &[(50, 500), (9_020, 6_500), (9_150, 6_500)]);
    assert_eq!(spans(&account)[0], (Occupant::Hypervisor, 1_000, 6_000));
    assert_eq!((account.late_ns, account.has_steal_clock), (1_970, true));
    let still = late(NORMAL, FIFO, &[(50, 500), (9_020, 500)]);
    assert_eq!((still.late_ns, still.has_steal_clock), (7_970, true));
    assert_ne!(still.spans[0].occupant, Occupant::Hypervisor);
}

#[test]
fn only_a_thread_that_gives_way_is_innocent() {
    let named = |has, woken| {
        let account = late(has, woken, &[]);
        let thread = account.spans.iter().find(|span| matches!(span.occupant, Occupant::Thread(_)));
        thread.map(|span| (span.begin_ns, span.duration_ns))
    };
    // One of higher or of the same priority would have had the CPU all the same.
    assert_eq!([named(0, FIFO), named(FIFO, FIFO)].map(|span| span.map(|span| span.0)), [Some(1_000); 2]);
    assert_eq!(named(30, FIFO), None);
    // An ordinary one holds off no interrupt either; what follows is for the scheduler to say.
    assert_eq!(named(NORMAL, NORMAL), Some((9_100, 50)));
}

/// The measured thread leaves the CPU at 1,000 to another, and has it again at 9,000.
fn kept_off(own: i32, [is_stopped, is_throttled]: [bool; 2], to: Task) -> Vec<Occupant> {
    let events = [
        switch(0, 7, OWN),
        at(1_000, EventKind::Left { pid: OWN, prio: Some(own), is_stopped, is_throttled }),
        at(1_000, EventKind::Switch { from: OWN, to: to.clone() }),
        at(1_500, EventKind::Idle(1)),
        switch(2_000, to.pid, 8),
        switch(9_000, 8, OWN),
    ];
    spans(&accounted(&events, 500..9_600)).into_iter().map(|(occupant, ..)| occupant).collect()
}

#[test]
fn not_running_has_a_reason_of_its_own() {
    let to = |pid, prio| Task { prio: Some(prio), ..task(pid) };
    let of = |why| vec![Occupant::Withheld(why); 2];
    let limit = Withheld::Throttled { prio: FIFO };
    let quota = Withheld::Throttled { prio: NORMAL };
    let [ready, stopped, throttled] = [[false, false], [true, false], [false, true]];
    assert_eq!(kept_off(FIFO, ready, to(7, NORMAL)), of(limit), "a thread that should wait");
    assert_eq!(kept_off(FIFO, ready, to(0, NORMAL)), of(limit), "nothing");
    assert_eq!(kept_off(NORMAL, throttled, to(7, NORMAL)), of(quota), "whatever runs then is innocent");
    // Which of two ordinary threads gets the CPU, others decide.
    assert_eq!(
        kept_off(NORMAL, ready, to(0, NORMAL)),
        [Occupant::Withheld(quota), Occupant::Thread(task(8))]
    );
    assert_eq!(kept_off(FIFO, stopped, to(7, NORMAL)), of(Withheld::Stopped));
    // It gives way; but not to the thread after that one.
    assert_eq!(kept_off(FIFO, ready, to(7, 0))[..2], [Occupant::Thread(to(7, 0)), Occupant::Withheld(limit)]);
    assert_eq!(kept_off(NORMAL, ready, to(7, NORMAL))[0], Occupant::Thread(to(7, NORMAL)));
}

#[test]
fn a_quota_used_up_at_the_wakeup_is_named() {
    let events = [
        switch(50, OWN, 7),
        enter(1_000, TIMER),
        at(1_010, EventKind::Throttled { pid: OWN, prio: NORMAL }),
        exit(1_100, TIMER),
        switch(2_000, 7, 0),
        switch(2_500, 0, 8),
        switch(3_000, 8, OWN),
    ];
    let quota = Occupant::Withheld(Withheld::Throttled { prio: NORMAL });
    let spans = spans(&accounted(&events, 1_000..3_100));
    let withheld: u64 = spans.iter().filter(|(occupant, ..)| *occupant == quota).map(|span| span.2).sum();
    assert_eq!(withheld, 1_900, "{spans:?}");
    assert!(!spans.iter().any(|(occupant, ..)| matches!(occupant, Occupant::Thread(_))), "{spans:?}");
}

#[test]
fn a_thread_at_an_interrupts_edge_is_not_named() {
    let named = |at_edge| {
        let priorities = (Some(NORMAL), Some(FIFO));
        let kept = DelayedWakeup {
            woken: Some(OWN),
            priorities,
            at_edge,
            stack: vec![1],
            ..DelayedWakeup::default()
        };
        let to = Task { prio: Some(NORMAL), ..task(7) };
        let events = [
            at(50, EventKind::Switch { from: OWN, to }),
            enter(1_000, TIMER),
            at(1_010, EventKind::Kept(Box::new(kept))),
            exit(1_100, TIMER),
            switch(3_000, 7, OWN),
        ];
        let account = accounted(&events, 900..3_100);
        account.spans.iter().any(|span| matches!(span.occupant, Occupant::Thread(_)))
    };
    assert_eq!([named(false), named(true)], [true, false]);
}

#[test]
fn a_woken_thread_that_is_passed_over_is_throttled() {
    let work = ContextKind::Work(0xf);
    let priorities = (Some(NORMAL), Some(FIFO));
    let kept = DelayedWakeup { woken: Some(OWN), priorities, stack: vec![1], ..DelayedWakeup::default() };
    let events = [
        switch(50, OWN, 7),
        enter(1_000, TIMER),
        at(1_010, EventKind::Kept(Box::new(kept))),
        exit(1_100, TIMER),
        switch(3_000, 7, 8),
        enter(3_100, work),
        exit(3_200, work),
        switch(5_000, 8, OWN),
    ];
    let why = Occupant::Withheld(Withheld::Throttled { prio: FIFO });
    assert_eq!(
        spans(&accounted(&events, 1_000..5_100)),
        [
            (Occupant::Context(TIMER), 1_000, 100),
            (Occupant::Thread(task(7)), 1_100, 1_900),
            (why, 3_000, 2_000)
        ]
    );
}

#[test]
fn a_thread_is_blamed_only_where_the_wakeup_found_it_in_the_kernel() {
    let found = |outer: &[u64]| {
        let kept = DelayedWakeup {
            woken: Some(OWN),
            priorities: (None, Some(FIFO)),
            stack: vec![1, 2, 3],
            outer: outer.to_vec(),
            ..DelayedWakeup::default()
        };
        at(2_000, EventKind::Kept(Box::new(kept)))
    };
    let softirq = ContextKind::Softirq(9);
    let threads = |outer: &[u64]| {
        let events = [
            switch(50, OWN, 6),
            // The kernel goes from one to the other, when the timer is due already.
            switch(1_010, 6, 7),
            enter(1_100, softirq),
            found(outer),
            exit(3_000, softirq),
            switch(3_300, 7, OWN),
        ];
        let account = accounted_with_edges(&events, 1_000..3_400);
        let of = |span: &Span| match &span.occupant {
            Occupant::Thread(task) => Some((task.pid, span.kept.as_ref().map(|kept| kept.stack.clone()))),
            _ => None,
        };
        (account.spans.iter().filter_map(of).collect::<Vec<_>>(), account.unexplained_ns)
    };
    // Below the softirq user mode, or the thread's own part of the kernel.
    assert_eq!(threads(&[]).0, []);
    assert_eq!(threads(&[2, 3]).0, [(7, Some(vec![2, 3]))]);
}

#[test]
fn stolen_time_is_no_threads_time() {
    let events = [
        at(100, EventKind::Stolen(1_000)),
        switch(100, OWN, 7),
        enter(2_000, TIMER),
        kept(2_050, &[1, 2]),
        exit(2_100, TIMER),
        at(9_000, EventKind::Stolen(7_950)),
        switch(9_000, 7, OWN),
    ];
    // Of the 8,900 since the switch 6,950 were stolen, and the thread had 6,900 within the window.
    let account = accounted(&events, 2_000..9_010);
    assert_eq!(
        spans(&account),
        [
            (Occupant::Context(TIMER), 2_000, 100),
            (Occupant::Thread(task(7)), 2_100, 1_950),
            (Occupant::Hypervisor, 2_100, 4_950)
        ]
    );
    assert_eq!(account.unexplained_ns, 10);
}
