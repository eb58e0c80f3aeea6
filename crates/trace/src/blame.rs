// SPDX-License-Identifier: MIT OR Apache-2.0
//! The causes of a cycle's time: threads that had the CPU, waits, and owners of locks.
//!
//! ```text
//! due ──► woken ──► begins ─────────────────────────► ends
//!   timer │ others  │ execution, and in between: preemption, locks, waits
//! ```
//! Execution is one cause, wherever it is. The wakeup interrupted the thread that had the CPU: the kernel
//! function of that thread is below the interrupt's own functions in the stack.

use cause::kept::{KeptBy, gives_way, limit_of, scheduled_as};
use evidence::cause::{Cause, CauseKind, OWN_TIMER, Owner, QUOTA, STOPPED, WENT_OFFLINE};

use crate::cycle::{LoopCycle, Preempted};
use crate::own;
use crate::record::{Predecessor, Scheduled, Stay, ThreadEvent, Waking};
use crate::scene::Scene;
use crate::wait::Wait;
use crate::within::{self, PageFault};

#[cfg(test)]
mod tests;

/// Shorter times have no line.
const SHORTEST_NS: u64 = 1_000;

/// A thread that another CPU wakes is not ready at once. If it is passed over for longer, that is not the
/// reason.
const WITHHELD_NS: u64 = 100_000;

const FROM_DUE: &str = "from due to its interrupt";

/// The time for which the hypervisor's clock says what it took.
const SINCE_IT_SLEPT: &str = "between the thread's sleep and its begin";
const SINCE_IT_LEFT: &str = "since the thread left it";

/// The most page faults, and moves, of one cycle that have a line each.
const FAULTS: usize = 32;

/// The causes of one cycle for each of its rows: those of the response, and of them the parts that the other
/// rows measure.
#[derive(Debug, Default)]
pub struct CycleCauses {
    /// From its due time to its begin.
    pub wakeup: Vec<Cause>,
    /// Its time on a CPU; they begin with the cycle.
    pub execution: Vec<Cause>,
    /// From its due time to its end.
    pub response: Vec<Cause>,
}

impl CycleCauses {
    /// The causes of a cycle.
    pub fn of(cycle: &LoopCycle, scene: &Scene<'_>) -> CycleCauses {
        let wakeup = of_wakeup(cycle, scene);
        let response = of_response(cycle, &wakeup, scene);
        CycleCauses { execution: of_execution(cycle, &response), wakeup, response }
    }
}

/// The causes of a cycle's time on a CPU: the program itself, its calls, and its page faults without their
/// waits. Other threads take none of it.
fn of_execution(cycle: &LoopCycle, response: &[Cause]) -> Vec<Cause> {
    let from_ns = cycle.from_ns().saturating_sub(cycle.due_ns);
    let is_own = |cause: &&Cause| {
        let is_within = cause.kind == CauseKind::Stolen && from_ns == cause.begin_ns.unwrap_or(0);
        (is_within || matches!(cause.kind, CauseKind::Execution | CauseKind::Syscall | CauseKind::Fault))
            && cause.begin_ns.is_some_and(|begin_ns| begin_ns >= from_ns)
    };
    let own_ns: u64 = response
        .iter()
        .filter(is_own)
        .filter(|cause| cause.kind != CauseKind::Fault)
        .filter_map(|cause| cause.duration_ns)
        .sum();
    // What the program did not execute itself its faults did.
    let mut left_ns = cycle.execution_ns.saturating_sub(own_ns);
    let mut causes: Vec<Cause> = response.iter().filter(is_own).cloned().collect();
    for cause in &mut causes {
        cause.begin_ns = cause.begin_ns.map(|begin_ns| begin_ns - from_ns);
        if cause.kind == CauseKind::Fault {
            cause.duration_ns = cause.duration_ns.map(|ns| ns.min(left_ns));
            left_ns -= cause.duration_ns.unwrap_or(0);
        }
    }
    causes
}

/// The causes of a cycle between its due time and its begin.
fn of_wakeup(cycle: &LoopCycle, scene: &Scene<'_>) -> Vec<Cause> {
    let mut causes = Vec::new();
    // The previous cycle was not over when this one was due.
    let over_ns = cycle.slept_ns.min(cycle.woken_ns).saturating_sub(cycle.due_ns);
    causes.extend(overrun(cycle, scene, over_ns));
    if cycle.begin.is_some_and(|begin| begin.is_release) {
        causes.extend(before_begin(cycle, scene, over_ns));
        return causes;
    }
    let late_ns = cycle.woken_ns.saturating_sub(cycle.due_ns.max(cycle.slept_ns));
    let was_idle = cycle.waking.waker == 0;
    if late_ns >= SHORTEST_NS {
        let is_inherited = cycle.waking.due_ns.is_none() && cycle.waking.inherited.is_some();
        let (kind, name, detail) = match (is_inherited, cycle.waking.by(), was_idle) {
            (true, Some((waker, name)), _) => {
                (CauseKind::Wait, "another thread", Some(format!("ended by {name} (thread {waker})")))
            }
            // Its timer could not wake it.
            (false, Some(_), _) => (CauseKind::Stopped, STOPPED, None),
            (.., true) => (CauseKind::IdleExit, "idle", Some(FROM_DUE.to_string())),
            (.., false) => (CauseKind::Timer, OWN_TIMER, Some(FROM_DUE.to_string())),
        };
        let stolen_ns = stolen_from(late_ns, scene.stay_from(cycle.began_ns)).unwrap_or(0);
        causes.extend((stolen_ns > 0).then(|| own::stolen(over_ns, stolen_ns, SINCE_IT_SLEPT)));
        let mut cause = Cause::timed(kind, name, over_ns + stolen_ns, late_ns - stolen_ns);
        cause.detail = detail;
        causes.extend((late_ns - stolen_ns >= SHORTEST_NS).then_some(cause));
    }
    causes.extend(waits(cycle, scene, cycle.woken_ns, cycle.began_ns));
    causes
}

/// The time since a cycle was due in which the one before was not over: what kept that one, and its own
/// execution.
fn overrun(cycle: &LoopCycle, scene: &Scene<'_>, over_ns: u64) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (mut own_ns, mut is_long) = (over_ns, false);
    if let Some(before) = &cycle.before {
        causes.extend(before.preempted.iter().flat_map(|part| lost_cpu(cycle, scene, part)));
        causes.extend(before.blocked.iter().map(|part| within::blocked(cycle, part, scene)));
        let others =
            before.preempted.iter().map(|part| part.ns).chain(before.blocked.iter().map(|part| part.ns));
        own_ns = over_ns.saturating_sub(others.sum::<u64>());
        is_long = before.execution_ns - before.stolen_ns.min(before.execution_ns)
            > cycle.due_ns.saturating_sub(before.due_ns);
    }
    let mut own = Cause::timed(CauseKind::Execution, "the cycle before", 0, own_ns);
    own.detail =
        Some(if is_long { "it took longer than its period" } else { "it had not ended" }.to_string());
    causes.insert(0, own);
    causes.retain(|cause| cause.duration_ns.is_some_and(|ns| ns >= SHORTEST_NS));
    causes
}

/// The thread's work after the previous cycle, from the due time of this one to its beginning.
fn before_begin(cycle: &LoopCycle, scene: &Scene<'_>, over_ns: u64) -> Vec<Cause> {
    let is_before = |from_ns: u64| from_ns < cycle.began_ns;
    let waited = cycle.blocked.iter().filter(|part| is_before(part.from_ns));
    let had_others = cycle.preempted.iter().filter(|part| is_before(part.from_ns));
    let others_ns: u64 =
        waited.clone().map(|part| part.ns).chain(had_others.clone().map(|part| part.ns)).sum();
    let mut causes: Vec<Cause> = had_others.flat_map(|part| lost_cpu(cycle, scene, part)).collect();
    causes.extend(waited.map(|part| within::blocked(cycle, part, scene)));
    let execution_ns = cycle.wakeup_ns().saturating_sub(over_ns + others_ns);
    causes.extend(own_before_begin(over_ns, execution_ns));
    causes.retain(|cause| cause.duration_ns.is_some_and(|ns| ns >= SHORTEST_NS));
    causes.sort_by_key(|cause| cause.begin_ns);
    causes
}

/// The program's execution before the BEGIN that the user named.
fn own_before_begin(begin_ns: u64, ns: u64) -> Option<Cause> {
    let mut cause = Cause::timed(CauseKind::Execution, "the program", begin_ns, ns);
    cause.detail = Some("before its cycle began".to_string());
    (ns >= SHORTEST_NS).then_some(cause)
}

/// A time in which another task had the CPU.
fn lost_cpu(cycle: &LoopCycle, scene: &Scene<'_>, part: &Preempted) -> Vec<Cause> {
    let (from_ns, to_ns) = (part.from_ns, part.from_ns + part.ns);
    if part.by == Scheduled::default() {
        waits(cycle, scene, from_ns, to_ns)
    } else {
        let first = Holder::came(&part.by, false);
        shares(cycle, scene, (from_ns, to_ns), first, part.is_throttled)
    }
}

/// The causes of a cycle from its due time to its end; `wakeup` are those before its begin.
fn of_response(cycle: &LoopCycle, wakeup: &[Cause], scene: &Scene<'_>) -> Vec<Cause> {
    let mut causes = wakeup.to_vec();
    let is_within = |from_ns: u64| from_ns >= cycle.began_ns;
    let lost = cycle.preempted.iter().filter(|part| is_within(part.from_ns));
    causes.extend(lost.flat_map(|part| lost_cpu(cycle, scene, part)));
    let faults = within::faults_of(cycle, scene);
    let is_of_a_fault =
        |on: Wait, is_of: &dyn Fn(&PageFault) -> bool| on == Wait::Kernel && faults.iter().any(is_of);
    let others = cycle.blocked.iter().filter(|part| is_within(part.from_ns));
    let others = others.filter(|part| !is_of_a_fault(part.on, &|fault| within::is_of(part, fault)));
    causes.extend(others.map(|part| within::blocked(cycle, part, scene)));
    let begin_ns = cycle.begin.map_or(cycle.began_ns, |begin| begin.at_ns);
    let before = |fault: &&PageFault| fault.from_ns < begin_ns;
    let of_faults_ns = |is_meant: &dyn Fn(&&PageFault) -> bool| -> u64 {
        faults.iter().filter(is_meant).map(|fault| within::fault_times(cycle, fault).1).sum()
    };
    let before_ns = cycle.begin.map_or(0, |begin| begin.before_ns).saturating_sub(of_faults_ns(&before));
    causes.extend(own_before_begin(cycle.began_ns.saturating_sub(cycle.due_ns), before_ns));
    let execution_ns = of_faults_ns(&|fault| !before(fault));
    causes.extend(faults.iter().take(FAULTS).map(|fault| within::fault(cycle, fault, scene)));
    causes.extend(rest_of_faults(cycle, &faults));
    let execution_ns = cycle.execution_ns.saturating_sub(execution_ns);
    causes.extend(own::execution(cycle, begin_ns, execution_ns, scene));
    causes.extend(moved(cycle, scene));
    let is_worth = |cause: &Cause| {
        let always = matches!(cause.kind, CauseKind::Fault | CauseKind::Migration);
        always || cause.duration_ns.is_some_and(|ns| ns >= SHORTEST_NS)
    };
    causes.retain(is_worth);
    causes.sort_by_key(|cause| cause.begin_ns);
    causes
}

/// The page faults that have no line of their own.
fn rest_of_faults(cycle: &LoopCycle, faults: &[PageFault]) -> Option<Cause> {
    let rest = faults.get(FAULTS..).filter(|rest| !rest.is_empty())?;
    let took_ns = rest.iter().map(|fault| within::fault_times(cycle, fault).0).sum();
    let begin_ns = rest[0].from_ns.saturating_sub(cycle.due_ns);
    let mut cause = Cause::timed(CauseKind::Fault, "memory", begin_ns, took_ns);
    cause.detail = Some(format!("{} more", rest.len()));
    Some(cause)
}

/// A move to another CPU, at the wakeup or while the thread was runnable. A wait for the CPU there has a
/// cause of its own; the duration of the move itself is unknown.
fn moved(cycle: &LoopCycle, scene: &Scene<'_>) -> Vec<Cause> {
    let is_within = |at_ns: u64| at_ns >= cycle.woken_ns.min(cycle.due_ns) && at_ns < cycle.ended_ns;
    let (mut from, mut moves) = (None, Vec::new());
    for record in scene.records.iter().filter(|record| record.thread == scene.thread) {
        let ThreadEvent::Moved { to } = record.kind else {
            from = Some(record.cpu).filter(|_| matches!(record.kind, ThreadEvent::Stay(_))).or(from);
            continue;
        };
        let left = from.replace(to).filter(|left| *left != to && scene.is_offline(*left));
        if is_within(record.at_ns) && moves.len() < FAULTS {
            let begin_ns = record.at_ns.saturating_sub(cycle.due_ns);
            let mut cause = Cause::timed(CauseKind::Migration, format!("to cpu {to}"), begin_ns, 0);
            cause.detail = left.map(|left| format!("cpu {left} {WENT_OFFLINE}"));
            moves.push(cause);
        }
    }
    moves
}

/// A thread that had the CPU; its unknown fields become known when it leaves.
#[derive(Debug, Clone, Default)]
struct Holder {
    /// Its number; 0 is the idle thread.
    id: Option<u32>,
    name: String,
    prio: Option<i32>,
    is_kernel: bool,
    /// Whether it had the CPU before the thread waited for that; else it got it since.
    had_it: bool,
}

impl Holder {
    fn came(thread: &Scheduled, is_kernel: bool) -> Holder {
        let (id, name, prio) = (Some(thread.id), thread.name.clone(), Some(thread.prio));
        Holder { id, name, prio, is_kernel, had_it: false }
    }

    /// The thread that ran on the waking CPU, if the followed one waits for that CPU.
    fn ran_at(waking: &Waking) -> Holder {
        match waking.is_elsewhere {
            true => Holder::default(),
            false => Holder { id: Some(waking.waker), name: waking.waker_name.clone(), ..Holder::default() },
        }
    }

    /// As it was when it left, with its name at that time.
    fn until(self, left: Option<&Predecessor>) -> Holder {
        match left {
            Some(left) if self.id.is_none_or(|id| id == left.id) => Holder {
                id: Some(left.id),
                name: left.name.clone(),
                prio: Some(left.prio),
                is_kernel: left.is_kernel,
                had_it: self.had_it,
            },
            _ => self,
        }
    }

    /// The reason why a thread of priority `own` did not have the CPU in this time. One that has to give way
    /// keeps it only in the kernel, by the stack at the wakeup. If it got it although the other was ready,
    /// that one was not allowed to run.
    fn cause(self, own: Option<i32>, begin_ns: u64, ns: u64, scene: &Scene<'_>) -> Option<Cause> {
        let id = self.id?;
        let gives_way = own.zip(self.prio).map(|(own, prio)| gives_way(prio, own));
        if !self.had_it && (id == 0 || gives_way == Some(true)) {
            return own.map(|own| withheld(own, begin_ns, ns));
        }
        if id == 0 {
            return Some(Cause::timed(CauseKind::IdleExit, "idle", begin_ns, ns));
        }
        let kind = if self.is_kernel { CauseKind::Kthread } else { CauseKind::Thread };
        let mut cause = Cause::timed(kind, self.name.clone(), begin_ns, ns);
        cause.owner = Some(Owner { tid: id, name: self.name, ..Owner::default() });
        cause.detail = self.prio.map(scheduled_as);
        if self.had_it {
            let stack = scene.kernel_stack(begin_ns).unwrap_or_default();
            let priorities = (self.prio, own);
            KeptBy { stack, priorities, preemption: scene.preemption }.blame(&mut cause, scene.names);
        }
        let may_keep = !self.had_it || cause.function.is_some() || gives_way == Some(false);
        may_keep.then_some(cause)
    }
}

/// A time in which the thread was ready, and was not allowed to run.
fn withheld(own: i32, begin_ns: u64, ns: u64) -> Cause {
    Cause::timed(CauseKind::Throttled, limit_of(own), begin_ns, ns)
}

/// A wait for the CPU after a wakeup: the thread that ran there, then the next ones.
fn waits(cycle: &LoopCycle, scene: &Scene<'_>, from_ns: u64, to_ns: u64) -> Vec<Cause> {
    let waking = if from_ns == cycle.woken_ns { Some(&cycle.waking) } else { None };
    let mut stays = scene.stays(scene.thread).map(|(_, stay)| stay);
    let waking =
        waking.or_else(|| stays.find(|stay| stay.woken_ns == Some(from_ns)).map(|stay| &stay.waking));
    let first = waking.map(Holder::ran_at).unwrap_or_default();
    let is_throttled = waking.is_some_and(|waking| waking.is_throttled);
    shares(cycle, scene, (from_ns, to_ns), Holder { had_it: true, ..first }, is_throttled)
}

/// The part of a wait for the CPU in which the quota of its control group kept the thread from that: at its
/// begin if it `began_so`, else at its end, after which the thread runs.
fn by_quota(stay: Option<&Stay>, (from_ns, to_ns): (u64, u64), began_so: bool) -> Option<(u64, u64)> {
    let ns = stay.map_or(0, |stay| stay.withheld_ns).min(to_ns - from_ns);
    match (began_so, ns) {
        // This kernel does not count it.
        (true, 0) => Some((from_ns, to_ns)),
        (true, ns) => Some((from_ns, from_ns + ns)),
        (false, ns) => (ns >= SHORTEST_NS).then_some((to_ns - ns, to_ns)),
    }
}

/// The part of `ns` without another explanation that the hypervisor took, by the clock of the CPU that this
/// stay began on.
fn stolen_from(ns: u64, stay: Option<&Stay>) -> Option<u64> {
    stay.map(|stay| stay.stolen_before_ns.min(ns)).filter(|ns| *ns >= SHORTEST_NS)
}

/// Gives the hypervisor what its clock says: of the time without a cause, and of the threads that had the CPU
/// if the clock was read as the thread left that.
fn give_stolen(causes: &mut Vec<Cause>, stay: &Stay, cycle: &LoopCycle, (from_ns, to_ns): (u64, u64)) {
    let late_ns = if from_ns == cycle.woken_ns { from_ns.saturating_sub(cycle.due_ns) } else { 0 };
    let left_ns = stay.stolen_before_ns.saturating_sub(late_ns);
    let named_ns: u64 = causes.iter().filter_map(|cause| cause.duration_ns).sum();
    let mut stolen_ns = left_ns.min((to_ns - from_ns).saturating_sub(named_ns));
    if stay.woken_ns.is_none() {
        let longest = causes.iter_mut().filter(|cause| !is_withheld(cause));
        let longest =
            longest.max_by_key(|cause| cause.duration_ns).and_then(|cause| cause.duration_ns.as_mut());
        if let Some(ns) = longest {
            let taken_ns = (left_ns - stolen_ns).min(*ns);
            *ns -= taken_ns;
            stolen_ns += taken_ns;
        }
    }
    if stolen_ns >= SHORTEST_NS {
        let when = if stay.woken_ns.is_some() { SINCE_IT_SLEPT } else { SINCE_IT_LEFT };
        causes.push(own::stolen(from_ns.saturating_sub(cycle.due_ns), stolen_ns, when));
    }
}

/// Divides the time between two moments among the threads that had the CPU for which the thread waited then:
/// `first`, and the later ones. None had it while a quota kept the thread from it, and none is named where
/// records of the wait were lost.
fn shares(
    cycle: &LoopCycle,
    scene: &Scene<'_>,
    (from_ns, to_ns): (u64, u64),
    first: Holder,
    is_throttled: bool,
) -> Vec<Cause> {
    let stay = scene.stay_from(to_ns);
    if to_ns <= from_ns {
        return Vec::new();
    }
    let quota = by_quota(stay, (from_ns, to_ns), is_throttled);
    let by_quota = quota.map(|(at_ns, end_ns)| {
        Cause::timed(CauseKind::Throttled, QUOTA, at_ns.saturating_sub(cycle.due_ns), end_ns - at_ns)
    });
    if stay.is_some_and(|stay| stay.has_hole) {
        return by_quota.into_iter().collect();
    }
    // The part of a time that the quota leaves: it is at either end of the whole.
    let without_quota = |begin_ns: u64, end_ns: u64| match quota {
        Some((at_ns, until_ns)) if at_ns <= begin_ns => (begin_ns.max(until_ns.min(end_ns)), end_ns),
        Some((at_ns, _)) => (begin_ns, end_ns.min(at_ns)),
        None => (begin_ns, end_ns),
    };
    let was_woken = first.had_it;
    let mut parts = Vec::new();
    for (n, (cpu, from_ns, to_ns)) in scene.waited_for(from_ns, to_ns, cycle.cpu).into_iter().enumerate() {
        // The one that has the CPU to which it was moved is known when it leaves.
        let has_it = Holder { had_it: true, ..Holder::default() };
        parts.push((cpu, from_ns, if n == 0 { first.clone() } else { has_it }));
        let came = scene.came(cpu, from_ns, to_ns).into_iter();
        parts.extend(came.map(|(at_ns, thread, is_kernel)| (cpu, at_ns, Holder::came(&thread, is_kernel))));
    }
    let ends: Vec<u64> = parts.iter().skip(1).map(|(_, at_ns, _)| *at_ns).chain([to_ns]).collect();
    let own = stay.map(|stay| stay.prio);
    let parts = parts.into_iter().zip(ends).filter_map(|((cpu, begin_ns, holder), end_ns)| {
        let holder = holder.until(scene.left(cpu, end_ns));
        let (begin_ns, end_ns) = without_quota(begin_ns, end_ns);
        let ns = end_ns.saturating_sub(begin_ns);
        let cause = if ns >= SHORTEST_NS { holder.cause(own, begin_ns, ns, scene) } else { None };
        Some(Cause { begin_ns: Some(begin_ns.saturating_sub(cycle.due_ns)), ..cause? })
    });
    let mut causes = Vec::new();
    parts.for_each(|cause| add(&mut causes, cause));
    causes.retain(|cause| !was_woken || !is_withheld(cause) || cause.duration_ns >= Some(WITHHELD_NS));
    causes.extend(by_quota);
    if let Some(stay) = stay {
        give_stolen(&mut causes, stay, cycle, (from_ns, to_ns));
    }
    causes
}

fn is_withheld(cause: &Cause) -> bool {
    cause.kind == CauseKind::Throttled
}

/// Adds a cause. Whichever threads run while the followed one is not allowed to, that is one cause.
fn add(causes: &mut Vec<Cause>, cause: Cause) {
    let end_ns = |cause: &Cause| cause.begin_ns.unwrap_or(0) + cause.duration_ns.unwrap_or(0);
    let is_next = |last: &&mut Cause| cause.begin_ns.unwrap_or(0) <= end_ns(last) + SHORTEST_NS;
    match causes.last_mut().filter(|last| is_withheld(last) && is_withheld(&cause)).filter(is_next) {
        Some(last) => last.duration_ns = Some(end_ns(&cause) - last.begin_ns.unwrap_or(0)),
        None => causes.push(cause),
    }
}
