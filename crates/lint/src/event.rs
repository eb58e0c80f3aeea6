// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a watched thread, from the BPF part.

use symbols::UserRegisters;

/// The first event of a thread at one place of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintEvent {
    /// The thread.
    pub thread: u32,
    /// The event.
    pub kind: LintEventKind,
    /// Its time, on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The place under which it is counted.
    pub place: CountedPlace,
    /// The arguments of a system call. The first one is the address of a fault, the handler of a signal, or
    /// the address of a lock.
    pub arguments: [u64; 6],
    /// The first words of a lock or futex.
    pub words: [u32; 5],
    /// The registers of the program.
    pub registers: UserRegisters,
    /// A copy of the stack from the stack pointer on.
    pub stack: Vec<u8>,
}

/// The key of a count, beside the thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedPlace {
    /// The kind's number, in the BPF part.
    pub kind: u16,
    /// The number of the system call, the signal or the function; the error code of a page fault.
    pub number: u16,
    /// The code address in the program.
    pub address: u64,
    /// Its stack pointer: another call path is another place.
    pub sp: u64,
    /// The first two arguments if they are small numbers, or the address of a lock.
    pub first: u64,
}

/// The number of a thread's events at one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTimes {
    /// How often.
    pub count: u64,
    /// The time of the last one, on CLOCK_MONOTONIC.
    pub last_ns: u64,
}

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LintEventKind {
    /// A system call, by its number.
    Called(u32),
    /// The thread left its CPU to wait, in this system call.
    Slept(Option<u32>),
    /// A page fault, with the kernel's error code.
    Faulted {
        /// Bit 0: the page was there; bit 1: a write.
        code: u16,
    },
    /// A signal's handler is about to run.
    Signalled {
        /// The signal.
        signal: u16,
    },
    /// A function of a library, by its number in [`crate::functions`].
    Function(u16),
    /// A lock is taken: by a function of a library, or else by a futex.
    Locked {
        /// The function.
        function: Option<u16>,
    },
    /// The process runs another program from here.
    Executed,
}
