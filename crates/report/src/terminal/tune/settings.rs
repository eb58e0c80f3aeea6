// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of each setting, with those that did nothing at the end.

use std::fmt::Write;

use tune::measure::{Does, MeasuredPlan, SettingEffect};

use super::entry;
use crate::terminal::Style;

/// The measured settings, in lines of the style's width.
pub fn settings(measured: &MeasuredPlan, style: Style) -> String {
    let mut out = String::new();
    let head = format!(
        "cpu {}, {} rounds of {} s without and with each setting; differences with 95 % intervals, below zero is better",
        measured.cpu, measured.rounds, measured.seconds
    );
    entry(&mut out, "", &head, style);
    for setting in &measured.settings {
        let mark = match setting.does {
            Does::Helps => "helps",
            Does::Harms => "HARMS",
            Does::Nothing => "nothing",
        };
        let _ = writeln!(out, "\n{mark:8}{}", setting.name);
        for effect in &setting.effects {
            entry(&mut out, "          ", &line(effect), style);
        }
    }
    if !measured.skipped.is_empty() {
        out.push_str("\nnot measured\n");
        for skipped in &measured.skipped {
            entry(&mut out, "  ", &format!("{}: {}", skipped.what, skipped.reason), style);
        }
    }
    let nothing: Vec<&str> = measured
        .settings
        .iter()
        .filter(|setting| setting.does == Does::Nothing)
        .map(|setting| setting.name.as_str())
        .collect();
    if !nothing.is_empty() {
        out.push('\n');
        entry(&mut out, "no measurable effect: ", &nothing.join(", "), style);
    }
    if let Some(before) = &measured.before {
        let after = format!(
            "apply the plan, boot, and then: isolator prove --like {before} -o after; isolator compare {before} after"
        );
        out.push('\n');
        entry(&mut out, "for what needs a reboot: ", &after, style);
    }
    out
}

fn line(effect: &SettingEffect) -> String {
    let SettingEffect { figure, unit, without, with, difference, low, high, .. } = effect;
    format!(
        "{figure}: {without:.1} to {with:.1} {unit}; difference {difference:+.1} ({low:+.1} to {high:+.1})"
    )
}
