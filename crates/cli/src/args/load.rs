// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator load`: its arguments.

use std::time::Duration;

use clap::Args;
use machine::CpuSet;

use super::{EthercatOptions, Output};
use crate::values::{cpus, duration, loads};

/// The end of `--help`.
pub const HELP: &str = "\
Examples:
  isolator load --list
  isolator load cpu net --cpus 0-1 --duration 1min
  isolator load custom='dd if=/dev/zero of=/dev/null'
isolator help load has the options of the load ethercat.

Exit status: 0 listed, or all loads worked; 1 a load could not run, or did no
work, and one line states why.";

/// `isolator load`
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Loads to run together, or 'all'
    #[arg(value_name = "NAME", value_parser = loads(), hide_possible_values = true, required_unless_present = "list")]
    pub names: Vec<String>,
    /// List the loads, and whether they can run here
    #[arg(long)]
    pub list: bool,
    /// CPUs to load [default: all but isolated ones]
    #[arg(long, visible_alias = "house-keeping", value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Duration [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Options of the load ethercat.
    #[command(flatten)]
    pub ethercat: EthercatOptions,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
