// SPDX-License-Identifier: MIT OR Apache-2.0
use std::collections::VecDeque;

use super::*;
use crate::event::{Sent, Task};

const OWN: u32 = 71;
const WOKEN: u32 = 72;
const PEER: u32 = 73;
const TIMER: ContextKind = ContextKind::Vector(Vector::LocalTimer);
const CALL: ContextKind = ContextKind::Vector(Vector::CallFunction);
const RESCHEDULE: ContextKind = ContextKind::Vector(Vector::Reschedule);

fn task(pid: u32) -> Task {
    Task { pid, ..Task::default() }
}

/// Ten events of each kind that is provoked.
fn made() -> Provoked {
    let counts = TrialKind::ALL.into_iter().map(|kind| (kind, 10)).collect();
    Provoked { cpu: 1, interrupted: OWN, woken: WOKEN, by: PEER, from_ns: 1_000, counts }
}

/// One event of each kind that is provoked.
fn event(kind: TrialKind) -> EventKind {
    match kind {
        TrialKind::Threads => EventKind::Switch { from: OWN, to: task(0) },
        TrialKind::TimerInterrupts => {
            EventKind::Exit(if cfg!(target_arch = "aarch64") { ContextKind::Irq(11) } else { TIMER })
        }
        TrialKind::TimerFunctions => EventKind::Timer(0xf0),
        TrialKind::Softirqs => EventKind::Enter(ContextKind::Softirq(7)),
        TrialKind::CallIpis => EventKind::Enter(CALL),
        TrialKind::CalledFunctions => EventKind::Enter(ContextKind::Call { function: 0xf0, request: 0xc0 }),
        TrialKind::RescheduleIpis => EventKind::Enter(RESCHEDULE),
        TrialKind::Wakers => EventKind::Waking { woken: WOKEN, waker: task(PEER) },
        TrialKind::Migrations => EventKind::Migrate { pid: WOKEN, to: 1 },
        TrialKind::Faults => EventKind::Fault(0x7f00),
        TrialKind::Syscalls => EventKind::Enter(ContextKind::Syscall(230)),
        TrialKind::IdleStates => EventKind::Idle(1),
        TrialKind::CallSenders => EventKind::Sent(Box::new(Sent {
            by: task(PEER),
            request: Some(0xc0),
            function: 0xf0,
            ..Sent::default()
        })),
        TrialKind::RescheduleSenders => EventKind::Sent(Box::new(Sent { by: task(9), ..Sent::default() })),
    }
}

fn events(kinds: impl IntoIterator<Item = TrialKind>) -> Vec<Event> {
    let at = |kind| Event { monotonic_ns: 2_000, cpu: 1, kind: event(kind) };
    kinds.into_iter().map(at).collect()
}

fn without(missing: &[TrialKind]) -> TrialResult {
    let mut result = TrialResult::default();
    result.add(&made(), &events(TrialKind::ALL.into_iter().filter(|kind| !missing.contains(kind))));
    result
}

#[test]
fn a_collector_that_reports_all_kinds_passes() {
    let judged = without(&[]).judge(Depth::Busy, true, &[]).unwrap();
    assert_eq!(judged.unseen, Vec::<String>::new());
    let absent: &[&str] = match cfg!(target_arch = "x86_64") {
        true => &["NMIs", "device interrupts", "workqueue functions", "irq work", "frequency changes"],
        false => &["NMIs", "workqueue functions", "irq work", "frequency changes"],
    };
    assert_eq!(judged.not_tried, absent);
}

#[test]
fn each_kind_has_events_of_its_own() {
    for kind in TrialKind::ALL {
        let of = |other: &TrialKind| other.is(&event(kind), &made());
        assert_eq!(TrialKind::ALL.into_iter().filter(of).collect::<Vec<_>>(), [kind]);
    }
}

#[test]
fn refuses_a_collector_without_switches_or_timers() {
    let refused = |missing: &[TrialKind], depth| without(missing).judge(depth, false, &[]).unwrap_err();
    assert_eq!(
        refused(&[TrialKind::Threads], Depth::Sleeping),
        "in its trial it did not report threads, of which 10 were provoked"
    );
    let timers = [TrialKind::TimerInterrupts, TrialKind::TimerFunctions];
    assert_eq!(
        refused(&timers, Depth::Busy),
        "in its trial it did not report the tick and other timers, of which 10 were provoked"
    );
    assert!(without(&timers[..1]).judge(Depth::Busy, false, &[]).is_ok(), "one of both suffices");
    let senders = [TrialKind::CallSenders, TrialKind::RescheduleSenders];
    assert!(refused(&senders, Depth::Senders).contains("did not report senders of function-call IPIs"));
    assert!(without(&senders).judge(Depth::Sleeping, false, &[]).is_ok());
}

#[test]
fn distinguishes_threads_of_other_numbers_from_none() {
    let mut result = without(&[TrialKind::Threads]);
    let other = EventKind::Switch { from: 4_001, to: task(0) };
    result.add(&made(), &[Event { monotonic_ns: 2_000, cpu: 1, kind: other }]);
    assert!(result.judge(Depth::Busy, false, &[]).unwrap_err().contains("PID namespace"));
}

#[test]
fn another_unseen_kind_limits_the_collector() {
    let missing = [TrialKind::Softirqs, TrialKind::RescheduleSenders];
    let judged = without(&missing).judge(Depth::Sleeping, false, &[]).unwrap();
    assert_eq!(
        judged.unseen,
        [
            "softirqs: the trial provoked 10, and the collector reported none",
            "senders of other IPIs: the trial provoked 10, and the collector reported none"
        ]
    );
    // Kinds that the collector itself reported as unseen.
    let said = ["softirqs: this kernel does not report them".to_string(), "timers and IPIs: no".to_string()];
    let missing = [TrialKind::Softirqs, TrialKind::CallIpis];
    let judged = without(&missing).judge(Depth::Sleeping, false, &said[..1]).unwrap();
    assert_eq!(judged.unseen.len(), 1);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(without(&missing).judge(Depth::Sleeping, false, &said).unwrap().unseen.len(), 0);
    }
}

#[test]
fn a_kind_that_did_not_happen_counts_as_untried() {
    let mut result = TrialResult::default();
    let few = |kind| (kind, if kind == TrialKind::RescheduleIpis { 2 } else { 0 });
    let counts = TrialKind::ALL.into_iter().map(few).collect();
    result.add(&Provoked { counts, ..made() }, &[]);
    assert!(!result.is_short(Depth::Busy, true));
    let judged = result.judge(Depth::Busy, true, &[]).unwrap();
    assert_eq!(judged.unseen, Vec::<String>::new());
    assert!(judged.not_tried.contains(&"reschedule IPIs".to_string()), "{judged:?}");
    let judged = result.judge(Depth::Senders, true, &[]).unwrap();
    assert_eq!(judged.not_tried, ["senders of function-call IPIs", "senders of other IPIs"]);
}

#[test]
fn events_from_before_the_trial_prove_nothing() {
    let mut result = TrialResult::default();
    let mut old = events(TrialKind::ALL);
    old.iter_mut().for_each(|event| event.monotonic_ns = 999);
    result.add(&made(), &old);
    assert!(result.judge(Depth::Busy, true, &[]).is_err());
    assert!(result.is_short(Depth::Busy, true));
    // The next attempt has them.
    result.add(&made(), &events(TrialKind::ALL));
    assert!(!result.is_short(Depth::Busy, true));
    assert!(result.judge(Depth::Busy, true, &[]).is_ok());
}

#[test]
fn both_collectors_use_the_same_names() {
    let bpf = include_str!("../bpf/mod.rs");
    for kind in TrialKind::ALL {
        assert!(bpf.contains(&format!("\"{}\"", kind.subject())), "{kind:?}");
    }
    let tracefs = include_str!("../tracefs/mod.rs");
    for kind in TrialKind::ALL {
        let is_there = |subject: &str| tracefs.contains(&format!("\"{subject}\""));
        assert!(is_there(kind.subject()) || kind.group().is_some_and(is_there), "{kind:?}");
    }
}

#[test]
fn another_cpu_interrupts_the_tested_one() {
    let online = CpuSet::from_iter(0..4);
    assert_eq!(peers(1, &[0, 1], &online), [0]);
    assert_eq!(peers(1, &[1], &online), [0, 2, 3]);
    assert_eq!(peers(0, &[0], &CpuSet::from_iter([0])), Vec::<u32>::new());
}

/// A collector that reports nothing, and records its calls.
#[derive(Debug, Default)]
struct Silent {
    own: Vec<Vec<u32>>,
    taken: VecDeque<u32>,
}

impl Collect for std::sync::Arc<std::sync::Mutex<Silent>> {
    fn collector(&self) -> Collector {
        Collector::Bpf
    }

    fn could_not_see(&self) -> &[String] {
        &[]
    }

    fn own(&mut self, _cpu: u32, threads: &[u32]) -> Result<()> {
        self.lock().unwrap().own.push(threads.to_vec());
        Ok(())
    }

    fn take(&mut self, cpu: u32) -> Result<(Vec<Event>, u64)> {
        self.lock().unwrap().taken.push_back(cpu);
        Ok((Vec::new(), 0))
    }

    fn since(&mut self, _: u32, _: u64) -> Result<(Vec<Event>, u64)> {
        Ok((Vec::new(), 0))
    }
}

/// Needs no collector: it interrupts its own threads on an allowed CPU.
#[test]
fn refuses_a_collector_that_reports_nothing() {
    let Some(cpu) = rt::thread::affinity().into_iter().next() else { return };
    let silent = std::sync::Arc::new(std::sync::Mutex::new(Silent::default()));
    let root = tempfile::tempdir().unwrap();
    let trial = Trial {
        root: root.path(),
        cpus: &[cpu],
        online: &CpuSet::from_iter([cpu]),
        depth: Depth::Busy,
        has_idle_states: false,
        is_asked: false,
    };
    let refused = trial.of(Box::new(std::sync::Arc::clone(&silent)), 0).unwrap_err();
    // A starved machine has another reason.
    let is_tried = refused.why.contains("it did not report threads, of which");
    assert!(is_tried || refused.why.contains("another thread had the CPU"), "{refused}");
    assert_eq!(silent.lock().unwrap().own.last(), Some(&Vec::new()), "its threads no longer measure");
    assert_eq!(silent.lock().unwrap().taken.back(), Some(&cpu), "no event of the trial stays");
}

#[test]
fn keeps_a_named_collector_that_cannot_be_tried() {
    let root = tempfile::tempdir().unwrap();
    let online = CpuSet::from_iter([0]);
    // No test machine has so many CPUs.
    let trial = Trial {
        root: root.path(),
        cpus: &[1023],
        online: &online,
        depth: Depth::Busy,
        has_idle_states: false,
        is_asked: false,
    };
    let collector = || Box::new(std::sync::Arc::new(std::sync::Mutex::new(Silent::default())));
    let refused = trial.of(collector(), 0).unwrap_err();
    assert!(refused.why.starts_with("it could not be tried: cannot run on cpus [1023]"), "{refused}");
    let asked = Trial { is_asked: true, ..trial }.of(collector(), 0).unwrap();
    assert!(asked.could_not_see()[0].starts_with("the trial of the collector: "), "{asked:?}");
}
