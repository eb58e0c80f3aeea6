// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate: those of the crates below it, and refusals of its own.

use crate::finding::PreflightFinding;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, RunError>;

/// Why a run could not be measured; one line each.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It cannot be measured as asked.
    #[error("{0}")]
    Refused(PreflightFinding),
    /// The request makes no sense, the kernel did not grant it, or evidence could not be written or read.
    #[error(transparent)]
    Failed(#[from] ::error::Error),
    /// There is no such load.
    #[error(transparent)]
    Load(#[from] load::LoadError),
    /// A row could not be measured.
    #[error(transparent)]
    Measure(#[from] measure::MeasureError),
}

impl From<PreflightFinding> for RunError {
    fn from(finding: PreflightFinding) -> Self {
        RunError::Refused(finding)
    }
}
