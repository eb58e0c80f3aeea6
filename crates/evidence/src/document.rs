// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON that other programs rely on; its schemas are generated from these types.

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
    /// The verdict, with reasons.
    pub verdict: Verdict,
    /// The result for the requested use; absent without one.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<UseVerdict>,
    /// The disturbances of the measurement.
    pub taints: Vec<Taint>,
    /// Notes, which do not count against the result.
    pub notes: Vec<String>,
    /// The measured rows.
    pub rows: Vec<Summary>,
    /// The requested rows that were not measured, with reasons.
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
