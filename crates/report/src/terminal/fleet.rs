// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fleet for a terminal: what stands out first, each part a few lines; the HTML page and the JSON have all.

use fleet::document::{FleetDocument, FleetMachine};
use machine::quantity::Sign;

use crate::fleet::{accepted, heading, late, latency, parts, times};
use crate::terminal::column::{self, TextColumn};
use crate::terminal::{ResultPaint, Style, wrapped};
use crate::text;

/// Lines of each part.
const LISTED: usize = 8;

/// The best and the worst machines that are shown.
const ENDS: usize = 5;

/// The answer of a store, and its size as the last line.
pub fn fleet(document: &FleetDocument, style: Style) -> String {
    let mut out = String::new();
    for part in parts(document, LISTED, Sign::Plain) {
        if part.lines.is_empty() {
            continue;
        }
        let paint = if part.is_bad() { ResultPaint::Bad } else { ResultPaint::Unsure };
        let title = format!("{} ({})\n", part.title, text::count(part.count as u64));
        out.push_str(&style.paint(ResultPaint::Plain, &title));
        for line in &part.lines {
            wrapped(&mut out, "- ", line, paint, style);
        }
        if part.more > 0 {
            out.push_str(&format!("- and {} more\n", text::count(part.more as u64)));
        }
        out.push('\n');
    }
    ranked(&mut out, &document.machines, style);
    out.push_str(&heading(document));
    out
}

fn ranked(out: &mut String, machines: &[FleetMachine], style: Style) {
    let ends = |place: usize| place < ENDS || place + ENDS >= machines.len();
    let shown =
        machines.iter().enumerate().filter(|(place, _)| ends(*place)).map(|(_, one)| one).collect::<Vec<_>>();
    if shown.is_empty() {
        return;
    }
    let mut columns = vec![
        TextColumn::of("rank", 0, &shown, |one| text::count(one.rank)),
        TextColumn::text("machine", 0, &shown, |one| text::short(&one.hostname, 24)),
        TextColumn::text("verdict", 0, &shown, |one| one.outcome.clone()),
        TextColumn::of("late", 1, &shown, |one| late(one)),
        TextColumn::of("p99.9", 1, &shown, |one| latency(one.p99_9_ns)),
        TextColumn::of("max", 0, &shown, |one| latency(one.max_ns)),
        TextColumn::of("of class", 2, &shown, |one| one.against_class.map_or("-".to_string(), times)),
        TextColumn::text("class", 3, &shown, |one| text::short(&one.class, 60)),
    ];
    if shown.iter().any(|one| one.grade.is_some()) {
        let grade = |one: &&FleetMachine| text::short(one.grade.as_deref().unwrap_or("-"), 24);
        columns.insert(3, TextColumn::text("grade", 1, &shown, grade));
    }
    if shown.iter().any(|one| one.accepted.is_some()) {
        columns.insert(3, TextColumn::text("accepted taints", 1, &shown, |one| accepted(one)));
    }
    column::fit(&mut columns, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    out.push_str(&style.paint(ResultPaint::Quiet, &head));
    out.push('\n');
    for (place, one) in shown.iter().enumerate() {
        if place == ENDS && machines.len() > 2 * ENDS {
            let between = text::count((machines.len() - 2 * ENDS) as u64);
            out.push_str(&style.paint(ResultPaint::Quiet, &format!("… {between} more\n")));
        }
        let paint = match one.outcome.as_str() {
            "held" => ResultPaint::Good,
            "exceeded" => ResultPaint::Bad,
            _ => ResultPaint::Unsure,
        };
        let cell = |column: &TextColumn| {
            let text = column.set(&column.cells[place]);
            if column.head == "verdict" { style.paint(paint, &text) } else { text }
        };
        out.push_str(&column::line(columns.iter().map(cell)));
        out.push('\n');
    }
    out.push_str(
        &style.paint(ResultPaint::Quiet, "latencies in us; of class: p99.9 against the class's median"),
    );
    out.push_str("\n\n");
}
