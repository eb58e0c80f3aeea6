// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON that other programs rely on; its schemas are generated from these types.
//!
//! [`ProveDocument`] is the one document of which every output of a verdict is made: terminal, page, JSON,
//! `verdict.json`, KTAP, JUnit, Prometheus, the live page and the fleet's store. [`VerdictParts`] are the
//! parts that none of them may lack, and that comparisons, gates and causes state beside their own.

use machine::quantity::{Count, Cycles, Sentence, Time};
use machine::sentence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::fitness::UseVerdict;
use crate::manifest::{NotRun, SCHEMA_VERSION};
use crate::reader::Bundle;
use crate::row::Row;
use crate::summary::Summary;
use crate::taint::Taint;
use crate::verdict::{RowVerdict, Verdict, VerdictOutcome};

/// `isolator prove --json`, `isolator measure --json`, `isolator report --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProveDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// The bundle's path.
    pub bundle: String,
    /// The verdict, with reasons.
    pub verdict: Verdict,
    /// The result for the requested use; absent without one.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<UseVerdict>,
    /// The disturbances of the measurement.
    pub taints: Vec<Taint>,
    /// Notes, which do not count against the result.
    pub notes: Vec<String>,
    /// The measured rows.
    pub rows: Vec<Summary>,
    /// The requested rows that were not measured, with reasons.
    pub not_run: Vec<NotRun>,
    /// Missing parts of the bundle.
    pub missing: Vec<String>,
}

/// The verdict on a run, with the parts that no output of it may lack: the one form in which reports,
/// comparisons, gates, causes, exports and stores state it.
///
/// An output takes it apart without `..`: a part that is added here does not compile where an output lacks
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictParts {
    /// Whether the limit held.
    pub held: bool,
    /// Why held or not.
    pub outcome: VerdictOutcome,
    /// Whether the limit was kept; absent where that is unknown.
    #[serde(default)]
    pub kept: Option<bool>,
    /// The limit; the strictest if rows differ; absent if none applies.
    pub limit_ns: Option<u64>,
    /// All reasons against it, worst first; if it held, the claims that the data support.
    #[serde(default)]
    pub reasons: Vec<Sentence>,
    /// The claim of the rows of cycles, whatever the outcome; absent without such rows.
    #[serde(default)]
    pub claim: Option<Claim>,
    /// The disturbances of the measurement, accepted ones too.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// The result for the requested use, with its grade; absent without one.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<UseVerdict>,
    /// Late cycles of all rows of cycles; gaps above their limit of a run that has no such row.
    #[serde(flatten)]
    pub cycles: JudgedCycles,
}

/// Cycles of a run, and how many of them were late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedCycles {
    /// Late cycles of all rows.
    #[serde(default)]
    pub late: u64,
    /// The same at most.
    #[serde(default)]
    pub late_at_most: u64,
    /// Cycles that were due, of all rows: those with a sample, and those whose period was missed.
    #[serde(default)]
    pub cycles: u64,
    /// Whether there may be more: another tool's file does not say how many there were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_cycles: bool,
}

impl JudgedCycles {
    /// Late cycles.
    pub fn late(self) -> Count<Cycles> {
        Count::between(self.late, self.late_at_most)
    }

    /// Cycles that were due; `None` where their number is unknown.
    pub fn due(self) -> Option<Count<Cycles>> {
        (!self.more_cycles).then_some(Count::exact(self.cycles))
    }

    /// `7 of 20,000`: late cycles among those that were due.
    pub fn late_of_due(self) -> Sentence {
        match self.due() {
            Some(due) => sentence![self.late(), " of ", due],
            None => sentence![self.late(), " of an unknown number"],
        }
    }
}

/// How the line of an accepted taint begins.
pub const ACCEPTED: &str = "accepted taint ";

impl VerdictParts {
    /// All parts as lines of text: the outcome, late cycles, the grade, the reasons with the taints that
    /// count, and the accepted taints.
    pub fn lines(&self) -> Vec<Sentence> {
        let VerdictParts { held: _, outcome, kept: _, limit_ns, reasons, claim, taints, purpose, cycles } =
            self;
        let limit = limit_ns.map(|ns| sentence![" ", Time::round(ns)]).unwrap_or_default();
        let mut lines = vec![sentence![outcome.name(), limit]];
        lines.push(sentence!["late cycles: ", cycles.late_of_due()]);
        lines.extend(purpose.as_ref().and_then(UseVerdict::sentence));
        lines.extend(reasons.iter().cloned());
        // Of a verdict that holds it is the reason.
        let beside = claim.as_ref().filter(|_| *outcome != VerdictOutcome::Held);
        lines.extend(beside.map(|claim| sentence!["claim: ", claim]));
        let accepted = taints.iter().filter(|taint| taint.accepted);
        lines.extend(accepted.map(|taint| format!("{ACCEPTED}{taint}").into()));
        lines
    }
}

/// `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictFile {
    /// Version of this document.
    pub schema_version: u32,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: VerdictParts,
    /// Per row.
    pub rows: Vec<RowVerdict>,
}

impl VerdictFile {
    /// The part of a document that is kept beside the evidence.
    pub fn of(document: &ProveDocument) -> VerdictFile {
        let rows = document.verdict.rows.clone();
        VerdictFile { schema_version: SCHEMA_VERSION, verdict: document.parts(), rows }
    }
}

impl ProveDocument {
    /// The parts that every output shows.
    pub fn parts(&self) -> VerdictParts {
        // A loop that never sleeps counts iterations: among those the share of late cycles would vanish.
        let has_cycles = self.rows.iter().any(|row| row.key.is_cyclic());
        let counted = || self.rows.iter().filter(|row| row.key.is_cyclic() || !has_cycles);
        let late: Count<Cycles> = counted().map(Summary::late_cycles).sum();
        let due: Count<Cycles> = counted().map(Summary::due).sum();
        let Verdict { schema_version: _, held, outcome, kept, limit_ns, reasons, claim, rows: _ } =
            &self.verdict;
        VerdictParts {
            held: *held,
            outcome: *outcome,
            kept: *kept,
            limit_ns: *limit_ns,
            reasons: reasons.clone(),
            claim: claim.clone(),
            taints: self.taints.clone(),
            purpose: self.purpose.clone(),
            cycles: JudgedCycles {
                late: late.least(),
                late_at_most: late.most(),
                cycles: due.most(),
                more_cycles: counted().any(|row| !row.count_known),
            },
        }
    }

    /// The document of a bundle.
    pub fn of(bundle: &Bundle) -> ProveDocument {
        ProveDocument::with(bundle, Verdict::of(bundle))
    }

    /// The same document without estimates of tails, which take most of the time and decide nothing.
    pub fn without_tails(bundle: &Bundle) -> ProveDocument {
        ProveDocument::with(bundle, Verdict::without_tails(bundle))
    }

    fn with(bundle: &Bundle, verdict: Verdict) -> ProveDocument {
        let summary = |(row, judged): (&Row, &RowVerdict)| Summary {
            weakly_hard: bundle.weakly_hard(row),
            undecided: judged.unknown.is_some(),
            ..Summary::of(row)
        };
        let rows = bundle.rows.iter().zip(&verdict.rows).map(summary).collect::<Vec<_>>();
        let asked = bundle.manifest.asked.purpose.as_deref();
        ProveDocument {
            purpose: asked.and_then(|asked| UseVerdict::of(asked, &rows)),
            schema_version: SCHEMA_VERSION,
            bundle: bundle.path.display().to_string(),
            verdict,
            taints: bundle.manifest.taints.clone(),
            notes: bundle.notes(),
            rows,
            not_run: bundle.manifest.rows_not_run(),
            missing: bundle.missing.clone(),
        }
    }
}
