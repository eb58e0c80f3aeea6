// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator run`: its arguments.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use machine::CpuSet;

use crate::values::{cpus, duration};

/// What `--help` adds.
pub const HELP: &str = "\
The order is: limit on locked memory, idle states, affinity, policy; then the
command takes this program's place, and its exit status is the command's. What
must not be paged out has to be locked by the command itself (mlockall).

With --isolate the command needs no change, but must be dynamically linked,
without setuid or capabilities of its own; libisolator starts the session in its
main thread, before main, and locks its memory where the limit is none. Where
the kernel refuses, the command does not run. Another exec ends the session.

With --best-effort a kernel without the isolator is no refusal: interrupts,
kernel threads, workqueues and other programs leave the CPUs (a partition) as
tune would have them, what is missing is said, and all is given back when the
command ends. If this program is killed, isolator tune rollback does that.

Examples:
  isolator run --cpus 3 -- ./controller
  isolator run --cpus 3 --isolate -- ./controller
  isolator run --cpus 3 --isolate --best-effort -- ./controller
  isolator run --cpus 2-3 --policy rr --priority 40 -- ./controller --fast
  isolator run --policy deadline --runtime 200us --period 1ms -- ./controller";

/// `isolator run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// CPUs that the command may use [default: as now]
    #[arg(long, visible_alias = "affinity", value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Scheduling policy: fifo, rr, deadline, other, batch, idle
    #[arg(long, default_value = "fifo", value_name = "POLICY")]
    pub policy: String,
    /// Real-time priority, for fifo and rr
    #[arg(long, default_value_t = 80, value_name = "1-99", allow_negative_numbers = true)]
    pub priority: u32,
    /// CPU time of one period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100us", allow_hyphen_values = true)]
    pub runtime: Duration,
    /// When it must be had, for deadline [default: the period]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub deadline: Option<Duration>,
    /// The period, for deadline
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1ms", allow_hyphen_values = true)]
    pub period: Duration,
    /// Children of the command start as ordinary processes; with deadline it may start none otherwise
    #[arg(long)]
    pub reset_on_fork: bool,
    /// Let CPUs enter no idle state that takes longer to leave, in microseconds, while the command runs
    #[arg(long, value_name = "US", allow_negative_numbers = true)]
    pub dma_latency: Option<u32>,
    /// Have the kernel's isolator defer what can wait while the command's main thread runs: clock, resched,
    /// ipi, ktlb, or with exclusive only where no other thread can change its memory [default: clock,
    /// resched, ipi]
    #[arg(long, value_name = "WHAT,…", num_args = 0..=1, require_equals = true, default_missing_value = "default")]
    pub isolate: Option<String>,
    /// Where the kernel has no isolator, keep off the command's CPUs what settings can, while it runs; as
    /// root, with --cpus
    #[arg(long, requires = "isolate")]
    pub best_effort: bool,
    /// Say each step on standard error
    #[arg(long, short)]
    pub verbose: bool,
    /// The command and its arguments, after --
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
