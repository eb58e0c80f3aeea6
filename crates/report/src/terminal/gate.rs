// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate for a terminal or a CI's log: every figure, what could not be judged, what got worse, and the
//! answer as the last line.

use compare::gate::{FigureOutcome, GateFigure, Gated, Judged};
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

/// The remarks on the figures, the figures themselves, the reasons against passing, and the
/// answer: what matters most is last, where a screen that is too small shows it.
pub fn gated(gate: &Gated, style: Style) -> String {
    let mut out = String::new();
    beside_figures(&mut out, gate, style);
    figures(&mut out, gate, style);
    let open = gate.not_judged.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (place, line) in open.iter().enumerate() {
        if place == LISTED {
            out.push_str(&format!("not judged: and {} more, in the JSON\n", open.len() - LISTED));
            break;
        }
        wrapped(&mut out, "not judged: ", &text::clean(line), ResultPaint::Unsure, style);
    }
    for row in &gate.not_run {
        let line = format!("{} under {}: {}", row.probe, row.load, row.reason);
        let paint = if row.optional { ResultPaint::Quiet } else { ResultPaint::Unsure };
        wrapped(&mut out, "not run: ", &text::clean(&line), paint, style);
    }
    for line in gate.faults() {
        wrapped(&mut out, "not judged: ", &text::clean(&line.to_string()), ResultPaint::Unsure, style);
    }
    for reason in &gate.reasons {
        wrapped(&mut out, "- ", &text::clean(&reason.to_string()), ResultPaint::Bad, style);
    }
    let line = match (gate.reasons.len(), gate.errors.len()) {
        _ if gate.fails_its_limit_alone() => banner("==> THE LIMIT DOES NOT HOLD", "late", style),
        (0, 0) => banner("==> NOTHING GOT WORSE", "ok", style),
        (0, open) => banner(&format!("==> NOT PASSED: {open} NOT JUDGED"), "unproven", style),
        (worse, _) => banner(&format!("==> {worse} WORSE THAN THE BASELINE"), "late", style),
    };
    out.push('\n');
    out.push_str(&line);
    out
}

/// The remarks on the figures.
fn beside_figures(out: &mut String, gate: &Gated, style: Style) {
    let quiet = |out: &mut String, lead: &str, line: &str| {
        wrapped(out, lead, &text::clean(line), ResultPaint::Quiet, style);
    };
    for line in &gate.judging {
        wrapped(out, "judged by: ", &text::clean(line), ResultPaint::Unsure, style);
    }
    for difference in &gate.differences {
        wrapped(out, "unlike: ", &text::clean(&difference.to_string()), ResultPaint::Unsure, style);
    }
    for difference in &gate.machine_differences {
        quiet(out, "machine: ", &difference.to_string());
    }
    let said = outcome_text(&gate.candidate.verdict, Sign::Plain);
    quiet(out, "verdict now: ", &format!("{}{}", said.word, said.rest));
    for (which, run) in gate.baselines.iter().map(|run| ("before", run)).chain([("now", &gate.candidate)]) {
        beside(out, which, &run.verdict, style);
    }
    let (judged, each) = (gate.figures.len(), 100.0 * gate.alpha / gate.comparisons.max(1) as f64);
    let line = format!(
        "{}, each at {each:.3} %; family-wise error rate {:.0} %; tolerance {:.0} %; seed {}",
        text::plural(judged, "figure"),
        100.0 * gate.alpha,
        100.0 * gate.tolerance,
        gate.seed
    );
    quiet(out, "note: ", &line);
    if gate.baselines.len() == 1 {
        quiet(out, "note: ", "one baseline does not show the variation from run to run: give several");
    }
    if gate.figures.iter().any(|one| one.outcome() == FigureOutcome::Unclear) {
        quiet(out, "note: ", "unclear: above what is allowed, by no more than chance explains");
    }
    out.push('\n');
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
        TextColumn::text("", 0, all, |one| word(one.outcome()).1.to_string()),
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
            let (paint, _) = word(all[place].outcome());
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

/// The word for an outcome, and its colour.
fn word(outcome: FigureOutcome) -> (ResultPaint, &'static str) {
    match outcome {
        FigureOutcome::Ok => (ResultPaint::Good, "ok"),
        FigureOutcome::Unclear => (ResultPaint::Unsure, "unclear"),
        FigureOutcome::Worse => (ResultPaint::Bad, "WORSE"),
        FigureOutcome::NotJudged => (ResultPaint::Unsure, "not judged"),
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
