// SPDX-License-Identifier: MIT OR Apache-2.0
//! jitterdebugger's `results.json`.
//!
//! It catches up with missed periods, so that every one of them is a sample. Samples of 1 ms and above are
//! counted but not listed. Its `cpu` numbers threads: they are CPU numbers only where every online CPU was
//! measured. Priority and period are not in the file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::column::{Column, Found};
use super::rt_tests::Sysinfo;

/// Where its buckets end, for either of its units.
const BUCKETS_END_NS: u64 = 1_000_000;

#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    sysinfo: Sysinfo,
    cpu: BTreeMap<u32, Thread>,
}

#[derive(Debug, Deserialize)]
struct Thread {
    histogram: BTreeMap<u64, u64>,
    count: u64,
    min: Option<u64>,
    max: Option<u64>,
    avg: Option<f64>,
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let document: Document = serde_json::from_str(text).map_err(|e| format!("it is damaged ({e})"))?;
    let mut found = Found::by("jitterdebugger", None);
    let sysinfo = document.sysinfo;
    let unit_ns = match sysinfo.resolution_in_ns {
        Some(unit_ns @ (1 | 1_000)) => unit_ns,
        Some(other) => return Err(format!("its resolution_in_ns is {other}, neither 1 nor 1000")),
        None => return Err("it does not say its resolution_in_ns".into()),
    };
    found.cpus_known = sysinfo.cpus_online == Some(document.cpu.len() as u64);
    for (cpu, thread) in document.cpu {
        let mut column = Column {
            probe: "wakeup",
            cpu,
            unit_ns,
            width: 1,
            buckets: thread.histogram.into_iter().collect(),
            overflow_from: Some(BUCKETS_END_NS / unit_ns),
            ..Column::default()
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
