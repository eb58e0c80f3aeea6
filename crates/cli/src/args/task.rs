// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator task …`: its arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use machine::CpuSet;
use tune::task::Which;

use super::{DONE, Output};
use crate::values::cpus;

/// The end of `--help`.
pub const HELP: &str = "\
Examples:
  isolator task list --real-time
  isolator task show 4711 --threads --children
  isolator task set 4711 --policy fifo --priority 80 --cpus 3
  isolator task set irq:24 --cpus 3

Exit status: 0 done; 1 it could not be done, and one line states why.";

/// `isolator task …`
#[derive(Debug, Subcommand)]
pub enum TaskVerb {
    /// Lists tasks: policy, priority, CPUs
    #[command(after_help = DONE)]
    List(TaskListArgs),
    /// Shows one task
    #[command(after_help = DONE)]
    Show(TaskShowArgs),
    /// Sets policy, priority or CPUs; refuses changes that would starve the machine
    #[command(after_help = DONE)]
    Set(TaskSetArgs),
}

/// `isolator task list`
#[derive(Debug, Args)]
pub struct TaskListArgs {
    /// Only tasks of a real-time policy
    #[arg(long)]
    pub real_time: bool,
    /// Only kernel threads
    #[arg(long)]
    pub kernel: bool,
    /// Only tasks that may use one of these CPUs
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Every thread of every process
    #[arg(long)]
    pub threads: bool,
    /// The machine whose /proc lies below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator task show`
#[derive(Debug, Args)]
pub struct TaskShowArgs {
    /// The tasks.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The machine whose /proc lies below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator task set`
#[derive(Debug, Args)]
pub struct TaskSetArgs {
    /// The tasks.
    #[command(flatten)]
    pub which: WhichArgs,
    /// The policy: fifo, rr, deadline, other, batch or idle
    #[arg(long, value_name = "NAME", required_unless_present = "cpus")]
    pub policy: Option<String>,
    /// Priority of fifo and rr, 1 to 98
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true)]
    pub priority: i64,
    /// Runtime, deadline and period of deadline in microseconds, 200:1000:1000
    #[arg(long, value_name = "R:D:P")]
    pub deadline: Option<String>,
    /// The CPUs that it may use
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Make changes that would starve the machine, too
    #[arg(long)]
    pub force: bool,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// The tasks.
#[derive(Debug, Args)]
pub struct WhichArgs {
    /// The task's number or name, or irq:N for the threads of an interrupt
    #[arg(value_name = "TASK")]
    pub task: Which,
    /// All threads of its process
    #[arg(long)]
    pub threads: bool,
    /// Its children, and theirs
    #[arg(long)]
    pub children: bool,
}
