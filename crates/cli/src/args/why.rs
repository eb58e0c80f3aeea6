// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator why`: its arguments.

use std::path::PathBuf;

use clap::Args;
use machine::CpuSet;

use super::{JudgeArgs, Output};
use crate::values::cpus;

/// The end of `--help`.
pub const HELP: &str = "\
A spike's timeline starts when the timer was due and ends when the program ran.
Durations exclude nested interruptions; together with the unexplained remainder
they add up to the spike. A suspect has no time: its counter grew in the same
second, which does not prove that it caused the spike.

Examples:
  isolator prove -o before && isolator why before
  isolator why before --all
  isolator why before --top 3 --cpu 3 --load storage
  isolator why before --json

Exit status: 0 shown; 1 the bundle could not be read, or has no such row.";

/// `isolator why`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A bundle: its folder, or its .tar.zst; or a trace
    ///
    /// A trace that was recorded elsewhere: the trace.dat of trace-cmd, the perf.data of perf, a trace of
    /// Perfetto, the folder of LTTng, or the text of tracefs' file trace.
    #[arg(value_name = "BUNDLE|TRACE")]
    pub bundle: PathBuf,
    /// Of a trace: follow these threads [default: the real-time ones]
    #[arg(long, value_name = "NAME|TID,…", value_delimiter = ',')]
    pub thread: Vec<String>,
    /// Every cause with the timelines of its spikes, not the first three causes alone
    #[arg(long)]
    pub all: bool,
    /// Number of spikes to show, the longest first; implies --all [default: 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub top: Option<usize>,
    /// Only spikes of these CPUs
    #[arg(long, visible_alias = "cpus", value_name = "LIST", value_parser = cpus)]
    pub cpu: Option<CpuSet>,
    /// Only spikes under this load
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// The options of the judge [default: those of the run]
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
