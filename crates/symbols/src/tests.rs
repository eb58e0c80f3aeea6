// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged binaries: each operation on them ends, without a panic.

use std::cell::Cell;
use std::fs;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use proptest::prelude::*;

use untrusted::Allowance;

use crate::elf::{self, Bytes, Elf, UnwindTables};
use crate::lines::DebugLines;
use crate::unwind::{Stack, UnwindStep, UserRegisters, Walk};

/// A program with all parts that are read, or `None` without a compiler.
fn program() -> Option<&'static [u8]> {
    static PROGRAM: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let compiled = || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/stack.c");
        let mut command = Command::new("cc");
        command.args(["-O2", "-g", "-pthread", "-o"]).arg(&path).arg(source).arg("-ldl");
        command.status().ok().filter(std::process::ExitStatus::success)?;
        Some(fs::read(path).unwrap())
    };
    PROGRAM.get_or_init(compiled).as_deref()
}

/// All operations on a binary.
fn ask(bytes: &[u8]) -> Option<Elf> {
    let allowance = Allowance::of_a_process(64 << 20);
    let elf = elf::read(Cursor::new(bytes), &allowance)?;
    let lines = elf::debug(Cursor::new(bytes), &allowance).and_then(|debug| DebugLines::new(&debug));
    let words: Vec<u8> = (0..512_u64).flat_map(|n| (0x7ff0_0000 + n * 8).to_le_bytes()).collect();
    let stack = Stack { begin: 0x7ff0_0000, bytes: &words };
    for address in (0x1000..0x3000).step_by(5) {
        elf.symbols.find(address, true);
        elf.symbols.find(address, false);
        lines.as_ref().map(|lines| lines.places(address));
        let mut walk =
            Walk::new(&UserRegisters { ip: address, sp: 0x7ff0_0000, bp: 0x7ff0_0100, lr: address });
        if let Some(tables) = &elf.unwind {
            while walk.by_tables(tables, 0, stack) == UnwindStep::Taken {}
        }
    }
    elf.symbols.named("main");
    Some(elf)
}

#[test]
fn reads_an_undamaged_binary() {
    let Some(bytes) = program() else { return println!("skipped: it needs cc") };
    let elf = ask(bytes).unwrap();
    let [main] = &elf.symbols.named("main")[..] else { panic!("it has one") };
    assert_eq!(elf.symbols.find(main.address + 1, true), Some(("main".to_string(), 1)));
    assert!(elf.unwind.is_some() && !elf.is_stripped && elf.build_id.is_none_or(|id| !id.is_empty()));
    // A file over the allowance is not read.
    assert!(elf::read(Cursor::new(bytes), &Allowance::of_a_process(1 << 10)).is_none());
}

#[test]
fn knows_a_program_of_go_by_its_section() {
    let Some(bytes) = program() else { return println!("skipped: it needs cc") };
    let name = b".note.ABI-tag\0";
    let Some(at) = bytes.windows(name.len()).position(|part| part == name) else {
        return println!("skipped: cc makes no section of that length");
    };
    let mut of_go = bytes.to_vec();
    of_go[at..at + name.len()].copy_from_slice(b".go.buildinfo\0");
    assert_eq!([bytes, &of_go].map(|bytes| ask(bytes).unwrap().is_go), [false, true]);
}

/// A file of any length that has these bytes, and a hole after them; it counts what is read.
struct Hole<'a> {
    bytes: &'a [u8],
    at: u64,
    length: u64,
    read: &'a Cell<u64>,
}

impl Read for Hole<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(usize::try_from(self.length - self.at).unwrap_or(usize::MAX));
        let from = usize::try_from(self.at).unwrap().min(self.bytes.len());
        let there = &self.bytes[from..self.bytes.len().min(from + count)];
        buffer[..count].fill(0);
        buffer[..there.len()].copy_from_slice(there);
        self.at += count as u64;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

impl Seek for Hole<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(0) => self.length,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(self.at)
    }
}

/// The allowance is the most that is read, for each part that claims to be long.
#[test]
fn a_claim_of_gigabytes_is_refused_before_it_is_read() {
    let Some(bytes) = program() else { return println!("skipped: it needs cc") };
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let (table, count) = (word(0x28), half(0x3c));
    let length = 3_u64 << 30;
    let most = 64_u64 << 20;
    let mut refused = 0;
    for part in 0..count {
        for size in [3_u64 << 30, most - 1, most / 2, 24 << 20] {
            // The part's place is the hole, and its size is that.
            let mut bytes = bytes.to_vec();
            let header = table + part * 64;
            bytes[header + 24..header + 32].copy_from_slice(&(length - size).to_le_bytes());
            bytes[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
            let (read, allowance) = (Cell::new(0), Allowance::of_a_process(most));
            let hole = || Hole { bytes: &bytes, at: 0, length, read: &read };
            let elf = elf::read(hole(), &allowance);
            elf::debug(hole(), &allowance);
            refused += usize::from(elf.is_none() || allowance.left_out());
            assert!(read.get() <= most, "part {part}: {} bytes of {size}", read.get());
        }
    }
    assert!(refused > 8, "{refused}");
    // The number of sections may stand in the first one.
    let mut bytes = bytes.to_vec();
    bytes[0x3c..0x3e].fill(0);
    bytes[table + 32..table + 40].copy_from_slice(&(length / 64).to_le_bytes());
    let read = Cell::new(0);
    elf::read(Hole { bytes: &bytes, at: 0, length, read: &read }, &Allowance::of_a_process(most));
    assert!(read.get() <= most, "{}", read.get());
}

fn bytes_anywhere() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..64)
}

fn bytes_at_an_end() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop::collection::vec((0..2_500_usize, any::<u8>()), 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_bytes_do_no_harm(damage in bytes_anywhere()) {
        if let Some(bytes) = program() {
            let mut bytes = bytes.to_vec();
            for (place, byte) in &damage {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            ask(&bytes);
        }
    }

    /// The tables with sizes and offsets: of segments, and at the end, of sections.
    #[test]
    fn damaged_headers_do_no_harm(damage in bytes_at_an_end(), at_end: bool) {
        if let Some(bytes) = program() {
            let mut bytes = bytes.to_vec();
            let length = bytes.len();
            for (place, byte) in &damage {
                bytes[if at_end { length - 1 - place } else { place % 800 }] = *byte;
            }
            ask(&bytes);
        }
    }

    #[test]
    fn a_file_that_ends_too_early_does_no_harm(length in any::<prop::sample::Index>()) {
        if let Some(bytes) = program() {
            ask(&bytes[..length.index(bytes.len())]);
        }
    }
}

/// `.eh_frame` with one function at 0x1000 whose frame is given by an expression.
fn told_by(expression: &[u8]) -> UnwindTables {
    let mut bytes = Vec::new();
    let mut entry = |content: &[u8]| {
        let length = content.len().next_multiple_of(4);
        bytes.extend((length as u32).to_le_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len() + length - content.len(), 0);
    };
    // A CIE: its mark, version, no augmentation, alignment factors 1 and -8, return address in column 16.
    entry(&[0, 0, 0, 0, 1, 0, 1, 0x78, 16]);
    // DW_CFA_offset of the return address: 1 * -8.
    let mut function = vec![20, 0, 0, 0];
    function.extend(0x1000_u64.to_le_bytes());
    function.extend(0x100_u64.to_le_bytes());
    // DW_CFA_def_cfa_expression; DW_CFA_offset of the return address.
    function.extend([0x0f, expression.len() as u8]);
    function.extend(expression);
    function.extend([0x80 | 16, 1]);
    entry(&function);
    entry(&[]);
    UnwindTables { eh_frame: Bytes { address: 0x8000, bytes }, index: Bytes::default(), text: 0x1000 }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn gives_up_an_expression_that_never_ends() {
    let words: Vec<u8> = [0x11_u64, 0x22, 0x33].iter().flat_map(|word| word.to_le_bytes()).collect();
    let stack = Stack { begin: 0x7000, bytes: &words };
    let from = Walk::new(&UserRegisters { ip: 0x1010, sp: 0x7000, bp: 0, lr: 0 });
    // rsp + 16.
    let mut walk = from.clone();
    assert_eq!(walk.by_tables(&told_by(&[0x77, 16]), 0, stack), UnwindStep::Taken);
    assert_eq!(walk.address(), 0x22 - 1);
    // DW_OP_skip to itself.
    let mut walk = from.clone();
    assert_eq!(walk.by_tables(&told_by(&[0x2f, 0xfd, 0xff]), 0, stack), UnwindStep::Unknown);
    // A frame below the one that it calls.
    let mut walk = from.clone();
    assert_eq!(walk.by_tables(&told_by(&[0x77, 0x70]), 0, stack), UnwindStep::Unknown);
    assert_eq!(walk.address(), 0x1010);
}
