// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune rollback`: gives back what was there before.

use ::tune::change;
use error::Error;

use super::here::LocalMachine;
use crate::args::TuneRollbackArgs;
use crate::output::{Exit, VerbResult};

pub fn run(args: &TuneRollbackArgs) -> VerbResult {
    args.here.out.ready()?;
    let mut machine = LocalMachine::open(&args.here.root, "roll back", true)?;
    let undone = change::roll_back(&mut machine.here(&args.here.root), args.id.as_deref())?;
    args.here.out.json(&undone)?;
    args.here.out.print_text(report::terminal::tune::rolled_back(&undone).trim_end());
    if !undone.left.is_empty() {
        let cure = "take away what is in the way, then run isolator tune rollback again";
        return Err(Error::new("undo everything", undone.left.join("; "), cure).into());
    }
    Ok(Exit::Held)
}
