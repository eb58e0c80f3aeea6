// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the loops of a program, for `monitor` and `prove --program`: finds or starts the program, finds
//! its loops, and measures each under each load.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evidence::Bundle;
use evidence::kind::RowKind;
use evidence::manifest::Asked;
use machine::inventory::Thread;
use machine::snapshot::Preemption;
use machine::units::exact_us;
use measure::followed::FollowedProgram;
use measure::monitor::Attached;
use measure::program::{LoopFound, Program};
use measure::series::RowProgress;
use rt::monitor::{Reader, choose, name_of};
use rt::policy::PolicyKind;
use run::recorded::TraceRun;
use run::{Observer, RunSpec, SessionContext, control};
use rustix::io::Errno;
use trace::boundary::{CycleBounds, PlaceName};
use trace::choice::SourceChoice;
use trace::follow::LoopChoice;

use crate::args::{LoopPeriod, Output, RunOptions};
use crate::boots;
use crate::judged::{judged, live_page, outcome, this_program};
use crate::live::{LiveDisplay, View};
use crate::metrics::{Exposed, Metrics};
use crate::outcome::{Outcome, VerbResult};
use crate::signals::stops;
use crate::snapshot::on_spike;
use crate::started::MeasuredProgram;

/// The longest time until a program has its loop, and the interval between checks.
const BEGINS: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The selection of a program and its loops.
#[derive(Debug)]
pub struct ProgramChoice {
    /// The program.
    pub target: ProgramTarget,
    /// Threads by name or number; empty: the real-time ones.
    pub threads: Vec<String>,
    /// The loop's period; absent: inferred from the program.
    pub period: Option<LoopPeriod>,
    /// Begin and end of cycles; absent: inferred from the program.
    pub bounds: Option<CycleBounds>,
    /// The source of its events.
    pub source: SourceChoice,
}

/// The places in `--begin` and `--end`.
pub fn bounds(
    begin: &Option<Box<PlaceName>>,
    end: &Option<Box<PlaceName>>,
) -> Result<Option<CycleBounds>, String> {
    let of = |place: &PlaceName| CycleBounds::new(place.clone(), end.as_deref().cloned());
    begin.as_deref().map(of).transpose()
}

/// The program to measure.
#[derive(Debug)]
pub enum ProgramTarget {
    /// A running one: `PID`, `PID:NAME`, or the path of a loop's descriptor.
    Running(String),
    /// One that is started here: its path and arguments.
    Command(Vec<String>),
    /// One that ran elsewhere, in a trace.
    Trace(PathBuf),
}

/// Where a program's figures are shown during the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// On the terminal.
    pub view: View,
    /// For Prometheus: a file or an address.
    pub prometheus: Option<&'a str>,
}

impl ProgramChoice {
    /// The loops that are followed from outside.
    fn of_loops(&self, is_starting: bool) -> LoopChoice {
        let period = match self.period {
            Some(LoopPeriod::Given(period)) => Some(period),
            Some(LoopPeriod::Auto) | None => None,
        };
        LoopChoice {
            threads: self.threads.clone(),
            period,
            bounds: self.bounds.clone(),
            is_starting,
            source: self.source,
        }
    }

    /// Whether the request needs following from outside.
    fn follows(&self) -> bool {
        !self.threads.is_empty()
            || self.period.is_some()
            || self.bounds.is_some()
            || self.source != SourceChoice::Auto
    }
}

/// Measures the loops of a program with the options in `asked`; prints the table, and returns whether the
/// limit holds. CPUs, periods, policy and priority are the program's own.
pub fn measure(
    choice: &ProgramChoice,
    asked: Asked,
    options: &RunOptions,
    shown: Shown<'_>,
    out: &Output,
) -> VerbResult {
    out.ready()?;
    let stop = stops(options)?;
    if let ProgramTarget::Trace(trace) = &choice.target {
        let others = boots::opened(&options.boots)?;
        let bundle = of_trace(trace, choice, options.over(asked), options.output.as_deref(), stop)?;
        return outcome(&bundle, &others, None, options, out);
    }
    let on_spike = on_spike(&options.spikes)?;
    let machine = inspect::read(Path::new("/"));
    let started = match &choice.target {
        // The program's output must not be mixed with the JSON.
        ProgramTarget::Command(command) if out.json_on_stdout() => {
            Some(MeasuredProgram::start(command, std::io::stderr().into())?)
        }
        ProgramTarget::Command(command) => Some(MeasuredProgram::start(command, Stdio::inherit())?),
        ProgramTarget::Running(_) | ProgramTarget::Trace(_) => None,
    };
    let target = match (&started, &choice.target) {
        (Some(started), _) => started.process().to_string(),
        (None, ProgramTarget::Running(target)) => target.clone(),
        (None, ProgramTarget::Command(_) | ProgramTarget::Trace(_)) => String::new(),
    };
    let found = find(choice, &target, machine.kernel.preemption, out, &stop)?;
    let Some(Found { mut program, thread, name }) = found else { return Ok(Outcome::CouldNot) };
    let judged_by =
        |found: &LoopFound| run::preflight::of_another_period(options.purpose.as_ref()?, found.period.get());
    for note in program.loops().iter().filter_map(judged_by) {
        out.print_text(&format!("isolator: note: {note}"));
    }
    let asked = options.over(of_its_loops(&*program, &thread, asked));
    let mut asked = run::complete(asked, &machine);
    // The program decides how it sleeps, and has warmed up.
    (asked.timer, asked.warm_up_ns) = (None, None);
    let spec = RunSpec::of(asked)?;
    let exposed = match shown.prometheus {
        None => None,
        Some(wanted) => {
            // The threads of the HTTP server stay off the loop's CPU too.
            control::stay_on(&spec.house_keeping)?;
            Some(Exposed::new(name, Metrics::open(wanted)?))
        }
    };
    let view = if out.quiet { View::Nothing } else { shown.view };
    let page = live_page(options.live, &spec, &stop)?;
    let live = LiveDisplay::new(view, &spec, out.clone(), page.clone());
    let mut observer = LoopDisplay { live, exposed };
    let setting = SessionContext {
        machine,
        program: Some(&mut *program),
        stop,
        observer: &mut observer,
        on_spike,
        written_by: this_program(),
    };
    judged(setting, &spec, page.as_ref(), options, out)
}

/// Reads the loops of a trace into `folder`, or else into one with the trace's name.
pub fn of_trace(
    trace: &Path,
    choice: &ProgramChoice,
    asked: Asked,
    folder: Option<&Path>,
    stop: Arc<AtomicBool>,
) -> Result<Bundle, Box<dyn std::error::Error>> {
    // A folder may be named as `.`.
    let name = Path::new("evidence").join(trace.file_stem().unwrap_or("trace".as_ref()));
    let folder = folder.map_or_else(|| run::unused_folder(name), Path::to_path_buf);
    let choice = choice.of_loops(false);
    let run = TraceRun { trace, choice, asked, written_by: this_program(), stop };
    Ok(run::recorded::read(run, &folder, &mut |_| {})?)
}

/// `asked` for a program's loops: the program's own settings replace the options.
fn of_its_loops(program: &dyn Program, thread: &Thread, asked: Asked) -> Asked {
    let loops = program.loops();
    let policy = PolicyKind::named(thread.policy.name()).unwrap_or(PolicyKind::Other);
    Asked {
        probes: vec![RowKind::Loop.name().to_string()],
        cpus: loops.iter().filter_map(|found| found.cpu).collect(),
        periods_ns: loops.iter().map(|found| found.period.get()).collect(),
        policy: Some(policy.name().to_string()),
        priority: Some(thread.priority),
        ..asked
    }
}

/// A program whose loops were found.
struct Found {
    program: Box<dyn Program>,
    /// The first loop's thread.
    thread: Thread,
    /// The loop's name, or its thread's.
    name: String,
}

/// The loops of `target`: those that it publishes, or else those that are found from outside. `None` if
/// `stop` was set before.
fn find(
    choice: &ProgramChoice,
    target: &str,
    preemption: Preemption,
    out: &Output,
    stop: &AtomicBool,
) -> Result<Option<Found>, Box<dyn std::error::Error>> {
    if let Some(bounds) = &choice.bounds {
        check_bounds(bounds, target)?;
    }
    if let Ok(process) = target.parse::<u32>()
        && untrusted::is_there(Path::new("/proc").join(target))
        && (choice.follows() || !hands_over(process))
    {
        let is_starting = matches!(choice.target, ProgramTarget::Command(_));
        return follow(choice, process, is_starting, preemption, out, stop);
    }
    let Some((reader, process, name)) = open(target, stop)? else { return Ok(None) };
    if reader.thread().is_none() {
        out.print_text("isolator: waiting for the loop's first cycle");
    }
    let attached = Attached::wait(reader, process, stop)?;
    Ok(attached.map(|program| Found { thread: program.thread.clone(), program: Box::new(program), name }))
}

/// Refuses boundaries in a program that stamps its own cycles, and with a loop's name.
fn check_bounds(bounds: &CycleBounds, target: &str) -> trace::Result<()> {
    let cannot = |why: &str, cure: &str| {
        Err(trace::Error::new(format!("cut cycles of {target} at {}", bounds.begin()), why, cure))
    };
    match target.parse::<u32>() {
        Err(_) => cannot(
            "it is the name of a loop that stamps its own cycles",
            "give the number of a process, or leave out --begin",
        ),
        Ok(process) if hands_over(process) => cannot(
            "it stamps its own cycles with libisolator",
            "leave out --begin; isolator reads its stamps",
        ),
        Ok(_) => Ok(()),
    }
}

/// The loops of a process that publishes none.
fn follow(
    choice: &ProgramChoice,
    process: u32,
    is_starting: bool,
    preemption: Preemption,
    out: &Output,
    stop: &AtomicBool,
) -> Result<Option<Found>, Box<dyn std::error::Error>> {
    // No thread of this process measures, and it may run for days.
    rt::heap::give_back();
    let is_bounded = choice.bounds.is_some();
    let loops = choice.of_loops(is_starting);
    out.print_text("isolator: finding the program's loops; that takes a few seconds");
    let Some(program) = FollowedProgram::attach(process, &loops, preemption.name(), stop)? else {
        return Ok(None);
    };
    for found in program.loops() {
        if let Some(followed) = found.followed {
            let (thread, with) = (followed.thread, followed.waits_with);
            let every = exact_us(found.period.get());
            let with = if is_bounded { format!("has cycles, {with}") } else { format!("waits with {with}") };
            out.print_text(&format!(
                "isolator: {} (thread {}) {with}, every {every}",
                thread.name, thread.tid
            ));
        }
    }
    for note in program.about_cycles() {
        out.print_text(&format!("isolator: note: {note}"));
    }
    let Some(thread) = program.thread().cloned() else { return Ok(None) };
    let name = thread.name.clone();
    Ok(Some(Found { program: Box::new(program), thread, name }))
}

/// Whether a program publishes its loops, or will when it has made them.
fn hands_over(process: u32) -> bool {
    let links_library = || {
        let maps = untrusted::text(format!("/proc/{process}/maps")).unwrap_or_default();
        maps.contains("/libisolator.so")
    };
    match choose(process, None) {
        Err(error) if error.errno == Errno::NOENT.raw_os_error() => links_library(),
        // Another user's process: following reports the missing permission.
        Err(error) if error.errno == Errno::ACCESS.raw_os_error() => false,
        _ => true,
    }
}

/// The display, and the other output of the loop's figures.
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

    fn wants_latency(&self) -> bool {
        self.live.wants_latency() || self.exposed.is_some()
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

/// The loop of a program, its process if one is named, and its name. A program that was just started is given
/// time to begin. `None` if `stop` was set before.
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
                // The ring may be incomplete; a refusal by the kernel is final.
                Err(error) => (error.clone(), error.errno == 0),
            },
            Err(error) => (error.clone(), error.errno == Errno::NOENT.raw_os_error()),
        };
        if !may_come
            || began.elapsed() > BEGINS
            || !untrusted::is_there(Path::new("/proc").join(process.to_string()))
        {
            return Err(error);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}
