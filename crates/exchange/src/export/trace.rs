// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spikes and their causes as a trace, in the JSON of Chrome's trace viewer, which Perfetto opens too
//! (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>).
//!
//! ```text
//! wakeup under idle on cpu 1 every 1000 us   ├── 412.0 us late ────────────┤
//!   causes                                   ├ irq 45 ┤├ thread rustc ─────┤
//!   causes (2)                                    ├ softirq ┤
//! ```
//! Where two spikes or two causes overlap, the later one has a line of its own: a viewer would take it for a
//! part of the other. Times are those of `CLOCK_MONOTONIC`.

use std::collections::BTreeMap;

use machine::units::tenth_us;
use serde_json::{Value, json};

use evidence::manifest::{RowKey, Spike};
use evidence::reader::Bundle;

use super::RowFilter;

/// Lines of spikes of one row, and of its causes; one that overlaps more than that is on the last.
const LINES: usize = 8;
/// The number of a row's first line of causes.
const CAUSES: usize = LINES + 1;

/// The document, or why it cannot be written.
pub(super) fn trace(bundle: &Bundle, choice: &RowFilter) -> serde_json::Result<String> {
    let mut of_row: BTreeMap<&RowKey, Vec<&Spike>> = BTreeMap::new();
    for spike in bundle.spikes.iter().filter(|spike| choice.takes(&spike.key.load, &spike.key.probe)) {
        of_row.entry(&spike.key).or_default().push(spike);
    }
    let mut events = Vec::new();
    for (row, (key, mut spikes)) in (1_u64..).zip(of_row) {
        events.push(named("process_name", row, 0, &key.to_string()));
        spikes.sort_by_key(|spike| spike.monotonic_ns);
        let (mut late_lines, mut cause_lines) = (Lines::default(), Lines::default());
        for spike in spikes {
            let line = 1 + late_lines.place(spike.monotonic_ns, spike.latency_ns);
            events.push(late(spike, row, line));
            causes(spike, row, &mut cause_lines, &mut events);
        }
        for (lines, first, what) in [(late_lines, 1, "spikes"), (cause_lines, CAUSES, "causes")] {
            for line in 0..lines.ends.len() {
                let name = if line == 0 { what.to_string() } else { format!("{what} ({})", line + 1) };
                events.push(named("thread_name", row, first + line, &name));
            }
        }
    }
    let document = json!({
        "displayTimeUnit": "ns",
        "otherData": { "bundle": bundle.path.display().to_string(), "clock": "CLOCK_MONOTONIC" },
        "traceEvents": events,
    });
    Ok(untrusted::text::json(&serde_json::to_string(&document)?).into_owned() + "\n")
}

/// Lines of a row, each with the end of its last span.
#[derive(Default)]
struct Lines {
    ends: Vec<u64>,
}

impl Lines {
    /// The first line that is free when a span begins, which is put there.
    fn place(&mut self, begin_ns: u64, duration_ns: u64) -> usize {
        let end_ns = begin_ns.saturating_add(duration_ns);
        let free = self.ends.iter().position(|end| *end <= begin_ns);
        let line = free.unwrap_or_else(|| self.ends.len().min(LINES - 1));
        match self.ends.get_mut(line) {
            Some(end) => *end = end_ns.max(*end),
            None => self.ends.push(end_ns),
        }
        line
    }
}

fn named(what: &str, row: u64, line: usize, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": row, "tid": line, "args": { "name": name } })
}

/// The format's own unit is a microsecond.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn late(spike: &Spike, row: u64, line: usize) -> Value {
    let suspects = spike.causes.iter().filter(|cause| cause.is_suspect());
    let suspects: Vec<String> = suspects.map(|cause| cause.kind.named(&cause.name)).collect();
    json!({
        "ph": "X", "cat": "spike", "pid": row, "tid": line,
        "name": tenth_us(spike.latency_ns),
        "ts": micros(spike.monotonic_ns), "dur": micros(spike.latency_ns),
        "args": {
            "missed periods": spike.missed,
            "unexplained_ns": spike.unexplained_ns,
            "wall time": spike.wall_time,
            "suspects": suspects,
        },
    })
}

/// Adds the causes with times.
fn causes(spike: &Spike, row: u64, lines: &mut Lines, events: &mut Vec<Value>) {
    for cause in &spike.causes {
        let (Some(begin_ns), Some(duration_ns)) = (cause.begin_ns, cause.duration_ns) else { continue };
        let begin_ns = spike.monotonic_ns.saturating_add(begin_ns);
        let line = CAUSES + lines.place(begin_ns, duration_ns);
        events.push(json!({
            "ph": "X", "cat": cause.kind.label(), "pid": row, "tid": line,
            "name": cause.kind.named(&cause.name),
            "ts": micros(begin_ns), "dur": micros(duration_ns),
            "args": { "detail": cause.detail, "function": cause.function, "stack": cause.stack, "owner": cause.owner },
        }));
    }
}
