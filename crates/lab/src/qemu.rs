// SPDX-License-Identifier: MIT OR Apache-2.0
//! One guest, from its parts to what it left: console, frames, the scope's record.
//!
//! The emulator is a child that dies with the thread that waits for it ([`VERB`]), and has a time limit.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use evidence::lab::Mode;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::job::END;
use crate::kernel::{Architecture, Kernel};
use crate::{Error, Result, frame};

/// The hidden verb under which this program becomes the emulator, to die with its parent.
pub const VERB: &str = "lab-emulator";

/// Memory of a guest, in MiB.
const MEMORY_MIB: u32 = 1024;

/// A guest to be run.
#[derive(Debug, Clone)]
pub struct Guest<'a> {
    /// Its kernel.
    pub kernel: &'a Kernel,
    /// Its root.
    pub initramfs: &'a [u8],
    /// Its whole boot line.
    pub boot_line: String,
    /// How it runs.
    pub mode: Mode,
    /// How many CPUs it has.
    pub cpus: u32,
    /// The scope's plugin with its arguments but `out`.
    pub scope: Option<String>,
    /// When it has to be over.
    pub time_limit: Duration,
}

/// Where a guest's console goes.
enum Console {
    File,
    Terminal,
}

/// What a guest left.
#[derive(Debug, Clone, PartialEq)]
pub struct Left {
    /// Everything on its console.
    pub console: String,
    /// The whole frames that it sent.
    pub frames: Vec<(String, Vec<u8>)>,
    /// The scope's record.
    pub scope: String,
}

/// The emulator's program for an architecture.
pub fn program(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "qemu-system-x86_64",
        Architecture::Aarch64 => "qemu-system-aarch64",
    }
}

/// The emulator's version, in words.
pub fn version(architecture: Architecture) -> Result<String> {
    let program = program(architecture);
    let output = Command::new(program).arg("--version").output().map_err(|e| {
        let package = match architecture {
            Architecture::X86_64 => "qemu-system-x86",
            Architecture::Aarch64 => "qemu-system-arm",
        };
        let why = if e.kind() == std::io::ErrorKind::NotFound {
            "it is not installed".into()
        } else {
            e.to_string()
        };
        Error::new("run guests with", program, why, format!("apt-get install {package}"))
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or(program).trim_start_matches("QEMU emulator version ").to_string())
}

/// Runs a guest to its end; an error where it did not end in order, with its last words.
pub fn run(guest: &Guest<'_>) -> Result<Left> {
    let folder = scratch()?;
    let left = run_in(guest, &folder);
    let _ = fs::remove_dir_all(&folder);
    left
}

fn run_in(guest: &Guest<'_>, folder: &Path) -> Result<Left> {
    let initrd = folder.join("initramfs");
    fs::write(&initrd, guest.initramfs).map_err(|e| Error::io("write", &initrd, &e))?;
    let own = std::env::current_exe().map_err(|e| Error::io("find", Path::new("this program"), &e))?;
    let errors = folder.join("errors");
    let to = |path: &Path| fs::File::create(path).map_err(|e| Error::io("write", path, &e));
    let mut emulator = Command::new(own)
        .arg(VERB)
        .args(command_line(guest, folder, Console::File))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(to(&errors)?)
        .spawn()
        .map_err(|e| Error::io("start", Path::new(program(guest.kernel.architecture)), &e))?;
    let in_time = wait(&mut emulator, guest.time_limit);
    let text = |name: &str| fs::read(folder.join(name)).map(|b| String::from_utf8_lossy(&b).into_owned());
    let console = text("console").unwrap_or_default();
    if !in_time || !console.contains(END) {
        let limit = guest.time_limit.as_secs();
        let said = text("errors").unwrap_or_default();
        return Err(broken(&guest.kernel.release, &console, &said, (!in_time).then_some(limit)));
    }
    let frames =
        fs::read(folder.join("frames")).map_err(|e| Error::io("read", &folder.join("frames"), &e))?;
    Ok(Left { console, frames: frame::read(&frames), scope: text("scope").unwrap_or_default() })
}

/// Why a guest has no result: the emulator's words, or the console's last ones.
fn broken(release: &str, console: &str, said: &str, limit_s: Option<u64>) -> Error {
    let cure = "try isolator lab shell with the same kernel and boot line";
    let panic = console.lines().find(|line| line.contains("Kernel panic"));
    let last = console.lines().map(str::trim).rfind(|line| !line.is_empty());
    let why = match (panic, last, said.lines().rfind(|line| !line.trim().is_empty()), limit_s) {
        (Some(panic), ..) => format!("the kernel panicked: {}", panic.trim()),
        (_, None, Some(said), None) => said.to_string(),
        (_, None, _, Some(s)) => format!("it said nothing on its console in {s} s"),
        (_, Some(last), _, Some(s)) => format!("it had not ended after {s} s; its last words: {last}"),
        (_, Some(last), _, None) => format!("it ended too early; its last words: {last}"),
        (_, None, None, None) => "it ended without a word".to_string(),
    };
    Error::new("run a guest with", release, why, cure)
}

/// Waits for the emulator; ends it where it takes longer. Whether it ended by itself.
fn wait(emulator: &mut Child, limit: Duration) -> bool {
    let began = Instant::now();
    loop {
        match emulator.try_wait() {
            Ok(None) if began.elapsed() < limit => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                let _ = emulator.kill();
                let _ = emulator.wait();
                return false;
            }
            _ => return true,
        }
    }
}

/// Runs a guest whose console is this terminal, until it ends.
pub fn interactive(guest: &Guest<'_>) -> Result<()> {
    let folder = scratch()?;
    let initrd = folder.join("initramfs");
    fs::write(&initrd, guest.initramfs).map_err(|e| Error::io("write", &initrd, &e))?;
    let line = command_line(guest, &folder, Console::Terminal);
    let status = Command::new(&line[0]).args(&line[1..]).status();
    let _ = fs::remove_dir_all(&folder);
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Error::new("run a guest with", &guest.kernel.release, status, "see what it printed above"))
        }
        Err(error) => Err(Error::io("start", line[0].as_ref(), &error)),
    }
}

fn command_line(guest: &Guest<'_>, folder: &Path, console: Console) -> Vec<String> {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut line = vec![program(guest.kernel.architecture).to_string()];
    let mut add = |words: &[&str]| line.extend(words.iter().map(ToString::to_string));
    match guest.kernel.architecture {
        Architecture::X86_64 => add(&["-machine", "pc"]),
        Architecture::Aarch64 => add(&["-machine", "virt,gic-version=3"]),
    }
    match guest.mode {
        Mode::Count => add(&["-accel", "tcg,thread=multi", "-cpu", "max"]),
        Mode::Virtual => {
            add(&["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", "max"]);
            // What the guest asks of the world besides time: random numbers and the date.
            add(&["-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
        }
        Mode::Real => add(&["-accel", "kvm", "-cpu", "host"]),
    }
    add(&["-nodefaults", "-no-reboot", "-display", "none"]);
    add(&["-m", &MEMORY_MIB.to_string(), "-smp", &guest.cpus.to_string()]);
    match console {
        Console::File => add(&["-serial", &format!("file:{}", at("console"))]),
        Console::Terminal => add(&["-serial", "mon:stdio"]),
    }
    // With an ioeventfd another host thread would serve the port, and when it does is not the guest's time.
    add(&["-device", "virtio-serial-pci,ioeventfd=off"]);
    add(&["-chardev", &format!("file,id=frames,path={}", at("frames"))]);
    add(&["-device", &format!("virtserialport,chardev=frames,name={}", crate::job::PORT)]);
    if let Some(scope) = &guest.scope {
        add(&["-plugin", &format!("{scope},out={}", at("scope"))]);
    }
    add(&["-kernel", &guest.kernel.image.display().to_string(), "-initrd", &at("initramfs")]);
    add(&["-append", &guest.boot_line]);
    line
}

/// A folder of this process's own for one guest.
fn scratch() -> Result<PathBuf> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("isolator-guest-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| Error::io("make the folder", &folder, &e))?;
    Ok(folder)
}

/// Becomes the emulator, which the kernel ends as soon as the starting thread is gone.
pub fn become_emulator(mut args: impl Iterator<Item = String>) -> ExitCode {
    if set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
        && let Some(program) = args.next()
    {
        let error = Command::new(&program).args(args).exec();
        eprintln!("cannot run {program}: {error}");
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_failed_is_told_in_one_line() {
        let why = |console: &str, said: &str, limit| broken("6.12-rt", console, said, limit).to_string();
        let cure = "try isolator lab shell with the same kernel and boot line";
        let panic = "[ 3.1] VFS: x\n[    3.2] Kernel panic - not syncing: VFS: no root\n[ 3.3] Call Trace:";
        assert_eq!(
            why(panic, "", None),
            format!(
                "cannot run a guest with 6.12-rt: the kernel panicked: [ 3.2] Kernel panic - not syncing: VFS: no root; {cure}"
            )
        );
        assert_eq!(
            why("", "", Some(30)),
            format!("cannot run a guest with 6.12-rt: it said nothing on its console in 30 s; {cure}")
        );
        assert_eq!(why("", "qemu: no", None), format!("cannot run a guest with 6.12-rt: qemu: no; {cure}"));
        assert_eq!(
            why("a\nb\n", "", Some(9)),
            format!("cannot run a guest with 6.12-rt: it had not ended after 9 s; its last words: b; {cure}")
        );
    }
}
