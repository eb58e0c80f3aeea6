// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a check.

use std::fmt;

use machine::advice::{Advice, Manual};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub enum FindingOutcome {
    /// As it should be.
    #[serde(rename = "PASS")]
    Pass,
    /// It can make a cycle late.
    #[serde(rename = "WARN")]
    Warn,
    /// It will make cycles late, or a configured setting has no effect.
    #[serde(rename = "FAIL")]
    Fail,
    /// It could not be read; the finding names the file and the missing permission.
    #[serde(rename = "UNKNOWN")]
    Unknown,
    /// This machine, or this profile, cannot have the problem.
    #[serde(rename = "N/A")]
    NotApplicable,
}

impl FindingOutcome {
    /// Worst first.
    pub fn rank(self) -> u8 {
        match self {
            FindingOutcome::Fail => 0,
            FindingOutcome::Warn => 1,
            FindingOutcome::Unknown => 2,
            FindingOutcome::Pass => 3,
            FindingOutcome::NotApplicable => 4,
        }
    }
}

impl fmt::Display for FindingOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            FindingOutcome::Pass => "PASS",
            FindingOutcome::Warn => "WARN",
            FindingOutcome::Fail => "FAIL",
            FindingOutcome::Unknown => "UNKNOWN",
            FindingOutcome::NotApplicable => "N/A",
        })
    }
}

/// How much a check weighs for a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It decides whether the deadline can hold, or whether the machine boots.
    High,
    /// It makes some cycles late.
    Medium,
    /// A little.
    Low,
    /// Good to know.
    Info,
}

impl Severity {
    /// Gravest first.
    pub fn rank(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Low => "low",
            Severity::Info => "info",
        })
    }
}

/// A file and the text read from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The file, or several.
    pub source: String,
    /// Its content.
    pub value: String,
}

/// The configured, the running and the effective value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "State")]
pub struct FindingState {
    /// In the files that the next boot reads; absent: not known.
    pub configured: Option<String>,
    /// In the boot line that runs.
    pub running: Option<String>,
    /// As the kernel shows its effect.
    pub effective: Option<String>,
}

/// The finding of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The check's name.
    pub id: String,
    /// Its group.
    pub group: String,
    /// Its result.
    pub result: FindingOutcome,
    /// How much it weighs for the profile.
    pub severity: Severity,
    /// The finding, in a line.
    pub says: String,
    /// The value, and its source.
    pub evidence: Evidence,
    /// Configured, running and effective state, where they can differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<FindingState>,
    /// Why it matters.
    pub why: String,
    /// The cure, a command if there is one; absent if none is needed.
    pub fix: Option<String>,
    /// The same, as the table of advice has it: with the action of a plan that does it, or why none does.
    #[serde(skip)]
    pub advice: Option<Advice>,
    /// The source of the cure.
    pub source: String,
}

/// A check's function returns this; the rest of the [`Finding`] is the check's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub(crate) result: FindingOutcome,
    pub(crate) says: String,
    pub(crate) evidence: Evidence,
    pub(crate) state: Option<FindingState>,
    pub(crate) advice: Option<Advice>,
}

/// `Err` is a result as well: it lets a check end early where something is unknown or does not apply.
pub(crate) type CheckResult = Result<Conclusion, Conclusion>;

/// Evidence from `source`.
pub(crate) fn read_in(source: impl fmt::Display, value: impl fmt::Display) -> Evidence {
    Evidence { source: source.to_string(), value: value.to_string() }
}

impl Conclusion {
    fn new(result: FindingOutcome, evidence: Evidence, says: impl Into<String>) -> Conclusion {
        Conclusion { result, says: says.into(), evidence, state: None, advice: None }
    }

    pub(crate) fn pass(evidence: Evidence, says: impl Into<String>) -> Conclusion {
        Conclusion::new(FindingOutcome::Pass, evidence, says)
    }

    pub(crate) fn warn(evidence: Evidence, says: impl Into<String>, advice: Advice) -> Conclusion {
        Conclusion { advice: Some(advice), ..Conclusion::new(FindingOutcome::Warn, evidence, says) }
    }

    pub(crate) fn fail(evidence: Evidence, says: impl Into<String>, advice: Advice) -> Conclusion {
        Conclusion { advice: Some(advice), ..Conclusion::new(FindingOutcome::Fail, evidence, says) }
    }

    /// The conclusion where a fact could not be read: why, and what would help.
    pub(crate) fn unknown(
        source: impl fmt::Display,
        why: impl fmt::Display,
        look: impl Into<String>,
    ) -> Conclusion {
        let evidence = read_in(&source, "");
        Conclusion {
            advice: Some(Manual::Search.advice(look.into())),
            ..Conclusion::new(FindingOutcome::Unknown, evidence, format!("{source}: {why}"))
        }
    }

    pub(crate) fn not_applicable(says: impl Into<String>) -> Conclusion {
        Conclusion::new(FindingOutcome::NotApplicable, Evidence::default(), says)
    }

    pub(crate) fn state(self, state: FindingState) -> Conclusion {
        Conclusion { state: Some(state), ..self }
    }
}
