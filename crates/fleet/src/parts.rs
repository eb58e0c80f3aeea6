// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a store, as folders.

use std::fs;
use std::path::{Path, PathBuf};

use evidence::{Error, Result};

/// The actions that were done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// Bundles that were added.
    pub added: usize,
    /// Bundles that were there already.
    pub known: usize,
    /// Bundles that could not be read, and why.
    pub unread: Vec<(PathBuf, String)>,
}

/// How the folders of parts begin.
pub(crate) const PART: &str = "part-";

/// The parts of a store, oldest first.
pub(crate) fn parts(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|e| Error::io("open the store", folder, &e))?;
    let mut parts =
        entries.flatten().map(|entry| entry.path()).filter(|path| number(path).is_some()).collect::<Vec<_>>();
    parts.sort_by_key(|path| number(path));
    Ok(parts)
}

/// The number of a part.
pub(crate) fn number(part: &Path) -> Option<u64> {
    part.file_name()?.to_str()?.strip_prefix(PART)?.parse().ok()
}
