// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of a plan, for people: a line each, and why where it is not in force.

use std::fmt::Write;

use super::{Seen, State, Verified};
use crate::text::{cleaned, wrapped};

/// Lines of at most `width` columns, the verdict last.
pub fn text(verified: &Verified, width: usize) -> String {
    let mut out = String::new();
    for check in &verified.checks {
        let mark = match check.result {
            State::InForce => "in force",
            State::Not => "NOT",
            State::Unknown => "unknown",
        };
        let value = if check.wanted.is_empty() || check.wanted.contains('\n') {
            String::new()
        } else {
            format!(" = {}", check.wanted)
        };
        wrapped(&mut out, &format!("{mark:10}"), &format!("{}{value}", cleaned(&check.target)), width);
        if check.result != State::InForce {
            wrapped(
                &mut out,
                "            ",
                &places(&[
                    ("configured", &check.configured),
                    ("running", &check.running),
                    ("in effect", &check.effective),
                ]),
                width,
            );
        }
        if !check.why.is_empty() {
            wrapped(&mut out, "            ", &check.why, width);
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

fn places(places: &[(&str, &Seen)]) -> String {
    let words = places.iter().filter(|(_, seen)| seen.source.is_some()).map(|(name, seen)| {
        let state = match seen.agrees {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        match &seen.value {
            Some(value) if seen.agrees == Some(false) && !value.is_empty() => {
                format!("{name}: {state} ({})", cleaned(value))
            }
            _ => format!("{name}: {state}"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}
