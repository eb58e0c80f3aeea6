// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signed jitter as LinuxCNC's latency-histogram draws it: how far the time between two wakeups was off the
//! period, early to the left and late to the right of zero, the axis of deviations linear, that of counts
//! logarithmic, and the samples beyond the axis counted at its ends.
//!
//! The axis of a probe holds all but one of a thousand samples of every row, so that one spike does not
//! narrow the rest to a line.

use std::fmt::Write;

use evidence::{Histogram, Series};

use crate::chart::histogram::samples;
use crate::chart::{HEIGHT, LoadStyle, Panels, Plot, PlotNote, Polyline, WIDTH, drawn_cpus, listed};
use crate::runs::{ProbePeriod, RowView, Runs, ShownRun};
use crate::scale::{GridLine, LogScale, hundredth, linear_ticks};
use crate::text;

/// Bins on each side of zero.
const BINS: usize = 100;

/// The part of a row's samples that its axis holds at least.
const HELD: f64 = 0.999;

/// The lower end of the count axis: one sample must stand above it.
const BELOW_ONE: f64 = 0.5;

/// Samples by bin, from the earliest to the latest, and those beyond.
struct Bins {
    counts: Vec<u64>,
    earlier: u64,
    later: u64,
}

impl Bins {
    fn of(series: &Series, width_ns: u64) -> Bins {
        let mut bins = Bins { counts: vec![0; 2 * BINS], earlier: 0, later: 0 };
        for bucket in series.late.buckets() {
            match bins.counts.get_mut(BINS + (bucket.from_ns / width_ns) as usize) {
                Some(bin) => *bin = bin.saturating_add(bucket.count),
                None => bins.later = bins.later.saturating_add(bucket.count),
            }
        }
        for bucket in series.early.buckets() {
            match BINS.checked_sub(1 + (bucket.from_ns / width_ns) as usize) {
                Some(bin) => bins.counts[bin] = bins.counts[bin].saturating_add(bucket.count),
                None => bins.earlier = bins.earlier.saturating_add(bucket.count),
            }
        }
        bins
    }
}

fn has_jitter(row: &RowView) -> bool {
    row.row.series.early.count() > 0 || row.row.series.late.count() > 0
}

/// All panels of `kind`; none where no source recorded jitter.
pub(crate) fn panels(runs: &Runs, kind: &ProbePeriod) -> Option<Panels> {
    let rows: Vec<_> = runs.rows_of(kind).filter(has_jitter).collect();
    let width_ns = width_ns(rows.iter().map(|row| &row.row.series))?;
    let tallest = rows.iter().flat_map(|row| Bins::of(&row.row.series, width_ns).counts).max().unwrap_or(1);
    let y = LogScale { from: BELOW_ONE, to: 10f64.powf((tallest.max(9) as f64).log10().ceil()) };
    let (cpus, left_out) = drawn_cpus(runs, kind);
    let plots = cpus
        .iter()
        .flat_map(|cpu| runs.all.iter().filter_map(|run| panel(runs, run, kind, *cpu, width_ns, y)));
    let plots = plots.collect();
    let edge = |bin: usize| Some((bin as f64 - BINS as f64) * width_ns as f64 / 1e3);
    let edges = listed((0..=2 * BINS).map(edge));
    Some(Panels { title: kind.to_string(), edges, plots, left_out })
}

/// The width of a bin: the same for all rows, a round number. `None` where there is no sample.
fn width_ns<'a>(all: impl Iterator<Item = &'a Series>) -> Option<u64> {
    let held = |side: &Histogram| if side.count() > 0 { side.quantile_ns(HELD) } else { 0 };
    let reach_ns = all.map(|series| held(&series.early).max(held(&series.late))).max()?;
    let least = (reach_ns as f64 / BINS as f64).max(10.0);
    let decade = 10f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    round.into_iter().find(|width| *width >= least).map(|width| width as u64)
}

fn panel(
    runs: &Runs,
    run: &ShownRun,
    kind: &ProbePeriod,
    cpu: u32,
    width_ns: u64,
    y: LogScale,
) -> Option<Plot> {
    let rows = runs.loads.iter().filter_map(|load| run.row(kind, load, cpu)).filter(has_jitter);
    let reach_us = (BINS as u64 * width_ns) as f64 / 1e3;
    let (mut lines, mut notes, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let load = &row.row.entry.key.load;
        let (style, name) = (LoadStyle::of(runs.load_place(load)), text::short(load, 40));
        let bins = Bins::of(&row.row.series, width_ns);
        let figures = figures(&row, &bins);
        words.push(format!("{name}: {figures}"));
        notes.push(PlotNote { style, name: name.clone(), words: figures });
        let values = listed(bins.counts.iter().map(|count| (*count > 0).then_some(*count)));
        let path = path(&bins.counts, y);
        lines.push(Polyline { style, class: "filled", name, path, values, span: [0.0, 100.0] });
    }
    (!lines.is_empty()).then(|| Plot {
        title: format!("cpu {cpu}"),
        run: run.mark(runs.several()),
        description: format!("Signed jitter. {}.", words.join("; ")),
        cpu,
        height: 170,
        x_title: "jitter, µs: early below zero, late above".to_string(),
        y_title: "samples per bin, logarithmic",
        reading: format!("linear,{},{reach_us}", -reach_us),
        x: ticks(reach_us),
        y: y.ticks(6, samples),
        lines,
        notes,
        ..Plot::default()
    })
}

/// Ticks so that zero has one: those of the right half, and the same on the left.
fn ticks(reach_us: f64) -> Vec<GridLine> {
    let half = linear_ticks(reach_us * 1e3, 3, signed);
    let right = half.iter().map(|tick| GridLine { at: hundredth(50.0 + tick.at / 2.0), ..tick.clone() });
    let left = half.iter().skip(1).rev().map(|tick| GridLine {
        at: hundredth(50.0 - tick.at / 2.0),
        label: tick.label.replacen('+', "−", 1),
    });
    left.chain(right).collect()
}

/// `+20`, `0`.
fn signed(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", text::axis(ns)) } else { "0".to_string() }
}

/// `−12.3 to +45.6 µs, standard deviation 2.10 µs; 3 samples beyond the axis`.
fn figures(row: &RowView, bins: &Bins) -> String {
    let side = |ns: i64| {
        let sign = if ns < 0 { "−" } else { "+" };
        format!("{sign}{}", text::figure(ns.unsigned_abs() as f64))
    };
    let summary = row.summary;
    let (Some(min), Some(max), Some(deviation)) =
        (summary.jitter_min_ns, summary.jitter_max_ns, summary.jitter_stddev_ns)
    else {
        return "no jitter".to_string();
    };
    let mut words =
        format!("{} to {} µs, standard deviation {} µs", side(min), side(max), text::figure(deviation));
    let beyond = bins.earlier.saturating_add(bins.later);
    if beyond > 0 {
        let (earlier, later) = (text::count(bins.earlier), text::count(bins.later));
        let _ = write!(words, "; beyond the axis {earlier} earlier, {later} later");
    }
    words
}

/// Upright steps from the base line, each bin as wide as all others.
fn path(counts: &[u64], y: LogScale) -> String {
    let across = |bin: usize| (bin as f64 / counts.len() as f64 * WIDTH).round();
    let up = |count: u64| match count {
        0 => HEIGHT,
        _ => (HEIGHT - y.at(count as f64) / 100.0 * HEIGHT).round(),
    };
    let (mut out, mut before) = (format!("M0 {HEIGHT}"), 0);
    for (bin, count) in counts.iter().enumerate() {
        if *count != before {
            let _ = write!(out, "H{}V{}", across(bin), up(*count));
            before = *count;
        }
    }
    let _ = write!(out, "H{WIDTH}V{HEIGHT}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_samples_lie_left_of_zero_and_none_is_lost() {
        let mut series = Series::default();
        series.early.record_many(150, 3);
        series.late.record_many(0, 5);
        series.late.record_many(250, 2);
        series.late.record_many(1_000_000, 1);
        let bins = Bins::of(&series, 100);
        assert_eq!((bins.counts[BINS - 2], bins.counts[BINS], bins.counts[BINS + 2]), (3, 5, 2));
        assert_eq!((bins.earlier, bins.later), (0, 1));
        assert_eq!(bins.counts.iter().sum::<u64>() + bins.later, 11);
    }

    #[test]
    fn one_spike_does_not_narrow_the_rest() {
        let mut series = Series::default();
        series.late.record_many(4_000, 100_000);
        series.late.record_many(40_000_000, 1);
        assert_eq!(width_ns(std::iter::once(&series)), Some(50));
        assert_eq!(width_ns(std::iter::empty()), None);
    }

    #[test]
    fn the_axis_has_zero_in_its_middle() {
        let ticks = ticks(50.0);
        let zero = ticks.iter().find(|tick| tick.label == "0").unwrap();
        assert_eq!((zero.at, ticks[0].at, ticks.last().unwrap().at), (50.0, 10.0, 90.0));
        assert_eq!(ticks[0].label.replace('−', "+"), ticks.last().unwrap().label);
    }

    #[test]
    fn steps_stand_on_the_base_line() {
        let y = LogScale { from: 0.5, to: 50.0 };
        assert_eq!(path(&[0, 5, 0, 0], y), "M0 1000H1000V500H2000V1000H4000V1000");
    }
}
