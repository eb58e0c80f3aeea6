// SPDX-License-Identifier: MIT OR Apache-2.0
//! One guest, from its parts to what it left: console, frames, the scope's record.
//!
//! The emulator is a child that dies with the thread that waits for it ([`child`]), and has a time limit. All
//! that it writes goes to files without a name ([`GuestFiles`]).

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evidence::lab::Mode;

use crate::architecture::Architecture;
use crate::child::{self, MOST_BYTES};
use crate::exchange::GuestFiles;
use crate::job::{BEGIN, END, NO_PORT, PORT};
use crate::kernel::GuestKernel;
use crate::patience::Patience;
use crate::shared::SharedFile;
use crate::{Error, Result, disk, edges, frame, log, scope, signal};

/// Memory of a guest, in MiB.
const MEMORY_MIB: u32 = 1024;

/// A guest to be run.
#[derive(Debug, Clone)]
pub struct Guest<'a> {
    /// Its kernel.
    pub kernel: &'a GuestKernel,
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
    /// Whether it has a scratch disk.
    pub disk: bool,
    /// How CPUs are disturbed and emulated beyond what the mode says.
    pub how: How,
    /// When it has to be over.
    pub patience: Patience,
}

/// The equipment of a guest besides its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct How {
    /// How often every CPU is given an NMI; x86-64, with `apic_extnmi=all` on the boot line.
    pub nmi_every: Option<Duration>,
    /// Whether CPUs take turns on one host thread, so that QEMU before 8 runs no stale text either.
    pub by_turns: bool,
    /// Whether each two CPUs are hardware threads of one core; x86-64.
    pub siblings: bool,
    /// The source of its edges, outside of it.
    pub outside: Option<Outside>,
}

/// A source of edges outside of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// Lines, the next edge so long after an answer; arm64.
    Lines(Duration),
    /// Memory.
    Signal(signal::SignalEdges),
}

/// How an emulator ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    ByItself,
    TimeLimit(Duration),
    Stopped,
}

/// Where a guest's console goes.
enum Console {
    File,
    Terminal,
}

/// The result of a guest.
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
        Error::on("run guests with", program, why, format!("apt-get install {package}"))
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or(program).trim_start_matches("QEMU emulator version ").to_string())
}

/// The first version whose CPUs, a thread each, see text that another CPU has patched. An older one may keep
/// a translation that it made meanwhile, so that a guest meets a breakpoint which its kernel has taken out
/// again: in 16 runs of the selftest `generations` with QEMU 7.2 nine guests did, in 13 runs with QEMU 10
/// none.
const SEES_PATCHED_TEXT: u32 = 8;

/// The message of x86's kernel for a breakpoint that it does not know.
const STALE_TEXT: &str = "Oops: int3";

/// How often a guest is run whose emulator keeps failing it.
const TRIES: usize = 5;

/// Whether an emulator of that version may run stale text.
fn runs_stale_text(version: &str) -> bool {
    version.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|n: u32| n < SEES_PATCHED_TEXT)
}

/// Runs a guest to its end. Where the emulator failed it, what came of it is no result of the guest's: it
/// runs again.
pub fn run(guest: &Guest<'_>) -> std::result::Result<Left, LostGuest> {
    for _ in 1..TRIES {
        let ran = run_once(guest);
        let console = ran.as_ref().map_or_else(|lost| &lost.console, |left| &left.console);
        let Some(why) = emulators_fault(guest, console)? else { return ran };
        eprintln!("isolator: run the guest again: {why}");
    }
    run_once(guest)
}

/// The emulator's fault, by a guest's console.
fn emulators_fault(guest: &Guest<'_>, console: &str) -> Result<Option<String>> {
    // Nothing of the guest's task had begun.
    if console.contains(NO_PORT) {
        return Ok(Some("it was not told the name of its port".into()));
    }
    let on_threads = guest.mode == Mode::Count && !guest.how.by_turns;
    if !on_threads || !console.contains(STALE_TEXT) {
        return Ok(None);
    }
    let version = version(guest.kernel.architecture)?;
    let stale = || format!("QEMU {version} ran text that the guest's kernel had patched");
    Ok(runs_stale_text(&version).then(stale))
}

fn run_once(guest: &Guest<'_>) -> std::result::Result<Left, LostGuest> {
    let mut files = exchange(guest)?;
    let generator = guest.how.outside.map(|outside| OutsideEdges::new(outside, &mut files)).transpose()?;
    let mut command = emulator(guest, &files, Console::File)?;
    // A group of its own: a terminal's Ctrl-C is for this program, which then ends the emulator.
    command.process_group(0).stdout(Stdio::null()).stderr(files.errors.output()?);
    command.stdin(if guest.how.nmi_every.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut emulator = start(guest, &files, &mut command)?;
    if let Some(Outside::Signal(_)) = guest.how.outside
        && let Err(error) = signal::keep_apart(&emulator)
    {
        end(&mut emulator);
        return Err(error.into());
    }
    if let Some((every, monitor)) = guest.how.nmi_every.zip(emulator.stdin.take()) {
        let console = SharedFile::of(files.console.output()?);
        // Ends with the emulator, which does not read any more then.
        std::thread::spawn(move || send_nmis(every, &console, monitor));
    }
    // The emulator has its ends now; when it is gone, no process shall have them.
    files.edges = None;
    let (mode, gone) = (guest.mode, Arc::new(AtomicBool::new(false)));
    let is_gone = Arc::clone(&gone);
    let outside = generator.map(|own| std::thread::spawn(move || own.run(mode, &is_gone)));
    let ending = wait(&mut emulator, &guest.patience);
    gone.store(true, Ordering::SeqCst);
    let (console, mut frames) = (files.console.text()?, frame::read(&files.frames.bytes()?));
    let panicked = || Error::on("give edges", "from outside", "its thread panicked", "report this");
    let outside = outside.map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
    if ending == Ending::ByItself && console.contains(END) {
        frames.extend(outside.transpose()?);
        return Ok(Left { console, frames, scope: files.scope.text()? });
    }
    let said = files.errors.text()?;
    let error =
        broken(guest.kernel, &Words { console: &console, said: &said, sent: !frames.is_empty() }, ending);
    Err(LostGuest { error, console })
}

/// A guest that did not end in order, or did not even begin.
#[derive(Debug)]
pub struct LostGuest {
    /// Why, with its last words.
    pub error: Error,
    /// Its console.
    pub console: String,
}

impl LostGuest {
    /// Its console and its program's output from when the program ran; empty where it did not come so far.
    pub fn program_output(&self) -> &str {
        self.console.split_once(BEGIN).map_or("", |(_, said)| said.trim())
    }
}

impl From<Error> for LostGuest {
    fn from(error: Error) -> LostGuest {
        LostGuest { error, console: String::new() }
    }
}

impl From<LostGuest> for Error {
    fn from(lost: LostGuest) -> Error {
        lost.error
    }
}

/// Who gives edges from outside, ready to begin.
enum OutsideEdges {
    Lines(edges::EdgeGenerator, Duration),
    Signal(SharedFile, signal::SignalEdges),
}

impl OutsideEdges {
    fn new(outside: Outside, files: &mut GuestFiles) -> Result<OutsideEdges> {
        Ok(match outside {
            Outside::Lines(every) => OutsideEdges::Lines(files.with_edges()?, every),
            Outside::Signal(edges) => OutsideEdges::Signal(files.with_signal()?, edges),
        })
    }

    /// Gives edges until it is over or the emulator is gone; the frame that describes them.
    fn run(self, mode: Mode, gone: &AtomicBool) -> Result<(String, Vec<u8>)> {
        Ok(match self {
            OutsideEdges::Lines(own, every) => {
                let edges = own.run(every).and_then(|edges| Ok(serde_json::to_vec(&edges)?));
                let edges = edges.map_err(|e| Error::io("drive", Path::new("the guest's lines"), &e))?;
                (edges::FRAME.to_string(), edges)
            }
            OutsideEdges::Signal(memory, edges) => {
                (signal::FRAME.to_string(), signal::measure(&memory, edges, mode, gone)?)
            }
        })
    }
}

/// Tells the emulator's monitor to give every CPU an NMI, again and again, from when the guest's program
/// runs: firmware and a kernel that begins do not survive one.
fn send_nmis(every: Duration, console: &SharedFile, mut monitor: impl Write) {
    while !console.text().is_ok_and(|text| text.contains(BEGIN)) {
        if monitor.write_all(b"\n").and_then(|()| monitor.flush()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    while monitor.write_all(b"nmi\n").and_then(|()| monitor.flush()).is_ok() {
        std::thread::sleep(every);
    }
}

fn exchange(guest: &Guest<'_>) -> Result<GuestFiles> {
    let files = GuestFiles::new(guest.initramfs)?;
    if guest.disk { files.with_disk() } else { Ok(files) }
}

/// The command that becomes the emulator.
fn emulator(guest: &Guest<'_>, files: &GuestFiles, console: Console) -> Result<Command> {
    let most = if guest.disk { disk::BYTES } else { MOST_BYTES };
    let mut command = child::command(Path::new(program(guest.kernel.architecture)), most)?;
    command.args(command_line(guest, files, console));
    Ok(command)
}

fn start(guest: &Guest<'_>, files: &GuestFiles, command: &mut Command) -> Result<Child> {
    let program = program(guest.kernel.architecture);
    files.spawn(command).map_err(|e| Error::io("start", Path::new(program), &e))
}

/// The known words of a guest that has no result.
struct Words<'a> {
    console: &'a str,
    /// The emulator's own.
    said: &'a str,
    /// Whether it sent anything.
    sent: bool,
}

/// Why a guest has no result: a panic, the emulator's words, or the console's last ones.
fn broken(kernel: &GuestKernel, words: &Words<'_>, ending: Ending) -> Error {
    let refuse = |why: String, cure: &str| Error::on("run a guest with", &kernel.release, why, cure);
    let shell = "try isolator lab shell with the same kernel and boot line";
    let last = |text: &str| {
        text.lines().map(unstamped).rfind(|line| !line.is_empty()).map(|line| {
            let kept = line.chars().filter(|c| !c.is_control()).take(200);
            kept.collect::<String>()
        })
    };
    let panic = words.console.lines().find_map(|line| line.split_once("Kernel panic - not syncing: "));
    match (panic, last(words.console), last(words.said), ending) {
        (.., Ending::Stopped) => refuse("it was told to end".into(), "run it again"),
        (Some((_, why)), ..) => {
            let oops = oops(words.console);
            refuse(format!("its kernel panicked: {}{oops}", why.trim()), shell)
        }
        (_, Some(last), _, Ending::TimeLimit(limit)) => {
            let oops = oops(words.console);
            refuse(format!("it had not ended after {limit:?}{oops}; its last words: {last}"), shell)
        }
        (_, None, _, Ending::TimeLimit(limit)) => {
            refuse(format!("it said nothing on its console in {limit:?}"), shell)
        }
        (_, None, _, Ending::ByItself) if words.sent => {
            let console = scope::console(kernel.architecture);
            let cure =
                format!("use a kernel that has the driver of {console}, and a boot line that leaves it on");
            refuse("it sent results but said nothing on its console".into(), &cure)
        }
        (_, Some(last), None, Ending::ByItself) => {
            refuse(format!("it ended too early; its last words: {last}"), shell)
        }
        (_, _, Some(said), Ending::ByItself) => refuse(said, shell),
        (_, None, None, Ending::ByItself) => refuse("it ended without a word".into(), shell),
    }
}

/// The last words of a kernel before it panicked or was given up, in short: the first complaint, where it
/// was, and the functions that led there.
fn oops(console: &str) -> String {
    const CALLERS: usize = 12;
    let lines = console.lines().map(unstamped).collect::<Vec<_>>();
    let is_oops = |line: &&str| log::is_complaint(line) && !line.contains("Kernel panic");
    let Some(first) = lines.iter().position(is_oops) else { return String::new() };
    let after = &lines[first..];
    let place = after.iter().find_map(|line| line.strip_prefix("RIP: ").or(line.strip_prefix("pc : ")));
    let stack = after.iter().skip_while(|line| !line.to_ascii_lowercase().starts_with("call trace"));
    let stack = stack.skip(1).take_while(|line| !line.starts_with("RIP: "));
    let callers = stack.filter(|line| line.contains("+0x") && !line.starts_with("? "));
    let callers = callers.take(CALLERS).copied().collect::<Vec<_>>().join(", ");
    let place = place.map_or(String::new(), |place| format!(", at {place}"));
    let callers = if callers.is_empty() { callers } else { format!(", from {callers}") };
    format!(" ({}{place}{callers})", lines[first])
}

/// A line of the kernel's log without its time: `[    3.141592] text`.
fn unstamped(line: &str) -> &str {
    let line = line.trim();
    let stamped = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match stamped {
        Some((time, text)) if time.trim().parse::<f64>().is_ok() => text.trim(),
        _ => line,
    }
}

/// Waits for the emulator; ends it where it takes longer, or where that is asked for.
fn wait(emulator: &mut Child, patience: &Patience) -> Ending {
    let began = Instant::now();
    let limit = patience.limit.unwrap_or(Duration::MAX);
    loop {
        let ending = match emulator.try_wait() {
            _ if patience.stop.load(Ordering::SeqCst) => Ending::Stopped,
            Ok(None) if began.elapsed() >= limit => Ending::TimeLimit(limit),
            Ok(None) => {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            _ => return Ending::ByItself,
        };
        end(emulator);
        return ending;
    }
}

fn end(emulator: &mut Child) {
    let _ = emulator.kill();
    let _ = emulator.wait();
}

/// Runs a guest whose console is this terminal, until it ends.
pub fn interactive(guest: &Guest<'_>) -> Result<()> {
    let files = exchange(guest)?;
    let mut child = start(guest, &files, &mut emulator(guest, &files, Console::Terminal)?)?;
    let refuse = |why: String, cure| Err(Error::on("run a guest with", &guest.kernel.release, why, cure));
    match (wait(&mut child, &guest.patience), child.wait()) {
        (Ending::Stopped, _) => refuse("it was told to end".into(), "run it again"),
        (_, Ok(status)) if status.success() => Ok(()),
        (_, Ok(status)) => refuse(status.to_string(), "see what it printed above"),
        (_, Err(error)) => Err(Error::io("wait for", program(guest.kernel.architecture).as_ref(), &error)),
    }
}

fn topology(guest: &Guest<'_>) -> String {
    match guest.how.siblings {
        true => format!("{},cores={},threads=2", guest.cpus, guest.cpus / 2),
        false => guest.cpus.to_string(),
    }
}

fn command_line(guest: &Guest<'_>, files: &GuestFiles, console: Console) -> Vec<String> {
    let mut line = Vec::new();
    let mut add = |words: &[&str]| line.extend(words.iter().map(ToString::to_string));
    match guest.kernel.architecture {
        Architecture::X86_64 => add(&["-machine", "pc"]),
        Architecture::Aarch64 => add(&["-machine", "virt,gic-version=3"]),
    }
    let processor = match guest.kernel.architecture {
        Architecture::X86_64 => "max",
        // Emulating the architected algorithm of pointer authentication takes half of the time of a boot.
        Architecture::Aarch64 => "max,pauth-impdef=on",
    };
    match guest.mode {
        Mode::Count if guest.how.by_turns => add(&["-accel", "tcg,thread=single", "-cpu", processor]),
        Mode::Count => add(&["-accel", "tcg,thread=multi", "-cpu", processor]),
        Mode::Virtual => {
            // Where all CPUs sleep, time jumps to the next timer, but not past edges that come in the host's.
            let sleep = if guest.how.outside.is_some() { "on" } else { "off" };
            add(&["-accel", "tcg,thread=single", "-icount", &format!("shift=0,sleep={sleep}")]);
            add(&["-cpu", processor]);
            // What the guest asks of the world besides time: random numbers and the date.
            add(&["-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
        }
        Mode::Real => add(&["-accel", "kvm", "-cpu", "host"]),
    }
    add(&["-nodefaults", "-no-reboot", "-display", "none"]);
    add(&["-m", &MEMORY_MIB.to_string(), "-smp", &topology(guest)]);
    match console {
        Console::File => add(&["-serial", &format!("file:{}", files.console.path())]),
        Console::Terminal => add(&["-serial", "mon:stdio"]),
    }
    if guest.how.nmi_every.is_some() {
        add(&["-monitor", "stdio"]);
    }
    // With an ioeventfd another host thread would serve the port, and when it does is not the guest's time.
    add(&["-device", "virtio-serial-pci,ioeventfd=off"]);
    add(&["-chardev", &format!("file,id=frames,path={}", files.frames.path())]);
    add(&["-device", &format!("virtserialport,chardev=frames,name={PORT}")]);
    if let Some(sockets) = &files.edges {
        add(&sockets.arguments().iter().map(String::as_str).collect::<Vec<_>>());
    }
    if let Some(memory) = &files.signal {
        add(&signal::arguments(memory).iter().map(String::as_str).collect::<Vec<_>>());
    }
    if let Some(disk) = &files.disk {
        add(&["-drive", &format!("if=none,id=disk,format=raw,cache=unsafe,file={}", disk.path())]);
        add(&["-device", "virtio-blk-pci,drive=disk,ioeventfd=off"]);
    }
    if let Some(scope) = &guest.scope {
        add(&["-plugin", &format!("{scope},out={}", files.scope.path())]);
    }
    add(&["-kernel", &guest.kernel.image.display().to_string(), "-initrd", &files.initramfs.path()]);
    add(&["-append", &guest.boot_line]);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(console: &str, said: &str, sent: bool, ending: Ending) -> String {
        let kernel = GuestKernel {
            asked: "debian-rt".into(),
            release: "6.12-rt".into(),
            architecture: Architecture::X86_64,
            image: "/boot/vmlinuz".into(),
            modules: None,
            digest: String::new(),
        };
        let line = broken(&kernel, &Words { console, said, sent }, ending).to_string();
        let shell = "; try isolator lab shell with the same kernel and boot line";
        line.trim_start_matches("cannot run a guest with 6.12-rt: ").trim_end_matches(shell).to_string()
    }

    #[test]
    fn only_old_emulators_run_stale_text() {
        for (version, expected) in
            [("7.2.22 (Debian 1:7.2+dfsg)", true), ("8.0.0", false), ("10.0.13", false)]
        {
            assert_eq!(runs_stale_text(version), expected, "{version}");
        }
    }

    #[test]
    fn a_guest_that_failed_is_told_in_one_line() {
        let (itself, limit) = (Ending::ByItself, Ending::TimeLimit(Duration::from_secs(30)));
        let panic = "[ 3.1] VFS: x\n[    3.2] Kernel panic - not syncing: VFS: no root\n[ 3.3] Call Trace:";
        for ending in [itself, limit] {
            assert_eq!(why(panic, "", false, ending), "its kernel panicked: VFS: no root");
        }
        let oops = "[ 3.0] BUG: kernel NULL pointer dereference, address: 8\n[ 3.1] RIP: 0010:f+0x1/0x2\n[ 3.2] Call Trace:\n\
                    [ 3.3]  <IRQ>\n[ 3.4]  ? die+0x1/0x2\n[ 3.5]  g+0x3/0x4\n[ 3.6] Kernel panic - not syncing: Fatal";
        assert_eq!(
            why(oops, "", false, itself),
            "its kernel panicked: Fatal (BUG: kernel NULL pointer dereference, address: 8, at 0010:f+0x1/0x2, from g+0x3/0x4)"
        );
        assert_eq!(why("", "", false, limit), "it said nothing on its console in 30s");
        assert_eq!(why("", "qemu: no", false, itself), "qemu: no");
        assert_eq!(why("", "", false, itself), "it ended without a word");
        assert_eq!(
            why("a\n[    1.5] b\x07\n\n", "", false, limit),
            "it had not ended after 30s; its last words: b"
        );
        let stall = "[ 9.0] rcu: INFO: rcu_preempt self-detected stall on CPU\n[ 9.1] Call Trace:\n[ 9.2]  <TASK>\n\
                     [ 9.3]  f+0x1/0x2\n[ 9.4]  </TASK>";
        assert_eq!(
            why(stall, "", false, limit),
            "it had not ended after 30s (rcu: INFO: rcu_preempt self-detected stall on CPU, from f+0x1/0x2); its last words: </TASK>"
        );
        assert_eq!(why("[x] b", "", true, itself), "it ended too early; its last words: [x] b");
        assert_eq!(
            why("", "", true, itself),
            "it sent results but said nothing on its console; use a kernel that has the driver of ttyS0, and a boot line that leaves it on"
        );
        assert_eq!(why(panic, "qemu: killed", true, Ending::Stopped), "it was told to end; run it again");
    }
}
