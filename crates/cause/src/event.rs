// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel says of one CPU, event by event, whoever collected it.

/// An event; functions are addresses in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When: CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// The CPU that it happened on: another one's for what that one sent.
    pub cpu: u32,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// An interrupt, or what stands above threads like one, began.
    Enter(ContextKind),
    /// It ended.
    Exit(ContextKind),
    /// An NMI handler returned, which had taken that long.
    Nmi {
        /// The handler; 0 where all that ran in the NMI is meant.
        handler: u64,
        /// Its length.
        duration_ns: u64,
    },
    /// Another thread came to this CPU.
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
        /// Who ran where it was woken.
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
    /// The tick was not stopped, because of this dependency.
    TickKept(u64),
    /// A thread was moved to a CPU.
    Migrate {
        /// The thread.
        pid: u32,
        /// Where to.
        to: u32,
    },
    /// Another CPU asked this one for something. There are few of them, and they are long.
    Sent(Box<Sent>),
    /// A measuring thread was woken while another thread had this CPU, in the kernel.
    Kept {
        /// The measuring thread, where that is told.
        woken: Option<u32>,
        /// The functions of the kernel on this CPU at that moment, the innermost first.
        stack: Vec<u64>,
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
    /// What a CPU goes to the kernel for, where this is the beginning of that.
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

/// What may take a CPU from its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextKind {
    /// A device's interrupt.
    Irq(u32),
    /// An interrupt that the processor knows by itself.
    Vector(Vector),
    /// A function that another CPU asked for, and the request (`csd`) that it came by.
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
    /// Whether it stands above all threads; the others belong to the thread that they began in, and go when
    /// it goes.
    pub fn is_hard(self) -> bool {
        matches!(self, ContextKind::Irq(_) | ContextKind::Vector(_) | ContextKind::Call { .. })
    }

    /// Whether one that ends is this one. What ends a system call need not know its number.
    pub fn is_ended_by(self, other: ContextKind) -> bool {
        match (self, other) {
            (ContextKind::Syscall(_), ContextKind::Syscall(_))
            | (ContextKind::Work(_), ContextKind::Work(_)) => true,
            (mine, other) => mine == other,
        }
    }
}

/// Interrupts that are no device's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vector {
    /// The CPU's own timer.
    LocalTimer,
    /// Another CPU wants this one to schedule.
    Reschedule,
    /// Another CPU wants functions called.
    CallFunction,
    /// The kernel's work for hard interrupts, of this or another CPU.
    IrqWork,
    /// For virtual machines.
    PlatformIpi,
    /// The processor is hot.
    Thermal,
    /// Corrected machine checks.
    Threshold,
    /// AMD's deferred errors.
    DeferredError,
    /// The interrupt controller's error.
    Error,
    /// Nobody sent it.
    Spurious,
    /// Another one of another processor.
    Other,
}

impl Vector {
    /// What arm64 calls it, of which the first 15 letters are enough.
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
    /// Its number; 0 is the idle one.
    pub pid: u32,
    /// Its name; empty where unknown.
    pub comm: String,
    /// The kernel's priority: below 0 deadline, below 100 real time, 120 an ordinary one; `None` where
    /// unknown.
    pub prio: Option<i32>,
    /// Whether it is the kernel's; `None` where unknown.
    pub kernel: Option<bool>,
}

/// What another CPU asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// The thread that asked.
    pub by: Task,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// The request's address, for a function call.
    pub request: Option<u64>,
    /// The function; 0 for a mere reschedule.
    pub function: u64,
    /// Where it was asked, and the callers of that.
    pub stack: Vec<u64>,
}
