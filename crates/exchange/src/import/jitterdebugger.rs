// SPDX-License-Identifier: MIT OR Apache-2.0
//! jitterdebugger's `results.json`.
//!
//! It catches up with missed periods, so that every one of them is a sample. Samples of 1 ms and above are
//! counted but not listed. Its `cpu` numbers threads: they are CPU numbers only where every online CPU was
//! measured. Priority and period are not in the file. Version 0.1 wrote no `sysinfo`, and always
//! microseconds; a file that lost it is taken as microseconds unless a bucket lies where only nanoseconds
//! have some.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::column::{ImportedFile, ImportedSeries, Rounding};
use super::json;
use super::rt_tests::Sysinfo;
use super::scan::Scan;
use super::scan::format::{Answer, Cpus, Description, End, Half, Missed, StatedSamples, Told, Unit, Worse};

pub(super) const FORMAT: Description = Description {
    name: "jitterdebugger JSON",
    program: "jitterdebugger",
    told: Told::Json(|document| document.get("cpu").is_some()),
    parts: &[],
    unit: Unit::Untold,
    rounding: Rounding::Cut,
    cpus: Cpus::Stated,
    samples: StatedSamples::Distribution,
    totals: Answer::Field("count"),
    missed: Missed::Counted,
    end: End::Marked,
    half_line: |_| Half::Dropped,
    worse: Answer::Lines(&[Worse::Sample("Thread {tid} on CPU {cpu} hit {us} us latency", None)]),
    stops: Answer::Never("its -b says so with the value, beside the document"),
    aborts: Answer::Lines(&["{}pthread_create(){}", "{}: clock_nanosleep(){}"]),
    losses: Answer::Field("count above the histogram's sum"),
    doubts: Answer::Lines(&["warning: affinity reduced"]),
    read,
};

/// Where its buckets end, for either of its units.
const BUCKETS_END_NS: u64 = 1_000_000;

#[derive(Debug, Deserialize)]
struct JitterdebuggerDocument {
    #[serde(default)]
    sysinfo: Sysinfo,
    #[serde(deserialize_with = "json::once")]
    cpu: BTreeMap<u32, JitterdebuggerThread>,
}

#[derive(Debug, Deserialize)]
struct JitterdebuggerThread {
    #[serde(deserialize_with = "json::once")]
    histogram: BTreeMap<u64, u64>,
    count: u64,
    min: Option<u64>,
    max: Option<u64>,
    avg: Option<f64>,
}

/// The unit of a file that does not state it.
fn unstated(
    threads: &BTreeMap<u32, JitterdebuggerThread>,
    told: Option<u64>,
    found: &mut ImportedFile,
) -> u64 {
    if let Some(unit_ns) = told {
        return unit_ns;
    }
    let last =
        threads.values().filter_map(|thread| thread.histogram.last_key_value()).map(|bucket| *bucket.0).max();
    let is_ns = last.is_some_and(|last| last >= BUCKETS_END_NS / 1_000);
    let unit = if is_ns { "nanoseconds, for it has buckets above 1000" } else { "microseconds" };
    found.note(format!("the file does not say its resolution_in_ns: taken as {unit}"));
    if is_ns { 1 } else { 1_000 }
}

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let document: JitterdebuggerDocument =
        serde_json::from_str(scan.text).map_err(|e| format!("it is damaged ({e})"))?;
    let (mut found, unit_ns) = (scan.file(), scan.unit_ns);
    let sysinfo = document.sysinfo;
    let unit_ns = match sysinfo.resolution_in_ns {
        Some(stated) if unit_ns.is_some_and(|told| told != stated) => {
            return Err(format!("its resolution_in_ns is {stated}, and another unit was told"));
        }
        Some(unit_ns @ (1 | 1_000)) => unit_ns,
        Some(other) => return Err(format!("its resolution_in_ns is {other}, neither 1 nor 1000")),
        None => unstated(&document.cpu, unit_ns, &mut found),
    };
    found.cpus_known = sysinfo.cpus_online == Some(document.cpu.len() as u64);
    for (cpu, thread) in document.cpu {
        let mut column = ImportedSeries {
            probe: "wakeup",
            cpu,
            unit_ns,
            width: 1,
            buckets: thread.histogram.into_iter().collect(),
            overflow_from: Some(BUCKETS_END_NS / unit_ns),
            ..ImportedSeries::default()
        };
        column.set_total(thread.count, &mut found.missing);
        if thread.count > 0 {
            (column.min, column.avg, column.max) = (thread.min, thread.avg, thread.max);
        }
        found.columns.push(column);
    }
    sysinfo.put_into(&mut found);
    Ok(found)
}
