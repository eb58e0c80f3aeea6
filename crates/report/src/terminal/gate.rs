// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate for a terminal or a CI's log: every figure that was judged, what got worse, what could not be
//! judged, and the answer as the last line.

use compare::gate::{GateFigure, Gated, Judged, NotJudged};
use evidence::document::VerdictParts;
use machine::quantity::Sign;

use crate::change::percent;
use crate::outcome::outcome_text;
use crate::terminal::column::{self, TextColumn};
use crate::terminal::{ResultPaint, Style, banner, beside, wrapped};
use crate::text;

/// Rows that could not be judged, listed; the JSON lists them all.
const LISTED: usize = 8;

/// Figures listed, those of whole rows; the JSON lists them all.
const FIGURES: usize = 40;

/// The judged figures, those that got worse, worst first, and the answer.
pub fn gated(gate: &Gated, style: Style) -> String {
    let mut out = String::new();
    figures(&mut out, gate, style);
    let is_open =
        |error: &&String| gate.not_judged.iter().any(|one| one.is_beyond && one.to_string() == **error);
    for error in gate.errors.iter().filter(|error| !is_open(error)) {
        wrapped(&mut out, "damaged: ", &text::clean(error), ResultPaint::Unsure, style);
    }
    for reason in &gate.reasons {
        wrapped(&mut out, "- ", &text::clean(reason), ResultPaint::Bad, style);
    }
    for difference in &gate.differences {
        wrapped(&mut out, "unlike: ", &text::clean(&difference.to_string()), ResultPaint::Unsure, style);
    }
    for difference in &gate.machine_differences {
        wrapped(&mut out, "machine: ", &text::clean(&difference.to_string()), ResultPaint::Quiet, style);
    }
    // The claim stands with the other parts of a run, in `beside`.
    let VerdictParts { outcome, limit_ns, reasons: _, claim: _, taints: _, purpose: _, late: _, due: _ } =
        gate.candidate.parts();
    let said = outcome_text(outcome, limit_ns, Sign::Plain);
    wrapped(&mut out, "verdict now: ", &format!("{}{}", said.word, said.rest), ResultPaint::Quiet, style);
    for (which, run) in gate.baselines.iter().map(|run| ("before", run)).chain([("now", &gate.candidate)]) {
        beside(&mut out, which, run.parts(), style);
    }
    let beyond = gate.not_judged.iter().filter(|one| one.is_beyond).count();
    let not_run = gate.not_run.iter().map(|row| format!("{} under {}: {}", row.probe, row.load, row.reason));
    // What keeps the gate from passing first.
    let (worst, others): (Vec<_>, Vec<_>) = gate.not_judged.iter().partition(|one| one.is_beyond);
    let of = |rows: Vec<&NotJudged>| rows.into_iter().map(ToString::to_string).collect::<Vec<_>>();
    let open = of(worst).into_iter().chain(not_run).chain(of(others)).collect::<Vec<_>>();
    for (place, line) in open.iter().take(LISTED).enumerate() {
        let paint = if place < beyond { ResultPaint::Bad } else { ResultPaint::Unsure };
        wrapped(&mut out, "not judged: ", &text::clean(line), paint, style);
    }
    if open.len() > LISTED {
        out.push_str(&format!("not judged: and {} more, in the JSON\n", open.len() - LISTED));
    }
    let (judged, each) = (gate.figures.len(), 100.0 * gate.alpha / gate.comparisons.max(1) as f64);
    let line = format!(
        "{} judged, each at {each:.3} %; family-wise error rate {:.0} %; tolerance {:.0} %; seed {}",
        text::plural(judged, "figure"),
        100.0 * gate.alpha,
        100.0 * gate.tolerance,
        gate.seed
    );
    wrapped(&mut out, "note: ", &line, ResultPaint::Quiet, style);
    if gate.baselines.len() == 1 {
        let line = "one baseline does not show the variation from run to run: give several";
        wrapped(&mut out, "note: ", line, ResultPaint::Quiet, style);
    }
    let line = match gate.reasons.len() {
        0 if beyond > 0 => {
            banner(&format!("==> NOT JUDGED: {beyond} BEYOND WHAT IS ALLOWED"), "unproven", style)
        }
        0 if open.is_empty() => banner("==> NOTHING GOT WORSE", "ok", style),
        0 => banner(&format!("==> NOTHING GOT WORSE, but {} NOT JUDGED", open.len()), "ok", style),
        worse => banner(&format!("==> {worse} WORSE THAN THE BASELINE"), "late", style),
    };
    out.push('\n');
    out.push_str(&line);
    out
}

/// A block for each row that was judged: its maximum and limit, and a line for each of its figures.
fn figures(out: &mut String, gate: &Gated, style: Style) {
    let all = &gate.figures;
    if all.is_empty() {
        return;
    }
    let change = |one: &Judged, place: usize| one.change().map(|change| percent(100.0 * change[place]));
    let mut columns = vec![
        TextColumn::text("figure", 0, all, |one| short(one.figure).to_string()),
        TextColumn::of("before", 0, all, |one| one.figure.format(one.before)),
        TextColumn::of("now", 0, all, |one| one.figure.format(one.after)),
        TextColumn::of("allowed", 3, all, |one| one.figure.format(one.allowed)),
        TextColumn::of("change", 0, all, |one| change(one, 0).unwrap_or("-".to_string())),
        TextColumn::text("interval", 1, all, |one| match (change(one, 1), change(one, 2)) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            _ => "-".to_string(),
        }),
        TextColumn::text("", 0, all, |one| if one.worse { "WORSE" } else { "ok" }.to_string()),
    ];
    column::fit(&mut columns, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    let mut listed = 0;
    for row in &gate.rows {
        let of_row = |place: &usize| all[*place].key == row.key;
        let places = (0..all.len()).filter(of_row).collect::<Vec<_>>();
        if listed > 0 && listed + places.len() > FIGURES {
            break;
        }
        listed += places.len();
        wrapped(out, "", &text::clean(&format!("{}: {row}", row.key)), ResultPaint::Plain, style);
        out.push_str(&style.paint(ResultPaint::Quiet, &head));
        out.push('\n');
        for place in places {
            let paint = if all[place].worse { ResultPaint::Bad } else { ResultPaint::Good };
            let cell = |column: &TextColumn| {
                let text = column.set(&column.cells[place]);
                if column.head.is_empty() { style.paint(paint, &text) } else { text }
            };
            out.push_str(&column::line(columns.iter().map(cell)));
            out.push('\n');
        }
        out.push('\n');
    }
    if listed < all.len() {
        out.push_str(&format!("and {} more, in the JSON\n", text::plural(all.len() - listed, "figure")));
    }
}

/// The figure in few words.
fn short(figure: GateFigure) -> &'static str {
    match figure {
        GateFigure::SecondMax => "max a second",
        GateFigure::LateSeconds => "late seconds",
        other => other.label(),
    }
}
