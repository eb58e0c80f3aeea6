// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--boots` and `--join`: a run judged together with runs of other boots.
//!
//! With `--boots` the runs that lie beside it are found: of the same request, by the same user, of the same
//! machine, kernel and boot line. So the same command after each boot adds one, and none is left out by
//! choice. `--join` names others, which may differ in that.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use compare::{asked_differences, boot_differences, is_same_system};
use evidence::boots::JoinedBoots;
use evidence::document::ProveDocument;
use evidence::manifest::Manifest;
use evidence::{Bundle, Judge, Result};

use crate::args::BootOptions;

/// Differences between boots that are listed.
const LISTED: usize = 12;

/// Opens the runs that are joined by name, before anything is measured.
pub fn opened(options: &BootOptions) -> Result<Vec<Bundle>> {
    options.join.iter().map(|path: &PathBuf| Bundle::open(path)).collect()
}

/// The document of `bundle`, judged with the other runs where boots were asked for.
pub fn judged(
    bundle: &Bundle,
    document: ProveDocument,
    named: &[Bundle],
    options: &BootOptions,
) -> Result<ProveDocument> {
    if options.boots.is_none() && named.is_empty() {
        return Ok(document);
    }
    // An earlier run is judged as this one is, whatever it was asked to be content with.
    let judge = Judge::strictest([bundle]);
    let mut boots = JoinedBoots::default();
    boots.add(bundle, document.verdict.outcome);
    let known = named.iter().chain([bundle]).filter_map(|other| other.path.canonicalize().ok()).collect();
    let found = if options.boots.is_some() { beside(bundle, &known) } else { Vec::new() };
    let (mut notes, mut differ) = (Vec::new(), Vec::new());
    for other in named.iter().chain(&found) {
        let unlike = asked_differences(&other.manifest, &bundle.manifest);
        if let Some(first) = unlike.first() {
            notes.push(format!("{} is not joined: {first}", other.path.display()));
            continue;
        }
        let mut other = other.clone();
        let changes = judge.judge(&mut other)?;
        notes.extend(changes.iter().map(|change| format!("{}: {change}", other.path.display())));
        boots.add(&other, ProveDocument::without_tails(&other).verdict.outcome);
        for difference in boot_differences(&other.manifest, &bundle.manifest) {
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
    if !found.is_empty() {
        let runs = if found.len() == 1 { "run" } else { "runs" };
        let folder = parent(&bundle.path).display().to_string();
        notes.push(format!("judged with {} earlier {runs} of the same request in {folder}", found.len()));
    }
    let mut document = document.joined(&boots, options.boots.unwrap_or(0));
    document.notes.extend(notes.into_iter().chain(differ));
    Ok(document)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The runs of the same request, user and system in the folder in which `bundle` lies; not those of `known`.
fn beside(bundle: &Bundle, known: &BTreeSet<PathBuf>) -> Vec<Bundle> {
    let owner = |path: &Path| fs::symlink_metadata(path).map(|metadata| metadata.uid()).ok();
    let own = owner(&bundle.path);
    let is_run = |path: &PathBuf| {
        let is_bundle = path.join("manifest.json").is_file() || path.extension() == Some("zst".as_ref());
        is_bundle && owner(path) == own && path.canonicalize().is_ok_and(|path| !known.contains(&path))
    };
    let entries = fs::read_dir(parent(&bundle.path)).into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path()).filter(is_run).collect::<Vec<_>>();
    paths.sort();
    // A folder has its request in one small file; all of a long run takes seconds to read.
    let may_be_same = |path: &&PathBuf| {
        let with = |asked| Manifest { asked, ..bundle.manifest.clone() };
        let is_same = |asked| asked_differences(&with(asked), &bundle.manifest).is_empty();
        !path.is_dir() || run::read_asked(path).is_ok_and(is_same)
    };
    let is_same = |other: &Bundle| {
        asked_differences(&other.manifest, &bundle.manifest).is_empty()
            && is_same_system(&other.manifest, &bundle.manifest)
    };
    let opened = paths.iter().filter(may_be_same).filter_map(|path| Bundle::open(path).ok());
    opened.filter(is_same).collect()
}
