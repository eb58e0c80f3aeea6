// SPDX-License-Identifier: MIT OR Apache-2.0
//! The change from one run to another: a table with intervals, and distributions laid over each other.
//!
//! An interval is drawn on an axis of ratios, which is logarithmic: half as much lies as far to the left of
//! no change as twice as much lies to its right.

use compare::{Change, ComparedRun, Comparison};
use evidence::manifest::RowKey;
use machine::quantity::{Say, Sign};
use serde::Serialize;

use crate::chart::LoadStyle;
use crate::outcome::outcome_text;
use crate::runs::Runs;
use crate::scale::{GridLine, hundredth};
use crate::text;

/// The axis of ratios ends here: a tenth, and ten times.
const FURTHEST: f64 = 10.0;

/// From here on a change is written as a factor: per cent of four digits are not read.
const AS_FACTOR: f64 = 900.0;

/// Everything that the page shows of a comparison.
#[derive(Serialize)]
pub(crate) struct ChangeSection {
    /// Both verdicts in a sentence.
    pub words: String,
    /// How many figures are better, worse, and neither.
    pub counts: Vec<ChangeCount>,
    pub ticks: Vec<GridLine>,
    pub groups: Vec<ChangeGroup>,
    /// Unlike runs, and what only one of them measured.
    pub warnings: Vec<String>,
    /// Where the machines differ.
    pub machine: Vec<String>,
    /// The limits of the intervals.
    pub caveats: Vec<String>,
}

/// Figures with one judgement.
#[derive(Serialize)]
pub(crate) struct ChangeCount {
    pub state: &'static str,
    pub sign: &'static str,
    pub words: String,
}

/// The figures of one row.
#[derive(Serialize)]
pub(crate) struct ChangeGroup {
    pub title: String,
    pub style: LoadStyle,
    pub cpu: u32,
    pub lines: Vec<ChangeLine>,
}

/// One figure of one row.
#[derive(Serialize)]
pub(crate) struct ChangeLine {
    pub figure: String,
    pub before: String,
    pub after: String,
    pub change: String,
    pub interval: String,
    /// Where change and interval lie on the axis, in per cent.
    pub at: Option<f64>,
    pub span: Option<[f64; 2]>,
    pub judged: Judgement,
}

/// Whether chance alone within the two runs could explain a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Judgement {
    /// `better`, `worse`, `same`, or `unknown` where the data define no interval.
    pub state: &'static str,
    pub sign: &'static str,
    pub word: &'static str,
}

pub(crate) const BETTER: Judgement = Judgement { state: "better", sign: "▼", word: "better" };
pub(crate) const WORSE: Judgement = Judgement { state: "worse", sign: "▲", word: "worse" };
pub(crate) const SAME: Judgement = Judgement { state: "same", sign: "=", word: "no clear change" };
pub(crate) const UNKNOWN: Judgement = Judgement { state: "unknown", sign: "", word: "" };

pub(crate) fn judged(row: &Change) -> Judgement {
    match row.interval_percent {
        Some([_, high]) if high < 0.0 => BETTER,
        Some([low, _]) if low > 0.0 => WORSE,
        Some(_) => SAME,
        None => UNKNOWN,
    }
}

/// `-12.3 %`, or `x 7,728` for what per cent do not tell any more.
pub(crate) fn percent(percent: f64) -> String {
    match percent {
        AS_FACTOR.. => format!("x {}", text::count((percent / 100.0 + 1.0).round() as u64)),
        _ => format!("{percent:+.1} %"),
    }
}

/// The figure as the table of rows heads it: `p99.9`, `max`.
pub(crate) fn figure(row: &Change) -> String {
    let name = serde_json::to_value(row.figure).unwrap_or_default();
    let name = name.as_str().unwrap_or_default().trim_end_matches("_ns");
    name.replace('_', ".")
}

/// The section of `comparison`, whose runs are `runs`.
pub(crate) fn of(runs: &Runs, comparison: &Comparison) -> ChangeSection {
    let mut groups: Vec<(&RowKey, ChangeGroup)> = Vec::new();
    for row in &comparison.rows {
        if groups.last().is_none_or(|(key, _)| **key != row.key) {
            let title = match &runs.all[0].rows().find(|view| view.row.entry.key == row.key) {
                Some(view) => view.place(),
                None => text::clean(&row.key.write(Sign::Page)),
            };
            let style = LoadStyle::of(runs.load_place(&row.key.load));
            groups.push((&row.key, ChangeGroup { title, style, cpu: row.key.cpu, lines: Vec::new() }));
        }
        groups.last_mut().into_iter().for_each(|(_, group)| group.lines.push(line(row)));
    }
    let counted = |judgement: Judgement, one: &str, many: &str| {
        let number = comparison.rows.iter().filter(|row| judged(row) == judgement).count();
        let figures = if number == 1 { one } else { many };
        let words = format!("{number} {figures}");
        (number > 0).then_some(ChangeCount { state: judgement.state, sign: judgement.sign, words })
    };
    let counts = [
        counted(BETTER, "figure better", "figures better"),
        counted(WORSE, "figure worse", "figures worse"),
        counted(SAME, "without clear change", "without clear change"),
        counted(UNKNOWN, "without an interval", "without an interval"),
    ];
    let only = [("before", &comparison.only_before), ("after", &comparison.only_after)];
    let only = only.into_iter().flat_map(|(which, keys)| {
        keys.iter().map(move |key| format!("measured only {which}: {}", text::clean(&key.write(Sign::Page))))
    });
    let unlike =
        comparison.differences.iter().map(|one| text::clean(&format!("not the same was asked: {one}")));
    ChangeSection {
        words: verdicts(comparison),
        counts: counts.into_iter().flatten().collect(),
        ticks: ticks(),
        groups: groups.into_iter().map(|(_, group)| group).collect(),
        warnings: unlike.chain(only).collect(),
        machine: comparison.machine_differences.iter().map(|one| text::clean(&one.to_string())).collect(),
        caveats: comparison.caveats.iter().map(|line| text::clean(line)).collect(),
    }
}

/// `Before does not hold 100 us, after holds 100 us`.
fn verdicts(comparison: &Comparison) -> String {
    let said = |side: &ComparedRun| {
        let said = outcome_text(&side.verdict, Sign::Page);
        format!("{}{}", said.word.to_lowercase(), said.rest)
    };
    let forced = if comparison.forced { ", compared by force" } else { "" };
    format!("Before: {}; after: {}{forced}", said(&comparison.before), said(&comparison.after))
}

fn line(row: &Change) -> ChangeLine {
    let us = |ns: Option<f64>| ns.map_or("–".to_string(), text::figure);
    let sign = |words: String| words.replacen('-', "−", 1).replacen("x ", "× ", 1);
    ChangeLine {
        figure: figure(row),
        before: us(row.before),
        after: us(row.after),
        change: row.change_percent.map_or("–".to_string(), |change| sign(percent(change))),
        interval: row.interval_percent.map_or("–".to_string(), |[low, high]| {
            format!("{} to {}", sign(percent(low)), sign(percent(high)))
        }),
        at: row.change_percent.map(place),
        span: row.interval_percent.map(|ends| ends.map(place)),
        judged: judged(row),
    }
}

/// Where a change in per cent lies, from a tenth to ten times.
fn place(percent: f64) -> f64 {
    let ratio = (percent / 100.0 + 1.0).clamp(1.0 / FURTHEST, FURTHEST);
    hundredth(50.0 + 50.0 * ratio.ln() / FURTHEST.ln())
}

fn ticks() -> Vec<GridLine> {
    let ticks = [(-90.0, "÷ 10"), (-50.0, "÷ 2"), (0.0, "="), (100.0, "× 2"), (900.0, "× 10")];
    ticks.map(|(percent, label)| GridLine { at: place(percent), label: label.to_string() }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_twice_lie_equally_far_from_no_change() {
        assert_eq!([0.0, -90.0, 900.0, -99.9, 1e9].map(place), [50.0, 0.0, 100.0, 0.0, 100.0]);
        assert!((place(-50.0) + place(100.0) - 100.0).abs() < 0.02);
    }

    #[test]
    fn a_large_change_is_a_factor() {
        assert_eq!(
            [-12.34, 0.0, 899.9, 772_654.3].map(percent),
            ["-12.3 %", "+0.0 %", "+899.9 %", "x 7,728"]
        );
    }
}
