// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune`: changes a machine for a deadline, and changes it back. One file per verb of it.

pub mod apply;
pub mod confirm;
mod export;
pub mod guest;
pub mod here;
mod measure;
pub mod plan;
pub mod rollback;
pub mod status;
mod verify;

use crate::args::TuneVerb;
use crate::outcome::VerbResult;

pub fn run(verb: TuneVerb) -> VerbResult {
    match verb {
        TuneVerb::Plan(args) => plan::run(&args),
        TuneVerb::Verify(args) => verify::run(&args),
        TuneVerb::Apply(args) => apply::run(&args),
        TuneVerb::Confirm(args) => confirm::run(&args),
        TuneVerb::Status(args) => status::run(&args),
        TuneVerb::Rollback(args) => rollback::run(&args),
        TuneVerb::Measure(args) => measure::run(&args),
        TuneVerb::Export(args) => export::run(&args),
    }
}
