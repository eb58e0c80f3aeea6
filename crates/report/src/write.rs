// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a bundle for people and programs beside its evidence.

use std::path::PathBuf;
use std::slice::from_ref;

use evidence::document::{ProveDocument, VerdictFile};
use evidence::{Bundle, Error, Result, writer};

use crate::html::html_of;

/// Adds verdict and report to a bundle that `document` was made of. Returns where the report went.
pub fn write_into(bundle: &Bundle, document: &ProveDocument) -> Result<PathBuf> {
    let path = bundle.path.join("verdict.json");
    let verdict = serde_json::to_string_pretty(&VerdictFile::of(document))
        .map_err(|error| Error::on("write", path.display(), error, "report this as a defect"))?;
    writer::replace_synced(&path, format!("{verdict}\n").as_bytes())?;
    let path = bundle.path.join("report.html");
    writer::replace(&path, html_of(from_ref(bundle), from_ref(document))?.as_bytes())?;
    Ok(path)
}
