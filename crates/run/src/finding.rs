// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thing that was found of a run before it is measured, and what it does to the run.

use std::fmt;

use evidence::Taint;

/// What a finding does to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingEffect {
    /// It is written down.
    Note,
    /// It is held against the verdict, unless accepted.
    Taint,
    /// The run does not start.
    Refuse,
}

/// One thing that was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightFinding {
    /// A fixed word for it; what may taint has it from [`evidence::taint`].
    pub code: &'static str,
    /// What it does to the run.
    pub effect: FindingEffect,
    /// What was found, on what.
    pub reason: String,
    /// What to do about it.
    pub cure: String,
    /// The measured CPU that it concerns; absent: all of them, or the machine.
    pub cpu: Option<u32>,
}

impl PreflightFinding {
    pub(crate) fn new(
        effect: FindingEffect,
        code: &'static str,
        reason: impl fmt::Display,
        cure: impl fmt::Display,
    ) -> Self {
        PreflightFinding { code, effect, reason: reason.to_string(), cure: cure.to_string(), cpu: None }
    }

    pub(crate) fn on(self, cpu: Option<u32>) -> Self {
        PreflightFinding { cpu, ..self }
    }
}

impl fmt::Display for PreflightFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.reason, self.cure)
    }
}

impl From<PreflightFinding> for Taint {
    fn from(finding: PreflightFinding) -> Self {
        Taint { cpu: finding.cpu, ..Taint::new(finding.code, finding.reason, finding.cure) }
    }
}

/// Nanoseconds as microseconds, `0.5 us`.
pub(crate) fn us(ns: u64) -> String {
    format!("{} us", ns as f64 / 1000.0)
}
