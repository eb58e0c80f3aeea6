// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator report`: the HTML report of one or more bundles, and the table.

use std::path::PathBuf;

use evidence::document::ProveDocument;

use crate::args::ReportArgs;
use crate::boots;
use crate::judged::show;
use crate::next;
use crate::outcome::{self, VerbResult};

pub fn run(args: &ReportArgs) -> VerbResult {
    let bundles = args.bundles.iter().map(|path| args.judge.open(path)).collect::<Result<Vec<_>, _>>()?;
    let others = boots::opened(&args.boots)?;
    if bundles.len() > 1 && (args.boots.boots.is_some() || !others.is_empty()) {
        let cure = "give one bundle, and the other boots' to --join";
        return Err(format!("cannot judge {} bundles as one of several boots; {cure}", bundles.len()).into());
    }
    let judged = |bundle| boots::judged(bundle, ProveDocument::of(bundle), &others, &args.boots);
    let documents = bundles.iter().map(judged).collect::<Result<Vec<_>, _>>()?;
    for (bundle, document) in bundles.iter().zip(&documents) {
        if !bundle.counts_only() {
            show(document, args.detail, &args.out);
        }
        if let Some(lab) = &bundle.lab {
            args.out.print_text(&report::terminal::lab(lab, args.out.style()));
        }
    }
    match documents.as_slice() {
        [document] => args.out.json(document)?,
        several => args.out.json(several)?,
    }
    let output = output_file(args);
    evidence::writer::replace(&output, report::html_of(&bundles, &documents)?.as_bytes())?;
    args.out.print_text(&format!("Report: {}", output.display()));
    if let ([bundle], [document]) = (&bundles[..], &documents[..]) {
        let next = next::after_report(bundle, document);
        next::say(next.map(|command| command + &args.judge.options()), &args.out);
    }
    outcome::worst(
        bundles.iter().zip(&documents).map(|(bundle, document)| outcome::of_bundle(bundle, document)),
    )
}

/// The file named, or `report.html` in the first bundle's folder; an archive's goes beside it.
fn output_file(args: &ReportArgs) -> PathBuf {
    if let Some(path) = &args.output {
        return path.clone();
    }
    let first = &args.bundles[0];
    if first.is_dir() { first.join("report.html") } else { first.with_extension("html") }
}
