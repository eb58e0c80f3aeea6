// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each knob was worth, for people; those that did nothing are named at the end.

use std::fmt::Write;

use super::{Does, Effect, Measured};
use crate::text::wrapped;

/// Lines of at most `width` columns.
pub fn text(measured: &Measured, width: usize) -> String {
    let mut out = String::new();
    let head = format!(
        "cpu {}, {} rounds of {} s without and with each knob; differences with 95 % intervals, below zero is better",
        measured.cpu, measured.rounds, measured.seconds
    );
    wrapped(&mut out, "", &head, width);
    for knob in &measured.knobs {
        let mark = match knob.does {
            Does::Helps => "helps",
            Does::Harms => "HARMS",
            Does::Nothing => "nothing",
        };
        let _ = writeln!(out, "\n{mark:8}{}", knob.name);
        for effect in &knob.effects {
            wrapped(&mut out, "          ", &line(effect), width);
        }
    }
    if !measured.skipped.is_empty() {
        out.push_str("\nnot measured\n");
        for skipped in &measured.skipped {
            wrapped(&mut out, "  ", &format!("{}: {}", skipped.what, skipped.reason), width);
        }
    }
    let nothing: Vec<&str> = measured
        .knobs
        .iter()
        .filter(|knob| knob.does == Does::Nothing)
        .map(|knob| knob.name.as_str())
        .collect();
    if !nothing.is_empty() {
        out.push('\n');
        wrapped(&mut out, "showed nothing here: ", &nothing.join(", "), width);
    }
    if let Some(before) = &measured.before {
        let after = format!(
            "apply the plan, boot, and then: isolator prove --plan {before}/manifest.json -o after; isolator compare {before} after"
        );
        out.push('\n');
        wrapped(&mut out, "for what needs a reboot: ", &after, width);
    }
    out
}

fn line(effect: &Effect) -> String {
    let Effect { figure, unit, without, with, difference, low, high, .. } = effect;
    format!(
        "{figure}: {without:.1} to {with:.1} {unit}; difference {difference:+.1} ({low:+.1} to {high:+.1})"
    )
}
