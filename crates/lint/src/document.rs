// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found, as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rule::{LintSeverity, Rule};

/// The version of this document.
pub const SCHEMA_VERSION: u32 = 1;

/// What a program does that a real-time thread must not.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LintDocument {
    /// The version of this form.
    pub schema_version: u32,
    /// The process.
    pub process: u32,
    /// Its program.
    pub program: String,
    /// For how long its threads were watched.
    pub watched_ns: u64,
    /// The threads that were watched.
    pub threads: Vec<LintedThread>,
    /// What was found, the worst first.
    pub findings: Vec<LintFinding>,
    /// What could not be seen, in sentences.
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
    /// What its cycles wait with; null where no loop was found.
    pub waits_with: Option<String>,
    /// The time between two cycles, where they are regular.
    pub period_ns: Option<u64>,
}

/// A thread that a finding is of.
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
    /// Whether that counts.
    pub severity: LintSeverity,
    /// The thread; null for what concerns the whole process.
    pub thread: Option<LintThread>,
    /// `file:line` of the program's own code where debug information tells it, else `binary!function`. A
    /// finding of no one place states where the thread waits for its next cycle.
    #[serde(rename = "where")]
    pub place: String,
    /// How often while the program was watched.
    pub count: u64,
    /// What was done.
    pub message: String,
    /// What to do instead.
    pub advice: String,
    /// The source file, where it is known.
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
