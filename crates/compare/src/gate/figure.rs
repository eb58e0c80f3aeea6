// SPDX-License-Identifier: MIT OR Apache-2.0
//! One figure of one row against one baseline: worse, not worse, or not judged.
//!
//! The spread is the baseline's, of a run as long as the candidate: bursts of the candidate raise the alarm,
//! they do not widen what is tolerated. Shares of seconds and of periods vary in both runs, since a baseline
//! may have none. A figure that is not worse is judged only where the gate would have seen it doubled, with
//! the chance [`POWER`].

use super::{GateFigure, GateOptions};
use crate::resample::{self, BEYOND, Units};
use evidence::row::Row;

/// The quantile of the normal distribution that is the chance, 80 %, with which a doubling is seen.
const POWER: f64 = 0.842;

/// A figure that could be judged.
pub(super) struct GateChange {
    pub before: f64,
    pub after: f64,
    pub allowed: f64,
    pub interval: [f64; 2],
    pub worse: bool,
    /// Why a doubling would not be seen; absent where it would.
    pub blind: Option<Blind>,
}

/// Why a figure cannot be judged.
pub(super) struct Blind {
    pub why: String,
    /// Seconds that both runs need for it, where that is known.
    pub needs_s: Option<u64>,
}

/// Two rows with their seconds.
pub(super) struct GatePair<'a> {
    before: &'a Row,
    after: &'a Row,
    units: [Units; 2],
    length_s: f64,
}

impl GatePair<'_> {
    pub fn of<'a>(before: &'a Row, after: &'a Row) -> GatePair<'a> {
        // One limit judges both.
        let limit_ns = after.entry.limit_ns;
        let units = [before, after].map(|row| Units::of(row, limit_ns));
        let last = |row: &Row| row.series.seconds.last().map_or(0, |last| u64::from(last.second) + 1);
        GatePair { before, after, units, length_s: last(before).max(last(after)) as f64 }
    }

    /// The figures that are asked: latencies always, late seconds and missed periods where there are any.
    pub fn figures(&self) -> Vec<GateFigure> {
        let missed = self.before.missed() > 0 || self.after.missed() > 0;
        let late = self.units.iter().any(|units| units.sum(|unit| (unit.late, unit.seconds)).0 > 0.0);
        let late = late && self.after.entry.limit_ns.is_some();
        let is_asked = |figure: &GateFigure| match figure {
            GateFigure::MissedRate => missed,
            GateFigure::LateSeconds => late,
            _ => true,
        };
        GateFigure::ALL.into_iter().filter(is_asked).collect()
    }

    /// Judges a figure at the one-sided `level`; an error says why it has no interval.
    pub fn judge(&self, figure: GateFigure, choice: &GateOptions, level: f64) -> Result<GateChange, Blind> {
        self.has_samples_beyond(figure)?;
        let mut rng = resample::generator(choice.seed ^ figure as u64);
        let [before, after] = [0, 1].map(|side| self.value(figure, side));
        let blocks = self.units.iter().map(Units::blocks).min().unwrap_or(0);
        let critical = resample::critical(blocks, level);
        let allowed = before * (1.0 + choice.tolerance);
        if figure.is_share() {
            let [from, to] = self.units.each_ref().map(|units| units.spread(&mut rng, figure.parts()));
            let spread = from.hypot(to);
            let interval = [(after - critical * spread).max(0.0), (after + critical * spread).min(1.0)];
            let effect = (2.0 * before).max(after) - allowed;
            let blind = self.blind(choice, (critical + POWER) * spread, effect);
            return Ok(GateChange { before, after, allowed, interval, worse: interval[0] > allowed, blind });
        }
        let own = match figure.fraction() {
            Some(fraction) => resample::percentile_spread(self.before, &self.units[0], fraction, &mut rng),
            None => self.units[0].log_spread(&mut rng, figure.parts()),
        };
        let longer =
            self.before.series.latency.count() as f64 / self.after.series.latency.count().max(1) as f64;
        let spread = own * (1.0 + longer).sqrt();
        let reach = (critical * spread).exp();
        let interval = [after / reach, after * reach];
        let effect = (2.0 / (1.0 + choice.tolerance)).ln();
        let blind = self.blind(choice, (critical + POWER) * spread, effect);
        Ok(GateChange { before, after, allowed, interval, worse: interval[0] > allowed, blind })
    }

    /// Why a change by `effect` would not be seen where figures vary by `spread`.
    fn blind(&self, choice: &GateOptions, spread: f64, effect: f64) -> Option<Blind> {
        // Where a doubling is tolerated none needs to be seen.
        if spread <= effect || choice.tolerance >= 1.0 {
            return None;
        }
        let longer = (spread / effect).powi(2);
        let needs_s = (effect > 0.0 && longer.is_finite()).then(|| (self.length_s * longer).ceil() as u64);
        let why = "it varies too much from second to second to see it doubled".to_string();
        Some(Blind { why, needs_s })
    }

    /// Whether enough independent samples lie beyond a percentile, as far as the baseline shows bursts.
    fn has_samples_beyond(&self, figure: GateFigure) -> Result<(), Blind> {
        let Some(fraction) = figure.fraction() else { return Ok(()) };
        if [self.before, self.after].into_iter().any(|row| row.quantile_ns(fraction).is_none()) {
            return Err(Blind { why: "the source does not state it".to_string(), needs_s: None });
        }
        let before = resample::beyond(self.before, &self.units[0], fraction);
        let counts = [self.before, self.after].map(|row| row.series.latency.count() as f64);
        let fewest = before.min(before * counts[1] / counts[0]);
        if fewest >= BEYOND {
            return Ok(());
        }
        let why = format!("{fewest:.1} independent samples lie beyond it, {BEYOND:.0} are needed");
        Err(Blind { why, needs_s: Some((self.length_s * BEYOND / fewest).ceil() as u64) })
    }

    fn value(&self, figure: GateFigure, side: usize) -> f64 {
        let of = |(top, bottom): (f64, f64)| if bottom > 0.0 { top / bottom } else { 0.0 };
        let row = [self.before, self.after][side];
        match figure.fraction() {
            Some(fraction) => row.quantile_ns(fraction).map_or(0.0, |ns| ns as f64),
            None => of(self.units[side].sum(figure.parts())),
        }
    }
}

impl GateFigure {
    /// Whether it is a share of seconds or periods, and no latency.
    fn is_share(self) -> bool {
        matches!(self, GateFigure::LateSeconds | GateFigure::MissedRate)
    }

    /// The part of all samples that a percentile is not exceeded by.
    fn fraction(self) -> Option<f64> {
        match self {
            GateFigure::P50 => Some(0.5),
            GateFigure::P99 => Some(0.99),
            GateFigure::P99_9 => Some(0.999),
            _ => None,
        }
    }

    /// Of a figure that is a quotient, what is added up over seconds.
    fn parts(self) -> fn(&resample::ResampledSecond) -> (f64, f64) {
        match self {
            GateFigure::LateSeconds => |unit| (unit.late, unit.seconds),
            GateFigure::MissedRate => |unit| (unit.missed, unit.missed + unit.count),
            _ => |unit| (unit.max_sum_ns, unit.seconds),
        }
    }
}
