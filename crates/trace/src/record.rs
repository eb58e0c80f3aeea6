// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's records of a program's threads. Times are CLOCK_MONOTONIC, in nanoseconds.

use symbols::UserRegisters;

/// A record of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRecord {
    /// The thread: of [`ThreadEvent::Switched`] the one that got the CPU.
    pub thread: u32,
    /// The CPU that wrote it.
    pub cpu: u32,
    /// Its time: the end of a stay, or the time of the event that a stack belongs to.
    pub at_ns: u64,
    /// The event.
    pub kind: ThreadEvent,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadEvent {
    /// A stay on a CPU ended.
    Stay(Box<Stay>),
    /// A part of a stay, whose record follows: the thread waited for a lock, and kept its CPU.
    Spun(Box<Stay>),
    /// The kernel functions on the CPU on which the thread was woken, at that time, innermost first.
    Stack(Vec<u64>),
    /// A thread that is not watched got a CPU for which a watched one waits.
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
        /// The address of the access.
        address: u64,
        /// The kernel's error code.
        code: u64,
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
    /// A thread's position in its program.
    UserStack(Box<UserStack>),
    /// The kernel has dealt with a page fault of the thread.
    FaultOver {
        /// When it began: the time of its [`ThreadEvent::Fault`].
        began_ns: u64,
    },
    /// The thread was in this system call, and in these functions of the kernel, innermost first: once in
    /// each [`SAMPLED_NS`] of its time on a CPU, if it is sampled.
    Sample {
        /// The call's number; `None` in none.
        call: Option<u32>,
        /// The functions.
        callers: Vec<u64>,
    },
    /// The thread begins to handle a signal.
    Signalled {
        /// The signal.
        signal: u32,
        /// The address of its handler.
        handler: u64,
    },
    /// The thread was moved to another CPU.
    Moved {
        /// That CPU.
        to: u32,
    },
}

/// The CPU time of a sampled thread between two samples.
pub const SAMPLED_NS: u64 = 100_000;

/// A thread's registers in user mode and the top of its stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserStack {
    /// The reason for the copy.
    pub taken: StackTaken,
    /// The thread of the stack: for [`StackTaken::AtRelease`] not that of the record.
    pub whose: u32,
    /// Its registers.
    pub registers: UserRegisters,
    /// Its stack from the stack pointer on.
    pub bytes: Vec<u8>,
}

/// The occasion of a copied stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StackTaken {
    /// The thread began to wait.
    #[default]
    AtWait,
    /// The lock that the thread waited for was released, by the thread of the stack.
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

/// A thread when it left a CPU: name and priority may have changed since it came.
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

/// A place in the program that a thread reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The begin of a cycle, as the user named it.
    Begin {
        /// Its stack pointer there: a call within another one has a lower one.
        sp: u64,
    },
    /// The end of a cycle, as the user named it.
    End,
}

/// A stay of a thread on a CPU, from its wakeup until it left. A thread that reaches a [`Boundary`] has two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stay {
    /// When it was woken; `None` if it had only been preempted.
    pub woken_ns: Option<u64>,
    /// When it got the CPU.
    pub in_ns: u64,
    /// Whether no tracepoint showed when it got the CPU. Then `in_ns` is by the scheduler's own clock, some
    /// microseconds off, or if the kernel keeps none, the earliest possible time.
    pub is_begin_unseen: bool,
    /// Whether the previous stay ended at a [`Boundary`], and this one goes on from there.
    pub goes_on: bool,
    /// The thread that left the CPU to it.
    pub after: Predecessor,
    /// When it left.
    pub out_ns: u64,
    /// How it was woken.
    pub waking: Waking,
    /// How it left.
    pub leaving: Leaving,
    /// The kernel's dynamic priority when it left, and its policy.
    pub prio: i32,
    /// `SCHED_…`, as a number.
    pub policy: u32,
    /// Page faults during the stay.
    pub faults: u32,
    /// The number of moves to another CPU since the previous stay.
    pub migrations: u32,
    /// Stays of the thread between the previous one and this one that the ring had no room for.
    pub lost: u32,
    /// Whether the ring had no room for a record of its moves, or of another thread that had the CPU while
    /// it waited for one.
    pub has_hole: bool,
    /// Since it was ready: for how long the quota of its control group kept it from the CPU, where the kernel
    /// counts that.
    pub withheld_ns: u64,
    /// The time that the hypervisor took from the CPU, by its own clock, since the thread left it last.
    pub stolen_before_ns: u64,
    /// The same in this stay.
    pub stolen_within_ns: u64,
}

/// How a thread was woken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waking {
    /// The due time of the timer that woke it.
    pub due_ns: Option<u64>,
    /// That timer, if it has an address of its own; a sleeping call's is on the stack.
    pub timer: Option<u64>,
    /// If another followed thread woke it, and such a timer had woken that one, directly or through others:
    /// the timer's due time, and the timer.
    pub inherited: Option<(u64, u64)>,
    /// The thread that ran on the waking CPU; 0 on an idle CPU.
    pub waker: u32,
    /// Its name.
    pub waker_name: String,
    /// The interrupt that woke it. Then that thread only had the CPU to which the interrupt came.
    pub interrupt: Option<Interrupt>,
    /// Whether that was another CPU than the one that the thread then waited for.
    pub is_elsewhere: bool,
    /// Whether the quota of its control group was used up then.
    pub is_throttled: bool,
}

impl Waking {
    /// The thread that woke it, with its name; `None` where a timer or an interrupt did.
    pub fn by(&self) -> Option<(u32, &str)> {
        let is_thread = self.waker != 0 && self.due_ns.is_none() && self.interrupt.is_none();
        is_thread.then_some((self.waker, self.waker_name.as_str()))
    }
}

/// An interrupt that woke a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interrupt {
    /// A hard one, with its handler's name; empty where no device's handler ran.
    Hard(String),
    /// A softirq, by its number.
    Soft(u32),
    /// An NMI.
    Nmi,
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Whether it waits; else it was preempted, or yielded.
    pub sleeps: bool,
    /// Whether a signal, a debugger or the freezer stopped it.
    pub is_stopped: bool,
    /// Whether it is ready, and the quota of its control group is used up.
    pub is_throttled: bool,
    /// Whether it never left: its event came before it slept, and the next stay begins here.
    pub is_cut: bool,
    /// The place that it reached, without leaving the CPU.
    pub boundary: Option<Boundary>,
    /// The system call in which it left.
    pub call: Option<u32>,
    /// Whether nothing tells in which call it left, or whether in one.
    pub is_call_unknown: bool,
    /// The call's first arguments.
    pub arguments: [u64; 4],
    /// Of a futex, its word and the three that follow it in memory.
    pub words: [u32; 4],
    /// A number for the place in the program from which it waits: the same for each wait there.
    pub place: u64,
    /// The thread that came instead.
    pub next: Scheduled,
}
