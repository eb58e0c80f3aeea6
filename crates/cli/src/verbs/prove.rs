// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator prove`: does this machine hold its deadline?

use std::path::Path;

use evidence::document::ProveDocument;
use evidence::manifest::{Asked, WrittenBy};
use run::{RunSpec, SessionContext};

use crate::args::{Output, ProveArgs, RunOptions};
use crate::live::{LiveDisplay, View};
use crate::output::{Exit, VerbResult};
use crate::signals::stop_on_signals;
use crate::{again, named};

/// Length of a row where none is given.
const DURATION_NS: u64 = 20_000_000_000;

pub fn run(args: ProveArgs) -> VerbResult {
    if let Some(every) = args.every {
        return again::and_again(every);
    }
    let mut asked = match &args.plan {
        Some(path) => follow(path, &args)?,
        None => Asked::default(),
    };
    if let Some(loads) = &args.loads {
        asked.loads = load::parse(loads)?.iter().map(ToString::to_string).collect();
    }
    if asked.loads.is_empty() {
        asked.loads = vec!["idle".to_string()];
    }
    if !args.probe.is_empty() {
        asked.probes = args.probe;
    }
    if asked.probes.is_empty() {
        asked.probes = vec!["wakeup".to_string()];
    }
    if asked.duration_ns.is_none() && asked.loops.is_none() && args.options.loops.is_none() {
        asked.duration_ns = Some(DURATION_NS);
    }
    measure(asked, &args.options, &args.out, View::Table)
}

/// What the plan at `path` asks. It is refused where it names commands, devices or files that the user has
/// not allowed.
fn follow(path: &Path, args: &ProveArgs) -> evidence::Result<Asked> {
    let plan = run::read_plan(path)?;
    let named = named::named(&plan, args.loads.is_some(), &args.options);
    if !named.is_empty() && !args.allow_commands {
        return Err(named::refuse(path, &named));
    }
    named.iter().for_each(|what| args.out.print_text(&format!("isolator: the plan {what}")));
    Ok(plan)
}

/// Measures what is asked, with the options over it; prints the table, and says whether the limit holds.
pub fn measure(asked: Asked, options: &RunOptions, out: &Output, view: View) -> VerbResult {
    out.ready()?;
    let machine = machine::read(Path::new("/"));
    let spec = RunSpec::of(run::complete(options.over(asked), &machine))?;
    let mut live = LiveDisplay::new(if out.quiet { View::Nothing } else { view }, &spec, out.clone());
    let stop = stop_on_signals()?;
    let setting =
        SessionContext { machine, program: None, stop, observer: &mut live, written_by: this_program() };
    result(setting, &spec, options.output.as_deref(), out)
}

/// This program, as evidence names it.
pub fn this_program() -> WrittenBy {
    WrittenBy {
        program: "isolator".into(),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        commit: Some(env!("ISOLATOR_COMMIT").into()),
        command_line: Some(run::command_line()),
    }
}

/// As [`measure()`], once everything is known.
pub fn result(
    setting: SessionContext<'_>,
    spec: &RunSpec,
    folder: Option<&Path>,
    out: &Output,
) -> VerbResult {
    let folder = folder.map_or_else(run::default_folder, Path::to_path_buf);
    let bundle = run::prove_in(setting, spec, &folder)?;
    let document = ProveDocument::of(&bundle);
    let report = report::write_into(&bundle, &document);
    // What was measured is shown even where no more can be written.
    out.print_text(&report::terminal::table(&document, out.style()));
    out.json(&document)?;
    out.print_text(&format!("Report: {}", report?.display()));
    match (document.rows.is_empty(), document.not_run.first()) {
        (true, Some(row)) => {
            Err(format!("cannot measure {} under {}: {}", row.probe, row.load, row.reason).into())
        }
        _ if document.verdict.held => Ok(Exit::Held),
        _ => Ok(Exit::Exceeded),
    }
}
