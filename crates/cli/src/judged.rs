// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that measures, and what comes of it: the bundle, the table, the JSON, the report, the exit status.

use std::path::Path;

use evidence::document::ProveDocument;
use evidence::manifest::WrittenBy;
use run::{RunSpec, SessionContext};

use crate::args::Output;
use crate::output::{Exit, VerbResult};

/// This program, as evidence names it.
pub fn this_program() -> WrittenBy {
    WrittenBy {
        program: "isolator".into(),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        commit: Some(env!("ISOLATOR_COMMIT").into()),
        command_line: Some(run::command_line()),
    }
}

/// Measures `spec` into `folder`; prints the table, and says whether the limit holds.
pub fn judged(
    setting: SessionContext<'_>,
    spec: &RunSpec,
    folder: Option<&Path>,
    out: &Output,
) -> VerbResult {
    let folder = folder.map_or_else(run::default_folder, Path::to_path_buf);
    let bundle = run::prove_in(setting, spec, &folder)?;
    let document = ProveDocument::of(&bundle);
    let report = report::write_into(&bundle, &document);
    // What was measured is shown even where no more can be written.
    out.print_text(&report::terminal::table(&document, out.style()));
    out.json(&document)?;
    out.print_text(&format!("Report: {}", report?.display()));
    match (document.rows.is_empty(), document.not_run.first()) {
        (true, Some(row)) => {
            Err(format!("cannot measure {} under {}: {}", row.probe, row.load, row.reason).into())
        }
        _ if document.verdict.held => Ok(Exit::Held),
        _ => Ok(Exit::Exceeded),
    }
}
