// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of one row, as every output states them.

use machine::quantity::{Count, Cycles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::manifest::{Followed, Granted, RowKey, is_known, is_true};
use crate::row::Row;
use crate::weakly_hard::WeaklyHard;

/// One row of `prove --json`; quantiles are rounded up by at most 1/1024 of their value, never down. A value
/// that an imported file does not have is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Probe, load, CPU and period.
    #[serde(flatten)]
    pub key: RowKey,
    /// Samples: wakeups, or iterations of the spin loop.
    pub count: u64,
    /// False where an imported file does not say how many samples there were: `count` is the least.
    #[serde(default = "is_known", skip_serializing_if = "is_true")]
    pub count_known: bool,
    /// Periods missed: cycles that were due while the thread was still late.
    pub missed: u64,
    /// False where the tool passed over missed periods without counting them.
    #[serde(default = "is_known", skip_serializing_if = "is_true")]
    pub missed_known: bool,
    /// Late cycles: samples above the limit, at least, and missed periods.
    #[serde(default)]
    pub late: u64,
    /// Their share, 0 to 1: `late` / (`count` + `missed`); absent without cycles, and where their number is
    /// unknown.
    #[serde(default)]
    pub late_share: Option<f64>,
    /// How the row kept the limit that allows some late cycles; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weakly_hard: Option<WeaklyHard>,
    /// Smallest; absent without samples, and if an imported file does not state it.
    pub min_ns: Option<u64>,
    /// Mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation.
    pub stddev_ns: Option<f64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99 %.
    pub p99_ns: Option<u64>,
    /// 99.9 %.
    pub p99_9_ns: Option<u64>,
    /// 99.999 %.
    pub p99_999_ns: Option<u64>,
    /// Largest; at least, where an imported file cuts it to whole units.
    pub max_ns: u64,
    /// False without samples, and where an imported file does not state it: `max_ns` is the least.
    #[serde(default = "is_known", skip_serializing_if = "is_true")]
    pub max_known: bool,
    /// The same at most; absent where `max_ns` is exact, and where nothing bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_at_most_ns: Option<u64>,
    /// The limit that judges the row.
    pub limit_ns: Option<u64>,
    /// Whether it is unknown if the row kept its limit; the verdict's row says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
    /// Samples above the limit, at least.
    pub over_limit: u64,
    /// Samples above the limit, at most: more if an imported file counts samples without their latencies.
    #[serde(default)]
    pub over_limit_at_most: u64,
    /// Late cycles had none been omitted while waiting: samples above the limit corrected for coordinated
    /// omission.
    pub over_limit_corrected: Option<u64>,
    /// 99.9 % corrected for coordinated omission.
    pub p99_9_corrected_ns: Option<u64>,
    /// Shortest interval between two wakeups less the period (below zero: early).
    pub jitter_min_ns: Option<i64>,
    /// Largest interval between two wakeups less the period.
    pub jitter_max_ns: Option<i64>,
    /// Standard deviation of the signed jitter.
    pub jitter_stddev_ns: Option<f64>,
    /// The thread whose loop it is, where the loop was followed from outside.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
    /// Spikes above the threshold.
    pub spikes: u64,
    /// The work of the load.
    pub load_did: Option<String>,
    /// The kernel's grants to the measuring thread.
    pub granted: Granted,
}

impl Summary {
    /// Its largest latency, as far as it is known.
    pub fn stated_max_ns(&self) -> Option<u64> {
        self.max_known.then_some(self.max_ns)
    }

    /// Its missed periods, as far as they were counted; `None` of a row without a period, too.
    pub fn stated_missed(&self) -> Option<u64> {
        (self.missed_known && (self.key.period_ns.is_some() || self.missed > 0)).then_some(self.missed)
    }

    /// Its samples, as far as their number is known.
    pub fn stated_count(&self) -> Option<u64> {
        self.count_known.then_some(self.count)
    }

    /// Its cycles that were due: those with a sample, and those whose period was missed.
    pub fn due(&self) -> Count<Cycles> {
        Count::due(Count::exact(self.count), Count::exact(self.missed))
    }

    /// Late cycles: samples above the limit, and missed periods.
    pub fn late_cycles(&self) -> Count<Cycles> {
        let late = |over: u64| over.saturating_add(self.missed);
        Count::between(late(self.over_limit), late(self.over_limit_at_most.max(self.over_limit)))
    }

    /// Whether more cycles were late than the limit allows; `None` where the source lacks it.
    pub fn is_late(&self) -> Option<bool> {
        let late = self.late_cycles();
        match &self.weakly_hard {
            Some(limit) => limit.violations.map(|windows| windows > 0),
            None if late.least() > 0 => Some(true),
            None => (late.most() == 0 && !self.undecided).then_some(false),
        }
    }

    /// The figures of `row`; how it kept its limit, where that takes more than the row, says its verdict.
    pub fn of(row: &Row) -> Summary {
        let (entry, series) = (&row.entry, &row.series);
        let latency = &series.latency;
        let corrected = latency.corrected(entry.key.period_ns.unwrap_or(0));
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let (early, late) = (&series.early, &series.late);
        let has_jitter = early.count() > 0 || late.count() > 0;
        let jitter = |figure: &dyn Fn() -> i64| has_jitter.then(figure);
        let tells = latency.count() > 0 && row.tells_what_waited();
        let (over_limit, over_limit_at_most) = row.over_limit();
        let (late_cycles, due) = (over_limit.saturating_add(row.missed()), row.due().most());
        let has_share = due > 0 && entry.key.is_cyclic() && row.stated_count().is_some();
        let over_limit_corrected = match entry.limit_ns {
            None => Some(0),
            Some(limit_ns) => {
                let is_known = row.tells_what_waited() && over_limit == over_limit_at_most;
                is_known.then(|| corrected.above(limit_ns))
            }
        };
        let is_more = |most_ns: &u64| *most_ns > latency.max_ns();
        Summary {
            key: entry.key.clone(),
            count: latency.count(),
            count_known: row.stated_count().is_some(),
            missed: row.missed(),
            missed_known: row.states(|coarse| coarse.missed_known),
            late: late_cycles,
            late_share: has_share.then(|| late_cycles as f64 / due as f64),
            weakly_hard: None,
            min_ns: row.min_ns(),
            mean_ns: row.mean_ns(),
            stddev_ns: row.stddev_ns(),
            p50_ns: row.quantile_ns(0.5),
            p99_ns: row.quantile_ns(0.99),
            p99_9_ns: row.quantile_ns(0.999),
            p99_999_ns: row.quantile_ns(0.999_99),
            max_ns: latency.max_ns(),
            max_known: row.stated_max_ns().is_some(),
            max_at_most_ns: row.stated_max_ns().map(|max_ns| row.max_ns()[1].max(max_ns)).filter(is_more),
            limit_ns: entry.limit_ns,
            undecided: false,
            over_limit,
            over_limit_at_most,
            over_limit_corrected,
            p99_9_corrected_ns: tells.then(|| row.stated(corrected.quantile_ns(0.999))).flatten(),
            jitter_min_ns: jitter(&|| {
                if early.count() > 0 { -signed(early.max_ns()) } else { signed(late.min_ns()) }
            }),
            jitter_max_ns: jitter(&|| {
                if late.count() > 0 { signed(late.max_ns()) } else { -signed(early.min_ns()) }
            }),
            jitter_stddev_ns: has_jitter.then(|| series.jitter_mean_stddev_ns().1),
            followed: entry.followed.clone(),
            spikes: entry.spikes,
            load_did: entry.load_did.clone(),
            granted: entry.granted.clone(),
        }
    }
}
