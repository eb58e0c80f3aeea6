// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a verdict claims, and why not more: the sentences of its card.

use evidence::verdict::{DEFAULT_CLAIM, RowVerdict, VerdictOutcome};

use crate::runs::ShownRun;
use crate::{taints, text};

/// A rate below `rate`, in words that need no exponent: `1 in 3,333`.
pub(crate) fn once_in(rate: f64) -> String {
    match rate {
        ..=0.0 => "none".to_string(),
        0.0..0.5 => format!("1 in {}", text::count((1.0 / rate * (1.0 + 1e-9)).floor() as u64)),
        0.5..1.0 => format!("{:.0} %", rate * 100.0),
        _ => "any".to_string(),
    }
}

fn cyclic<'r>(run: &'r ShownRun) -> impl Iterator<Item = &'r RowVerdict> {
    run.document.verdict.rows.iter().filter(|row| row.key.is_cyclic() && row.measured())
}

/// The worst bound of any row of cycles; none without one.
fn bound(run: &ShownRun) -> Option<f64> {
    cyclic(run).map(|row| row.miss_rate_below).reduce(f64::max)
}

/// How much the samples support, in a sentence.
pub(crate) fn supported(run: &ShownRun) -> String {
    let verdict = &run.document.verdict;
    if !verdict.rows.iter().any(RowVerdict::measured) {
        return "Nothing was measured, so nothing is claimed.".to_string();
    }
    let place = "on this machine, under these loads";
    let Some(bound) = bound(run) else {
        return match verdict.outcome {
            VerdictOutcome::Held => format!("No gap above the limit was seen {place}."),
            VerdictOutcome::Exceeded => format!("Gaps above the limit were seen {place}."),
            VerdictOutcome::Unproven => {
                format!(
                    "No gap above the limit was seen {place}, but the evidence does not support the claim."
                )
            }
        };
    };
    let rare = once_in(bound);
    match verdict.outcome {
        _ if verdict.limit_ns.is_none() => format!("Latencies were measured {place}; no limit judges them."),
        VerdictOutcome::Held => {
            format!("No cycle was late. In each row fewer than {rare} are (95 % confidence), {place}.")
        }
        VerdictOutcome::Exceeded => {
            format!("Cycles were late: in the worst row fewer than {rare} (95 % confidence), {place}.")
        }
        VerdictOutcome::Unproven => {
            format!(
                "No cycle was late, so fewer than {rare} are in each row (95 % confidence); what follows stands against the claim."
            )
        }
    }
}

/// A limit of a verdict that holds: it is to be seen beside it.
pub(crate) fn but(run: &ShownRun) -> String {
    let accepted = taints::groups(&run.document.taints).iter().filter(|group| group.accepted()).count();
    match (run.document.verdict.outcome, accepted) {
        (VerdictOutcome::Held, 1..) => format!("with {} accepted", text::plural(accepted, "taint")),
        _ => String::new(),
    }
}

/// Why the verdict does not say more, the weightiest first.
pub(crate) fn short_of(run: &ShownRun) -> Vec<String> {
    let document = run.document;
    let held = document.verdict.outcome == VerdictOutcome::Held;
    // What supports a verdict that holds is its claim already.
    let mut reasons = if held { Vec::new() } else { taints::reasons(document) };
    reasons.extend(taints::accepted(document));
    if held && let Some(bound) = bound(run) {
        let claim = run.bundle.manifest.asked.claim.unwrap_or(DEFAULT_CLAIM);
        let fewest = cyclic(run).map(|row| row.count).min().unwrap_or(0);
        reasons.push(format!(
            "{} cycles in the shortest row bound the rate below {}; {} was asked for, and ten times the cycles bound a tenth",
            text::count(fewest),
            once_in(bound),
            once_in(claim),
        ));
    }
    let not_run =
        document.not_run.iter().filter(|row| held || row.optional).map(|row| text::short(&row.load, 40));
    let mut not_run: Vec<_> = not_run.collect();
    not_run.dedup();
    if !not_run.is_empty() {
        reasons.push(format!("not run, and not covered: {}", not_run.join(", ")));
    }
    if held {
        reasons.push("a run is no proof of a worst case, and speaks of these loads alone".to_string());
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_rounded_so_that_it_never_claims_more() {
        assert_eq!(
            [3e-4, 1e-3, 0.0375, 0.6, 1.0].map(once_in),
            ["1 in 3,333", "1 in 1,000", "1 in 26", "60 %", "any"]
        );
    }
}
