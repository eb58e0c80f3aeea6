// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job *measure*: this program measures, storms blow meanwhile from housekeeping CPUs, the guest's own
//! tracing watches if it shall, and all of it is sent.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use evidence::manifest::{Asked, Manifest, WrittenBy};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use crate::guest::alone::Alone;
use crate::guest::storm::runner::READY;
use crate::guest::storm::{self, owner};
use crate::guest::{LOOK_EVERY, PATIENCE, Result, send, trace};
use crate::job::{BUNDLE, Measure, SIGNAL, StormOrder};
use crate::signal;

/// How long a storm may take to leave when the measurement is over.
const LEAVING: Duration = Duration::from_secs(2);

/// Does the job.
pub fn run(task: &Measure, port: &mut File) -> Result<()> {
    stay_on_house_keeping(task)?;
    // A thread that never sleeps is what the lab is for; the kernel's fuse would cut it off after 950 ms.
    fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1")?;
    let has = |wanted: &str| task.arguments.iter().any(|argument| argument == wanted);
    if has(SIGNAL) {
        fs::write(SIGNAL, [0; 4096])?;
    }
    if has(&signal::resource()) {
        // Without firmware a device's memory does not answer until it is enabled.
        fs::write(Path::new(signal::DEVICE).join("enable"), "1")?;
    }
    let witness = task
        .witness
        .as_deref()
        .map(|collector| trace::GuestTrace::start(&task.measured, collector))
        .transpose()?;
    let (own, others): (Vec<_>, Vec<_>) =
        task.storms.iter().cloned().partition(|name| storm::kind(name).is_some_and(storm::StormKind::is_own));
    let mut storms = ready_storms(task, &others)?;
    let mut owner = Owner::start(task, &own)?;
    owner.wait_for_the_window()?;
    let opened = Instant::now();
    // Storms inside of it begin when its standard input is closed, the others when they are given a line.
    let inside = owner.begin();
    for storm in &mut storms {
        storm.begin.write_all(b"\n")?;
    }
    // A window that ended by the clock would cut a slow host's storms short; it ends after them.
    let mut did = inside.map_or_else(|| Ok(Vec::new()), |out| storm_outcomes(out, own.len()))?;
    let mut blown = Vec::new();
    for StormProcess { process, begin, out, storms } in storms {
        did.extend(storm_outcomes(out, storms)?);
        // They leave after the window: with the last descriptor of their standard input.
        blown.push((process, begin));
    }
    let at_least = Duration::from_nanos(task.at_least_ns);
    let counted = owner.end(|| std::thread::sleep(at_least.saturating_sub(opened.elapsed())), task)?;
    blown.into_iter().try_for_each(leave)?;
    for did in did {
        send(port, "storm", &serde_json::to_vec(&did)?)?;
    }
    if let Some(witness) = witness {
        for (cpu, record) in witness.stop()? {
            send(port, &format!("witness-{cpu}"), record.as_bytes())?;
        }
    }
    if let Some(counted) = counted {
        send(port, "isolation", counted.as_bytes())?;
    }
    send(port, "kernel-log", kernel_log()?.as_bytes())?;
    let archive = Path::new("/run/bundle.tar.zst");
    evidence::archive::pack(Path::new(BUNDLE), archive)?;
    send(port, "bundle.tar.zst", &fs::read(archive)?)
}

/// The program on the measured CPU.
enum Owner {
    /// This program, which measures and leaves a bundle.
    Measuring(Child),
    /// A process that does nothing but spin.
    Alone(Alone),
}

impl Owner {
    fn start(task: &Measure, own: &[String]) -> Result<Owner> {
        let Some(isolate) = &task.alone else { return Ok(Owner::Measuring(start_measuring(task, own)?)) };
        let cpu = task.measured.iter().next().ok_or("no CPU is measured")?;
        Ok(Owner::Alone(Alone::start(cpu, isolate)?))
    }

    fn wait_for_the_window(&mut self) -> Result<()> {
        match self {
            Owner::Measuring(program) => wait_for_the_window(program),
            Owner::Alone(alone) => alone.wait_for_the_window(),
        }
    }

    /// Lets storms inside of it begin; what they will say.
    fn begin(&mut self) -> Option<BufReader<ChildStdout>> {
        let Owner::Measuring(program) = self else { return None };
        drop(program.stdin.take());
        program.stdout.take().map(BufReader::new)
    }

    /// Ends the window, after `wait` where it does not end by itself. What the kernel counted of an owner
    /// alone; the measuring program writes that into its bundle, which is made here for the other.
    fn end(self, wait: impl FnOnce(), task: &Measure) -> Result<Option<String>> {
        match self {
            Owner::Measuring(mut program) => {
                if !task.storms.is_empty() {
                    wait();
                    kill_process(Pid::from_child(&program), Signal::TERM)?;
                }
                match program.wait()? {
                    status if matches!(status.code(), Some(0 | 2)) => Ok(None),
                    status => Err(format!("the measuring program ended with {status}").into()),
                }
            }
            Owner::Alone(alone) => {
                wait();
                let counted = alone.end()?;
                evidence::writer::BundleWriter::create(Path::new(BUNDLE), &manifest(task))?;
                Ok(Some(counted))
            }
        }
    }
}

/// The manifest of a guest in which nothing was measured: its machine.
fn manifest(task: &Measure) -> Manifest {
    Manifest {
        written_by: WrittenBy {
            program: "isolator".into(),
            version: Some(env!("CARGO_PKG_VERSION").into()),
            commit: None,
            command_line: None,
        },
        machine: inspect::read(Path::new("/")),
        ..Manifest::new(
            "isolator",
            Asked {
                probes: vec!["spin".into()],
                cpus: task.measured.clone(),
                house_keeping: task.house_keeping.clone(),
                isolate: task.alone.clone(),
                ..Asked::default()
            },
        )
    }
}

fn stay_on_house_keeping(task: &Measure) -> Result<()> {
    let mut cpus = KernelCpuSet::new();
    task.house_keeping.iter().for_each(|cpu| cpus.set(cpu as usize));
    Ok(sched_setaffinity(None, &cpus)?)
}

/// The window is open once the first second of the first series is written: a storm that began earlier would
/// blow in part before it counts. It is a line of the journal, or, where the row ended with it, in the files
/// that the journal becomes.
fn wait_for_the_window(measuring: &mut Child) -> Result<()> {
    let began = Instant::now();
    let series = Path::new(BUNDLE).join("series");
    let written = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let has_line = || entry.metadata().is_ok_and(|file| file.len() > 0);
        name.contains(".histograms.csv") || (name.ends_with(".journal") && has_line())
    };
    loop {
        // Asked first: what it wrote before it ended counts.
        let ended = measuring.try_wait()?;
        if fs::read_dir(&series).is_ok_and(|mut files| files.any(|entry| entry.is_ok_and(written))) {
            return Ok(());
        }
        if let Some(status) = ended {
            return Err(format!("the measuring program ended with {status} before it measured").into());
        }
        if began.elapsed() > PATIENCE {
            let stands = threads_of(measuring.id());
            measuring.kill()?;
            return Err(
                format!("the measuring program did not begin to measure; its threads: {stands}").into()
            );
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The states of a process' threads, each by name: `isolator S in futex_wait_queue`.
fn threads_of(process: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let threads = tasks.map(|task| {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let stat = read("stat");
        let state = stat.rsplit_once(") ").and_then(|(_, after)| after.chars().next()).unwrap_or('?');
        format!("{} {state} in {}", read("comm").trim(), read("wchan").trim())
    });
    threads.collect::<Vec<_>>().join(", ")
}

/// Starts the measuring program, with the storms that blow inside of it.
fn start_measuring(task: &Measure, own: &[String]) -> Result<Child> {
    let mut measuring = Command::new("/proc/self/exe");
    if !own.is_empty() {
        measuring.args([owner::VERB, &order(task, own.to_vec())?]).stdout(Stdio::piped());
    }
    // Loads look for their programs there; the kernel gives its init no PATH.
    measuring.args(&task.arguments).env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::piped());
    Ok(measuring.spawn()?)
}

fn order(task: &Measure, storms: Vec<String>) -> Result<String> {
    let (measured, seed, times) = (task.measured.clone(), task.seed, task.times);
    Ok(serde_json::to_string(&storm::StormJob { storms, measured, seed, times })?)
}

/// A process with storms.
struct StormProcess {
    process: Child,
    begin: ChildStdin,
    out: BufReader<ChildStdout>,
    storms: usize,
}

/// Starts processes for storms; each is ready then, and waits for a line.
fn ready_storms(task: &Measure, storms: &[String]) -> Result<Vec<StormProcess>> {
    let groups: Vec<Vec<String>> = match task.order {
        StormOrder::Together => storms.iter().map(|name| vec![name.clone()]).collect(),
        StormOrder::Shuffled if storms.is_empty() => Vec::new(),
        StormOrder::Shuffled => vec![storms.to_vec()],
    };
    let start = |group: Vec<String>| {
        let storms = group.len();
        let mut process = Command::new("/proc/self/exe")
            .args([storm::VERB, &order(task, group)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (begin, out) = pipes.ok_or("a storm has no pipes")?;
        Ok(StormProcess { process, begin, out: BufReader::new(out), storms })
    };
    let mut started = groups.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    for storm in &mut started {
        let mut line = String::new();
        storm.out.read_line(&mut line)?;
        if line.trim() != READY {
            return Err("a storm ended before it was ready".into());
        }
    }
    Ok(started)
}

/// The reports of so many storms, a line each, when their rounds are over.
fn storm_outcomes(out: BufReader<ChildStdout>, storms: usize) -> Result<Vec<storm::StormOutcome>> {
    out.take(1 << 20).lines().take(storms).map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

/// Waits for a storm's process. One that the kernel does not let go must not keep the guest from its end.
fn leave((mut storm, begin): (Child, ChildStdin)) -> Result<()> {
    drop(begin);
    let began = Instant::now();
    while storm.try_wait()?.is_none() && began.elapsed() < LEAVING {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// The kernel's log from its beginning, whatever the console showed of it.
pub fn kernel_log() -> Result<String> {
    let log = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
    let (mut text, mut record) = (String::new(), [0; 8192]);
    loop {
        match (&log).read(&mut record) {
            // `priority,number,microseconds,flags;text`
            Ok(length) => {
                let line = String::from_utf8_lossy(&record[..length]);
                text.push_str(line.split_once(';').map_or(&line, |(_, said)| said));
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(text),
            // Older records were overwritten meanwhile: go on with those that are there.
            Err(why) if why.kind() == ErrorKind::BrokenPipe => {}
            Err(why) => return Err(why.into()),
        }
    }
}
