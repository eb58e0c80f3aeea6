// SPDX-License-Identifier: MIT OR Apache-2.0
//! A verified plan: a line for each action, and the reason where it is not in force.

use std::fmt::Write;

use tune::verify::{CheckState, Observed, Verified};

use super::entry;
use crate::terminal::Style;
use crate::text::clean;

/// Lines of the style's width, the verdict last.
pub fn verified(verified: &Verified, style: Style) -> String {
    let mut out = String::new();
    for check in &verified.checks {
        let mark = match check.result {
            CheckState::InForce => "in force",
            CheckState::Not => "NOT",
            CheckState::Unknown => "unknown",
        };
        let value = if check.wanted.is_empty() || check.wanted.contains('\n') {
            String::new()
        } else {
            format!(" = {}", check.wanted)
        };
        entry(&mut out, &format!("{mark:10}"), &format!("{}{value}", clean(&check.target)), style);
        if check.result != CheckState::InForce {
            entry(
                &mut out,
                "            ",
                &places(&[
                    ("configured", &check.configured),
                    ("running", &check.running),
                    ("in effect", &check.effective),
                ]),
                style,
            );
        }
        if !check.why.is_empty() {
            entry(&mut out, "            ", &check.why, style);
        }
    }
    let summary = &verified.summary;
    let all = verified.checks.len();
    let verdict = if verified.in_force { "all in force" } else { "not all in force" };
    let _ = writeln!(
        out,
        "\n{verdict}: {} of {all}; {} not, {} unknown",
        summary.in_force, summary.not, summary.unknown
    );
    out
}

fn places(places: &[(&str, &Observed)]) -> String {
    let words = places.iter().filter(|(_, seen)| seen.source.is_some()).map(|(name, seen)| {
        let state = match seen.agrees {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        match &seen.value {
            Some(value) if seen.agrees == Some(false) && !value.is_empty() => {
                format!("{name}: {state} ({})", clean(value))
            }
            _ => format!("{name}: {state}"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}
