// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maxima under each load as bars, with the limit: the bar is the worst CPU, ticks on it are all the others.
//!
//! The axis is linear from zero as long as the smallest bar can be told from nothing, otherwise logarithmic.

use serde::Serialize;

use crate::chart::{LoadStyle, latency_title, range_ns};
use crate::runs::{ProbePeriod, RowView, Runs, ShownRun};
use crate::scale::{GridLine, LogScale, hundredth, linear_ticks};
use crate::text;

/// The bars of one probe.
#[derive(Debug, Serialize)]
pub(crate) struct Bars {
    /// The subject of the bars.
    pub what: &'static str,
    pub title: String,
    pub x_title: String,
    pub x: Vec<GridLine>,
    /// The limit, where all bars have the same.
    pub limit: Option<GridLine>,
    pub bars: Vec<MaximumBar>,
}

/// One load of one run.
#[derive(Debug, Serialize)]
pub(crate) struct MaximumBar {
    /// Whether it is of the same load as the one above it.
    pub same: bool,
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
    /// The limit, where it is this bar's own.
    pub limit: Option<f64>,
}

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
        (MaximaAxis::Log(log), log.ticks(5, text::axis))
    } else {
        let to = high * 1.05;
        (MaximaAxis::Linear(to), linear_ticks(to, 5, text::axis))
    };
    let mut bars = Vec::new();
    for load in &runs.loads {
        let before = bars.len();
        for run in &runs.all {
            let same = bars.len() > before;
            bars.extend(bar(runs, run, kind, load, &axis).map(|bar| MaximumBar { same, ..bar }));
        }
    }
    let at = |ns: f64| axis.at(ns as u64);
    let limit = match &mut super::limits(runs.rows_of(kind), at)[..] {
        [only] => Some(only.clone()),
        _ => None,
    };
    if limit.is_some() {
        bars.iter_mut().for_each(|bar| bar.limit = None);
    }
    let scale = if matches!(axis, MaximaAxis::Log(_)) { ", logarithmic" } else { "" };
    Bars {
        what: "Maxima under each load",
        title: kind.to_string(),
        x_title: format!("largest {}{scale}", latency_title(kind)),
        x,
        limit,
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
        same: false,
        style: LoadStyle::of(runs.load_place(load)),
        load: text::short(load, 80),
        run: run.mark(runs.several()),
        value: "not run".to_string(),
        state: "none",
        length: 0.0,
        cpus: Vec::new(),
        limit: None,
    };
    let Some(worst) = rows.iter().max_by_key(|row| row.summary.max_ns) else { return Some(blank) };
    let late = rows.iter().any(|row| row.summary.is_late() == Some(true));
    let missed = untrusted::total(rows.iter().map(|row| row.summary.missed));
    let limit = rows.iter().filter_map(|row| row.row.entry.limit_ns).min();
    // What the bar itself does not show: missed periods below the limit.
    let only_missed = late && limit.is_none_or(|ns| worst.summary.max_ns <= ns);
    let missed = if only_missed { format!(" · {} missed", text::count(missed)) } else { String::new() };
    let is_unknown = !late && rows.iter().any(|row| row.summary.is_late().is_none());
    let (verdict, state) = match (late, limit) {
        (true, _) => (" ✗ LATE", "late"),
        (false, _) if is_unknown => (" ? unknown", "unproven"),
        (false, Some(_)) => (" ✓", "ok"),
        (false, None) => ("", "ok"),
    };
    let place = if rows.len() > 1 { format!(" · cpu {}", worst.row.entry.key.cpu) } else { String::new() };
    Some(MaximumBar {
        value: format!("{}{place}{missed}{verdict}", worst.latency(worst.summary.max_ns)),
        state,
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
