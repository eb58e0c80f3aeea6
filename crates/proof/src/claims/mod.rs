// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the claims about the isolator's kernel part in guests: parts of `make proof-kernel`, a table of
//! `docs/results/kernel.md` each.
//!
//! ```text
//! part ──► isolator lab run|program … ──► its output ──► table between two comments of the page
//!                                                   └──► deviations, which end with status 1
//! ```
//! A table has all results, deviations too.

pub mod cost;
pub mod findings;
pub mod others;
pub mod programs;
pub mod scenarios;
pub mod steps;
pub mod suites;
pub mod tree;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::architecture::Architecture;
use lab::build::{self, Built};

use crate::{guests, page};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The settings of a run of parts.
#[derive(Debug)]
pub struct ClaimLab<'a> {
    /// The program.
    pub isolator: &'a Path,
    /// The folder of the kernel part's selftests, compiled.
    pub tests: PathBuf,
    /// A folder for temporary files.
    pub scratch: &'a Path,
    /// The version of Linux with the tested series, and the fragments of its configuration: `6.12`,
    /// `6.12+debug`.
    pub version: String,
    /// The guests' architecture.
    pub architecture: Architecture,
    /// Divides the numbers of rounds and calls, for a shorter run: the tables state them.
    pub share: u64,
}

impl ClaimLab<'_> {
    /// The kernel with the series, as `--kernel` names it.
    pub fn ours(&self) -> String {
        format!("isolator:{}", self.version)
    }

    /// The same kernel without the series or, if that was not built, with the series compiled out; with a
    /// description.
    pub fn twin(&self) -> Result<(String, &'static str)> {
        if build::last(&self.version, self.architecture, true)?.is_some() {
            return Ok((format!("unpatched:{}", self.version), "the same kernel without the series"));
        }
        let stock = format!("{}+stock", self.version);
        match build::last(&stock, self.architecture, false)? {
            Some(_) => Ok((format!("isolator:{stock}"), "the same kernel with the series compiled out")),
            None => {
                Err("no kernel is built to compare with; isolator kernel build --unpatched makes one".into())
            }
        }
    }

    /// The kernel with the series that was built last.
    pub fn built(&self) -> Result<Built> {
        let last = build::last(&self.version, self.architecture, false)?;
        Ok(last.ok_or("no kernel is built; isolator kernel build makes one")?.0)
    }

    /// The description of the kernel with the series: its release, and the digest of the series.
    pub fn kernel(&self) -> Result<String> {
        let built = self.built()?;
        let with = built.configuration.split_once(' ').map_or(String::new(), |(_, with)| format!(" {with}"));
        Ok(format!("{} ({}{with}, series {})", built.release, built.architecture, series(&built)))
    }
}

/// The series of a kernel as tables name it: the first digits of its SHA-256.
fn series(built: &Built) -> &str {
    built.series.get(..12).unwrap_or(&built.series)
}

/// The result of a part.
#[derive(Debug, Default)]
pub struct ClaimResult {
    /// In Markdown.
    pub text: String,
    /// The deviations from the claims.
    pub wrong: Vec<String>,
}

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
    let known = |name: &str| PARTS.iter().find(|(known, _)| *known == name);
    if let Some(unknown) = names.iter().find(|name| known(name).is_none()) {
        let names = PARTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no part '{unknown}'; choose from {names}").into());
    }
    let mut parts = Vec::new();
    for (name, part) in PARTS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        let table = guests::table(&format!("proof-kernel PART={name}"))?;
        page::has_place(page, &table)?;
        parts.push((name, table, part));
    }
    let mut wrong = Vec::new();
    for (name, table, part) in parts {
        eprintln!("proof-kernel: {name}");
        let seen = part(&lab)?;
        print!("{}", seen.text);
        page::put(page, &table, &seen.text)?;
        wrong.extend(seen.wrong.into_iter().map(|what| format!("{name}: {what}")));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("not as claimed: {}", wrong.join("; ")).into()),
    }
}

/// Compiles the selftests, for the guests' architecture.
fn selftests(scratch: &Path, architecture: Architecture) -> Result<PathBuf> {
    let folder = scratch.join("selftests");
    std::fs::create_dir_all(&folder)?;
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "-s", "-C", "kernel/selftests"])
        .arg(format!("OUTPUT={}", folder.display()));
    if architecture != Architecture::of_this_program() {
        make.arg(format!("CROSS_COMPILE={architecture}-linux-gnu-"));
    }
    // Options of a calling make must not reach this one.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
    match make.status()?.success() {
        true => Ok(folder),
        false => Err("the selftests in kernel/selftests do not compile".into()),
    }
}
