// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library functions that are probed, and their offsets in the binaries of a process.
//!
//! Removing a probe takes a tenth of a second, so only functions that a binary of the process imports are
//! probed, and the allocator, which functions of the C library call too.
//! process imports, and the allocator, which other functions of the C library call too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

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
    /// A path to the binary, for this process.
    pub binary: PathBuf,
    /// The function's offset in that file.
    pub offset: u64,
    /// Its number.
    pub number: u16,
}

/// The functions in the binaries that a process has mapped, and the binaries that could not be read.
pub fn of_process(process: u32) -> (Vec<PlacedFunction>, Vec<String>) {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let (mut binaries, mut unread) = (Vec::new(), Vec::new());
    for path in executables(&maps) {
        // The path as the process sees it: it may have its own root.
        let binary = PathBuf::from(format!("/proc/{process}/root{path}"));
        match of_binary(&binary) {
            Ok(symbols) => binaries.push((binary, symbols)),
            Err(why) => unread.push(format!("calls of functions in {path}: {why}")),
        }
    }
    let imported: BTreeSet<u16> = binaries.iter().flat_map(|(_, symbols)| symbols.imported.clone()).collect();
    let mut found = Vec::new();
    for (binary, symbols) in &binaries {
        let is_meant = |number: &u16| {
            let is_allocator = function(*number).is_some_and(|(name, _)| ALLOCATOR.contains(&name));
            symbols.is_static || is_allocator || imported.contains(number)
        };
        let meant = symbols.defined.iter().filter(|(_, number)| is_meant(number));
        found.extend(meant.map(|(offset, number)| PlacedFunction {
            binary: binary.clone(),
            offset: *offset,
            number: *number,
        }));
    }
    (found, unread)
}

/// The functions in a binary.
#[derive(Debug, Default)]
struct BinarySymbols {
    /// The offsets in the file of those that it defines. Several names of one offset are one function.
    defined: BTreeMap<u64, u16>,
    /// Those that it imports.
    imported: BTreeSet<u16>,
    /// Whether it imports none.
    is_static: bool,
}

/// The files of a process' executable mappings.
fn executables(maps: &str) -> BTreeSet<&str> {
    let path = |line| {
        let (perms, path) = perms_and_path(line)?;
        (perms.contains('x') && path.starts_with('/')).then_some(path)
    };
    maps.lines().filter_map(path).collect()
}

/// The path in a line of `/proc/PID/maps`: the last of six fields, which may contain spaces.
fn perms_and_path(line: &str) -> Option<(&str, &str)> {
    let mut rest = line;
    let mut perms = "";
    for field in 0..5 {
        let (word, after) = rest.split_once(' ')?;
        if field == 1 {
            perms = word;
        }
        rest = after.trim_start();
    }
    Some((perms, rest))
}

fn of_binary(path: &Path) -> Result<BinarySymbols, String> {
    let file = File::open(path).map_err(|error| error::reason(&error))?;
    let cache = ReadCache::new(file);
    let binary = object::File::parse(&cache).map_err(|error| error.to_string())?;
    let mut symbols = BinarySymbols { is_static: true, ..BinarySymbols::default() };
    for symbol in binary.dynamic_symbols().chain(binary.symbols()) {
        symbols.is_static &= !symbol.is_undefined() || symbol.name().is_ok_and(str::is_empty);
        let Ok(name) = symbol.name() else { continue };
        let name = name.split('@').next().unwrap_or(name);
        let Some((_, number, _)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else { continue };
        if symbol.is_undefined() {
            symbols.imported.insert(*number);
        } else if symbol.kind() == SymbolKind::Text
            && let Some(offset) = offset(&binary, symbol.address())
        {
            symbols.defined.entry(offset).or_insert(*number);
        }
    }
    Ok(symbols)
}

/// The offset in the file of an address that can be probed.
fn offset<'data>(binary: &object::File<'data, &'data ReadCache<File>>, address: u64) -> Option<u64> {
    binary.segments().find_map(|segment| {
        let within = address.checked_sub(segment.address())?;
        let (begin, size) = segment.file_range();
        if within >= size {
            return None;
        }
        let length = LOCKED_DECREMENT.len() as u64;
        let first = segment.data_range(address, length).ok().flatten();
        let skipped = if first == Some(&LOCKED_DECREMENT) { length } else { 0 };
        Some(begin + within + skipped)
    })
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
    fn reads_paths_with_spaces() {
        let maps = "7f00-7f10 r-xp 00000000 fe:00 12   /opt/my program/lib.so\n7f10-7f20 rw-p 00000000 00:00 0\n\
                    7f20-7f30 r-xp 00000000 00:00 0                          [vdso]\n";
        assert_eq!(executables(maps), BTreeSet::from(["/opt/my program/lib.so"]));
    }

    #[test]
    fn finds_the_allocator_of_this_process() {
        let (found, _) = of_process(std::process::id());
        let names: Vec<_> = found.iter().filter_map(|place| function(place.number)).collect();
        assert!(names.contains(&("malloc", Rule::Allocation)), "{names:?}");
    }
}
