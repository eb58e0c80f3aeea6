// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator import`: a bundle made of another tool's output.

use std::path::{Path, PathBuf};

use evidence::document::ProveDocument;
use evidence::{Bundle, Judge};
use exchange::import;

use crate::args::ImportArgs;
use crate::judged::show;
use crate::next;
use crate::outcome::{Document, Outcome, VerbResult};

pub fn run(args: &ImportArgs) -> VerbResult {
    let mut bundle = import::import_with(&args.file, args.unit.map(Into::into))?;
    if let Some(load) = &args.load {
        import::set_load(&mut bundle, load);
    }
    let judge = args.judge.over(Judge::default())?;
    judge.judge(&mut bundle)?;
    import::thresholds(&mut bundle);
    let folder = args.output.clone().unwrap_or_else(|| default_folder(&args.file));
    evidence::store(&bundle, &folder)?;
    let bundle = Bundle::open(&folder)?;
    let document = ProveDocument::of(&bundle);
    let report = report::write_into(&bundle, &document);
    show(&document, args.detail, &args.out);
    args.out.json(&document)?;
    args.out.print_text(&format!("Report: {}", report?.display()));
    next::say(next::after_import(&bundle, &document), &args.out);
    // Without a limit there is nothing to judge: the import itself was the work.
    if args.judge.limit.is_none() { Ok(Outcome::Done) } else { document.ended() }
}

/// `evidence/` and the file's name without its ending.
fn default_folder(file: &Path) -> PathBuf {
    Path::new("evidence").join(file.file_stem().unwrap_or(file.as_os_str()))
}
