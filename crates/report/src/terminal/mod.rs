// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evidence as text for a terminal: the verdict, a line a row, and what disturbed it.
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
use evidence::document::{ProveDocument, VerdictParts};
use evidence::fitness::UseVerdict;
use evidence::taint;
use evidence::verdict::BEGAN_NO_CYCLE;
use machine::purpose::Grade;
use machine::quantity::{Say, Sentence, Sign, Time};

use crate::outcome::judged;
use crate::terminal::column::TextColumn;
use crate::{taints, text};

pub use self::gate::gated;
pub use self::why::{WhyExtent, why};
pub use comparison::comparison;
pub use doctor::{doctor, explained};
pub use fleet::fleet;
pub use fleet_run::fleet_run;
pub use lab::{gate, lab, matrix};
pub use lint::lint;
pub use watch::{WatchView, watch};

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

/// The verdict, the table, and all that is to be read with it.
pub fn table(document: &ProveDocument, style: Style) -> String {
    let mut out = head(document, usize::MAX, style);
    for (line, paint) in lines(document) {
        wrapped(&mut out, "", &line, paint, style);
    }
    reasons(&mut out, document, style);
    out
}

/// Lines below the table of [`brief`].
const BRIEF: usize = 6;
/// Lines of one of them.
const BRIEF_EACH: usize = 2;
/// Lines that the program prints below all that: the report, and the next command, which may take two.
const BELOW: usize = 3;
/// Rows that are shown however small the screen is.
const FEWEST_ROWS: usize = 3;

/// The same for a screen of so many lines: the verdict, the worst rows, and a few lines, the most serious
/// first. What the table marks as late needs no further line.
pub fn brief(document: &ProveDocument, lines_in_sight: Option<usize>, style: Style) -> String {
    let below = below(document, style);
    let taken = head(document, 0, style).lines().count() + below.lines().count() + BELOW;
    let room = lines_in_sight.map_or(usize::MAX, |lines| lines.saturating_sub(taken).max(FEWEST_ROWS));
    head(document, room, style) + &below
}

/// A few lines to be read with the table.
fn below(document: &ProveDocument, style: Style) -> String {
    let mut out = String::new();
    let late = document.rows.iter().filter(|row| late(row));
    let late = late.map(|row| format!("{}: ", row.key)).collect::<Vec<_>>();
    let reasons = new_reasons(document).filter(|reason| !late.iter().any(|row| reason.starts_with(row)));
    let mut all = lines(document);
    // Why most of a row is missing is what its reader asks first.
    let paint = |reason: &str| match reason.contains(BEGAN_NO_CYCLE) {
        true => ResultPaint::Bad,
        false => ResultPaint::Plain,
    };
    all.extend(reasons.map(|reason| (text::clean(&format!("- {reason}")), paint(reason))));
    all.sort_by_key(|(_, paint)| match paint {
        ResultPaint::Bad => 0,
        ResultPaint::Unsure | ResultPaint::Good => 1,
        ResultPaint::Plain => 2,
        ResultPaint::Quiet => 3,
    });
    let (mut used, mut shown) = (0, 0);
    for (line, paint) in &all {
        let cut = cut(line, BRIEF_EACH, style);
        // The last line says how many are left, unless none is.
        let room = if shown + 1 == all.len() { BRIEF } else { BRIEF - 1 };
        if used + cut.len() > room {
            break;
        }
        for line in &cut {
            out.push_str(&style.paint(*paint, line));
            out.push('\n');
        }
        (used, shown) = (used + cut.len(), shown + 1);
    }
    if all.len() > shown {
        let more = format!("and {} more, in the report and with --verbose", all.len() - shown);
        out.push_str(&style.paint(ResultPaint::Quiet, &more));
        out.push('\n');
    }
    out
}

/// `line` in at most so many lines; the last says where more is left out.
fn cut(line: &str, most: usize, style: Style) -> Vec<String> {
    let mut lines = broken(line, style.width());
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = text::short(&format!("{last} …"), style.width());
        }
    }
    lines
}

/// The verdict, what it says of the use, and the table, of so many rows at the most.
fn head(document: &ProveDocument, most: usize, style: Style) -> String {
    let mut out = verdict_line(document, style);
    out.push('\n');
    // Reasons, with the claim among them, and taints stand below the table, in `lines` and `reasons`; the
    // table has late cycles by row.
    let VerdictParts {
        held: _,
        outcome: _,
        kept: _,
        limit_ns: _,
        reasons: _,
        claim: _,
        taints: _,
        purpose,
        cycles: _,
    } = document.parts();
    use_line(&mut out, "", purpose.as_ref(), style);
    out.push('\n');
    if !document.rows.is_empty() {
        rows(&mut out, document, most, style);
    }
    out
}

/// The result for the use, in the colour of its grade, after `lead`.
fn use_line(out: &mut String, lead: &str, purpose: Option<&UseVerdict>, style: Style) {
    let Some(sentence) = purpose.and_then(UseVerdict::sentence) else { return };
    let paint = match purpose.and_then(|purpose| purpose.grade) {
        Some(Grade::Good) => ResultPaint::Good,
        Some(Grade::Usable) => ResultPaint::Unsure,
        Some(Grade::Unfit) => ResultPaint::Bad,
        None => ResultPaint::Plain,
    };
    wrapped(out, lead, &text::clean(&sentence), paint, style);
}

/// The parts of a run that stand beside another one, each line after `which`: the grade, late cycles where a
/// limit judges them, and taints. Its outcome, limit and reasons are told by the comparison or the gate.
fn beside(out: &mut String, which: &str, parts: &VerdictParts, style: Style) {
    let VerdictParts { held: _, outcome: _, kept: _, limit_ns, reasons: _, claim, taints, purpose, cycles } =
        parts;
    use_line(out, &format!("use {which}: "), purpose.as_ref(), style);
    if limit_ns.is_some() {
        let line = format!("{} cycles", cycles.late_of_due());
        let paint = if cycles.late().most() > 0 { ResultPaint::Unsure } else { ResultPaint::Quiet };
        wrapped(out, &format!("late {which}: "), &line, paint, style);
        if let Some(claim) = claim {
            let line = claim.write(Sign::Plain);
            wrapped(out, &format!("claim {which}: "), &line, ResultPaint::Quiet, style);
        }
    }
    for (line, _) in taint_lines(taints) {
        wrapped(out, &format!("taint {which}: "), &line, ResultPaint::Unsure, style);
    }
}

/// The remarks on the table, a line each.
fn lines(document: &ProveDocument) -> Vec<(String, ResultPaint)> {
    let mut lines = Vec::new();
    for row in &document.not_run {
        let (probe, load) = (text::clean(&row.probe), text::short(&row.load, 24));
        let (why, paint) =
            if row.optional { (", and not needed", ResultPaint::Quiet) } else { ("", ResultPaint::Unsure) };
        lines.push((format!("{probe} under {load} not run{why}: {}", text::clean(&row.reason)), paint));
    }
    for (line, is_accepted) in taint_lines(&document.taints) {
        let paint = if is_accepted { ResultPaint::Quiet } else { ResultPaint::Unsure };
        lines.push((format!("taint: {line}"), paint));
    }
    lines.extend(
        document.notes.iter().map(|note| (format!("note: {}", text::clean(note)), ResultPaint::Quiet)),
    );
    let missing = document.missing.iter();
    lines.extend(missing.map(|part| (format!("missing: {}", text::clean(part)), ResultPaint::Unsure)));
    lines
}

fn rows(out: &mut String, document: &ProveDocument, most: usize, style: Style) {
    let rows = &document.rows;
    let shown = worst(rows, most);
    let missed = document.purpose.as_ref().map_or("missed", UseVerdict::missed);
    let columns = columns(rows, missed, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    out.push_str(&style.paint(ResultPaint::Quiet, &head));
    out.push('\n');
    for place in shown.iter().copied() {
        let late = late(&rows[place]);
        let cell = |column: &TextColumn| {
            let text = column.set(&column.cells[place]);
            match column.head {
                "" if late => style.paint(ResultPaint::Bad, &text),
                "" if column.cells[place] == OK => style.paint(ResultPaint::Good, &text),
                "" => style.paint(ResultPaint::Unsure, &text),
                "max" if late => style.paint(ResultPaint::Bad, &text),
                _ => text,
            }
        };
        out.push_str(&column::line(columns.iter().map(cell)));
        out.push('\n');
    }
    let emulated = document.taints.iter().any(|taint| taint.code == taint::EMULATED);
    let unit = if emulated { "thousands of virtual nanoseconds" } else { "us" };
    let folded = folded(rows, &shown);
    out.push_str(&style.paint(ResultPaint::Quiet, &format!("{folded}latencies in {unit}")));
    out.push_str("\n\n");
}

/// The places of the worst rows, at most so many, in their order: late ones before others, then by their part
/// of the limit.
fn worst(rows: &[Summary], most: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..rows.len()).collect();
    let part = |row: &Summary| row.max_ns as f64 / row.limit_ns.unwrap_or(u64::MAX).max(1) as f64;
    places.sort_by(|a, b| {
        let (a, b) = (&rows[*a], &rows[*b]);
        late(b).cmp(&late(a)).then((b.missed > 0).cmp(&(a.missed > 0))).then(part(b).total_cmp(&part(a)))
    });
    places.truncate(most);
    places.sort_unstable();
    places
}

/// The rows that are not among those `shown`, which are in their order: `+ 2 late rows, 11 rows that hold
/// (--verbose) · `; empty where there are none.
fn folded(rows: &[Summary], shown: &[usize]) -> String {
    let left =
        || (0..rows.len()).filter(|place| shown.binary_search(place).is_err()).map(|place| &rows[place]);
    let late_rows = left().filter(|row| late(row)).count();
    let others = left().count() - late_rows;
    let has_limit = left().all(|row| late(row) || mark(row) == OK);
    let held = if has_limit { " that hold" } else { "" };
    let held = if others == 1 && has_limit { " that holds" } else { held };
    let parts = [(late_rows, "late row", ""), (others, "row", held)];
    let parts = parts.iter().filter(|(number, ..)| *number > 0);
    let parts = parts.map(|(number, what, how)| format!("{}{how}", text::plural(*number, what)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() { parts } else { format!("+ {parts}: --verbose shows all · ") }
}

fn columns(rows: &[Summary], missed: &'static str, width: usize) -> Vec<TextColumn> {
    let us = |ns: u64| text::figure(ns as f64);
    let or_dash = |known: Option<String>| known.unwrap_or("-".to_string());
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
            row.key.period_ns.map_or("-".to_string(), |ns| Time::round(ns).write(Sign::Plain))
        }),
        TextColumn::of("samples", 5, rows, |row| or_dash(row.stated_count().map(text::count))),
        TextColumn::of("late", 2, rows, |row| {
            row.limit_ns.map_or("-".to_string(), |_| row.late_cycles().write(Sign::Plain))
        }),
        TextColumn::of(missed, 4, rows, |row| or_dash(row.stated_missed().map(text::count))),
        TextColumn::of("min", 7, rows, |row| or_dash(row.min_ns.map(us))),
        TextColumn::of("mean", 6, rows, |row| or_dash(row.mean_ns.map(text::figure))),
        TextColumn::of("p99.9", 4, rows, |row| or_dash(row.p99_9_ns.map(us))),
        TextColumn::of("max", 0, rows, |row| or_dash(row.stated_max_ns().map(us))),
        TextColumn::of("limit", 8, rows, |row| or_dash(row.limit_ns.map(us))),
        TextColumn::text("", 0, rows, mark),
    ];
    if rows.iter().any(|row| row.key.thread_name.is_some()) {
        let name = |row: &Summary| text::short(row.key.thread_name.as_deref().unwrap_or("-"), 16);
        columns.insert(1, TextColumn::text("thread", 1, rows, name));
    }
    column::fit(&mut columns, width);
    columns
}

/// Whether more cycles of the row were beyond its limit, or missed, than are allowed.
fn late(row: &Summary) -> bool {
    row.is_late() == Some(true)
}

/// The mark of a row that keeps its limit.
const OK: &str = "ok";

fn mark(row: &Summary) -> String {
    let mark = match (row.is_late(), row.limit_ns) {
        (Some(true), _) => "LATE",
        _ if row.count == 0 && !row.key.kind().is_above_threshold_only() => "no sample",
        (None, _) => "unknown",
        (Some(false), Some(_)) => OK,
        (Some(false), None) => "no limit",
    };
    mark.to_string()
}

/// A line for each kind of taint, and whether it was accepted.
fn taint_lines(taints: &[Taint]) -> Vec<(String, bool)> {
    let line = |group: &taints::TaintGroup| {
        let accepted = if group.accepted() { " (accepted)" } else { "" };
        let cure = group.cure().map(|cure| format!("; {cure}")).unwrap_or_default();
        let line = format!("{}{}{accepted}: {}{cure}", group.code(), group.place(), group.reason());
        (text::clean(&line), group.accepted())
    };
    taints::groups(taints).iter().map(line).collect()
}

/// Reasons that no other line gives.
fn new_reasons(document: &ProveDocument) -> impl Iterator<Item = &Sentence> {
    let given = |reason: &&Sentence| {
        document.taints.iter().any(|taint| reason.ends_with(&taint.reason))
            || document.not_run.iter().any(|row| reason.ends_with(&row.reason))
            || document.missing.iter().any(|part| **reason == part.as_str())
    };
    document.verdict.reasons.iter().filter(move |reason| !given(reason))
}

fn reasons(out: &mut String, document: &ProveDocument, style: Style) {
    let new: Vec<_> = new_reasons(document).collect();
    for reason in new.iter().take(REASONS) {
        wrapped(out, "- ", &text::clean(reason), ResultPaint::Plain, style);
    }
    if new.len() > REASONS {
        out.push_str(&format!("- and {} more, in the report\n", new.len() - REASONS));
    }
}

fn verdict_line(document: &ProveDocument, style: Style) -> String {
    let said = judged(&document.parts(), Sign::Plain);
    let line = format!("==> {}{}", said.word.to_uppercase(), said.rest);
    let lines = broken(&line, style.width());
    lines.iter().map(|line| banner(line, said.state, style)).collect::<Vec<_>>().join("\n")
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
    for line in broken(&format!("{lead}{line}"), style.width()) {
        out.push_str(&style.paint(paint, &line));
        out.push('\n');
    }
}

/// `line` in lines of `width`.
fn broken(line: &str, width: usize) -> Vec<String> {
    let (mut lines, mut current) = (Vec::new(), String::new());
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
    lines.iter().map(|line| line.replace(JOINT, " ")).collect()
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
