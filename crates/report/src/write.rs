// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a bundle has for people and programs beside its evidence.

use std::path::PathBuf;

use evidence::{Bundle, Error, Result, Verdict, writer};

use crate::html::html;

/// Adds verdict and report to a bundle; everything in them comes from the bundle itself. Returns where the report went.
pub fn write_into(bundle: &Bundle) -> Result<PathBuf> {
    let path = bundle.path.join("verdict.json");
    let verdict = serde_json::to_string_pretty(&Verdict::of(bundle))
        .map_err(|error| Error::on("write", path.display(), error, "report this as a defect"))?;
    writer::replace_synced(&path, format!("{verdict}\n").as_bytes())?;
    let path = bundle.path.join("report.html");
    writer::replace(&path, html(std::slice::from_ref(bundle))?.as_bytes())?;
    Ok(path)
}
