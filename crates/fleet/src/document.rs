// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator fleet report`: what a store of many machines' bundles says. Every figure comes from the SQL in
//! [`query`](crate::query); this module has only its shape.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `isolator fleet report --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// The store's path.
    pub store: String,
    /// How much there is.
    pub totals: FleetTotals,
    /// Machines by their latest run, the best first.
    pub machines: Vec<FleetMachine>,
    /// Machines of the same hardware and kernel class together, the worst class first.
    pub classes: Vec<MachineClass>,
    /// Machines that are later than others of their class, the furthest first.
    pub outliers: Vec<Outlier>,
    /// Classes most of whose machines fail although the measured CPUs are isolated.
    pub unfit: Vec<Unfit>,
    /// Machines that got later or earlier from run to run.
    pub drift: Vec<LatencyDrift>,
    /// Factors correlated with failure, within classes.
    pub settings: Vec<FailingSetting>,
    /// Runs with implausible times.
    pub clocks: Vec<DoubtfulClock>,
    /// Names that more than one machine may have.
    pub duplicates: Vec<Duplicate>,
    /// Files given to the store that could not be read.
    pub unread: Vec<Unread>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Totals")]
pub struct FleetTotals {
    /// Bundles.
    pub bundles: u64,
    /// Machines.
    pub machines: u64,
    /// Rows.
    pub rows: u64,
    /// Samples.
    pub samples: u64,
    /// Classes.
    pub classes: u64,
}

/// A machine by its latest run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Machine")]
pub struct FleetMachine {
    /// Its place, from 1.
    pub rank: u64,
    /// Its name.
    pub hostname: String,
    /// Hardware and kernel class.
    pub class: String,
    /// `held`, `unproven` or `exceeded`.
    pub outcome: String,
    /// Runs that the store has of it.
    pub runs: u64,
    /// When the latest began, RFC 3339 in UTC.
    pub started_at: Option<String>,
    /// Whether all its measured CPUs were isolated.
    pub set_apart: bool,
    /// Cycles with a sample.
    pub samples: u64,
    /// Late cycles: above the limit, or missed.
    pub late: u64,
    /// Missed periods: cycles without a sample.
    #[serde(default)]
    pub missed: u64,
    /// 99.9 % of all cycles, from buckets.
    pub p99_9_ns: Option<u64>,
    /// Largest; absent where an imported file does not state it.
    pub max_ns: Option<u64>,
    /// The strictest limit.
    pub limit_ns: Option<u64>,
    /// p99.9 against the class's median, the median over probes and loads; absent where the class has fewer
    /// than four machines.
    pub against_class: Option<f64>,
    /// The main reason against it.
    pub reason: String,
    /// Codes of the taints that the user accepted, with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// The grade for the use that the run was made for, with the use: `unfit for linuxcnc:1ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<String>,
    /// The bundle.
    pub path: String,
}

/// Machines of the same hardware and kernel class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Class")]
pub struct MachineClass {
    /// Its place, from 1.
    pub rank: u64,
    /// Hardware and kernel class.
    pub class: String,
    /// Machines.
    pub machines: u64,
    /// Those that held.
    pub held: u64,
    /// Those with an unproven limit.
    pub unproven: u64,
    /// Those that exceeded their limit.
    pub exceeded: u64,
    /// Those with isolated measured CPUs.
    pub set_apart: u64,
    /// p99.9 of the best machine.
    pub best_p99_9_ns: Option<u64>,
    /// p99.9 of the machine in the middle.
    pub median_p99_9_ns: Option<u64>,
    /// p99.9 of the worst machine.
    pub worst_p99_9_ns: Option<u64>,
    /// The best machine.
    pub best: Option<String>,
    /// The worst machine.
    pub worst: Option<String>,
}

/// A machine that is later than others of its class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    /// Its place, from 1.
    pub rank: u64,
    /// Its name.
    pub hostname: String,
    /// Its class.
    pub class: String,
    /// Machines of the class.
    pub machines: u64,
    /// Its verdict.
    pub outcome: String,
    /// p99.9 against the class's median, the median over probes and loads.
    pub times_the_median: f64,
    /// How far that is from the class's median, in (robust) standard deviations.
    pub z: f64,
    /// The probe and load that stand out most.
    pub worst_cell: String,
    /// p99.9 there against the class's median.
    pub worst_ratio: f64,
    /// 99.9 % of all cycles.
    pub p99_9_ns: Option<u64>,
    /// Largest.
    pub max_ns: Option<u64>,
    /// The bundle.
    pub path: String,
}

/// A class most of whose machines fail although the measured CPUs are isolated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unfit {
    /// Its place, from 1.
    pub rank: u64,
    /// Hardware and kernel class.
    pub class: String,
    /// Machines whose measured CPUs are isolated.
    pub set_apart: u64,
    /// Those that exceeded their limit.
    pub failed: u64,
    /// The other machines.
    pub not_set_apart: u64,
    /// Those that exceeded their limit.
    pub not_set_apart_failed: u64,
    /// p99.9 of the best machine with isolated CPUs.
    pub best_p99_9_ns: Option<u64>,
    /// The maximum of the machine with the smallest one.
    pub best_max_ns: Option<u64>,
    /// The strictest limit.
    pub limit_ns: Option<u64>,
    /// Lower 95 % bound of the share that fails with isolated CPUs.
    pub failed_share_at_least: f64,
    /// The main cause of their spikes, if known.
    pub cause: Option<String>,
    /// Its share of the time that causes are known of.
    pub cause_share: Option<f64>,
}

/// A machine that got later or earlier from run to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Drift")]
pub struct LatencyDrift {
    /// Its place, from 1.
    pub rank: u64,
    /// Its name.
    pub hostname: String,
    /// Its class.
    pub class: String,
    /// Runs with a plausible clock.
    pub runs: u64,
    /// When the first began.
    pub first_at: String,
    /// When the last began.
    pub last_at: String,
    /// Kernels that it ran meanwhile.
    pub kernels: u64,
    /// p99.9 of the later half of the runs against the earlier, medians.
    pub times: f64,
    /// The trend's distance from none, in standard deviations; below zero it got earlier.
    pub z: f64,
}

/// Factors correlated with failure; factors of the same machines are grouped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Setting")]
pub struct FailingSetting {
    /// Its place, from 1.
    pub rank: u64,
    /// `name = value`.
    pub settings: Vec<String>,
    /// Machines with it, in classes in which other machines do not have it.
    pub with_machines: u64,
    /// Those that exceeded their limit.
    pub with_failed: u64,
    /// Machines of the same classes that have it not.
    pub without_machines: u64,
    /// Those that exceeded their limit.
    pub without_failed: u64,
    /// The effect's distance from none, in standard deviations.
    pub z: f64,
    /// How many differences were looked at.
    pub tried: u64,
}

/// A run with implausible times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Clock")]
pub struct DoubtfulClock {
    /// Its place, from 1.
    pub rank: u64,
    /// The machine's name.
    pub hostname: String,
    /// The bundle.
    pub path: String,
    /// Its stated begin.
    pub started_at: Option<String>,
    /// Why that is not believed.
    pub why: String,
}

/// A name that more than one machine may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Duplicate {
    /// Its place, from 1.
    pub rank: u64,
    /// The name.
    pub hostname: String,
    /// The reason why several machines may share it.
    pub why: String,
}

/// The files that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unread {
    /// Its place, from 1.
    pub rank: u64,
    /// The path as it was given.
    pub path: String,
    /// Why.
    pub why: String,
}
