// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate: what failed, on what, why, what to do — always one line.

use std::fmt::Display;
use std::io::{self, ErrorKind};

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What failed, on what, why, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {what}: {why}; {cure}")]
pub struct Error {
    /// What was tried, and on what.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// What to do.
    pub cure: String,
}

impl Error {
    /// An error in three parts; line breaks within a part become spaces.
    pub fn new(what: impl Display, why: impl Display, cure: impl Display) -> Self {
        let line = |part: &dyn Display| part.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Error { what: line(&what), why: line(&why), cure: line(&cure) }
    }

    /// An input or output error, with the cure that its kind suggests.
    pub fn io(what: &str, path: &str, error: &io::Error) -> Self {
        let cure = match error.kind() {
            ErrorKind::PermissionDenied => "run it as root".to_string(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "free some space there and try again".to_string()
            }
            ErrorKind::ReadOnlyFilesystem => {
                let mount = if path.starts_with("/boot") { "/boot" } else { "/" };
                format!("make it writable, `mount -o remount,rw {mount}`, and try again")
            }
            ErrorKind::NotFound => "check that it exists".to_string(),
            _ => "look at the kernel's log and try again".to_string(),
        };
        Error::new(format!("{what} {path}"), machine::reason(error), cure)
    }
}
