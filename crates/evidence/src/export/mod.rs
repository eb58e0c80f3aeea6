// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes evidence in other tools' formats, for the scripts that read them.
//!
//! | format | what it is |
//! |---|---|
//! | `cyclictest` | the text of `cyclictest -h`: one probe under one load, a column a CPU |
//! | `rtla` | the text of `rtla timerlat hist` (timerlat and wakeup) or `rtla osnoise hist` (the others) |
//! | `csv` | every bucket of every series, a row each, in nanoseconds; `to_ns` is empty where it is unknown |
//! | `json` | the document of `prove --json` with the buckets of every row |
//!
//! The first two have buckets of 1 us and end at [`BUCKETS_US`], or where imported evidence ends to tell
//! values apart; the rest is their overflow. A bucket of ours that lies in two of theirs goes to the higher
//! one. They have no place for missed periods, taints and the limit.

mod tables;

use std::fmt::Write;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::document::ProveDocument;
use crate::manifest::RowKey;
use crate::reader::Bundle;
use crate::row::Row;
use crate::{Error, Result};

/// Where the buckets of the text tables end: cyclictest's own largest `-h`.
pub const BUCKETS_US: u64 = 1_000_000;

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// cyclictest's histogram.
    Cyclictest,
    /// rtla's histogram.
    Rtla,
    /// A table of buckets.
    Csv,
    /// Our own document, with buckets.
    Json,
}

impl ExportFormat {
    /// All of them.
    pub const ALL: [ExportFormat; 4] =
        [ExportFormat::Cyclictest, ExportFormat::Rtla, ExportFormat::Csv, ExportFormat::Json];

    /// The name that chooses it.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::Cyclictest => "cyclictest",
            ExportFormat::Rtla => "rtla",
            ExportFormat::Csv => "csv",
            ExportFormat::Json => "json",
        }
    }
}

impl FromStr for ExportFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<ExportFormat> {
        let names = ExportFormat::ALL.map(ExportFormat::name).join(", ");
        ExportFormat::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            Error::on(
                "export as",
                name,
                "it is not a format that can be written",
                format!("choose one of {names}, archive"),
            )
        })
    }
}

/// Which rows of a bundle are meant; what is left open is not chosen by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Only rows under this load.
    pub load: Option<String>,
    /// Only rows of this probe; `timerlat` means its three.
    pub probe: Option<String>,
}

impl RowFilter {
    fn takes(&self, key: &RowKey) -> bool {
        let wanted = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        wanted(&self.load, &key.load)
            && (wanted(&self.probe, &key.probe) || wanted(&self.probe, family(&key.probe)))
    }
}

/// The tool's name for its three probes; any other probe's own.
fn family(probe: &str) -> &str {
    if probe.starts_with("timerlat-") { "timerlat" } else { probe }
}

/// The text of a bundle in another format. The tables of cyclictest and rtla hold one load and one probe:
/// where the choice leaves several, the error lists them.
pub fn export(bundle: &Bundle, format: ExportFormat, choice: &RowFilter) -> Result<String> {
    let rows = bundle.rows.iter().filter(|row| choice.takes(&row.entry.key)).collect::<Vec<_>>();
    let fail = |why: String| {
        let text = |key: &RowKey| format!("--load {} --probe {}", key.load, key.probe);
        let mut there = bundle.rows.iter().map(|row| text(&row.entry.key)).collect::<Vec<_>>();
        there.dedup();
        let cure = match there.as_slice() {
            [] => "take a bundle with a measured row".to_string(),
            there => format!("choose one of: {}", there.join(", ")),
        };
        Error::on(format!("export as {}", format.name()), bundle.path.display(), why, cure)
    };
    let Some(first) = rows.first() else { return Err(fail("no row is left by the choice".into())) };
    let name = |row: &Row| match format {
        ExportFormat::Rtla => family(&row.entry.key.probe).to_string(),
        _ => row.entry.key.probe.clone(),
    };
    let several =
        |what: fn(&RowKey) -> &str| rows.iter().any(|row| what(&row.entry.key) != what(&first.entry.key));
    if matches!(format, ExportFormat::Cyclictest | ExportFormat::Rtla) {
        if several(|key| &key.load) {
            return Err(fail("a table holds one load".into()));
        }
        if rows.iter().any(|row| name(row) != name(first)) {
            return Err(fail("a table holds one probe".into()));
        }
    }
    match format {
        ExportFormat::Cyclictest => Ok(tables::cyclictest(&rows)),
        ExportFormat::Rtla => Ok(tables::rtla(bundle, &rows)),
        ExportFormat::Csv => Ok(csv(&rows)),
        ExportFormat::Json => json(bundle, choice, &rows).map_err(|e| fail(e.to_string())),
    }
}

fn csv(rows: &[&Row]) -> String {
    let has_threads = rows.iter().any(|row| row.entry.key.thread_name.is_some());
    let mut out = "probe,load,cpu,period_ns,from_ns,to_ns,count".to_string();
    out.push_str(if has_threads { ",thread\n" } else { "\n" });
    for row in rows {
        let RowKey { probe, load, cpu, period_ns, thread_name } = &row.entry.key;
        let name = untrusted::text::csv(thread_name.as_deref().unwrap_or_default());
        let thread = if has_threads { format!(",{name}") } else { String::new() };
        let period = period_ns.map(|ns| ns.to_string()).unwrap_or_default();
        for b in row.known_buckets() {
            let (probe, load) = (untrusted::text::csv(probe), untrusted::text::csv(load));
            let to = b.to_ns.map(|ns| ns.to_string()).unwrap_or_default();
            let _ = writeln!(out, "{probe},{load},{cpu},{period},{},{to},{}{thread}", b.from_ns, b.count);
        }
    }
    out
}

/// The document of `prove --json` and the buckets of its rows, in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WithBuckets {
    /// The document.
    #[serde(flatten)]
    pub document: ProveDocument,
    /// A list of buckets for each row: from, to (both in the bucket, ns; to is null where it is unknown) and
    /// count.
    pub histograms: Vec<Vec<(u64, Option<u64>, u64)>>,
}

fn json(bundle: &Bundle, choice: &RowFilter, rows: &[&Row]) -> serde_json::Result<String> {
    let mut document = ProveDocument::of(bundle);
    document.rows.retain(|row| choice.takes(&row.key));
    let buckets = |row: &&Row| row.known_buckets().map(|b| (b.from_ns, b.to_ns, b.count)).collect();
    let histograms = rows.iter().map(buckets).collect();
    let text = serde_json::to_string_pretty(&WithBuckets { document, histograms })?;
    Ok(untrusted::text::json(&text).into_owned() + "\n")
}
