// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of events that threads can provoke on a CPU of their choice, and their events.

use std::collections::BTreeMap;

use crate::depth::Depth;
use crate::event::{ContextKind, EventKind, Vector};

/// If the kernel counts so many, at least one came while it was watched.
const FEWEST: u64 = 3;

/// A kind of event that threads can provoke on a CPU of their choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrialKind {
    Threads,
    TimerInterrupts,
    TimerFunctions,
    Softirqs,
    CallIpis,
    CalledFunctions,
    RescheduleIpis,
    Wakers,
    Migrations,
    Faults,
    Syscalls,
    IdleStates,
    CallSenders,
    RescheduleSenders,
}

impl TrialKind {
    pub(super) const ALL: [TrialKind; 14] = [
        TrialKind::Threads,
        TrialKind::TimerInterrupts,
        TrialKind::TimerFunctions,
        TrialKind::Softirqs,
        TrialKind::CallIpis,
        TrialKind::CalledFunctions,
        TrialKind::RescheduleIpis,
        TrialKind::Wakers,
        TrialKind::Migrations,
        TrialKind::Faults,
        TrialKind::Syscalls,
        TrialKind::IdleStates,
        TrialKind::CallSenders,
        TrialKind::RescheduleSenders,
    ];

    /// Its name in the list of kinds that a collector cannot see.
    pub(super) fn subject(self) -> &'static str {
        match self {
            TrialKind::Threads => "threads",
            TrialKind::TimerInterrupts => "the tick and other timers",
            TrialKind::TimerFunctions => "timer functions",
            TrialKind::Softirqs => "softirqs",
            TrialKind::CallIpis => "function-call IPIs",
            TrialKind::CalledFunctions => "functions called by IPIs",
            TrialKind::RescheduleIpis => "reschedule IPIs",
            TrialKind::Wakers => "wakers of threads",
            TrialKind::Migrations => "migrations",
            TrialKind::Faults => "page faults of the measured thread",
            TrialKind::Syscalls => "system calls of the measured thread",
            TrialKind::IdleStates => "idle states",
            TrialKind::CallSenders => "senders of function-call IPIs",
            TrialKind::RescheduleSenders => "senders of other IPIs",
        }
    }

    /// A collector's common name of several kinds.
    pub(super) fn group(self) -> Option<&'static str> {
        match self {
            TrialKind::TimerInterrupts | TrialKind::CallIpis | TrialKind::RescheduleIpis => {
                Some(if cfg!(target_arch = "aarch64") { "IPIs" } else { "timers and IPIs" })
            }
            _ => None,
        }
    }

    /// Whether a collector at this depth reports it.
    pub(super) fn is_told(self, depth: Depth, has_idle_states: bool) -> bool {
        match self {
            TrialKind::CallSenders | TrialKind::RescheduleSenders => true,
            _ if depth == Depth::Senders => false,
            TrialKind::Syscalls => depth == Depth::Busy,
            TrialKind::IdleStates => has_idle_states,
            TrialKind::Faults => cfg!(target_arch = "x86_64"),
            _ => true,
        }
    }

    /// How many must have happened, so that at least one came while it was watched.
    pub(super) fn fewest(self) -> u64 {
        match self {
            TrialKind::Migrations | TrialKind::Faults => 1,
            _ => FEWEST,
        }
    }

    /// Whether an event is one of the provoked ones.
    pub(super) fn is(self, event: &EventKind, made: &Provoked) -> bool {
        match (self, event) {
            (TrialKind::Threads, EventKind::Switch { from, to }) => {
                *from == made.interrupted || to.pid == made.interrupted
            }
            (TrialKind::TimerInterrupts, EventKind::Enter(context) | EventKind::Exit(context)) => {
                is_timer(*context)
            }
            (TrialKind::TimerFunctions, EventKind::Timer(_))
            | (TrialKind::Softirqs, EventKind::Enter(ContextKind::Softirq(_)))
            | (TrialKind::CallIpis, EventKind::Enter(ContextKind::Vector(Vector::CallFunction)))
            | (TrialKind::CallIpis, EventKind::Exit(ContextKind::Vector(Vector::CallFunction)))
            | (TrialKind::CalledFunctions, EventKind::Enter(ContextKind::Call { .. }))
            | (TrialKind::RescheduleIpis, EventKind::Enter(ContextKind::Vector(Vector::Reschedule)))
            | (TrialKind::RescheduleIpis, EventKind::Exit(ContextKind::Vector(Vector::Reschedule)))
            | (TrialKind::Faults, EventKind::Fault(_))
            | (TrialKind::Syscalls, EventKind::Enter(ContextKind::Syscall(_)))
            | (TrialKind::IdleStates, EventKind::Idle(_)) => true,
            (TrialKind::Wakers, EventKind::Waking { woken, waker }) => {
                *woken == made.woken && waker.pid == made.by
            }
            (TrialKind::Migrations, EventKind::Migrate { pid, to }) => *pid == made.woken && *to == made.cpu,
            (TrialKind::CallSenders, EventKind::Sent(sent)) => {
                sent.by.pid == made.by && (sent.request.is_some() || sent.function != 0)
            }
            (TrialKind::RescheduleSenders, EventKind::Sent(sent)) => {
                sent.request.is_none() && sent.function == 0
            }
            _ => false,
        }
    }
}

/// An interrupt of the CPU's timer; arm64's has a number.
fn is_timer(context: ContextKind) -> bool {
    match context {
        ContextKind::Vector(Vector::LocalTimer) => true,
        ContextKind::Irq(_) => cfg!(target_arch = "aarch64"),
        _ => false,
    }
}

/// The events that were provoked on the CPU.
#[derive(Debug, Default)]
pub(super) struct Provoked {
    pub(super) cpu: u32,
    /// The thread that slept, and was interrupted.
    pub(super) interrupted: u32,
    /// The thread that was moved and woken; 0 without one.
    pub(super) woken: u32,
    /// The thread that woke it, and interrupted the other one.
    pub(super) by: u32,
    /// The begin.
    pub(super) from_ns: u64,
    /// How many of each kind.
    pub(super) counts: BTreeMap<TrialKind, u64>,
}
