// SPDX-License-Identifier: MIT OR Apache-2.0
//! A verdict in a few words, for the terminal and for a page.

use evidence::Verdict;
use evidence::verdict::{RowVerdict, VerdictOutcome};
use machine::quantity::{Say, Sign, Time};

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

/// The words for a verdict; where nothing was measured no limit was kept either.
pub(crate) fn judged(verdict: &Verdict, sign: Sign) -> OutcomeText {
    let mut said = outcome_text(verdict.outcome, verdict.limit_ns, sign);
    if verdict.outcome == VerdictOutcome::Unproven && !verdict.rows.iter().any(RowVerdict::measured) {
        said.rest = ": nothing was measured".to_string();
    }
    said
}

/// A verdict in a few words: `Does not hold 100 us`.
pub fn outcome(verdict: &Verdict) -> String {
    let OutcomeText { word, rest, .. } = judged(verdict, Sign::Plain);
    format!("{word}{rest}")
}
