// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator run`: its arguments.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use machine::CpuSet;

use crate::values::{cpus, duration};

/// The end of `--help`.
pub const HELP: &str = "\
Sets, in this order: limit on locked memory, idle states, affinity, policy. Then
it executes the command in its place, so the exit status is the command's. The
command itself must lock its memory (mlockall).

With --isolate the command needs no change, but must be dynamically linked,
without setuid and file capabilities. Another exec ends the session.

With --best-effort interrupts, kernel threads, workqueues and other programs are
moved off the command's CPUs until it ends. If this program is killed, run
isolator tune rollback.

Examples:
  isolator run --cpus 3 -- ./controller
  isolator run --cpus 3 --isolate -- ./controller
  isolator run --cpus 3 --isolate --best-effort -- ./controller
  isolator run --cpus 2-3 --policy rr --priority 40 -- ./controller --fast
  isolator run --policy deadline --runtime 200us --period 1ms -- ./controller

Exit status: 0 the command's; 1 the command's, or not started; 2 the command's.";

/// `isolator run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// CPUs that the command may use [default: unchanged]
    #[arg(long, visible_alias = "affinity", value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Scheduling policy: fifo, rr, deadline, other, batch, idle
    #[arg(long, default_value = "fifo", value_name = "POLICY")]
    pub policy: String,
    /// Real-time priority, for fifo and rr
    #[arg(long, default_value_t = 80, value_name = "1-99", allow_negative_numbers = true)]
    pub priority: u32,
    /// Runtime per period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100us", allow_hyphen_values = true)]
    pub runtime: Duration,
    /// Relative deadline, for deadline [default: period]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub deadline: Option<Duration>,
    /// The period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1ms", allow_hyphen_values = true)]
    pub period: Duration,
    /// Start children of the command as ordinary processes; needed for children with deadline
    #[arg(long)]
    pub reset_on_fork: bool,
    /// Limit the exit latency of idle states to this many microseconds while the command runs
    #[arg(long, value_name = "US", allow_negative_numbers = true)]
    pub dma_latency: Option<u32>,
    /// Have the kernel part defer work while the command runs: clock, resched, ipi, ktlb, exclusive
    /// [default: clock, resched, ipi]
    ///
    /// libisolator starts the session in the command's main thread, before main, and locks its memory if
    /// RLIMIT_MEMLOCK is unlimited. If the kernel refuses, the command does not run. Exclusive defers only
    /// where no other thread can change its memory.
    #[arg(long, value_name = "WHAT,…", num_args = 0..=1, require_equals = true, default_missing_value = "default")]
    pub isolate: Option<String>,
    /// Without the isolator, isolate the CPUs by settings; as root, with --cpus
    ///
    /// As isolator tune does, by a partition; missing settings are listed, and all is restored when the
    /// command ends.
    #[arg(long, requires = "isolate")]
    pub best_effort: bool,
    /// Print each step on standard error
    #[arg(long, short)]
    pub verbose: bool,
    /// The command and its arguments, after --
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
