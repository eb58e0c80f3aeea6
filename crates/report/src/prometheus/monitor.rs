// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of `isolator monitor`: a program's loop, row by row, since each row began.

use evidence::Summary;
use evidence::histogram::Histogram;
use evidence::manifest::RowKey;
use evidence::row::Row;

use super::{Exponential, Family, Labels, MetricSamples, label};

/// How a row stands.
#[derive(Debug, Clone, PartialEq)]
pub struct MonitoredRow {
    /// Which.
    pub key: RowKey,
    /// Its times.
    pub latency: Histogram,
    /// Sum of its times; absent where their source does not report it.
    pub sum_ns: Option<u128>,
    /// The limit that judges it.
    pub limit_ns: Option<u64>,
    /// Its times above the limit.
    pub over_limit: u64,
    /// Periods missed; of the loop's own row alone.
    pub missed: Option<u64>,
    /// Cycles lost; of the loop's own row alone.
    pub lost: Option<u64>,
}

impl MonitoredRow {
    /// A row of a bundle, which does not have what was lost.
    pub fn of(row: &Row) -> MonitoredRow {
        let key = row.entry.key.clone();
        MonitoredRow {
            latency: row.series.latency.clone(),
            sum_ns: row.mean_ns().map(|_| row.series.latency.sum_ns()),
            limit_ns: row.entry.limit_ns,
            over_limit: row.over_limit().0,
            missed: Summary::of(row).stated_missed(),
            lost: None,
            key,
        }
    }
}

/// The rows of the loop `name` as metrics; rows of a probe have no name of a loop.
pub fn monitor(name: &str, rows: &[MonitoredRow]) -> Vec<Family> {
    let labels = |row: &MonitoredRow| -> Labels {
        let key = &row.key;
        let name = key.thread_name.as_deref().unwrap_or(name);
        // A probe may run with several periods on one CPU.
        let own = match (name, key.period_ns) {
            ("", None) => None,
            ("", Some(ns)) => Some(label("period_ns", &ns.to_string())),
            (name, _) => Some(label("loop", name)),
        };
        let others =
            [label("probe", &key.probe), label("load", &key.load), label("cpu", &key.cpu.to_string())];
        own.into_iter().chain(others).collect()
    };
    let each = |value: &dyn Fn(&MonitoredRow) -> Option<f64>| -> Vec<(Labels, f64)> {
        rows.iter().filter_map(|row| Some((labels(row), value(row)?))).collect()
    };
    let times = rows.iter().map(|row| (labels(row), Exponential::of(&row.latency, row.sum_ns))).collect();
    vec![
        Family {
            name: "isolator_latency_seconds",
            help: "Wakeup latencies (loop), times from a cycle's begin to its end (execution) and to a mark (mark-N).",
            samples: MetricSamples::Histograms(times),
        },
        Family {
            name: "isolator_late_cycles_total",
            help: "Late cycles: above the row's limit, or missed.",
            samples: MetricSamples::Counters(each(&|row| {
                Some(row.limit_ns.map(|_| row.over_limit.saturating_add(row.missed.unwrap_or(0)))? as f64)
            })),
        },
        Family {
            name: "isolator_missed_periods_total",
            help: "Periods that went by without a cycle.",
            samples: MetricSamples::Counters(each(&|row| Some(row.missed? as f64))),
        },
        Family {
            name: "isolator_lost_cycles_total",
            help: "Cycles that never ended, or that were not read in time.",
            samples: MetricSamples::Counters(each(&|row| Some(row.lost? as f64))),
        },
        Family {
            name: "isolator_limit_seconds",
            help: "The limit that judges the row.",
            samples: MetricSamples::Gauges(each(&|row| Some(row.limit_ns? as f64 / 1e9))),
        },
    ]
}
