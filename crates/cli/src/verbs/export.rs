// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator export`: a bundle in another tool's format.

use evidence::Bundle;
use evidence::export::{Choice, Format, export};

use crate::args::ExportArgs;
use crate::output::{Exit, Outcome, print};

pub fn run(args: &ExportArgs) -> Outcome {
    let format: Format = args.format.parse()?;
    let choice = Choice { load: args.load.clone(), probe: args.probe.clone() };
    let text = export(&Bundle::open(&args.bundle)?, format, &choice)?;
    match &args.output {
        Some(path) => evidence::writer::replace(path, text.as_bytes())?,
        None => print(&text)?,
    }
    Ok(Exit::Held)
}
