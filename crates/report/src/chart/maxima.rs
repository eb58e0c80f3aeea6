// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maxima under each load as bars, with the limit: the bar is the worst CPU, ticks on it are all the others.
//!
//! The axis is linear from zero as long as the smallest bar can be told from nothing, otherwise logarithmic.

use serde::Serialize;

use crate::chart::{LoadStyle, range_ns};
use crate::runs::{ProbePeriod, RowView, Runs, ShownRun};
use crate::scale::{GridLine, LogScale, hundredth, linear_ticks};
use crate::text;

/// The bars of one probe.
#[derive(Debug, Serialize)]
pub(crate) struct Bars {
    /// What the bars are of.
    pub what: &'static str,
    pub title: String,
    pub description: String,
    pub height: u32,
    pub x: Vec<GridLine>,
    pub bars: Vec<MaximumBar>,
}

/// One load of one run.
#[derive(Debug, Serialize)]
pub(crate) struct MaximumBar {
    /// Where its line of text begins, in CSS pixels from the top.
    pub top: u32,
    /// From there to the next bar.
    pub height: u32,
    pub style: LoadStyle,
    pub load: String,
    /// The run's letter, where there are several.
    pub run: String,
    /// The maximum and where it was, or why there is none.
    pub value: String,
    /// `ok`, `late`, `none`, or `count` where nothing is judged.
    pub state: &'static str,
    /// Its length in per cent.
    pub length: f64,
    /// The maxima of all CPUs.
    pub cpus: Vec<f64>,
    /// The limit.
    pub limit: Option<f64>,
}

/// Height of a bar with its line of text.
pub(crate) const BAR: u32 = 34;
/// Between two loads.
pub(crate) const GAP: u32 = 8;

enum MaximaAxis {
    Linear(f64),
    Log(LogScale),
}

impl MaximaAxis {
    fn at(&self, ns: u64) -> f64 {
        hundredth(match self {
            MaximaAxis::Linear(to) => ns as f64 / to * 100.0,
            MaximaAxis::Log(log) => log.at(ns as f64),
        })
    }
}

/// The bars of `kind`.
pub(crate) fn bars(runs: &Runs, kind: &ProbePeriod) -> Bars {
    let least = runs.rows_of(kind).filter(|row| row.summary.count > 0).map(|row| row.summary.max_ns).min();
    let (least, high) = (least.unwrap_or(1) as f64, range_ns(runs, kind).1);
    let (axis, x) = if high / least > 25.0 {
        let log = LogScale::around(least / 2.0, high * 1.2);
        (MaximaAxis::Log(log), log.ticks(5, text::time))
    } else {
        let to = high * 1.05;
        let mut ticks = linear_ticks(to, 5, text::time);
        ticks[0].label = "0".to_string();
        (MaximaAxis::Linear(to), ticks)
    };
    let (mut bars, mut top, mut words) = (Vec::new(), 0, Vec::new());
    for load in &runs.loads {
        let before = bars.len();
        for run in &runs.all {
            if let Some(mut bar) = bar(runs, run, kind, load, &axis) {
                (bar.top, top) = (top, top + BAR);
                let run = if bar.run.is_empty() { String::new() } else { format!(" in run {}", bar.run) };
                words.push(format!("{}{run}: {}", bar.load, bar.value));
                bars.push(bar);
            }
        }
        if let Some(last) = bars[before..].last_mut() {
            last.height += GAP;
            top += GAP;
        }
    }
    let limits = super::limits(runs.rows_of(kind), |_| 0.0);
    let limit = if let [only] = &limits[..] { format!(" · {}", only.label) } else { String::new() };
    let scale = if matches!(axis, MaximaAxis::Log(_)) { " · logarithmic" } else { "" };
    Bars {
        what: "Maxima under each load",
        title: format!("{kind}{limit}{scale}"),
        description: format!("Largest latency under each load. {}.", words.join("; ")),
        height: top,
        x,
        bars,
    }
}

fn bar(runs: &Runs, run: &ShownRun, kind: &ProbePeriod, load: &str, axis: &MaximaAxis) -> Option<MaximumBar> {
    let rows: Vec<RowView> = runs.cpus(kind).into_iter().filter_map(|cpu| run.row(kind, load, cpu)).collect();
    let not_run = run.bundle.manifest.not_run.iter().any(|row| row.load == load && row.probe == kind.probe);
    if rows.is_empty() && (!not_run || run.virtual_time != kind.virtual_time) {
        return None;
    }
    let blank = MaximumBar {
        top: 0,
        height: BAR,
        style: LoadStyle::of(runs.load_place(load)),
        load: text::short(load, 16),
        run: run.mark(runs.several()),
        value: "not run".to_string(),
        state: "none",
        length: 0.0,
        cpus: Vec::new(),
        limit: None,
    };
    let Some(worst) = rows.iter().max_by_key(|row| row.summary.max_ns) else { return Some(blank) };
    let late = rows.iter().any(RowView::late);
    let missed = untrusted::total(rows.iter().map(|row| row.summary.missed));
    let limit = rows.iter().filter_map(|row| row.row.entry.limit_ns).min();
    // What the bar itself does not show: missed periods below the limit.
    let only_missed = late && limit.is_none_or(|ns| worst.summary.max_ns <= ns);
    let missed = if only_missed { format!(" · {} missed", text::count(missed)) } else { String::new() };
    let verdict = match (late, limit) {
        (true, _) => " ✗ LATE",
        (false, Some(_)) => " ✓",
        (false, None) => "",
    };
    let place = if rows.len() > 1 { format!(" · cpu {}", worst.row.entry.key.cpu) } else { String::new() };
    Some(MaximumBar {
        value: format!("{}{place}{missed}{verdict}", worst.latency(worst.summary.max_ns)),
        state: if late { "late" } else { "ok" },
        length: axis.at(worst.summary.max_ns),
        cpus: if rows.len() > 1 {
            rows.iter().map(|row| axis.at(row.summary.max_ns)).collect()
        } else {
            Vec::new()
        },
        limit: limit.map(|ns| axis.at(ns)),
        ..blank
    })
}
