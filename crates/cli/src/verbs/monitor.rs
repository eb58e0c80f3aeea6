// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator monitor`: a program's own loops as a probe, whether it hands them over or knows nothing of it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evidence::manifest::Asked;
use evidence::manifest::LOOP;
use machine::inventory::Thread;
use machine::snapshot::Preemption;
use measure::followed::FollowedProgram;
use measure::monitor::Attached;
use measure::program::Program;
use measure::series::RowProgress;
use rt::monitor::{Reader, choose, name_of};
use rt::policy::PolicyKind;
use run::{Observer, RunSpec, SessionContext, control};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use trace::follow::LoopChoice;

use crate::args::{LoopPeriod, MonitorArgs, RunOptions};
use crate::live::{LiveDisplay, View};
use crate::metrics::{Exposed, Metrics};
use crate::output::{Exit, VerbResult};
use crate::signals::stop_on_signals;
use crate::verbs::prove;

/// How long a program may take until its loop is there, and how often that is looked for.
const BEGINS: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a program that was started here may take to end.
const ENDS: Duration = Duration::from_secs(3);

pub fn run(args: &MonitorArgs) -> VerbResult {
    args.out.ready()?;
    let loads = args.loads.as_deref().unwrap_or("idle");
    let loads = load::parse(loads)?.iter().map(ToString::to_string).collect();
    let stop = stop_on_signals()?;
    let machine = machine::read(Path::new("/"));
    let started = if args.command.is_empty() { None } else { Some(Child::start(&args.command)?) };
    let target = match (&started, &args.program) {
        (Some(child), _) => child.process().to_string(),
        (None, program) => program.clone().unwrap_or_default(),
    };
    let Some(Found { mut program, thread, name }) = find(args, &target, machine.kernel.preemption, &stop)?
    else {
        return Ok(Exit::CouldNot);
    };
    let mut asked = run::complete(asked(args, &*program, &thread, loads), &machine);
    // Another program sleeps as it likes, and has warmed up.
    (asked.timer, asked.warm_up_ns) = (None, None);
    let spec = RunSpec::of(asked)?;
    let exposed = match &args.prometheus {
        None => None,
        Some(wanted) => {
            // The threads that serve stay off the loop's CPU too.
            control::stay_on(&spec.house_keeping)?;
            Some(Exposed::new(name, Metrics::open(wanted)?))
        }
    };
    let view = if args.out.quiet { View::Nothing } else { View::Threads };
    let mut observer = LoopDisplay { live: LiveDisplay::new(view, &spec, args.out.clone()), exposed };
    let setting = SessionContext {
        machine,
        program: Some(&mut *program),
        stop,
        observer: &mut observer,
        written_by: prove::this_program(),
    };
    prove::result(setting, &spec, args.output.as_deref(), &args.out)
}

/// A program whose loops were found.
struct Found {
    program: Box<dyn Program>,
    /// The first loop's thread.
    thread: Thread,
    /// The loop's name, or its thread's.
    name: String,
}

/// The loops of `target`: those that it hands over, or else those that are seen from outside. `None` where
/// `stop` was set before.
fn find(
    args: &MonitorArgs,
    target: &str,
    preemption: Preemption,
    stop: &AtomicBool,
) -> Result<Option<Found>, Box<dyn std::error::Error>> {
    if let Ok(process) = target.parse::<u32>()
        && Path::new("/proc").join(target).exists()
        && (args.follows() || !hands_over(process))
    {
        let period = match args.period {
            Some(LoopPeriod::Given(period)) => Some(period),
            Some(LoopPeriod::Auto) | None => None,
        };
        let choice = LoopChoice { threads: args.thread.clone(), period };
        args.out.print_text("isolator: finding the program's loops; that takes a few seconds");
        let Some(program) = FollowedProgram::attach(process, &choice, preemption.name(), stop)? else {
            return Ok(None);
        };
        for found in program.loops() {
            if let Some(followed) = found.followed {
                let (thread, with) = (followed.thread, followed.waits_with);
                let every = format!("{} us", found.period.get() as f64 / 1e3);
                args.out.print_text(&format!(
                    "isolator: {} (thread {}) waits with {with}, every {every}",
                    thread.name, thread.tid
                ));
            }
        }
        let Some(thread) = program.thread().cloned() else { return Ok(None) };
        let name = thread.name.clone();
        return Ok(Some(Found { program: Box::new(program), thread, name }));
    }
    let Some((reader, process, name)) = open(target, stop)? else { return Ok(None) };
    if reader.thread().is_none() {
        args.out.print_text("isolator: waiting for the loop's first cycle");
    }
    let attached = Attached::wait(reader, process, stop)?;
    Ok(attached.map(|program| Found { thread: program.thread.clone(), program: Box::new(program), name }))
}

/// Whether a program hands its loops over, or will when it has made them.
fn hands_over(process: u32) -> bool {
    let links_library = || {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        maps.contains("/libisolator.so")
    };
    match choose(process, None) {
        Err(error) if error.errno == Errno::NOENT.raw_os_error() => links_library(),
        _ => true,
    }
}

/// What is asked of a program's loops.
fn asked(args: &MonitorArgs, program: &dyn Program, thread: &Thread, loads: Vec<String>) -> Asked {
    let policy = PolicyKind::named(thread.policy.name()).unwrap_or(PolicyKind::Other);
    let options = RunOptions {
        house_keeping: args.house_keeping.clone(),
        duration: args.duration,
        loops: args.loops,
        causes: args.causes,
        limit: args.limit.clone(),
        claim: args.claim,
        accept: args.accept.clone(),
        threshold: args.threshold,
        ..RunOptions::default()
    };
    let loops = program.loops();
    options.over(Asked {
        probes: vec![LOOP.to_string()],
        loads,
        cpus: loops.iter().filter_map(|found| found.cpu).collect(),
        periods_ns: loops.iter().map(|found| found.period.get()).collect(),
        policy: Some(policy.name().to_string()),
        priority: Some(thread.priority),
        ..Asked::default()
    })
}

/// A program that was started here, and ends with the run.
struct Child(std::process::Child);

impl Child {
    fn start(command: &[String]) -> error::Result<Child> {
        let Some((program, args)) = command.split_first() else {
            return Err(error::Error::new("start the program", "none is named", "give it after --command"));
        };
        let started = Command::new(program).args(args).stdin(Stdio::null()).spawn();
        started.map(Child).map_err(|e| {
            error::Error::on("start the program", program, e, "give its path, and its arguments after it")
        })
    }

    fn process(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // In order, if it can.
        if let Some(process) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process(process, Signal::TERM);
        }
        let began = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if began.elapsed() > ENDS {
                let _ = self.0.kill();
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// The display, and where the loop's figures go beside it.
struct LoopDisplay {
    live: LiveDisplay,
    exposed: Option<Exposed>,
}

impl Observer for LoopDisplay {
    fn announce(&mut self, text: &str) {
        self.live.announce(text);
    }

    fn prepares(&mut self, text: &str) {
        self.live.prepares(text);
    }

    fn progress(&mut self, progress: &RowProgress) {
        self.live.progress(progress);
        self.exposed.iter_mut().for_each(|exposed| exposed.progress(progress));
    }

    fn row_ended(&mut self, figures: &str) -> Option<String> {
        let error = self.exposed.as_mut().and_then(|exposed| exposed.row_ended().err());
        self.live.row_ended(figures);
        error.map(|error| format!("figures for Prometheus are missing or old: {error}"))
    }

    fn ended(&mut self) {
        self.live.ended();
    }
}

/// The loop of a program, its process where one is named, and its name: the program may just have been
/// started, and is given time to begin. `None` where `stop` was set before.
fn open(target: &str, stop: &AtomicBool) -> rt::Result<Option<(Reader, Option<u32>, String)>> {
    let (process, name) =
        target.split_once(':').map_or((target, None), |(process, name)| (process, Some(name)));
    let Ok(process) = process.parse::<u32>() else {
        let path = Path::new(target);
        return Ok(Some((Reader::open(path)?, None, name_of(path).unwrap_or_default())));
    };
    let began = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let (error, may_come) = match choose(process, name) {
            Ok(path) => match Reader::open(&path) {
                Ok(reader) => return Ok(Some((reader, Some(process), name_of(&path).unwrap_or_default()))),
                // Not the kernel's refusal: the ring may be half made.
                Err(error) => (error.clone(), error.errno == 0),
            },
            Err(error) => (error.clone(), error.errno == Errno::NOENT.raw_os_error()),
        };
        if !may_come || began.elapsed() > BEGINS || !Path::new("/proc").join(process.to_string()).exists() {
            return Err(error);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}
