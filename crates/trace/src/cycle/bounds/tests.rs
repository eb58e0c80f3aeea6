// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that reach BEGIN and END, as records of the kernel.

use syscalls::Sysno;

use super::*;
use crate::model::{FEWEST, Model, infer};
use crate::record::{Boundary, Leaving, Stay, Waking};

const PERIOD_NS: u64 = 1_000_000;
const SP: u64 = 0x7fff_0000;

/// A thread's records; times are the ends of its stays.
#[derive(Default)]
struct Story {
    now_ns: u64,
    goes_on: bool,
    woken: Option<(u64, Waking)>,
    stays: Vec<Stay>,
}

impl Story {
    /// Sleeps until a timer is due, which is then, and has the CPU 2 us later.
    fn sleeps_until(&mut self, due_ns: u64) {
        let arguments = [1, 1, 0, 0];
        let call = Some(Sysno::clock_nanosleep as u32);
        self.leaves(0, Leaving { sleeps: true, call, arguments, ..Leaving::default() });
        self.now_ns = due_ns;
        self.woken = Some((due_ns, Waking { due_ns: Some(due_ns), ..Waking::default() }));
        self.now_ns += 2_000;
        self.goes_on = false;
    }

    /// Waits for another object, for so long.
    fn waits(&mut self, ns: u64) {
        let call = Some(Sysno::read as u32);
        self.leaves(0, Leaving { sleeps: true, call, ..Leaving::default() });
        self.now_ns += ns;
        self.woken =
            Some((self.now_ns, Waking { waker: 7, waker_name: "other".into(), ..Waking::default() }));
        self.goes_on = false;
    }

    /// Another thread has the CPU, for so long.
    fn is_preempted(&mut self, ns: u64) {
        self.leaves(0, Leaving::default());
        self.now_ns += ns;
        self.goes_on = false;
    }

    /// Runs for so long, and reaches a boundary.
    fn comes_to(&mut self, ns: u64, boundary: Boundary) {
        self.leaves(ns, Leaving { boundary: Some(boundary), ..Leaving::default() });
        self.goes_on = true;
    }

    fn begins(&mut self, ns: u64) {
        self.comes_to(ns, Boundary::Begin { sp: SP });
    }

    fn ends(&mut self, ns: u64) {
        self.comes_to(ns, Boundary::End);
    }

    fn leaves(&mut self, ns: u64, leaving: Leaving) {
        let in_ns = self.now_ns;
        self.now_ns += ns;
        let (woken_ns, waking) = match self.woken.take() {
            Some((ns, waking)) => (Some(ns), waking),
            None => (None, Waking::default()),
        };
        let (goes_on, out_ns) = (self.goes_on, self.now_ns);
        self.stays.push(Stay { woken_ns, in_ns, out_ns, waking, leaving, goes_on, ..Stay::default() });
    }

    fn cut(&self, mut cutter: CycleCutter) -> (Vec<LoopCycle>, BoundCounts) {
        let cycles = self.stays.iter().filter_map(|stay| cutter.add(1, stay.clone())).collect();
        (cycles, cutter.bound_counts())
    }

    /// With the model of its waits.
    fn by_waits(&self) -> (Vec<LoopCycle>, BoundCounts) {
        let model =
            infer(&self.stays, FEWEST, None).map(|model| Model { period_ns: Some(PERIOD_NS), ..model });
        assert!(model.as_ref().is_some_and(Model::has_grid), "{model:?}");
        self.cut(CycleCutter::between(model, None))
    }
}

/// Twenty periods, each with these records.
fn periodic(mut each: impl FnMut(&mut Story, u64)) -> Story {
    let mut story = Story::default();
    for n in 1..=20 {
        story.sleeps_until((n * PERIOD_NS).max(story.now_ns));
        each(&mut story, n);
    }
    story
}

fn begin(cycle: &LoopCycle) -> CycleBegin {
    cycle.begin.unwrap()
}

#[test]
fn a_cycle_is_due_by_its_timer_and_executes_from_begin_to_end() {
    let story = periodic(|story, _| {
        story.begins(10_000);
        story.is_preempted(5_000);
        story.waits(7_000);
        story.ends(30_000);
        story.leaves(4_000, Leaving::default());
    });
    let (cycles, counts) = story.by_waits();
    assert_eq!((cycles.len(), counts), (20, BoundCounts::default()));
    // The first release came before the records.
    for (n, cycle) in (2..).zip(&cycles[1..]) {
        assert_eq!((cycle.due_ns, cycle.wakeup_ns()), (n * PERIOD_NS, 2_000));
        let CycleBegin { at_ns, before_ns, is_release } = begin(cycle);
        assert_eq!((at_ns - cycle.due_ns, before_ns, is_release), (12_000, 10_000, false));
        assert_eq!((cycle.execution_ns, cycle.preempted[0].ns, cycle.blocked[0].ns), (30_000, 5_000, 7_000));
        assert_eq!((cycle.response_ns(), cycle.remainder_ns()), (54_000, 0));
    }
}

#[test]
fn a_cycle_with_an_unseen_release_is_left_out() {
    // It reaches BEGIN when the next one is already due.
    let late = |story: &mut Story, n| {
        story.begins(if n == 1 { 1_500_000 } else { 10_000 });
        story.ends(30_000);
    };
    let mut story = periodic(late);
    story.stays.drain(..1);
    let (cycles, counts) = story.by_waits();
    assert_eq!((cycles.len(), counts), (19, BoundCounts::default()));
    assert!(cycles.iter().all(|cycle| !begin(cycle).is_release));
}

#[test]
fn a_cycle_without_a_wait_is_due_a_period_later() {
    let story = periodic(|story, n| {
        story.begins(1_000);
        // The tenth one takes 2.5 periods, and two more follow it at once.
        story.ends(if n == 10 { 2_500_000 } else { 50_000 });
        for _ in 0..if n == 10 { 2 } else { 0 } {
            story.leaves(3_000, Leaving::default());
            story.is_preempted(4_000);
            story.begins(1_000);
            story.ends(50_000);
        }
    });
    let (cycles, _) = story.by_waits();
    let due: Vec<u64> = cycles.iter().map(|cycle| cycle.due_ns / 1_000).collect();
    assert_eq!(due[8..13], [9_000, 10_000, 11_000, 12_000, 12_619]);
    let late = &cycles[10];
    assert_eq!((begin(late).is_release, late.began_ns), (true, begin(late).at_ns));
    assert_eq!((late.due_ns, late.slept_ns), (11_000_000, cycles[9].ended_ns));
    assert_eq!((late.preempted[0].ns, late.execution_ns, late.remainder_ns()), (4_000, 50_000, 0));
}

#[test]
fn without_a_trigger_begin_or_period_give_the_due_time() {
    let mut story = Story::default();
    for ns in [900_000, 900_000, 1_400_000, 500_000] {
        story.leaves(ns, Leaving::default());
        story.begins(0);
        story.ends(100_000);
    }
    let due = |period_ns| -> Vec<u64> {
        let (cycles, _) = story.cut(CycleCutter::between(None, period_ns));
        cycles.iter().map(|cycle| begin(cycle).at_ns - cycle.due_ns).collect()
    };
    assert_eq!(due(None), [0, 0, 0, 0]);
    assert_eq!(due(Some(PERIOD_NS)), [0, 0, 500_000, 0]);
}

#[test]
fn parts_before_a_late_begin_count_from_its_due_time() {
    let mut story = Story::default();
    story.begins(1_000);
    story.ends(1_000);
    story.waits(PERIOD_NS);
    story.is_preempted(20_000);
    story.begins(5_000);
    story.ends(10_000);
    let (cycles, _) = story.cut(CycleCutter::between(None, Some(PERIOD_NS)));
    let late = &cycles[1];
    assert_eq!((late.due_ns, late.wakeup_ns()), (1_000 + PERIOD_NS, 26_000));
    // The wait lasted 1 us longer than that.
    assert_eq!((late.blocked[0].from_ns, late.blocked[0].ns), (late.due_ns, 1_000));
    assert_eq!((late.preempted[0].ns, late.execution_ns, late.remainder_ns()), (20_000, 10_000, 0));
}

#[test]
fn a_begin_deeper_in_the_stack_belongs_to_the_cycle() {
    let mut story = Story::default();
    for _ in 0..3 {
        story.begins(1_000);
        story.comes_to(1_000, Boundary::Begin { sp: SP - 64 });
        story.ends(1_000);
        story.ends(1_000);
    }
    let (cycles, counts) = story.cut(CycleCutter::between(None, None));
    assert_eq!((cycles.len(), counts), (3, BoundCounts { unended: 0, nested: 3 }));
    assert!(cycles.iter().all(|cycle| cycle.execution_ns == 3_000));
}

#[test]
fn a_begin_at_the_same_depth_begins_another_cycle() {
    let mut story = Story::default();
    story.ends(1_000);
    story.begins(1_000);
    story.begins(1_000);
    story.ends(5_000);
    story.ends(1_000);
    let (cycles, counts) = story.cut(CycleCutter::between(None, None));
    assert_eq!((cycles.len(), counts), (1, BoundCounts { unended: 1, nested: 0 }));
    assert_eq!(cycles[0].execution_ns, 5_000);
}

#[test]
fn a_wait_within_boundaries_is_blocking() {
    let story = periodic(|story, n| match n % 2 {
        1 => story.begins(1_000),
        _ => story.ends(1_000),
    });
    let (cycles, counts) = story.by_waits();
    assert_eq!((cycles.len(), counts), (10, BoundCounts::default()));
    assert!(cycles.iter().all(|cycle| cycle.blocked.len() == 1 && cycle.remainder_ns() == 0));
}

#[test]
fn a_cycle_without_an_end_does_not_grow() {
    let mut story = Story::default();
    story.begins(1_000);
    (0..PARTS + 2).for_each(|_| story.waits(1_000));
    story.ends(1_000);
    let (cycles, counts) = story.cut(CycleCutter::between(None, None));
    assert_eq!((cycles.len(), counts), (0, BoundCounts { unended: 1, nested: 0 }));
}
