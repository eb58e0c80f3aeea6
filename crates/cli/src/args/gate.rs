// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator gate`: its arguments.

use std::path::PathBuf;

use clap::Args;

use super::{JudgeArgs, OUTPUT, Output};

/// The end of `--help`.
pub const HELP: &str = "\
For each row the gate compares p50, p99, p99.9, the mean of each second's
maximum, the share of seconds with a late cycle, and the share of missed
periods. A figure is worse if the lower end of its interval is beyond the
tolerance. Family-wise error rate: 5 %. With several baselines a figure must be
worse than in each. A verdict that no longer holds and a row that is no longer
measured fail as well. A figure of which a doubling would not be seen is not
judged: the gate ends with 1, and says how long both runs must be. All runs are
judged by the options given here, else by those of the strictest baseline. A
limit that is given has to hold, and a claim has to be supported.

Examples:
  isolator prove -o baseline --duration 60s
  isolator prove --like baseline -o now
  isolator gate --baseline baseline now --junit gate.xml

Exit status: 0 nothing got worse; 1 it could not be judged; 2 a figure got
worse, which the output names.";

/// `isolator gate`
#[derive(Debug, Args)]
pub struct GateArgs {
    /// The bundle to judge
    pub candidate: PathBuf,
    /// The bundle to compare it with; several show the variation from run to run
    #[arg(long, value_name = "BUNDLE", required = true)]
    pub baseline: Vec<PathBuf>,
    /// Tolerated growth of a figure, relative to the baseline
    #[arg(long, value_name = "%", default_value = "10%", value_parser = percent, allow_hyphen_values = true)]
    pub tolerance: f64,
    /// Seed of the resampling: the same bundles and seed give the same result
    #[arg(long, value_name = "N", default_value_t = compare::gate::SEED)]
    pub seed: u64,
    /// The options of the judge [default: the strictest of the baselines]
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Judge runs of different options; every output says so
    #[arg(long)]
    pub force: bool,
    /// Write the result as JUnit to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub junit: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("it has no unit; write 10% for a tenth")?;
    let percent = number.trim().parse::<f64>().map_err(|why| why.to_string())?;
    if (0.0..=1_000.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("it must be between 0% and 1000%".to_string())
    }
}
