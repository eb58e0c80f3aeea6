// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running process: its mappings, and what an address in it is.
//!
//! Mappings are read, and the files of code opened, at the beginning and again when an address lies in none
//! of them, so that a library that is loaded later is known. What was opened stays known after the
//! process has ended.

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

/// Of `/proc/PID/maps`.
const MAPS_BYTES: u64 = 16 << 20;

/// Functions of one call stack.
const DEEPEST: usize = 128;

/// Addresses in no mapping make the mappings be read again, this often at the most.
const AGAIN: Duration = Duration::from_millis(100);

/// Mappings without a file that belong to the file before them: the variables of which it has no bytes.
const WITHOUT_BYTES: usize = 2;

/// A process whose addresses are asked for.
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
            .map_err(|_| cannot("there is no such process".into(), "give the number of one that runs"))?;
        let mut opened =
            ProcessCode { files: BinaryFiles::new(process, folder), mappings: Vec::new(), read_at: None };
        opened
            .read_maps()
            .map_err(|error| cannot(error.to_string(), "run as its user or with CAP_SYS_PTRACE"))?;
        Ok(opened)
    }

    /// What could not be looked into, in sentences.
    pub fn notes(&self) -> &[String] {
        self.files.notes()
    }

    /// Forgets what lay where: the process runs another program from here on.
    pub fn forget(&mut self) {
        self.mappings.clear();
        // One that ended at once has no mappings any more.
        let _ = self.read_maps();
    }

    /// The call stack of a thread with these registers, and a copy of its stack from `sp` on: where it is,
    /// then its callers, each by an address within the call. It ends where the copy or what is known
    /// of the program ends.
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

    /// One step of [`ProcessCode::unwind`]: by the tables, and where they tell nothing, by frame pointer or
    /// as from a function's beginning.
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

    /// The function that has an address; `None` where nothing lies there. Its line is the one that the
    /// function itself is at, whatever was inlined there.
    pub fn frame(&mut self, address: u64) -> Option<CodeFrame> {
        self.frames(address).pop()
    }

    /// Like [`ProcessCode::frame`], with the functions that were inlined there before it, the innermost
    /// first.
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

    /// What data at an address is called, so that it is found again in the next run: `binary!variable`,
    /// `binary+0x4040`, `file+0x40` of memory that is shared by a file, `stack` of the first thread, else
    /// `heap`. `None` where nothing lies there.
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

    /// The mapping of the code that an address of data belongs to, and the address as its file states it.
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

    /// The mapping that has an address; if none has, the mappings are read once more.
    fn place(&mut self, address: u64) -> Option<usize> {
        let known = maps::at(&self.mappings, address);
        if known.is_some() || self.read_at.is_some_and(|at| at.elapsed() < AGAIN) {
            return known;
        }
        // A process that has ended has none.
        self.read_maps().ok()?;
        maps::at(&self.mappings, address)
    }

    /// The mapping that has an address, if code lies there.
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
            return Err(IoError::other("it has no memory of its own"));
        }
        self.files.open(&mappings);
        self.mappings = maps::replace(&self.mappings, mappings);
        Ok(())
    }
}

/// A binary's name, as far as it is shown.
fn shown(name: &str) -> String {
    name.chars().take(128).collect()
}
