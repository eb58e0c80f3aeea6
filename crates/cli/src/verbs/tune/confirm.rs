// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune confirm`: what was tried and holds becomes lasting.

use ::tune::change;

use super::here::LocalMachine;
use crate::args::TuneHereArgs;
use crate::outcome::{Outcome, VerbResult};

pub fn run(args: &TuneHereArgs) -> VerbResult {
    args.out.ready()?;
    let mut machine = LocalMachine::open_whole(&args.root, "confirm")?;
    let program = std::env::current_exe()?;
    let done = change::confirm(&mut machine.here(&args.root), &program.display().to_string())?;
    args.out.json(&done)?;
    args.out.print_text(report::terminal::tune::applied(&done).trim_end());
    Ok(Outcome::Done)
}
