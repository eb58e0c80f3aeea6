// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of one CPU, the same from each collector.

use evidence::cause::KernelContext;

/// An event; functions are kernel addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// The CPU of the event: for a request, the CPU that sent it.
    pub cpu: u32,
    /// The event.
    pub kind: EventKind,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// An interrupt, or a similar context above threads, began.
    Enter(ContextKind),
    /// It ended.
    Exit(ContextKind),
    /// An NMI handler returned, with its duration.
    Nmi {
        /// The handler; 0 for the whole NMI.
        handler: u64,
        /// Its length.
        duration_ns: u64,
    },
    /// Another thread got this CPU.
    Switch {
        /// The thread that left.
        from: u32,
        /// The one that came.
        to: Task,
    },
    /// A thread of this CPU was woken.
    Waking {
        /// The thread.
        woken: u32,
        /// The thread that ran on the waking CPU.
        waker: Task,
    },
    /// A timer's function was called.
    Timer(u64),
    /// The measuring thread took a page fault.
    Fault(u64),
    /// The CPU went into an idle state.
    Idle(u32),
    /// The CPU's frequency changed.
    Frequency {
        /// The new one.
        khz: u64,
    },
    /// The tick was not stopped, for this reason.
    TickKept(u64),
    /// A thread was moved to a CPU.
    Migrate {
        /// The thread.
        pid: u32,
        /// Its new CPU.
        to: u32,
    },
    /// Another CPU sent this one a request. These are few and long.
    Sent(Box<Sent>),
    /// A measuring thread was woken while another thread had this CPU.
    Kept(Box<DelayedWakeup>),
    /// The time that the hypervisor has taken from this CPU so far, by its own clock.
    Stolen(u64),
    /// A measuring thread leaves this CPU with the next switch, and does not sleep.
    Left {
        /// The thread.
        pid: u32,
        /// The kernel's priority of it, where known.
        prio: Option<i32>,
        /// Whether it was stopped: by a signal, a debugger, or the freezer. Else it is ready to run.
        is_stopped: bool,
        /// Whether the quota of its control group keeps it from that.
        is_throttled: bool,
    },
    /// A measuring thread was woken, and the quota of its control group is used up.
    Throttled {
        /// The thread.
        pid: u32,
        /// The kernel's priority of it.
        prio: i32,
    },
    /// A thread of this CPU took another name.
    Renamed {
        /// The thread.
        pid: u32,
        /// Its name from here on.
        comm: String,
    },
}

impl EventKind {
    /// The reason for this kernel entry, where the event is its begin.
    pub fn excursion(&self) -> Option<&'static str> {
        Some(match self {
            EventKind::Enter(ContextKind::Irq(_)) => "irq",
            EventKind::Enter(ContextKind::Vector(vector)) => match vector {
                Vector::LocalTimer => "local timer",
                Vector::Reschedule => "reschedule",
                Vector::CallFunction => "call function",
                Vector::IrqWork => "irq work",
                _ => "other vector",
            },
            EventKind::Enter(ContextKind::Syscall(_)) => "system call",
            EventKind::Fault(_) => "page fault",
            _ => return None,
        })
    }
}

/// A wakeup of a measuring thread that finds another thread on its CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DelayedWakeup {
    /// The measuring thread, where the event names it.
    pub woken: Option<u32>,
    /// The kernel's priority of the thread that has the CPU, and of the one that is woken, where known.
    pub priorities: (Option<i32>, Option<i32>),
    /// Whether the interrupt of the wakeup came in user mode.
    pub in_user_mode: bool,
    /// Whether it came at the edge of another one that came in user mode: of that one, and not of the thread.
    pub at_edge: bool,
    /// The kernel functions on this CPU's stack at that moment, innermost first.
    pub stack: Vec<u64>,
    /// The part of the stack from the outermost of several interrupts on, where that one came in the kernel:
    /// the thread's own part.
    pub outer: Vec<u64>,
}

impl DelayedWakeup {
    /// Whether the thread that has the CPU gives way to the one that is woken as soon as it can be
    /// interrupted. Not known of two ordinary threads.
    pub fn yields(&self) -> bool {
        match self.priorities {
            (Some(has), Some(woken)) => woken < has && woken < ORDINARY,
            (Some(has), None) => has >= ORDINARY,
            (None, _) => false,
        }
    }

    /// Whether the wakeup's interrupt is late for a reason of its own: user mode holds none off, and an
    /// ordinary thread, or one of lower priority, would have had to give way to it.
    pub fn is_late(&self) -> bool {
        let is_ordinary = self.priorities.0.is_some_and(|has| has >= ORDINARY);
        self.in_user_mode && (is_ordinary || self.yields())
    }
}

/// The kernel's priorities of ordinary threads begin here.
pub const ORDINARY: i32 = 100;

/// A context that can interrupt a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextKind {
    /// A device's interrupt.
    Irq(u32),
    /// An interrupt that the processor defines.
    Vector(Vector),
    /// A function that another CPU requested, with the request (`csd`).
    Call {
        /// The function.
        function: u64,
        /// The request's address.
        request: u64,
    },
    /// A kind of softirq.
    Softirq(u32),
    /// A worker's function.
    Work(u64),
    /// A system call of the measuring thread.
    Syscall(u64),
}

impl ContextKind {
    /// Whether it is above all threads. Others belong to the thread in which they began, and wait with it.
    pub fn is_hard(self) -> bool {
        matches!(self, ContextKind::Irq(_) | ContextKind::Vector(_) | ContextKind::Call { .. })
    }

    /// Whether an exit event of `other` ends this one. The exit event of a system call may not have its
    /// number.
    pub fn is_ended_by(self, other: ContextKind) -> bool {
        match (self, other) {
            (ContextKind::Syscall(_), ContextKind::Syscall(_))
            | (ContextKind::Work(_), ContextKind::Work(_)) => true,
            (mine, other) => mine == other,
        }
    }
}

/// Interrupts that no device sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vector {
    /// The CPU's own timer.
    LocalTimer,
    /// Another CPU wants this one to schedule.
    Reschedule,
    /// Another CPU wants this one to call functions.
    CallFunction,
    /// The kernel's deferred work in a hard interrupt (irq_work), of this or another CPU.
    IrqWork,
    /// For virtual machines.
    PlatformIpi,
    /// Thermal event of the processor.
    Thermal,
    /// Corrected machine checks.
    Threshold,
    /// AMD's deferred errors.
    DeferredError,
    /// The interrupt controller's error.
    Error,
    /// Spurious.
    Spurious,
    /// One of another processor.
    Other,
}

impl Vector {
    /// arm64's name of it, of which the first 15 letters suffice.
    pub fn of_arm(reason: &str) -> Vector {
        match reason {
            reason if reason.starts_with("Rescheduling") => Vector::Reschedule,
            reason if reason.starts_with("Function call") => Vector::CallFunction,
            reason if reason.starts_with("IRQ work") => Vector::IrqWork,
            _ => Vector::Other,
        }
    }
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Its number; 0 is the idle thread.
    pub pid: u32,
    /// Its name; empty where unknown.
    pub comm: String,
    /// The kernel's priority: below 0 deadline, below 100 real-time, 120 ordinary at nice 0; `None` where
    /// unknown.
    pub prio: Option<i32>,
    /// Whether it is a kernel thread; `None` where unknown.
    pub kernel: Option<bool>,
    /// The context in which it woke or asked, where known: only in its own is it what did so.
    pub context: Option<KernelContext>,
}

/// The request of another CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// The thread that sent it.
    pub by: Task,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// The request's address, for a function call.
    pub request: Option<u64>,
    /// The function; 0 for a reschedule.
    pub function: u64,
    /// The sending function, and its callers.
    pub stack: Vec<u64>,
}
