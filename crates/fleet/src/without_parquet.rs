// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store of a program that has no Parquet.

use std::path::{Path, PathBuf};

use evidence::{Error, Judge, Result};

use crate::Stored;

/// Why nothing can be stored.
pub fn store(folder: &Path, _: &[PathBuf], _: &Judge) -> Result<Stored> {
    let why = "this program was built without Parquet, as make prove builds it";
    Err(Error::on("store bundles in", folder.display(), why, "build the whole program with make"))
}
