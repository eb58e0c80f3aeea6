// SPDX-License-Identifier: MIT OR Apache-2.0
//! Axes: values to places between 0 and 100 (per cent of the plot), and ticks at round values.

use serde::Serialize;

/// A line of the grid; without a label a faint one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GridLine {
    /// Per cent of the axis.
    pub at: f64,
    /// Its label; may be empty.
    pub label: String,
}

/// A logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogScale {
    pub from: f64,
    pub to: f64,
}

impl LogScale {
    /// An axis that holds `low..=high`, widened to the next round values (1, 2, 5 times a power of ten).
    pub fn around(low: f64, high: f64) -> LogScale {
        let low = low.max(1e-9);
        let (from, to) = (round_down(low), round_up(high.max(low)));
        if from < to { LogScale { from, to } } else { LogScale { from: from / 2.0, to: to * 2.0 } }
    }

    /// Per cent of the axis, values beyond its ends put on them.
    pub fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        100.0 * (value / self.from).ln() / (self.to / self.from).ln()
    }

    /// Ticks at every power of ten, labelled as room allows for `most` labels, and faint ones between; where
    /// the axis is short, 2 and 5 are labelled too.
    pub fn ticks(&self, most: usize, label: impl Fn(f64) -> String) -> Vec<GridLine> {
        let decades = (self.to / self.from).log10();
        let (first, last) = (self.from.log10().floor() as i32, (self.to * 1.000_001).log10().floor() as i32);
        let every = (decades / most as f64).ceil().max(1.0) as i32;
        let in_between: &[f64] = if decades * 3.0 < most as f64 - 1.0 { &[2.0, 5.0] } else { &[] };
        let faint: &[f64] = if every > 1 { &[] } else { &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0] };
        let mut ticks = Vec::new();
        for power in first..=last {
            let decade = 10f64.powi(power);
            for factor in [1.0].iter().chain(faint) {
                let value = decade * factor;
                if value < self.from * 0.999_999 || value > self.to * 1.000_001 {
                    continue;
                }
                let named =
                    if *factor == 1.0 { power.rem_euclid(every) == 0 } else { in_between.contains(factor) };
                let label = if named { label(value) } else { String::new() };
                ticks.push(GridLine { at: hundredth(self.at(value)), label });
            }
        }
        ticks
    }
}

/// Ticks of a linear axis from 0 to `to`, at most `most`, at multiples of 1, 2 or 5 times a power of ten.
pub(crate) fn linear_ticks(to: f64, most: usize, label: impl Fn(f64) -> String) -> Vec<GridLine> {
    ticks_every(round_up(to / most as f64), to, label)
}

/// Ticks of an axis of seconds from 0 to `to`, at most `most`, at round times.
pub(crate) fn time_ticks(to: f64, most: usize) -> Vec<GridLine> {
    const STEPS: [f64; 18] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0,
        21_600.0, 43_200.0, 86_400.0,
    ];
    let step = STEPS.into_iter().find(|step| to / step <= most as f64);
    let step = step.unwrap_or_else(|| round_up(to / most as f64 / 86_400.0) * 86_400.0);
    ticks_every(step, to, |seconds| match (seconds, step) {
        (0.0, _) => "0".to_string(),
        (_, 3600.0..) => format!("{} h", seconds / 3600.0),
        (_, 60.0..) => format!("{} min", seconds / 60.0),
        _ => format!("{seconds} s"),
    })
}

fn ticks_every(step: f64, to: f64, label: impl Fn(f64) -> String) -> Vec<GridLine> {
    let count = (to / step * 1.000_001).floor() as usize;
    let tick = |value: f64| GridLine { at: hundredth(100.0 * value / to), label: label(value) };
    (0..=count).map(|n| tick(n as f64 * step)).collect()
}

/// Rounded to a hundredth: what a place in a plot is worth writing.
pub(crate) fn hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The largest of 1, 2 and 5 times a power of ten that is not above `value`.
fn round_down(value: f64) -> f64 {
    let decade = 10f64.powi(value.log10().floor() as i32);
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * decade <= value * 1.000_001);
    factor.unwrap_or(1.0) * decade
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `value`.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powi(value.log10().floor() as i32);
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * decade >= value * 0.999_999);
    factor.unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_round_values() {
        assert_eq!(LogScale::around(1_234.0, 412_000.0), LogScale { from: 1_000.0, to: 500_000.0 });
        assert_eq!(LogScale::around(700.0, 700.0), LogScale { from: 500.0, to: 1_000.0 });
        assert_eq!(LogScale::around(1_000.0, 1_000.0), LogScale { from: 500.0, to: 2_000.0 });
    }

    #[test]
    fn every_power_of_ten_is_labelled_once() {
        let ticks = LogScale::around(1_000.0, 10_000_000.0).ticks(6, crate::text::axis);
        let labels: Vec<_> =
            ticks.iter().map(|t| t.label.as_str()).filter(|label| !label.is_empty()).collect();
        assert_eq!(labels, ["1", "10", "100", "1,000", "10,000"]);
        assert_eq!((ticks[0].at, ticks.last().map(|t| t.at)), (0.0, Some(100.0)));
    }

    #[test]
    fn a_long_run_is_ticked_in_hours_and_a_short_one_in_seconds() {
        let labels = |to| time_ticks(to, 6).into_iter().map(|tick| tick.label).collect::<Vec<_>>();
        assert_eq!(labels(86_400.0), ["0", "6 h", "12 h", "18 h", "24 h"]);
        assert_eq!(labels(25.0), ["0", "5 s", "10 s", "15 s", "20 s", "25 s"]);
    }
}
