// SPDX-License-Identifier: MIT OR Apache-2.0
//! Episodes: late cycles that come together count once.
//!
//! ```text
//! late    · · ·|||·|··········|·······|||||||||··········
//! episode      └───┘          └┘      └───────┘            three
//!               <h    quiet ≥ h
//! ```
//! A cause that makes cycles late does so for a while: a burst, a phase of a load, a bad hour. Such late
//! cycles are not independent, so that "none of N" bounds their rate far above 3/N. What is independent, as
//! far as anything is, are the begins of *episodes*: late cycles with gaps below a **horizon**.
//!
//! Estimators, all from the lines of `seconds.csv` and the histogram, which each bundle has:
//! - **Horizon**: the largest gap within a cluster of exceedances of lower thresholds, as the intervals
//!   estimator of the extremal index declusters them (Ferro & Segers 2003, J. R. Stat. Soc. B 65, 545), worst
//!   of several thresholds; and never below a tenth of the row, since the cause of late cycles may not have
//!   come in a row without one. With that a cause that is there for less than 3/10 of the time has fewer than
//!   3 episodes in the row, however its late cycles lie; one whose late cycles come at random while it is
//!   there has so few, too, unless it is there for 8/10 of the time (a gap of `g` on average is above `h`
//!   with a chance of exp(-h/g), so that such gaps come at most once in e·h).
//! - **Cluster factor**: exceedances of a threshold in one cluster, on average. It is known only where
//!   samples came near the limit: causes that did not occur have a factor of their own. Its interval takes
//!   sizes as geometric, the spread of a cluster Poisson process whose sizes have no memory (delta method).
//! - **Fewer than**: the exact upper bound of a Poisson mean (Garwood 1936); of none seen, 3 at 95 % (the
//!   rule of three, Hanley & Lippman-Hand 1983).
//!
//! Limits: gaps are known to a second (a minute in flight). A cause that outlasts the row is seen by other
//! runs and boots alone. `docs/results/claims.md` has the share of false claims on simulated machines.

use crate::histogram::Histogram;
use crate::manifest::Second;

/// The horizon is never below this part of the row.
pub const PARTS: u64 = 10;

/// Above this part of the row a horizon leaves too few episodes to count.
pub const TOO_LONG: u64 = 4;

/// Fewest seconds with an exceedance from which a threshold tells anything.
const FEWEST: usize = 10;

/// A threshold that more than one second of so many exceeds tells nothing of gaps.
const ONE_IN: usize = 4;

/// Fewest clusters from which their mean size is told.
const FEWEST_CLUSTERS: u64 = 5;

/// Samples above this part of the limit come near it.
const NEAR: u64 = 2;

/// The one-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.644_853_6;

const SECOND_NS: u64 = 1_000_000_000;

/// How the exceedances of one threshold come together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdClusters {
    /// The threshold.
    pub threshold_ns: u64,
    /// Samples above it.
    pub exceedances: u64,
    /// Their clusters.
    pub clusters: u64,
    /// The largest gap within a cluster; 0 where each exceedance is a cluster.
    pub gap_ns: u64,
}

impl ThresholdClusters {
    /// Exceedances in a cluster, on average: at least, as estimated, and at most (90 %, so that each end is
    /// right in 95 %).
    pub fn size(&self) -> [f64; 3] {
        let clusters = self.clusters.max(1) as f64;
        let size = (self.exceedances as f64 / clusters).max(1.0);
        let spread = Z * ((2.0 - 1.0 / size) / clusters).sqrt();
        [(size / spread.exp()).max(1.0), size, size * spread.exp()]
    }
}

/// How the samples of a row come together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clustering {
    /// Of several thresholds, the highest first.
    pub thresholds: Vec<ThresholdClusters>,
    /// Length of the row.
    pub length_ns: u64,
    /// The meaning of a line of the row.
    step_ns: u64,
}

/// Late cycles in an episode, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterFactor {
    /// As estimated, at the worst threshold.
    pub estimate: f64,
    /// At least.
    pub low: f64,
    /// At most, at any threshold.
    pub high: f64,
}

/// Why a row has no cluster factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoFactor {
    /// It has too few lines.
    Short,
    /// No sample came near the limit, so that nothing is known of what comes together there.
    Far,
    /// At some threshold the exceedances are a few long clusters.
    FewClusters,
}

impl NoFactor {
    /// In words, after `no cluster factor: `.
    pub fn why(self) -> &'static str {
        match self {
            NoFactor::Short => "the row is too short to see how its largest latencies come together",
            NoFactor::Far => "no more than a few samples came above half the limit",
            NoFactor::FewClusters => "the largest latencies came in a few long clusters",
        }
    }
}

impl Clustering {
    /// How the samples of a row of this length come together, by its lines and its histogram.
    pub fn of(seconds: &[Second], latency: &Histogram, length_ns: u64) -> Clustering {
        let lines = seconds.iter().filter(|line| line.count > 0).collect::<Vec<_>>();
        let step_s = lines.windows(2).map(|pair| pair[1].second.saturating_sub(pair[0].second));
        let step_ns = u64::from(step_s.filter(|step| *step > 0).min().unwrap_or(1)) * SECOND_NS;
        let ends = lines.first().zip(lines.last());
        let span_s = ends.map_or(0, |(first, last)| u64::from(last.second.saturating_sub(first.second)));
        let span_s = span_s + step_ns / SECOND_NS;
        let mut maxima = lines.iter().map(|line| line.max_ns).collect::<Vec<_>>();
        maxima.sort_unstable_by(|a, b| b.cmp(a));
        let most = lines.len() / ONE_IN;
        let places = std::iter::successors(Some(FEWEST), |place| Some(place * 2));
        let places = places.take_while(|place| *place <= most);
        let mut thresholds: Vec<ThresholdClusters> = Vec::new();
        for threshold_ns in places.map(|place| maxima[place]) {
            if thresholds.last().is_some_and(|last| last.threshold_ns == threshold_ns) {
                continue;
            }
            let above = lines.iter().filter(|line| line.max_ns > threshold_ns);
            let times = above.map(|line| u64::from(line.second)).collect::<Vec<_>>();
            // Equal maxima leave fewer above.
            if times.len() >= FEWEST / 2 {
                let (clusters, gap_s) = declustered(&times, span_s, step_ns / SECOND_NS);
                let beyond = latency.buckets().filter(|bucket| bucket.from_ns > threshold_ns);
                let beyond = beyond.fold(0, |sum: u64, bucket| sum.saturating_add(bucket.count));
                let exceedances = beyond.max(times.len() as u64);
                let gap_ns = gap_s * SECOND_NS;
                thresholds.push(ThresholdClusters { threshold_ns, exceedances, clusters, gap_ns });
            }
        }
        Clustering { thresholds, length_ns, step_ns }
    }

    /// The quiet time after which an episode is over.
    pub fn horizon_ns(&self) -> u64 {
        self.longest_gap_ns().max(self.length_ns / PARTS).max(self.step_ns)
    }

    /// Whether exceedances of lower thresholds stay together for so long that a row of this length has no
    /// room for several episodes.
    pub fn is_too_short(&self) -> bool {
        self.longest_gap_ns() > self.length_ns / TOO_LONG
    }

    /// The largest gap within a cluster, at any threshold.
    fn longest_gap_ns(&self) -> u64 {
        self.thresholds.iter().map(|one| one.gap_ns).max().unwrap_or(0)
    }

    /// Late cycles in an episode: the worst of the thresholds, as far as samples came near the limit.
    pub fn factor(&self, limit_ns: u64) -> Result<ClusterFactor, NoFactor> {
        let highest = self.thresholds.first().ok_or(NoFactor::Short)?;
        if highest.threshold_ns < limit_ns / NEAR {
            return Err(NoFactor::Far);
        }
        if self.thresholds.iter().any(|one| one.clusters < FEWEST_CLUSTERS) {
            return Err(NoFactor::FewClusters);
        }
        let sizes = self.thresholds.iter().map(ThresholdClusters::size);
        let worst = sizes.max_by(|a, b| a[2].total_cmp(&b[2])).unwrap_or([1.0; 3]);
        Ok(ClusterFactor { low: worst[0], estimate: worst[1], high: worst[2] })
    }

    /// Late episodes in the lines of the row: those with a sample above the limit or a missed period.
    pub fn late_episodes(&self, seconds: &[Second], limit_ns: Option<u64>) -> u64 {
        let horizon_ns = self.horizon_ns();
        let (mut episodes, mut last_s) = (0, None);
        let is_late = |line: &&Second| line.missed > 0 || limit_ns.is_some_and(|ns| line.max_ns > ns);
        for line in seconds.iter().filter(is_late) {
            let at_s = u64::from(line.second);
            let is_new = last_s.is_none_or(|last: u64| at_s.saturating_sub(last) * SECOND_NS > horizon_ns);
            episodes += u64::from(is_new);
            last_s = Some(at_s);
        }
        episodes
    }
}

/// Clusters of exceedances at these times (ascending) of a row of that length, and the largest gap within
/// one, 0 where there is none. A gap of one `step` is one of neighbouring lines. The row is a ring: the gap
/// from the last exceedance to the first counts, since a row with a single phase has no other gap between
/// clusters.
fn declustered(times: &[u64], span: u64, step: u64) -> (u64, u64) {
    let step = step.max(1);
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return (0, 0) };
    let around = span.saturating_sub(last.saturating_sub(*first));
    let mut gaps =
        times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).chain([around]).collect::<Vec<_>>();
    gaps.iter_mut().for_each(|gap| *gap = (*gap / step).max(1));
    let index = extremal_index(&gaps);
    let between = ((index * gaps.len() as f64).floor() as usize).min(gaps.len());
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    // The longest gaps lie between clusters. Of equal ones all lie within where one does.
    let within = gaps.get(between).copied().unwrap_or(0);
    let clusters = gaps.iter().filter(|gap| **gap > within).count();
    (clusters.max(1) as u64, within * step)
}

/// The intervals estimator of the extremal index, from the gaps between exceedances.
fn extremal_index(gaps: &[u64]) -> f64 {
    let count = gaps.len() as f64;
    let longest = gaps.iter().copied().max().unwrap_or(0);
    let sums = |one: &dyn Fn(f64) -> [f64; 2]| {
        gaps.iter()
            .map(|gap| one(*gap as f64))
            .fold([0.0, 0.0], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    };
    let [first, second] = match longest {
        ..=2 => sums(&|gap| [gap, gap * gap]),
        _ => sums(&|gap| [gap - 1.0, (gap - 1.0) * (gap - 2.0)]),
    };
    if count == 0.0 || second <= 0.0 { 1.0 } else { (2.0 * first * first / (count * second)).min(1.0) }
}

/// The upper bound of a Poisson mean of which `seen` were seen, at confidence 1 - `alpha`: the exact one, and
/// of more than a million Chernoff's, which is above it by less than a thousandth.
pub fn fewer_than(seen: u64, alpha: f64) -> f64 {
    let (of_none, mean) = (-alpha.ln(), seen as f64);
    if seen == 0 {
        return of_none;
    }
    let chernoff = mean + of_none + (of_none * of_none + 2.0 * mean * of_none).sqrt();
    if seen > EXACT {
        return chernoff;
    }
    let (mut low, mut high) = (mean, chernoff);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if at_most(seen, middle) > alpha { low = middle } else { high = middle }
    }
    high
}

/// An import may state any number of late cycles, and the exact sum has as many terms as its square root.
const EXACT: u64 = 1_000_000;

/// The chance of at most `seen` where the mean is `mean`, which is above it.
fn at_most(seen: u64, mean: f64) -> f64 {
    let mut term = (-mean + seen as f64 * mean.ln() - ln_factorial(seen)).exp();
    let mut sum = 0.0;
    for n in (0..=seen).rev() {
        sum += term;
        term *= n as f64 / mean;
        if term < sum * 1e-16 {
            break;
        }
    }
    sum
}

/// By Stirling's series, from 20 on.
fn ln_factorial(n: u64) -> f64 {
    if n < 20 {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let n = n as f64;
    n * n.ln() - n + 0.5 * (2.0 * std::f64::consts::PI * n).ln() + 1.0 / (12.0 * n)
        - 1.0 / (360.0 * n.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of so many seconds of `each` samples at 5 us, but for those of a second in `peaks`.
    fn row(length_s: u32, each: u64, peaks: &[(u32, u64, u64)]) -> (Vec<Second>, Histogram) {
        let mut latency = Histogram::new();
        let second = |second: u32| {
            let (count, max_ns) =
                peaks.iter().find(|peak| peak.0 == second).map_or((0, 5_000), |p| (p.1, p.2));
            latency.record_many(5_000, each - count);
            latency.record_many(max_ns, count);
            Second { second, count: each, min_ns: 5_000, sum_ns: 0, max_ns, missed: 0 }
        };
        ((0..length_s).map(second).collect(), latency)
    }

    fn clustering(length_s: u32, peaks: &[(u32, u64, u64)]) -> (Clustering, Vec<Second>) {
        let (seconds, latency) = row(length_s, 1_000, peaks);
        (Clustering::of(&seconds, &latency, u64::from(length_s) * SECOND_NS), seconds)
    }

    #[test]
    fn bursts_of_forty_have_a_factor_of_about_forty() {
        let peaks =
            (0..12).map(|n| (30 + n * n * 17 % 900 + n, 40, 60_000 + u64::from(n))).collect::<Vec<_>>();
        let (found, _) = clustering(1_000, &peaks);
        let factor = found.factor(100_000).unwrap();
        assert!((30.0..60.0).contains(&factor.estimate) && factor.high > factor.estimate, "{factor:?}");
        assert!(factor.low >= 1.0);
    }

    #[test]
    fn single_exceedances_have_a_factor_of_about_one() {
        let peaks = (0..12).map(|n| (13 + n * 71 + n * n % 7, 1, 60_000 + u64::from(n))).collect::<Vec<_>>();
        let (found, _) = clustering(1_000, &peaks);
        let factor = found.factor(100_000).unwrap();
        assert!((1.0..1.3).contains(&factor.estimate), "{factor:?}");
    }

    #[test]
    fn a_row_far_below_its_limit_has_no_factor() {
        let peaks = (0..12).map(|n| (13 + n * 71, 1, 60_000 + u64::from(n))).collect::<Vec<_>>();
        assert_eq!(clustering(1_000, &peaks).0.factor(1_000_000), Err(NoFactor::Far));
        assert_eq!(clustering(20, &[]).0.factor(1_000_000), Err(NoFactor::Short));
    }

    #[test]
    fn the_horizon_is_a_tenth_of_the_row_or_what_keeps_together() {
        assert_eq!(clustering(1_000, &[]).0.horizon_ns(), 100 * SECOND_NS);
        // Two phases of six peaks, 120 s apart within, 3,000 s between.
        let phase = |from: u32| (0..6).map(move |n| (from + 120 * n, 1, 60_000 + u64::from(n)));
        let peaks = phase(10).chain(phase(3_700)).collect::<Vec<_>>();
        let (found, _) = clustering(5_000, &peaks);
        let largest = found.thresholds.iter().map(|one| one.gap_ns).max();
        assert_eq!((largest, found.horizon_ns()), (Some(120 * SECOND_NS), 500 * SECOND_NS));
        assert_eq!(declustered(&[10, 11, 12, 500, 501, 900], 1_000, 1), (3, 1));
        assert_eq!(declustered(&[10, 11, 12, 13, 14], 1_000, 1), (1, 1));
    }

    #[test]
    fn late_seconds_within_the_horizon_are_one_episode() {
        let (found, seconds) = clustering(1_000, &[(10, 40, 200_000), (90, 1, 200_000), (300, 1, 200_000)]);
        assert_eq!(found.late_episodes(&seconds, Some(100_000)), 2);
        assert_eq!(found.late_episodes(&seconds, Some(300_000)), 0);
        let missed = Second { second: 500, missed: 3, ..Second::default() };
        assert_eq!(found.late_episodes(&[missed], None), 1);
    }

    #[test]
    fn bounds_of_a_poisson_mean_are_those_of_tables() {
        let close = |seen: u64, alpha: f64, table: f64| {
            let bound = fewer_than(seen, alpha);
            assert!((bound - table).abs() < 0.001 * table, "{seen}: {bound} for {table}");
        };
        close(0, 0.05, 2.9957);
        close(1, 0.05, 4.7439);
        close(3, 0.05, 7.7537);
        close(10, 0.05, 16.9622);
        close(100, 0.05, 118.079);
        // Beyond the exact ones it is at least as large, and any number has one.
        let [exact, beyond] = [EXACT, EXACT + 1].map(|seen| fewer_than(seen, 0.05));
        assert!(beyond > exact && beyond < 1.001 * exact, "{exact}, {beyond}");
        assert!(fewer_than(u64::MAX, 0.05) > u64::MAX as f64);
    }
}
