// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cycle's own waits: locks with their owners, system calls, page faults.
//!
//! ```text
//! begins ──► lock ──────────────────────────► woken ──► ends
//!             │ asked for in servo!step         │ released in servo!flush_log
//!             └ owner: ran · was preempted by … · waited for a lock, whose owner …
//! ```
//! An owner's activity meanwhile is known if the owner is followed too.

use cause::kept::{gives_way, limit_of};
use cause::names::{Names, shown};
use evidence::cause::{Cause, CauseKind, ChainLink, Owner, QUOTA, STOPPED};

use crate::cycle::{Blocked, LoopCycle, lock_owner};
use crate::record::{Interrupt, StackTaken, ThreadEvent, Waking};
use crate::scene::Scene;
use crate::wait::Wait;

/// Shorter times of an owner have no line.
const SHORTEST_NS: u64 = 10_000;

/// How far a chain of threads that wait for each other is followed, and the most links that are shown.
const DEEPEST: usize = 4;
const LINKS: usize = 8;

/// A page fault within a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFault {
    /// When it was taken.
    pub from_ns: u64,
    /// When the kernel had handled it; `None` if that was not seen.
    pub to_ns: Option<u64>,
    /// The address of the access.
    pub address: u64,
    /// The kernel's error code.
    pub code: u64,
}

/// The page faults of a cycle, in their order.
pub fn faults_of(cycle: &LoopCycle, scene: &Scene<'_>) -> Vec<PageFault> {
    let mut faults: Vec<PageFault> = Vec::new();
    let is_within = |at_ns: u64| at_ns >= cycle.began_ns && at_ns < cycle.ended_ns;
    for record in scene.records.iter().filter(|record| record.thread == scene.thread) {
        match record.kind {
            ThreadEvent::Fault { address, code } if is_within(record.at_ns) => {
                faults.push(PageFault { from_ns: record.at_ns, to_ns: None, address, code });
            }
            ThreadEvent::FaultOver { began_ns } => {
                let same = faults.last_mut().filter(|fault| fault.from_ns == began_ns);
                same.into_iter().for_each(|fault| fault.to_ns = Some(record.at_ns));
            }
            _ => {}
        }
    }
    faults
}

/// How long a fault kept the thread from its program, and its CPU time in it. A fault without a recorded end
/// ends with the kernel's wait.
pub fn fault_times(cycle: &LoopCycle, fault: &PageFault) -> (u64, u64) {
    let waited: Vec<&Blocked> =
        cycle.blocked.iter().filter(|part| part.on == Wait::Kernel && is_of(part, fault)).collect();
    let waited_ns: u64 = waited.iter().map(|part| part.ns).sum();
    let seen_ns = waited.last().map_or(fault.from_ns, |part| part.from_ns + part.ns);
    let to_ns = fault.to_ns.unwrap_or(seen_ns).min(cycle.ended_ns);
    let preempted =
        cycle.preempted.iter().filter(|part| part.from_ns >= fault.from_ns && part.from_ns < to_ns);
    let preempted_ns: u64 = preempted.map(|part| part.ns).sum();
    let took_ns = to_ns.saturating_sub(fault.from_ns).saturating_sub(preempted_ns).max(waited_ns);
    (took_ns, took_ns - waited_ns)
}

/// Whether the thread waited for that in this fault.
pub fn is_of(part: &Blocked, fault: &PageFault) -> bool {
    // Unless its end was recorded, the kernel's next wait belongs to it.
    part.from_ns >= fault.from_ns && fault.to_ns.is_none_or(|to_ns| part.from_ns < to_ns)
}

/// A page fault, as a cause.
pub fn fault(cycle: &LoopCycle, fault: &PageFault, scene: &Scene<'_>) -> Cause {
    let (took_ns, _) = fault_times(cycle, fault);
    let name = scene.data(fault.address).unwrap_or_else(|| "memory".to_string());
    let begin_ns = fault.from_ns.saturating_sub(cycle.due_ns);
    let mut cause = Cause::timed(CauseKind::Fault, name, begin_ns, took_ns);
    cause.detail = Some(format!("{} at {}", access(fault.code), shown(fault.address)));
    if let Some((_, at)) = scene.user_stack(scene.thread, fault.from_ns, StackTaken::AtFault) {
        (cause.function, cause.stack) = (at.function, at.stack);
    }
    cause
}

/// The kind of access (arch/x86/include/asm/trap_pf.h).
#[cfg(target_arch = "x86_64")]
fn access(code: u64) -> &'static str {
    const WRITE: u64 = 2;
    const INSTRUCTION: u64 = 16;
    match code {
        code if code & INSTRUCTION != 0 => "instruction",
        code if code & WRITE != 0 => "write",
        _ => "read",
    }
}

/// The kind of access: bits of the syndrome register (ESR_EL1).
#[cfg(not(target_arch = "x86_64"))]
fn access(code: u64) -> &'static str {
    const WRITE: u64 = 1 << 6;
    if code & WRITE != 0 { "write" } else { "read" }
}

/// A wait for a lock or another object, as a cause.
pub fn blocked(cycle: &LoopCycle, part: &Blocked, scene: &Scene<'_>) -> Cause {
    let begin_ns = part.from_ns.saturating_sub(cycle.due_ns);
    let ended_by = part.ended_by.as_ref();
    let ended_by = ended_by.map(|(tid, name)| Owner { tid: *tid, name: name.clone(), ..Owner::default() });
    let asked_at = |from_ns: u64| scene.user_stack(scene.thread, from_ns, StackTaken::AtWait);
    // One call may wait for a condition, and then for a lock.
    let before = || cycle.blocked.iter().find(|before| before.from_ns + before.ns == part.from_ns);
    let asked = asked_at(part.from_ns).or_else(|| asked_at(before()?.from_ns));
    let takes_lock = asked.as_ref().is_some_and(|(_, at)| at.takes_lock);
    let lock = match part.on {
        Wait::Lock { address, inherits_priority } => Some((scene.lock(address), inherits_priority)),
        // Of another kind of lock the word is not the lock's own.
        Wait::Condition { .. } if takes_lock => Some(("a lock".to_string(), false)),
        on @ Wait::FileLock(_) => Some((on.to_string(), false)),
        _ => None,
    };
    let mut cause = match lock {
        Some((name, inherits_priority)) => {
            let mut cause = Cause::timed(CauseKind::Lock, name, begin_ns, part.ns);
            let named = part.owner().and_then(|inner| scene.number(inner));
            cause.owner = named.map(|tid| scene.owner(tid, ended_by.as_ref())).or(ended_by);
            let to_ns = part.from_ns + part.ns;
            if let Some(owner) = &mut cause.owner {
                let released = scene.user_stack(scene.thread, to_ns, StackTaken::AtRelease);
                let released = released.filter(|(whose, _)| *whose == owner.tid);
                owner.function = released.and_then(|(_, at)| at.function);
                cause.chain = chain(owner, part.from_ns, to_ns, scene);
            }
            let inherits = match (inherits_priority, &cause.owner) {
                (true, _) => "its owner inherits priority",
                (false, Some(_)) => "without priority inheritance",
                (false, None) => "its owner is unknown",
            };
            cause.detail = Some(inherits.to_string());
            cause
        }
        None if part.on == Wait::Stopped => Cause::timed(CauseKind::Stopped, STOPPED, begin_ns, part.ns),
        None => {
            let mut cause = Cause::timed(CauseKind::Wait, part.on.to_string(), begin_ns, part.ns);
            let interrupt = part.interrupt.as_ref().map(|by| ended_by_interrupt(by, scene.names));
            cause.detail = interrupt.map(|(kind, name)| format!("ended by the {}", kind.named(&name)));
            if let Some(by) = ended_by {
                cause.detail = Some(format!("ended by {} (thread {})", by.name, by.tid));
                cause.chain = chain(&by, part.from_ns, part.from_ns + part.ns, scene);
            }
            cause
        }
    };
    if let Some((_, at)) = asked {
        (cause.function, cause.stack) = (at.function, at.stack);
    }
    cause
}

/// The interrupt by which a wait ended, as a kind of cause with its name.
fn ended_by_interrupt(interrupt: &Interrupt, names: &Names) -> (CauseKind, String) {
    match interrupt {
        Interrupt::Hard(device) if device.is_empty() => (CauseKind::Interrupt, "no device".to_string()),
        Interrupt::Hard(device) => (CauseKind::Interrupt, device.clone()),
        Interrupt::Soft(number) => (CauseKind::Softirq, names.softirq(*number)),
        Interrupt::Nmi => (CauseKind::Nmi, String::new()),
    }
}

/// The activity of a lock's owner, or of the thread that ended a wait, between two times beside running; and
/// that of the thread that it waited for itself. They must be followed.
fn chain(first: &Owner, from_ns: u64, to_ns: u64, scene: &Scene<'_>) -> Vec<ChainLink> {
    let mut links = Vec::new();
    let mut seen = vec![scene.thread];
    let mut next = Some((first.clone(), from_ns, to_ns));
    while let (Some((thread, from_ns, to_ns)), true) = (next.take(), seen.len() <= DEEPEST) {
        if seen.contains(&thread.tid) {
            break;
        }
        seen.push(thread.tid);
        let within = |begin_ns: u64, end_ns: u64| end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns));
        let mut add = |kind, name: String, duration_ns, owner| {
            if duration_ns >= SHORTEST_NS && links.len() < LINKS {
                links.push(ChainLink { thread: thread.clone(), kind, name, duration_ns, owner });
            }
        };
        for part in scene.spun(thread.tid) {
            let ns = within(part.in_ns, part.out_ns);
            let (Some(Wait::Lock { address, .. }), SHORTEST_NS..) = (Wait::of(part), ns) else { continue };
            let by = lock_owner(part).and_then(|inner| scene.number(inner)).map(|tid| scene.owner(tid, None));
            next = by.clone().map(|by| (by, part.in_ns.max(from_ns), part.out_ns.min(to_ns)));
            add(CauseKind::Lock, scene.lock(address), ns, by);
        }
        let stays: Vec<_> = scene.stays(thread.tid).map(|(_, stay)| stay).collect();
        for pair in stays.windows(2) {
            let (out_ns, in_ns) = (pair[0].out_ns, pair[1].in_ns);
            // Where its wakeup was not seen, it counts as waiting until it ran.
            let woken_ns = pair[1].woken_ns.unwrap_or(in_ns).clamp(out_ns, in_ns);
            let (waited_ns, ready_ns) = (within(out_ns, woken_ns), within(woken_ns, in_ns));
            match Wait::of(pair[0]) {
                Some(Wait::Lock { address, .. }) => {
                    let name = scene.lock(address);
                    let by = waker(&pair[1].waking);
                    if waited_ns >= SHORTEST_NS {
                        next = by.clone().map(|by| (by, out_ns.max(from_ns), woken_ns.min(to_ns)));
                    }
                    add(CauseKind::Lock, name, waited_ns, by);
                }
                Some(on) => {
                    let by = pair[1].waking.interrupt.as_ref();
                    let by = by.map(|interrupt| ended_by_interrupt(interrupt, scene.names));
                    let (kind, name) = match by {
                        _ if on == Wait::Stopped => (CauseKind::Stopped, STOPPED.to_string()),
                        Some(by) => by,
                        None => (CauseKind::Wait, on.to_string()),
                    };
                    if waited_ns >= SHORTEST_NS {
                        next =
                            waker(&pair[1].waking).map(|by| (by, out_ns.max(from_ns), woken_ns.min(to_ns)));
                    }
                    add(kind, name, waited_ns, None);
                }
                None => {
                    let (by, own) = (&pair[0].leaving.next, pair[1].prio);
                    let is_withheld = pair[0].leaving.is_throttled || by.id == 0;
                    let had = had_the_cpu(by.id, &by.name, by.prio, own).filter(|_| !is_withheld);
                    let limit = || (CauseKind::Throttled, limit_of(own).to_string(), None);
                    let (kind, name, owner) = had.unwrap_or_else(limit);
                    add(kind, name, within(out_ns, in_ns), owner);
                    continue;
                }
            }
            let withheld_ns = pair[1].withheld_ns.min(ready_ns);
            add(CauseKind::Throttled, QUOTA.to_string(), withheld_ns, None);
            // Of the threads that had the CPU after the wakeup, the record names the last.
            let by = Some(&pair[1].after).filter(|_| !pair[1].is_begin_unseen);
            let by = by.and_then(|by| had_the_cpu(by.id, &by.name, by.prio, pair[1].prio));
            if let Some((kind, name, owner)) = by {
                add(kind, name, ready_ns - withheld_ns, owner);
            }
        }
    }
    links
}

/// The thread that woke another one.
fn waker(waking: &Waking) -> Option<Owner> {
    waking.by().map(|(tid, name)| Owner { tid, name: name.to_string(), ..Owner::default() })
}

/// The thread of priority `prio` that had a CPU for which one of priority `own` waited; `None` for one that
/// gives way to it.
fn had_the_cpu(id: u32, name: &str, prio: i32, own: i32) -> Option<(CauseKind, String, Option<Owner>)> {
    let name = name.to_string();
    match id {
        0 => Some((CauseKind::IdleExit, "idle".to_string(), None)),
        _ if gives_way(prio, own) => None,
        tid => Some((CauseKind::Thread, name.clone(), Some(Owner { tid, name, ..Owner::default() }))),
    }
}
