// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intervals of the change between two rows. Both vary, and neither is the baseline of the other: a change is
//! one only where its interval excludes none.
//!
//! The maximum has no spread to draw: what a longer run finds is not in a resample. It is judged by ranks. If
//! both runs are of one process, each of the largest blocks of seconds is as likely in either: that the `k`
//! largest all lie in one has a chance of its part of the blocks to the power of `k`, whatever the process.

use rand::rngs::Xoshiro256PlusPlus;

use super::ComparedFigure;
use crate::resample::{self, BEYOND, RESOLUTION, Units};
use evidence::row::Row;

/// Seed of the draws: any number does, as long as it stays.
const SEED: u64 = 0x1507_A70E;

/// The intervals of one pair of rows.
pub(super) struct Intervals<'a> {
    rows: [&'a Row; 2],
    /// Absent where a row does not show how its seconds differ.
    units: Option<[Units; 2]>,
    /// The chance of an error at each end of one.
    level: f64,
    rng: Xoshiro256PlusPlus,
}

impl<'a> Intervals<'a> {
    pub fn of(before: &'a Row, after: &'a Row, level: f64) -> Self {
        let rows = [before, after];
        let is_known = rows.iter().all(|row| resample::too_short(row).is_none());
        let units = is_known.then(|| rows.map(|row| Units::of(row, None)));
        // One generator for both sides: they must not be drawn alike.
        Intervals { rows, units, level, rng: resample::generator(SEED) }
    }

    /// The interval of the change of `figure` in percent; `None` where the data define none.
    pub fn of_figure(&mut self, figure: ComparedFigure) -> Option<[f64; 2]> {
        let units = self.units.as_ref()?;
        let [before, after] = [figure.of(self.rows[0])?, figure.of(self.rows[1])?];
        if before <= 0.0 || after <= 0.0 {
            return None;
        }
        let ends = match (figure, figure.fraction()) {
            (ComparedFigure::Max, _) => self.by_ranks()?,
            (_, fraction) => {
                let mut spread = 0.0_f64;
                for (row, units) in self.rows.iter().zip(units) {
                    spread = spread.hypot(match fraction {
                        Some(fraction) if resample::beyond(row, units, fraction) < BEYOND => return None,
                        Some(fraction) => resample::percentile_spread(row, units, fraction, &mut self.rng),
                        None => units.mean_spread(&mut self.rng),
                    });
                }
                let blocks = units.iter().map(Units::blocks).min().unwrap_or(0);
                let reach = (resample::critical(blocks, self.level) * spread).max(RESOLUTION).exp();
                [after / before / reach, after / before * reach]
            }
        };
        let percent = ends.map(|ratio| 100.0 * (ratio - 1.0));
        percent.iter().all(|end| end.is_finite()).then_some(percent)
    }

    /// The least and the most that the ratio of the maxima is, as far as ranks tell.
    fn by_ranks(&self) -> Option<[f64; 2]> {
        let [before, after] = self.units.as_ref()?.each_ref().map(Units::block_maxima);
        let all = (before.len() + after.len()) as f64;
        let place =
            |side: &[u64]| ((self.level.ln() / (side.len() as f64 / all).ln()).ceil() as usize).max(1);
        let last = |side: &[u64]| side.get(place(side) - 1).copied();
        let ratio = |top: u64, bottom: u64| top.max(1) as f64 / bottom.max(1) as f64;
        // The largest of the other side must be below all of these.
        let low = ratio(last(&after)?, *before.first()?).min(ratio(after[0], before[0]));
        let high = ratio(*after.first()?, last(&before)?).max(ratio(after[0], before[0]));
        Some([low, high])
    }
}
