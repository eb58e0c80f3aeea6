// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors: what failed, why, what to do.

use std::fmt;

/// Why something could not be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    what: &'static str,
    why: String,
    cure: String,
}

/// A result with such an error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// `cannot WHAT: WHY; CURE`.
    pub fn new(what: &'static str, why: impl Into<String>, cure: impl Into<String>) -> Error {
        Error { what, why: why.into(), cure: cure.into() }
    }

    /// The middle of it, for a list of what was tried.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot {}: {}; {}", self.what, self.why, self.cure)
    }
}

impl std::error::Error for Error {}
