// SPDX-License-Identifier: MIT OR Apache-2.0
//! The followed program's own code: stacks that the kernel part copied become functions, addresses of locks
//! and of faults become names that a later run has too.

use std::collections::HashMap;

use symbols::{CodeFrame, ProcessCode};

use crate::record::UserStack;

/// Addresses that are remembered.
const REMEMBERED: usize = 8_192;

/// Functions of one stack that are shown.
const SHOWN: usize = 32;

/// Where a thread was in its program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallStack {
    /// The program's own function that asked the C library, or the language's, for what it waited for.
    pub function: Option<String>,
    /// All functions with their lines, the innermost first.
    pub stack: Vec<String>,
}

/// The code of one process.
#[derive(Debug, Default)]
pub struct ProgramCode {
    process: Option<ProcessCode>,
    frames: HashMap<u64, Vec<CodeFrame>>,
}

impl ProgramCode {
    /// Of a process that runs; of one that does not, or whose memory map is not to be read, nothing has a
    /// name.
    pub fn of(process: u32) -> ProgramCode {
        ProgramCode { process: ProcessCode::open(process).ok(), frames: HashMap::new() }
    }

    /// What could not be looked into, in sentences.
    pub fn notes(&self) -> &[String] {
        self.process.as_ref().map_or(&[], |process| process.notes())
    }

    /// What a copied stack says.
    pub fn call_stack(&mut self, taken: &UserStack) -> CallStack {
        let Some(process) = &mut self.process else { return CallStack::default() };
        let addresses = process.unwind(&taken.registers, &taken.bytes);
        let frames: Vec<CodeFrame> =
            addresses.into_iter().flat_map(|address| self.frames_at(address)).take(SHOWN).collect();
        let own = frames.iter().find(|frame| !is_of_a_library(frame)).or(frames.first());
        CallStack {
            function: own.map(CodeFrame::to_string),
            stack: frames.iter().map(|frame| format!("{frame:#}")).collect(),
        }
    }

    /// What lies at an address of data.
    pub fn data(&mut self, address: u64) -> Option<String> {
        self.process.as_mut()?.data(address)
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

/// Whether a function is one of the C library's or of a language's, on the way from the program to the
/// kernel.
fn is_of_a_library(frame: &CodeFrame) -> bool {
    const BINARIES: [&str; 9] =
        ["libc.", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++", "libc++", "libgcc_s", "["];
    // Of a program that is linked statically, or has its language's library in itself.
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
    // Calls that the C library makes by the names of the kernel's.
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
    fn the_program_is_told_from_the_libraries_that_it_calls() {
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
