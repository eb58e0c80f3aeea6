// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two runs side by side: a block for each series, a line for each of its figures.

use compare::{Change, ComparedRun, Comparison, Difference};
use evidence::manifest::RowKey;
use machine::quantity::Sign;

use crate::change::{self, figure, percent};
use crate::outcome::outcome_text;
use crate::terminal::column::{self, TextColumn};
use crate::terminal::{ResultPaint, Style, banner, beside, wrapped};
use crate::text;

/// The changes from one run to the other, their caveats, and both verdicts as the last line.
pub fn comparison(comparison: &Comparison, style: Style) -> String {
    let mut out = String::new();
    let different = |out: &mut String, lead: &str, paint, differences: &[Difference]| {
        for difference in differences {
            wrapped(out, lead, &text::clean(&difference.to_string()), paint, style);
        }
    };
    different(&mut out, "unlike: ", ResultPaint::Unsure, &comparison.differences);
    different(&mut out, "machine: ", ResultPaint::Quiet, &comparison.machine_differences);
    for (which, keys) in [("before", &comparison.only_before), ("after", &comparison.only_after)] {
        for key in keys {
            wrapped(&mut out, &format!("only {which}: "), &named(key), ResultPaint::Unsure, style);
        }
    }
    for (which, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        beside(&mut out, which, &side.verdict, style);
        for part in &side.missing {
            wrapped(&mut out, &format!("missing {which}: "), &text::clean(part), ResultPaint::Unsure, style);
        }
    }
    for caveat in &comparison.caveats {
        wrapped(&mut out, "note: ", &text::clean(caveat), ResultPaint::Quiet, style);
    }
    out.push('\n');
    // Last: on a small screen the lines before it are the ones that may go.
    changes(&mut out, &comparison.rows, style);
    out.push_str(&last_line(comparison, style));
    out.push('\n');
    out
}

fn changes(out: &mut String, rows: &[Change], style: Style) {
    if rows.is_empty() {
        return;
    }
    let mut columns = vec![
        TextColumn::text("figure", 0, rows, figure),
        TextColumn::of("before", 0, rows, |row| row.before.map_or("-".to_string(), text::figure)),
        TextColumn::of("after", 0, rows, |row| row.after.map_or("-".to_string(), text::figure)),
        TextColumn::of("change", 0, rows, |row| row.change_percent.map_or("-".to_string(), percent)),
        TextColumn::text("95 % interval", 1, rows, |row| match row.interval_percent {
            Some([low, high]) => format!("{} to {}", percent(low), percent(high)),
            None => "-".to_string(),
        }),
        TextColumn::text("", 0, rows, |row| judged(row).1.to_string()),
    ];
    column::fit(&mut columns, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    let mut before: Option<&RowKey> = None;
    for (place, row) in rows.iter().enumerate() {
        if before != Some(&row.key) {
            out.push_str(if before.is_some() { "\n" } else { "" });
            wrapped(out, "", &named(&row.key), ResultPaint::Plain, style);
            out.push_str(&style.paint(ResultPaint::Quiet, &head));
            out.push('\n');
            before = Some(&row.key);
        }
        let cell = |column: &TextColumn| {
            let text = column.set(&column.cells[place]);
            if column.head.is_empty() { style.paint(judged(row).0, &text) } else { text }
        };
        out.push_str(&column::line(columns.iter().map(cell)));
        out.push('\n');
    }
    out.push_str(&style.paint(ResultPaint::Quiet, "latencies in us; below zero is better"));
    out.push_str("\n\n");
}

/// The word for a change, and its colour.
fn judged(row: &Change) -> (ResultPaint, &'static str) {
    let judged = change::judged(row);
    let paint = match judged {
        change::BETTER => ResultPaint::Good,
        change::WORSE => ResultPaint::Bad,
        _ => ResultPaint::Quiet,
    };
    (paint, judged.word)
}

fn named(key: &RowKey) -> String {
    text::clean(&key.to_string())
}

fn last_line(comparison: &Comparison, style: Style) -> String {
    if !comparison.comparable && !comparison.forced {
        let why = if comparison.differences.is_empty() {
            "a bundle is damaged"
        } else {
            "the runs have different options"
        };
        return banner(&format!("==> NOT COMPARED: {why}"), "unproven", style);
    }
    let words = |side: &ComparedRun| {
        let said = outcome_text(&side.verdict, Sign::Plain);
        format!("{}{}", said.word.to_uppercase(), said.rest)
    };
    let unlike = match (comparison.forced, comparison.differences.is_empty()) {
        (false, _) => "",
        (true, false) => " (UNLIKE RUNS, compared by force)",
        (true, true) => " (DAMAGED, compared by force)",
    };
    let line =
        format!("==> before {}, after {}{unlike}", words(&comparison.before), words(&comparison.after));
    banner(&line, outcome_text(&comparison.after.verdict, Sign::Plain).state, style)
}
