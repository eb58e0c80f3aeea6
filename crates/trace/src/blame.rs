// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a cycle's time went to, as causes: who had the CPU, what was waited for, and who held it.
//!
//! ```text
//! due ──► woken ──► begins ─────────────────────────► ends
//!   timer │ others  │ execution, and in between: preemption, locks, waits
//! ```
//! Execution is one cause, wherever it lies. A thread that had the CPU as this one was woken was interrupted
//! by the wakeup: the kernel function that it was in stands below the interrupt's own functions in the stack.

use cause::kept::interrupted;
use evidence::cause::{Cause, CauseKind, Owner};

use crate::cycle::LoopCycle;
use crate::record::{Scheduled, ThreadEvent};
use crate::scene::Scene;
use crate::wait::Wait;
use crate::within::{self, PageFault};

#[cfg(test)]
mod tests;

/// Shorter times than this are not worth a line.
const SHORTEST_NS: u64 = 1_000;

/// Page faults, and moves, of one cycle that have a line of their own.
const FAULTS: usize = 32;

/// The causes of a cycle from when it was due to where it began.
pub fn of_wakeup(cycle: &LoopCycle, scene: &Scene<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    // The cycle before was not over when this one was due.
    let over_ns = cycle.slept_ns.min(cycle.woken_ns).saturating_sub(cycle.due_ns);
    if over_ns >= SHORTEST_NS {
        let mut cause = Cause::timed(CauseKind::Execution, "the cycle before", 0, over_ns);
        cause.detail = Some("it took longer than its period".to_string());
        causes.push(cause);
    }
    let late_ns = cycle.woken_ns.saturating_sub(cycle.due_ns.max(cycle.slept_ns));
    let was_idle = cycle.waking.waker == 0;
    if late_ns >= SHORTEST_NS {
        let (kind, name) = match was_idle {
            true => (CauseKind::IdleExit, "idle"),
            false => (CauseKind::Timer, "the loop's own"),
        };
        let mut cause = Cause::timed(kind, name, over_ns, late_ns);
        cause.detail = Some("from due to its interrupt".to_string());
        causes.push(cause);
    }
    causes.extend(waits(cycle, scene, cycle.woken_ns, cycle.began_ns));
    causes
}

/// The causes of a cycle from when it was due to its end; `wakeup` are those until it began.
pub fn of_response(cycle: &LoopCycle, wakeup: &[Cause], scene: &Scene<'_>) -> Vec<Cause> {
    let mut causes = wakeup.to_vec();
    for part in &cycle.preempted {
        let from_ns = part.from_ns;
        if part.by == Scheduled::default() {
            causes.extend(waits(cycle, scene, from_ns, from_ns + part.ns));
        } else {
            causes.extend(preempted(cycle, scene, from_ns, from_ns + part.ns, &part.by));
        }
    }
    let faults = within::faults_of(cycle, scene);
    let is_of_a_fault =
        |on: Wait, is_of: &dyn Fn(&PageFault) -> bool| on == Wait::Kernel && faults.iter().any(is_of);
    let others =
        cycle.blocked.iter().filter(|part| !is_of_a_fault(part.on, &|fault| within::is_of(part, fault)));
    causes.extend(others.map(|part| within::blocked(cycle, part, scene)));
    let execution_ns: u64 = faults.iter().map(|fault| within::fault_times(cycle, fault).1).sum();
    causes.extend(faults.iter().take(FAULTS).map(|fault| within::fault(cycle, fault, scene)));
    causes.extend(rest_of_faults(cycle, &faults));
    let began_ns = cycle.began_ns.saturating_sub(cycle.due_ns);
    let execution_ns = cycle.execution_ns.saturating_sub(execution_ns);
    causes.push(Cause::timed(CauseKind::Execution, "the program", began_ns, execution_ns));
    causes.extend(moved(cycle, scene));
    let is_worth = |cause: &Cause| {
        let always = matches!(cause.kind, CauseKind::Fault | CauseKind::Migration);
        always || cause.duration_ns.is_some_and(|ns| ns >= SHORTEST_NS)
    };
    causes.retain(is_worth);
    causes.sort_by_key(|cause| cause.begin_ns);
    causes
}

/// The page faults that are too many to be told one by one.
fn rest_of_faults(cycle: &LoopCycle, faults: &[PageFault]) -> Option<Cause> {
    let rest = faults.get(FAULTS..).filter(|rest| !rest.is_empty())?;
    let took_ns = rest.iter().map(|fault| within::fault_times(cycle, fault).0).sum();
    let begin_ns = rest[0].from_ns.saturating_sub(cycle.due_ns);
    let mut cause = Cause::timed(CauseKind::Fault, "memory", begin_ns, took_ns);
    cause.detail = Some(format!("{} more", rest.len()));
    Some(cause)
}

/// It was moved to another CPU: as it was woken, or while it could have run. What it waited for there has its
/// own cause; how long the move itself took, nothing tells.
fn moved(cycle: &LoopCycle, scene: &Scene<'_>) -> Vec<Cause> {
    let is_within = |at_ns: u64| at_ns >= cycle.woken_ns.min(cycle.due_ns) && at_ns < cycle.ended_ns;
    let moves =
        scene.records.iter().filter(|record| record.thread == scene.thread && is_within(record.at_ns));
    let moves = moves.filter_map(|record| match record.kind {
        ThreadEvent::Moved { to } => Some((record.at_ns, to)),
        _ => None,
    });
    let cause = |(at_ns, to): (u64, u32)| {
        let mut cause =
            Cause::timed(CauseKind::Migration, format!("to cpu {to}"), at_ns.saturating_sub(cycle.due_ns), 0);
        cause.detail = Some("the program may run on several".to_string());
        cause
    };
    moves.take(FAULTS).map(cause).collect()
}

/// It was woken and waited for the CPU: the thread that ran there, then those that came.
fn waits(cycle: &LoopCycle, scene: &Scene<'_>, from_ns: u64, to_ns: u64) -> Vec<Cause> {
    let ran = ran_at(cycle, scene, from_ns);
    shares(cycle, scene, from_ns, to_ns, ran)
}

/// The thread that had the CPU as this one was woken.
fn ran_at(cycle: &LoopCycle, scene: &Scene<'_>, at_ns: u64) -> Scheduled {
    let waking = if at_ns == cycle.woken_ns { Some(&cycle.waking) } else { None };
    let by_stay = || {
        scene.records.iter().find_map(|record| match &record.kind {
            ThreadEvent::Stay(stay) if record.thread == scene.thread && stay.woken_ns == Some(at_ns) => {
                Some(&stay.waking)
            }
            _ => None,
        })
    };
    let waking = waking.or_else(by_stay);
    waking.map_or(Scheduled::default(), |waking| Scheduled {
        id: waking.waker,
        name: waking.waker_name.clone(),
        ..Scheduled::default()
    })
}

/// It could have gone on, and `by` came instead, and after that others.
fn preempted(cycle: &LoopCycle, scene: &Scene<'_>, from_ns: u64, to_ns: u64, by: &Scheduled) -> Vec<Cause> {
    let mut causes = shares(cycle, scene, from_ns, to_ns, by.clone());
    if let (Some(first), true) = (causes.first_mut(), by.id != 0) {
        first.detail = Some(why_it_came(by));
    }
    causes
}

/// Why a thread could take the CPU.
fn why_it_came(by: &Scheduled) -> String {
    match by.prio {
        prio if prio < 0 => "DEADLINE".to_string(),
        prio @ 0..=99 => format!("real-time priority {}", 99 - prio),
        _ => "ordinary".to_string(),
    }
}

/// The time between two moments, among the threads that had the CPU: `first`, and those that came after it.
fn shares(cycle: &LoopCycle, scene: &Scene<'_>, from_ns: u64, to_ns: u64, first: Scheduled) -> Vec<Cause> {
    if to_ns <= from_ns {
        return Vec::new();
    }
    let came = scene.came(cycle.cpu, from_ns, to_ns);
    let mut parts = vec![(from_ns, first, false)];
    parts.extend(came);
    let ends: Vec<u64> = parts.iter().skip(1).map(|(at_ns, ..)| *at_ns).chain([to_ns]).collect();
    let mut causes = Vec::new();
    for ((begin_ns, thread, is_kernel), end_ns) in parts.into_iter().zip(ends) {
        let ns = end_ns.saturating_sub(begin_ns);
        if ns < SHORTEST_NS {
            continue;
        }
        let at_ns = begin_ns.saturating_sub(cycle.due_ns);
        let mut cause = match (thread.id, is_kernel) {
            (0, _) => Cause::timed(CauseKind::IdleExit, "idle", at_ns, ns),
            (_, true) => Cause::timed(CauseKind::Kthread, thread.name.clone(), at_ns, ns),
            (_, false) => Cause::timed(CauseKind::Thread, thread.name.clone(), at_ns, ns),
        };
        if thread.id != 0 {
            cause.owner = Some(Owner { tid: thread.id, name: thread.name.clone(), ..Owner::default() });
        }
        if begin_ns == from_ns {
            in_the_kernel(&mut cause, scene, begin_ns);
        }
        causes.push(cause);
    }
    causes
}

/// Where in the kernel the thread was that had the CPU at a wakeup.
fn in_the_kernel(cause: &mut Cause, scene: &Scene<'_>, woken_ns: u64) {
    let stack = scene.kernel_stack(woken_ns).unwrap_or_default();
    let interrupted = interrupted(stack, scene.names);
    let Some(function) = interrupted.first() else { return };
    cause.function = Some(function.clone());
    cause.stack = interrupted;
    let detail = format!("in the kernel, which is {}", scene.preemption);
    cause.detail = Some(cause.detail.take().map_or(detail.clone(), |before| format!("{before}, {detail}")));
}
