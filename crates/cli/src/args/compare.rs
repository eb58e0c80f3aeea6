// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator compare`: its arguments.

use std::path::PathBuf;

use clap::Args;

use super::{JudgeArgs, OUTPUT, Output};

/// The end of `--help`.
pub const HELP: &str = "\
Two runs can be compared if they have the same options, apart from the limit.
The differences between the machines are listed.

Examples:
  isolator prove -o before
  isolator prove --like before -o after
  isolator compare before after -o both.html

Exit status: 0 compared, whatever the result; 1 the runs have other options.";

/// `isolator compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The bundle before the change
    pub before: PathBuf,
    /// The bundle after it
    pub after: PathBuf,
    /// Compare runs of different options; every output says so
    #[arg(long)]
    pub force: bool,
    /// Also write an HTML report of both
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// The options of the judge [default: those of each run]
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
