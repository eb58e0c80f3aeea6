// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator prove`: does this machine hold its deadline?

use std::num::NonZeroU64;
use std::path::Path;

use evidence::Error;
use evidence::kind::RowKind;
use evidence::limit::Until;
use evidence::manifest::Asked;
use run::{RunSpec, SessionContext};

use crate::args::{LoopPeriod, Output, ProveArgs, RunOptions};
use crate::judged::{judged, live_page, this_program};
use crate::live::{LiveDisplay, View};
use crate::outcome::VerbResult;
use crate::program::{self, ProgramChoice, ProgramTarget, Shown};
use crate::signals::stops;
use crate::snapshot::on_spike;
use crate::{again, named, unused};

/// Length of a row where none is given.
const DURATION_NS: u64 = 20_000_000_000;

pub fn run(args: ProveArgs) -> VerbResult {
    if let Some(every) = args.every {
        return again::and_again(every);
    }
    let mut asked = match &args.like {
        Some(path) => like(path, &args)?,
        None => Asked::default(),
    };
    if let Some(loads) = &args.loads {
        asked = under(asked, loads)?;
    }
    if asked.loads.is_empty() {
        // A use is proven under every load that the machine can run.
        asked = under(asked, if args.options.purpose.is_some() { "all" } else { "idle" })?;
    }
    let until_held = args.options.verdict.until.contains(&Until::Held);
    if asked.duration_ns.is_none() && asked.loops.is_none() && args.options.loops.is_none() && !until_held {
        asked.duration_ns = Some(DURATION_NS);
    }
    if let Some(program) = &args.program {
        return of_program(program, asked, &args);
    }
    if let Some(purpose) = &args.options.purpose {
        asked.probes = purpose.probes().iter().map(ToString::to_string).collect();
    }
    if !args.probe.is_empty() {
        asked.probes = args.probe;
    }
    if asked.probes.is_empty() {
        asked.probes = vec![RowKind::Wakeup.name().to_string()];
    }
    measure(asked, &args.options, &args.out, View::Table)
}

/// The same of the loops of a program: a process by its number, else a command that is started.
fn of_program(program: &str, asked: Asked, args: &ProveArgs) -> VerbResult {
    let number = program.split_once(':').map_or(program, |(number, _)| number);
    let target = match number.parse::<u32>() {
        Ok(_) if args.arguments.is_empty() => ProgramTarget::Running(program.to_string()),
        Ok(_) => {
            let cure = "leave out what stands after --, or give the command's path";
            return Err(format!("cannot give arguments to process {number}: it runs already; {cure}").into());
        }
        Err(_) => ProgramTarget::Command([&[program.to_string()], &args.arguments[..]].concat()),
    };
    let asks_probe = asked.probes.iter().find(|probe| RowKind::of(probe) != RowKind::Loop);
    if let (Some(earlier), Some(probe)) = (&args.like, asks_probe) {
        let why = format!("it asks for the probe {probe}, and --program for the program's own loops");
        let cure = "give a run of prove --program, or of isolator monitor";
        return Err(Error::on("measure like the run", earlier.display(), why, cure).into());
    }
    let period = match args.options.period[..] {
        [] => None,
        [period] => match u64::try_from(period.as_nanos()).ok().and_then(NonZeroU64::new) {
            Some(period) => Some(LoopPeriod::Given(period)),
            None => return Err("a period of 0 was asked; give a period such as 1ms".into()),
        },
        _ => return Err("several periods were given for one program; give the loop's own, or none".into()),
    };
    // These are the program's, or chosen anew beside it.
    let flight = asked.flight || args.flight;
    let asked = Asked { response: None, isolate: None, house_keeping: Default::default(), flight, ..asked };
    let options = RunOptions { period: Vec::new(), ..args.options.clone() };
    let bounds = program::bounds(&args.begin, &args.end)?;
    let source = args.source.unwrap_or_default();
    let choice = ProgramChoice { target, threads: args.thread.clone(), period, bounds, source };
    program::measure(&choice, asked, &options, Shown { view: View::Table, prometheus: None }, &args.out)
}

/// The options of the run at `path`. They are refused where they name commands, devices or files that the
/// user has not allowed.
fn like(path: &Path, args: &ProveArgs) -> evidence::Result<Asked> {
    let asked = run::read_asked(path)?;
    let named = named::named(&asked, args.loads.is_some(), &args.options);
    if !named.is_empty() && !args.allow_commands {
        return Err(named::refuse(path, &named));
    }
    named.iter().for_each(|what| args.out.print_text(&format!("isolator: as the earlier run, it {what}")));
    Ok(asked)
}

/// The request, under a list of loads.
pub fn under(asked: Asked, loads: &str) -> Result<Asked, load::LoadError> {
    let names = |loads: Vec<load::Load>| loads.iter().map(ToString::to_string).collect();
    let (loads, loads_if_available) = (names(load::parse(loads)?), names(load::unnamed(loads)?));
    Ok(Asked { loads, loads_if_available, ..asked })
}

/// Measures what is asked, with the options over it; prints the table, and says whether the limit holds.
pub fn measure(asked: Asked, options: &RunOptions, out: &Output, view: View) -> VerbResult {
    out.ready()?;
    let machine = inspect::read(Path::new("/"));
    let spec = RunSpec::of(run::complete(options.over(asked), &machine))?;
    unused::refuse(options, &spec)?;
    let stop = stops(options)?;
    let page = live_page(options.live, &spec, &stop)?;
    let view = if out.quiet { View::Nothing } else { view };
    let mut live = LiveDisplay::new(view, &spec, out.clone(), page.clone());
    let setting = SessionContext {
        machine,
        program: None,
        stop,
        observer: &mut live,
        on_spike: on_spike(&options.spikes)?,
        written_by: this_program(),
    };
    judged(setting, &spec, page.as_ref(), options, out)
}
