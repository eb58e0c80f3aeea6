// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lab.json`: what was seen of guests from outside of them; `isolator lab run --json` is this document.
//!
//! Figures here are counts: interruptions, and instructions that the guest's kernel executed. They do not
//! depend on the host's load, and none of them is a latency.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a run in the mode `count` has no verdict, and how to get one.
pub const NO_VERDICT: &str = "no verdict on a deadline is possible in the mode count: it counts interruptions and keeps \
    no latency; for a verdict run isolator prove on the machine itself";

/// The scenarios of the lab and the records of the scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// The bundle's path; empty within the bundle itself.
    pub bundle: String,
    /// The mode of the guests, which decides the meaning of their figures.
    pub mode: Mode,
    /// Why this mode.
    pub mode_reason: String,
    /// The emulator and its version.
    pub emulator: String,
    /// The guests' kernel: its release, and the request.
    pub kernel: String,
    /// SHA-256 of the kernel's image.
    pub kernel_digest: String,
    /// The guests' architecture: `x86_64`, `aarch64`.
    pub architecture: String,
    /// The boot line without the lab's own parameters (console, symbols).
    pub boot_line: String,
    /// CPUs of a guest.
    pub cpus: u32,
    /// Length of the window that was asked for, in seconds; with storms it ends after the last of them.
    /// Absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Seed of everything that storms draw.
    pub seed: u64,
    /// The kinds of work that the guests' isolator was asked to defer; absent: only the boot line isolates
    /// the CPU.
    #[serde(default)]
    pub isolate: Option<String>,
    /// One entry for each scenario and isolated CPU; in the mode `count` only, since only there the scope
    /// looks on.
    pub rows: Vec<LabRow>,
    /// The storm, and whether it took effect.
    pub storms: Vec<StormDid>,
    /// The work of the loads on the housekeeping CPUs, one entry for each guest with a load.
    #[serde(default)]
    pub loads: Vec<LoadDid>,
    /// The kernel log of all guests, judged.
    pub guest_log: GuestLog,
    /// The guest's own tracing of the same interruptions, compared with the scope's record.
    pub witness: Vec<Witness>,
    /// How many guests were not run, since the cache had an earlier result of the same content; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run_again: Option<String>,
}

impl LabDocument {
    /// Reasons why the run is no result, in words: storms and loads without effect, a kernel that complained.
    pub fn failures(&self) -> Vec<String> {
        let idle = self.storms.iter().filter(|storm| !storm.took_effect);
        let idle = idle.map(|storm| {
            format!("the storm {} in {} took no effect: {}", storm.name, storm.scenario, storm.did)
        });
        let loads = self.loads.iter().filter(|load| !load.took_effect);
        let loads = loads.map(|load| format!("the load in {} took no effect: {}", load.scenario, load.did));
        let complaints =
            self.guest_log.warnings.iter().map(|line| format!("the guest's kernel complained: {line}"));
        let mut failures = idle.chain(loads).chain(complaints).collect::<Vec<_>>();
        if self.guest_log.verdict == LogVerdict::Bad && self.guest_log.warnings.is_empty() {
            failures.push("the guest's kernel complained".to_string());
        }
        failures
    }
}

/// How a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Translated code, one host thread per CPU, with the scope: counts are exact, times mean nothing.
    Count,
    /// Translated code in instruction-count time: latencies are repeatable, in virtual nanoseconds.
    Virtual,
    /// On the processor itself: latencies of this machine under its hypervisor.
    Real,
}

impl Mode {
    /// Its name, as it is asked for and written.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Count => "count",
            Mode::Virtual => "virtual",
            Mode::Real => "real",
        }
    }
}

/// One isolated CPU in one scenario, from the marker *isolation begins* to *isolation ends*.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRow {
    /// The scenario.
    pub scenario: String,
    /// The guest's CPU.
    pub cpu: u32,
    /// Length of the window by the guest's clock, in seconds.
    pub seconds_guest: f64,
    /// Excursions from user space to the kernel and back.
    pub excursions: u64,
    /// Instructions that the kernel executed in them.
    pub kernel_instructions: u64,
    /// Instructions of the longest one.
    pub max_kernel_instructions: u64,
    /// Instructions in user space.
    pub user_instructions: u64,
    /// The excursions by entry point.
    pub by_entry: BTreeMap<String, EntryExcursions>,
    /// The most entered functions of all excursions with a recorded path: name to count.
    pub functions: BTreeMap<String, u64>,
    /// Excursions without a record of their own, since there were too many; they are counted.
    pub records_dropped: u64,
    /// The counts of the guest's own kernel for an isolated CPU, by the isolator's counters: `defer_sync`,
    /// `breach_call`.
    #[serde(default)]
    pub isolation: Option<BTreeMap<String, u64>>,
    /// From edges to this CPU's answers, for a probe that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<Responses>,
}

/// Responses from an input's edge to a CPU's answer, counted by the scope in instructions of that CPU. Each
/// is between its least, from the poll that saw the edge, and its most, from the last poll that did not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Responses {
    /// Stores to the input by all CPUs.
    pub edges: u64,
    /// Edges that came before the previous one was answered.
    pub doubled: u64,
    /// Spurious answers: stores to the output without a poll before them.
    pub blind: u64,
    /// Responses without an excursion in between.
    pub quiet: Spread,
    /// Responses that an interruption delayed; if the edge came during it, their most contains all of it.
    pub interrupted: Spread,
}

impl Responses {
    /// How many edges were answered.
    pub fn answers(&self) -> u64 {
        self.quiet.count.saturating_add(self.interrupted.count)
    }

    /// Edges that were neither answered nor doubled when the window ended.
    pub fn unanswered(&self) -> u64 {
        self.edges.saturating_sub(self.answers()).saturating_sub(self.doubled)
    }

    /// Both together.
    pub fn all(&self) -> Spread {
        self.quiet.clone().and(&self.interrupted)
    }

    /// These, and those of another window.
    pub fn and(self, other: &Responses) -> Responses {
        Responses {
            edges: self.edges.saturating_add(other.edges),
            doubled: self.doubled.saturating_add(other.doubled),
            blind: self.blind.saturating_add(other.blind),
            quiet: self.quiet.and(&other.quiet),
            interrupted: self.interrupted.and(&other.interrupted),
        }
    }
}

/// Responses, in instructions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// The least of all.
    #[serde(alias = "least")]
    pub least_instructions: u64,
    /// The most of all.
    #[serde(alias = "most")]
    pub most_instructions: u64,
    /// How many by their most: `[from, how many]`, exactly below 512, from there on to twice as much.
    pub counts: Vec<(u64, u64)>,
}

impl Spread {
    /// The most less the least: no two responses differ by more.
    pub fn instructions(&self) -> u64 {
        self.most_instructions.saturating_sub(self.least_instructions)
    }

    /// The most that at least that share of the responses took; above 511 rounded down to its power of
    /// two.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0u64;
        let reached = self.counts.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= wanted
        });
        reached.map_or(0, |(from, _)| *from)
    }

    fn and(mut self, other: &Spread) -> Spread {
        if other.count == 0 {
            return self;
        }
        if self.count == 0 {
            return other.clone();
        }
        self.count = self.count.saturating_add(other.count);
        self.least_instructions = self.least_instructions.min(other.least_instructions);
        self.most_instructions = self.most_instructions.max(other.most_instructions);
        let mut counts = self.counts.into_iter().collect::<BTreeMap<_, _>>();
        for (from, count) in &other.counts {
            let sum = counts.entry(*from).or_default();
            *sum = count.saturating_add(*sum);
        }
        self.counts = counts.into_iter().collect();
        self
    }
}

impl LabRow {
    /// Work that the kernel put off on this CPU, by its own count; `None` where its isolator was not asked.
    pub fn deferred(&self) -> Option<u64> {
        self.counted("defer_")
    }

    /// Interruptions that the kernel delivered in spite of isolation, by its own count.
    pub fn breaches(&self) -> Option<u64> {
        self.counted("breach_")
    }

    fn counted(&self, kind: &str) -> Option<u64> {
        let counters = self.isolation.as_ref()?;
        let of_kind = counters.iter().filter(|(name, _)| name.starts_with(kind));
        Some(untrusted::total(of_kind.map(|(_, count)| count)))
    }
}

/// Excursions through one entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub struct EntryExcursions {
    /// How many.
    pub count: u64,
    /// Sum of their kernel instructions.
    pub instructions: u64,
    /// Kernel instructions of the longest.
    pub max: u64,
}

/// The result of a storm, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StormDid {
    /// The scenario.
    pub scenario: String,
    /// The storm.
    pub name: String,
    /// Whether it took effect; a storm without effect fails the run.
    pub took_effect: bool,
    /// Its work, in words and figures, or the reason why it did none.
    pub did: String,
}

/// The result of a load, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadDid {
    /// The scenario, with the load.
    pub scenario: String,
    /// Whether it loaded; one that did not fails the run.
    pub took_effect: bool,
    /// Its work, in words and figures, or the reason why it did none.
    pub did: String,
}

/// The kernel's log, read to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestLog {
    /// Lines read.
    pub lines: u64,
    /// Lines that say that something is wrong in the kernel, with the scenario.
    pub warnings: Vec<String>,
    /// `clean`, or `bad`: the run fails.
    pub verdict: LogVerdict,
}

/// The content of the kernel's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogVerdict {
    /// Nothing is wrong.
    #[default]
    Clean,
    /// BUG, WARNING, Oops, a stall or lockdep's complaint.
    Bad,
}

/// The guest's own record of interruptions against the scope's, matched in order. Of long records the
/// beginnings are compared, and the rest is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Witness {
    /// The scenario.
    pub scenario: String,
    /// The guest's CPU.
    pub cpu: u32,
    /// Interruptions that the guest's tracing named.
    pub named: u64,
    /// Interruptions that the scope saw.
    pub seen: u64,
    /// Interruptions of the guest's tracing after the compared beginning.
    #[serde(default)]
    pub named_beyond: u64,
    /// Interruptions of the scope after the compared beginning.
    #[serde(default)]
    pub seen_beyond: u64,
    /// Those in both.
    pub matched: u64,
    /// matched / seen: the share of the scope's interruptions that the guest names.
    pub recall: f64,
    /// matched / named: the true share of the interruptions that the guest names.
    pub precision: f64,
    /// The first that differ, in words.
    pub differences: Vec<String>,
}

/// `isolator lab matrix --json`: the same scenarios on several kernels and boot lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// The matrix.
    pub matrix: String,
    /// A description of it.
    pub about: String,
    /// Its cells, in the order in which they were run.
    pub cells: Vec<MatrixCell>,
    /// The reasons why a cell has no result: a storm without effect, a kernel that complained.
    pub complaint: Option<String>,
    /// For each step with such guests: how many were not run, but have an earlier result from the cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run_again: Vec<String>,
}

/// One scenario under one load on one kernel with one boot line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixCell {
    /// The scenario.
    pub scenario: String,
    /// The load.
    pub load: String,
    /// The kernel, as it was asked for.
    pub kernel: String,
    /// The boot line's name.
    pub boot: String,
    /// The kinds of work that the guest's kernel part was asked to defer; absent: it was not used.
    pub isolate: Option<String>,
    /// How the guest ran.
    pub mode: Mode,
    /// Interruptions delivered in spite of isolation, as the guest's kernel counted them.
    pub breaches: Option<u64>,
    /// Work that was put off, as the guest's kernel counted it.
    pub deferred: Option<u64>,
    /// Excursions of the isolated CPU that the scope recorded.
    pub excursions: Option<u64>,
    /// Their kernel instructions.
    pub kernel_instructions: Option<u64>,
    /// Those of the longest excursion.
    pub max_kernel_instructions: Option<u64>,
    /// The largest latency, if the guest's clock is meaningful: in the mode `virtual` in virtual nanoseconds.
    pub max_ns: Option<u64>,
    /// The change of excursions, or else of the latency, against the first cell of the same scenario, load
    /// and mode.
    pub change_percent: Option<f64>,
    /// The article's figure for that row, on its own machine.
    pub published: Option<String>,
    /// The bundle.
    pub bundle: String,
}

/// `isolator lab gate --json`: the growth against a baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether nothing grew, and everything that the baseline counted was counted again.
    pub held: bool,
    /// The baseline's kernel.
    pub kernel_before: String,
    /// The kernel that was run.
    pub kernel_after: String,
    /// The figures that grew, worst first.
    pub growth: Vec<Growth>,
    /// Figures of the baseline that the run lacks: they cannot be judged, so the gate does not hold.
    pub not_counted: Vec<String>,
    /// The rows that were judged, and how long each counted.
    pub windows: Vec<GateWindow>,
    /// Rows that only one of both counted, so that they were not judged.
    pub not_judged: Vec<String>,
    /// The bundle.
    pub bundle: String,
}

/// How long a row counted, before and now. A storm takes a fixed number of rounds, however long they take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateWindow {
    /// The scenario, and the load where there was one.
    pub scenario: String,
    /// The guest's CPU.
    pub cpu: u32,
    /// Excursions of the baseline.
    pub excursions_before: u64,
    /// Excursions now.
    pub excursions_after: u64,
    /// The baseline's window by its guest's clock, in seconds.
    pub before_s: f64,
    /// The window now.
    pub after_s: f64,
}

impl GateWindow {
    /// Whether the windows differ by so much that their counts are to be read with it.
    pub fn differs(&self) -> bool {
        (self.after_s - self.before_s).abs() > 0.1 * self.before_s
    }
}

/// A figure that grew by more than runs of the same guest differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    /// The scenario, and the load where there was one.
    pub scenario: String,
    /// The guest's CPU.
    pub cpu: u32,
    /// Which figure.
    pub what: String,
    /// In the baseline.
    pub before: u64,
    /// Now.
    pub after: u64,
    /// The allowed value.
    pub allowed: u64,
}

impl Growth {
    /// How many times as much it is.
    pub fn factor(&self) -> f64 {
        self.after as f64 / self.before.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(least: u64, most: u64, counts: &[(u64, u64)]) -> Spread {
        let count = counts.iter().map(|(_, count)| count).sum();
        Spread { count, least_instructions: least, most_instructions: most, counts: counts.to_vec() }
    }

    #[test]
    fn windows_of_responses_are_added_and_those_without_any_change_nothing() {
        let quiet = spread(4, 14, &[(13, 90), (14, 9)]);
        let interrupted = spread(5, 700, &[(512, 1)]);
        let one = Responses { edges: 101, doubled: 1, blind: 1, quiet: quiet.clone(), interrupted };
        let whole = one.clone().and(&Responses::default());
        assert_eq!(whole, one);
        assert_eq!(Responses::default().and(&one), one);
        assert_eq!((one.answers(), one.unanswered()), (100, 0));
        assert_eq!(one.all(), spread(4, 700, &[(13, 90), (14, 9), (512, 1)]));
        let twice = one.clone().and(&one);
        assert_eq!((twice.edges, twice.quiet), (202, spread(4, 14, &[(13, 180), (14, 18)])));
        assert_eq!((quiet.instructions(), one.all().instructions()), (10, 696));
    }

    #[test]
    fn a_quantile_is_the_first_count_that_holds_the_share() {
        let all = spread(4, 700, &[(13, 90), (14, 9), (512, 1)]);
        assert_eq!([0.5, 0.9, 0.91, 0.99, 1.0].map(|share| all.quantile(share)), [13, 13, 14, 14, 512]);
        assert_eq!(Spread::default().quantile(0.5), 0);
    }
}
