// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator gate`: its arguments.

use std::path::PathBuf;

use clap::Args;

use super::{OUTPUT, Output};

/// What `--help` adds.
pub const HELP: &str = "\
Judged are, for each row, p50, p99, p99.9, the mean of each second's maximum,
the share of seconds with a late cycle and of missed periods. Worse is what
lies beyond the tolerance even at the lower end of its interval; the intervals
are wide enough that all together err in one gate of twenty. With several
baselines a figure must be worse than in each. Rows need 8 seconds or more.
A verdict that no longer holds, and a row no longer measured, fail as well.

Examples:
  isolator prove -o baseline --duration 60s
  isolator prove --plan baseline/manifest.json -o now
  isolator gate --baseline baseline now --junit gate.xml

Exit status: 0 nothing got worse; 1 it could not be judged; 2 something got
worse, and the lines say what.";

/// `isolator gate`
#[derive(Debug, Args)]
pub struct GateArgs {
    /// The bundle that is judged
    pub candidate: PathBuf,
    /// A bundle that it is held against; several show what differs from run to run
    #[arg(long, value_name = "BUNDLE", required = true)]
    pub baseline: Vec<PathBuf>,
    /// By how much of its baseline a figure may grow
    #[arg(long, value_name = "%", default_value = "10%", value_parser = percent, allow_hyphen_values = true)]
    pub tolerance: f64,
    /// Seed of the draws: the same bundles and seed give the same answer
    #[arg(long, value_name = "N", default_value_t = evidence::gate::SEED)]
    pub seed: u64,
    /// Judge unlike runs all the same; every output says so
    #[arg(long)]
    pub force: bool,
    /// Write the result as JUnit to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub junit: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("it has no unit; write 10% for a tenth")?;
    let percent = number.trim().parse::<f64>().map_err(|why| why.to_string())?;
    if (0.0..=1_000.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("it must lie between 0% and 1000%".to_string())
    }
}
