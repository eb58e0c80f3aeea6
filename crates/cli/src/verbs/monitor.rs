// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator monitor`: a program's own loop as a probe.

use std::path::{Path, PathBuf};

use evidence::manifest::Asked;
use measure::monitor::{Attached, LOOP};
use rt::monitor::{Reader, choose};

use crate::args::{MonitorArgs, RunOptions};
use crate::live::View;
use crate::output::{Exit, Outcome};
use crate::verbs::prove;
use crate::{asked, session};

pub fn run(args: &MonitorArgs) -> Outcome {
    args.out.ready()?;
    let loads = args.loads.as_deref().unwrap_or("idle");
    let loads = load::parse(loads)?.iter().map(ToString::to_string).collect();
    let stop = session::stop_on_signals()?;
    let reader = Reader::open(&the_loop(&args.program)?)?;
    if reader.thread().is_none() {
        args.out.say("isolator: waiting for the loop's first cycle");
    }
    let Some(attached) = Attached::wait(reader, &stop)? else { return Ok(Exit::CouldNot) };
    let thread = &attached.thread;
    let policy = rt::policy::NAMES.iter().find(|name| **name == thread.policy.name()).unwrap_or(&"other");
    let asked = Asked {
        probes: vec![LOOP.to_string()],
        loads,
        cpus: thread.last_cpu.into_iter().collect(),
        periods_ns: vec![attached.period_ns()],
        policy: Some(policy.to_string()),
        priority: Some(thread.priority),
        ..Asked::default()
    };
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
    let machine = machine::read(Path::new("/"));
    let mut asked = asked::complete(asked, &options, &machine);
    // Another program sleeps as it likes, and has warmed up.
    (asked.timer, asked.warm_up_ns) = (None, None);
    prove::result(&asked, machine, Some(attached), args.output.as_deref(), &args.out, View::Threads)
}

/// Where the loop that `program` names can be opened.
fn the_loop(program: &str) -> rt::Result<PathBuf> {
    let (process, name) =
        program.split_once(':').map_or((program, None), |(process, name)| (process, Some(name)));
    process.parse::<u32>().map_or_else(|_| Ok(PathBuf::from(program)), |process| choose(process, name))
}
