// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a row as far as its source tells them.
//!
//! Our own rows tell all. An imported row ([`Coarse`]) may have wide buckets, and samples that were only
//! counted: those lie somewhere from `overflow_from_ns` up to the maximum, and stand in the histogram where
//! that range begins. No figure is made of that place. A percentile among them, the standard deviation and
//! the mean are `None` there, and the number of late samples is a range.
//!
//! A figure that the source cuts to whole units, or rounds up, stands for an interval: at a limit within it
//! it decides nothing.

use crate::histogram::{Bucket, highest, index};
use crate::manifest::Coarse;
use crate::row::Row;

/// A bucket of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBucket {
    /// Smallest value that it counts.
    pub from_ns: u64,
    /// Largest value that it counts; absent: unknown, up to the row's maximum.
    pub to_ns: Option<u64>,
    /// How many values it counted.
    pub count: u64,
}

impl Coarse {
    /// How far a value may lie above the one that its bucket is labelled with.
    pub fn above_label_ns(&self) -> u64 {
        self.resolution_ns.saturating_sub(self.unit_ns.max(1))
    }

    /// How many values are only counted. Of those beyond the buckets one is the maximum, if that is stated.
    pub fn hidden(&self) -> u64 {
        self.overflow_count.saturating_sub(u64::from(self.max_known))
    }

    /// Where those begin.
    pub fn hidden_from_ns(&self) -> Option<u64> {
        self.overflow_from_ns.filter(|_| self.hidden() > 0)
    }

    /// The least and the most that the source's figure stands for. One with more digits than a whole unit is
    /// not less than those say, and another sample may be as large as the whole unit allows.
    pub fn interval_ns(&self, figure_ns: u64) -> [u64; 2] {
        let part_ns = figure_ns % self.unit_ns.max(1);
        let below_ns = if part_ns == 0 { self.below_ns } else { 0 };
        let most_ns = (figure_ns - part_ns).saturating_add(self.above_ns);
        [figure_ns.saturating_sub(below_ns), most_ns.max(figure_ns)]
    }

    /// The largest figure of the source that lies in a bucket.
    fn label_ns(&self, bucket: &Bucket) -> u64 {
        let label_ns = bucket.to_ns - bucket.to_ns % self.unit_ns.max(1);
        if label_ns < bucket.from_ns { bucket.to_ns } else { label_ns }
    }

    fn hides(&self, value_ns: u64) -> bool {
        self.hidden_from_ns().is_some_and(|from_ns| from_ns <= value_ns)
    }
}

impl Row {
    /// The value that `fraction` of all samples do not exceed, never too low; `None` where the source does
    /// not tell.
    pub fn quantile_ns(&self, fraction: f64) -> Option<u64> {
        let latency = &self.series.latency;
        if self.entry.coarse.is_none() || latency.count() == 0 {
            return (latency.count() > 0).then(|| latency.quantile_ns(fraction));
        }
        let wanted = ((fraction * latency.count() as f64).ceil() as u64).clamp(1, latency.count());
        let largest = latency.max_ns();
        // The largest sample is stated, wherever its bucket begins.
        if wanted == latency.count() {
            return self.stated(largest).and(self.stated_max_ns());
        }
        let mut seen = 0u64;
        let bucket = self.known_buckets().find(|bucket| {
            seen = seen.saturating_add(bucket.count);
            seen >= wanted
        });
        bucket?.to_ns.map(|to_ns| to_ns.clamp(latency.min_ns(), largest))
    }

    /// A value of the histogram as the source tells it; `None` where it does not.
    pub fn stated(&self, value_ns: u64) -> Option<u64> {
        let Some(coarse) = &self.entry.coarse else { return Some(value_ns) };
        let to_ns = value_ns.saturating_add(coarse.above_label_ns()).min(self.series.latency.max_ns());
        (!coarse.hides(value_ns)).then_some(to_ns)
    }

    /// The smallest sample; `None` without samples, and where the source does not report it.
    pub fn min_ns(&self) -> Option<u64> {
        let is_known = self.states(|coarse| coarse.min_known);
        (is_known && self.series.latency.count() > 0).then(|| self.series.latency.min_ns())
    }

    /// Arithmetic mean; `None` without samples, and where the source does not report it.
    pub fn mean_ns(&self) -> Option<f64> {
        let is_known = self.states(|coarse| coarse.mean_known);
        (is_known && self.series.latency.count() > 0).then(|| self.series.latency.mean_ns())
    }

    /// Standard deviation; `None` without samples, and where buckets are too wide or samples were only
    /// counted.
    pub fn stddev_ns(&self) -> Option<f64> {
        let is_known = |coarse: &Coarse| coarse.hidden_from_ns().is_none() && coarse.above_label_ns() == 0;
        let is_known = self.entry.coarse.as_ref().is_none_or(is_known);
        (is_known && self.series.latency.count() > 0).then(|| self.series.latency.stddev_ns())
    }

    /// Whether all values from a period on are stated: cycles that waited meanwhile can then be computed.
    pub(crate) fn tells_what_waited(&self) -> bool {
        let longest_ns = self.series.latency.max_ns();
        let waits = self.entry.key.period_ns.is_some_and(|period_ns| longest_ns >= period_ns);
        !(waits && self.entry.coarse.as_ref().is_some_and(|coarse| coarse.hidden_from_ns().is_some()))
    }

    /// The largest latency, as it is stated. Of a bundle that was cut the histogram may be lost.
    pub fn largest_ns(&self) -> u64 {
        let seconds = self.series.seconds.iter().map(|second| second.max_ns);
        seconds.fold(self.series.latency.max_ns(), u64::max)
    }

    /// The largest latency: at least, and at most, where the source cuts or rounds its figures. Where it does
    /// not state the largest one nothing bounds it.
    pub fn max_ns(&self) -> [u64; 2] {
        let largest_ns = self.largest_ns();
        let Some(coarse) = &self.entry.coarse else { return [largest_ns; 2] };
        let [least_ns, most_ns] = coarse.interval_ns(largest_ns);
        [least_ns, if coarse.max_known { most_ns } else { u64::MAX }]
    }

    /// The largest latency; `None` without samples, and where the source does not state it.
    pub fn stated_max_ns(&self) -> Option<u64> {
        let is_known = self.states(|coarse| coarse.max_known);
        (is_known && self.series.latency.count() > 0).then(|| self.largest_ns())
    }

    /// Samples above the limit: as many as there are at least, and at most. Where the histogram was lost, at
    /// least one in each second whose maximum is above it.
    pub fn over_limit(&self) -> (u64, u64) {
        let latency = &self.series.latency;
        let Some(limit_ns) = self.entry.limit_ns else { return (0, 0) };
        let late_seconds =
            self.series.seconds.iter().filter(|second| second.max_ns > limit_ns).count() as u64;
        let Some(coarse) = &self.entry.coarse else {
            let above = latency.above(limit_ns).max(late_seconds);
            return (above, above);
        };
        // The stated maximum tells better than any bucket.
        let [least_ns, most_ns] = self.max_ns();
        if latency.count() == 0 || most_ns <= limit_ns {
            return (late_seconds, late_seconds);
        }
        let surely_ns = limit_ns.saturating_add(coarse.below_ns);
        let surely = latency.buckets().filter(|bucket| bucket.from_ns > surely_ns);
        let is_late = u64::from(least_ns > limit_ns);
        let at_least = surely.fold(0, |sum: u64, bucket| sum.saturating_add(bucket.count));
        let at_least = at_least.max(late_seconds).max(is_late);
        let Some(label_ns) = limit_ns.checked_sub(coarse.above_label_ns().saturating_add(coarse.above_ns))
        else {
            return (at_least, latency.count());
        };
        let above = latency.buckets().filter(|bucket| coarse.label_ns(bucket) > label_ns);
        let mut at_most = above.fold(0, |sum: u64, bucket| sum.saturating_add(bucket.count));
        if let Some(from_ns) = coarse.hidden_from_ns()
            && highest(index(from_ns)) <= label_ns
        {
            at_most = at_most.saturating_add(coarse.hidden());
        }
        (at_least, at_most.clamp(at_least.max(1), latency.count().max(at_least)))
    }

    /// The buckets of the row, ascending.
    pub fn known_buckets(&self) -> impl Iterator<Item = KnownBucket> + '_ {
        let max_ns = self.series.latency.max_ns();
        self.series.latency.buckets().map(move |bucket| {
            let to_ns = match &self.entry.coarse {
                Some(coarse) if coarse.hides(bucket.to_ns) => None,
                Some(coarse) if coarse.above_label_ns() > 0 => {
                    let to_ns = bucket.to_ns.saturating_add(coarse.above_label_ns());
                    Some(to_ns.min(max_ns).max(bucket.from_ns))
                }
                _ => Some(bucket.to_ns),
            };
            KnownBucket { from_ns: bucket.from_ns, to_ns, count: bucket.count }
        })
    }
}
