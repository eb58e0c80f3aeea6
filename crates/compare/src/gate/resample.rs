// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bootstrap intervals for the gate, from what a series keeps: a histogram of the whole row, and a line per
//! second.
//!
//! - **Seconds** are drawn again in blocks of neighbours, since what happens in one second is like what
//!   happens in the next (circular block bootstrap, Politis & Romano 1992), of the cube root of their number.
//!   So are the mean of maxima, the share of seconds with a late cycle, and missed periods.
//! - **Percentiles** are drawn by rank, as in a comparison: U follows Beta(k, n - k + 1). `n` is not the
//!   number of samples but of those that are independent, as far as the row shows it. Two things lessen it:
//!   how much more the means of blocks differ than independent samples' would, and how few seconds the
//!   samples beyond the percentile come in (extremal index by blocks, Smith & Weissman 1994).
//! - The spread of the draws becomes an interval with Student's t, of as many degrees of freedom as there are
//!   blocks: a few blocks know little of their own spread. Latencies are taken by their logarithm. A direct
//!   percentile of draws would need more of them than there are figures judged at once, divided by alpha.
//!
//! Limit: in rows of 20 s whose seconds are strongly alike (AR(1) of 0.6) 16 of 200 gates were wrong without
//! a tolerance, for 10 that are stated; in rows of a minute and more 9 and fewer. With the tolerance there
//! was none of 100.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Beta, Distribution};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{GateFigure, GateOptions, Judged};
use crate::runs::Ranks;
use evidence::manifest::Second;
use evidence::row::Row;

/// A row of fewer seconds says nothing of how its seconds differ.
pub const FEWEST_SECONDS: usize = 8;

/// Draws of a figure: their spread is known to 1/sqrt(2 x 400), 4 %.
const DRAWS: usize = 400;

/// Most units that seconds are drawn in; of longer rows a unit is several seconds.
const MOST_UNITS: usize = 2_000;

/// Independent samples that must be expected beyond a percentile to draw it.
const BEYOND: f64 = 3.0;

/// Why a pair of rows cannot be judged.
pub(super) fn too_short(before: &Row, after: &Row) -> Option<String> {
    if [before, after].into_iter().any(|row| row.series.seconds.is_empty()) {
        return Some(
            "another tool's evidence has no seconds, and so does not show the variation".to_string(),
        );
    }
    let seconds = |row: &Row| row.series.seconds.iter().filter(|second| second.count > 0).count();
    let fewest = seconds(before).min(seconds(after));
    (fewest < FEWEST_SECONDS).then(|| {
        format!("{fewest} seconds are too few to estimate the variation, {FEWEST_SECONDS} are needed")
    })
}

/// The figures that both rows define.
pub(super) fn figures(before: &Row, after: &Row) -> Vec<GateFigure> {
    let missed = before.missed() > 0 || after.missed() > 0;
    // The new limit judges both: what is asked may differ in it.
    let limit_ns = after.entry.limit_ns;
    let late = |row: &Row| row.series.seconds.iter().any(|second| is_late(second, limit_ns));
    let late = limit_ns.is_some() && (late(before) || late(after));
    let defined = |figure: &GateFigure| match figure {
        GateFigure::MissedRate => missed,
        GateFigure::LateSeconds => late,
        GateFigure::SecondMax => true,
        _ => why_undefined(before, after, *figure).is_none(),
    };
    GateFigure::ALL.into_iter().filter(defined).collect()
}

/// A percentile that one of the rows does not define.
pub(super) struct Undefined {
    pub figure: GateFigure,
    pub why: String,
    /// Whether the baseline defines it, and it lies beyond what is allowed: bursts of the candidate itself
    /// leave too few independent samples, and are no reason to pass.
    pub is_beyond: bool,
}

/// The percentiles that one of the rows does not define, and why. That neither has missed periods or late
/// seconds leaves nothing open.
pub(super) fn undefined(before: &Row, after: &Row, tolerance: f64) -> Vec<Undefined> {
    let percentiles = [GateFigure::P50, GateFigure::P99, GateFigure::P99_9].into_iter();
    let undefined = |figure: GateFigure| {
        let why = why_undefined(before, after, figure)?;
        let [was, is] = [before, after].map(|row| row.quantile_ns(fraction(figure)));
        let is_more = was.zip(is).is_some_and(|(was, is)| is as f64 > was as f64 * (1.0 + tolerance));
        Some(Undefined { figure, why, is_beyond: is_more && beyond(before, figure) >= BEYOND })
    };
    percentiles.filter_map(undefined).collect()
}

/// Why a percentile is not judged; `None` where it is.
fn why_undefined(before: &Row, after: &Row, figure: GateFigure) -> Option<String> {
    if [before, after].into_iter().any(|row| row.quantile_ns(fraction(figure)).is_none()) {
        return Some("the source does not state it".to_string());
    }
    let fewest = beyond(before, figure).min(beyond(after, figure));
    let why =
        format!("{fewest:.1} independent samples lie beyond it, {BEYOND:.0} are needed; measure longer");
    (fewest < BEYOND).then_some(why)
}

/// Independent samples beyond a percentile.
fn beyond(row: &Row, figure: GateFigure) -> f64 {
    row.series.latency.count() as f64 / burstiness(row, figure) * (1.0 - fraction(figure))
}

/// Judges every figure that both rows define, each at the one-sided `level`.
pub(super) fn judge(before: &Row, after: &Row, choice: &GateOptions, level: f64) -> Vec<Judged> {
    // One generator for both sides: they must not be drawn alike.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(choice.seed);
    let sides = [before, after].map(Units::of);
    let blocks = sides.iter().map(Units::blocks).min().unwrap_or(2);
    let limit_ns = after.entry.limit_ns;
    let critical = StudentsT::new(0.0, 1.0, (blocks - 1).max(1) as f64);
    let critical = critical.map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - level));
    let judged = figures(before, after).into_iter().map(|figure| {
        let [(was, from), (is, to)] = [(before, &sides[0]), (after, &sides[1])].map(|(row, units)| {
            let draws: Vec<f64> = match figure {
                GateFigure::SecondMax => units.draw(&mut rng, |unit| (unit.max_sum_ns, unit.seconds)),
                GateFigure::LateSeconds => {
                    units.late(limit_ns).draw(&mut rng, |unit| (unit.late, unit.seconds))
                }
                GateFigure::MissedRate => {
                    units.draw(&mut rng, |unit| (unit.missed, unit.missed + unit.count))
                }
                _ => percentiles(row, figure, &mut rng),
            };
            (value(row, units, figure, limit_ns), draws)
        });
        let interval = match figure {
            GateFigure::LateSeconds | GateFigure::MissedRate => {
                let spread = critical * spread(&from).hypot(spread(&to));
                [(is - spread).max(0.0), (is + spread).min(1.0)]
            }
            _ => {
                let logs =
                    |draws: Vec<f64>| draws.into_iter().map(|draw| draw.max(1.0).ln()).collect::<Vec<_>>();
                let spread = critical * spread(&logs(from)).hypot(spread(&logs(to)));
                [is / spread.exp(), is * spread.exp()]
            }
        };
        let allowed = was * (1.0 + choice.tolerance);
        Judged {
            key: before.entry.key.clone(),
            figure,
            baseline: String::new(),
            before: was,
            after: is,
            allowed,
            interval,
            worse: interval[0] > allowed,
        }
    });
    judged.collect()
}

fn value(row: &Row, units: &Units, figure: GateFigure, limit_ns: Option<u64>) -> f64 {
    let of = |(top, bottom): (f64, f64)| if bottom > 0.0 { top / bottom } else { 0.0 };
    match figure {
        GateFigure::SecondMax => of(units.sum(|unit| (unit.max_sum_ns, unit.seconds))),
        GateFigure::LateSeconds => of(units.late(limit_ns).sum(|unit| (unit.late, unit.seconds))),
        GateFigure::MissedRate => of(units.sum(|unit| (unit.missed, unit.missed + unit.count))),
        _ => row.quantile_ns(fraction(figure)).map_or(0.0, |ns| ns as f64),
    }
}

fn fraction(figure: GateFigure) -> f64 {
    match figure {
        GateFigure::P50 => 0.5,
        GateFigure::P99 => 0.99,
        _ => 0.999,
    }
}

fn percentiles(row: &Row, figure: GateFigure, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let ranks = Ranks::of(&row.series.latency);
    let count = row.series.latency.count() as f64 / burstiness(row, figure);
    let rank = (fraction(figure) * count).min(count - 1.0).max(1.0);
    let Ok(beta) = Beta::new(rank, count - rank + 1.0) else { return Vec::new() };
    (0..DRAWS).map(|_| ranks.at(beta.sample(rng)) as f64).collect()
}

/// How many samples of the row, at that percentile, are worth one independent sample.
fn burstiness(row: &Row, figure: GateFigure) -> f64 {
    by_means(row).max(by_exceedances(row, figure))
}

/// How much more blocks of seconds differ in their means than independent samples would.
fn by_means(row: &Row) -> f64 {
    let latency = &row.series.latency;
    let (units, samples) = (Units::of(row), latency.count() as f64);
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

/// How many samples beyond the percentile come together, from the share of seconds that have any. Where all
/// seconds have some, nothing is known of it.
fn by_exceedances(row: &Row, figure: GateFigure) -> f64 {
    let value_ns = row.series.latency.quantile_ns(fraction(figure));
    let seconds = row.series.seconds.iter().filter(|second| second.count > 0);
    let (all, with) = seconds
        .fold((0u64, 0u64), |(all, with), second| (all + 1, with + u64::from(second.max_ns > value_ns)));
    if with == 0 || with == all {
        return 1.0;
    }
    let beyond = row.series.latency.above(value_ns) as f64 / all as f64;
    let seen = -(1.0 - with as f64 / all as f64).ln();
    (beyond / seen).max(1.0)
}

fn is_late(second: &Second, limit_ns: Option<u64>) -> bool {
    second.missed > 0 || limit_ns.is_some_and(|limit_ns| second.max_ns > limit_ns)
}

fn spread(draws: &[f64]) -> f64 {
    let n = draws.len() as f64;
    if n < 2.0 {
        return f64::INFINITY;
    }
    let mean = draws.iter().sum::<f64>() / n;
    (draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

/// Seconds of a row, several joined where there are very many.
struct Units {
    seconds: Vec<Second>,
    joined: usize,
    all: Vec<ResampledSecond>,
}

#[derive(Clone, Copy, Default)]
struct ResampledSecond {
    seconds: f64,
    count: f64,
    sum_ns: f64,
    max_sum_ns: f64,
    missed: f64,
    late: f64,
}

impl Units {
    fn of(row: &Row) -> Units {
        let seconds: Vec<_> = row.series.seconds.iter().filter(|s| s.count > 0).copied().collect();
        let joined = seconds.len().div_ceil(MOST_UNITS).max(1);
        Units { all: Units::join(&seconds, joined, row.entry.limit_ns), seconds, joined }
    }

    /// The same, late by another limit.
    fn late(&self, limit_ns: Option<u64>) -> Units {
        let all = Units::join(&self.seconds, self.joined, limit_ns);
        Units { seconds: Vec::new(), joined: self.joined, all }
    }

    fn join(seconds: &[Second], joined: usize, limit_ns: Option<u64>) -> Vec<ResampledSecond> {
        let unit = |part: &[Second]| {
            part.iter().fold(ResampledSecond::default(), |unit, second| ResampledSecond {
                seconds: unit.seconds + 1.0,
                count: unit.count + second.count as f64,
                sum_ns: unit.sum_ns + second.sum_ns as f64,
                max_sum_ns: unit.max_sum_ns + second.max_ns as f64,
                missed: unit.missed + second.missed as f64,
                late: unit.late + f64::from(u8::from(is_late(second, limit_ns))),
            })
        };
        seconds.chunks(joined).map(unit).collect()
    }

    /// Units in a block.
    fn block(&self) -> usize {
        (self.all.len() as f64).cbrt().ceil() as usize
    }

    fn blocks(&self) -> usize {
        self.all.len() / self.block().max(1)
    }

    fn sum(&self, of: impl Fn(&ResampledSecond) -> (f64, f64)) -> (f64, f64) {
        self.all.iter().map(of).fold((0.0, 0.0), |(a, b), (top, bottom)| (a + top, b + bottom))
    }

    /// The quotient of two sums, in resamples of circular blocks.
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
