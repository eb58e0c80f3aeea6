// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator record`: its arguments.

use std::time::Duration;

use clap::Args;

use super::Output;
use crate::values::duration;

/// The end of `--help`.
pub const HELP: &str = "\
For a machine on which isolator cannot be installed: one of these commands, as
root there, writes a trace from which isolator finds the loops here, how late
their cycles were, and why. They need trace-cmd or perf, and nothing else.

Examples:
  isolator record --duration 1m       prints both commands
  isolator why trace.dat              the causes, from its trace
  isolator monitor --from trace.dat --thread servo --limit 100us

Exit status: 0 printed; 1 an option makes no sense.";

/// `isolator record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Length of the trace [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Leave the events of system calls out, which slow down those of all programs: waits have no names then
    #[arg(long)]
    pub without_calls: bool,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
