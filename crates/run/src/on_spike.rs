// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reactions to a spike while the run goes on, and snapshots of a run on demand.
//!
//! The control thread starts it, on housekeeping CPUs, to which every process that it starts is confined; a
//! process is started by vfork(2), so that no page of the measuring threads is copied. Nothing is waited for,
//! and at most one round begins in each interval. What fails is noted in the evidence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use error::Error;
use evidence::manifest::Spike;
use machine::units::us;
use measure::series::{RowProgress, SeriesProgress};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// How long after the last spike that something was done about the next one is only counted.
pub const EVERY: Duration = Duration::from_secs(10);

/// Snapshots that spikes may have taken: each is a bundle of its own.
const MOST_SNAPSHOTS: u32 = 20;

/// A snapshot that a spike asks for is taken when the second of the spike is in the bundle.
const SECOND_IS_WRITTEN: Duration = Duration::from_millis(1_600);

/// How long what still runs at the end of the run may take.
const ENDS: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Signals by name, without their `SIG`.
const SIGNALS: [(&str, Signal); 12] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("WINCH", Signal::WINCH),
];

/// A reaction to a spike.
#[derive(Debug)]
pub enum SpikeAction {
    /// A command for `sh -c`.
    Command(String),
    /// A snapshot of the bundle.
    Snapshot,
    /// A signal to a process, which is held by a descriptor: its number may become another's.
    Signal {
        /// As it was given.
        text: String,
        /// Which.
        signal: Signal,
        /// To whom.
        process: OwnedFd,
    },
}

impl SpikeAction {
    /// Reads `snapshot`, `signal:NAME:PID`, or else a command.
    pub fn parse(text: &str) -> error::Result<SpikeAction> {
        let cannot = |why: String, cure: &str| Error::on("act on spikes by", text, why, cure);
        let Some(signal) = text.strip_prefix("signal:") else {
            return match text.trim() {
                "" => Err(cannot(
                    "it names nothing to do".into(),
                    "give a command, snapshot or signal:NAME:PID",
                )),
                "snapshot" => Ok(SpikeAction::Snapshot),
                _ => Ok(SpikeAction::Command(text.to_string())),
            };
        };
        let form = "give it as signal:USR1:4711";
        let (name, process) =
            signal.split_once(':').ok_or_else(|| cannot("it names no process".into(), form))?;
        let known = SIGNALS.iter().find(|(known, _)| name.trim_start_matches("SIG") == *known);
        let Some((_, signal)) = known else {
            let names = SIGNALS.map(|(name, _)| name).join(", ");
            return Err(cannot(format!("there is no signal '{name}'"), &format!("choose one of {names}")));
        };
        let number = process.parse::<i32>().ok().filter(|number| *number > 0).and_then(Pid::from_raw);
        let number = number.ok_or_else(|| cannot(format!("'{process}' is not a process"), form))?;
        let process = pidfd_open(number, PidfdFlags::empty()).map_err(|error| {
            let why = error::reason(&error.into());
            cannot(why, "give a process that runs")
        })?;
        Ok(SpikeAction::Signal { text: text.to_string(), signal: *signal, process })
    }
}

/// How a snapshot is taken: this program again, with the bundle, the new folder, a note, and how many
/// milliseconds to wait before as further arguments.
#[derive(Debug, Clone)]
pub struct SnapshotCommand {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
}

/// Processes beside the measurement.
#[derive(Debug)]
struct Beside {
    what: String,
    child: Child,
}

/// The reactions to spikes and requests; [`OnSpike::default`] has none.
#[derive(Debug, Default)]
pub struct OnSpike {
    actions: Vec<SpikeAction>,
    every: Duration,
    snapshots: Option<SnapshotCommand>,
    is_asked: Arc<AtomicBool>,
    last: Option<Instant>,
    beside: Vec<Beside>,
    /// Folders of snapshots so far, and how many of them spikes asked for.
    taken: u32,
    by_spikes: u32,
    acted: u64,
    passed_over: u64,
    /// The failures: how often, and how at first.
    failed: BTreeMap<String, (u64, String)>,
}

impl OnSpike {
    /// Does `actions` about a spike, at most once in `every`; takes a snapshot whenever `is_asked` is set.
    pub fn new(
        actions: Vec<SpikeAction>,
        every: Duration,
        snapshots: SnapshotCommand,
        is_asked: Arc<AtomicBool>,
    ) -> OnSpike {
        OnSpike { actions, every, snapshots: Some(snapshots), is_asked, ..OnSpike::default() }
    }

    /// Looks at how a row of the bundle in `folder` stands, and does what is to be done.
    pub fn poll(&mut self, folder: &Path, progress: &RowProgress) {
        self.reap();
        if self.is_asked.swap(false, Ordering::SeqCst) {
            self.snapshot(folder, Duration::ZERO, "on demand");
        }
        if self.actions.is_empty() {
            return;
        }
        let spikes = progress.series.iter().filter_map(|series| Some((series, series.spike.as_ref()?)));
        let Some((series, spike)) = spikes.max_by_key(|(_, spike)| spike.latency_ns) else { return };
        if self.last.is_some_and(|last| last.elapsed() < self.every) {
            self.passed_over += 1;
            return;
        }
        self.last = Some(Instant::now());
        self.acted += 1;
        let actions = std::mem::take(&mut self.actions);
        for action in &actions {
            match action {
                SpikeAction::Command(command) => self.command(command, folder, series, spike),
                SpikeAction::Snapshot if self.by_spikes == MOST_SNAPSHOTS => {
                    self.fails("snapshot", format!("{MOST_SNAPSHOTS} were taken, and spikes get no more"));
                }
                SpikeAction::Snapshot => {
                    self.by_spikes += 1;
                    let why = format!("after a spike of {} of {}", us(spike.latency_ns), spike.key);
                    self.snapshot(folder, SECOND_IS_WRITTEN, &why);
                }
                SpikeAction::Signal { text, signal, process } => {
                    if let Err(error) = pidfd_send_signal(process, *signal) {
                        self.fails(text, error::reason(&error.into()));
                    }
                }
            }
        }
        self.actions = actions;
    }

    /// The run is over: waits for what runs beside it, and ends what takes too long. What is to be noted.
    pub fn end(&mut self) -> Vec<String> {
        let began = Instant::now();
        while !self.beside.is_empty() && began.elapsed() < ENDS {
            std::thread::sleep(LOOK_AGAIN);
            self.reap();
        }
        for Beside { what, mut child } in std::mem::take(&mut self.beside) {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            self.fails(&what, format!("it still ran {} s after the run, and was killed", ENDS.as_secs()));
        }
        let mut notes = Vec::new();
        if self.acted > 0 {
            let (acted, passed_over) = (self.acted, self.passed_over);
            let every = humantime::format_duration(self.every);
            notes.push(format!(
                "on spikes: acted {acted} times; {passed_over} times spikes came within {every} of that, and were only counted"
            ));
        }
        let failed = std::mem::take(&mut self.failed);
        notes.extend(failed.into_iter().map(|(what, (times, why))| {
            format!("on spikes: {what} failed {times} times, at first because {why}")
        }));
        notes
    }

    /// Takes note of what has ended.
    fn reap(&mut self) {
        let mut ended = Vec::new();
        self.beside.retain_mut(|beside| match beside.child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                ended.extend((!status.success()).then(|| (beside.what.clone(), how(status))));
                false
            }
            Err(error) => {
                ended.push((beside.what.clone(), error::reason(&error)));
                false
            }
        });
        ended.into_iter().for_each(|(what, why)| self.fails(&what, why));
    }

    fn fails(&mut self, what: &str, why: String) {
        self.failed.entry(what.to_string()).or_insert((0, why)).0 += 1;
    }

    fn command(&mut self, text: &str, folder: &Path, series: &SeriesProgress, spike: &Spike) {
        if self.beside.iter().any(|beside| beside.what == text) {
            return self.fails(text, "it still ran from the spike before".into());
        }
        let mut command = Command::new("sh");
        command.arg("-c").arg(text).envs(facts(folder, series, spike));
        self.start(text, command);
    }

    fn snapshot(&mut self, folder: &Path, wait: Duration, why: &str) {
        let Some(snapshots) = self.snapshots.clone() else { return };
        self.taken += 1;
        let mut name = folder.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".snapshot-{}", self.taken));
        let at = humantime::format_rfc3339_seconds(SystemTime::now());
        let note = format!("a snapshot {why}, at {at}: the run went on in {}", folder.display());
        let mut command = Command::new(&snapshots.program);
        command.args(&snapshots.arguments).arg(folder).arg(folder.with_file_name(name)).arg(note);
        command.arg(wait.as_millis().to_string());
        self.start("snapshot", command);
    }

    /// Starts what runs beside the measurement. It has nothing to read, and what it prints are notes.
    fn start(&mut self, what: &str, mut command: Command) {
        command.stdin(Stdio::null()).stdout(std::io::stderr()).process_group(0);
        match command.spawn() {
            Ok(child) => self.beside.push(Beside { what: what.to_string(), child }),
            Err(error) => self.fails(what, error::reason(&error)),
        }
    }
}

/// How a process ended that failed.
fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(127) => "it ended with status 127: there is no such program".to_string(),
        Some(code) => format!("it ended with status {code}"),
        None => status.to_string(),
    }
}

/// The description of the spike in a command's environment.
fn facts(folder: &Path, series: &SeriesProgress, spike: &Spike) -> Vec<(&'static str, OsString)> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    // A thread may call itself anything, but for what an environment cannot hold.
    let text = |text: &str| OsString::from(text.replace('\0', ""));
    let number = |number: u64| OsString::from(number.to_string());
    let mut facts = vec![
        ("ISOLATOR_BUNDLE", folder.into()),
        ("ISOLATOR_PROBE", text(&spike.key.probe)),
        ("ISOLATOR_LOAD", text(&spike.key.load)),
        ("ISOLATOR_CPU", number(spike.key.cpu.into())),
        ("ISOLATOR_THREAD", number(series.thread.into())),
        ("ISOLATOR_THREAD_NAME", text(spike.key.thread_name.as_deref().unwrap_or_default())),
        ("ISOLATOR_LATENCY_NS", number(spike.latency_ns)),
        ("ISOLATOR_LIMIT_NS", number(series.limit_ns)),
        ("ISOLATOR_MISSED", number(spike.missed)),
        ("ISOLATOR_MONOTONIC_NS", number(spike.monotonic_ns)),
        ("ISOLATOR_WALL_TIME", text(spike.wall_time.as_deref().unwrap_or_default())),
    ];
    let longest = spike.causes.iter().max_by_key(|cause| cause.duration_ns);
    if let Some(cause) = longest {
        facts.push(("ISOLATOR_CAUSE", text(&cause.kind.named(&cause.name))));
        facts.push(("ISOLATOR_CAUSE_NS", number(cause.duration_ns.unwrap_or(0))));
    }
    facts
}

#[cfg(test)]
mod tests;
