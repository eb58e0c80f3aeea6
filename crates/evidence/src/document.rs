// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON that other programs rely on; its schemas are generated from these types.
//!
//! [`ProveDocument`] is the one document of which every output of a verdict is made: terminal, page, JSON,
//! `verdict.json`, KTAP, JUnit, Prometheus, the live page and the fleet's store. [`VerdictParts`] are the
//! parts that none of them may lack.

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
use crate::verdict::{Verdict, VerdictOutcome};

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

/// The parts of a verdict that every output shows. An output takes them apart without `..`: a part that is
/// added here does not compile where an output lacks it.
#[derive(Debug, Clone, Copy)]
pub struct VerdictParts<'a> {
    /// Whether the limit held.
    pub outcome: VerdictOutcome,
    /// The limit; the strictest if rows differ.
    pub limit_ns: Option<u64>,
    /// All reasons against it; if it held, the claims that the data support.
    pub reasons: &'a [Sentence],
    /// The claim of the rows of cycles.
    pub claim: Option<&'a Claim>,
    /// The disturbances, accepted ones too.
    pub taints: &'a [Taint],
    /// The result for the requested use, with its grade.
    pub purpose: Option<&'a UseVerdict>,
    /// Late cycles of all rows of cycles; gaps above their limit of a run that has no such row.
    pub late: Count<Cycles>,
    /// Cycles that were due, of the same rows: those with a sample, and those whose period was missed.
    pub due: Count<Cycles>,
}

/// How the line of an accepted taint begins.
pub const ACCEPTED: &str = "accepted taint ";

impl VerdictParts<'_> {
    /// All parts as lines of text: the outcome, late cycles, the grade, the reasons with the taints that
    /// count, and the accepted taints.
    pub fn lines(&self) -> Vec<Sentence> {
        let VerdictParts { outcome, limit_ns, reasons, claim, taints, purpose, late, due } = *self;
        let limit = limit_ns.map(|ns| sentence![" ", Time::round(ns)]).unwrap_or_default();
        let mut lines = vec![sentence![outcome.name(), limit], sentence!["late cycles: ", late, " of ", due]];
        lines.extend(purpose.and_then(UseVerdict::sentence));
        lines.extend(reasons.iter().cloned());
        // Of a verdict that holds it is the reason.
        let beside = claim.filter(|_| outcome != VerdictOutcome::Held);
        lines.extend(beside.map(|claim| sentence!["claim: ", claim]));
        let accepted = taints.iter().filter(|taint| taint.accepted);
        lines.extend(accepted.map(|taint| format!("{ACCEPTED}{taint}").into()));
        lines
    }
}

/// `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictFile {
    /// The verdict, with reasons.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The disturbances of the measurement, accepted ones too.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// The result for the requested use; absent without one.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<UseVerdict>,
    /// Late cycles of all rows.
    #[serde(default)]
    pub late: u64,
    /// The same at most.
    #[serde(default)]
    pub late_at_most: u64,
    /// Cycles that were due, of all rows: those with a sample, and those whose period was missed.
    #[serde(default)]
    pub cycles: u64,
}

impl VerdictFile {
    /// The part of a document that is kept beside the evidence.
    pub fn of(document: &ProveDocument) -> VerdictFile {
        // Outcome, limit, reasons and claim are the verdict's own.
        let VerdictParts { outcome: _, limit_ns: _, reasons: _, claim: _, taints, purpose, late, due } =
            document.parts();
        VerdictFile {
            verdict: document.verdict.clone(),
            taints: taints.to_vec(),
            purpose: purpose.cloned(),
            late: late.least(),
            late_at_most: late.most(),
            cycles: due.most(),
        }
    }
}

impl ProveDocument {
    /// The parts that every output shows.
    pub fn parts(&self) -> VerdictParts<'_> {
        let Verdict { outcome, limit_ns, reasons, claim, .. } = &self.verdict;
        // A loop that never sleeps counts iterations: among those the share of late cycles would vanish.
        let has_cycles = self.rows.iter().any(|row| row.key.is_cyclic());
        let counted = || self.rows.iter().filter(|row| row.key.is_cyclic() || !has_cycles);
        VerdictParts {
            outcome: *outcome,
            limit_ns: *limit_ns,
            reasons,
            claim: claim.as_ref(),
            taints: &self.taints,
            purpose: self.purpose.as_ref(),
            late: counted().map(Summary::late_cycles).sum(),
            due: counted().map(Summary::due).sum(),
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
        let summary = |row: &Row| Summary { weakly_hard: bundle.weakly_hard(row), ..Summary::of(row) };
        let rows = bundle.rows.iter().map(summary).collect::<Vec<_>>();
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
