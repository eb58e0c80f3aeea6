// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loops as records of the kernel, and their cycles.

use proptest::prelude::*;
use syscalls::Sysno;

use super::*;
use crate::model::{FEWEST, FEWEST_OF_KNOWN, Source, infer};
use crate::record::{Leaving, Waking};

mod locks;
mod shapes;

const PERIOD_NS: u64 = 1_000_000;
const OFFSET_NS: u64 = 123_456;

/// A thread's records.
struct Story {
    now_ns: u64,
    stays: Vec<Stay>,
}

impl Story {
    fn new() -> Story {
        Story { now_ns: OFFSET_NS, stays: Vec::new() }
    }

    /// Woken now, on the CPU so much later, and for so long.
    fn runs(&mut self, waking: Waking, late_ns: u64, ns: u64, leaving: Leaving) {
        let woken_ns = self.now_ns;
        self.now_ns += late_ns;
        let in_ns = self.now_ns;
        self.now_ns += ns;
        let out_ns = self.now_ns;
        self.stays.push(Stay { woken_ns: Some(woken_ns), in_ns, out_ns, waking, leaving, ..Stay::default() });
    }

    fn comes_back(&mut self, after_ns: u64, ns: u64, leaving: Leaving) {
        self.now_ns += after_ns;
        let in_ns = self.now_ns;
        self.now_ns += ns;
        self.stays.push(Stay { in_ns, out_ns: self.now_ns, leaving, ..Stay::default() });
    }
}

fn leaving(call: Sysno, arguments: [u64; 4]) -> Leaving {
    Leaving { sleeps: true, call: Some(call as u32), arguments, ..Leaving::default() }
}

/// Until a time on CLOCK_MONOTONIC, or for a time.
fn sleep(is_absolute: bool) -> Leaving {
    leaving(Sysno::clock_nanosleep, [1, u64::from(is_absolute), 0, 0])
}

fn timer(due_ns: u64) -> Waking {
    Waking { due_ns: Some(due_ns), ..Waking::default() }
}

fn by(waker: u32, name: &str) -> Waking {
    Waking { waker, waker_name: name.to_string(), ..Waking::default() }
}

fn cycles(stays: &[Stay]) -> Vec<LoopCycle> {
    let mut cycles = CycleCutter::new(infer(stays, FEWEST, None).unwrap());
    stays.iter().filter_map(|stay| cycles.add(1, stay.clone())).collect()
}

/// `count` cycles of a loop that sleeps until the next period, and of those `each` more.
fn periodic(count: u64, mut each: impl FnMut(&mut Story, u64)) -> Vec<Stay> {
    let mut story = Story::new();
    for n in 1..=count {
        let due_ns = OFFSET_NS + n * PERIOD_NS;
        story.now_ns = due_ns + 500;
        each(&mut story, due_ns);
    }
    story.stays
}

#[test]
fn finds_period_offset_and_due_times_of_an_absolute_sleep() {
    let stays = periodic(100, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!(model.wait, Wait::Sleep { clock: 1, is_absolute: true });
    assert_eq!((model.period_ns, model.offset_ns), (Some(PERIOD_NS), Some(OFFSET_NS)));
    assert_eq!((model.jitter_ns, model.has_grid()), (0, true));
    let cycles = cycles(&stays);
    // The first stay began before the records.
    assert_eq!(cycles.len(), 99);
    for (n, cycle) in (2..).zip(&cycles) {
        assert_eq!(cycle.due_ns, OFFSET_NS + n * PERIOD_NS);
        assert_eq!((cycle.wakeup_ns(), cycle.execution_ns, cycle.response_ns()), (2_500, 30_000, 32_500));
    }
}

#[test]
fn a_skipped_period_does_not_change_the_period() {
    let mut stays = periodic(100, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    stays.drain(40..43);
    stays.remove(70);
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!((model.period_ns, model.offset_ns), (Some(PERIOD_NS), Some(OFFSET_NS)));
}

#[test]
fn no_cycle_is_made_of_a_hole_in_the_records() {
    let whole = periodic(100, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    let model = infer(&whole, FEWEST, None).unwrap();
    for gone in [1, 2, 20] {
        let mut stays = whole.clone();
        stays.drain(50..50 + gone);
        stays[50].lost = gone as u32;
        let mut cutter = CycleCutter::new(model.clone());
        let cycles: Vec<_> = stays.into_iter().filter_map(|stay| cutter.add(1, stay)).collect();
        assert!(cycles.iter().all(|cycle| cycle.response_ns() < PERIOD_NS), "{gone}");
        // The cycle that was open, those that are gone, and the one of which the begin is not known.
        assert_eq!(cycles.len(), cycle_count(&model, &whole) - gone - 1, "{gone}");
        assert_eq!(cycles.iter().filter(|cycle| cycle.is_after_loss).count(), 1, "{gone}");
    }
}

fn cycle_count(model: &Model, stays: &[Stay]) -> usize {
    let mut cutter = CycleCutter::new(model.clone());
    stays.iter().filter_map(|stay| cutter.add(1, stay.clone())).count()
}

#[test]
fn a_loop_of_a_known_period_needs_few_releases() {
    let stays = periodic(4, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    assert_eq!(infer(&stays, FEWEST, None), None);
    assert_eq!(
        infer(&stays, FEWEST_OF_KNOWN, None).unwrap().wait,
        Wait::Sleep { clock: 1, is_absolute: true }
    );
}

#[test]
fn a_short_sleep_within_a_cycle_is_blocking() {
    let stays = periodic(50, |story, due_ns| {
        story.runs(timer(due_ns), 2_000, 10_000, sleep(false));
        story.now_ns += 50_000;
        let due_ns = story.now_ns - 400;
        story.runs(timer(due_ns), 1_000, 20_000, sleep(true));
    });
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 49);
    for cycle in &cycles {
        assert_eq!(cycle.execution_ns, 30_000);
        assert_eq!(cycle.blocked.len(), 1);
        assert_eq!(cycle.blocked[0].ns, 50_000);
        assert_eq!(cycle.blocked[0].on, Wait::Sleep { clock: 1, is_absolute: false });
        assert_eq!((cycle.remainder_ns(), cycle.ended_ns - cycle.due_ns), (0, 500 + 2_000 + 81_000));
    }
}

#[test]
fn a_lock_names_the_thread_that_held_it() {
    let lock = Leaving { words: [2, 0, 77, 1], ..leaving(Sysno::futex, [0x7000, 0x80, 2, 0]) };
    let stays = periodic(50, |story, due_ns| {
        story.runs(timer(due_ns), 2_000, 10_000, lock.clone());
        story.now_ns += 300_000;
        story.runs(by(77, "logger"), 3_000, 20_000, sleep(true));
    });
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 49);
    let blocked = &cycles[0].blocked[0];
    assert_eq!(blocked.on, Wait::Lock { address: 0x7000, inherits_priority: false });
    assert_eq!((blocked.ns, blocked.ended_by.clone()), (300_000, Some((77, "logger".to_string()))));
    assert_eq!(blocked.words[2], 77);
    // Woken, but not at once on the CPU.
    assert_eq!(cycles[0].preempted.iter().map(|part| part.ns).collect::<Vec<_>>(), [3_000]);
}

#[test]
fn preemption_names_the_other_task() {
    let next = Scheduled { id: 9, prio: 10, policy: 1, name: "irq/9".to_string() };
    let stays = periodic(50, |story, due_ns| {
        story.runs(timer(due_ns), 2_000, 10_000, Leaving { next: next.clone(), ..Leaving::default() });
        story.comes_back(7_000, 5_000, sleep(true));
    });
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 49);
    assert_eq!(cycles[0].preempted.len(), 1);
    assert_eq!((cycles[0].preempted[0].ns, &cycles[0].preempted[0].by), (7_000, &next));
    assert_eq!((cycles[0].execution_ns, cycles[0].remainder_ns()), (15_000, 0));
}

#[test]
fn a_loop_without_a_timer_is_driven_by_the_thread_that_wakes_it() {
    let stays = periodic(50, |story, _| {
        story.runs(by(5, "producer"), 2_000, 10_000, leaving(Sysno::read, [7, 0, 0, 0]));
    });
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!(model.wait, Wait::Read(7));
    assert_eq!(model.release, Release::Event { waker: Some("producer".to_string()) });
    assert_eq!((model.period_ns, model.has_grid()), (Some(PERIOD_NS), false));
    assert!(cycles(&stays).iter().all(|cycle| cycle.due_ns == cycle.woken_ns));
}

/// A loop that sleeps until each period and waits for a helper within its cycle, for longer than it sleeps.
/// In each third cycle the wait lasts past the due time, and the loop does not sleep.
fn starved(count: u64) -> Vec<Stay> {
    let semaphore = leaving(Sysno::futex, [0x8000, 0x189, 0, 0]);
    let mut has_slept = false;
    periodic(count, |story, due_ns| {
        match has_slept {
            true => story.runs(timer(due_ns), 2_000, 10_000, semaphore.clone()),
            // It is still in the previous cycle, and goes on to wait for the helper again.
            false => story.comes_back(0, 10_000, semaphore.clone()),
        }
        let n = due_ns / PERIOD_NS;
        has_slept = !n.is_multiple_of(3);
        story.now_ns += if has_slept { 850_000 + n * 7_919 % 50_000 } else { 980_000 };
        match has_slept {
            true => story.runs(by(6, "helper"), 2_000, 10_000, sleep(true)),
            false => {
                story.runs(by(6, "helper"), 2_000, 10_000, Leaving::default());
                story.stays.pop();
            }
        }
    })
}

#[test]
fn a_late_helper_does_not_take_the_cycles_end_from_the_timer() {
    let model = infer(&starved(90), FEWEST, None).unwrap();
    assert_eq!(model.wait, Wait::Sleep { clock: 1, is_absolute: true });
    assert_eq!((model.period_ns, model.has_grid()), (Some(PERIOD_NS), true));
}

#[test]
fn a_sleep_of_one_length_does_not_end_the_cycle_of_an_event() {
    let mut n = 0;
    let stays = periodic(90, |story, _| {
        n += 1;
        story.now_ns += n * n * 7_919 % 100_000;
        story.runs(by(5, "producer"), 2_000, 10_000, sleep(true));
        let due_ns = story.now_ns + 50_000;
        story.now_ns = due_ns + 1_000;
        story.runs(timer(due_ns), 0, 20_000, leaving(Sysno::read, [7, 0, 0, 0]));
    });
    assert_eq!(infer(&stays, FEWEST, None).unwrap().wait, Wait::Read(7));
}

#[test]
fn irregular_events_have_no_period() {
    let mut story = Story::new();
    for n in 0..60u64 {
        story.now_ns += 100_000 + (n * n * 7_919 % 13) * 1_000_000;
        story.runs(by(5, "net"), 1_000, 2_000, leaving(Sysno::recvfrom, [3, 0, 0, 0]));
    }
    let model = infer(&story.stays, FEWEST, None).unwrap();
    assert_eq!((model.wait, model.period_ns), (Wait::Receive(3), None));
    assert!(model.least_ns >= 100_000);
}

#[test]
fn a_cycle_that_overruns_its_period_begins_the_next_without_sleeping() {
    let mut stays = periodic(50, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    // The 20th ran for 1.2 ms: the timer of the 21st was due meanwhile.
    let cut = Leaving { sleeps: false, is_cut: true, ..sleep(true) };
    let due_ns = stays[20].waking.due_ns.unwrap();
    stays[19] = Stay { out_ns: due_ns + 200_000, leaving: cut, ..stays[19].clone() };
    let began_ns = due_ns + 200_000;
    let waking = timer(due_ns);
    stays[20] = Stay {
        woken_ns: Some(began_ns),
        in_ns: began_ns,
        out_ns: began_ns + 30_000,
        waking,
        ..stays[20].clone()
    };
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 49);
    assert!(cycles[18].response_ns() > PERIOD_NS);
    assert_eq!((cycles[19].due_ns, cycles[19].wakeup_ns()), (due_ns, 200_000));
}

/// Linux 7.2 arms no timer for a time that is past, so that a sleep until it is no wait.
#[test]
fn an_overrun_without_a_wait_skips_a_period() {
    let mut stays = periodic(50, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    // The 20th ran for 1.2 ms, and the 21st behind it.
    stays[19].out_ns = stays[20].waking.due_ns.unwrap() + 230_000;
    stays.remove(20);
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 48);
    assert!(cycles[18].response_ns() > PERIOD_NS);
    assert_eq!((cycles[19].due_ns - cycles[18].due_ns, cycles[19].wakeup_ns()), (2 * PERIOD_NS, 2_500));
}

/// Woken through a condition variable by `by`, repeatedly, at the addresses that `address` gives.
fn conditions(mut address: impl FnMut(u64) -> u64) -> Vec<Stay> {
    let mut n = 0;
    periodic(50, |story, _| {
        n += 1;
        let wait = leaving(Sysno::futex, [address(n), 0x189, 0, 0]);
        story.runs(by(5, "producer"), 2_000, 10_000, wait);
    })
}

#[test]
fn both_words_of_a_condition_variable_are_one_place() {
    let stays = conditions(|n| 0x7028 + n % 2 * 4);
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!((model.wait, model.period_ns), (Wait::Condition { address: 0x7028 }, Some(PERIOD_NS)));
    assert_eq!(cycles(&stays).len(), 49);
}

#[test]
fn new_conditions_for_each_wait_are_one_place() {
    let stays = conditions(|n| 0x7000 + n * 0x40);
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!((model.wait, model.period_ns), (Wait::Condition { address: 0 }, Some(PERIOD_NS)));
    assert_eq!(cycles(&stays).len(), 49);
}

#[test]
fn a_second_condition_in_each_cycle_is_blocking() {
    let stays = periodic(50, |story, _| {
        story.runs(by(5, "producer"), 2_000, 10_000, leaving(Sysno::futex, [0x8000, 0x189, 0, 0]));
        story.now_ns += 300_000;
        story.runs(by(6, "helper"), 2_000, 10_000, leaving(Sysno::futex, [0x7000, 0x189, 0, 0]));
    });
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!(model.wait, Wait::Condition { address: 0x7000 });
    assert_eq!(model.release, Release::Event { waker: Some("producer".to_string()) });
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 49);
    assert!(cycles.iter().all(|cycle| cycle.blocked[0].ended_by == Some((6, "helper".to_string()))));
}

#[test]
fn an_unseen_wakeup_is_due_on_the_grid() {
    let mut stays = periodic(50, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    let due_ns = stays[20].waking.due_ns.unwrap();
    stays[20] =
        Stay { woken_ns: None, is_begin_unseen: true, waking: Waking::default(), ..stays[20].clone() };
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 49);
    assert!(cycles[19].is_begin_unseen);
    assert_eq!((cycles[19].due_ns, cycles[19].wakeup_ns(), cycles[19].execution_ns), (due_ns, 2_500, 30_000));
}

#[test]
fn a_wait_in_every_tenth_cycle_ends_none() {
    let mut n = 0;
    let stays = periodic(400, |story, _| {
        n += 1;
        if n % 10 == 0 {
            story.runs(by(5, "producer"), 2_000, 10_000, leaving(Sysno::read, [9, 0, 0, 0]));
            story.now_ns += 100_000;
            story.runs(by(6, "filler"), 1_000, 10_000, leaving(Sysno::read, [7, 0, 0, 0]));
        } else {
            story.runs(by(5, "producer"), 2_000 + n % 7 * 1_000, 10_000, leaving(Sysno::read, [7, 0, 0, 0]));
        }
    });
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!((model.wait, model.period_ns), (Wait::Read(7), Some(PERIOD_NS)));
    assert_eq!(model.release, Release::Event { waker: Some("producer".to_string()) });
}

#[test]
fn an_absolute_sleep_from_now_keeps_no_grid() {
    let mut story = Story::new();
    let mut due_ns = OFFSET_NS;
    for n in 0..50 {
        story.now_ns = due_ns + 500;
        story.runs(timer(due_ns), 2_000, 30_000 + n % 5 * 1_000, sleep(true));
        due_ns = story.now_ns + PERIOD_NS;
    }
    let model = infer(&story.stays, FEWEST, None).unwrap();
    assert_eq!(model.release, Release::Timer { is_absolute: false });
    assert!(!model.has_grid());
}

#[test]
fn even_sleeps_without_a_grid_have_a_period() {
    let mut story = Story::new();
    let mut due_ns = OFFSET_NS;
    for n in 0..100 {
        story.now_ns = due_ns + 500;
        let wait = leaving(Sysno::futex, [0x8000, 0x189, 0, 0]);
        story.runs(timer(due_ns), 2_000, 30_000 + n % 3 * 1_000, wait);
        due_ns += if n < 60 { PERIOD_NS } else { PERIOD_NS + 50_000 };
    }
    let model = infer(&story.stays, FEWEST, None).unwrap();
    assert_eq!((model.release, model.period_ns), (Release::Timer { is_absolute: false }, Some(PERIOD_NS)));
}

/// In epoll_wait for a timerfd and for a descriptor: at the timer it triggers a client, which calls back in
/// the cycles of `is_called`.
fn driver(is_called: impl Fn(u64) -> bool) -> Vec<Stay> {
    let mut n = 0;
    periodic(100, |story, due_ns| {
        n += 1;
        let wait = leaving(Sysno::epoll_wait, [8, 0, 0, 0]);
        story.runs(Waking { timer: Some(0x1000), ..timer(due_ns) }, 2_000, 30_000, wait.clone());
        if is_called(n) {
            story.now_ns += 200_000 + n % 7 * 30_000;
            story.runs(by(6, "client"), 1_000, 10_000, wait);
        }
    })
}

#[test]
fn a_wait_for_a_timer_and_a_client_begins_a_cycle_by_the_timer() {
    let stays = driver(|_| true);
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!((model.wait, model.period_ns), (Wait::Epoll(8), Some(PERIOD_NS)));
    let shared = model.shared.unwrap();
    assert_eq!((shared.source, shared.within), (Source::Timer(Some(0x1000)), 1));
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 99);
    for cycle in &cycles {
        assert_eq!((cycle.execution_ns, cycle.blocked.len(), cycle.remainder_ns()), (40_000, 1, 0));
        assert_eq!(cycle.blocked[0].ended_by, Some((6, "client".to_string())));
    }
}

#[test]
fn a_client_that_fails_to_call_leaves_its_cycle_shorter() {
    let stays = driver(|n| n % 10 != 0);
    let cycles = cycles(&stays);
    // The last one waits for its client until the next one begins.
    assert_eq!(cycles.len(), 98);
    let short = cycles.iter().filter(|cycle| cycle.execution_ns == 30_000);
    assert_eq!(short.count(), 9);
    assert!(cycles.iter().all(|cycle| cycle.remainder_ns() == 0));
}

#[test]
fn events_in_few_cycles_do_not_end_cycles() {
    let cycles = cycles(&driver(|n| n % 2 == 0));
    assert_eq!(cycles.len(), 99);
    assert!(cycles.iter().all(|cycle| cycle.execution_ns == 30_000 && cycle.blocked.is_empty()));
}

#[test]
fn cycles_that_catch_up_do_not_shorten_the_period() {
    let mut story = Story::new();
    for n in 1..=200u64 {
        // Every 50th is two periods late, and the two after it come at once.
        let late_ns = if n % 50 < 3 { (2 - n % 50) * PERIOD_NS + n % 50 * 30_000 } else { 0 };
        story.now_ns = OFFSET_NS + n * PERIOD_NS + late_ns;
        story.runs(by(5, "server"), 2_000, 10_000, leaving(Sysno::read, [7, 0, 0, 0]));
    }
    let period_ns = infer(&story.stays, FEWEST, None).unwrap().period_ns.unwrap();
    assert!(period_ns.abs_diff(PERIOD_NS) < PERIOD_NS / 500, "{period_ns}");
}

/// An executor keeps a grid of its own, rounds each time-out up to a millisecond, and catches up when it is
/// late.
#[test]
fn time_outs_in_whole_milliseconds_have_the_period_of_the_programs_grid() {
    for (grid_ns, wait) in [
        (10_500_000, leaving(Sysno::epoll_wait, [3, 0, 0, 0])),
        (5_000_000, leaving(Sysno::epoll_wait, [3, 0, 0, 0])),
        (7_300_000, leaving(Sysno::poll, [0x1000, 1, 5, 0])),
    ] {
        let mut story = Story::new();
        let mut next_ns = OFFSET_NS;
        for n in 1..300u64 {
            // The first is late, and so is every 40th, by more than two periods.
            let late_ns = if n == 1 || n % 40 == 0 { grid_ns * 5 / 2 } else { 60_000 + n * 37 % 50_000 };
            let mut now_ns = story.now_ns;
            while next_ns <= now_ns {
                next_ns += grid_ns;
                now_ns += 100_000;
            }
            let due_ns = now_ns + (next_ns - now_ns).div_ceil(1_000_000) * 1_000_000;
            story.now_ns = due_ns;
            story.runs(timer(due_ns), late_ns, 100_000, wait.clone());
        }
        let period_ns = infer(&story.stays, FEWEST, None).unwrap().period_ns.unwrap();
        assert!(period_ns.abs_diff(grid_ns) < grid_ns / 200, "{period_ns} of {grid_ns}");
    }
}

/// A thread of an executor. Sometimes it waits for the timer itself, sometimes `reactor` did and wakes it. At
/// each tick it sends, and `reactor` wakes it again, in a stay that the same timer began.
#[test]
fn a_timer_that_wakes_another_thread_first_begins_a_cycle() {
    const TIMER: u64 = 0x1000;
    let (reactor, parked) =
        (leaving(Sysno::epoll_wait, [4, 0, 0, 0]), leaving(Sysno::futex, [0x7000, 0x80, 0, 0]));
    let mut n = 0;
    let stays = periodic(100, |story, due_ns| {
        n += 1;
        let wait = if n % 6 == 0 { &parked } else { &reactor };
        let inherited = Waking { inherited: Some((due_ns, TIMER)), ..by(6, "reactor") };
        // Its wait at the end of the previous cycle.
        match n > 1 && (n - 1) % 6 == 0 {
            true => {
                story.now_ns += 20_000;
                story.runs(inherited.clone(), 2_000, 30_000, wait.clone());
            }
            false => story.runs(Waking { timer: Some(TIMER), ..timer(due_ns) }, 2_000, 30_000, wait.clone()),
        }
        story.now_ns += 100_000 + n % 7 * 10_000;
        story.runs(inherited, 1_000, 10_000, wait.clone());
    });
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!((model.wait, model.period_ns), (Wait::Epoll(4), Some(PERIOD_NS)));
    assert_eq!(model.release, Release::Timer { is_absolute: true });
    let cycles = cycles(&stays);
    assert_eq!(cycles.len(), 99);
    for (n, cycle) in (2..).zip(&cycles) {
        assert_eq!(cycle.due_ns, OFFSET_NS + n * PERIOD_NS);
        assert_eq!((cycle.execution_ns, cycle.remainder_ns()), (40_000, 0));
    }
}

proptest! {
    #[test]
    fn parts_add_up_to_the_response(
        parts in prop::collection::vec((0u64..3, 1u64..50_000, 1u64..50_000), 1..8)
    ) {
        let stays = periodic(12, |story, due_ns| {
            let mut waking = Some(timer(due_ns));
            for (kind, runs_ns, waits_ns) in &parts {
                let leaving = match kind {
                    0 => Leaving::default(),
                    1 => leaving(Sysno::futex, [0x7000, 0x80, 2, 0]),
                    _ => leaving(Sysno::read, [3, 0, 0, 0]),
                };
                let is_preempted = !leaving.sleeps;
                match waking.take() {
                    Some(waking) => story.runs(waking, 1_000, *runs_ns, leaving),
                    None => story.comes_back(0, *runs_ns, leaving),
                }
                match is_preempted {
                    true => story.now_ns += waits_ns,
                    false => {
                        story.now_ns += waits_ns;
                        waking = Some(by(4, "other"));
                    }
                }
            }
            match waking {
                Some(waking) => story.runs(waking, 1_000, 1_000, sleep(true)),
                None => story.comes_back(0, 1_000, sleep(true)),
            }
        });
        let cycles = cycles(&stays);
        prop_assert_eq!(cycles.len(), 11);
        for cycle in cycles {
            let waits: u64 = cycle.preempted.iter().map(|part| part.ns).sum::<u64>()
                + cycle.blocked.iter().map(|part| part.ns).sum::<u64>();
            prop_assert_eq!(cycle.wakeup_ns() + cycle.execution_ns + waits, cycle.response_ns());
        }
    }
}
