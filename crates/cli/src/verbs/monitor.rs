// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator monitor`: a program's own loop as a probe.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evidence::manifest::Asked;
use evidence::manifest::LOOP;
use measure::monitor::Attached;
use measure::series::RowProgress;
use rt::monitor::{Reader, choose, name_of};
use rt::policy::PolicyKind;
use run::{Observer, RunSpec, SessionContext, control};
use rustix::io::Errno;

use crate::args::{MonitorArgs, RunOptions};
use crate::live::{LiveDisplay, View};
use crate::metrics::{Exposed, Metrics};
use crate::output::{Exit, VerbResult};
use crate::signals::stop_on_signals;
use crate::verbs::prove;

/// How long a program may take until its loop is there, and how often that is looked for.
const BEGINS: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub fn run(args: &MonitorArgs) -> VerbResult {
    args.out.ready()?;
    let loads = args.loads.as_deref().unwrap_or("idle");
    let loads = load::parse(loads)?.iter().map(ToString::to_string).collect();
    let stop = stop_on_signals()?;
    let Some((reader, process, name)) = open(args, &stop)? else { return Ok(Exit::CouldNot) };
    if reader.thread().is_none() {
        args.out.print_text("isolator: waiting for the loop's first cycle");
    }
    let Some(mut attached) = Attached::wait(reader, process, &stop)? else { return Ok(Exit::CouldNot) };
    let machine = machine::read(Path::new("/"));
    let mut asked = run::complete(asked(args, &attached, loads), &machine);
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
        program: Some(&mut attached),
        stop,
        observer: &mut observer,
        written_by: prove::this_program(),
    };
    prove::result(setting, &spec, args.output.as_deref(), &args.out)
}

/// What is asked of a loop.
fn asked(args: &MonitorArgs, attached: &Attached, loads: Vec<String>) -> Asked {
    let thread = &attached.thread;
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
    options.over(Asked {
        probes: vec![LOOP.to_string()],
        loads,
        cpus: thread.last_cpu.into_iter().collect(),
        periods_ns: vec![attached.period().get()],
        policy: Some(policy.name().to_string()),
        priority: Some(thread.priority),
        ..Asked::default()
    })
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
fn open(args: &MonitorArgs, stop: &AtomicBool) -> rt::Result<Option<(Reader, Option<u32>, String)>> {
    let (process, name) =
        args.program.split_once(':').map_or((&*args.program, None), |(process, name)| (process, Some(name)));
    let Ok(process) = process.parse::<u32>() else {
        let path = Path::new(&args.program);
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
