// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings, as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rule::{LintSeverity, Rule};

/// The version of this document.
pub const SCHEMA_VERSION: u32 = 1;

/// The rules for real-time threads that a program breaks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The process.
    pub process: u32,
    /// Its program.
    pub program: String,
    /// For how long its threads were watched.
    pub watched_ns: u64,
    /// The threads that were watched.
    pub threads: Vec<LintedThread>,
    /// The findings, the worst first.
    pub findings: Vec<LintFinding>,
    /// Events that could not be seen, in sentences.
    pub not_seen: Vec<String>,
}

/// A thread that was watched.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintedThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its scheduling policy.
    pub policy: String,
    /// Its real-time priority.
    pub priority: u32,
    /// The wait that ends its cycles; null without a loop.
    pub waits_with: Option<String>,
    /// The time between two cycles, if it is regular.
    pub period_ns: Option<u64>,
}

/// The thread of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LintThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// A rule that is broken at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LintFinding {
    /// The rule.
    pub rule: Rule,
    /// Whether it counts as a broken rule.
    pub severity: LintSeverity,
    /// The thread; null for a finding about the whole process.
    pub thread: Option<LintThread>,
    /// `file:line` of the program's own code if debug information has it, else `binary!function`. A finding
    /// without a place of its own has the place where the thread waits for its next cycle.
    #[serde(rename = "where")]
    pub place: String,
    /// How often it happened while the program was watched.
    pub count: u64,
    /// The finding as a sentence.
    pub message: String,
    /// The cure.
    pub advice: String,
    /// The source file, if known.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// `binary!function` of the program's own code.
    pub function: Option<String>,
    /// The functions on the call stack, the innermost first.
    pub stack: Vec<String>,
}

impl LintDocument {
    /// Whether no rule is broken; notes do not count.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == LintSeverity::Note)
    }
}
