// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run that measures, and what comes of it: the bundle, the table, the JSON, the report, the exit status.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evidence::Bundle;
use evidence::document::ProveDocument;
use evidence::manifest::WrittenBy;
use run::{RunSpec, SessionContext};

use crate::args::{Detail, Output, RunOptions};
use crate::boots;
use crate::live::page::LivePage;
use crate::next;
use crate::outcome::{Document, VerbResult};

/// The first file of a bundle.
const MANIFEST: &str = "manifest.json";

/// This program, as evidence names it.
pub fn this_program() -> WrittenBy {
    WrittenBy {
        program: "isolator".into(),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        commit: Some(env!("ISOLATOR_COMMIT").into()),
        command_line: Some(run::command_line()),
    }
}

/// The page of a run on `address`, where one is wanted: its thread, and this one from now on, stay on the
/// CPUs for control.
pub fn live_page(
    address: Option<SocketAddr>,
    spec: &RunSpec,
    stop: &Arc<AtomicBool>,
) -> Result<Option<LivePage>, Box<dyn std::error::Error>> {
    let Some(address) = address else { return Ok(None) };
    run::control::stay_on(&spec.house_keeping)?;
    Ok(Some(LivePage::serve(address, title(), Arc::clone(stop))?))
}

/// The command line, without the folder of the program.
pub fn title() -> String {
    let line = run::command_line();
    let (program, rest) = line.split_once(' ').unwrap_or((&line, ""));
    format!("{} {rest}", program.rsplit('/').next().unwrap_or(program))
}

/// Measures `spec` into a new folder; prints the table, and says whether the limit holds, with the runs of
/// other boots where the options name them. A page gets the verdict too.
pub fn judged(
    setting: SessionContext<'_>,
    spec: &RunSpec,
    page: Option<&LivePage>,
    options: &RunOptions,
    out: &Output,
) -> VerbResult {
    let others = boots::opened(&options.boots)?;
    let folder = options.output.clone().unwrap_or_else(run::default_folder);
    // A run that is refused since the folder holds another one has saved nothing.
    let is_new = !untrusted::is_there(folder.join(MANIFEST));
    let bundle = run::prove_in(setting, spec, &folder).inspect_err(|_| {
        if is_new {
            kept(&folder, out)
        }
    })?;
    outcome(&bundle, &others, page, options, out)
}

/// The same of a bundle that is there, beside the runs of other boots.
pub fn outcome(
    bundle: &Bundle,
    others: &[Bundle],
    page: Option<&LivePage>,
    options: &RunOptions,
    out: &Output,
) -> VerbResult {
    let document = boots::judged(bundle, ProveDocument::of(bundle), others, &options.boots)?;
    let report = report::write_into(bundle, &document);
    // What was measured is shown even where no more can be written.
    show(&document, options.detail, out);
    out.json(&document)?;
    let report = report?;
    out.print_text(&format!("Report: {}", report.display()));
    if let Some(page) = page {
        page.judged(&document, &report);
    }
    next::say(next::after_run(bundle, &document, options), out);
    match (document.rows.is_empty(), document.not_run.first()) {
        (true, Some(row)) => {
            Err(format!("cannot measure {} under {}: {}", row.probe, row.load, row.reason).into())
        }
        _ => document.ended(),
    }
}

/// Prints the verdict and the table; all that belongs to them only where that is asked for.
pub fn show(document: &ProveDocument, detail: Detail, out: &Output) {
    let style = out.style();
    let text = if detail.verbose {
        report::terminal::table(document, style)
    } else {
        report::terminal::brief(document, out.lines(), style)
    };
    out.print_text(text.trim_end());
}

/// Says what a run has saved that broke off.
fn kept(folder: &Path, out: &Output) {
    let rows = Bundle::open(folder).map_or(0, |bundle| bundle.rows.len());
    if rows > 0 {
        let rows = if rows == 1 { "1 row was".to_string() } else { format!("{rows} rows were") };
        let folder = crate::next::quoted(&folder.display().to_string());
        out.print_text(&format!("{rows} saved before the run broke off\nnext: isolator report {folder}"));
    }
}
