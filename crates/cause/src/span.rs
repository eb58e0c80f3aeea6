// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of an account of a CPU's time.

use std::ops::Range;

use crate::event::{ContextKind, Sent, Task};

/// The occupant of the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupant {
    /// The measured thread itself.
    Own,
    /// Unknown: no event names it.
    Unknown,
    /// The idle thread, with its idle state where it is known.
    Idle(Option<u32>),
    /// Another thread.
    Thread(Task),
    /// An interrupt or a similar context.
    Context(ContextKind),
    /// An NMI's handler.
    Nmi(u64),
    /// A page fault of the measured thread, at that address.
    Fault(u64),
    /// The measured thread on its way from the switch to its program, where it did not run earlier in the
    /// window.
    Return,
    /// No occupant that could keep the CPU: the interrupt of the wakeup found a thread of lower priority in
    /// user mode.
    Vacant,
    /// The hypervisor, by its own clock.
    Hypervisor,
    /// Whatever ran, or nothing: the measured thread could not, for this reason.
    Withheld(Withheld),
}

/// Why a measuring thread does not run although it does not sleep, and no thread before it takes the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// It has used up the time that threads of its kind may have.
    Throttled {
        /// The kernel's priority, which tells its kind.
        prio: i32,
    },
    /// A signal, a debugger or the freezer stopped it.
    Stopped,
}

/// The waker of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Woken {
    /// The occupant of the same CPU.
    Here(Occupant),
    /// A thread on another CPU.
    There(u32, Task),
}

/// An occupant of the CPU, with its time on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its occupant.
    pub occupant: Occupant,
    /// Its first moment in the window.
    pub begin_ns: u64,
    /// Its time in the window, with entry and exit, without the spans that interrupted it.
    pub duration_ns: u64,
    /// The part that is entry and exit.
    pub entry_exit_ns: u64,
    /// The timer functions that it called.
    pub timers: Vec<u64>,
    /// The request of another CPU that it served.
    pub sent: Option<Sent>,
    /// Its waker.
    pub woken: Option<Woken>,
    /// Its position in the kernel when a measuring thread was woken and had to wait for it.
    pub kept: Option<KeptCpu>,
}

/// A wakeup that found the CPU occupied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCpu {
    /// The measuring thread, where the event names it.
    pub woken: Option<u32>,
    /// The kernel's priority of the thread that had the CPU.
    pub prio: Option<i32>,
    /// The kernel functions on the stack at that moment, with the interrupt's own, innermost first.
    pub stack: Vec<u64>,
}

impl Span {
    /// A span without time yet.
    pub fn of(occupant: Occupant) -> Span {
        Span {
            occupant,
            begin_ns: 0,
            duration_ns: 0,
            entry_exit_ns: 0,
            timers: Vec::new(),
            sent: None,
            woken: None,
            kept: None,
        }
    }

    pub(crate) fn is_explained(&self) -> bool {
        !matches!(self.occupant, Occupant::Own | Occupant::Unknown | Occupant::Vacant)
    }
}

/// An event in the window that takes no time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    /// The measured thread was moved to a CPU.
    Migrated(u32),
    /// The frequency changed.
    Frequency(u64),
}

/// The account of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// The occupants of the CPU, in the order of their begin; each has some time.
    pub spans: Vec<Span>,
    /// The events that take no time, with their time.
    pub points: Vec<(u64, Point)>,
    /// The last reason for which the tick was not stopped.
    pub tick_kept: Option<u64>,
    /// The part of the window without a known occupant.
    pub unexplained_ns: u64,
    /// The longest stretch of that part; empty if there is none.
    pub longest_unexplained: Range<u64>,
    /// The part of it for which the wakeup's interrupt was late although a thread of lower priority was in
    /// user mode, where nothing holds interrupts off.
    pub late_ns: u64,
    /// Whether the hypervisor's own clock was read around that stretch.
    pub has_steal_clock: bool,
    /// Whether the events reach back to the window's beginning.
    pub is_whole: bool,
}
