// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator why`: its arguments.

use std::path::PathBuf;

use clap::Args;
use evidence::why::TOP;
use machine::CpuSet;

use super::Output;
use crate::values::cpus;

/// What `--help` adds.
pub const HELP: &str = "\
A spike's timeline goes from the moment the timer was due to the moment the
program ran. Durations are without what interrupted them; with the unexplained
remainder they add up to the spike. A suspect has no time: its counter grew in
the same second, which proves nothing of that moment.

Examples:
  isolator prove -o before && isolator why before
  isolator why before --top 3 --cpu 3 --load storage
  isolator why before --json

Exit status: 0 told; 1 the bundle could not be read, or has no such row.";

/// `isolator why`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A bundle: its folder, or its .tar.zst
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// Tell of this many spikes, the longest
    #[arg(long, value_name = "N", default_value_t = TOP, allow_negative_numbers = true)]
    pub top: usize,
    /// Only spikes of these CPUs
    #[arg(long, visible_alias = "cpus", value_name = "LIST", value_parser = cpus)]
    pub cpu: Option<CpuSet>,
    /// Only spikes under this load
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}
