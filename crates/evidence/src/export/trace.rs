// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spikes and their causes as a trace, in the JSON of Chrome's trace viewer, which Perfetto opens too
//! (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>).
//!
//! ```text
//! wakeup, cpu 1, 1000us, idle   ├── 412.0 us late ────────────┤
//!   causes                      ├ irq 45 ┤├ thread rustc ─────┤
//!   causes (2)                       ├ softirq ┤
//! ```
//! A cause's time is without what interrupted it: where two causes overlap, the later one has a line of its
//! own. Times are those of `CLOCK_MONOTONIC`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::manifest::{RowKey, Spike};
use crate::reader::Bundle;

use super::RowFilter;

/// Lines of causes of one row; a cause that overlaps more than that is on the last.
const LINES: usize = 8;

/// The document, or why it cannot be written.
pub(super) fn trace(bundle: &Bundle, choice: &RowFilter) -> serde_json::Result<String> {
    let mut of_row: BTreeMap<&RowKey, Vec<&Spike>> = BTreeMap::new();
    for spike in bundle.spikes.iter().filter(|spike| choice.takes(&spike.key)) {
        of_row.entry(&spike.key).or_default().push(spike);
    }
    let mut events = Vec::new();
    for (row, (key, spikes)) in (1_u64..).zip(of_row) {
        events.push(named("process_name", row, 0, &title(key)));
        events.push(named("thread_name", row, 1, "spikes"));
        let mut used = 0;
        for spike in spikes {
            events.push(late(spike, row));
            used = used.max(causes(spike, row, &mut events));
        }
        for line in 0..used {
            let name = if line == 0 { "causes".to_string() } else { format!("causes ({})", line + 1) };
            events.push(named("thread_name", row, line as u64 + 2, &name));
        }
    }
    let document = json!({
        "displayTimeUnit": "ns",
        "otherData": { "bundle": bundle.path.display().to_string(), "clock": "CLOCK_MONOTONIC" },
        "traceEvents": events,
    });
    Ok(untrusted::text::json(&serde_json::to_string(&document)?).into_owned() + "\n")
}

fn title(key: &RowKey) -> String {
    let period = key.period_ns.map(|ns| format!(", {}us", ns as f64 / 1e3)).unwrap_or_default();
    let thread = key.thread_name.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    format!("{}, cpu {}{period}{thread}, {}", key.probe, key.cpu, key.load)
}

fn named(what: &str, row: u64, line: u64, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": row, "tid": line, "args": { "name": name } })
}

/// The format's own unit is a microsecond.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn late(spike: &Spike, row: u64) -> Value {
    let suspects = spike.causes.iter().filter(|cause| cause.is_suspect());
    let suspects: Vec<String> = suspects.map(|cause| cause.kind.named(&cause.name)).collect();
    json!({
        "ph": "X", "cat": "spike", "pid": row, "tid": 1,
        "name": format!("{} us", micros(spike.latency_ns)),
        "ts": micros(spike.monotonic_ns), "dur": micros(spike.latency_ns),
        "args": {
            "missed periods": spike.missed,
            "unexplained_ns": spike.unexplained_ns,
            "wall time": spike.wall_time,
            "suspects": suspects,
        },
    })
}

/// Adds the causes with times; the number of lines that they take.
fn causes(spike: &Spike, row: u64, events: &mut Vec<Value>) -> usize {
    let mut ends: Vec<u64> = Vec::new();
    for cause in &spike.causes {
        let (Some(begin_ns), Some(duration_ns)) = (cause.begin_ns, cause.duration_ns) else { continue };
        let end_ns = begin_ns.saturating_add(duration_ns);
        let free = ends.iter().position(|end| *end <= begin_ns);
        let line = free.unwrap_or_else(|| ends.len().min(LINES - 1));
        match ends.get_mut(line) {
            Some(end) => *end = end_ns,
            None => ends.push(end_ns),
        }
        events.push(json!({
            "ph": "X", "cat": cause.kind.label(), "pid": row, "tid": line as u64 + 2,
            "name": cause.kind.named(&cause.name),
            "ts": micros(spike.monotonic_ns.saturating_add(begin_ns)), "dur": micros(duration_ns),
            "args": { "detail": cause.detail, "function": cause.function, "stack": cause.stack, "owner": cause.owner },
        }));
    }
    ends.len()
}
