// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator export`: a bundle in another tool's format.

use std::path::PathBuf;

use evidence::Bundle;
use evidence::export::{ExportFormat, RowFilter, export};

use crate::args::ExportArgs;
use crate::output::{Exit, VerbResult, print};

pub fn run(args: &ExportArgs) -> VerbResult {
    if args.format == "archive" {
        return archive(args);
    }
    let format: ExportFormat = args.format.parse()?;
    let choice = RowFilter { load: args.load.clone(), probe: args.probe.clone() };
    let text = export(&Bundle::open(&args.bundle)?, format, &choice)?;
    match &args.output {
        Some(path) => evidence::writer::replace(path, text.as_bytes())?,
        None => print(&text)?,
    }
    Ok(Exit::Held)
}

/// The whole bundle in one file, which every verb reads like the folder.
fn archive(args: &ExportArgs) -> VerbResult {
    Bundle::open(&args.bundle)?;
    let file =
        args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.tar.zst", args.bundle.display())));
    evidence::archive::pack(&args.bundle, &file)?;
    print(&format!("Archive: {}\n", file.display()))?;
    Ok(Exit::Held)
}
