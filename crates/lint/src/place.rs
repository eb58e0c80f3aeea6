// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place of an event in the program's own code: the first function of the call stack outside of the C
//! library, the C++ library, the loader and a language's standard library.

use std::collections::HashMap;

use symbols::{CodeFrame, ProcessCode};

use crate::event::LintEvent;

/// The begins of names of libraries whose functions the program calls.
const LIBRARIES: [&str; 16] = [
    "libc.so",
    "libc-",
    "libpthread",
    "ld-linux",
    "ld-musl",
    "ld-2",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "libm.so",
    "libdl",
    "librt",
    "libasan",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
];

/// The source folders of libraries whose code is compiled into the program.
const SOURCES: [&str; 5] =
    ["/rustc/", "/usr/include/", "/usr/lib/gcc/", "/usr/lib/llvm", "/library/std/src/"];

/// The begins of their functions' names.
const NAMES: [&str; 14] = [
    "std::",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "<&mut std::",
    "__gnu_cxx::",
    "operator new",
    "operator delete",
    "__rust_",
    "__rustc",
    "__rdl_",
    "rust_begin_unwind",
];

/// A place in the program's own code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnPlace {
    /// An address within the call, or 0.
    pub address: u64,
    /// The file, where it is known.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// `binary!function`.
    pub function: String,
    /// All functions, the innermost first.
    pub stack: Vec<String>,
}

impl OwnPlace {
    /// `file:line`, or `binary!function`.
    pub fn text(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => self.function.clone(),
        }
    }
}

/// Finds places in one process.
#[derive(Debug)]
pub struct PlaceFinder {
    process: ProcessCode,
    frames: HashMap<u64, Vec<CodeFrame>>,
}

impl PlaceFinder {
    /// The places of a running process.
    pub fn open(process: u32) -> error::Result<PlaceFinder> {
        Ok(PlaceFinder { process: ProcessCode::open(process)?, frames: HashMap::new() })
    }

    /// The process.
    pub fn code(&mut self) -> &mut ProcessCode {
        &mut self.process
    }

    /// Limits that were reached and files that could not be read, in sentences.
    pub fn notes(&self) -> &[String] {
        self.process.notes()
    }

    /// The place of an event.
    pub fn of(&mut self, event: &LintEvent) -> OwnPlace {
        let addresses = self.process.unwind(&event.registers, &event.stack);
        self.own(&addresses)
    }

    /// Where a function begins.
    pub fn at(&mut self, address: u64) -> OwnPlace {
        self.own(&[address])
    }

    fn own(&mut self, addresses: &[u64]) -> OwnPlace {
        let mut frames = Vec::new();
        for address in addresses {
            let of_address = self.frames.entry(*address).or_insert_with(|| self.process.frames(*address));
            frames.extend(of_address.iter().map(|frame| (*address, frame.clone())));
        }
        choose(&frames)
    }
}

/// The program's own frame among those of a call stack.
fn choose(frames: &[(u64, CodeFrame)]) -> OwnPlace {
    let mut own = frames.iter().filter(|(_, frame)| !is_library(frame));
    let first = own.clone().next();
    // A static binary contains the C library too, but no line of it.
    let binary = first.map(|(_, frame)| frame.binary.as_str());
    let with_line = own.find(|(_, frame)| frame.line.is_some() && Some(frame.binary.as_str()) == binary);
    let Some((address, frame)) = with_line.or(first).or(frames.last()) else { return OwnPlace::default() };
    OwnPlace {
        address: *address,
        file: frame.file.clone(),
        line: frame.line,
        function: frame.to_string(),
        stack: frames.iter().map(|(_, frame)| format!("{frame:#}")).collect(),
    }
}

fn is_library(frame: &CodeFrame) -> bool {
    let begins = |text: &str, all: &[&str]| all.iter().any(|begin| text.starts_with(begin));
    begins(&frame.binary, &LIBRARIES)
        || frame.binary.starts_with('[')
        || frame.file.as_deref().is_some_and(|file| SOURCES.iter().any(|part| file.contains(part)))
        || frame.function.as_deref().is_some_and(|name| begins(name, &NAMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(binary: &str, function: &str, line: Option<(&str, u32)>) -> (u64, CodeFrame) {
        let frame = CodeFrame {
            binary: binary.into(),
            function: Some(function.into()),
            file: line.map(|(file, _)| file.to_string()),
            line: line.map(|(_, line)| line),
            ..CodeFrame::default()
        };
        (1, frame)
    }

    #[test]
    fn passes_over_the_libraries() {
        let frames = [
            frame("libc.so.6", "malloc", None),
            frame("libstdc++.so.6", "operator new", None),
            frame(
                "servo",
                "std::vector<int>::push_back",
                Some(("/usr/include/c++/12/bits/stl_vector.h", 1281)),
            ),
            frame("servo", "cycle", Some(("servo.cpp", 12))),
            frame("servo", "main", Some(("servo.cpp", 40))),
        ];
        assert_eq!(choose(&frames).text(), "servo.cpp:12");
    }

    #[test]
    fn passes_over_the_library_in_a_static_binary() {
        let frames = [frame("servo", "__libc_malloc", None), frame("servo", "cycle", Some(("servo.c", 12)))];
        assert_eq!(choose(&frames).text(), "servo.c:12");
    }

    #[test]
    fn names_the_function_where_no_line_is_known() {
        let frames = [frame("libc.so.6", "malloc", None), frame("servo", "cycle", None)];
        assert_eq!(choose(&frames).text(), "servo!cycle");
    }

    #[test]
    fn a_library_without_lines_stays_the_place() {
        let frames = [
            frame("libc.so.6", "malloc", None),
            frame("libbus.so.1", "bus_send", None),
            frame("servo", "cycle", Some(("servo.c", 12))),
        ];
        assert_eq!(choose(&frames).text(), "libbus.so.1!bus_send");
    }
}
