// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text tables of cyclictest and rtla: microsecond buckets, a column a row of the bundle.
//!
//! Their figures are floored as those tools floor them. Which cycles overflowed is not in a bundle, so they
//! are all among cyclictest's `others`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::BUCKETS_US;
use evidence::kind::RowKind;
use evidence::reader::Bundle;
use evidence::row::Row;

/// One column in microseconds.
struct MicrosecondColumn {
    buckets: BTreeMap<u64, u64>,
    overflow: u64,
    count: u64,
    min: Option<u64>,
    /// Absent if the row lacks it.
    avg: Option<u64>,
    /// The same.
    max: Option<u64>,
}

impl MicrosecondColumn {
    fn listed(&self) -> u64 {
        self.count.saturating_sub(self.overflow)
    }
}

/// The columns, and the buckets that any of them has.
fn columns(rows: &[&Row]) -> (Vec<MicrosecondColumn>, BTreeSet<u64>) {
    let ends = rows.iter().filter_map(|row| row.entry.coarse.as_ref()?.overflow_from_ns).min();
    let end = ends.map_or(BUCKETS_US, |ns| (ns / 1_000).min(BUCKETS_US));
    let column = |row: &&Row| {
        let latency = &row.series.latency;
        let (mut buckets, mut overflow) = (BTreeMap::new(), 0u64);
        for b in latency.buckets() {
            let us = b.to_ns.min(latency.max_ns()) / 1_000;
            let count: &mut u64 = if us < end { buckets.entry(us).or_default() } else { &mut overflow };
            *count = count.saturating_add(b.count);
        }
        let (min, avg) = (row.min_ns().map(|ns| ns / 1_000), row.mean_ns().map(|ns| (ns / 1e3) as u64));
        MicrosecondColumn {
            buckets,
            overflow,
            count: latency.count(),
            min,
            avg,
            max: row.stated_max_ns().map(|ns| ns / 1_000),
        }
    };
    let columns = rows.iter().map(column).collect::<Vec<_>>();
    let labels = columns.iter().flat_map(|column| column.buckets.keys().copied()).collect();
    (columns, labels)
}

/// `cyclictest -h`.
pub(super) fn cyclictest(rows: &[&Row]) -> String {
    let (columns, labels) = columns(rows);
    let mut out = "# Histogram\n".to_string();
    for us in labels {
        let counts = columns.iter().map(|c| format!("{:06}", c.buckets.get(&us).copied().unwrap_or(0)));
        let _ = writeln!(out, "{us:06} {}", counts.collect::<Vec<_>>().join("\t"));
    }
    let mut figures = |name: &str, width: usize, figure: fn(&MicrosecondColumn) -> u64| {
        let text = columns.iter().map(|column| format!(" {:0width$}", figure(column)));
        let _ = writeln!(out, "# {name}:{}", text.collect::<String>());
    };
    figures("Total", 9, MicrosecondColumn::listed);
    if columns.iter().all(|column| column.min.is_some()) {
        figures("Min Latencies", 5, |c| c.min.unwrap_or_default());
    }
    if columns.iter().all(|column| column.avg.is_some()) {
        figures("Avg Latencies", 5, |c| c.avg.unwrap_or_default());
    }
    if columns.iter().all(|column| column.max.is_some()) {
        figures("Max Latencies", 5, |c| c.max.unwrap_or_default());
    }
    figures("Histogram Overflows", 5, |c| c.overflow);
    out.push_str("# Histogram Overflow at cycle number:\n");
    for (n, column) in columns.iter().enumerate() {
        let others =
            if column.overflow > 0 { format!(" # {:05} others", column.overflow) } else { String::new() };
        let _ = writeln!(out, "# Thread {n}:{others}");
    }
    out.push('\n');
    out
}

/// `rtla timerlat hist` or `rtla osnoise hist`.
pub(super) fn rtla(bundle: &Bundle, rows: &[&Row]) -> String {
    let head = |row: &&Row| match row.entry.key.kind() {
        RowKind::TimerlatIrq => "IRQ",
        RowKind::TimerlatThread => "Thr",
        RowKind::TimerlatUser | RowKind::Wakeup => "Usr",
        _ => "CPU",
    };
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (row.entry.key.cpu, head(row) == "Usr", head(row), row.entry.key.period_ns));
    let (columns, labels) = columns(&rows);
    let tool = if rows.iter().all(|row| head(row) == "CPU") { "osnoise" } else { "timerlat" };
    let seconds = bundle.manifest.asked.duration_ns.unwrap_or(0) / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let mut out = format!("# RTLA {tool} histogram\n# Time unit is microseconds (us)\n");
    let _ = writeln!(out, "# Duration: {days:3} {hours:02}:{minutes:02}:{:02}", seconds % 60);
    let names = rows.iter().map(|row| format!("   {}-{:03}", head(row), row.entry.key.cpu));
    let _ = writeln!(out, "Index{}", names.collect::<String>());
    let mut line = |name: &str, figure: &dyn Fn(&MicrosecondColumn) -> String| {
        let text = columns.iter().map(|column| format!("{:>9} ", figure(column)));
        let _ = writeln!(out, "{name:<6}{}", text.collect::<String>());
    };
    for us in labels {
        line(&us.to_string(), &|c| c.buckets.get(&us).copied().unwrap_or(0).to_string());
    }
    let of_some = |c: &MicrosecondColumn, figure: Option<u64>| match figure.filter(|_| c.count > 0) {
        Some(figure) => figure.to_string(),
        None => "-".to_string(),
    };
    line("over:", &|c| c.overflow.to_string());
    line("count:", &|c| c.count.to_string());
    line("min:", &|c| of_some(c, c.min));
    line("avg:", &|c| of_some(c, c.avg));
    line("max:", &|c| of_some(c, c.max));
    out
}
