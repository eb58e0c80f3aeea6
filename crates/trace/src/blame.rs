// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a cycle's time went to, as causes: who had the CPU, what was waited for, and who held it.
//!
//! ```text
//! due ──► woken ──► begins ─────────────────────────► ends
//!   timer │ others  │ execution, and in between: preemption, locks, waits
//! ```
//! Execution is one cause, wherever it lies. A thread that had the CPU as this one was woken was interrupted
//! by the wakeup: the kernel function that it was in stands below the interrupt's own functions in the stack.

use std::collections::BTreeMap;
use std::path::Path;

use cause::names::Names;
use evidence::cause::{Cause, CauseKind, Owner};

use crate::cycle::{Blocked, LoopCycle};
use crate::record::{Scheduled, ThreadEvent, ThreadRecord};
use crate::wait::Wait;

#[cfg(test)]
mod tests;

/// Shorter times than this are not worth a line.
const SHORTEST_NS: u64 = 1_000;

/// What else is known of the time of a cycle.
#[derive(Debug)]
pub struct Scene<'a> {
    /// Records of the followed threads and their CPUs, in their order.
    pub records: &'a [ThreadRecord],
    /// The thread.
    pub thread: u32,
    /// The kernel's functions.
    pub names: &'a Names,
    /// The program's threads, by the numbers that a lock's word names them with, where those are others.
    pub numbers: &'a BTreeMap<u32, u32>,
    /// How the kernel can be preempted: `PREEMPT_NONE`.
    pub preemption: &'a str,
}

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
    causes.extend(cycle.blocked.iter().map(|part| blocked(cycle, part, scene)));
    let began_ns = cycle.began_ns.saturating_sub(cycle.due_ns);
    causes.push(Cause::timed(CauseKind::Execution, "the program", began_ns, cycle.execution_ns));
    causes.retain(|cause| cause.duration_ns.is_some_and(|ns| ns >= SHORTEST_NS));
    causes.sort_by_key(|cause| cause.begin_ns);
    causes
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
    let came = scene.records.iter().filter_map(|record| match &record.kind {
        ThreadEvent::Switched { to, is_kernel, .. } => {
            (record.at_ns > from_ns && record.at_ns < to_ns).then_some((record.at_ns, to.clone(), *is_kernel))
        }
        _ => None,
    });
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
            cause.owner = Some(Owner { tid: thread.id, name: thread.name.clone() });
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
    let stack = stack_at(scene, woken_ns).unwrap_or_default();
    let functions: Vec<&str> = stack.iter().filter_map(|address| scene.names.function(*address)).collect();
    let Some(entry) = functions.iter().rposition(|name| is_entry(name)) else { return };
    let interrupted = &functions[entry + 1..];
    let Some(function) = interrupted.first() else { return };
    cause.function = Some((*function).to_string());
    cause.stack = interrupted.iter().map(ToString::to_string).collect();
    let detail = format!("in the kernel, which is {}", scene.preemption);
    cause.detail = Some(cause.detail.take().map_or(detail.clone(), |before| format!("{before}, {detail}")));
}

/// Whether a function is the first of an interrupt: what stands below it was interrupted.
fn is_entry(name: &str) -> bool {
    ["asm_sysvec_", "asm_common_interrupt", "asm_exc_", "el1h_64_irq", "el1_interrupt"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

fn stack_at(scene: &Scene<'_>, at_ns: u64) -> Option<Vec<u64>> {
    scene.records.iter().find_map(|record| match &record.kind {
        ThreadEvent::Stack(callers) => {
            (record.thread == scene.thread && record.at_ns == at_ns).then(|| callers.clone())
        }
        _ => None,
    })
}

/// It waited within the cycle.
fn blocked(cycle: &LoopCycle, part: &Blocked, scene: &Scene<'_>) -> Cause {
    let begin_ns = part.from_ns.saturating_sub(cycle.due_ns);
    let ended_by = part.ended_by.as_ref().map(|(tid, name)| Owner { tid: *tid, name: name.clone() });
    match part.on {
        Wait::Lock { address, inherits_priority } => {
            let mut cause = Cause::timed(CauseKind::Lock, format!("{address:#x}"), begin_ns, part.ns);
            let named = match scene.numbers.is_empty() {
                true => part.owner(),
                // In a PID namespace: of a thread of another process there, the number here is not known.
                false => part.owner().and_then(|inner| scene.numbers.get(&inner).copied()),
            };
            cause.owner = named.map(|tid| owner(tid, ended_by.as_ref())).or(ended_by);
            let inherits = if inherits_priority {
                "its owner inherits priority"
            } else {
                "without priority inheritance"
            };
            cause.detail = Some(inherits.to_string());
            cause
        }
        on => {
            let mut cause = Cause::timed(CauseKind::Wait, on.to_string(), begin_ns, part.ns);
            cause.detail = ended_by.as_ref().map(|by| format!("ended by {} (thread {})", by.name, by.tid));
            cause
        }
    }
}

/// A lock's owner with its name: it ended the wait, or still runs.
fn owner(tid: u32, ended_by: Option<&Owner>) -> Owner {
    if let Some(same) = ended_by.filter(|by| by.tid == tid) {
        return same.clone();
    }
    let path = format!("/proc/{tid}/comm");
    let name = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    Owner { tid, name: name.trim_end().to_string() }
}
