// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle that was not measured here, an imported one for example, written as a folder.

use std::path::Path;

use crate::Result;
use crate::document::{ProveDocument, VerdictFile};
use crate::reader::Bundle;
use crate::taint::{self, Taint};
use crate::writer::BundleWriter;

/// Writes a bundle that is in memory as a bundle's folder, with its verdict. Its missing parts become a
/// taint there, since a folder by itself shows only missing parts of its own files.
pub fn store(bundle: &Bundle, folder: &Path) -> Result<()> {
    let mut manifest = bundle.manifest.clone();
    let cure = "import the whole output of one run";
    let cut = |reason: &String| Taint::new(taint::SOURCE_INCOMPLETE, reason, cure);
    manifest.taints.extend(bundle.missing.iter().map(cut));
    let mut writer = BundleWriter::create(folder, &manifest)?;
    for row in &bundle.rows {
        writer.whole_series(&row.entry.key, &row.series)?;
    }
    writer.spikes(&bundle.spikes)?;
    if let Some(lab) = &bundle.lab {
        writer.json("lab.json", lab)?;
    }
    writer.json("verdict.json", &VerdictFile::of(&ProveDocument::of(bundle)))
}
