// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job *measure*: this program measures, storms blow meanwhile from housekeeping CPUs, the guest's own tracing
//! watches if it shall, and all of it is sent.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use crate::guest::{Result, send, storm, trace};
use crate::job::{BUNDLE, Measure, Order};

/// How long the measuring program may take until it measures.
const ARMING: Duration = Duration::from_secs(30);

/// Does the job.
pub fn run(task: &Measure, port: &mut File) -> Result<()> {
    stay_on_house_keeping(task)?;
    // A thread that never sleeps is what the lab is for; the kernel's fuse would cut it off after 950 ms.
    fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1")?;
    let witness = task.witness.then(|| trace::Witness::start(&task.measured)).transpose()?;
    let mut measuring = Command::new("/proc/self/exe");
    // Loads look for their programs there; the kernel gives its init no PATH.
    measuring.args(&task.arguments).env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null());
    let mut measuring = measuring.spawn()?;
    wait_for_the_window(&mut measuring)?;
    let opened = Instant::now();
    // A window that ended by the clock would cut a slow host's storms short; it ends after them.
    for storm in start_storms(task)? {
        for did in end_storm(storm)? {
            send(port, "storm", &serde_json::to_vec(&did)?)?;
        }
    }
    if !task.storms.is_empty() {
        std::thread::sleep(Duration::from_nanos(task.at_least_ns).saturating_sub(opened.elapsed()));
        kill_process(Pid::from_child(&measuring), Signal::TERM)?;
    }
    let status = measuring.wait()?;
    if let Some(witness) = witness {
        for (cpu, record) in witness.stop()? {
            send(port, &format!("witness-{cpu}"), record.as_bytes())?;
        }
    }
    if !matches!(status.code(), Some(0 | 2)) {
        return Err(format!("the measuring program ended with {status}").into());
    }
    send(port, "kernel-log", kernel_log()?.as_bytes())?;
    let archive = Path::new("/run/bundle.tar.zst");
    evidence::archive::pack(Path::new(BUNDLE), archive)?;
    send(port, "bundle.tar.zst", &fs::read(archive)?)
}

fn stay_on_house_keeping(task: &Measure) -> Result<()> {
    let mut cpus = KernelCpuSet::new();
    task.house_keeping.iter().for_each(|cpu| cpus.set(cpu as usize));
    Ok(sched_setaffinity(None, &cpus)?)
}

/// The window is open once the journal of the first series has a line, which comes after its first second: a storm
/// that began earlier would blow in part before it counts.
fn wait_for_the_window(measuring: &mut Child) -> Result<()> {
    let began = Instant::now();
    let series = Path::new(BUNDLE).join("series");
    let written = |entry: fs::DirEntry| {
        entry.path().extension().is_some_and(|end| end == "journal")
            && entry.metadata().is_ok_and(|file| file.len() > 0)
    };
    while !fs::read_dir(&series).is_ok_and(|mut files| files.any(|entry| entry.is_ok_and(written))) {
        if let Some(status) = measuring.try_wait()? {
            return Err(format!("the measuring program ended with {status} before it measured").into());
        }
        if began.elapsed() > ARMING {
            measuring.kill()?;
            return Err("the measuring program did not begin to measure".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn start_storms(task: &Measure) -> Result<Vec<Child>> {
    let groups: Vec<Vec<String>> = match task.order {
        Order::Together => task.storms.iter().map(|name| vec![name.clone()]).collect(),
        Order::Shuffled if task.storms.is_empty() => Vec::new(),
        Order::Shuffled => vec![task.storms.clone()],
    };
    let start = |storms: Vec<String>| {
        let order = storm::Order { storms, measured: task.measured.clone(), seed: task.seed };
        let order = serde_json::to_string(&order)?;
        let command = [storm::VERB, &order];
        Ok(Command::new("/proc/self/exe")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?)
    };
    groups.into_iter().map(start).collect()
}

/// The kernel's log from its beginning, whatever the console showed of it.
fn kernel_log() -> Result<String> {
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

/// Waits for a storm's last round; it says what it did in one line for each.
fn end_storm(mut storm: Child) -> Result<Vec<storm::Did>> {
    drop(storm.stdin.take());
    let mut said = Vec::new();
    if let Some(out) = storm.stdout.take() {
        for line in BufReader::new(out.take(1 << 20)).lines() {
            said.push(serde_json::from_str(&line?)?);
        }
    }
    storm.wait()?;
    Ok(said)
}
