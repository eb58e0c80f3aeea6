// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune …`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use machine::Profile;

use super::Output;
use crate::values::duration;

/// What `--help` adds.
pub const HELP: &str = "\
A plan is made of the machine and of what is wanted, and changes nothing. Each
line of it has a reason, a source, a cost, a way to check it and a way back.

Examples:
  isolator tune plan --cores 2
  isolator tune plan --profile poll --device eth1 --json plan.json
  isolator tune plan --no-reboot
  isolator tune verify plan.json
  isolator tune apply plan.json --dry-run
  isolator tune rollback
  isolator tune measure plan.json --rounds 12

Exit status: 0 done, or all in force; 1 it could not be done or planned, and one
line says why; 2 (verify) something is not in force.";

/// `isolator tune …`
#[derive(Debug, Subcommand)]
pub enum TuneVerb {
    /// Says what to change, why and at which cost; changes nothing
    Plan(TunePlanArgs),
    /// Compares a plan with what is configured, running and in effect here
    Verify(TuneVerifyArgs),
    /// Does what a plan says: settings at once, the boot line as a trial that is booted once
    Apply(TuneApplyArgs),
    /// After the trial boot: makes the line last, and has the settings done again at every boot
    Confirm(TuneHereArgs),
    /// What is in force, and what to do next
    Status(TuneHereArgs),
    /// Gives back what was there before
    Rollback(TuneRollbackArgs),
    /// What each setting of a plan is worth here: one at a time, without and with it by turns
    Measure(TuneMeasureArgs),
}

/// `isolator tune plan`
#[derive(Debug, Args)]
pub struct TunePlanArgs {
    /// What is wanted.
    #[command(flatten)]
    pub wanted: TuneWanted,
    /// Plan for the machine whose /proc and /sys lie below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Plan for the machine in this snapshot
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub snapshot: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// What is wanted of a machine.
#[derive(Debug, Args)]
pub struct TuneWanted {
    /// What the machine is for: periodic, poll, audio, vm or server
    #[arg(long, value_name = "NAME", default_value_t)]
    pub profile: Profile,
    /// Isolate this many physical cores [default: 1; for audio none]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cores: Option<String>,
    /// Isolate these CPUs, all hardware threads of a core together
    #[arg(long, value_name = "LIST", conflicts_with = "cores", allow_hyphen_values = true)]
    pub cpus: Option<String>,
    /// The device that the program talks to (eth1, card0, 0000:03:00.0): its memory node, its interrupts
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Only what needs no reboot
    #[arg(long)]
    pub no_reboot: bool,
    /// Switch hardware threads off for the whole machine
    #[arg(long)]
    pub nosmt: bool,
    /// Take CPUs though others of their cores are left to the system
    #[arg(long)]
    pub split_siblings: bool,
}

/// `isolator tune verify`
#[derive(Debug, Args)]
pub struct TuneVerifyArgs {
    /// A plan that tune plan --json wrote, or 'last' for the one applied last
    #[arg(value_name = "PLAN", default_value = "last")]
    pub plan: String,
    /// Look at the machine whose /proc and /sys lie below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator tune apply`
#[derive(Debug, Args)]
pub struct TuneApplyArgs {
    /// The plan, as tune plan --json wrote it
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Leave the boot line as it is
    #[arg(long)]
    pub runtime_only: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// For the unit that confirm makes: the plan may be of an earlier boot
    #[arg(long, hide = true)]
    pub at_boot: bool,
    /// Where the machine is, and where results go.
    #[command(flatten)]
    pub here: TuneHereArgs,
}

/// `isolator tune rollback`
#[derive(Debug, Args)]
pub struct TuneRollbackArgs {
    /// The record to undo [default: all that are in force]
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Where the machine is, and where results go.
    #[command(flatten)]
    pub here: TuneHereArgs,
}

/// Where the machine is, and where results go.
#[derive(Debug, Args)]
pub struct TuneHereArgs {
    /// The machine whose files lie below this folder; no command runs for it
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator tune measure`
#[derive(Debug, Args)]
pub struct TuneMeasureArgs {
    /// A plan that tune plan --json wrote [default: the plan for what is wanted]
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// What is wanted.
    #[command(flatten)]
    pub wanted: TuneWanted,
    /// Measure these knobs alone, by the names that it prints
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Rounds of each knob, each without and with it
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rounds: u32,
    /// Length of each measurement
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub duration: Duration,
    /// Throw away this much at the start of each
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "300ms")]
    pub warm_up: Duration,
    /// Make a bundle here as well, to compare with one after the reboot that the rest of the plan needs
    #[arg(long, value_name = "DIR")]
    pub before: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}
