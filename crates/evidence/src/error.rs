// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate: what failed, on what, why, what to do — always one line.

use std::fmt::Display;
use std::path::Path;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What failed, on what, why, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {what} {on}: {why}; {cure}")]
pub struct Error {
    /// What was tried: `read`, `import`, `compare`.
    pub what: String,
    /// On what: a path, mostly.
    pub on: String,
    /// Why it failed.
    pub why: String,
    /// What to do.
    pub cure: String,
}

impl Error {
    /// An error in four parts; line breaks within a part become spaces.
    pub fn new(what: impl Display, on: impl Display, why: impl Display, cure: impl Display) -> Self {
        let line = |part: &dyn Display| part.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Error { what: line(&what), on: line(&on), why: line(&why), cure: line(&cure) }
    }

    /// An input or output error on `path`, with the cure that its kind suggests.
    pub fn io(what: &str, path: &Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::*;
        let cure = match error.kind() {
            NotFound => "check the path",
            // Of a folder that others own or may write (`untrusted`).
            PermissionDenied if error.get_ref().is_some() => {
                "choose another path, or a folder that is not there yet"
            }
            PermissionDenied => "run as a user who may, or choose another path",
            StorageFull | QuotaExceeded => "free some space, or choose another folder with -o",
            ReadOnlyFilesystem => "choose a folder that can be written with -o",
            NotADirectory | IsADirectory | AlreadyExists => "choose another path",
            InvalidInput => "look at who made it, and give a plain file",
            FileTooLarge => "give a smaller one",
            _ => "check the medium and try again",
        };
        Error::new(what, path.display(), machine::reason(error), cure)
    }
}
