// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a run of parts, and the result of one.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::architecture::Architecture;
use lab::build::{self, Built};

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
pub(crate) fn series(built: &Built) -> &str {
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

/// Compiles the selftests, for the guests' architecture.
pub(crate) fn selftests(scratch: &Path, architecture: Architecture) -> Result<PathBuf> {
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
