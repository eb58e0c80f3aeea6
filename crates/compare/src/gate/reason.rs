// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a gate does not pass: what got worse, and what could not be judged. Each has its words here.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{GateOptions, Judged, NotJudged};
use evidence::document::VerdictParts;
use evidence::manifest::{NotRun, RowKey};
use evidence::verdict::VerdictOutcome;
use machine::quantity::Sentence;

/// Why the gate fails. A document has its words.
#[derive(Debug, Clone, PartialEq)]
pub enum GateReason {
    /// The verdict is worse than that of every baseline.
    Verdict {
        /// The worst of the baselines.
        before: VerdictOutcome,
        /// The candidate's.
        now: VerdictOutcome,
        /// The candidate's first reason.
        why: Sentence,
    },
    /// The candidate does not keep the limit that the judge gave, for the candidate's first reason.
    Limit(Sentence),
    /// A row was measured before, and is not now.
    NotMeasured(RowKey),
    /// A figure got worse.
    Worse(Judged),
}

impl GateReason {
    /// Whether it is the verdict, and no row or figure.
    pub fn is_verdict(&self) -> bool {
        matches!(self, GateReason::Verdict { .. } | GateReason::Limit(_))
    }
}

impl fmt::Display for GateReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateReason::Verdict { before, now, why } => {
                write!(out, "verdict: {} before, {} now: {why}", before.name(), now.name())
            }
            GateReason::Limit(why) => write!(out, "verdict: the limit that was given does not hold: {why}"),
            GateReason::NotMeasured(key) => write!(out, "{key}: measured before, not now"),
            GateReason::Worse(figure) => figure.fmt(out),
        }
    }
}

/// Why the gate cannot pass. A document has its words.
#[derive(Debug, Clone, PartialEq)]
pub enum GateError {
    /// A part of a bundle is missing or damaged, which makes its figures uncertain.
    Damaged {
        /// `the candidate` or `the baseline`.
        which: &'static str,
        /// Its bundle.
        bundle: String,
        /// The part, and what it lacks.
        why: String,
    },
    /// The candidate's verdict by the judge's own limit or claim is open, for the candidate's first reason.
    Unproven(Sentence),
    /// A row, or a figure of one, could not be judged.
    NotJudged(NotJudged),
    /// A load did not run.
    NotRun(NotRun),
    /// The runs have no row in common.
    NothingInCommon,
}

impl GateError {
    /// Whether it is of no row, figure or load.
    pub fn is_fault(&self) -> bool {
        !matches!(self, GateError::NotJudged(_) | GateError::NotRun(_))
    }
}

impl fmt::Display for GateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateError::Damaged { which, bundle, why } => write!(out, "{which} {bundle} is damaged: {why}"),
            GateError::Unproven(why) => {
                write!(out, "by the limit or claim that was given the candidate is unproven: {why}")
            }
            GateError::NotJudged(one) => one.fmt(out),
            GateError::NotRun(row) => {
                write!(out, "{} under {} did not run: {}", row.probe, row.load, row.reason)
            }
            GateError::NothingInCommon => out.write_str("they have no row in common"),
        }
    }
}

impl Serialize for GateReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for GateError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The verdicts of the candidate that do not pass, whatever the figures are.
pub(super) enum VerdictFails {
    Worse(GateReason),
    Open(GateError),
}

/// The candidate's verdict against those of the baselines, and against the limit or claim that the judge
/// gave: that is asked of the candidate, whatever the baselines are.
pub(super) fn of_verdict<'a>(
    baselines: impl Iterator<Item = &'a VerdictParts>,
    after: &VerdictParts,
    choice: &GateOptions,
) -> Option<VerdictFails> {
    let before = baselines.map(|verdict| verdict.outcome).max_by_key(|outcome| rank(*outcome));
    let before = before.unwrap_or(VerdictOutcome::Held);
    let (now, why) = (after.outcome, after.reasons.first().cloned().unwrap_or_default());
    match now {
        _ if rank(before) < rank(now) => Some(VerdictFails::Worse(GateReason::Verdict { before, now, why })),
        VerdictOutcome::Exceeded if choice.limit_given => Some(VerdictFails::Worse(GateReason::Limit(why))),
        VerdictOutcome::Unproven if choice.claim_given || choice.limit_given && after.kept.is_none() => {
            Some(VerdictFails::Open(GateError::Unproven(why)))
        }
        _ => None,
    }
}

fn rank(outcome: VerdictOutcome) -> u8 {
    match outcome {
        VerdictOutcome::Held => 0,
        VerdictOutcome::Unproven => 1,
        VerdictOutcome::Exceeded => 2,
    }
}
