// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator report`: its arguments.

use std::path::PathBuf;

use clap::Args;

use super::{BootOptions, Detail, JudgeArgs, OUTPUT, Output};

/// The end of `--help`.
pub const HELP: &str = "\
Exit status: 0 the limit holds in every bundle; 1 a bundle could not be read, or
the report not be written; 2 the limit does not hold in one, or is not proven
to.";

/// `isolator report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Bundles: folders, or .tar.zst files
    #[arg(required = true, value_name = "BUNDLE")]
    pub bundles: Vec<PathBuf>,
    /// The HTML file [default: report.html in the first bundle's folder]
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Runs of other boots that are judged together with the only bundle.
    #[command(flatten)]
    pub boots: BootOptions,
    /// The options of the judge [default: those of each run]
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// How much is printed.
    #[command(flatten)]
    pub detail: Detail,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
