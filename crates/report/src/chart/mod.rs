// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts as geometry: places in per cent of the plot, paths in a box of [`WIDTH`] x [`HEIGHT`] that the page
//! stretches to whatever room there is. Text is placed beside the stretched box, so that it keeps its size on
//! a phone, on a desk and on paper.
//!
//! A page carries a bounded number of steps, columns and panels (the constants below), shared among the
//! series, so that its size depends neither on the length of a run nor much on the number of CPUs.

use std::collections::BTreeMap;

use machine::quantity::Time;
use serde::Serialize;

use crate::runs::{ProbePeriod, Runs};
use crate::scale::{GridLine, hundredth};
use crate::text;

pub(crate) mod histogram;
pub(crate) mod jitter;
pub(crate) mod maxima;
pub(crate) mod persistence;
pub(crate) mod responses;
pub(crate) mod timeline;

/// The box that paths are written in.
pub(crate) const WIDTH: f64 = 4000.0;
/// Its height; y grows downward.
pub(crate) const HEIGHT: f64 = 1000.0;

/// Panels of one chart kind that a page carries for each run.
const PANELS: usize = 48;

/// Colours and shapes that tell loads apart.
const STYLES: usize = 8;

/// One plot.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Plot {
    /// Its subject, above it.
    pub title: String,
    /// The run's letter, where there are several.
    pub run: String,
    /// A description for readers who cannot see it.
    pub description: String,
    /// The CPU that it is of.
    pub cpu: u32,
    /// Its height in CSS pixels.
    pub height: u32,
    /// The title of the x axis.
    pub x_title: String,
    pub y_title: &'static str,
    /// Ticks from the left.
    pub x: Vec<GridLine>,
    /// Ticks from the bottom.
    pub y: Vec<GridLine>,
    /// Limits, from the left.
    pub limits_x: Vec<GridLine>,
    /// Limits, from the bottom.
    pub limits_y: Vec<GridLine>,
    /// Parts of the x axis with a name each.
    pub bands: Vec<Band>,
    pub lines: Vec<Polyline>,
    pub marks: Vec<PlotMark>,
    /// The smallest and the largest, from the left.
    pub extremes: Vec<GridLine>,
    /// How the script of the page reads places as values, in the axis's unit: `log,FROM,TO`,
    /// `linear,FROM,TO`.
    pub reading: String,
    /// Figures below the plot.
    pub notes: Vec<PlotNote>,
    /// A picture that fills the plot, as a data URI.
    pub picture: String,
    /// Why there is nothing to draw.
    pub empty: String,
}

/// A path.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Polyline {
    pub style: LoadStyle,
    /// Its class beside its colour; may be empty.
    pub class: &'static str,
    pub name: String,
    pub path: String,
    /// The figures that it is drawn from, one for each step and nothing where there is none, with commas
    /// between: what the page's script shows under the pointer.
    pub values: String,
    /// Where the first step begins and the last one ends, per cent from the left.
    pub span: [f64; 2],
}

/// A line of figures below a plot.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PlotNote {
    pub style: LoadStyle,
    pub name: String,
    pub words: String,
}

/// A shape at a point.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PlotMark {
    pub style: LoadStyle,
    /// As [`Polyline::class`].
    pub class: &'static str,
    /// Per cent from the left.
    pub x: f64,
    /// Per cent from the bottom.
    pub y: f64,
}

/// A part of the x axis.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Band {
    pub style: LoadStyle,
    /// Its name where there is room for all of it even on a phone.
    pub name: String,
    /// Where it begins, per cent from the left.
    pub from: f64,
}

/// The mark of a load in every chart.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct LoadStyle {
    /// Its place among all loads.
    pub load: usize,
    pub colour: usize,
    pub shape: usize,
}

impl LoadStyle {
    pub fn of(place: usize) -> LoadStyle {
        LoadStyle { load: place, colour: place % STYLES, shape: (place + place / STYLES) % STYLES }
    }
}

/// Panels of one probe: a row of them for each CPU, a column for each run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Panels {
    pub title: String,
    /// Where the steps of all lines begin and end, as [`Polyline::values`]; may be empty.
    pub edges: String,
    pub plots: Vec<Plot>,
    /// The parts that are not drawn, in words; may be empty.
    pub left_out: String,
}

/// Numbers with commas between them, nothing for none.
fn listed<T: std::fmt::Display>(numbers: impl Iterator<Item = Option<T>>) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for (place, number) in numbers.enumerate() {
        if place > 0 {
            out.push(',');
        }
        if let Some(number) = number {
            let _ = write!(out, "{number}");
        }
    }
    out
}

/// The title of an axis of latencies.
fn latency_title(kind: &ProbePeriod) -> String {
    let what = kind.row_kind().measures();
    match kind.virtual_time {
        true => format!("{what}, thousands of virtual ns"),
        false => format!("{what}, µs"),
    }
}

/// The CPUs of `kind` that are drawn — the worst where there are too many — and a word on the others.
fn drawn_cpus(runs: &Runs, kind: &ProbePeriod) -> (Vec<u32>, String) {
    let all = runs.cpus(kind);
    let mut ranked: Vec<u32> = all.iter().copied().collect();
    if all.len() <= PANELS {
        return (ranked, String::new());
    }
    let mut worst_ns = BTreeMap::<u32, u64>::new();
    for row in runs.rows_of(kind) {
        let worst = worst_ns.entry(row.row.entry.key.cpu).or_default();
        *worst = row.summary.max_ns.max(*worst);
    }
    ranked.sort_by_key(|cpu| (std::cmp::Reverse(worst_ns.get(cpu).copied()), *cpu));
    ranked.truncate(PANELS);
    ranked.sort_unstable();
    (ranked, left_out(PANELS, all.len(), "CPUs"))
}

fn left_out(drawn: usize, all: usize, what: &str) -> String {
    format!("Drawn are the {drawn} {what} with the largest maxima, of {all}; the table has them all.")
}

/// The share of each of `sharers` in `total`, between `least` and `most`.
fn share(total: usize, sharers: usize, least: usize, most: usize) -> usize {
    (total / sharers.max(1)).clamp(least, most)
}

/// The limits of `rows` without repetition, as places on an axis.
fn limits<'r>(
    rows: impl Iterator<Item = crate::runs::RowView<'r>>,
    at: impl Fn(f64) -> f64,
) -> Vec<GridLine> {
    let limits: std::collections::BTreeSet<u64> = rows.filter_map(|row| row.row.entry.limit_ns).collect();
    let tick = |ns: u64| GridLine {
        at: hundredth(at(ns as f64)),
        label: format!("limit {}", text::page(Time::exact(ns))),
    };
    limits.into_iter().map(tick).collect()
}

/// The latencies of `kind` over all runs: smallest, and largest with its limits.
fn range_ns(runs: &Runs, kind: &ProbePeriod) -> (f64, f64) {
    let (mut low, mut high) = (u64::MAX, 0);
    for row in runs.rows_of(kind).filter(|row| row.summary.count > 0) {
        low = low.min(row.summary.min_ns.unwrap_or(row.summary.max_ns));
        high = high.max(row.summary.max_ns).max(row.row.entry.limit_ns.unwrap_or(0));
    }
    // Below 10 ns no clock tells latencies apart, and a logarithmic axis has no zero.
    if low > high { (1e3, 1e6) } else { ((low.max(10)) as f64, high as f64) }
}
