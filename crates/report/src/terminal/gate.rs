// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate for a terminal or a CI's log: what got worse, what could not be judged, and the answer as the last
//! line.

use evidence::gate::Gated;

use crate::terminal::{ResultPaint, Style, banner, wrapped};
use crate::text;

/// Rows that could not be judged, listed; the JSON lists them all.
const LISTED: usize = 8;

/// What got worse, worst first, and the answer.
pub fn gated(gate: &Gated, style: Style) -> String {
    let mut out = String::new();
    for error in &gate.errors {
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
    for row in gate.not_judged.iter().take(LISTED) {
        let line = text::clean(&row.to_string());
        wrapped(&mut out, "not judged: ", &line, ResultPaint::Unsure, style);
    }
    if gate.not_judged.len() > LISTED {
        out.push_str(&format!("not judged: and {} more\n", gate.not_judged.len() - LISTED));
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
        0 if gate.not_judged.is_empty() => banner("==> NOTHING GOT WORSE", "ok", style),
        0 => {
            let line = format!("==> NOTHING GOT WORSE, but {} NOT JUDGED", gate.not_judged.len());
            banner(&line, "ok", style)
        }
        worse => banner(&format!("==> {worse} WORSE THAN THE BASELINE"), "late", style),
    };
    out.push('\n');
    out.push_str(&line);
    out
}
