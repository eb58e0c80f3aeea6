// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's types (BTF), by which its structures are read: its own, or those that lie elsewhere.
//!
//! Sought in this order: the file of `--btf`; the kernel's own; the places of `files`. Types from elsewhere
//! are not believed: a program reads by them what this thread knows of itself, and they are used only where
//! all of it is true.

mod files;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use aya::maps::{Array, MapData};
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun};
use aya::{Btf, EbpfLoader, Endianness};

use self::files::{bytes, places};
use super::per_cpu::{PerCpu, are_whole};
use super::{RecordBytes, whole};
use crate::{Error, policy};
use machine::sight::{BTF, LOOPS_BY_BPF};

/// Reads what the kernel knows of the thread that runs it.
static LOOK: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/types-plain.o"));

/// Bytes of a thread's stack in the kernel, and those from its end that may hold the registers.
const STACKS: [u64; 4] = [16 << 10, 32 << 10, 8 << 10, 64 << 10];
const REGISTERS: [u64; 2] = [96, 512];

/// Flags of a thread that do not change while it runs: it has not called execve() since it was forked, it has
/// used the rights of root, it is a thread of the kernel (`PF_FORKNOEXEC`, `PF_SUPERPRIV`, `PF_KTHREAD`).
const LASTING_FLAGS: u64 = 0x20_0140;

/// `BPF_PROG_TEST_RUN` of bpf(2), by which the program is run.
const TEST_RUN: u64 = 10;

static GIVEN: OnceLock<PathBuf> = OnceLock::new();
static FOUND: OnceLock<Result<KernelTypes, String>> = OnceLock::new();

/// The types by which BPF programs of this process read the kernel.
#[derive(Debug)]
pub struct KernelTypes {
    /// Their file, and what is in it; `None`: the kernel's own, which are read again.
    elsewhere: Option<(PathBuf, Vec<u8>)>,
    /// From the begin of a thread's stack to the registers with which it entered the kernel; `None` where
    /// programs read pointers directly.
    registers_from_stack: Option<[u8; 8]>,
    per_cpu: PerCpu,
}

/// Has all BPF programs of this process use the types in this file, in place of the kernel's own. An error
/// where they are not those of the kernel that runs.
pub fn use_types(file: PathBuf) -> crate::Result<()> {
    let what = format!("use the types in {}", file.display());
    let cure = "give the BTF, the image or the headers of the kernel that runs: uname -r";
    policy::may_load("use the kernel's types", policy::BPF_RIGHTS)?;
    let _ = GIVEN.set(file);
    KernelTypes::of_this_kernel().map(drop).map_err(|why| Error::new(what, why, cure))
}

impl KernelTypes {
    /// Those of the kernel that runs; sought once. Otherwise the reason, in a sentence.
    pub fn of_this_kernel() -> Result<&'static KernelTypes, &'static str> {
        FOUND.get_or_init(find).as_ref().map_err(String::as_str)
    }

    /// Whether programs read pointers of the kernel by a helper alone: its own types are not there, or it is
    /// too old.
    pub fn are_plain(&self) -> bool {
        self.registers_from_stack.is_some()
    }

    /// Whether they are not the kernel's own.
    pub fn are_from_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    pub(super) fn read(&self) -> Result<Btf, String> {
        match &self.elsewhere {
            Some((_, bytes)) => types_in(bytes),
            None => types_in(&bytes(Path::new(BTF))?),
        }
    }

    /// As values of globals of a BPF part that uses them.
    pub(super) fn globals(&self) -> Vec<(&str, &[u8])> {
        let registers = self.registers_from_stack.as_ref();
        let registers = registers.map(|distance| ("registers_from_stack", &distance[..]));
        self.per_cpu.globals().into_iter().chain(registers).collect()
    }
}

fn find() -> Result<KernelTypes, String> {
    if let Some(file) = GIVEN.get() {
        return elsewhere(file);
    }
    let release = untrusted::text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    match bytes(Path::new(BTF)) {
        Ok(bytes) if policy::version(release).is_some_and(|version| version >= LOOPS_BY_BPF) => {
            return Ok(known(&bytes, None));
        }
        Ok(bytes) => {
            let registers = try_out(&types_in(&bytes)?)?;
            return Ok(known(&bytes, Some(registers)));
        }
        Err(_) => {}
    }
    let mut refused = String::new();
    for file in places(release).into_iter().filter(|file| untrusted::is_there(file)) {
        match elsewhere(&file) {
            Ok(types) => return Ok(types),
            Err(why) => refused = format!(", and the types in {} cannot be used: {why}", file.display()),
        }
    }
    Err(format!("this kernel has no BTF{refused}"))
}

fn known(bytes: &[u8], registers: Option<u64>) -> KernelTypes {
    KernelTypes {
        elsewhere: None,
        registers_from_stack: registers.map(u64::to_ne_bytes),
        per_cpu: PerCpu::in_types(bytes).unwrap_or_default(),
    }
}

fn elsewhere(file: &Path) -> Result<KernelTypes, String> {
    let bytes = bytes(file)?;
    if !are_whole(&bytes) {
        return Err("they are damaged: a type or a name lies beyond them".into());
    }
    let registers = try_out(&types_in(&bytes)?)?;
    let known = known(&bytes, Some(registers));
    Ok(KernelTypes { elsewhere: Some((file.to_path_buf(), bytes)), ..known })
}

fn types_in(bytes: &[u8]) -> Result<Btf, String> {
    Btf::parse(bytes, Endianness::default()).map_err(|error| format!("they are damaged: {}", whole(&error)))
}

/// Has the kernel tell by these types what this thread knows of itself. Returns where the registers of a
/// thread lie on its stack in the kernel.
fn try_out(types: &Btf) -> Result<u64, String> {
    let refused = |error: &dyn std::error::Error| format!("the kernel refused to try them: {}", whole(error));
    let mut loader = EbpfLoader::new();
    loader.btf(Some(types));
    let mut part = loader.load(LOOK).map_err(|error| refused(&error))?;
    let found = part.take_map("found").ok_or("it has no map")?;
    let found: Array<MapData, [u64; 7]> = found.try_into().map_err(|error| refused(&error))?;
    let program = part.program_mut("look").ok_or("it has no program")?;
    let look: &mut RawTracePoint = program.try_into().map_err(|error| refused(&error))?;
    look.load().map_err(|error| refused(&error))?;
    let run = |distance: u64| -> Result<Itself, String> {
        let mut options = RawTracePointRunOptions::default();
        options.args[0] = distance;
        look.test_run(options).map_err(|error| refused(&error))?;
        let words = found.get(&0, 0).map_err(|error| refused(&error))?;
        Ok(Itself::read(&words).unwrap_or_default())
    };
    let told = run(0)?;
    let known = Itself::of_this_thread().ok_or("/proc/thread-self/stat cannot be read")?;
    if let Some(difference) = known.differs(&told) {
        return Err(format!("they are of another kernel: {difference}"));
    }
    let distances = STACKS.iter().flat_map(|stack| {
        let before = (REGISTERS[0]..=REGISTERS[1]).step_by(8);
        before.map(move |before| stack - before)
    });
    for distance in distances {
        let told = run(distance)?;
        if (told.call, told.first) == (syscalls::Sysno::bpf as u64, TEST_RUN) {
            return Ok(distance);
        }
    }
    Err("by them, no registers of a program lie on this thread's stack".into())
}

/// A thread, as the kernel knows it and as it knows itself.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Itself {
    call: u64,
    first: u64,
    fields: [u64; 6],
    comm: String,
}

const FIELDS: [&str; 6] = ["state", "number", "process", "priority", "policy", "flags"];

impl Itself {
    /// `struct itself` of the C part.
    fn read(words: &[u64; 7]) -> Option<Itself> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut rest = RecordBytes(&bytes);
        let (call, first) = (rest.u64()?, rest.u64()?);
        let mut fields = [0; 6];
        for field in &mut fields {
            *field = rest.u32()?.into();
        }
        fields[5] &= LASTING_FLAGS;
        Some(Itself { call, first, fields, comm: rest.name()? })
    }

    /// By proc_pid_stat(5).
    fn of_this_thread() -> Option<Itself> {
        let text = untrusted::text("/proc/thread-self/stat").ok()?;
        let (begin, rest) = text.rsplit_once(')')?;
        let (number, comm) = begin.split_once(" (")?;
        let words = rest.split_whitespace().collect::<Vec<_>>();
        // The first of them is the third of the file.
        let word = |number: usize| words.get(number - 3)?.parse::<i64>().ok();
        let fields = [
            0,
            number.parse().ok()?,
            u64::from(std::process::id()),
            u64::try_from(word(18)? + 100).ok()?,
            u64::try_from(word(41)?).ok()?,
            u64::try_from(word(9)?).ok()? & LASTING_FLAGS,
        ];
        Some(Itself { call: 0, first: 0, fields, comm: comm.to_string() })
    }

    /// The first field that is not so.
    fn differs(&self, told: &Itself) -> Option<String> {
        let numbers = FIELDS.iter().zip(self.fields.iter().zip(&told.fields));
        let mut differ = numbers.filter(|(_, (known, told))| known != told);
        if let Some((name, (known, told))) = differ.next() {
            return Some(format!("this thread's {name} is {known}, and by them {told}"));
        }
        let (known, told) = (&self.comm, &told.comm);
        (known != told).then(|| format!("this thread's name is {known}, and by them {told:?}"))
    }
}
