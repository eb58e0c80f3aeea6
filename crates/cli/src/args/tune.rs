// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune …`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use machine::{Profile, Use};

use super::{DONE, Output};
use crate::values::{duration, profile, purpose};

/// The end of `--help`.
pub const HELP: &str = "\
A plan depends on the machine and on the options alone, and changes nothing.
Each line has a reason, a source, a cost, a check and an undo.

Examples:
  isolator tune plan --use control:1kHz --json plan.json
  isolator tune plan --cores 2
  isolator tune plan --profile poll --device eth1 --json plan.json
  isolator tune plan --no-reboot
  isolator tune plan --service robot.service --json plan.json
  isolator tune verify plan.json
  isolator tune apply plan.json --dry-run
  isolator tune rollback
  isolator tune measure plan.json --rounds 12
  isolator tune export plan.json --as tuned -o /etc/tuned/profiles/isolator

Exit status: 0 done, or all in force; 1 it could not be done or planned, and one
line says why; 2 (verify) a setting is not in force.";

const PLANNED: &str = "\
Exit status: 0 planned; 1 it could not be planned, and one line states why.";

const VERIFIED: &str = "\
Exit status: 0 all settings are in force; 1 it could not be verified, and one
line states why; 2 a setting is not in force.";

const ROLLED_BACK: &str = "\
Exit status: 0 all is as before; 1 something could not be undone, and one line
states what.";

/// `isolator tune …`
#[derive(Debug, Subcommand)]
pub enum TuneVerb {
    /// Plans the changes, with reason and cost of each; changes nothing
    #[command(after_help = PLANNED)]
    Plan(TunePlanArgs),
    /// Compares a plan with the configured, running and effective settings
    #[command(after_help = VERIFIED)]
    Verify(TuneVerifyArgs),
    /// Applies a plan: settings at once, the boot line for one trial boot
    #[command(after_help = DONE)]
    Apply(TuneApplyArgs),
    /// After the trial boot: makes the boot line permanent, and has the settings applied at every boot
    #[command(after_help = DONE)]
    Confirm(TuneHereArgs),
    /// Shows the settings in force, and the next step
    #[command(after_help = DONE)]
    Status(TuneHereArgs),
    /// Restores the former settings
    #[command(after_help = ROLLED_BACK)]
    Rollback(TuneRollbackArgs),
    /// Measures the effect of each setting of a plan, one at a time, alternately without and with it
    #[command(after_help = DONE)]
    Measure(TuneMeasureArgs),
    /// Writes a plan as a profile of TuneD
    #[command(after_help = DONE)]
    Export(TuneExportArgs),
}

/// `isolator tune plan`
#[derive(Debug, Args)]
pub struct TunePlanArgs {
    /// The purpose.
    #[command(flatten)]
    pub wanted: TuneWanted,
    /// Also write units of systemd: a slice for the isolated CPUs, and the affinity of all other services
    #[arg(long)]
    pub systemd: bool,
    /// Make this service real-time by a drop-in: its CPUs, SCHED_FIFO with this priority [default: 80], its
    /// limits; implies --systemd
    #[arg(long = "service", value_name = "UNIT[:PRIORITY]")]
    pub services: Vec<String>,
    /// Plan for the machine whose /proc and /sys lie below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Plan for the machine in this snapshot
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub snapshot: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// The purpose of a machine.
#[derive(Debug, Args)]
pub struct TuneWanted {
    /// Profile of the machine: periodic, poll, audio, vm or server [default: periodic]
    #[arg(long, value_name = "NAME", value_parser = profile(), hide_possible_values = true)]
    pub profile: Option<Profile>,
    /// Take the profile from a use: control:1kHz, linuxcnc:25us+1ms, audio:64@48000, ethercat:1kHz, poll, vm
    #[arg(long = "use", value_name = "USE", value_parser = purpose(), hide_possible_values = true, conflicts_with = "profile")]
    pub purpose: Option<Use>,
    /// Isolate this many physical cores [default: 1; for audio none]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cores: Option<String>,
    /// Isolate these CPUs, all hardware threads of a core together
    #[arg(long, value_name = "LIST", conflicts_with = "cores", allow_hyphen_values = true)]
    pub cpus: Option<String>,
    /// Device of the program (eth1, card0, 0000:03:00.0), for its NUMA node and its interrupts
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Only changes that need no reboot
    #[arg(long)]
    pub no_reboot: bool,
    /// Switch hardware threads off for the whole machine
    #[arg(long)]
    pub nosmt: bool,
    /// Accept CPUs whose siblings stay with the system
    #[arg(long)]
    pub split_siblings: bool,
}

/// `isolator tune verify`
#[derive(Debug, Args)]
pub struct TuneVerifyArgs {
    /// A plan that tune plan --json wrote, or 'last' for the one applied last
    #[arg(value_name = "PLAN", default_value = "last")]
    pub plan: String,
    /// Verify the machine whose /proc and /sys lie below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator tune apply`
#[derive(Debug, Args)]
pub struct TuneApplyArgs {
    /// The plan, as tune plan --json wrote it
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Do not change the boot line
    #[arg(long)]
    pub runtime_only: bool,
    /// Show the changes without making them
    #[arg(long)]
    pub dry_run: bool,
    /// For the unit that confirm writes: accept a plan of an earlier boot
    #[arg(long, hide = true)]
    pub at_boot: bool,
    /// The machine, and output options.
    #[command(flatten)]
    pub here: TuneHereArgs,
}

/// `isolator tune rollback`
#[derive(Debug, Args)]
pub struct TuneRollbackArgs {
    /// The record to undo [default: all that are in force]
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// The machine, and output options.
    #[command(flatten)]
    pub here: TuneHereArgs,
}

/// The machine, and output options.
#[derive(Debug, Args)]
pub struct TuneHereArgs {
    /// The machine whose files lie below this folder; no command is run there
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator tune measure`
#[derive(Debug, Args)]
pub struct TuneMeasureArgs {
    /// A plan that tune plan --json wrote [default: the plan for the options below]
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// The purpose.
    #[command(flatten)]
    pub wanted: TuneWanted,
    /// Measure only these settings, by the names in its output
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Rounds per setting, each without and with it
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rounds: u32,
    /// Length of each measurement
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub duration: Duration,
    /// Time at the start of each measurement that is not recorded
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "300ms")]
    pub warm_up: Duration,
    /// Also write a bundle to this folder, to compare with one after the reboot
    #[arg(long, value_name = "DIR")]
    pub before: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator tune export`
#[derive(Debug, Args)]
pub struct TuneExportArgs {
    /// The plan, as tune plan --json wrote it
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// The format: tuned
    #[arg(long = "as", value_name = "FORMAT")]
    pub format: String,
    /// The profile's folder; its name is the profile's
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
}
