// SPDX-License-Identifier: MIT OR Apache-2.0
//! A verdict in a few words, for the terminal and for a page.

use std::collections::BTreeSet;

use evidence::document::{ProveDocument, VerdictParts};
use evidence::verdict::{NOTHING_MEASURED, VerdictOutcome};
use machine::quantity::{Count, Cycles, Say, Share, Sign, Time};

use crate::text;

/// The words for an outcome.
pub(crate) struct OutcomeText {
    /// `ok`, `late` or `unproven`.
    pub state: &'static str,
    pub mark: &'static str,
    /// `Does not hold`.
    pub word: &'static str,
    /// ` 100 us`: what follows the word.
    pub rest: String,
}

/// How many cycles were late, as the headline of a failure: `17.3 % of cycles were late`; nothing where none
/// is known to have been, and of an unknown number.
pub(crate) fn late_share(late: Count<Cycles>, due: Option<Count<Cycles>>) -> Option<String> {
    let due = due.filter(|_| late.least() > 0)?;
    Some(format!("{} of cycles were late", Share::from_to(late, due)))
}

/// The words for a verdict. Where it is unknown whether the limit was kept they do not say that it was.
pub(crate) fn outcome_text(verdict: &VerdictParts, sign: Sign) -> OutcomeText {
    let VerdictParts { outcome, kept, limit_ns, reasons, .. } = verdict;
    let (state, mark, word) = match outcome {
        VerdictOutcome::Held => ("ok", "✓", "Holds"),
        VerdictOutcome::Exceeded => ("late", "✗", "Does not hold"),
        VerdictOutcome::Unproven => ("unproven", "?", "Unproven"),
    };
    let limit = limit_ns.map(|ns| Time::round(ns).write(sign));
    let rest = match (outcome, limit) {
        (VerdictOutcome::Unproven, _) if reasons.iter().any(|why| *why == NOTHING_MEASURED) => {
            format!(": {NOTHING_MEASURED}")
        }
        (VerdictOutcome::Unproven, Some(limit)) if kept.is_none() => {
            format!(": whether {limit} was kept is unknown")
        }
        (VerdictOutcome::Unproven, Some(limit)) => format!(": {limit} was kept, but that is not proven"),
        (_, Some(limit)) => format!(" {limit}"),
        (_, None) => ": no limit was given".to_string(),
    };
    OutcomeText { state, mark, word, rest }
}

/// The same with the share of late cycles and the accepted taints, where nothing beside it has them.
pub(crate) fn judged(verdict: &VerdictParts, sign: Sign) -> OutcomeText {
    let mut said = outcome_text(verdict, sign);
    let VerdictParts {
        held: _,
        outcome,
        kept: _,
        limit_ns: _,
        reasons: _,
        claim,
        taints,
        purpose: _,
        cycles,
    } = verdict;
    // Gaps are no cycles, and claim nothing of any.
    let late = late_share(cycles.late(), cycles.due()).filter(|_| claim.is_some());
    if let (VerdictOutcome::Exceeded, Some(share)) = (outcome, late) {
        said.rest = format!("{}: {share}", said.rest);
    }
    // A page has them beside the words.
    let accepted = taints.iter().filter(|taint| taint.accepted && sign == Sign::Plain);
    let codes = accepted.map(|taint| taint.code.as_str()).collect::<BTreeSet<_>>();
    if !codes.is_empty() {
        let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
        said.rest.push_str(&format!(", accepted: {}", text::clean(&codes)));
    }
    said
}

/// A verdict in a few words: `Does not hold 100 us: 17.3 % of cycles were late`.
pub fn outcome(document: &ProveDocument) -> String {
    let OutcomeText { word, rest, .. } = judged(&document.parts(), Sign::Plain);
    format!("{word}{rest}")
}
