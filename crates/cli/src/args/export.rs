// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator export`: its arguments.

use std::path::PathBuf;

use clap::Args;

use super::{JudgeArgs, OUTPUT};

/// The end of `--help`.
pub const HELP: &str = "\
Examples:
  isolator export before --as cyclictest --load idle > idle.txt
  isolator export before --as csv -o before.csv
  isolator export before --as trace -o spikes.json    # open in ui.perfetto.dev

Exit status: 0 written, whatever the verdict; 1 it could not be written, and one
line states why.";

/// `isolator export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The bundle: a folder, or a .tar.zst file
    pub bundle: PathBuf,
    /// The format: cyclictest, rtla, csv, json, openmetrics; ktap or lava: a test result a row; trace: spikes
    /// for Perfetto; or archive: the whole bundle as one .tar.zst, which every verb reads
    #[arg(long = "as", value_name = "FORMAT")]
    pub format: String,
    /// Only rows of this load
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// Only rows of this probe
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// The options of the judge [default: those of the run]
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
}
