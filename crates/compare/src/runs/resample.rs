// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bootstrap intervals of the change between two series (Efron 1979; percentile method).
//!
//! A percentile of a resample needs no resample: drawing N samples again from N, the k-th smallest of them
//! lies where the distribution function reaches U, and U follows Beta(k, N - k + 1). So a draw costs the same
//! for a thousand samples as for a billion. Mean and maximum draw blocks of seconds again (a block bootstrap,
//! Künsch 1989), because what follows within a second is not independent.
//!
//! The seed is fixed: the same two bundles always give the same intervals.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Beta, Distribution};

use super::ComparedFigure;
use evidence::histogram::Histogram;
use evidence::row::Row;
use evidence::series::Series;

/// Draws of one figure.
const DRAWS: usize = 1_000;

/// Most blocks that the seconds of a series are gathered into.
const MOST_BLOCKS: usize = 500;

/// Fewer blocks than this say nothing of their own spread.
const FEWEST_BLOCKS: usize = 8;

/// Samples that must be expected beyond a percentile, so that with 97.5 % chance one really lies there:
/// -ln 0.025. With fewer the percentile has no upper bound.
const BEYOND: f64 = 3.69;

/// Seed of the draws: any number does, as long as it stays.
const SEED: u64 = 0x1507_A70E;

/// The intervals of one pair of series.
pub(super) struct Intervals<'a> {
    rows: [&'a Row; 2],
    ranks: [Ranks; 2],
    by_blocks: Option<[Blocks; 2]>,
    rng: Xoshiro256PlusPlus,
}

impl<'a> Intervals<'a> {
    pub fn of(before: &'a Row, after: &'a Row) -> Self {
        let rows = [before, after];
        // One generator for both sides: they must not be drawn alike.
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut blocks = |row: &Row| Blocks::draw(&row.series, &mut rng);
        let by_blocks = blocks(before).zip(blocks(after)).map(|(before, after)| [before, after]);
        Intervals { rows, ranks: rows.map(|row| Ranks::of(&row.series.latency)), by_blocks, rng }
    }

    /// The 95 % interval of the change of `figure` in percent; `None` where the data define none.
    pub fn of_figure(&mut self, figure: ComparedFigure) -> Option<[f64; 2]> {
        let [before, after] = match (figure.fraction(), &self.by_blocks) {
            (Some(fraction), _) => [self.quantiles(0, fraction)?, self.quantiles(1, fraction)?],
            (None, Some([before, after])) if figure == ComparedFigure::Max => {
                [before.max_ns.clone(), after.max_ns.clone()]
            }
            (None, Some([before, after])) => [before.mean_ns.clone(), after.mean_ns.clone()],
            (None, None) => return None,
        };
        let changes = before.iter().zip(&after).map(|(before, after)| super::percent(*before, *after));
        let mut changes = changes.collect::<Option<Vec<_>>>()?;
        changes.sort_by(f64::total_cmp);
        let cut = DRAWS / 40;
        Some([changes[cut], changes[DRAWS - 1 - cut]])
    }

    fn quantiles(&mut self, side: usize, fraction: f64) -> Option<Vec<f64>> {
        let ranks = &self.ranks[side];
        let count = ranks.count as f64;
        if count * (1.0 - fraction) < BEYOND {
            return None;
        }
        let row = self.rows[side];
        let rank = (fraction * count).ceil();
        let beta = Beta::new(rank, count - rank + 1.0).ok()?;
        let draw = |_| {
            let value_ns = ranks.at(beta.sample(&mut self.rng));
            row.stated(value_ns).map(|ns| ns as f64)
        };
        (0..DRAWS).map(draw).collect()
    }
}

/// The distribution function of a histogram, to be looked up by rank.
pub(crate) struct Ranks {
    count: u64,
    /// (samples up to here, value), ascending.
    steps: Vec<(u64, u64)>,
}

impl Ranks {
    pub fn of(latency: &Histogram) -> Self {
        let mut count = 0u64;
        let steps = latency.buckets().map(|bucket| {
            count = count.saturating_add(bucket.count);
            (count, bucket.to_ns.min(latency.max_ns()))
        });
        Ranks { steps: steps.collect(), count }
    }

    /// The value below or at which the share `place` of all samples lies.
    pub fn at(&self, place: f64) -> u64 {
        let rank = place * self.count as f64;
        let step = self.steps.partition_point(|(seen, _)| (*seen as f64) < rank);
        self.steps[step.min(self.steps.len() - 1)].1
    }
}

/// Means and maxima of resamples of whole blocks of seconds.
struct Blocks {
    mean_ns: Vec<f64>,
    max_ns: Vec<f64>,
}

impl Blocks {
    fn draw(series: &Series, rng: &mut Xoshiro256PlusPlus) -> Option<Self> {
        let seconds = series.seconds.iter().filter(|second| second.count > 0).collect::<Vec<_>>();
        let join = |seconds: &[&evidence::manifest::Second]| {
            seconds.iter().fold((0.0, 0.0, 0), |(count, sum_ns, max_ns), second| {
                (count + second.count as f64, sum_ns + second.sum_ns as f64, second.max_ns.max(max_ns))
            })
        };
        let blocks = seconds.chunks(seconds.len().div_ceil(MOST_BLOCKS).max(1)).map(join).collect::<Vec<_>>();
        if blocks.len() < FEWEST_BLOCKS {
            return None;
        }
        let resample = |_| {
            let (mut count, mut sum_ns, mut max_ns) = (0.0, 0.0, 0);
            // One fewer than there are: drawing all of them understates the variance by (n - 1) / n.
            for _ in 1..blocks.len() {
                let block = blocks[rng.random_range(0..blocks.len())];
                count += block.0;
                sum_ns += block.1;
                max_ns = max_ns.max(block.2);
            }
            (sum_ns / count, max_ns as f64)
        };
        let (mean_ns, max_ns) = (0..DRAWS).map(resample).unzip();
        Some(Blocks { mean_ns, max_ns })
    }
}
