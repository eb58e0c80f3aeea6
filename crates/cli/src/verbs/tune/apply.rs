// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune apply`: does what a plan says, or says what it would do.

use std::fs;

use ::tune::change::{self, Options, view};
use ::tune::plan::Plan;
use evidence::Error;

use super::here::Machine;
use crate::args::TuneApplyArgs;
use crate::output::{Exit, Outcome};

pub fn run(args: &TuneApplyArgs) -> Outcome {
    args.here.out.ready()?;
    let text = fs::read_to_string(&args.plan).map_err(|error| Error::io("read", &args.plan, &error))?;
    let plan = Plan::read(&text)
        .map_err(|refusal| Error::new("apply", args.plan.display(), &refusal.reason, &refusal.cure))?;
    let options = Options { runtime_only: args.runtime_only, dry_run: args.dry_run, at_boot: args.at_boot };
    let mut machine = Machine::open(&args.here.root, "apply the plan", !args.dry_run)?;
    let applied = change::apply(&mut machine.here(&args.here.root), &plan, options)?;
    args.here.out.json(&applied)?;
    args.here.out.say(view::applied(&applied).trim_end());
    Ok(Exit::Held)
}
