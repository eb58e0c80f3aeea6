// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the claims about the isolator's kernel part in guests: parts of `make proof-kernel`, a table of
//! `docs/results/kernel.md` each.
//!
//! ```text
//! part ──► isolator lab run|program … ──► its output ──► a file in proof-kernel/, beside the program
//!                                                   ├──► its summary, between two comments of the page
//!                                                   └──► deviations, which end with status 1
//! ```
//! Both have all results, deviations too; the summary has no output of programs.

pub mod cost;
pub mod findings;
pub mod others;
pub mod part;
pub mod programs;
pub mod scenarios;
pub mod steps;
pub mod suites;
pub mod summary;
pub mod tree;

use std::path::Path;

use crate::claims::part::{ClaimLab, ClaimResult, Result, selftests};
use crate::{guests, page};

/// A part: its name, and its function.
type ClaimPart = (&'static str, fn(&ClaimLab<'_>) -> Result<ClaimResult>);

/// The parts, in the order of a complete run.
pub const PARTS: &[ClaimPart] = &[
    ("steps", steps::steps),
    ("cost", cost::run),
    ("tick", cost::tick),
    ("silence", scenarios::silence),
    ("storms", scenarios::storms),
    ("mappings", scenarios::mappings),
    ("uapi", programs::uapi),
    ("findings", findings::findings),
    ("wedge", programs::wedge),
    ("teardown", programs::teardown),
    ("fuzz", programs::fuzz),
    ("memory", programs::memory),
    ("nmi", programs::nmi),
    ("debug", |lab| suites::looking(lab, "debug")),
    ("kasan", |lab| suites::looking(lab, "kasan")),
    ("kcsan", |lab| suites::looking(lab, "kcsan")),
    ("elsewhere", suites::elsewhere),
    ("others", others::beside),
];

/// Runs the parts of these names, all if none is named, and puts their tables into the page.
pub fn run(isolator: &Path, page: &Path, names: &[&str]) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let version = std::env::var("VERSION").unwrap_or_else(|_| "6.12".into());
    let architecture = guests::architecture()?;
    let share = std::env::var("SHARE").map_or(Ok(1), |text| text.parse())?;
    let tests = selftests(scratch.path(), architecture)?;
    let lab = ClaimLab { isolator, tests, scratch: scratch.path(), version, architecture, share };
    page::must_have_parts(&PARTS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names)?;
    let mut parts = Vec::new();
    for (name, part) in PARTS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        let table = guests::table(&format!("proof-kernel PART={name}"))?;
        page::has_place(page, &table)?;
        parts.push((name, table, part));
    }
    let results = isolator.with_file_name("proof-kernel");
    std::fs::create_dir_all(&results)?;
    let mut wrong = Vec::new();
    for (name, table, part) in parts {
        eprintln!("proof-kernel: {name}");
        let seen = part(&lab)?;
        print!("{}", seen.text);
        let whole = results.join(table.replace([' ', '='], "-") + ".md");
        evidence::writer::replace(&whole, seen.text.as_bytes())?;
        page::put(page, &table, &summary::of(&seen.text))?;
        wrong.extend(seen.wrong.into_iter().map(|what| format!("{name}: {what}")));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("not as claimed: {}", wrong.join("; ")).into()),
    }
}
