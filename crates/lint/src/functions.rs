// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library functions that are probed, and their offsets in the binaries of a process.
//!
//! Removing a probe takes a tenth of a second, so only functions that a binary of the process imports are
//! probed, and the allocator, which functions of the C library call too.

use std::collections::BTreeSet;

use symbols::{HeldFile, ProcessCode};

use crate::rule::Rule;

/// Functions that take a lock have numbers from here on.
pub const FIRST_LOCK: u16 = 100;

/// The first functions that take a mutex of the C library, whose type says whether its owner inherits
/// priority.
const FIRST_MUTEX: u16 = 110;

/// A function, its number, and the rule that a call of it breaks.
const FUNCTIONS: [(&str, u16, Rule); 42] = [
    ("malloc", 1, Rule::Allocation),
    ("calloc", 2, Rule::Allocation),
    ("realloc", 3, Rule::Allocation),
    ("reallocarray", 4, Rule::Allocation),
    ("free", 5, Rule::Allocation),
    ("posix_memalign", 6, Rule::Allocation),
    ("aligned_alloc", 7, Rule::Allocation),
    ("memalign", 8, Rule::Allocation),
    ("valloc", 9, Rule::Allocation),
    ("printf", 20, Rule::Printing),
    ("vprintf", 21, Rule::Printing),
    ("fprintf", 22, Rule::Printing),
    ("vfprintf", 23, Rule::Printing),
    ("dprintf", 24, Rule::Printing),
    ("vdprintf", 25, Rule::Printing),
    ("puts", 26, Rule::Printing),
    ("fputs", 27, Rule::Printing),
    ("putchar", 28, Rule::Printing),
    ("fputc", 29, Rule::Printing),
    ("putc", 30, Rule::Printing),
    ("fwrite", 31, Rule::Printing),
    ("fflush", 32, Rule::Printing),
    ("perror", 33, Rule::Printing),
    ("syslog", 34, Rule::Printing),
    ("vsyslog", 35, Rule::Printing),
    ("__printf_chk", 36, Rule::Printing),
    ("__vprintf_chk", 37, Rule::Printing),
    ("__fprintf_chk", 38, Rule::Printing),
    ("__vfprintf_chk", 39, Rule::Printing),
    ("__dprintf_chk", 40, Rule::Printing),
    ("__syslog_chk", 41, Rule::Printing),
    ("__vsyslog_chk", 42, Rule::Printing),
    ("dlopen", 60, Rule::Dlopen),
    ("dlmopen", 61, Rule::Dlopen),
    ("dlclose", 62, Rule::Dlopen),
    ("pthread_rwlock_rdlock", 100, Rule::LockWithoutInheritance),
    ("pthread_rwlock_wrlock", 101, Rule::LockWithoutInheritance),
    ("pthread_spin_lock", 102, Rule::LockWithoutInheritance),
    ("pthread_mutex_lock", 110, Rule::LockWithoutInheritance),
    ("pthread_mutex_timedlock", 111, Rule::LockWithoutInheritance),
    ("pthread_mutex_clocklock", 112, Rule::LockWithoutInheritance),
    ("mtx_lock", 113, Rule::LockWithoutInheritance),
];

/// Functions that the C library itself calls: they need not be imported.
const ALLOCATOR: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

/// The first instruction of glibc's pthread_spin_lock() on x86-64: `lock decl (%rdi)`. It cannot be probed;
/// the next one has the same argument.
const LOCKED_DECREMENT: [u8; 3] = [0xf0, 0xff, 0x0f];

/// The name of a function and the rule that it breaks.
pub fn function(number: u16) -> Option<(&'static str, Rule)> {
    FUNCTIONS.iter().find(|(_, known, _)| *known == number).map(|(name, _, rule)| (*name, *rule))
}

/// Whether a function takes a mutex of the C library.
pub fn takes_mutex(number: u16) -> bool {
    number >= FIRST_MUTEX
}

/// A function in a binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedFunction {
    /// The binary.
    pub binary: HeldFile,
    /// The function's offset in that file.
    pub offset: u64,
    /// Its number.
    pub number: u16,
}

/// The functions in the binaries that a process has mapped, and sentences about binaries that cannot be read.
pub fn of_process(code: &mut ProcessCode) -> (Vec<PlacedFunction>, Vec<String>) {
    let number =
        |name: &str| FUNCTIONS.iter().find(|(known, ..)| *known == name).map(|(_, number, _)| *number);
    let (binaries, unread) = code.functions(number);
    let imported: BTreeSet<u16> = binaries.iter().flat_map(|binary| binary.imported.clone()).collect();
    let mut found = Vec::new();
    for binary in &binaries {
        let is_meant = |number: &u16| {
            let is_allocator = function(*number).is_some_and(|(name, _)| ALLOCATOR.contains(&name));
            binary.is_static || is_allocator || imported.contains(number)
        };
        let meant = binary.defined.iter().filter(|(_, number)| is_meant(number));
        found.extend(meant.map(|(offset, number)| PlacedFunction {
            binary: binary.file.clone(),
            offset: probed(&binary.file, *offset),
            number: *number,
        }));
    }
    let unread = unread.into_iter().map(|path| format!("calls of functions in {path}: it cannot be read"));
    (found, unread.collect())
}

/// The offset of the first instruction of a function that can be probed.
fn probed(binary: &HeldFile, offset: u64) -> u64 {
    let skipped = if binary.bytes(offset) == Some(LOCKED_DECREMENT) { LOCKED_DECREMENT.len() } else { 0 };
    offset + skipped as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_its_own_number() {
        let numbers: BTreeSet<u16> = FUNCTIONS.iter().map(|(_, number, _)| *number).collect();
        assert_eq!(numbers.len(), FUNCTIONS.len());
        for (name, number, rule) in FUNCTIONS {
            assert_eq!(number >= FIRST_LOCK, rule == Rule::LockWithoutInheritance, "{name}");
        }
    }

    #[test]
    fn finds_the_allocator_of_this_process() {
        let (found, _) = of_process(&mut ProcessCode::open(std::process::id()).unwrap());
        let names: Vec<_> = found.iter().filter_map(|place| function(place.number)).collect();
        assert!(names.contains(&("malloc", Rule::Allocation)), "{names:?}");
    }
}
