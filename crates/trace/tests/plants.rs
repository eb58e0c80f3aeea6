// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that provoke an event in every 16th cycle: it is found there, with the thread that caused it.

use evidence::cause::{Cause, CauseKind, WENT_OFFLINE};
use trace::cycle::LoopCycle;
use trace::wait::Wait;

use crate::truth::{Blamed, Case, Language, Watched, is_by_bpf, share, watch};

/// The least number of provoked events, and the most runs to reach it.
const ENOUGH: usize = 10;
const RUNS: usize = 5;

fn loop_with(style: &'static str, plant: &'static str) -> Option<Watched> {
    // Shown where the test fails.
    println!("{plant} in {style}");
    let case = Case { language: Language::C, style, plant: Some(plant), period_us: 2_000, cycles: 600 };
    // On a busy machine few of the events may be where the program wanted them.
    for _ in 1..RUNS {
        let thread = watch(&case).map_err(|why| println!("skipped: {why}")).ok()?.pop();
        if thread.as_ref().is_some_and(|thread| thread.planted_and_found().0 >= ENOUGH) {
            return thread;
        }
    }
    watch(&case).ok()?.pop()
}

/// Nearly all provoked events are found, there are enough of them, and each cycle is accounted for.
fn is_found(thread: &Watched) {
    let (planted, found) = thread.planted_and_found();
    assert!(
        planted >= ENOUGH,
        "{:?}: {planted} planted of {} cycles",
        thread.model,
        thread.truth.cycles.len()
    );
    let missed = || thread.planted().filter(|(plant, cycle)| !cycle.is_some_and(|cycle| plant.is_in(cycle)));
    assert!(share(found, planted) >= 0.95, "{found} of {planted} found; not {:#?}", missed().next());
    for cycle in &thread.cycles {
        assert!(cycle.remainder_ns() * 10 <= cycle.ended_ns - cycle.began_ns, "{cycle:?}");
    }
}

/// For nearly all provoked events the causes name the event, the thread that caused it, and the functions.
fn is_blamed(thread: &Watched) {
    let Blamed { planted, cause, owner, function, whole, innocent, wrong } = thread.blamed();
    // tools/proofs/monitor reads this.
    println!("a bystander is named in {innocent} of {planted} cycles");
    let least = [cause, owner, function, whole].into_iter().min().unwrap_or(0);
    let counts = format!("{planted}: {cause} causes, {owner} owners, {function} functions, {whole} whole");
    assert!(share(least, planted) >= 0.95, "{counts}\n{}", wrong.as_deref().unwrap_or_default());
    assert_eq!(innocent, 0, "a bystander is named in so many of {planted}\n{}", wrong.unwrap_or_default());
}

/// Whether this runs in a guest of the lab: as `lab::job::JOB`.
fn is_guest() -> bool {
    std::path::Path::new("/job.json").exists()
}

fn inherits(thread: &Watched) -> impl Iterator<Item = bool> {
    thread.cycles.iter().flat_map(|cycle| &cycle.blocked).filter_map(|blocked| match blocked.on {
        Wait::Lock { inherits_priority, .. } => Some(inherits_priority),
        _ => None,
    })
}

/// The event is found in each cycle that has it, and blamed on its thread.
fn is_named(style: &'static str, plant: &'static str) {
    // No event tells that a waiter has its CPU.
    if plant.starts_with("pi-spin") && !is_by_bpf() {
        return;
    }
    let Some(thread) = loop_with(style, plant) else { return };
    // A guest may have no disk to wait for, and an emulator that runs one CPU after the other.
    if is_guest() && thread.planted_and_found().0 == 0 {
        // tools/proofs/monitor reads this.
        println!("not provoked: {plant}");
        return;
    }
    is_found(&thread);
    is_blamed(&thread);
    match plant {
        _ if !is_by_bpf() => {}
        "lock" | "pi-lock" => assert!(inherits(&thread).all(|inherits| inherits == (plant == "pi-lock"))),
        "fault" => {
            let with_faults = thread.cycles.iter().filter(|cycle| cycle.faults > 0).count();
            assert!(with_faults <= thread.truth.plants.len() + thread.cycles.len() / 50, "{with_faults}");
        }
        _ => {}
    }
}

/// Tests by their names: each has a loop's style, and what is provoked in it.
macro_rules! plants {
    ($($name:ident: $style:literal, $plant:literal;)*) => {
        $(#[test]
        fn $name() {
            is_named($style, $plant);
        })*
    };
}

plants! {
    names_the_owner_of_a_lock: "absolute", "lock";
    names_the_owner_of_a_lock_with_priority_inheritance: "timerfd", "pi-lock";
    names_the_owner_for_which_it_keeps_its_cpu: "absolute", "pi-spin";
    names_the_owner_for_which_it_keeps_its_cpu_for_a_time: "timerfd", "pi-spin-until";
    names_the_owner_of_higher_priority: "absolute", "pi-spin-higher";
    names_the_owner_of_a_conditions_lock: "absolute", "pi-cond";
    names_a_page_fault: "absolute", "fault";
    names_the_thread_that_preempts: "absolute", "preempt";
    names_the_thread_that_writes_late: "absolute", "pipe";
    names_the_thread_that_writes_late_to_a_triggered_loop: "eventfd", "pipe";
    names_fsync: "absolute", "fsync";
    names_a_stop: "absolute", "stop";
    names_the_freezer: "absolute", "freeze";
    names_the_freezer_of_version_2: "absolute", "freeze-2";
    names_the_limit_of_real_time: "absolute", "rt-limit";
    names_a_deadlines_own_runtime: "deadline", "exhaust";
    names_a_long_call: "absolute", "call";
    names_a_signals_handler: "absolute", "signal";
}

/// The CPU that a program of its own puts offline, which is none of CPU 0.
struct Unplugged;

impl Drop for Unplugged {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/devices/system/cpu/cpu1/online", "1");
    }
}

#[test]
fn names_the_cpu_that_went_offline() {
    let is_there = std::path::Path::new("/sys/devices/system/cpu/cpu1/online").exists();
    // A machine that others measure on keeps its CPUs.
    if !is_guest() || !is_there {
        println!("skipped: it puts CPU 1 offline, in a guest of the lab that can do that");
        return;
    }
    let _online_again = Unplugged;
    let plant = Some("unplug");
    let case = Case { language: Language::C, style: "absolute", plant, period_us: 2_000, cycles: 600 };
    let threads = watch(&case).map_err(|why| println!("skipped: {why}"));
    let Some(thread) = threads.ok().and_then(|mut threads| threads.pop()) else { return };
    let cycle = thread.planted().find_map(|(_, cycle)| cycle).expect("the cycle is found");
    let causes = thread.seen.causes(thread.truth.id, cycle);
    let is_it = |cause: &Cause| {
        let left = format!("cpu 1 {WENT_OFFLINE}");
        cause.kind == CauseKind::Migration && cause.detail.as_deref() == Some(&left)
    };
    assert!(causes.iter().any(is_it), "{causes:#?}");
}

#[test]
fn counts_periods_that_an_overrun_covers() {
    for style in ["absolute", "timerfd", "epoll", "signal"] {
        let Some(thread) = loop_with(style, "overrun") else { return };
        let (planted, found) = thread.planted_and_found();
        assert!(planted >= ENOUGH && share(found, planted) >= 0.95, "{style}: {found} of {planted} found");
        // Each overrun covers the next due time: a cycle of its own, or none, where the program did not wait
        // for it. Then the next one that is found is due so many periods later as went by.
        let own: Vec<u64> = thread.truth.cycles.iter().filter_map(|own| own.due_ns).collect();
        let is_own = |cycle: &LoopCycle| own.iter().any(|ns| ns.abs_diff(cycle.due_ns) < 1_000);
        let follows = |cycle: &LoopCycle| thread.cycles.iter().find(|next| next.due_ns > cycle.due_ns);
        let is_between = |cycle: &LoopCycle| is_own(cycle) && follows(cycle).is_some_and(is_own);
        let (between, others): (Vec<_>, Vec<_>) =
            thread.planted().partition(|(_, cycle)| cycle.is_some_and(is_between));
        let first = others.first().and_then(|(_, cycle)| *cycle).map(|cycle| {
            let about = own.iter().filter(|ns| ns.abs_diff(cycle.due_ns) < 10_000_000);
            (cycle, follows(cycle), about.collect::<Vec<_>>())
        });
        let counts = format!("{style}: {} of {planted} lie between due times", between.len());
        assert!(share(between.len(), planted) >= 0.95, "{counts}; not {first:#?}");
    }
}
