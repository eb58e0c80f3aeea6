// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator export`: a bundle in another tool's format.

use std::path::PathBuf;

use evidence::Bundle;
use evidence::document::ProveDocument;
use exchange::export::{ExportFormat, RowFilter, export};
use report::prometheus::{MetricsFormat, MonitoredRow, monitor, verdict};

use crate::args::ExportArgs;
use crate::outcome::{Outcome, VerbResult};
use crate::output::print;

pub fn run(args: &ExportArgs) -> VerbResult {
    let choice = RowFilter { load: args.load.clone(), probe: args.probe.clone() };
    let text = match args.format.as_str() {
        "archive" => return archive(args),
        "openmetrics" => open_metrics(&args.judge.open(&args.bundle)?, &choice)?,
        other => {
            let format: ExportFormat = other.parse()?;
            export(&args.judge.open(&args.bundle)?, format, &choice)?
        }
    };
    match &args.output {
        Some(path) => evidence::writer::replace(path, text.as_bytes())?,
        None => print(&text)?,
    }
    Ok(Outcome::Done)
}

/// The rows as Prometheus' histograms and counters, and the verdict on the bundle.
fn open_metrics(bundle: &Bundle, choice: &RowFilter) -> evidence::Result<String> {
    let rows: Vec<MonitoredRow> =
        choice.of(bundle, "openmetrics")?.into_iter().map(MonitoredRow::of).collect();
    let document = ProveDocument::without_tails(bundle);
    let families = [monitor("", &rows), verdict(&document.parts())].concat();
    let text = MetricsFormat::OpenMetrics.of(&families);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The whole bundle in one file, which every verb reads like the folder.
fn archive(args: &ExportArgs) -> VerbResult {
    if args.judge.is_given() {
        let why = "it has the run as it was asked; give the options to the verb that judges it";
        return Err(format!("cannot judge while packing {}: {why}", args.bundle.display()).into());
    }
    Bundle::open(&args.bundle)?;
    let file =
        args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.tar.zst", args.bundle.display())));
    evidence::archive::pack(&args.bundle, &file)?;
    print(&format!("Archive: {}\n", file.display()))?;
    Ok(Outcome::Done)
}
