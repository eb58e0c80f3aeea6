// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files in a process' mappings. Each is opened once, when an address in it is first looked up.
//!
//! They are opened through `/proc/PID/map_files`, which leads to the mapped file itself, even if its path has
//! another one by now or is in another container. Without permission for that they are opened through
//! `/proc/PID/root`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, openat};
use untrusted::Allowance;

use crate::elf::{self, Elf};
use crate::lines::{self, DebugLines, SourcePlace};
use crate::maps::{FileId, Mapping, VDSO};

/// The number of binary files of one process that are kept open.
const FILES: usize = 1_024;

/// The largest vdso that is read; it has two to four pages.
const VDSO_BYTES: u64 = 1 << 20;

/// The kernel maps whole pages. On AArch64 these may have 64 KiB, and linkers lay out segments for that.
const PAGE: u64 = 4_096;

/// The files of a process.
#[derive(Debug)]
pub struct BinaryFiles {
    /// `/proc/PID`, of this process even if its number is used again.
    process: OwnedFd,
    binaries: HashMap<FileId, Binary>,
    allowance: Allowance,
    notes: Vec<String>,
}

#[derive(Debug)]
enum Binary {
    /// Not opened yet.
    Opened(Source),
    /// An ELF file.
    Known(Box<BinaryCode>),
    /// Another file, or one that cannot be opened.
    Odd,
}

/// The source of a binary's bytes.
#[derive(Debug, Clone)]
enum Source {
    File(HeldFile),
    Copy(Cursor<Vec<u8>>),
}

/// A program file that is held open, so that no other one takes its place.
#[derive(Debug, Clone)]
pub struct HeldFile(Arc<File>);

impl PartialEq for HeldFile {
    fn eq(&self, other: &HeldFile) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HeldFile {}

impl HeldFile {
    /// A path to it for the kernel, for as long as this lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// The bytes at an offset, as far as the file has them.
    pub fn bytes<const LENGTH: usize>(&self, offset: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.0.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

/// An ELF file, and its lines once they are needed.
#[derive(Debug)]
pub struct BinaryCode {
    /// Its used parts.
    pub elf: Elf,
    /// Whether it was stripped, and its symbols come from another file.
    pub has_separate: bool,
    /// The file itself; the vdso has none.
    pub file: Option<HeldFile>,
    /// The source of its debug information; `None` once that was tried.
    source: Option<Source>,
    lines: Option<DebugLines>,
}

impl BinaryFiles {
    /// Of the process with this folder in `/proc`.
    pub fn new(process: OwnedFd) -> BinaryFiles {
        BinaryFiles {
            process,
            binaries: HashMap::new(),
            allowance: Allowance::of_a_process(Allowance::CODE),
            notes: Vec::new(),
        }
    }

    /// The process' folder.
    pub fn process(&self) -> &OwnedFd {
        &self.process
    }

    /// Limits that were reached and files that could not be read, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Opens the files of code among the mappings.
    pub fn open(&mut self, mappings: &[Mapping]) {
        for mapping in mappings.iter().filter(|mapping| mapping.is_executable && mapping.is_of_file()) {
            if self.binaries.contains_key(&mapping.file) {
                continue;
            }
            if self.binaries.len() == FILES {
                self.note(format!("it maps more than {FILES} files of code: some functions have no name"));
                return;
            }
            let source = match mapping.file == VDSO {
                true => self.vdso(mapping).map(|bytes| Source::Copy(Cursor::new(bytes))),
                false => self.mapped(mapping).or_else(|| self.by_path(mapping)).map(Source::of),
            };
            if source.is_none() {
                self.note(format!("{} cannot be opened: its functions have no name", mapping.name()));
            }
            self.binaries.insert(mapping.file, source.map_or(Binary::Odd, Binary::Opened));
        }
    }

    /// The state of a file.
    pub fn code(&mut self, mapping: &Mapping) -> Option<&BinaryCode> {
        let binary = self.binaries.get_mut(&mapping.file)?;
        if let Binary::Opened(_) = binary {
            let Binary::Opened(mut source) = std::mem::replace(binary, Binary::Odd) else { return None };
            let allowance = &self.allowance;
            // A panic of a library must not end this program.
            let read = catch_unwind(AssertUnwindSafe(|| elf::read(&mut source, allowance)));
            if let Ok(Some(elf)) = read {
                *binary = Binary::Known(Box::new(BinaryCode {
                    elf,
                    has_separate: false,
                    file: match &source {
                        Source::File(file) => Some(file.clone()),
                        Source::Copy(_) => None,
                    },
                    source: Some(source),
                    lines: None,
                }));
            }
            self.note_allowance(mapping);
            self.add_separate(mapping);
        }
        match self.binaries.get(&mapping.file)? {
            Binary::Known(code) => Some(code),
            _ => None,
        }
    }

    /// The functions and lines at an address in the file; none without debug information.
    pub fn places(&mut self, mapping: &Mapping, address: u64) -> Vec<SourcePlace> {
        let Some(Binary::Known(code)) = self.binaries.get_mut(&mapping.file) else { return Vec::new() };
        if let Some(source) = code.source.take() {
            let allowance = &self.allowance;
            let read = catch_unwind(AssertUnwindSafe(|| elf::debug(source, allowance)));
            code.lines = read.ok().flatten().and_then(|sections| DebugLines::new(&sections));
            self.note_allowance(mapping);
        }
        let Some(Binary::Known(code)) = self.binaries.get_mut(&mapping.file) else { return Vec::new() };
        let Some(lines) = &code.lines else { return Vec::new() };
        let places = lines.places(address);
        if lines.is_given_up() {
            code.lines = None;
            self.note(format!("{} has too much debug information: its lines are not shown", mapping.name()));
        }
        places
    }

    /// Whether a function was inlined, according to a file's debug information. It uses up the file's budget
    /// for lines, so it is called only for a name that was not found.
    pub fn is_inlined(&mut self, mapping: &Mapping, name: &str) -> bool {
        let Some(Binary::Known(code)) = self.binaries.get_mut(&mapping.file) else { return false };
        let Some(source) = code.source.take() else { return false };
        let allowance = &self.allowance;
        let read = catch_unwind(AssertUnwindSafe(|| elf::debug(source, allowance)));
        read.ok().flatten().is_some_and(|sections| lines::is_inlined(&sections, name))
    }

    /// A stripped file's symbols and debug information, if a package of them is installed.
    fn add_separate(&mut self, mapping: &Mapping) {
        let Some(Binary::Known(code)) = self.binaries.get(&mapping.file) else { return };
        let Some(id) = code.elf.build_id.as_ref().filter(|_| code.elf.is_stripped) else { return };
        let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("usr/lib/debug/.build-id/{}/{}.debug", &digits[..2], &digits[2..]);
        let Some(mut file) = self.within_root(&path).map(Source::of) else { return };
        let allowance = &self.allowance;
        let read = catch_unwind(AssertUnwindSafe(|| elf::read(&mut file, allowance)));
        let Ok(Some(separate)) = read else { return };
        let Some(Binary::Known(code)) = self.binaries.get_mut(&mapping.file) else { return };
        if separate.build_id != code.elf.build_id {
            return;
        }
        if !separate.symbols.is_empty() {
            code.elf.symbols = separate.symbols;
            code.has_separate = true;
        }
        code.source = Some(file);
    }

    fn note_allowance(&mut self, mapping: &Mapping) {
        if self.allowance.left_out() {
            let megabytes = Allowance::CODE >> 20;
            let name = mapping.name();
            self.note(format!(
                "{name} and the files before it have more than {megabytes} MiB of symbols and debug information: it was left out in part"
            ));
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn mapped(&self, mapping: &Mapping) -> Option<File> {
        let path = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        untrusted::regular_at(&self.process, path).ok()
    }

    fn by_path(&self, mapping: &Mapping) -> Option<File> {
        let file = self.within_root(mapping.path.trim_start_matches('/'))?;
        (file.metadata().ok()?.ino() == mapping.file.inode).then_some(file)
    }

    /// A regular file that the process sees at this path.
    fn within_root(&self, path: &str) -> Option<File> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(&self.process, "root", flags, Mode::empty()).ok()?;
        untrusted::within_root(root, path).ok()
    }

    fn vdso(&self, mapping: &Mapping) -> Option<Vec<u8>> {
        let size = (mapping.end - mapping.start).min(VDSO_BYTES);
        let memory = openat(&self.process, "mem", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        File::from(memory).read_exact_at(&mut bytes, mapping.start).ok()?;
        Some(bytes)
    }
}

impl BinaryCode {
    /// The difference between an address in this mapping and the address in the file.
    pub fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let is_there = |segment: &&elf::LoadedSegment| {
            let begin = segment.offset & !(PAGE - 1);
            let end = segment.offset.saturating_add(segment.file_size).saturating_add(PAGE - 1);
            segment.is_executable == mapping.is_executable && (begin..end).contains(&mapping.offset)
        };
        let segment = self.elf.segments.iter().find(is_there)?;
        let behind = mapping.start.wrapping_sub(mapping.offset);
        Some(behind.wrapping_add(segment.offset).wrapping_sub(segment.address))
    }

    /// Whether the file has this address, including data without bytes in the file.
    pub fn has(&self, address: u64) -> bool {
        self.elf.segments.iter().any(|segment| address.wrapping_sub(segment.address) < segment.size)
    }
}

impl Source {
    fn of(file: File) -> Source {
        Source::File(HeldFile(Arc::new(file)))
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::File(HeldFile(file)) => file.as_ref().read(buffer),
            Source::Copy(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        match self {
            Source::File(HeldFile(file)) => file.as_ref().seek(to),
            Source::Copy(bytes) => bytes.seek(to),
        }
    }
}
