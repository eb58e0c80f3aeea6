// SPDX-License-Identifier: MIT OR Apache-2.0
//! Edges from outside of the guest through memory: the generator is this program on the host, whose own clock
//! takes the time from an edge to the answer that it sees.
//!
//! The memory is `ivshmem-plain`, a PCI device without interrupts whose third resource both sides map: edges
//! are its first word, answers its second ([`rt::registers`]). The responder copies the level that it finds
//! when it begins; so the host lays one there that no fresh memory holds, and knows by its coming back that
//! it may begin. QEMU: docs/specs/ivshmem-spec.txt
//!
//! The host's clock describes the guest on its hypervisor in the mode `real` alone. Where the guest is
//! translated, the scope bounds each response in instructions, for every source of edges.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evidence::Bundle;
use evidence::lab::Mode;
use machine::CpuSet;
use rt::registers::{Register, Registers, SIGNAL_APART};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use crate::shared::SharedFile;
use crate::{Error, Result, child, store};

/// The device as the guest finds it.
pub const DEVICE: &str = "/sys/bus/pci/devices/0000:00:10.0";

/// Its memory, as the guest's program maps it.
pub fn resource() -> String {
    format!("{DEVICE}/resource2")
}

/// Its place on the bus, as the emulator is told.
const SLOT: &str = "0x10";

/// Bytes of the memory; a PCI resource is a power of two.
const BYTES: u64 = 1 << 20;

/// Name of the frame with the generator's bundle.
pub const FRAME: &str = "outside.tar.zst";

/// The level that the generator lays there first.
const FIRST: u32 = 1;

/// The time that the generator measures before it counts: longer than the guest's own warm-up.
const WARM_UP: Duration = Duration::from_secs(1);

/// How much longer the guest's window is than the generator's, which begins and ends within it.
pub const AROUND: Duration = Duration::from_secs(10);

/// How often something is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Edges through memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalEdges {
    /// From one to the next.
    pub every: Duration,
    /// How long they are measured.
    pub during: Duration,
}

/// The memory, made ready for a guest.
pub fn memory() -> Result<SharedFile> {
    let memory = SharedFile::sized("signal", BYTES)?;
    signal_registers(&memory)?.0.write(FIRST);
    Ok(memory)
}

/// The words of edges and of answers, as this program sees them.
fn signal_registers(memory: &SharedFile) -> Result<(Register, Register)> {
    let path = memory.path();
    let word = || {
        let words = Registers::file(Path::new(&path), 0, SIGNAL_APART + size_of::<u32>())?;
        Ok::<_, rt::Error>((words.at(0)?, words.at(SIGNAL_APART)?))
    };
    word().map_err(|e| Error::on("use", "the guest's memory", e.to_string(), "report this"))
}

/// The emulator's arguments for it.
pub fn arguments(memory: &SharedFile) -> Vec<String> {
    let path = memory.path();
    let backend = format!("memory-backend-file,id=signal,share=on,size={BYTES},mem-path={path}");
    let device = format!("ivshmem-plain,memdev=signal,addr={SLOT}");
    ["-object", &backend, "-device", &device].map(str::to_string).to_vec()
}

/// The CPU that the generator has, and those that are left: the last one that this program may use.
fn divide() -> Result<(u32, CpuSet)> {
    let mut others = rt::thread::affinity();
    match others.pop().filter(|_| !others.is_empty()) {
        Some(own) => Ok((own, others.into_iter().collect())),
        None => {
            let why = "the generator needs a CPU of the host for itself, and there is one alone";
            Err(Error::on("give edges", "from outside", why, "run it on a host with two CPUs"))
        }
    }
}

/// Keeps an emulator that was just started, and has no threads as yet, from the generator's CPU.
pub fn keep_apart(emulator: &Child) -> Result<()> {
    let mut cpus = KernelCpuSet::new();
    divide()?.1.iter().for_each(|cpu| cpus.set(cpu as usize));
    let kept = sched_setaffinity(Some(Pid::from_child(emulator)), &cpus);
    kept.map_err(|e| Error::io("choose CPUs for", Path::new("the emulator"), &e.into()))
}

/// Waits for the guest's responder, measures its answers, and gives the bundle, packed; an error where the
/// guest is `gone` before that.
pub fn measure(memory: &SharedFile, edges: SignalEdges, mode: Mode, gone: &AtomicBool) -> Result<Vec<u8>> {
    let answers = signal_registers(memory)?.1;
    while answers.read() != FIRST {
        if gone.load(Ordering::SeqCst) {
            let cure = "see the guest's kernel log, or try it with isolator lab shell";
            return Err(Error::on("give edges", "from outside", "the guest mapped no memory for them", cure));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let folder = TemporaryFolder::make()?;
    let mut generator = generator(memory, edges, mode, &folder.0)?;
    let mut generator = generator.spawn().map_err(|e| Error::io("start", Path::new("the generator"), &e))?;
    let mut told = false;
    let status = loop {
        match generator.try_wait() {
            Ok(Some(status)) => break status,
            // Once: at a second time it would end without its bundle.
            Ok(None) if gone.load(Ordering::SeqCst) && !told => {
                told = kill_process(Pid::from_child(&generator), Signal::TERM).is_ok();
            }
            Ok(None) => {}
            Err(e) => return Err(Error::io("wait for", Path::new("the generator"), &e)),
        }
        std::thread::sleep(LOOK_EVERY);
    };
    // 2: later than a limit, and none was given.
    if !matches!(status.code(), Some(0 | 2)) {
        let mut said = String::new();
        let _ = generator.stderr.take().map(|mut words| words.read_to_string(&mut said));
        let why = said.lines().last().unwrap_or("it did not say why").to_string();
        return Err(Error::on("give edges", "from outside", why, "run isolator doctor on the host"));
    }
    let archive = folder.0.with_extension("tar.zst");
    evidence::archive::pack(&folder.0, &archive)?;
    let bytes = crate::files::bytes(&archive).map_err(|e| Error::io("read", &archive, &e));
    let _ = std::fs::remove_file(&archive);
    bytes
}

/// This program as the generator. Real-time where its times count; elsewhere it would only keep the emulator
/// from its CPU.
fn generator(memory: &SharedFile, edges: SignalEdges, mode: Mode, folder: &Path) -> Result<Command> {
    let (own, others) = divide()?;
    let policy = if mode == Mode::Real { "fifo" } else { "other" };
    let time = |time: Duration| format!("{}us", time.as_micros());
    let (every, during, warm_up) = (time(edges.every), time(edges.during), time(WARM_UP));
    let mut command = child::command(&child::own()?, child::MOST_BYTES)?;
    command.args(["measure", "response", "--role", "generator", "--quiet", "--causes", "off"]);
    command.args(["--signal", &memory.path_here(), "--policy", policy]);
    command.args(["--cpus", &own.to_string(), "--house-keeping", &others.to_string()]);
    command.args(["--period", &every, "--duration", &during, "--warm-up", &warm_up]).arg("-o").arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}

/// A folder's unique name, removed with all that is in it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn make() -> Result<TemporaryFolder> {
        let name = format!("{:016x}", untrusted::random());
        Ok(TemporaryFolder(store::folder("outside")?.join(name)))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The host's rows beside the guest's own; the label says whose clock it was.
pub fn label(scenario: &str) -> String {
    format!("{scenario}, by the host's clock")
}

/// How many edges the generator had answered in its window.
pub fn answered(outside: &Bundle) -> u64 {
    outside.rows.iter().map(|row| row.series.latency.count()).sum()
}
