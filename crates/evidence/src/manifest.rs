// SPDX-License-Identifier: MIT OR Apache-2.0
//! `manifest.json`: what was asked, what was granted, on which machine, and what disturbed it.
//!
//! Plain types with units in their names. Fields that another tool's file cannot tell are `None`: unknown is
//! never filled in.

use std::collections::BTreeMap;

use machine::{CpuSet, Snapshot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Causes, Choice, Collector, OnSibling};
use crate::limit::{ClaimPer, LateAllowance, Until};
use crate::taint::Taint;

/// Version of every file of a bundle and of every JSON document made from one.
pub const SCHEMA_VERSION: u32 = 1;

/// The whole manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The program that measured: this one, or the tool of the imported file.
    pub written_by: WrittenBy,
    /// When the run began, RFC 3339 in UTC.
    pub started_at: Option<String>,
    /// When it ended; absent while it runs and after a kill.
    pub ended_at: Option<String>,
    /// How far the run got.
    pub state: RunState,
    /// The machine at the start.
    pub machine: Snapshot,
    /// Facts that each boot decides anew, by name: addresses, routes of interrupts, frequencies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_boot: BTreeMap<String, String>,
    /// The request.
    pub asked: Asked,
    /// One entry a measured series, in the order of measurement.
    pub rows: Vec<RowEntry>,
    /// The requested rows that could not be measured, with reasons.
    pub not_run: Vec<NotRun>,
    /// Notes of the preflight and the run, which do not count against the result.
    pub notes: Vec<String>,
    /// A disturbance of the measurement, or of the claim.
    pub taints: Vec<Taint>,
    /// How causes were collected; absent where they were not.
    pub causes: Option<Causes>,
}

impl Manifest {
    /// The manifest of a finished run of `program` that states its request alone.
    pub fn new(program: &str, asked: Asked) -> Manifest {
        Manifest {
            schema_version: SCHEMA_VERSION,
            written_by: WrittenBy {
                program: program.into(),
                version: None,
                commit: None,
                command_line: None,
            },
            started_at: None,
            ended_at: None,
            state: RunState::Finished,
            machine: Snapshot::default(),
            by_boot: BTreeMap::new(),
            asked,
            rows: Vec::new(),
            not_run: Vec::new(),
            notes: Vec::new(),
            taints: Vec::new(),
            causes: None,
        }
    }

    /// The rows that were not run; one is optional only where `all` asked for its load,
    /// and no name.
    pub fn rows_not_run(&self) -> Vec<NotRun> {
        let rows = self.not_run.iter().cloned();
        rows.map(|row| NotRun { optional: self.does_without(&row), ..row }).collect()
    }

    /// The late cycles that are allowed; an unreadable number allows none.
    pub fn allowed(&self) -> Option<LateAllowance> {
        self.asked.allow.as_deref()?.parse().ok()
    }

    /// Whether the verdict does without a row that was not run: the machine cannot run its load, and `all`
    /// asked for it, not its name.
    pub fn does_without(&self, row: &NotRun) -> bool {
        row.optional && self.asked.loads_if_available.contains(&row.load)
    }
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenBy {
    /// `isolator`, `cyclictest`, `oslat`, …
    pub program: String,
    /// Its version.
    pub version: Option<String>,
    /// The source commit it was built from.
    pub commit: Option<String>,
    /// Its command line.
    pub command_line: Option<String>,
}

/// How far a run got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "State")]
pub enum RunState {
    /// It is being written, or the writer was killed.
    Running,
    /// It ended as asked.
    Finished,
    /// It was ended early, in order, with the data so far.
    Interrupted,
}

/// The load of a row whose load is not stated.
pub const UNKNOWN_LOAD: &str = "unknown";

/// The note of a run whose state is [`RunState::Interrupted`].
pub const ENDED_EARLY: &str = "the run was ended before its time";

/// The request for a run. Bundles with equal requests can be compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Asked {
    /// Probes: `wakeup`, `spin`, `toggle`, `message-MEANS`, `response-MEANS`, `ethercat`, `hardware`; or
    /// `loop`, a program's own.
    pub probes: Vec<String>,
    /// Loads, one after the other.
    pub loads: Vec<String>,
    /// The loads that only `--loads all` requested: the verdict does not need one that the machine cannot
    /// run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads_if_available: Vec<String>,
    /// Measured CPUs.
    pub cpus: CpuSet,
    /// CPUs for loads and for our own control thread.
    pub house_keeping: CpuSet,
    /// Periods of the wakeup threads on each measured CPU.
    pub periods_ns: Vec<u64>,
    /// Scheduling policy of the measuring threads: `fifo`, `rr`, `deadline`, `other`.
    pub policy: Option<String>,
    /// Their real-time priority.
    pub priority: Option<u32>,
    /// Timer used: `nanosleep` or `timerfd`.
    pub timer: Option<String>,
    /// Length of each row.
    pub duration_ns: Option<u64>,
    /// Length of each row in cycles, if it was given in cycles.
    pub loops: Option<u64>,
    /// Thrown away at the start of each row.
    pub warm_up_ns: Option<u64>,
    /// The use from which options were taken: `linuxcnc:25us+1ms`; absent: none was named.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The limit as given: `100us`, `10%`, `25us:10us,1ms:100us`.
    pub limit: Option<String>,
    /// Latency above which a spike is listed.
    pub threshold_ns: Option<u64>,
    /// Rate of late episodes, or cycles, that a held verdict claims to stay below, at 95 % confidence.
    pub claim: Option<f64>,
    /// The unit that the claim counts; absent: late episodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_per: Option<ClaimPer>,
    /// Late cycles that are allowed in any so many consecutive ones: `1in10`; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// When rows end early; empty: never.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<Until>,
    /// `/dev/cpu_dma_latency` that was requested while measuring, in microseconds; absent: left alone.
    pub dma_latency_us: Option<u32>,
    /// The kinds of work that the kernel part was asked to defer on the measured CPUs: `default,ktlb`;
    /// absent: it was not used.
    pub isolate: Option<String>,
    /// The requested collector of causes; absent: the best possible.
    pub causes: Option<Choice>,
    /// Taint codes that the user accepts.
    pub accept: Vec<String>,
    /// Whether the run may go on for days: a line a minute instead of a second, and of each series the
    /// longest and the latest spikes alone.
    #[serde(skip_serializing_if = "is_not")]
    pub flight: bool,
    /// The signals that the response probe polls and drives; absent: memory of this program, with both ends
    /// here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseSetup>,
    /// The segment that EtherCAT drives, as a probe or else as a load; absent: a simulated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethercat: Option<EthercatSetup>,
}

/// The EtherCAT segment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Ethercat")]
pub struct EthercatSetup {
    /// The interface; absent: a simulated segment.
    pub device: Option<String>,
    /// Whether it is used although it has an address or the default route, or another MainDevice uses it.
    pub forced: bool,
}

/// The signals that the response probe polls and drives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Response")]
pub struct ResponseSetup {
    /// The role of the measured CPU: `responder`, `generator`, or with shared memory `both`, if another CPU
    /// generates the edges.
    pub role: Option<String>,
    /// Shared memory: `FILE` or `FILE:OFFSET`.
    pub signal: Option<String>,
    /// The board with the polled registers, or a file that describes it: `NAME`, `NAME@ADDRESS`,
    /// `NAME@DEVICE`.
    pub board: Option<String>,
    /// The kernel's GPIO chip with the awaited lines: `gpiochip0`.
    pub chip: Option<String>,
    /// The line that is read.
    pub input: Option<u32>,
    /// The line that is driven.
    pub output: Option<u32>,
}

/// The identity of a series in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct RowKey {
    /// The probe.
    pub probe: String,
    /// The load it was measured under.
    pub load: String,
    /// The measured CPU.
    pub cpu: u32,
    /// The period, for a periodic probe.
    pub period_ns: Option<u64>,
    /// The name of the loop's thread, if the program did not publish the loop itself; with a number if
    /// several threads have this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_name: Option<String>,
}

impl RowKey {
    /// The key of a series that no thread's name tells from others.
    pub fn new(probe: &str, load: &str, cpu: u32, period_ns: Option<u64>) -> RowKey {
        RowKey { probe: probe.into(), load: load.into(), cpu, period_ns, thread_name: None }
    }

    /// The stem of a series' files: `wakeup-idle-cpu1-1000us`.
    pub fn stem(&self) -> String {
        let load = self.load.split('=').next().unwrap_or_default();
        let plain = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
        };
        let load = plain(load);
        let thread = self.thread_name.as_deref().map(|name| format!("-{}", plain(name))).unwrap_or_default();
        let period = self.period_ns.map(|ns| format!("-{}us", ns as f64 / 1e3)).unwrap_or_default();
        format!("{}{thread}-{load}-cpu{}{period}", self.probe, self.cpu)
    }

    /// Whether a taint disturbed this row.
    pub fn is_tainted_by(&self, taint: &Taint) -> bool {
        taint.cpu.is_none_or(|cpu| cpu == self.cpu)
            && taint.load.as_ref().is_none_or(|load| *load == self.load)
    }
}

/// One measured series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowEntry {
    /// Its identity.
    #[serde(flatten)]
    pub key: RowKey,
    /// Stem of its files below `series/`.
    pub files: String,
    /// How far it got.
    pub state: RunState,
    /// The kernel's grants to the measuring thread.
    pub granted: Granted,
    /// The limit that judges this row.
    pub limit_ns: Option<u64>,
    /// The thread whose loop it is, where the loop was followed from outside.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
    /// Spikes above the threshold, listed or not.
    pub spikes: u64,
    /// Spikes that are not listed because there were too many.
    pub spikes_not_listed: u64,
    /// The work of the load, in words and figures.
    pub load_did: Option<String>,
    /// For imported evidence with coarser buckets: their width, and the value from which on it only counts.
    pub coarse: Option<Coarse>,
}

impl RowEntry {
    /// The entry of a finished series, with the usual stem, and without grants, limit or spikes.
    pub fn new(key: RowKey) -> RowEntry {
        RowEntry {
            files: key.stem(),
            key,
            state: RunState::Finished,
            granted: Granted::default(),
            limit_ns: None,
            followed: None,
            spikes: 0,
            spikes_not_listed: 0,
            load_did: None,
            coarse: None,
        }
    }
}

/// A loop of a program that was followed from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Followed {
    /// Its thread.
    pub thread: FollowedThread,
    /// The call in which it waits for its next cycle.
    pub waits_with: String,
    /// The source of the period.
    pub period_from: PeriodSource,
    /// The source of the events from which its cycles were told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed_by: Option<Collector>,
}

/// A thread of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FollowedThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its scheduling policy.
    pub policy: String,
    /// Its real-time priority, 0 where it has none.
    pub priority: u32,
}

/// The source of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PeriodSource {
    /// From when the loop was due.
    Inferred,
    /// It was given.
    Given,
}

/// The kernel's grants to a measuring thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Granted {
    /// Scheduling policy in force.
    pub policy: Option<String>,
    /// Real-time priority in force.
    pub priority: Option<u32>,
    /// CPUs that the thread may use.
    pub affinity: Option<CpuSet>,
    /// Whether its memory is locked.
    pub memory_locked: Option<bool>,
    /// Page faults that the thread took while it measured.
    pub page_faults: Option<u64>,
    /// Time the hypervisor took from the CPU while it measured.
    pub steal_ns: Option<u64>,
    /// Counter frequency of the spin probe.
    pub counter_hz: Option<u64>,
    /// Thread id.
    pub thread: Option<u32>,
    /// For the message probe, the CPU that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers_on: Option<u32>,
    /// For the response probe, the CPU of the edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges_from: Option<u32>,
    /// The counts of the kernel part for the CPU during the measurement with its warm-up, by the
    /// counter's name: `defer_sync`, `breach_call`; absent if the CPU was not isolated. Unchanged counters
    /// are left out.
    pub isolation: Option<BTreeMap<String, u64>>,
    /// For the EtherCAT probe, the results of its cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ethercat: Option<Exchanged>,
}

/// Results of an EtherCAT MainDevice's cycles beside their times, without warm-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Exchanged {
    /// The interface; absent: the segment was simulated.
    pub device: Option<String>,
    /// SubDevices.
    pub sub_devices: u64,
    /// Cycles.
    pub cycles: u64,
    /// Cycles whose frame returned with a wrong working counter.
    pub wrong_counters: u64,
    /// Cycles whose frame had not returned when the next one was due.
    pub not_back: u64,
    /// Frames that returned after that.
    pub late_frames: u64,
    /// Cycles in which not every SubDevice was in OP.
    pub not_op: u64,
    /// The least time from when process data passed the reference SubDevice to its next SYNC0.
    pub sync0_margin_ns: Option<u64>,
    /// SYNC0 events between two cycles' process data beyond the one that belongs there.
    pub sync0_missed: u64,
    /// The largest reported difference of a SubDevice's clock to the reference; one SubDevice is read every
    /// 16 cycles.
    pub clocks_apart_ns: Option<u64>,
}

/// How coarse an imported series is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coarse {
    /// Width of one bucket of the source.
    pub resolution_ns: u64,
    /// Unit of the source's figures: a bucket counts values from its label up to the last whole unit in it.
    /// 0: unknown.
    #[serde(default)]
    pub unit_ns: u64,
    /// How far a value may lie below the figure that the source states of it: it rounds up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub below_ns: u64,
    /// How far a value may lie above the figure that the source states of it: it cuts to whole units.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub above_ns: u64,
    /// Values from here on were only counted.
    pub overflow_from_ns: Option<u64>,
    /// Their number.
    pub overflow_count: u64,
    /// Whether the source states the mean, or enough to work it out.
    #[serde(default = "is_known")]
    pub mean_known: bool,
    /// Whether the source states the minimum, or enough to work it out.
    #[serde(default = "is_known", skip_serializing_if = "is_true")]
    pub min_known: bool,
    /// Whether the source states the maximum, or enough to work it out.
    #[serde(default = "is_known", skip_serializing_if = "is_true")]
    pub max_known: bool,
    /// Whether the source states how many samples there were.
    #[serde(default = "is_known", skip_serializing_if = "is_true")]
    pub count_known: bool,
    /// Whether the source counts the periods that it missed, or missed none.
    #[serde(default = "is_known", skip_serializing_if = "is_true")]
    pub missed_known: bool,
    /// Periods missed, as the source states them for the whole run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
}

/// The value that an older file means by its absence.
pub(crate) fn is_known() -> bool {
    true
}

fn is_not(value: &bool) -> bool {
    !*value
}

pub(crate) fn is_true(value: &bool) -> bool {
    *value
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Something asked that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRun {
    /// The probe.
    pub probe: String,
    /// The load.
    pub load: String,
    /// The reason, with the cure: `package stress-ng missing; apt-get install stress-ng`.
    pub reason: String,
    /// Whether this machine cannot run the load, and `--loads all` alone asked for it: the verdict does
    /// without.
    #[serde(default)]
    pub optional: bool,
}

/// One second of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// Seconds since the row began.
    pub second: u32,
    /// Samples in it.
    pub count: u64,
    /// Smallest latency.
    pub min_ns: u64,
    /// Sum of latencies.
    pub sum_ns: u64,
    /// Largest latency.
    pub max_ns: u64,
    /// Periods missed.
    pub missed: u64,
}

impl Second {
    /// Whether a run can have such a second: at most one sample, or one missed period, every nanosecond of a
    /// quarter of an hour, as seconds are joined where the control thread is late; and no minimum above
    /// the maximum.
    pub(crate) fn can_be(&self) -> bool {
        const MOST: u64 = 1_000_000_000_000;
        self.count <= MOST && self.missed <= MOST && (self.count == 0 || self.min_ns <= self.max_ns)
    }

    /// Both as one, under this one's number.
    pub fn joined(&self, other: &Second) -> Second {
        let min_ns = match (self.count, other.count) {
            (0, _) => other.min_ns,
            (_, 0) => self.min_ns,
            _ => self.min_ns.min(other.min_ns),
        };
        Second {
            second: self.second,
            count: self.count.saturating_add(other.count),
            min_ns,
            sum_ns: self.sum_ns.saturating_add(other.sum_ns),
            max_ns: self.max_ns.max(other.max_ns),
            missed: self.missed.saturating_add(other.missed),
        }
    }
}

/// One line of `spikes.jsonl`: a wakeup latency or a gap above the threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spike {
    /// The series it belongs to.
    #[serde(flatten)]
    pub key: RowKey,
    /// When it began (the timer was due, or the gap opened), since the row began.
    pub at_ns: u64,
    /// The same moment on CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// The same moment as wall time, RFC 3339 in UTC.
    pub wall_time: Option<String>,
    /// How late, or how long.
    pub latency_ns: u64,
    /// Periods missed because of it.
    pub missed: u64,
    /// The causes, in order; empty if none was collected.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// The part of the latency that no cause explains; absent without causes, or with suspects only.
    pub unexplained_ns: Option<u64>,
    /// The evidence about that part: it names no thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_detail: Option<String>,
    /// Activity of the CPU's siblings meanwhile; it takes no time from this CPU, but slows it down.
    #[serde(default)]
    pub siblings: Vec<OnSibling>,
}

impl Spike {
    /// A spike at the start of its row, without causes.
    pub fn new(key: RowKey, latency_ns: u64) -> Spike {
        Spike {
            key,
            at_ns: 0,
            monotonic_ns: 0,
            wall_time: None,
            latency_ns,
            missed: 0,
            causes: Vec::new(),
            unexplained_ns: None,
            unexplained_detail: None,
            siblings: Vec::new(),
        }
    }
}
