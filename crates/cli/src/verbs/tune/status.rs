// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune status`: what is in force, and what to do next.

use ::tune::change;

use super::here::LocalMachine;
use crate::args::TuneHereArgs;
use crate::outcome::{Outcome, VerbResult};

pub fn run(args: &TuneHereArgs) -> VerbResult {
    args.out.ready()?;
    let mut machine = LocalMachine::open(&args.root, "say what is in force", false)?;
    let status = change::status(&mut machine.here(&args.root))?;
    args.out.json(&status)?;
    args.out.print_text(report::terminal::tune::status(&status).trim_end());
    Ok(Outcome::Done)
}
