// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator compare`: two runs side by side, if what was asked of them is the same.

use compare::compare;

use crate::args::CompareArgs;
use crate::next;
use crate::outcome::{Document, VerbResult};

pub fn run(args: &CompareArgs) -> VerbResult {
    let (before, after) = (args.judge.open(&args.before)?, args.judge.open(&args.after)?);
    if before.counts_only() || after.counts_only() {
        let (before, after) = (args.before.display(), args.after.display());
        let why = "the lab counted, and kept no latencies to compare";
        let cure = format!("for the counts side by side run isolator report {before} {after}");
        return Err(format!("cannot compare {before} with {after}: {why}; {cure}").into());
    }
    let comparison = compare(&before, &after, args.force);
    args.out.json(&comparison)?;
    let ended = comparison.ended()?;
    args.out.print_text(&report::terminal::comparison(&comparison, args.out.style()));
    let next = next::after_compare(args, &after);
    if let Some(output) = &args.output {
        evidence::writer::replace(output, report::compared(&[before, after], &comparison)?.as_bytes())?;
        args.out.print_text(&format!("Report: {}", output.display()));
    }
    next::say(next, &args.out);
    Ok(ended)
}
