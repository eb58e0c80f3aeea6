// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator compare`: its arguments.

use std::path::PathBuf;

use clap::Args;

use super::{OUTPUT, Output};

/// What `--help` adds.
pub const HELP: &str = "\
Runs are alike where the same was asked of them; what the limit was does not
matter, and how the machines differ is listed.

Examples:
  isolator prove -o before
  isolator prove --plan before/manifest.json -o after
  isolator compare before after -o both.html

Exit status: 0 compared, whatever came out; 1 the runs are unlike.";

/// `isolator compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The bundle before the change
    pub before: PathBuf,
    /// The bundle after it
    pub after: PathBuf,
    /// Compare unlike runs all the same; every output says so
    #[arg(long)]
    pub force: bool,
    /// Also write an HTML report with both
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}
