// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence as text for a terminal: a line a row, what disturbed it, and the verdict as the last line.
//!
//! A narrow terminal gets fewer columns, not wrapped ones: load, CPU, maximum and mark always stay.
//! Microseconds throughout. Foreign text cannot steer the terminal: its control characters are replaced.

mod column;
mod comparison;
mod doctor;
mod fleet;
mod fleet_run;
mod gate;
mod lab;
mod lint;
pub mod tune;
mod watch;
mod why;

use std::collections::BTreeSet;

use evidence::Summary;
use evidence::Taint;
use evidence::document::ProveDocument;
use evidence::taint;

use crate::figures::judged;
use crate::terminal::column::TextColumn;
use crate::{taints, text};

pub use comparison::comparison;
pub use doctor::{doctor, explained};
pub use fleet::fleet;
pub use fleet_run::fleet_run;
pub use gate::gated;
pub use lab::{gate, lab, matrix};
pub use lint::lint;
pub use watch::watch;
pub use why::why;

/// How to write for the terminal at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour (ANSI SGR); marks are words with and without.
    pub color: bool,
    /// Columns that a line may take.
    pub width: usize,
}

/// Below this the table is not made narrower, whatever the terminal says.
const NARROWEST: usize = 40;

/// A blank at which no line is broken.
const JOINT: char = '\u{a0}';

/// Reasons listed; the report lists them all.
const REASONS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultPaint {
    Good,
    Bad,
    Unsure,
    Quiet,
    Plain,
}

impl Style {
    fn paint(self, paint: ResultPaint, text: &str) -> String {
        let code = match paint {
            ResultPaint::Good => "32",
            ResultPaint::Bad => "1;31",
            ResultPaint::Unsure => "33",
            ResultPaint::Quiet => "2",
            ResultPaint::Plain => return text.to_string(),
        };
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }

    fn width(self) -> usize {
        self.width.max(NARROWEST)
    }
}

/// The table, what is to be read with it, and the verdict as the last line.
pub fn table(document: &ProveDocument, style: Style) -> String {
    let mut out = String::new();
    if !document.rows.is_empty() {
        rows(&mut out, document, style);
    }
    for row in &document.not_run {
        let (probe, load) = (text::clean(&row.probe), text::short(&row.load, 24));
        let (why, paint) =
            if row.optional { (", and not needed", ResultPaint::Quiet) } else { ("", ResultPaint::Unsure) };
        let line = format!("{probe} under {load} not run{why}: {}", text::clean(&row.reason));
        wrapped(&mut out, "", &line, paint, style);
    }
    tainted(&mut out, "taint: ", &document.taints, style);
    for note in &document.notes {
        wrapped(&mut out, "note: ", &text::clean(note), ResultPaint::Quiet, style);
    }
    for part in &document.missing {
        wrapped(&mut out, "missing: ", &text::clean(part), ResultPaint::Unsure, style);
    }
    reasons(&mut out, document, style);
    out.push('\n');
    out.push_str(&verdict_line(document, style));
    out.push('\n');
    out
}

fn rows(out: &mut String, document: &ProveDocument, style: Style) {
    let rows = &document.rows;
    let columns = columns(rows, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    out.push_str(&style.paint(ResultPaint::Quiet, &head));
    out.push('\n');
    for (place, row) in rows.iter().enumerate() {
        let late = late(row);
        let cell = |column: &TextColumn| {
            let text = column.set(&column.cells[place]);
            match column.head {
                "" if late => style.paint(ResultPaint::Bad, &text),
                "" => style.paint(ResultPaint::Good, &text),
                "max" if late => style.paint(ResultPaint::Bad, &text),
                _ => text,
            }
        };
        out.push_str(&column::line(columns.iter().map(cell)));
        out.push('\n');
    }
    let emulated = document.taints.iter().any(|taint| taint.code == taint::EMULATED);
    let unit = if emulated { "thousands of virtual nanoseconds" } else { "us" };
    out.push_str(&style.paint(ResultPaint::Quiet, &format!("latencies in {unit}")));
    out.push_str("\n\n");
}

fn columns(rows: &[Summary], width: usize) -> Vec<TextColumn> {
    let us = |ns: u64| text::us(ns as f64);
    let load_width = if width < 100 { 12 } else { 24 };
    let periods: BTreeSet<_> = rows.iter().map(|row| row.key.period_ns).collect();
    let several_probes = rows.iter().any(|row| row.key.probe != rows[0].key.probe);
    let several_periods = periods.iter().flatten().count() > 1;
    let mut columns = vec![
        TextColumn::text("probe", if several_probes { 1 } else { 3 }, rows, |row| {
            text::clean(&row.key.probe)
        }),
        TextColumn::text("load", 0, rows, |row| text::short(&row.key.load, load_width)),
        TextColumn::of("cpu", 0, rows, |row| row.key.cpu.to_string()),
        TextColumn::of("period", if several_periods { 1 } else { 9 }, rows, |row| {
            row.key.period_ns.map_or("-".to_string(), |ns| text::time(ns as f64))
        }),
        TextColumn::of("samples", 5, rows, |row| row.count.to_string()),
        TextColumn::of("missed", 4, rows, |row| {
            if row.key.period_ns.is_some() || row.missed > 0 {
                row.missed.to_string()
            } else {
                "-".to_string()
            }
        }),
        TextColumn::of("min", 7, rows, |row| row.min_ns.map_or("-".to_string(), us)),
        TextColumn::of("mean", 6, rows, |row| row.mean_ns.map_or("-".to_string(), text::us)),
        TextColumn::of("p99.9", 4, rows, |row| row.p99_9_ns.map_or("-".to_string(), us)),
        TextColumn::of("max", 0, rows, |row| us(row.max_ns)),
        TextColumn::of("limit", 8, rows, |row| row.limit_ns.map_or("-".to_string(), us)),
        TextColumn::text("", 0, rows, mark),
    ];
    if rows.iter().any(|row| row.key.thread_name.is_some()) {
        let name = |row: &Summary| text::short(row.key.thread_name.as_deref().unwrap_or("-"), 16);
        columns.insert(1, TextColumn::text("thread", 1, rows, name));
    }
    column::fit(&mut columns, width);
    columns
}

/// Whether a cycle of the row was beyond its limit or missed.
fn late(row: &Summary) -> bool {
    row.over_limit > 0 || row.missed > 0
}

fn mark(row: &Summary) -> String {
    let mark = match (late(row), row.limit_ns) {
        (true, _) => "LATE",
        _ if row.count == 0 && row.key.probe != "hardware" => "no sample",
        (false, Some(_)) => "ok",
        (false, None) => "no limit",
    };
    mark.to_string()
}

/// A line for each kind of taint.
fn tainted(out: &mut String, lead: &str, taints: &[Taint], style: Style) {
    for group in taints::groups(taints) {
        let accepted = if group.accepted() { " (accepted)" } else { "" };
        let cure = group.cure().map(|cure| format!("; {cure}")).unwrap_or_default();
        let line = format!("{}{}{accepted}: {}{cure}", group.code(), group.place(), group.reason());
        wrapped(out, lead, &text::clean(&line), ResultPaint::Unsure, style);
    }
}

/// Reasons that no line above gave already.
fn reasons(out: &mut String, document: &ProveDocument, style: Style) {
    let given = |reason: &&String| {
        document.taints.iter().any(|taint| reason.ends_with(&taint.reason))
            || document.not_run.iter().any(|row| reason.ends_with(&row.reason))
            || document.missing.contains(reason)
    };
    let new: Vec<_> = document.verdict.reasons.iter().filter(|reason| !given(reason)).collect();
    for reason in new.iter().take(REASONS) {
        wrapped(out, "- ", &text::clean(reason), ResultPaint::Plain, style);
    }
    if new.len() > REASONS {
        out.push_str(&format!("- and {} more, in the report\n", new.len() - REASONS));
    }
}

fn verdict_line(document: &ProveDocument, style: Style) -> String {
    let verdict = &document.verdict;
    let said = judged(verdict);
    let line = format!("==> {}{}", said.word.to_uppercase(), said.rest);
    banner(&line, said.state, style)
}

/// A line that is not to be missed, in the colour of `state`.
fn banner(line: &str, state: &str, style: Style) -> String {
    if !style.color {
        return line.to_string();
    }
    let code = match state {
        "ok" => "1;30;42",
        "late" => "1;97;41",
        _ => "1;30;43",
    };
    format!("\u{1b}[{code}m{line} \u{1b}[0m")
}

/// Writes `lead` and `line`, broken between words to the width, with what follows set in by two. Words joined
/// by [`JOINT`] stay together.
fn wrapped(out: &mut String, lead: &str, line: &str, paint: ResultPaint, style: Style) {
    let width = style.width();
    let (mut lines, mut current) = (Vec::new(), lead.trim_end().to_string());
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let begun = !current.trim().is_empty();
        if begun && current.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut current, format!("  {word}")));
        } else {
            current.push_str(if begun { " " } else { "" });
            current.push_str(word);
        }
    }
    lines.push(current);
    for line in lines {
        out.push_str(&style.paint(paint, &line.replace(JOINT, " ")));
        out.push('\n');
    }
}

/// `lead` and `line` broken between words, with what follows set in by `indent`.
fn hanging(out: &mut String, lead: &str, line: &str, indent: usize, paint: ResultPaint, style: Style) {
    let width = style.width();
    let (mut lines, mut current) = (Vec::new(), text::clean(lead));
    let mut begun = false;
    for word in text::clean(line).split(' ').filter(|word| !word.is_empty()) {
        if begun && current.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut current, format!("{}{word}", " ".repeat(indent))));
        } else {
            if begun {
                current.push(' ');
            }
            current.push_str(word);
        }
        begun = true;
    }
    lines.push(current);
    for line in lines {
        out.push_str(&style.paint(paint, line.trim_end()));
        out.push('\n');
    }
}
