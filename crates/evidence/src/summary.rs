// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of one row, as every output states them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::manifest::{Granted, RowKey};
use crate::reader::Row;

/// One row of `prove --json`; quantiles are rounded up by at most 1/1024 of their value, never down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Probe, load, CPU and period.
    #[serde(flatten)]
    pub key: RowKey,
    /// Samples: wakeups, or iterations of the spin loop.
    pub count: u64,
    /// Periods missed: cycles that were due while the thread was still late.
    pub missed: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p99_9_ns: u64,
    /// 99.999 %.
    pub p99_999_ns: u64,
    /// Largest, exact.
    pub max_ns: u64,
    /// The limit that judges the row.
    pub limit_ns: Option<u64>,
    /// Samples above the limit.
    pub over_limit: u64,
    /// Late cycles had none been omitted while waiting: samples above the limit corrected for coordinated
    /// omission.
    pub over_limit_corrected: u64,
    /// 99.9 % corrected for coordinated omission.
    pub p99_9_corrected_ns: u64,
    /// Shortest interval between two wakeups less the period (below zero: early).
    pub jitter_min_ns: i64,
    /// Largest interval between two wakeups less the period.
    pub jitter_max_ns: i64,
    /// Standard deviation of the signed jitter.
    pub jitter_stddev_ns: f64,
    /// Spikes above the threshold.
    pub spikes: u64,
    /// What the load did.
    pub load_did: Option<String>,
    /// What the measuring thread was granted.
    pub granted: Granted,
}

impl Summary {
    /// The figures of `row`.
    pub fn of(row: &Row) -> Summary {
        let (entry, series) = (&row.entry, &row.series);
        let latency = &series.latency;
        let corrected = latency.corrected(entry.key.period_ns.unwrap_or(0));
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let (early, late) = (&series.early, &series.late);
        Summary {
            key: entry.key.clone(),
            count: latency.count(),
            missed: series.missed(),
            min_ns: latency.min_ns(),
            mean_ns: latency.mean_ns(),
            stddev_ns: latency.stddev_ns(),
            p50_ns: latency.quantile_ns(0.5),
            p99_ns: latency.quantile_ns(0.99),
            p99_9_ns: latency.quantile_ns(0.999),
            p99_999_ns: latency.quantile_ns(0.999_99),
            max_ns: latency.max_ns(),
            limit_ns: entry.limit_ns,
            over_limit: entry.limit_ns.map_or(0, |limit_ns| latency.above(limit_ns)),
            over_limit_corrected: entry.limit_ns.map_or(0, |limit_ns| corrected.above(limit_ns)),
            p99_9_corrected_ns: corrected.quantile_ns(0.999),
            jitter_min_ns: if early.count() > 0 { -signed(early.max_ns()) } else { signed(late.min_ns()) },
            jitter_max_ns: if late.count() > 0 { signed(late.max_ns()) } else { -signed(early.min_ns()) },
            jitter_stddev_ns: series.jitter_mean_stddev_ns().1,
            spikes: entry.spikes,
            load_did: entry.load_did.clone(),
            granted: entry.granted.clone(),
        }
    }
}
