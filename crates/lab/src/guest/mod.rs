// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program inside a guest: this very program as its init. No shell, no distribution, no other file.
//!
//! Init mounts what a kernel offers, loads the job's modules, does the job, sends what came of it through the
//! port, says [`END`] on the console and powers the machine off. Failures are printed on the console and
//! ends the guest.
//!
//! # From a job to a result
//!
//! `lab run` boots a kernel in QEMU with an initramfs that is made on the fly. It has this program as
//! `/init`, a job (`/job.json`), modules, and for loads the programs that make them. Where a load or a storm
//! writes files there is a scratch disk: ext4 on virtio, a file without a name on the host. Init mounts,
//! loads modules and runs this program again, which measures as on any machine.
//!
//! 1. **Armed.** The measuring thread stands on the isolated CPU. At the first instruction of its loop it
//!    executes a marker. From there on the scope, a plugin of QEMU outside of the guest, records every
//!    excursion of that CPU to the kernel.
//! 2. **Storms** are started before that, one process each on housekeeping CPUs, and begin when the window is
//!    open. Each has a fixed number of rounds at a fixed pace, drawn from the seed. Storms in the owner's own
//!    memory run in the measuring program. The window closes after the last of them, however slow the host
//!    is, so that the same seed gives the same counts. A round that the kernel holds back, since per-CPU work
//!    waits for the isolated CPU's thread, delays nothing else and is reported.
//! 3. **Sent.** Bundle, storms' words, the kernel's log and the witness leave the guest as frames through a
//!    virtio-serial port; the scope's record is a file of the host. The log is checked: a run with a kernel's
//!    complaint, or with a storm without effect, has no result.
//! 4. **Kept.** Results are cached by the content of all inputs (program, job, kernel, boot line, emulator,
//!    scope).
//!
//! Where the guest's kernel has the isolator (`--isolate`), the measuring thread starts it last of all, and
//! reads the kernel's own counters before and after its loop. The bundle has breaches and deferred work
//! beside what the scope saw. With `exclusive` the owner is a process of a single thread that only spins: a
//! program that records its measurements shares its memory with others.
//!
//! Counts do not depend on the host's load. Times do: in the mode `count` none is kept, and the mode
//! `virtual` makes time of instructions.

pub mod alone;
pub mod measure;
pub mod program;
pub mod shell;
pub mod storm;
mod sys;
mod trace;

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};

use crate::job::{BEGIN, END, GuestJob, GuestTask, JOB, NO_PORT, PORT};
use crate::{disk, frame};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long the measuring program may take until it measures, and a disk until it comes up once its driver is
/// there: a load may have files to write first, on a host with ten times as many running threads as CPUs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often something is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How often the port is looked for: for a minute, and longer on a busy host.
const LOOKS_FOR_PORT: u32 = 6000;

/// MODULE_INIT_COMPRESSED_FILE of finit_module(2).
const COMPRESSED: i32 = 4;

/// Whether this process is the init of a lab guest.
pub fn is_init() -> bool {
    std::process::id() == 1 && PathBuf::from(JOB).exists()
}

/// Init's main function; returns only where the machine cannot be powered off.
pub fn main() -> ExitCode {
    if let Err(error) = init() {
        println!("isolator-guest: {error}");
    }
    println!("{END}");
    rustix::fs::sync();
    // With -no-reboot a restart ends the emulator, also where the kernel knows no way to cut the power.
    let _ = reboot(RebootCommand::Restart);
    ExitCode::FAILURE
}

fn init() -> Result<()> {
    mounts()?;
    println!("{BEGIN}");
    let job: GuestJob = serde_json::from_slice(&fs::read(JOB)?)?;
    load_modules(&job.modules)?;
    if job.disk {
        mount_disk()?;
    }
    match &job.task {
        GuestTask::Symbols => send(&mut port()?, "symbols", symbols()?.as_bytes()),
        GuestTask::Measure(task) => measure::run(task, &mut port()?),
        GuestTask::Shell => shell::run(),
        GuestTask::Program(task) => program::run(task, &mut port()?),
    }
}

fn mounts() -> Result<()> {
    for (kind, at) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/run"),
        ("tmpfs", "/tmp"),
        ("tracefs", "/sys/kernel/tracing"),
        ("debugfs", "/sys/kernel/debug"),
        ("cgroup2", "/sys/fs/cgroup"),
    ] {
        let made = fs::create_dir_all(at).is_ok();
        let mounted = mount(kind, at, kind, MountFlags::empty(), None);
        // A kernel may be built without debugfs; nothing works without the first five.
        if let (Err(why), "proc" | "sysfs" | "devtmpfs" | "tmpfs") = (mounted, kind)
            && why != rustix::io::Errno::BUSY
        {
            return Err(format!("cannot mount {kind} on {at} (folder: {made}): {why}").into());
        }
    }
    Ok(())
}

/// Loads modules in order. Which needs which differs between kernels (virtio and virtio_ring changed places):
/// those that fail are tried again after the others, as long as that helps.
fn load_modules(files: &[String]) -> Result<()> {
    let mut left = files.iter().collect::<Vec<_>>();
    loop {
        let (before, mut why) = (left.len(), None);
        left.retain(|file| load_module(file).map_err(|error| why = Some(error)).is_err());
        match why {
            None => return Ok(()),
            Some(error) if left.len() == before => return Err(error),
            Some(_) => {}
        }
    }
}

fn load_module(file: &str) -> Result<()> {
    let flags = if file.ends_with(".ko") { 0 } else { COMPRESSED };
    match finit_module(File::open(file)?, c"", flags) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(why) => Err(format!("cannot load the module {file}: {why}").into()),
    }
}

/// Mounts the scratch disk, which comes up a moment after its driver.
fn mount_disk() -> Result<()> {
    let device = Path::new("/dev").join(disk::DEVICE);
    let began = Instant::now();
    while !device.exists() {
        if began.elapsed() > PATIENCE {
            return Err("no scratch disk came up: this kernel has no driver of virtio disks".into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    fs::create_dir_all(disk::FOLDER)?;
    let mounted = mount(&device, disk::FOLDER, disk::KIND, MountFlags::empty(), None);
    Ok(mounted.map_err(|why| format!("cannot mount the scratch disk as {}: {why}", disk::KIND))?)
}

/// The port whose name is [`PORT`].
///
/// The host tells its name after the driver is there, a moment later where the host is busy. Looks are
/// counted, not time: a guest's clock jumps where its host stopped.
fn port() -> Result<File> {
    for _ in 0..LOOKS_FOR_PORT {
        if let Some((device, _)) = ports()?.iter().find(|(_, name)| name.as_deref() == Some(PORT)) {
            return Ok(OpenOptions::new().write(true).open(Path::new("/dev").join(device))?);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(format!("{NO_PORT} named {PORT}; it has {:?}", ports()?).into())
}

/// Each virtio port's device and, as soon as the host told it, name.
fn ports() -> Result<Vec<(String, Option<String>)>> {
    let mut ports = Vec::new();
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("name")).ok();
        ports.push((
            entry.file_name().to_string_lossy().into_owned(),
            name.map(|name| name.trim().to_string()),
        ));
    }
    Ok(ports)
}

fn send(port: &mut File, name: &str, bytes: &[u8]) -> Result<()> {
    Ok(frame::write(port, name, bytes)?)
}

/// The kernel's functions, a line each: address in hexadecimal, name.
fn symbols() -> Result<String> {
    fs::write("/proc/sys/kernel/kptr_restrict", "0")?;
    let all = fs::read_to_string("/proc/kallsyms")?;
    let mut text = String::with_capacity(all.len());
    for line in all.lines() {
        let mut words = line.split_ascii_whitespace();
        if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) =
            (words.next(), words.next(), words.next())
        {
            text.extend([address, " ", name, "\n"]);
        }
    }
    Ok(text)
}
