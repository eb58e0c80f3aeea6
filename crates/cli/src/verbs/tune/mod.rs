// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune`: changes a machine for a deadline, and changes it back. One file per verb of it.

pub mod guest;
pub mod plan;
mod verify;

use crate::args::TuneVerb;
use crate::output::Outcome;

pub fn run(verb: TuneVerb) -> Outcome {
    match verb {
        TuneVerb::Plan(args) => plan::run(&args),
        TuneVerb::Verify(args) => verify::run(&args),
    }
}
