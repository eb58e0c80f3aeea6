// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune rollback`: gives back what was there before.

use ::tune::change::{self, RolledBack};
use error::Error;

use super::here::LocalMachine;
use crate::args::{Output, TuneRollbackArgs};
use crate::outcome::{Outcome, VerbResult};

pub fn run(args: &TuneRollbackArgs) -> VerbResult {
    args.here.out.ready()?;
    let mut machine = LocalMachine::open(&args.here.root, "roll back", true)?;
    let undone = change::roll_back(&mut machine.here(&args.here.root), args.id.as_deref())?;
    ended(&undone, &args.here.out, "isolator tune rollback")
}

/// Prints what was undone; an error where some of it was not, which `command` undoes later.
pub fn ended(undone: &RolledBack, out: &Output, command: &str) -> VerbResult {
    out.json(undone)?;
    out.print_text(report::terminal::tune::rolled_back(undone).trim_end());
    if !undone.left.is_empty() {
        let cure = format!("take away what is in the way, then run {command} again");
        return Err(Error::new("undo everything", undone.left.join("; "), cure).into());
    }
    Ok(Outcome::Done)
}
