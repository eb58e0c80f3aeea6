// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator setup-user`: its arguments.

use clap::Args;
use tune::user::{GROUP, ProgramRights};

use super::TuneHereArgs;
use crate::values::program_rights;

/// The end of `--help`.
pub const HELP: &str = "\
Users get these rights through a group: real-time priorities up to 98, locked
memory, /dev/cpu_dma_latency. With --capabilities the group also runs a copy of
this program, isolator-realtime, which has capabilities while it measures.

Examples:
  isolator setup-user ann --dry-run
  isolator setup-user ann bob
  isolator setup-user ann --capabilities bpf
  isolator setup-user --undo

Exit status: 0 done; 1 it could not be done, and one line states why.";

/// `isolator setup-user`
#[derive(Debug, Args)]
pub struct SetupUserArgs {
    /// The users
    #[arg(value_name = "USER", required_unless_present = "undo")]
    pub users: Vec<String>,
    /// Their group, which is made where there is none
    #[arg(long, value_name = "NAME", default_value = GROUP, conflicts_with = "undo")]
    pub group: String,
    /// Capabilities of the copy: scheduling (CAP_SYS_NICE, CAP_IPC_LOCK), or bpf (CAP_BPF and CAP_PERFMON,
    /// too)
    #[arg(long, value_name = "WHICH", value_parser = program_rights(), hide_possible_values = true, conflicts_with = "undo")]
    pub capabilities: Option<ProgramRights>,
    /// Show the changes without making them
    #[arg(long, conflicts_with = "undo")]
    pub dry_run: bool,
    /// Take all that setup-user gave from all users
    #[arg(long)]
    pub undo: bool,
    /// The machine, and output options.
    #[command(flatten)]
    pub here: TuneHereArgs,
}
