// SPDX-License-Identifier: MIT OR Apache-2.0
//! A verdict in a few words, for the terminal and for a page.

use std::collections::BTreeSet;

use evidence::document::ProveDocument;
use evidence::verdict::{RowVerdict, VerdictOutcome};
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

pub(crate) fn outcome_text(outcome: VerdictOutcome, limit_ns: Option<u64>, sign: Sign) -> OutcomeText {
    let (state, mark, word) = match outcome {
        VerdictOutcome::Held => ("ok", "✓", "Holds"),
        VerdictOutcome::Exceeded => ("late", "✗", "Does not hold"),
        VerdictOutcome::Unproven => ("unproven", "?", "Unproven"),
    };
    let rest = match (outcome, limit_ns.map(|ns| Time::round(ns).write(sign))) {
        (VerdictOutcome::Unproven, Some(limit)) => format!(": {limit} was kept, but that is not proven"),
        (_, Some(limit)) => format!(" {limit}"),
        (_, None) => ": no limit was given".to_string(),
    };
    OutcomeText { state, mark, word, rest }
}

/// How many cycles were late, as the headline of a failure: `17.3 % of cycles were late`; nothing where none
/// is known to have been.
pub(crate) fn late_share(late: Count<Cycles>, due: Count<Cycles>) -> Option<String> {
    (late.least() > 0).then(|| format!("{} of cycles were late", Share::from_to(late, due)))
}

/// The words for a verdict; where nothing was measured no limit was kept either.
pub(crate) fn judged(document: &ProveDocument, sign: Sign) -> OutcomeText {
    let (verdict, parts) = (&document.verdict, document.parts());
    let mut said = outcome_text(verdict.outcome, verdict.limit_ns, sign);
    let of_cycles = verdict.rows.iter().any(|row| row.key.is_cyclic() && row.measured());
    match (verdict.outcome, late_share(parts.late, parts.due).filter(|_| of_cycles)) {
        (VerdictOutcome::Exceeded, Some(share)) => said.rest = format!("{}: {share}", said.rest),
        (VerdictOutcome::Unproven, _) if !verdict.rows.iter().any(RowVerdict::measured) => {
            said.rest = ": nothing was measured".to_string();
        }
        // Of a figure that its source cuts it is not known whether it kept the limit.
        (VerdictOutcome::Unproven, _) if document.rows.iter().any(|row| row.is_late().is_none()) => {
            let limit = verdict.limit_ns.map(|ns| Time::round(ns).write(sign)).unwrap_or_default();
            said.rest = format!(": whether {limit} was kept is unknown");
        }
        _ => {}
    }
    // A page has them beside the words.
    let accepted = document.taints.iter().filter(|taint| taint.accepted && sign == Sign::Plain);
    let codes = accepted.map(|taint| taint.code.as_str()).collect::<BTreeSet<_>>();
    if !codes.is_empty() {
        let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
        said.rest.push_str(&format!(", accepted: {}", text::clean(&codes)));
    }
    said
}

/// A verdict in a few words: `Does not hold 100 us: 17.3 % of cycles were late`.
pub fn outcome(document: &ProveDocument) -> String {
    let OutcomeText { word, rest, .. } = judged(document, Sign::Plain);
    format!("{word}{rest}")
}
