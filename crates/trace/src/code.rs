// SPDX-License-Identifier: MIT OR Apache-2.0
//! The followed program's own code: names the functions of copied stacks, and gives addresses of locks and
//! faults names that are the same in a later run.

use std::collections::HashMap;

use symbols::{CodeFrame, ProcessCode};

use crate::record::UserStack;

/// The most addresses that are remembered.
const REMEMBERED: usize = 8_192;

/// The most functions of a stack that are shown.
const SHOWN: usize = 32;

/// A thread's position in its program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallStack {
    /// The program's own function that called the library to wait.
    pub function: Option<String>,
    /// All functions with their lines, the innermost first.
    pub stack: Vec<String>,
    /// Whether the library waits there for a lock.
    pub takes_lock: bool,
}

/// The code of one process.
#[derive(Debug, Default)]
pub struct ProgramCode {
    process: Option<ProcessCode>,
    frames: HashMap<u64, Vec<CodeFrame>>,
}

impl ProgramCode {
    /// Of a running process; without permission to read its memory map, or after its end, nothing has a name.
    pub fn of(process: u32) -> ProgramCode {
        ProgramCode { process: ProcessCode::open(process).ok(), frames: HashMap::new() }
    }

    /// Limits that were reached and files that could not be read, in sentences.
    pub fn notes(&self) -> &[String] {
        self.process.as_ref().map_or(&[], |process| process.notes())
    }

    /// The meaning of a copied stack.
    pub fn call_stack(&mut self, taken: &UserStack) -> CallStack {
        let Some(process) = &mut self.process else { return CallStack::default() };
        let addresses = process.unwind(&taken.registers, &taken.bytes);
        let frames: Vec<CodeFrame> =
            addresses.into_iter().flat_map(|address| self.frames_at(address)).take(SHOWN).collect();
        let own = frames.iter().find(|frame| !is_of_a_library(frame)).or(frames.first());
        let takes_lock = frames.iter().take_while(|frame| is_of_a_library(frame)).any(takes_lock);
        CallStack {
            function: own.map(CodeFrame::to_string),
            stack: frames.iter().map(|frame| format!("{frame:#}")).collect(),
            takes_lock,
        }
    }

    /// The name of data at an address.
    pub fn data(&mut self, address: u64) -> Option<String> {
        self.process.as_mut()?.data(address)
    }

    /// The function at an address.
    pub fn function(&mut self, address: u64) -> Option<String> {
        self.frames_at(address).first().map(CodeFrame::to_string)
    }

    fn frames_at(&mut self, address: u64) -> Vec<CodeFrame> {
        if let Some(known) = self.frames.get(&address) {
            return known.clone();
        }
        let found = self.process.as_mut().map(|process| process.frames(address)).unwrap_or_default();
        if self.frames.len() >= REMEMBERED {
            self.frames.clear();
        }
        self.frames.insert(address, found.clone());
        found
    }
}

/// Whether a function of a library takes a lock that its futex lacks, since each waiter has a
/// word of its own (parking_lot, a Java monitor), or the word has other bits too.
fn takes_lock(frame: &CodeFrame) -> bool {
    const PARTS: [&str; 6] = [
        "mutex_lock",
        "rwlock",
        "lock_slow",
        "lock_contended",
        "condvar_acquire_lock",
        "ObjectMonitor::enter",
    ];
    frame.function.as_ref().is_some_and(|function| PARTS.iter().any(|part| function.contains(part)))
}

/// Whether a function is one of the C library or a language's library, between the program and the kernel.
fn is_of_a_library(frame: &CodeFrame) -> bool {
    const BINARIES: [&str; 10] = [
        "libc.",
        "libc-",
        "libpthread",
        "ld-linux",
        "ld-musl",
        "libstdc++",
        "libc++",
        "libgcc_s",
        "libjvm",
        "[",
    ];
    // Libraries in a program that is linked statically, or that contains its language's library.
    const FUNCTIONS: [&str; 16] = [
        "pthread_",
        "__pthread_",
        "___pthread_",
        "__lll_",
        "lll_",
        "__futex",
        "futex_",
        "__GI_",
        "__libc_",
        "std::",
        "<std::",
        "core::",
        "<core::",
        "parking_lot",
        "<parking_lot",
        "__new_sem_",
    ];
    // Calls of the C library with the names of system calls.
    const CALLS: [&str; 10] = [
        "syscall",
        "read",
        "write",
        "clock_nanosleep",
        "nanosleep",
        "usleep",
        "sleep",
        "poll",
        "recv",
        "sem_wait",
    ];
    if BINARIES.iter().any(|begin| frame.binary.starts_with(begin)) {
        return true;
    }
    let Some(function) = &frame.function else { return false };
    let plain = function.trim_start_matches('_');
    FUNCTIONS.iter().any(|begin| function.starts_with(begin)) || CALLS.contains(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_the_program_from_its_libraries() {
        let frame = |binary: &str, function: &str| CodeFrame {
            binary: binary.to_string(),
            function: Some(function.to_string()),
            ..CodeFrame::default()
        };
        for (binary, function) in [
            ("libc.so.6", "pthread_mutex_lock"),
            ("servo", "___pthread_mutex_lock"),
            ("servo", "std::sys::sync::mutex::futex::Mutex::lock_contended"),
            ("servo", "__clock_nanosleep"),
            ("[vdso]", "__vdso_clock_gettime"),
        ] {
            assert!(is_of_a_library(&frame(binary, function)), "{binary}!{function}");
        }
        for (binary, function) in [("servo", "read_sensor"), ("libservo.so", "step"), ("libcurl.so.4", "f")] {
            assert!(!is_of_a_library(&frame(binary, function)), "{binary}!{function}");
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_functions() {
        let mut code = ProgramCode::of(u32::MAX / 2);
        assert_eq!(code.call_stack(&UserStack::default()), CallStack::default());
        assert_eq!((code.data(0x1000), code.notes()), (None, &[][..]));
    }
}
