// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own execution within a cycle: the system calls in which it spent its CPU time, and the signals
//! that it handled.
//!
//! Calls are known by samples of the thread's CPU time, once an earlier cycle was late by its own execution.
//! No tracepoint of system calls is used, which would slow down those of all programs.

use std::collections::BTreeMap;

use evidence::cause::{Cause, CauseKind, HYPERVISOR};

use crate::cycle::LoopCycle;
use crate::record::{SAMPLED_NS, ThreadEvent};
use crate::scene::Scene;
use crate::wait::Wait;

/// A call with fewer samples in a cycle may have taken next to no time.
const FEWEST: usize = 3;

/// Whether these causes of a cycle are worth samples of the next ones: most of it is the program's own
/// execution.
pub fn is_most(causes: &[Cause]) -> bool {
    let most = causes.iter().max_by_key(|cause| cause.duration_ns);
    let is_long = |cause: &Cause| cause.duration_ns >= Some(FEWEST as u64 * SAMPLED_NS);
    most.is_some_and(|cause| cause.kind == CauseKind::Execution && is_long(cause))
}

/// The causes of `ns` of execution since `from_ns`: calls, then the program itself. The hypervisor's clock
/// says how much of that was no execution.
pub fn execution(cycle: &LoopCycle, from_ns: u64, ns: u64, scene: &Scene<'_>) -> Vec<Cause> {
    let (mut calls, mut signals) = (BTreeMap::<u32, Vec<_>>::new(), BTreeMap::new());
    let is_within = |at_ns: u64| at_ns >= from_ns && at_ns < cycle.ended_ns;
    for record in scene.records.iter().filter(|one| one.thread == scene.thread && is_within(one.at_ns)) {
        match &record.kind {
            ThreadEvent::Sample { call: Some(call), callers } => {
                calls.entry(*call).or_default().push((record.at_ns, callers.as_slice()));
            }
            ThreadEvent::Signalled { signal, handler } => drop(signals.insert(*signal, *handler)),
            _ => {}
        }
    }
    let stolen_ns = cycle.stolen_ns.min(ns);
    let (mut left_ns, mut causes) = (ns - stolen_ns, Vec::new());
    let begin_ns = from_ns.saturating_sub(cycle.due_ns);
    causes.extend((stolen_ns > 0).then(|| stolen(begin_ns, stolen_ns, "while the thread had it")));
    for (call, samples) in calls.into_iter().filter(|(_, samples)| samples.len() >= FEWEST) {
        let took_ns = (samples.len() as u64 * SAMPLED_NS).min(left_ns);
        left_ns -= took_ns;
        let begin_ns = (samples[0].0.saturating_sub(SAMPLED_NS)).max(from_ns).saturating_sub(cycle.due_ns);
        let name = Wait::Other(call).to_string();
        let mut cause = Cause::timed(CauseKind::Syscall, name, begin_ns, took_ns);
        cause.detail = Some(format!("by {} samples, of 100 us each", samples.len()));
        cause.stack = most_frequent(samples.iter().map(|(_, callers)| named(callers, scene)));
        cause.function = cause.stack.first().cloned();
        causes.push(cause);
    }
    let mut own = Cause::timed(CauseKind::Execution, "the program", begin_ns, left_ns);
    let told: Vec<String> = signals.into_iter().map(|(signal, at)| handled(signal, at, scene)).collect();
    own.detail = (!told.is_empty()).then(|| told.join(", "));
    causes.push(own);
    causes
}

/// Time that the hypervisor took from the thread's CPU; `when` as its clock says it.
pub fn stolen(begin_ns: u64, ns: u64, when: &str) -> Cause {
    let mut cause = Cause::timed(CauseKind::Stolen, HYPERVISOR, begin_ns, ns);
    cause.detail = Some(format!("by its own clock of this cpu, {when}"));
    cause
}

fn named(callers: &[u64], scene: &Scene<'_>) -> Vec<String> {
    callers.iter().filter_map(|address| scene.names.function(*address)).map(str::to_string).collect()
}

/// The stack whose innermost function has the most samples.
fn most_frequent(stacks: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut counts = BTreeMap::<Option<String>, (usize, Vec<String>)>::new();
    for stack in stacks {
        counts.entry(stack.first().cloned()).or_insert((0, stack)).0 += 1;
    }
    counts.into_values().max_by_key(|(count, _)| *count).map(|(_, stack)| stack).unwrap_or_default()
}

fn handled(signal: u32, handler: u64, scene: &Scene<'_>) -> String {
    let function = scene.code.borrow_mut().function(handler);
    format!("handles signal {signal} in {}", function.unwrap_or_else(|| format!("{handler:#x}")))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use cause::names::Names;
    use syscalls::Sysno;

    use super::*;
    use crate::record::ThreadRecord;

    fn record(at_ns: u64, kind: ThreadEvent) -> ThreadRecord {
        ThreadRecord { thread: 7, cpu: 1, at_ns, kind }
    }

    #[test]
    fn a_call_takes_the_time_of_its_samples() {
        let sample = |at_us: u64, call: Sysno| {
            let callers = vec![0x1_0008];
            record(at_us * 1_000, ThreadEvent::Sample { call: Some(call as u32), callers })
        };
        let records = [
            sample(1_100, Sysno::openat),
            sample(1_200, Sysno::openat),
            sample(1_300, Sysno::clock_gettime),
            sample(1_400, Sysno::openat),
            record(1_450_000, ThreadEvent::Signalled { signal: 10, handler: 0x4000 }),
            sample(9_000, Sysno::openat),
        ];
        let root = tempfile::tempdir().unwrap();
        let (names, numbers, code) = (Names::read(root.path()), BTreeMap::new(), RefCell::default());
        let scene = Scene {
            records: &records,
            stacks: &[],
            thread: 7,
            names: &names,
            numbers: &numbers,
            threads: &BTreeMap::new(),
            preemption: "PREEMPT",
            code: &code,
            root: Path::new("/nonexistent"),
        };
        let cycle = LoopCycle { ended_ns: 2_000_000, ..LoopCycle::at(1, 1_000_000) };
        let causes = execution(&cycle, 1_000_000, 900_000, &scene);
        let parts: Vec<_> = causes
            .iter()
            .map(|cause| (cause.kind, cause.name.as_str(), cause.duration_ns.unwrap()))
            .collect();
        let own = (CauseKind::Execution, "the program", 600_000);
        assert_eq!(parts, [(CauseKind::Syscall, "openat", 300_000), own], "one sample tells no time");
        assert_eq!(causes[1].detail.as_deref(), Some("handles signal 10 in 0x4000"));
        assert!(is_most(&causes) && !is_most(&causes[..1]));
        let robbed = execution(&LoopCycle { stolen_ns: 700_000, ..cycle }, 1_000_000, 900_000, &scene);
        let parts: Vec<_> = robbed.iter().map(|cause| (cause.kind, cause.duration_ns.unwrap())).collect();
        let [stolen, call] = [(CauseKind::Stolen, 700_000), (CauseKind::Syscall, 200_000)];
        assert_eq!(parts, [stolen, call, (CauseKind::Execution, 0)]);
    }
}
