// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator gate`: fails a build where a run is worse than its baseline.

use std::path::{Path, PathBuf};

use compare::gate::{GateOptions, Gated};
use evidence::{Bundle, Judge};

use crate::args::GateArgs;
use crate::next;
use crate::outcome::{Document, VerbResult};
use crate::output::{can_write, print};

pub fn run(args: &GateArgs) -> VerbResult {
    [&args.junit, &args.out.json].into_iter().flatten().try_for_each(|file| can_write(file))?;
    let junit_on_stdout = args.junit.as_deref() == Some(Path::new("-"));
    if junit_on_stdout && args.out.json_on_stdout() {
        return Err("--junit - cannot be given together with --json -; write one of them to a file".into());
    }
    let write_junit = |text: &str| match &args.junit {
        Some(path) if !junit_on_stdout => evidence::writer::replace(path, text.as_bytes()),
        Some(_) => print(text),
        None => Ok(()),
    };
    let judged = match judged(args) {
        Ok(judged) => judged,
        Err(error) => {
            // A CI system learns the reason from the file too.
            write_junit(&report::junit_error(&args.candidate.display().to_string(), &error.to_string()))?;
            return Err(error.into());
        }
    };
    args.out.json(&judged)?;
    write_junit(&report::junit(&judged))?;
    let ended = judged.ended();
    // What was damaged was not judged, so that there is nothing to show.
    let is_shown = !judged.figures.is_empty() || !judged.not_judged.is_empty();
    if !junit_on_stdout && is_shown {
        args.out.print_text(&report::terminal::gated(&judged, args.out.style()));
        next::say(next::after_gate(args, judged.held), &args.out);
    }
    ended
}

fn judged(args: &GateArgs) -> evidence::Result<Gated> {
    let open = |path: &PathBuf| Bundle::open(path);
    let baselines = args.baseline.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let candidate = Bundle::open(&args.candidate)?;
    // A candidate does not choose what it is judged by.
    let judge = args.judge.over(Judge::strictest(&baselines))?;
    let by = &args.judge;
    let choice = GateOptions {
        tolerance: args.tolerance,
        seed: args.seed,
        force: args.force,
        limit_given: by.limit.is_some() || by.allow.is_some(),
        claim_given: by.claim.is_some() || by.claim_per.is_some(),
    };
    compare::gate::gate(baselines, candidate, &judge, &choice)
}
