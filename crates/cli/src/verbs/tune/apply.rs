// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune apply`: does what a plan says, or says what it would do.

use ::tune::change::{self, Options};

use super::here::LocalMachine;
use super::verify;
use crate::args::TuneApplyArgs;
use crate::outcome::{Outcome, VerbResult};

pub fn run(args: &TuneApplyArgs) -> VerbResult {
    args.here.out.ready()?;
    let plan = verify::read_to(&args.plan, "read", "apply")?;
    let options = Options { runtime_only: args.runtime_only, dry_run: args.dry_run, at_boot: args.at_boot };
    let mut machine = LocalMachine::open(&args.here.root, "apply the plan", !args.dry_run)?;
    let applied = change::apply(&mut machine.here(&args.here.root), &plan, options)?;
    args.here.out.json(&applied)?;
    args.here.out.print_text(report::terminal::tune::applied(&applied).trim_end());
    Ok(Outcome::Done)
}
