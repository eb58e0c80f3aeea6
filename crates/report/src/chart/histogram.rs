// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms: a panel for each CPU, every load a line of steps, both axes logarithmic.
//!
//! Steps have equal widths on the logarithmic axis, but are never narrower than the coarsest source that
//! shares the axis (an imported histogram may have buckets of 1 us), so that lines of different sources
//! compare. No sample is lost: the steps of a line add up to its samples, but for those that a source only
//! counted, which the words tell.

use evidence::Row;

use crate::chart::{
    HEIGHT, LoadStyle, Panels, Plot, PlotMark, Polyline, WIDTH, drawn_cpus, latency_title, limits, listed,
    range_ns, share,
};
use crate::runs::{ProbePeriod, RowView, Runs, ShownRun};
use crate::scale::{LogScale, hundredth};
use crate::text;

/// Steps of all lines of a page together, and of one line.
const STEPS_IN_ALL: usize = 40_000;
const STEPS_OF_A_LINE: usize = 200;

/// The lower end of the count axis: one sample must stand above it.
const BELOW_ONE: f64 = 0.5;

/// The axes that all panels of a probe share.
struct Axes {
    x: LogScale,
    y: LogScale,
    /// Where steps begin and end.
    edges: Vec<u64>,
}

/// A line of a panel: a row, what it is called there, and how it is drawn beside its load's colour.
type Named<'a> = (RowView<'a>, String, &'static str);

impl Axes {
    fn of(runs: &Runs, kind: &ProbePeriod, lines: usize) -> Axes {
        let (low, high) = range_ns(runs, kind);
        let x = LogScale::around(low, high);
        let resolution_ns = runs.rows_of(kind).filter_map(|row| row.row.entry.coarse.as_ref());
        let resolution_ns = resolution_ns.map(|coarse| coarse.resolution_ns).max().unwrap_or(1);
        let edges = edges(x, share(STEPS_IN_ALL, lines, 24, STEPS_OF_A_LINE), resolution_ns);
        let tallest = runs.rows_of(kind).flat_map(|row| steps(drawn(row.row), &edges)).max();
        let tallest = tallest.unwrap_or(1).max(9) as f64;
        Axes { x, y: LogScale { from: BELOW_ONE, to: 10f64.powf(tallest.log10().ceil()) }, edges }
    }

    fn panels(&self, kind: &ProbePeriod, plots: Vec<Plot>, left_out: String) -> Panels {
        let edges = listed(self.edges.iter().map(|ns| Some(*ns as f64 / 1e3)));
        Panels { title: kind.to_string(), edges, plots, left_out }
    }
}

/// All panels of `kind`.
pub(crate) fn panels(runs: &Runs, kind: &ProbePeriod) -> Panels {
    let (cpus, left_out) = drawn_cpus(runs, kind);
    let axes = Axes::of(runs, kind, cpus.len() * runs.all.len() * runs.loads.len());
    let of = |cpu: &u32, run: &ShownRun| {
        let rows = runs.loads.iter().filter_map(|load| run.row(kind, load, *cpu));
        let rows = rows.map(|row| (row, text::short(&row.row.entry.key.load, 40), "")).collect();
        Plot {
            title: format!("cpu {cpu}"),
            run: run.mark(runs.several()),
            cpu: *cpu,
            ..panel(runs, kind, rows, &axes)
        }
    };
    let plots = cpus.iter().flat_map(|cpu| runs.all.iter().map(move |run| of(cpu, run))).collect();
    axes.panels(kind, plots, left_out)
}

/// A panel for each row that two runs have: both laid over each other.
pub(crate) fn overlaid(runs: &Runs, kind: &ProbePeriod) -> Option<Panels> {
    let [before, after] = &runs.all[..] else { return None };
    let (cpus, left_out) = drawn_cpus(runs, kind);
    let axes = Axes::of(runs, kind, cpus.len() * 2 * runs.loads.len());
    let mut plots = Vec::new();
    for (cpu, load) in cpus.iter().flat_map(|cpu| runs.loads.iter().map(move |load| (*cpu, load))) {
        let rows = [(before, "before"), (after, "after")].map(|(run, class)| {
            let row = run.row(kind, load, cpu).filter(|row| row.summary.count > 0)?;
            Some((row, class.to_string(), class))
        });
        if let [Some(before), Some(after)] = rows {
            let plot = panel(runs, kind, vec![before, after], &axes);
            plots.push(Plot { title: format!("cpu {cpu} · {}", text::short(load, 40)), cpu, ..plot });
        }
    }
    (!plots.is_empty()).then(|| axes.panels(kind, plots, left_out))
}

fn panel(runs: &Runs, kind: &ProbePeriod, rows: Vec<Named>, axes: &Axes) -> Plot {
    let Axes { x, y, edges } = axes;
    let (x, y) = (*x, *y);
    let (mut lines, mut marks, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for (row, name, class) in rows.iter().filter(|(row, ..)| row.summary.count > 0) {
        let load = &row.row.entry.key.load;
        let style = LoadStyle::of(runs.load_place(load));
        let steps = steps(drawn(row.row), edges);
        let last = steps.iter().rev().find(|count| **count > 0).copied().unwrap_or(1);
        lines.push(Polyline {
            style,
            class,
            name: name.clone(),
            path: path(&steps, edges, x, y),
            values: listed(steps.iter().map(|count| (*count > 0).then_some(*count))),
            span: [0.0, 100.0],
        });
        marks.push(PlotMark {
            style,
            class,
            x: hundredth(x.at(row.summary.max_ns as f64)),
            y: hundredth(y.at(last as f64)),
        });
        words.push(format!(
            "{name}: {} samples, 99.9 % up to {}, maximum {}",
            text::count(row.summary.count),
            row.summary.p99_9_ns.map_or("an unknown latency".to_string(), |ns| row.latency(ns)),
            row.latency(row.summary.max_ns)
        ));
        if let Some(coarse) = &row.row.entry.coarse
            && let Some(from_ns) = coarse.hidden_from_ns()
        {
            let (count, from) = (text::count(coarse.overflow_count), row.latency(from_ns));
            words.push(format!("{count} of them lie somewhere from {from} on and are not drawn"));
        }
    }
    Plot {
        description: format!("{}.", words.join("; ")),
        height: 170,
        x_title: format!("{}, logarithmic", latency_title(kind)),
        y_title: "samples per step, logarithmic",
        reading: format!("log,{},{}", x.from / 1e3, x.to / 1e3),
        x: x.ticks(6, text::axis),
        y: y.ticks(6, samples),
        limits_x: limits(rows.iter().map(|(row, ..)| *row), |ns| x.at(ns)),
        empty: if lines.is_empty() { "not measured".to_string() } else { String::new() },
        lines,
        marks,
        ..Plot::default()
    }
}

/// A number of samples as a label: `1`, `10,000`, `1 M`.
pub(super) fn samples(number: f64) -> String {
    match number {
        ..1e6 => text::count(number as u64),
        1e6..1e9 => format!("{} M", number / 1e6),
        _ => format!("{} G", number / 1e9),
    }
}

/// Where steps begin: `most` of them or fewer from end to end of `axis`, none narrower than `resolution_ns`.
fn edges(axis: LogScale, most: usize, resolution_ns: u64) -> Vec<u64> {
    let ratio = (axis.to / axis.from).powf(1.0 / most as f64);
    let resolution_ns = resolution_ns.max(1);
    let mut edge = axis.from as u64 / resolution_ns * resolution_ns;
    let mut edges = vec![edge];
    // The axis may end beyond the largest number, and the resolution is what a file states: the steps are
    // counted.
    while (edge as f64) < axis.to && edges.len() <= most {
        let next = ((edge as f64 * ratio).ceil() as u64).max(edge.saturating_add(1));
        edge = next.div_ceil(resolution_ns).saturating_mul(resolution_ns);
        edges.push(edge);
    }
    edges
}

/// Value and number of samples, but for those that the source only counted.
fn drawn(row: &Row) -> impl Iterator<Item = (u64, u64)> {
    let known = row.known_buckets().filter(|bucket| bucket.to_ns.is_some());
    known.map(|bucket| (bucket.from_ns, bucket.count))
}

/// How many samples each step holds; the first also those below it, the last those above.
fn steps(buckets: impl Iterator<Item = (u64, u64)>, edges: &[u64]) -> Vec<u64> {
    let mut steps = vec![0; edges.len().saturating_sub(1).max(1)];
    let mut place = 0;
    for (value_ns, count) in buckets {
        while place + 1 < steps.len() && edges[place + 1] <= value_ns {
            place += 1;
        }
        steps[place] = u64::saturating_add(steps[place], count);
    }
    steps
}

fn path(steps: &[u64], edges: &[u64], x: LogScale, y: LogScale) -> String {
    use std::fmt::Write;
    let across = |place: usize| (x.at(edges[place] as f64) / 100.0 * WIDTH).round();
    let up = |count: u64| (HEIGHT - y.at(count as f64) / 100.0 * HEIGHT).round();
    let (mut out, mut before) = (String::new(), 0);
    for (place, count) in steps.iter().enumerate().filter(|(place, _)| place + 1 < edges.len()) {
        if before == 0 && *count > 0 {
            let _ = write!(out, "M{} {HEIGHT}", across(place));
        }
        if *count != before {
            let _ = write!(out, "V{}", if *count == 0 { HEIGHT } else { up(*count) });
        }
        if *count > 0 {
            let following = steps.get(place + 1);
            if following != Some(count) {
                let _ = write!(out, "H{}", across(place + 1));
            }
        }
        before = *count;
    }
    if before > 0 {
        let _ = write!(out, "V{HEIGHT}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_buckets_into_steps_loses_no_sample() {
        for resolution_ns in [1, 1_000] {
            let edges = edges(LogScale::around(900.0, 1e7), 200, resolution_ns);
            assert!(edges.len() <= 201, "{}", edges.len());
            assert!(edges.is_sorted() && edges.iter().all(|edge| edge % resolution_ns == 0));
            assert_eq!(steps((0..5_000u64).map(|n| (n * n, 1)), &edges).iter().sum::<u64>(), 5_000);
        }
    }

    #[test]
    fn steps_are_counted_where_the_axis_has_no_end() {
        for (high, resolution_ns) in
            [(u64::MAX, 1), (u64::MAX, u64::MAX), (1_000, u64::MAX), (u64::MAX - 1, 1_000)]
        {
            let edges = edges(LogScale::around(10.0, high as f64), 200, resolution_ns);
            assert!(edges.len() <= 201 && edges.is_sorted(), "{high} {resolution_ns}: {}", edges.len());
        }
    }

    #[test]
    fn a_lone_sample_stands_on_the_base_line() {
        let (x, y) = (LogScale { from: 1_000.0, to: 10_000.0 }, LogScale { from: 0.5, to: 50.0 });
        assert_eq!(path(&[0, 1, 0], &[1_000, 2_000, 5_000, 10_000], x, y), "M1204 1000V849H2796V1000");
    }

    #[test]
    fn counts_are_labelled_shortly() {
        assert_eq!([1.0, 100.0, 1e4, 1e6, 1e9].map(samples), ["1", "100", "10,000", "1 M", "1 G"]);
    }
}
