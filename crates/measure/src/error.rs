// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate: failures as in all crates, and refusals of its own.

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, MeasureError>;

/// Why a row could not be measured; one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// The kernel did not grant what was asked, or the evidence could not be written.
    #[error(transparent)]
    Failed(#[from] ::error::Error),
    /// This machine cannot measure that: what, and why.
    #[error("{0} is not available, because {1}")]
    NotAvailable(&'static str, String),
}
