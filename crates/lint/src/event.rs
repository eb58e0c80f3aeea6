// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a watched thread did, as the kernel part tells it.

use symbols::UserRegisters;

/// What a thread did, the first time at one place of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintEvent {
    /// The thread.
    pub thread: u32,
    /// What.
    pub kind: LintEventKind,
    /// When, on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Where it is counted.
    pub place: CountedPlace,
    /// Of a call, its arguments. The first one of a fault is the address, of a signal the handler, of a lock
    /// where it lies.
    pub arguments: [u64; 6],
    /// Of a lock or futex, its first words.
    pub words: [u32; 5],
    /// The registers of the program.
    pub registers: UserRegisters,
    /// A copy of the stack from the stack pointer on.
    pub stack: Vec<u8>,
}

/// What events are counted by, beside their thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedPlace {
    /// The kind's number, in the kernel part.
    pub kind: u16,
    /// The number of the system call, the signal or the function; the error code of a page fault.
    pub number: u16,
    /// Where the program was.
    pub address: u64,
    /// Its stack pointer: other callers, other place.
    pub sp: u64,
    /// The first argument where it is a small number, or where a lock lies.
    pub first: u64,
}

/// How often a thread did the same at the same place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTimes {
    /// How often.
    pub count: u64,
    /// When last, on CLOCK_MONOTONIC.
    pub last_ns: u64,
}

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LintEventKind {
    /// A system call, by its number.
    Called(u32),
    /// The thread left its CPU and could not go on, in this system call.
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
