// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel says of a program's threads, record by record. Times are CLOCK_MONOTONIC, in nanoseconds.

use symbols::UserRegisters;

/// A record of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRecord {
    /// The thread: of [`ThreadEvent::Switched`] the one that got the CPU.
    pub thread: u32,
    /// The CPU that it was written on.
    pub cpu: u32,
    /// When: a stay's end; what a stack belongs to.
    pub at_ns: u64,
    /// What.
    pub kind: ThreadEvent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadEvent {
    /// A stay on a CPU ended.
    Stay(Box<Stay>),
    /// The kernel's functions on the CPU that the thread was woken on, at that time, the innermost first.
    Stack(Vec<u64>),
    /// A thread that is not watched got a CPU that a watched one waits for.
    Switched {
        /// The thread that left the CPU.
        from: Predecessor,
        /// The one that got it.
        to: Scheduled,
        /// Whether that is a thread of the kernel.
        is_kernel: bool,
    },
    /// The thread took a page fault.
    Fault {
        /// The address that it reached for.
        address: u64,
        /// The kernel's error code.
        code: u64,
    },
    /// The thread's timer fired while it was not asleep.
    Expired {
        /// When the timer was due.
        due_ns: u64,
        /// Which timer, as [`Waking::timer`].
        timer: u64,
    },
    /// A watched process has this new thread.
    Started {
        /// The process.
        process: u32,
        /// The thread's name.
        name: String,
    },
    /// The thread made a process.
    Forked {
        /// The new one.
        process: u32,
    },
    /// The thread runs another program from here on.
    Executed {
        /// Its new name.
        name: String,
    },
    /// The thread has ended.
    Exited,
    /// Where a thread was in its program.
    UserStack(Box<UserStack>),
    /// The kernel has dealt with a page fault of the thread.
    FaultOver {
        /// When it began: the time of its [`ThreadEvent::Fault`].
        began_ns: u64,
    },
    /// The thread was moved to another CPU.
    Moved {
        /// That CPU.
        to: u32,
    },
}

/// A thread's registers in its program and the top of its stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserStack {
    /// Why it was copied.
    pub taken: StackTaken,
    /// The thread whose stack it is: for [`StackTaken::AtRelease`] another one than that of the record.
    pub whose: u32,
    /// Its registers.
    pub registers: UserRegisters,
    /// Its stack from the stack pointer on.
    pub bytes: Vec<u8>,
}

/// When a stack was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StackTaken {
    /// The thread began to wait.
    #[default]
    AtWait,
    /// The lock that the thread waited for was released, by the thread whose stack it is.
    AtRelease,
    /// The thread took a page fault.
    AtFault,
}

/// A thread with its scheduling parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// Its number; 0 is the idle thread.
    pub id: u32,
    /// The kernel's dynamic priority: below 100 real-time, and DEADLINE below 0.
    pub prio: i32,
    /// `SCHED_…`, as a number.
    pub policy: u32,
    /// Its name.
    pub name: String,
}

/// A thread as it left a CPU: it may have another name than it came with, and another priority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Predecessor {
    /// Its number; 0 is the idle thread.
    pub id: u32,
    /// The kernel's dynamic priority.
    pub prio: i32,
    /// Whether it is a thread of the kernel.
    pub is_kernel: bool,
    /// Its name.
    pub name: String,
}

/// Where in its program a thread came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// To where a cycle begins, as the user says.
    Begin {
        /// Its stack pointer there: a call within another one has a lower one.
        sp: u64,
    },
    /// To where a cycle ends, as the user says.
    End,
}

/// A stay of a thread on a CPU: it was woken, it came, it left. One in which the thread comes to a
/// [`Boundary`] is two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stay {
    /// When it was woken; `None` where it had only been preempted.
    pub woken_ns: Option<u64>,
    /// When it got the CPU.
    pub in_ns: u64,
    /// Whether no tracepoint told when it got the CPU: then `in_ns` is by the scheduler's own clock, some
    /// microseconds off, or where the kernel keeps none, the earliest time possible.
    pub is_begin_unseen: bool,
    /// Whether the stay before ended at a [`Boundary`], and this one goes on from there.
    pub goes_on: bool,
    /// The thread that left the CPU to it.
    pub after: Predecessor,
    /// When it left.
    pub out_ns: u64,
    /// How it was woken.
    pub waking: Waking,
    /// How it left.
    pub leaving: Leaving,
    /// The kernel's dynamic priority as it left, and its policy.
    pub prio: i32,
    /// `SCHED_…`, as a number.
    pub policy: u32,
    /// Page faults during the stay.
    pub faults: u32,
    /// How often it was moved to another CPU since the stay before.
    pub migrations: u32,
}

/// How a thread was woken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waking {
    /// When its timer was due, where a timer woke it.
    pub due_ns: Option<u64>,
    /// That timer, where it has a place of its own; a sleeping call's lies on the stack.
    pub timer: Option<u64>,
    /// Where another followed thread woke it that such a timer had woken, or that had inherited one itself:
    /// when the timer was due, and which one.
    pub inherited: Option<(u64, u64)>,
    /// The thread that ran where it was woken; 0 on an idle CPU.
    pub waker: u32,
    /// Its name.
    pub waker_name: String,
    /// Whether that was on another CPU than the one that the thread then waited for.
    pub is_elsewhere: bool,
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Whether it waits for something; else it was preempted, or gave way.
    pub sleeps: bool,
    /// Whether it never left: what it was about to wait for came before it slept, and the next stay begins
    /// here.
    pub is_cut: bool,
    /// Where it came to, without leaving the CPU.
    pub boundary: Option<Boundary>,
    /// The system call that it left in.
    pub call: Option<u32>,
    /// The call's first arguments.
    pub arguments: [u64; 4],
    /// Of a futex, its word and the three that follow it in memory.
    pub words: [u32; 4],
    /// The thread that came instead.
    pub next: Scheduled,
}
