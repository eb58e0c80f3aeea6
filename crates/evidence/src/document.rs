// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON that other programs rely on; `docs/schema/` is generated from these types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fitness::UseVerdict;
use crate::manifest::{NotRun, SCHEMA_VERSION};
use crate::reader::Bundle;
use crate::summary::Summary;
use crate::taint::Taint;
use crate::verdict::Verdict;

/// `isolator prove --json`, `isolator measure --json`, `isolator report --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProveDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// The bundle's path.
    pub bundle: String,
    /// Does it hold, and why not.
    pub verdict: Verdict,
    /// What the rows say of the use that was asked; absent where none was.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<UseVerdict>,
    /// What disturbed the measurement.
    pub taints: Vec<Taint>,
    /// What need not be held against it.
    pub notes: Vec<String>,
    /// The measured rows.
    pub rows: Vec<Summary>,
    /// What was asked but not measured, and why.
    pub not_run: Vec<NotRun>,
    /// Missing parts of the bundle.
    pub missing: Vec<String>,
}

impl ProveDocument {
    /// The document of a bundle.
    pub fn of(bundle: &Bundle) -> ProveDocument {
        let rows = bundle.rows.iter().map(Summary::of).collect::<Vec<_>>();
        let asked = bundle.manifest.asked.purpose.as_deref();
        ProveDocument {
            purpose: asked.and_then(|asked| UseVerdict::of(asked, &rows)),
            schema_version: SCHEMA_VERSION,
            bundle: bundle.path.display().to_string(),
            verdict: Verdict::of(bundle),
            taints: bundle.manifest.taints.clone(),
            notes: bundle.notes(),
            rows,
            not_run: bundle.manifest.rows_not_run(),
            missing: bundle.missing.clone(),
        }
    }
}
