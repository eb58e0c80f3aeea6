// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running process: its mappings, and the meaning of an address in it.
//!
//! Mappings are read, and the files of code opened, at the beginning and again when an address is in none of
//! them, so that later libraries are found. Files that were opened stay known after the process has ended.

use std::fs::File;
use std::io::{Error as IoError, Read};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open, openat};

use crate::elf::UnwindTables;
use crate::files::BinaryFiles;
use crate::frame::CodeFrame;
use crate::maps::{self, Mapping};
use crate::unwind::{Stack, UnwindStep, UserRegisters, Walk};
use crate::{Error, Result};

/// The longest `/proc/PID/maps` that is read.
const MAPS_BYTES: u64 = 16 << 20;

/// The most functions of one call stack.
const DEEPEST: usize = 128;

/// Addresses in no mapping cause at most this many reads of the mappings.
const AGAIN: Duration = Duration::from_millis(100);

/// Mappings without a file that belong to the file before them: variables without bytes in the file.
const WITHOUT_BYTES: usize = 2;

/// A process whose addresses are looked up.
#[derive(Debug)]
pub struct ProcessCode {
    pub(crate) files: BinaryFiles,
    pub(crate) mappings: Vec<Mapping>,
    /// When the mappings were last read.
    read_at: Option<Instant>,
}

impl ProcessCode {
    /// Opens a process that runs: reads its mappings and opens the files of its code.
    pub fn open(process: u32) -> Result<ProcessCode> {
        let cannot = |why: String, cure| Error::on("read the memory map of process", process, why, cure);
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(format!("/proc/{process}"), flags, Mode::empty())
            .map_err(|_| cannot("there is no such process".into(), "give the number of a running process"))?;
        let mut opened = ProcessCode { files: BinaryFiles::new(folder), mappings: Vec::new(), read_at: None };
        opened
            .read_maps()
            .map_err(|error| cannot(error.to_string(), "run as its user or with CAP_SYS_PTRACE"))?;
        Ok(opened)
    }

    /// Limits that were reached and files that could not be read, in sentences.
    pub fn notes(&self) -> &[String] {
        self.files.notes()
    }

    /// Forgets the mappings: the process runs another program from here on.
    pub fn forget(&mut self) {
        self.mappings.clear();
        // A process that has ended has no mappings.
        let _ = self.read_maps();
    }

    /// Whether its program is one of Go: the first file of code, which lies below the libraries.
    pub fn is_go(&mut self) -> bool {
        let program = self.mappings.iter().find(|mapping| mapping.is_executable && mapping.is_of_file());
        program.and_then(|mapping| self.files.code(mapping)).is_some_and(|code| code.elf.is_go)
    }

    /// The call stack of a thread with these registers and a copy of its stack from `sp` on: the current
    /// address, then its callers, each by an address within the call. It ends at the end of the copy, or
    /// where no caller is found.
    pub fn unwind(&mut self, registers: &UserRegisters, stack: &[u8]) -> Vec<u64> {
        let stack = Stack { begin: registers.sp, bytes: stack };
        let mut walk = Walk::new(registers);
        let mut found = vec![registers.ip];
        while found.len() < DEEPEST {
            let Some(next) = self.caller(&walk, stack) else { break };
            walk = next;
            found.push(walk.address());
        }
        found
    }

    /// One step of [`ProcessCode::unwind`]: by the tables, and without an entry there, by frame pointer or as
    /// from a function's first instruction.
    fn caller(&mut self, walk: &Walk, stack: Stack<'_>) -> Option<Walk> {
        let mut next = walk.clone();
        let step = match self.tables(walk.address()) {
            Some((tables, bias)) => next.by_tables(tables, bias, stack),
            None => UnwindStep::Unknown,
        };
        match step {
            UnwindStep::AtTop => return None,
            UnwindStep::Taken if self.code(next.address()).is_some() => return Some(next),
            _ => {}
        }
        [Walk::by_frame_pointer, Walk::by_return_address].into_iter().find_map(|take| {
            let mut next = walk.clone();
            (take(&mut next, stack) == UnwindStep::Taken && self.code(next.address()).is_some())
                .then_some(next)
        })
    }

    /// The function at an address, with the line in that function itself, whatever was inlined there; `None`
    /// outside of all mappings.
    pub fn frame(&mut self, address: u64) -> Option<CodeFrame> {
        self.frames(address).pop()
    }

    /// Like [`ProcessCode::frame`], with the functions that were inlined there before it, innermost first.
    pub fn frames(&mut self, address: u64) -> Vec<CodeFrame> {
        let Some(place) = self.place(address) else { return Vec::new() };
        let mapping = &self.mappings[place];
        let plain = CodeFrame { binary: shown(mapping.name()), offset: address, ..CodeFrame::default() };
        let code = self.files.code(mapping);
        let Some((code, bias)) = code.and_then(|code| Some((code, code.bias(mapping)?))) else {
            return vec![plain];
        };
        let stated = address.wrapping_sub(bias);
        let symbol = code.elf.symbols.find(stated, true);
        let (name, offset) = symbol.map_or((None, stated), |(name, offset)| (Some(name), offset));
        let places = self.files.places(mapping, stated);
        let inlined = places.len().saturating_sub(1);
        let mut frames: Vec<CodeFrame> = places
            .into_iter()
            .enumerate()
            .map(|(depth, place)| CodeFrame {
                function: if depth < inlined { place.function } else { name.clone().or(place.function) },
                offset,
                file: place.file,
                line: place.line,
                is_inlined: depth < inlined,
                ..plain.clone()
            })
            .collect();
        if frames.is_empty() {
            frames.push(CodeFrame { function: name, offset, ..plain });
        }
        frames
    }

    /// A name of data at an address that is the same in the next run: `binary!variable`, `binary+0x4040`,
    /// `file+0x40` for shared memory with a file, `stack` for the first thread's stack, else `heap`. `None`
    /// outside of all mappings.
    pub fn data(&mut self, address: u64) -> Option<String> {
        let place = self.place(address)?;
        if let Some((module, stated)) = self.module(place, address) {
            let name = shown(self.mappings[module].name());
            let code = self.files.code(&self.mappings[module])?;
            return Some(match code.elf.symbols.find(stated, false) {
                Some((variable, 0)) => format!("{name}!{variable}"),
                Some((variable, offset)) => format!("{name}!{variable}+{offset:#x}"),
                None => format!("{name}+{stated:#x}"),
            });
        }
        let mapping = &self.mappings[place];
        Some(match mapping.name() {
            "[stack]" => "stack".to_string(),
            name if mapping.is_of_file() => {
                format!("{}+{:#x}", shown(name), (address - mapping.start).wrapping_add(mapping.offset))
            }
            _ => "heap".to_string(),
        })
    }

    /// The mapping of the code that an address of data belongs to, and the address in the file.
    fn module(&mut self, place: usize, address: u64) -> Option<(usize, u64)> {
        let before = self.mappings[..=place].iter().rev().take(1 + WITHOUT_BYTES);
        let file = before.take_while(|mapping| mapping.is_of_file() || mapping.path.is_empty());
        let file = file.filter(|mapping| mapping.is_of_file()).map(|mapping| mapping.file).next()?;
        (0..self.mappings.len()).find_map(|place| {
            let mapping = &self.mappings[place];
            if mapping.file != file || !mapping.is_executable {
                return None;
            }
            let code = self.files.code(mapping)?;
            let stated = address.wrapping_sub(code.bias(mapping)?);
            code.has(stated).then_some((place, stated))
        })
    }

    /// The mapping that contains an address; without one the mappings are read once more.
    fn place(&mut self, address: u64) -> Option<usize> {
        let known = maps::at(&self.mappings, address);
        if known.is_some() || self.read_at.is_some_and(|at| at.elapsed() < AGAIN) {
            return known;
        }
        // A process that has ended has none.
        self.read_maps().ok()?;
        maps::at(&self.mappings, address)
    }

    /// The mapping that contains an address, if it is code.
    fn code(&mut self, address: u64) -> Option<&Mapping> {
        let place = self.place(address)?;
        Some(&self.mappings[place]).filter(|mapping| mapping.is_executable)
    }

    fn tables(&mut self, address: u64) -> Option<(&UnwindTables, u64)> {
        let place = self.place(address)?;
        let mapping = &self.mappings[place];
        let code = self.files.code(mapping)?;
        Some((code.elf.unwind.as_ref()?, code.bias(mapping)?))
    }

    fn read_maps(&mut self) -> std::io::Result<()> {
        self.read_at = Some(Instant::now());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(openat(self.files.process(), "maps", flags, Mode::empty())?);
        let mut text = Vec::new();
        file.take(MAPS_BYTES).read_to_end(&mut text)?;
        let mappings = maps::parse(&String::from_utf8_lossy(&text));
        if mappings.is_empty() {
            return Err(IoError::other("the process has no memory map"));
        }
        self.files.open(&mappings);
        self.mappings = maps::replace(&self.mappings, mappings);
        Ok(())
    }
}

/// The shown part of a binary's name.
fn shown(name: &str) -> String {
    name.chars().take(128).collect()
}
