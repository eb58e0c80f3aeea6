// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes evidence in other tools' formats, for the scripts that read them.
//!
//! The tables of cyclictest and rtla have buckets of 1 us and end at [`BUCKETS_US`], or where imported
//! evidence ends to tell values apart; the rest is their overflow. A bucket of ours that lies in two of
//! theirs goes to the higher one. They have no place for missed periods, taints and the limit.

mod results;
mod tables;
mod trace;

use std::fmt::Write;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use evidence::document::ProveDocument;
use evidence::kind::RowKind;
use evidence::manifest::RowKey;
use evidence::reader::Bundle;
use evidence::row::Row;
use evidence::{Error, Result};

/// Where the buckets of the text tables end: cyclictest's own largest `-h`.
pub const BUCKETS_US: u64 = 1_000_000;

macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $format:ident = $name:literal;)+) => {
        /// A format that can be written.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ExportFormat { $($(#[doc = $doc])+ $format,)+ }

        impl ExportFormat {
            /// All of them.
            pub const ALL: [ExportFormat; [$($name),+].len()] = [$(ExportFormat::$format),+];

            /// The name that chooses it.
            pub fn name(self) -> &'static str {
                match self { $(ExportFormat::$format => $name,)+ }
            }
        }
    };
}

formats! {
    /// The text of `cyclictest -h`: one probe under one load, a column a CPU.
    Cyclictest = "cyclictest";
    /// The text of `rtla timerlat hist` (timerlat and wakeup) or `rtla osnoise hist` (the others).
    Rtla = "rtla";
    /// Every bucket of every series, a row each, in nanoseconds; `to_ns` is empty where it is unknown.
    Csv = "csv";
    /// The document of `prove --json` with the buckets of every row.
    Json = "json";
    /// A test result for each row and for the verdict, as the kernel's own tests print them.
    Ktap = "ktap";
    /// The same as signals of LAVA.
    Lava = "lava";
    /// Spikes and their causes for Perfetto and Chrome's trace viewer.
    Trace = "trace";
}

impl FromStr for ExportFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<ExportFormat> {
        let names = ExportFormat::ALL.map(ExportFormat::name).join(", ");
        let cure = format!("choose one of {names}, openmetrics, archive");
        let unknown = || Error::on("export as", name, "it is not a format that can be written", cure);
        ExportFormat::ALL.into_iter().find(|format| format.name() == name).ok_or_else(unknown)
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
    /// The rows of a bundle that are meant, one at least; `format` is for the message.
    pub fn of<'a>(&self, bundle: &'a Bundle, format: &str) -> Result<Vec<&'a Row>> {
        let rows: Vec<&Row> =
            bundle.rows.iter().filter(|row| self.takes(&row.entry.key.load, &row.entry.key.probe)).collect();
        if rows.is_empty() {
            return Err(self.refused(bundle, format, "no row is left by the choice".to_string()));
        }
        Ok(rows)
    }

    /// A choice that does not fit, with those that there are.
    fn refused(&self, bundle: &Bundle, format: &str, why: String) -> Error {
        let text = |key: &RowKey| format!("--load {} --probe {}", key.load, key.probe);
        let mut there = bundle.rows.iter().map(|row| text(&row.entry.key)).collect::<Vec<_>>();
        there.dedup();
        let cure = match there.as_slice() {
            [] => "take a bundle with a measured row".to_string(),
            there => format!("choose one of: {}", there.join(", ")),
        };
        Error::on(format!("export as {format}"), bundle.path.display(), why, cure)
    }

    fn takes(&self, load: &str, probe: &str) -> bool {
        let wanted = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        wanted(&self.load, load) && (wanted(&self.probe, probe) || wanted(&self.probe, family(probe)))
    }
}

/// The tool's name for its three probes; any other probe's own.
fn family(probe: &str) -> &str {
    match RowKind::of(probe) {
        RowKind::TimerlatIrq | RowKind::TimerlatThread | RowKind::TimerlatUser => "timerlat",
        _ => probe,
    }
}

/// The text of a bundle in another format.
pub fn export(bundle: &Bundle, format: ExportFormat, choice: &RowFilter) -> Result<String> {
    let rows = || choice.of(bundle, format.name());
    let fail = |error: serde_json::Error| choice.refused(bundle, format.name(), error.to_string());
    match format {
        ExportFormat::Cyclictest => Ok(tables::cyclictest(&of_one_table(bundle, format, choice)?)),
        ExportFormat::Rtla => Ok(tables::rtla(bundle, &of_one_table(bundle, format, choice)?)),
        ExportFormat::Csv => Ok(csv(&rows()?)),
        ExportFormat::Json => json(bundle, choice, &rows()?).map_err(fail),
        // What was not measured is a result, too.
        ExportFormat::Ktap => Ok(results::ktap(bundle, choice)),
        ExportFormat::Lava => Ok(results::lava(bundle, choice)),
        ExportFormat::Trace => trace::trace(bundle, choice).map_err(fail),
    }
}

/// The rows for a table of cyclictest or rtla, which holds one load and one probe: where the choice leaves
/// several, the error lists them.
fn of_one_table<'a>(bundle: &'a Bundle, format: ExportFormat, choice: &RowFilter) -> Result<Vec<&'a Row>> {
    let rows = choice.of(bundle, format.name())?;
    let name = |row: &Row| match format {
        ExportFormat::Rtla => family(&row.entry.key.probe).to_string(),
        _ => row.entry.key.probe.clone(),
    };
    let refused = |why: &str| Err(choice.refused(bundle, format.name(), why.to_string()));
    if rows.iter().any(|row| row.entry.key.load != rows[0].entry.key.load) {
        return refused("a table holds one load");
    }
    if rows.iter().any(|row| name(row) != name(rows[0])) {
        return refused("a table holds one probe");
    }
    Ok(rows)
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
    document.rows.retain(|row| choice.takes(&row.key.load, &row.key.probe));
    let buckets = |row: &&Row| row.known_buckets().map(|b| (b.from_ns, b.to_ns, b.count)).collect();
    let histograms = rows.iter().map(buckets).collect();
    let text = serde_json::to_string_pretty(&WithBuckets { document, histograms })?;
    Ok(untrusted::text::json(&text).into_owned() + "\n")
}
