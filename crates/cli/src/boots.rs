// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--boots` and `--join`: a run judged together with earlier ones of the same request, each in its own boot.

use std::path::PathBuf;

use compare::{asked_differences, machine_differences};
use evidence::boots::JoinedBoots;
use evidence::document::ProveDocument;
use evidence::{Bundle, Result};

use crate::args::BootOptions;

/// Differences between boots that are listed.
const LISTED: usize = 12;

/// Opens the runs that are joined, before anything is measured.
pub fn opened(options: &BootOptions) -> Result<Vec<Bundle>> {
    options.join.iter().map(|path: &PathBuf| Bundle::open(path)).collect()
}

/// The document of `bundle`, judged with the other runs where boots were asked for.
pub fn judged(
    bundle: &Bundle,
    document: ProveDocument,
    others: &[Bundle],
    options: &BootOptions,
) -> ProveDocument {
    if options.boots.is_none() && others.is_empty() {
        return document;
    }
    let mut boots = JoinedBoots::default();
    boots.add(bundle, document.verdict.outcome);
    let (mut notes, mut differ) = (Vec::new(), Vec::new());
    for other in others {
        let unlike = asked_differences(&other.manifest, &bundle.manifest);
        if let Some(first) = unlike.first() {
            notes.push(format!("{} is not joined: {first}", other.path.display()));
            continue;
        }
        boots.add(other, ProveDocument::without_tails(other).verdict.outcome);
        for difference in machine_differences(&other.manifest, &bundle.manifest) {
            let line = format!("boots differ: {difference}");
            if !differ.contains(&line) {
                differ.push(line);
            }
        }
    }
    if differ.len() > LISTED {
        let more = format!("boots differ in {} more settings", differ.len() - LISTED);
        differ.truncate(LISTED);
        differ.push(more);
    }
    let mut document = document.joined(&boots, options.boots.unwrap_or(0));
    document.notes.extend(notes.into_iter().chain(differ));
    document
}
