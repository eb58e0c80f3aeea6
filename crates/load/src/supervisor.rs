// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process above a load: starts its programs, watches them, and leaves nothing behind.
//!
//! It ends when its standard input ends (the control thread closed it, or is no more), when the process
//! descriptor of the control thread's process says that this ended, or on SIGTERM, SIGINT and SIGHUP; the
//! first of these comes when its guard dies, too. A byte on its standard input asks how the load worked so
//! far.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use inspect::cgroup::stops;
use machine::CpuSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getppid, pidfd_open, set_parent_process_death_signal,
    test_kill_process, wait,
};
use untrusted::Scratch;

use crate::did::{LoadOutcome, MeasuredLoad, SupervisorEvent, judge};
use crate::figures::FigureSource;
use crate::part::LoadOrder;
use crate::program::StartedProgram;
use crate::utilisation::{self, Meter, Utilisation};
use crate::work::{LoadPoll, ProcessPoll, ProgramPoll, WorkSoFar};
use crate::{cgroup, display, process, sys, why};

/// How often the load is looked at until it loads, and then.
const STARTING: Duration = Duration::from_millis(100);
const LOADING: Duration = Duration::from_secs(1);

/// How long a program may take to end when asked: to write its figures; one that has none; and if they are
/// not needed any more.
const GRACE: Duration = Duration::from_secs(10);
const GRACE_GIVEN: Duration = Duration::from_secs(2);
const GRACE_ALONE: Duration = Duration::from_secs(1);

/// How long killed processes may take to go.
const KILL: Duration = Duration::from_secs(5);

/// How long a display server may take.
const DISPLAY: Duration = Duration::from_secs(10);

/// CPU time in clock ticks from which on a program is past its own start.
const BEGUN_TICKS: u64 = 5;

/// Bytes from which on fio reads more than its own libraries.
const BEGUN_BYTES: u64 = 1 << 20;

/// When a program that may use little CPU time counts as loading.
const BEGUN_AFTER: Duration = Duration::from_secs(1);

/// `load-worker supervise PARENT`: started by the guard, for the control thread of the process PARENT.
pub fn main(args: &[String]) -> Result<(), String> {
    let parent = args.first().and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    let parent = parent.ok_or("no parent given")?;
    inherit_orphans()?;
    // A load that is not guarded any more ends in order.
    let guard = getppid();
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|e| format!("no death signal: {}", why(e)))?;
    let signals = sys::signals().map_err(|e| format!("no signal descriptor: {}", why(e)))?;
    // Linux before 5.3 has no process descriptors; the end of the standard input tells as much.
    let descriptor = pidfd_open(parent, PidfdFlags::empty()).ok();
    if getppid() != guard {
        return Ok(());
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|e| format!("no order: {}", why(e)))?;
    let order: LoadOrder =
        serde_json::from_str(&line).map_err(|e| format!("an order that cannot be read: {}", why(e)))?;
    let mut supervisor = Supervisor::new(borrowed(order.folder)?, order);
    let started = supervisor.start();
    send(
        &started
            .as_ref()
            .map_or_else(|why| SupervisorEvent::Failed(why.clone()), |()| SupervisorEvent::Started),
    );
    if started.is_ok() {
        supervisor.watch(&signals, descriptor.as_ref());
    }
    let grace = if test_kill_process(parent).is_ok() { GRACE } else { GRACE_ALONE };
    let did = supervisor.end(grace);
    send(&SupervisorEvent::Did(did));
    Ok(())
}

/// Out of the terminal's reach, without the policy of the control thread, and the parent of all orphans
/// below.
pub(crate) fn stand_apart() -> Result<(), String> {
    // Refused only to a process that leads a group already: then it is apart.
    let _ = rustix::process::setsid();
    sys::ordinary_scheduling().map_err(|e| format!("cannot leave the real-time policy: {}", why(e)))?;
    // A program started with nice keeps that, where it may not take it back.
    let _ = rustix::process::setpriority_process(None, 0);
    inherit_orphans()
}

/// The load's folder, which the control thread lent to guard and supervisor.
pub(crate) fn borrowed(number: u32) -> Result<Scratch, String> {
    Scratch::borrowed(number).map_err(|e| format!("cannot open the load's folder: {}", why(e)))
}

fn inherit_orphans() -> Result<(), String> {
    let own = Pid::from_raw(1);
    rustix::process::set_child_subreaper(own).map_err(|e| format!("cannot become a subreaper: {}", why(e)))
}

fn send(event: &SupervisorEvent) {
    if let Ok(line) = serde_json::to_string(event) {
        // No reader if the control thread died.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// Where the counting began: when the load really loaded.
struct Baseline {
    at: Instant,
    used_ticks: u64,
    idle_ticks: u64,
}

struct Supervisor {
    folder: Scratch,
    order: LoadOrder,
    programs: Vec<StartedProgram>,
    started: Instant,
    baseline: Option<Baseline>,
    ended: Option<String>,
    display: Option<u32>,
    strays: BTreeSet<String>,
    meter: Meter,
    work: WorkSoFar,
}

impl Supervisor {
    fn new(folder: Scratch, order: LoadOrder) -> Supervisor {
        Supervisor {
            folder,
            order,
            programs: Vec::new(),
            started: Instant::now(),
            baseline: None,
            ended: None,
            display: None,
            strays: BTreeSet::new(),
            meter: Meter::new(Path::new("/")),
            work: WorkSoFar::default(),
        }
    }

    fn start(&mut self) -> Result<(), String> {
        bind(&self.order.house_keeping)?;
        self.order.cgroup = self.order.cgroup.take().filter(|folder| cgroup::make(folder));
        for mut part in self.order.parts.clone() {
            if let Some(number) = self.display {
                part.environment.push(("DISPLAY".to_string(), format!(":{number}")));
            }
            let serves = part.source == FigureSource::Display;
            self.programs.push(StartedProgram::start(part, &self.folder, self.order.cgroup.as_deref())?);
            if serves {
                self.display = Some(self.wait_for_display()?);
            }
        }
        Ok(())
    }

    fn wait_for_display(&mut self) -> Result<u32, String> {
        let deadline = Instant::now() + DISPLAY;
        loop {
            self.reap();
            self.programs.iter_mut().for_each(StartedProgram::hear);
            let server = self.programs.last().ok_or("no display server")?;
            if let Some(number) = display::number(&server.heard.last_line) {
                return Ok(number);
            }
            if server.status.is_some() || Instant::now() > deadline {
                return Err(format!("no display: {} said '{}'", server.part.name, server.heard.last_line));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns when it is time to end.
    fn watch(&mut self, signals: &OwnedFd, parent: Option<&OwnedFd>) {
        let stdin = std::io::stdin();
        let mut look_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= look_at {
                self.poll();
                look_at = now + if self.baseline.is_some() { LOADING } else { STARTING };
            }
            let mut wanted = vec![PollFd::new(&stdin, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
            wanted.extend(parent.map(|descriptor| PollFd::new(descriptor, PollFlags::IN)));
            let control = wanted.len();
            wanted.extend(
                self.programs
                    .iter()
                    .filter_map(StartedProgram::output)
                    .map(|out| PollFd::new(out, PollFlags::IN)),
            );
            let left = look_at.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            if poll(&mut wanted, Some(&left)).is_err() {
                continue;
            }
            let ready: Vec<bool> = wanted[..control].iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(wanted);
            let told = ready[1] && terminated(signals);
            self.programs.iter_mut().for_each(StartedProgram::hear);
            self.reap();
            if told {
                self.ended.get_or_insert_with(|| "it was told to end before its time".to_string());
            }
            if told || (ready[0] && at_end(&stdin)) || ready.get(2).is_some_and(|ended| *ended) {
                return;
            }
            if ready[0] {
                self.poll();
                send(&SupervisorEvent::Worked(self.work.worked()));
            }
        }
    }

    /// Looks at the processes: what they used, where they run, whether they load.
    fn poll(&mut self) {
        let family = process::descendants(std::process::id());
        if self.baseline.is_none() && self.begun(&family) {
            self.baseline = Some(Baseline {
                at: Instant::now(),
                used_ticks: used_ticks(&family),
                idle_ticks: process::idle_ticks(&self.order.house_keeping),
            });
            // What was before is not the load's.
            self.programs.iter_mut().for_each(|program| program.heard.busy.clear());
            send(&SupervisorEvent::Loading);
        }
        if self.baseline.is_some() {
            self.work.poll(Instant::now(), self.seen(&family));
        }
        if self.order.loads_gpu && self.baseline.is_some() {
            let processes: Vec<u32> = family.iter().map(|member| member.pid).collect();
            self.meter.poll(&processes, Instant::now());
        }
        self.strays
            .extend(family.iter().flat_map(|member| process::strays(member, &self.order.house_keeping)));
    }

    /// The visible traces of its work.
    fn seen(&self, family: &[process::Process]) -> LoadPoll {
        let beside = |program: &&StartedProgram| {
            matches!(program.part.source, FigureSource::Display | FigureSource::Utilisation)
        };
        let beside: Vec<u32> = self.programs.iter().filter(beside).map(|program| program.pid).collect();
        let part = |program: &StartedProgram| ProgramPoll {
            name: program.part.name.clone(),
            pid: program.pid,
            counts: program.heard.growing(&program.part.source),
            has_workers: matches!(program.part.source, FigureSource::StressNg { .. }),
        };
        let working = family.iter().filter(|member| !beside.contains(&member.pid));
        let groups = family.iter().map(process::Process::groups).collect::<BTreeSet<_>>();
        let idle_ticks = process::idle_ticks(&self.order.house_keeping);
        LoadPoll {
            parts: self.programs.iter().map(part).collect(),
            family: working
                .map(|process| ProcessPoll { process: process.clone(), ran_ns: process.ran_ns() })
                .collect(),
            used_and_idle_ticks: self.order.saturates.then(|| (used_ticks(family), idle_ticks)),
            stops: groups.iter().flat_map(|groups| stops(groups)).collect(),
            cpus: self.order.house_keeping.len(),
            may_wait: self.order.loads_gpu,
        }
    }

    fn begun(&self, family: &[process::Process]) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.programs.iter().all(|program| match program.part.source {
            FigureSource::Display | FigureSource::Utilisation => true,
            FigureSource::Engine | FigureSource::Interrupts => {
                program.heard.lacks(&program.part.source).is_none()
            }
            FigureSource::Nothing | FigureSource::Frames => self.started.elapsed() >= BEGUN_AFTER,
            // It first writes its file, and waits until the disk has that.
            FigureSource::Fio => match family.iter().map(process::Process::read_bytes).sum::<Option<u64>>() {
                Some(read) => read >= BEGUN_BYTES,
                None => used_ticks(family) >= BEGUN_TICKS,
            },
            FigureSource::StressNg { .. } => used_ticks(family) >= BEGUN_TICKS,
        })
    }

    /// Takes note of every child that ended, orphans that came to us among them.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get() as u32;
            let Some(program) = self.programs.iter_mut().find(|program| program.pid == pid) else { continue };
            program.status = Some(status);
            if self.ended.is_none() && program.part.source != FigureSource::Utilisation {
                program.hear();
                let how = obituary(program, status, self.started.elapsed());
                send(&SupervisorEvent::Ended(how.clone()));
                self.ended = Some(how);
            }
        }
    }

    fn end(mut self, grace: Duration) -> LoadOutcome {
        self.poll();
        let family = process::descendants(std::process::id());
        let tick_s = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64 * tick_s;
        let mut measured = MeasuredLoad { saturates: self.order.saturates, ..MeasuredLoad::default() };
        if let Some(baseline) = &self.baseline {
            measured.seconds = Some(baseline.at.elapsed().as_secs_f64());
            measured.used_s = since(used_ticks(&family), baseline.used_ticks);
            measured.idle_s = since(process::idle_ticks(&self.order.house_keeping), baseline.idle_ticks);
        }
        measured.ended = self.ended.clone();
        measured.worked = self.work.worked();
        self.terminate(grace);
        self.kill();
        for program in &mut self.programs {
            program.hear();
            program.heard.collect(&program.part.source, self.folder.folder());
        }
        measured.lacks = self.programs.iter().find_map(|program| program.heard.lacks(&program.part.source));
        self.clean();
        self.report(&measured)
    }

    /// Asks the programs to end, the last one first, so that they write their figures and remove their files.
    fn terminate(&mut self, grace: Duration) {
        // From here on an end is no death.
        self.ended.get_or_insert_default();
        for index in (0..self.programs.len()).rev() {
            self.programs[index].terminate();
            let given = self.programs[index].part.source == FigureSource::Nothing;
            let deadline = Instant::now() + if given { grace.min(GRACE_GIVEN) } else { grace };
            while self.programs[index].status.is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
                self.programs.iter_mut().for_each(StartedProgram::hear);
                self.reap();
            }
        }
    }

    /// Kills until none is left: an orphan of a killed process becomes our child.
    fn kill(&mut self) {
        let deadline = Instant::now() + KILL;
        loop {
            if let Some(group) = &self.order.cgroup {
                cgroup::kill(group);
            }
            let family = process::descendants(std::process::id());
            family.iter().for_each(|member| member.signal(Signal::KILL));
            self.reap();
            if family.is_empty() {
                return;
            }
            if Instant::now() > deadline {
                let names: Vec<String> = family.iter().map(|p| format!("{} ({})", p.name, p.pid)).collect();
                self.strays.insert(format!("could not be killed: {}", names.join(", ")));
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Removes files and cgroup.
    fn clean(&mut self) {
        if let Err(error) = self.folder.remove() {
            self.strays.insert(format!("could not remove its folder: {}", why(error)));
        }
        if let Some(group) = &self.order.cgroup {
            cgroup::remove(group);
        }
        let server = self.programs.iter().find(|program| program.part.source == FigureSource::Display);
        if let (Some(number), Some(server)) = (self.display, server) {
            display::clean(number, server.pid);
        }
    }

    /// How busy the load kept a GPU; else why that is unknown.
    fn utilisation(&self) -> Result<Utilisation, &'static str> {
        let heard = || self.programs.iter().map(|program| &program.heard);
        let renderers: Vec<_> = heard().flat_map(|heard| heard.renderers.clone()).collect();
        let said = heard().find_map(|heard| utilisation::of(&heard.busy));
        utilisation::of_load(&renderers, &self.meter, said)
    }

    fn report(self, measured: &MeasuredLoad) -> LoadOutcome {
        let seconds = measured.seconds.unwrap_or(0.0);
        let cpus_busy = if seconds > 0.0 { measured.used_s / seconds } else { 0.0 };
        let mut did: Vec<String> = self.programs.iter().filter_map(StartedProgram::describe).collect();
        let gpu = self.order.loads_gpu.then(|| self.utilisation());
        did.extend(gpu.as_ref().map(|gpu| match gpu {
            Ok(told) => format!("GPU {:.0} % busy ({})", told.busy_percent, told.of),
            Err(why) => format!("no utilisation of a GPU is known: {why}"),
        }));
        did.extend(self.order.remark);
        let cpus = self.order.house_keeping.len();
        did.push(format!("{cpus_busy:.2} of {cpus} housekeeping CPUs busy for {seconds:.1} s"));
        let counts: BTreeMap<String, u64> = self.programs.into_iter().flat_map(|p| p.heard.counts).collect();
        let strays = self.strays.into_iter().collect();
        let gpu = gpu.and_then(Result::ok);
        LoadOutcome {
            words: did.join("; "),
            seconds,
            cpus_busy,
            gpu,
            counts,
            loaded: judge(measured),
            strays,
        }
    }
}

/// Ticks used below this process, by those that are gone too.
fn used_ticks(family: &[process::Process]) -> u64 {
    let gone = process::Process::read(std::process::id()).map_or(0, |own| own.children_ticks);
    gone + family.iter().map(|member| member.ticks).sum::<u64>()
}

fn bind(cpus: &CpuSet) -> Result<(), String> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter() {
        if cpu as usize >= rustix::thread::CpuSet::MAX_CPU {
            return Err(format!(
                "cannot run on cpu {cpu}: numbers beyond {} are not supported",
                rustix::thread::CpuSet::MAX_CPU
            ));
        }
        set.set(cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| format!("cannot run on cpus {cpus}: {}", why(e)))
}

/// Whether one of the signals that came asks to end.
fn terminated(signals: &OwnedFd) -> bool {
    let mut told = false;
    let mut info = [0; 128];
    while let Ok(128) = rustix::io::read(signals, &mut info) {
        told |= sys::signal_number(&info) != Signal::CHILD.as_raw();
    }
    told
}

fn at_end(stdin: &std::io::Stdin) -> bool {
    !matches!(rustix::io::read(stdin.as_fd(), &mut [0; 16]), Ok(1..))
}

fn obituary(program: &StartedProgram, status: WaitStatus, after: Duration) -> String {
    let how = match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => format!("with status {status}"),
        (_, Some(signal)) => format!("by signal {signal}"),
        _ => "in a way unknown".to_string(),
    };
    let said = match program.heard.last_line.as_str() {
        "" => String::new(),
        line => format!(": {line}"),
    };
    format!("{} ended after {:.1} s {how}{said}", program.part.name, after.as_secs_f64())
}
