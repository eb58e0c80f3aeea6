// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a figure of a row varies by chance, from what a series keeps: a histogram of the whole row, and a
//! line per second. A gate and a comparison draw here alike.
//!
//! - **Seconds** are drawn again in blocks of neighbours, since what happens in one second is like what
//!   happens in the next (circular block bootstrap, Politis & Romano 1992), of the cube root of their number,
//!   and of a tenth of the row at the least. So are means, the mean of maxima, the share of seconds with a
//!   late cycle, and missed periods.
//! - **Percentiles** are drawn by rank: U follows Beta(k, n - k + 1), so that a draw costs the same for a
//!   thousand samples as for a billion. `n` is not the number of samples but of those that are independent,
//!   as far as the row shows it. How few seconds the samples beyond the percentile come in lessens it
//!   (extremal index by blocks, Smith & Weissman 1994). Where the means of seconds lie near each other they
//!   drift, and the percentile drifts with them; where they do not, `n` is lessened by how much more the
//!   means of blocks differ than independent samples' would.
//! - The spread of the draws becomes an interval with Student's t, of as many degrees of freedom as there are
//!   blocks: a few blocks know little of their own spread. Latencies are taken by their logarithm. A direct
//!   percentile of draws would need more of them than there are figures judged at once, divided by alpha.
//!
//! Limit: in rows of 20 s whose seconds are strongly alike (AR(1) of 0.6) 13 of 200 gates were wrong without
//! a tolerance, for 10 that are stated; in rows of a minute and more 8 and fewer. With the tolerance there
//! was none of 100.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Beta, Distribution};
use statrs::distribution::{ContinuousCDF, StudentsT};

use evidence::episode::PARTS;
use evidence::histogram::Histogram;
use evidence::manifest::Second;
use evidence::row::Row;

/// The chance that all intervals together, between runs of the same machine, find a change.
pub const ALPHA: f64 = 0.05;

/// A row of fewer seconds says nothing of how its seconds differ.
pub const FEWEST_SECONDS: usize = 8;

/// Draws of a figure: their spread is known to 1/sqrt(2 x 400), 4 %.
const DRAWS: usize = 400;

/// Most units that seconds are drawn in; of longer rows a unit is several seconds.
const MOST_UNITS: usize = 2_000;

/// Independent samples that must be expected beyond a percentile to draw it.
pub const BEYOND: f64 = 3.0;

/// Seconds whose means lie within this part of the row's mean drift; others come in bursts.
const DRIFT: f64 = 0.25;

/// Rounding of a histogram, as a part of a latency.
pub const RESOLUTION: f64 = 1.0 / 1024.0;

/// A generator of draws, which the same seed makes the same again.
pub fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Why the variation of a row cannot be estimated.
pub fn too_short(row: &Row) -> Option<String> {
    if row.series.seconds.is_empty() {
        let why = "another tool's evidence has no seconds, and so does not show the variation";
        return Some(why.to_string());
    }
    let seconds = seconds(row);
    (seconds < FEWEST_SECONDS).then(|| format!("{seconds} seconds are too few to estimate the variation"))
}

/// Seconds with a sample.
pub fn seconds(row: &Row) -> usize {
    row.series.seconds.iter().filter(|second| second.count > 0).count()
}

/// The quantile of Student's t that is exceeded with the chance `level`, for so many blocks.
pub fn critical(blocks: usize, level: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, blocks.saturating_sub(1).max(1) as f64);
    t.map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - level))
}

/// The spread of a percentile's logarithm.
pub fn percentile_spread(row: &Row, units: &Units, fraction: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    let ranks = Ranks::of(&row.series.latency);
    let count = independent(row, units, fraction);
    let rank = (fraction * count).min(count - 1.0).max(1.0);
    let Ok(beta) = Beta::new(rank, count - rank + 1.0) else { return f64::INFINITY };
    let by_rank = spread(&logs((0..DRAWS).map(|_| ranks.at(beta.sample(rng)) as f64)));
    let by_drift = if units.drift() { units.mean_spread(rng) } else { 0.0 };
    by_rank.hypot(by_drift)
}

/// Independent samples beyond a percentile.
pub fn beyond(row: &Row, units: &Units, fraction: f64) -> f64 {
    independent(row, units, fraction) * (1.0 - fraction)
}

/// How many independent samples the row is worth, at a percentile.
fn independent(row: &Row, units: &Units, fraction: f64) -> f64 {
    let by_means = if units.drift() { 1.0 } else { by_means(row, units) };
    row.series.latency.count() as f64 / by_means.max(by_exceedances(row, fraction))
}

/// How much more blocks of seconds differ in their means than independent samples would.
fn by_means(row: &Row, units: &Units) -> f64 {
    let latency = &row.series.latency;
    let samples = latency.count() as f64;
    let expected = latency.stddev_ns().powi(2) / samples;
    if expected <= 0.0 {
        return 1.0;
    }
    let mean_ns = latency.mean_ns();
    let length = units.block();
    let n = units.all.len();
    // The variance of the mean over all circular blocks: what drawing them would give, without drawing.
    let block = |from: usize| {
        (0..length).map(move |k| (from + k) % n).map(|k| units.all[k]).map(|u| u.sum_ns - mean_ns * u.count)
    };
    let squares = (0..n).map(|from| block(from).sum::<f64>().powi(2)).sum::<f64>() / n as f64;
    let seen = squares * (n as f64 / length as f64) / samples.powi(2);
    (seen / expected).max(1.0)
}

/// How many samples beyond the percentile come together, from the share of seconds, and of tenths of the row,
/// that have any. Where all have some, nothing is known of it.
fn by_exceedances(row: &Row, fraction: f64) -> f64 {
    let value_ns = row.series.latency.quantile_ns(fraction);
    let seconds = row.series.seconds.iter().filter(|second| second.count > 0).collect::<Vec<_>>();
    // Phases outlast a second: a tenth of the row is the quiet time that ends an episode, too.
    let part = seconds.len().div_ceil(PARTS as usize).max(1);
    let together = |length: usize| {
        let parts = seconds.chunks(length);
        let all = parts.len() as f64;
        let with = parts.filter(|part| part.iter().any(|second| second.max_ns > value_ns)).count() as f64;
        if with == 0.0 || with == all {
            return 1.0;
        }
        let beyond = row.series.latency.above(value_ns) as f64 / all;
        beyond / -(1.0 - with / all).ln()
    };
    together(1).max(together(part)).max(1.0)
}

/// Logarithms, of less than a nanosecond as of one.
fn logs(draws: impl Iterator<Item = f64>) -> Vec<f64> {
    draws.map(|draw| draw.max(1.0).ln()).collect()
}

fn spread(draws: &[f64]) -> f64 {
    let n = draws.len() as f64;
    if n < 2.0 {
        return f64::INFINITY;
    }
    let mean = draws.iter().sum::<f64>() / n;
    (draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

/// The distribution function of a histogram, to be looked up by rank.
struct Ranks {
    count: u64,
    /// (samples up to here, value), ascending.
    steps: Vec<(u64, u64)>,
}

impl Ranks {
    fn of(latency: &Histogram) -> Self {
        let mut count = 0u64;
        let steps = latency.buckets().map(|bucket| {
            count = count.saturating_add(bucket.count);
            (count, bucket.to_ns.min(latency.max_ns()))
        });
        Ranks { steps: steps.collect(), count }
    }

    /// The value below or at which the share `place` of all samples lies.
    fn at(&self, place: f64) -> u64 {
        let rank = place * self.count as f64;
        let step = self.steps.partition_point(|(seen, _)| (*seen as f64) < rank);
        self.steps[step.min(self.steps.len() - 1)].1
    }
}

/// Whether a cycle of a second was late.
pub fn is_late(second: &Second, limit_ns: Option<u64>) -> bool {
    second.missed > 0 || limit_ns.is_some_and(|limit_ns| second.max_ns > limit_ns)
}

/// Seconds of a row, several joined where there are very many.
pub struct Units {
    all: Vec<ResampledSecond>,
}

/// A second, or several that are joined.
#[derive(Clone, Copy, Default)]
pub struct ResampledSecond {
    pub seconds: f64,
    pub count: f64,
    pub sum_ns: f64,
    pub max_sum_ns: f64,
    pub max_ns: u64,
    pub missed: f64,
    pub late: f64,
}

impl Units {
    /// Those of a row, late by this limit.
    pub fn of(row: &Row, limit_ns: Option<u64>) -> Units {
        let seconds: Vec<_> = row.series.seconds.iter().filter(|s| s.count > 0).collect();
        let joined = seconds.len().div_ceil(MOST_UNITS).max(1);
        let unit = |part: &[&Second]| {
            part.iter().fold(ResampledSecond::default(), |unit, second| ResampledSecond {
                seconds: unit.seconds + 1.0,
                count: unit.count + second.count as f64,
                sum_ns: unit.sum_ns + second.sum_ns as f64,
                max_sum_ns: unit.max_sum_ns + second.max_ns as f64,
                max_ns: unit.max_ns.max(second.max_ns),
                missed: unit.missed + second.missed as f64,
                late: unit.late + f64::from(u8::from(is_late(second, limit_ns))),
            })
        };
        Units { all: seconds.chunks(joined).map(unit).collect() }
    }

    /// Units in a block: a tenth of the row at least, since phases and bursts outlast neighbours.
    fn block(&self) -> usize {
        let root = (self.all.len() as f64).cbrt().ceil() as usize;
        root.max(self.all.len().div_ceil(PARTS as usize))
    }

    /// Blocks in the row.
    pub fn blocks(&self) -> usize {
        self.all.len() / self.block().max(1)
    }

    /// Whether the means of all seconds lie near the row's.
    fn drift(&self) -> bool {
        let (sum, count) = self.sum(|unit| (unit.sum_ns, unit.count));
        let mean = sum / count.max(1.0);
        self.all.iter().all(|unit| (unit.sum_ns / unit.count.max(1.0) - mean).abs() <= DRIFT * mean)
    }

    /// The spread of the logarithm of the row's mean.
    pub fn mean_spread(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        self.log_spread(rng, |unit| (unit.sum_ns, unit.count))
    }

    /// The spread of the logarithm of a quotient of two sums.
    pub fn log_spread(
        &self,
        rng: &mut Xoshiro256PlusPlus,
        of: impl Fn(&ResampledSecond) -> (f64, f64),
    ) -> f64 {
        spread(&logs(self.draw(rng, of).into_iter()))
    }

    /// The spread of a quotient of two sums.
    pub fn spread(&self, rng: &mut Xoshiro256PlusPlus, of: impl Fn(&ResampledSecond) -> (f64, f64)) -> f64 {
        spread(&self.draw(rng, of))
    }

    /// The largest latencies of whole blocks of the row, descending.
    pub fn block_maxima(&self) -> Vec<u64> {
        let blocks = self.all.chunks(self.block().max(1));
        let largest = |block: &[ResampledSecond]| block.iter().map(|unit| unit.max_ns).max().unwrap_or(0);
        let mut maxima = blocks.map(largest).collect::<Vec<_>>();
        maxima.sort_unstable_by(|a, b| b.cmp(a));
        maxima
    }

    /// The quotient of two sums.
    pub fn sum(&self, of: impl Fn(&ResampledSecond) -> (f64, f64)) -> (f64, f64) {
        self.all.iter().map(of).fold((0.0, 0.0), |(a, b), (top, bottom)| (a + top, b + bottom))
    }

    /// The same in resamples of circular blocks.
    fn draw(&self, rng: &mut Xoshiro256PlusPlus, of: impl Fn(&ResampledSecond) -> (f64, f64)) -> Vec<f64> {
        let (n, length) = (self.all.len(), self.block());
        let parts = self.all.iter().map(of).collect::<Vec<_>>();
        let one = |_| {
            let (mut top, mut bottom) = (0.0, 0.0);
            for _ in 0..n.div_ceil(length) {
                let from = rng.random_range(0..n);
                for k in 0..length {
                    let part = parts[(from + k) % n];
                    (top, bottom) = (top + part.0, bottom + part.1);
                }
            }
            if bottom > 0.0 { top / bottom } else { 0.0 }
        };
        (0..DRAWS).map(one).collect()
    }
}
