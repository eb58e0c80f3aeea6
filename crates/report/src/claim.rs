// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a verdict claims, and why not more: the sentences of its card.

use evidence::claim::{Claim, ClaimUnit, spelled};
use evidence::verdict::{DEFAULT_CLAIM, RowVerdict, VerdictOutcome};
use evidence::weakly_hard::LateAllowance;
use machine::quantity::Share;

use crate::runs::{RowView, ShownRun};
use crate::{taints, text};

/// A rate below `rate`, in words that need no exponent: `1 in 3,333`.
pub(crate) fn once_in(rate: f64) -> String {
    match rate {
        ..=0.0 => "none".to_string(),
        0.0..0.5 => format!("1 in {}", text::count((1.0 / rate * (1.0 + 1e-9)).floor() as u64)),
        _ => format!("{:.0} %", rate.min(1.0) * 100.0),
    }
}

/// The claim of a row in a cell of a table, behind the words "fewer than": `3 episodes in 20 s`.
pub(crate) fn of_row(claim: &Claim) -> String {
    match claim.unit {
        ClaimUnit::Episode => text::clean(claim.sentence().page()).replacen("fewer than ", "", 1).replacen(
            "late episodes",
            "episodes",
            1,
        ),
        ClaimUnit::Cycle | ClaimUnit::Boot => format!("{} cycles", once_in(claim.below)),
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
    if bound(run).is_none() {
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
    let claim = verdict.claim.as_ref().map(|claim| text::clean(claim.sentence().page())).unwrap_or_default();
    let joint = "95 % confidence for all rows together";
    match verdict.outcome {
        _ if verdict.limit_ns.is_none() => format!("Latencies were measured {place}; no limit judges them."),
        VerdictOutcome::Held => {
            let seen = match run.bundle.manifest.allowed() {
                None => "No cycle was late.".to_string(),
                Some(LateAllowance { m, k }) => format!("No {k} cycles in a row had more than {m} late."),
            };
            format!("{seen} In each row {claim} are to be expected ({joint}), {place}.")
        }
        VerdictOutcome::Exceeded => {
            let late = run.rows().filter(|row| row.row.entry.key.is_cyclic() && row.verdict.late > 0);
            let worst = late.max_by(|a, b| late_share(a).total_cmp(&late_share(b)));
            let Some(row) = worst else { return format!("Gaps above the limit were seen {place}.") };
            let late = match row.summary.stated_count() {
                Some(_) => format!("{} of", Share::from_to(row.verdict.late_cycles(), row.summary.due())),
                None => text::page(row.verdict.late_cycles()),
            };
            // Another tool's evidence does not say when they were.
            let when = !row.row.series.seconds.is_empty();
            let episodes = text::plural(row.verdict.late_episodes as usize, "episode");
            let episodes = if when { format!(", in {episodes},") } else { String::new() };
            format!("In the worst row {late} cycles were late{episodes} {place}.")
        }
        VerdictOutcome::Unproven => {
            format!("What follows stands against the claim: {claim} in each row ({joint}).")
        }
    }
}

fn late_share(row: &RowView) -> f64 {
    row.summary.late_share.unwrap_or(0.0)
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
        let asked = &run.bundle.manifest.asked;
        let fewest = cyclic(run).map(|row| row.count).min().unwrap_or(0);
        let horizon = run.document.verdict.claim.as_ref().map(|claim| spelled(claim.horizon_ns));
        reasons.push(format!(
            "an episode ends after {} without a late cycle; {} cycles in the shortest row bound the rate of their \
             begins below {}; {} was asked for, and ten times the cycles bound a tenth",
            horizon.unwrap_or_default(),
            text::count(fewest),
            once_in(bound),
            once_in(asked.claim.unwrap_or(DEFAULT_CLAIM)),
        ));
    }
    let claim = run.document.verdict.claim.as_ref().filter(|_| held);
    if let Some((factor, rate)) = claim.and_then(|claim| claim.cluster_factor.zip(claim.rate_below)) {
        reasons.push(format!(
            "if late cycles come together as the largest latencies do, an episode has at most {factor:.1} of them, and \
             their rate is below {}",
            once_in(rate)
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
            ["1 in 3,333", "1 in 1,000", "1 in 26", "60 %", "100 %"]
        );
    }
}
