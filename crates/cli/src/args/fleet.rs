// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator fleet`: its arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use machine::Use;

use super::{DONE, JudgeArgs, OUTPUT, Output};
use crate::values::purpose;

/// The end of `--help`.
pub const HELP: &str = "\
Examples:
  isolator fleet prove -i inventory -o monday --use control:1kHz
  isolator fleet prove -i inventory -o monday -- --loads all --limit 50us
  isolator fleet apply -i inventory --batches 1,10%,100% -- --cores 2
  isolator fleet store -o store monday/bundles
  isolator fleet report store -o fleet.html
  (cd store && isolator fleet query outliers | duckdb)

prove, plan, apply, verify and rollback need Ansible here, and SSH, root and
Python there. The report needs the program duckdb. In a clone of Isolator, both:
pip install --require-hashes -r fleet/requirements.txt

Exit status: 0 done, and all hold; 1 something could not be done on a machine;
2 a machine does not hold its limit, or a setting is not in force.";

const PROVED: &str = "\
Exit status: 0 every machine holds its limit; 1 something could not be done on a
machine; 2 a machine does not hold its limit, or it is not proven to.";

const PLANNED: &str = "\
Exit status: 0 every machine is planned; 1 a machine could not be planned.";

const VERIFIED: &str = "\
Exit status: 0 all settings are in force on every machine; 1 a machine could not
be verified; 2 a setting is not in force.";

const STORED: &str = "\
Exit status: 0 a bundle is in the store; 1 none could be read, or the store not
be written.";

const REPORTED: &str = "\
Exit status: 0 every machine holds its limit; 1 the store could not be read; 2 a
machine does not hold its limit, or is not proven to.";

/// `isolator fleet`
#[derive(Debug, Subcommand)]
pub enum FleetVerb {
    /// Measures every machine of an inventory and collects the bundles; a second run measures missing ones
    #[command(after_help = PROVED)]
    Prove(FleetProveArgs),
    /// Plans the changes of each machine and collects the plans; changes nothing
    #[command(after_help = PLANNED)]
    Plan(FleetPlanArgs),
    /// Tunes machines batch by batch and measures each; rolls back a machine that does not hold, and stops
    #[command(after_help = PROVED)]
    Apply(FleetApplyArgs),
    /// Checks on each machine whether the applied plan is still in force
    #[command(after_help = VERIFIED)]
    Verify(FleetVerifyArgs),
    /// Restores the former settings of each machine
    #[command(after_help = DONE)]
    Rollback(FleetRollbackArgs),
    /// Adds bundles to a store of Parquet files; bundles already stored are skipped
    #[command(after_help = STORED)]
    Store(FleetStoreArgs),
    /// Ranks machines; shows outliers, unfit platforms, drift, and factors correlated with failure
    #[command(after_help = REPORTED)]
    Report(FleetReportArgs),
    /// Lists the queries behind the report, or prints one as SQL for DuckDB
    #[command(after_help = DONE)]
    Query(FleetQueryArgs),
}

/// The machines, and how many at once.
#[derive(Debug, Args)]
pub struct FleetHosts {
    /// Ansible's inventory: a file, a folder, a program, or names with a comma after each
    #[arg(long, short, value_name = "INVENTORY", required = true)]
    pub inventory: PathBuf,
    /// Only these machines or groups of it, as Ansible's --limit has them
    #[arg(long, value_name = "PATTERN")]
    pub hosts: Option<String>,
    /// Number of machines at once [default: Ansible's, 5]
    #[arg(long, value_name = "N")]
    pub forks: Option<u32>,
    /// An option for ansible-playbook, such as --ansible=--ask-become-pass
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub ansible: Vec<String>,
    /// Continue if two names of the inventory are one machine, or another user can change the inventory
    #[arg(long)]
    pub force: bool,
    /// Folder for evidence, plans and Ansible's log [default: evidence/TIME]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator fleet prove`
#[derive(Debug, Args)]
pub struct FleetProveArgs {
    /// The machines.
    #[command(flatten)]
    pub on: FleetHosts,
    /// Use of the machines, for isolator prove: control:1kHz,
    /// linuxcnc:25us+1ms, audio:64@48000, ethercat:1kHz, poll, vm
    #[arg(long = "use", value_name = "USE", value_parser = purpose(), hide_possible_values = true)]
    pub purpose: Option<Use>,
    /// Show the changes without making them
    #[arg(long)]
    pub check: bool,
    /// Options for isolator prove on each machine [default: isolator_prove of the inventory]
    #[arg(last = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// `isolator fleet plan`
#[derive(Debug, Args)]
pub struct FleetPlanArgs {
    /// The machines.
    #[command(flatten)]
    pub on: FleetHosts,
    /// Use of the machines, for isolator tune plan: control:1kHz,
    /// linuxcnc:25us+1ms, audio:64@48000, ethercat:1kHz, poll, vm
    #[arg(long = "use", value_name = "USE", value_parser = purpose(), hide_possible_values = true)]
    pub purpose: Option<Use>,
    /// Plan the boot line too
    #[arg(long)]
    pub reboot: bool,
    /// Options for isolator tune plan on each machine [default: isolator_plan of the inventory]
    #[arg(last = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// `isolator fleet apply`
#[derive(Debug, Args)]
pub struct FleetApplyArgs {
    /// The machines.
    #[command(flatten)]
    pub on: FleetHosts,
    /// Use of the machines, for isolator tune plan and isolator prove: control:1kHz,
    /// linuxcnc:25us+1ms, audio:64@48000, ethercat:1kHz, poll, vm
    #[arg(long = "use", value_name = "USE", value_parser = purpose(), hide_possible_values = true)]
    pub purpose: Option<Use>,
    /// Show the changes without making them
    #[arg(long)]
    pub check: bool,
    /// Tune the boot line too: reboot each machine for a trial, and again if that does not hold
    #[arg(long)]
    pub reboot: bool,
    /// Sizes of the batches, as numbers or shares of all machines [default: 1,10%,100%]
    #[arg(long, value_name = "N|%,…", value_delimiter = ',', value_parser = batch)]
    pub batches: Option<Vec<String>>,
    /// Options for isolator prove on each machine, in one argument [default: isolator_prove of the inventory]
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub prove: Option<String>,
    /// Options for isolator tune plan on each machine [default: isolator_plan of the inventory]
    #[arg(last = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// `isolator fleet verify`
#[derive(Debug, Args)]
pub struct FleetVerifyArgs {
    /// The machines.
    #[command(flatten)]
    pub on: FleetHosts,
}

/// `isolator fleet rollback`
#[derive(Debug, Args)]
pub struct FleetRollbackArgs {
    /// The machines.
    #[command(flatten)]
    pub on: FleetHosts,
    /// Reboot machines whose boot line was tuned
    #[arg(long)]
    pub reboot: bool,
}

/// The size of a batch: `3`, `10%`.
fn batch(text: &str) -> Result<String, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse::<u32>() {
        Ok(number) if number > 0 && (number <= 100 || !text.ends_with('%')) => Ok(text.to_string()),
        _ => Err("neither a number of machines nor a share of them; write 3 or 10%".to_string()),
    }
}

/// `isolator fleet store`
#[derive(Debug, Args)]
pub struct FleetStoreArgs {
    /// Bundles: folders, .tar.zst files, or folders that hold such
    #[arg(value_name = "BUNDLE", required = true)]
    pub bundles: Vec<PathBuf>,
    /// The store's folder
    #[arg(long, short, value_name = "STORE", required = true)]
    pub output: PathBuf,
    /// The options of the judge [default: those of each run]
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `isolator fleet report`
#[derive(Debug, Args)]
pub struct FleetReportArgs {
    /// The store's folder
    pub store: PathBuf,
    /// Also write the report as HTML
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator fleet query`
#[derive(Debug, Args)]
pub struct FleetQueryArgs {
    /// The query [default: list all]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
