// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of every reader: a manifest and columns of bucket counts, still in the source's own unit.
//!
//! Here alone counts become evidence. Every step saturates: a foreign file may state any number. Where a
//! column's figures contradict each other the worse one counts, and the contradiction is reported.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use machine::CpuSet;
use machine::snapshot::{Kernel, Preemption};

use super::UNKNOWN_LOAD;
use super::figures::{Digits, ToolScreen};
use evidence::fact;
use evidence::histogram::Histogram;
use evidence::kind::RowKind;
use evidence::manifest::{Asked, Coarse, Manifest, NotRun, RowEntry, RowKey};
use evidence::reader::Bundle;
use evidence::row::Row;
use evidence::series::Series;
use evidence::taint::{self, Taint};

/// The probe of a row: its kind, and which one of a family as `message-` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowProbe {
    pub kind: RowKind,
    member: &'static str,
}

impl RowProbe {
    /// Messages that go by a means.
    pub const fn message(member: &'static str) -> RowProbe {
        RowProbe { kind: RowKind::Message, member }
    }
}

impl From<RowKind> for RowProbe {
    fn from(kind: RowKind) -> RowProbe {
        RowProbe { kind, member: "" }
    }
}

impl Default for RowProbe {
    fn default() -> RowProbe {
        RowKind::Unknown.into()
    }
}

impl fmt::Display for RowProbe {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.kind.name(), self.member)
    }
}

/// One measured series as the source states it.
#[derive(Debug, Clone, Default)]
pub(super) struct ImportedSeries {
    pub probe: RowProbe,
    pub cpu: u32,
    pub period_ns: Option<u64>,
    /// Nanoseconds of one unit of the figures below.
    pub unit_ns: u64,
    /// Width of a bucket in units.
    pub width: u64,
    /// Smallest value of a bucket, in units, and its count; ascending.
    pub buckets: Vec<(u64, u64)>,
    /// Samples beyond the buckets.
    pub overflow: u64,
    /// Samples of which the source states the number, and nothing of where they lie.
    pub unplaced: u64,
    /// The thread, where the source numbers those, and its id.
    pub thread: Option<u32>,
    pub tid: Option<u64>,
    /// Where the buckets end, in units; absent: after the last one listed.
    pub overflow_from: Option<u64>,
    /// Figures that the tool states, in units.
    pub min: Option<u64>,
    pub avg: Option<f64>,
    pub max: Option<u64>,
    /// How far the maximum lies above its unit, where the tool states it elsewhere with more digits.
    pub max_fraction_ns: u64,
    /// Periods missed, as the tool states them.
    pub missed: u64,
    /// Whether the source does not say how many samples there were.
    pub counts_no_samples: bool,
}

impl ImportedSeries {
    /// A series without a sample yet, with buckets of one unit.
    pub fn new(probe: impl Into<RowProbe>, cpu: u32, unit_ns: u64) -> ImportedSeries {
        ImportedSeries { probe: probe.into(), cpu, unit_ns, width: 1, ..ImportedSeries::default() }
    }

    /// The same with the figures of a screen, no sample of which is placed.
    pub fn screen(self, screen: &ToolScreen) -> ImportedSeries {
        let ToolScreen { cycles: overflow, min, avg, max, .. } = *screen;
        ImportedSeries { overflow, min, avg, max, ..self }
    }

    /// The same with the period in microseconds; 0 where none is known.
    pub fn each_us(self, period_us: u64) -> ImportedSeries {
        ImportedSeries { period_ns: period_us.checked_mul(1_000).filter(|ns| *ns > 0), ..self }
    }

    /// Samples in the buckets.
    pub fn listed(&self) -> u64 {
        self.buckets.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    }

    /// States the number of all samples, where the source gives no overflow count.
    pub fn set_total(&mut self, total: u64, found: &mut ImportedFile) {
        let listed = self.listed();
        if listed > total {
            let (probe, cpu) = (self.probe, self.cpu);
            found.lacks(format!("{probe} on cpu {cpu}: {total} samples are stated and {listed} listed"));
        }
        self.overflow = total.saturating_sub(listed);
    }

    /// All samples that the source counts.
    pub fn samples(&self) -> u64 {
        self.listed().saturating_add(self.overflow).saturating_add(self.unplaced)
    }

    /// States a sample that the source tells apart from its table: where it is worse than all others it
    /// counts.
    pub fn state_max(&mut self, value: u64) {
        if self.known_max().is_none_or(|max| max < value) {
            self.add_max(value);
        }
    }

    /// The same for a sample stated in nanoseconds, which may have digits that are cut off in the table.
    pub fn state_max_ns(&mut self, ns: u64, is_cut: bool) {
        let (units, fraction_ns) = (ns / self.unit_ns.max(1), ns % self.unit_ns.max(1));
        match self.known_max() {
            Some(max) if max > units || max == units && fraction_ns == 0 => return,
            // The table has the same sample without its last digits.
            Some(max) if max == units && is_cut => self.max = Some(units),
            _ => self.add_max(units),
        }
        self.max_fraction_ns = self.max_fraction_ns.max(fraction_ns);
    }

    fn add_max(&mut self, value: u64) {
        // Where more samples are hidden than the maximum, it may be one of them.
        if self.overflow == 0 && self.unplaced == 0 {
            self.overflow = 1;
            self.overflow_from = Some(value);
        }
        (self.max, self.max_fraction_ns) = (Some(value), 0);
    }

    /// The largest sample so far, in units; `None` without a sample.
    fn known_max(&self) -> Option<u64> {
        let reached = self.last().map(|last| last.saturating_add(self.width.saturating_sub(1)));
        self.max.or(reached).filter(|_| self.samples() > 0)
    }

    /// The last bucket with a sample.
    fn last(&self) -> Option<u64> {
        self.buckets.iter().filter(|bucket| bucket.1 > 0).map(|bucket| bucket.0).max()
    }

    fn latency(&self, digits: Digits, missing: &mut Vec<String>) -> (Histogram, Coarse) {
        let mut note = |what: &str| missing.push(format!("{} on cpu {}: {what}", self.probe, self.cpu));
        let ns = |units: u64| units.saturating_mul(self.unit_ns);
        let stated_max_ns = self.max.map(|max| ns(max).saturating_add(self.max_fraction_ns));
        let mut latency = Histogram::new();
        for (value, count) in &self.buckets {
            latency.record_many(ns(*value), *count);
        }
        let ends = self.last().map(|last| last.saturating_add(self.width));
        let from = match self.unplaced {
            0 => self.overflow_from.or(ends).or(self.min).unwrap_or(0),
            _ => self.min.unwrap_or(0),
        };
        let overflow = self.overflow.saturating_add(self.unplaced);
        match (overflow, stated_max_ns) {
            (0, _) => {}
            (count, Some(max_ns)) => {
                latency.record_many(ns(from).min(max_ns), count - 1);
                latency.record(max_ns);
            }
            (count, None) => {
                latency.record_many(ns(from), count);
                note("the maximum is not stated, and samples lie beyond the buckets");
            }
        }
        if latency.count() > 0 {
            let (lowest, highest) = (latency.min_ns(), latency.max_ns());
            // A bucket of several units holds values up to its last one.
            let reach = self.last().map(|last| last.saturating_add(self.width - 1));
            let reach = reach.map_or(highest, |reach| ns(reach).max(highest));
            let (min_ns, max_ns) = (self.min.map_or(lowest, ns), stated_max_ns.unwrap_or(reach));
            let is_below = max_ns < highest;
            if is_below || (overflow == 0 && ends.is_some_and(|end| max_ns >= ns(end))) {
                note("its maximum contradicts its buckets");
            }
            if min_ns >= lowest.saturating_add(ns(self.width)) {
                note("its minimum contradicts its buckets");
            }
            if self.min.zip(self.max).is_some_and(|(min, max)| min > max) {
                note("its minimum is above its maximum");
            }
            // A bucket above it ends where it would without one.
            let max_ns = if is_below { reach } else { max_ns };
            // A bucket of several units begins below the smallest sample in it.
            latency.set_extremes(if self.min.is_some() { min_ns.min(max_ns) } else { lowest }, max_ns);
        }
        let stated_mean = self.avg.filter(|avg| avg.is_finite() && *avg >= 0.0);
        if let Some(avg) = stated_mean {
            latency.set_sum((avg * self.unit_ns as f64 * latency.count() as f64).round() as u128);
        }
        let [below_ns, above_ns] = digits.apart_ns(self.unit_ns);
        let coarse = Coarse {
            resolution_ns: ns(self.width),
            unit_ns: self.unit_ns,
            below_ns,
            above_ns,
            overflow_from_ns: (overflow > 0 || self.overflow_from.is_some()).then(|| ns(from)),
            overflow_count: overflow,
            mean_known: stated_mean.is_some() || (overflow <= 1 && self.width == 1),
            min_known: self.min.is_some() || overflow == 0 || (self.unplaced == 0 && ends.is_some()),
            max_known: self.max.is_some() || overflow == 0,
            count_known: !self.counts_no_samples,
            missed_known: true,
            missed: self.missed,
        };
        (latency, coarse)
    }
}

/// Everything found in a file.
#[derive(Debug, Clone)]
pub(super) struct ImportedFile {
    pub manifest: Manifest,
    pub columns: Vec<ImportedSeries>,
    pub missing: Vec<String>,
    /// The digits that its figures have.
    pub digits: Digits,
    /// The load, where the file states it.
    pub load: Option<String>,
    /// Whether the file says which CPU a column is; otherwise its number is the thread's.
    pub cpus_known: bool,
    /// Whether the tool passes over missed periods without counting them.
    pub skips_missed: bool,
}

impl ImportedFile {
    /// Nothing yet but the tool that measured.
    pub fn by(program: &str) -> ImportedFile {
        let asked = Asked { loads: vec![UNKNOWN_LOAD.to_string()], ..Asked::default() };
        let manifest = Manifest::new(program, asked);
        let (columns, missing) = (Vec::new(), Vec::new());
        ImportedFile {
            manifest,
            columns,
            missing,
            digits: Digits::All,
            load: None,
            cpus_known: true,
            skips_missed: false,
        }
    }

    /// The tool that measured.
    pub fn program(&self) -> String {
        self.manifest.written_by.program.clone()
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.manifest.notes.push(text.into());
    }

    /// Adds something that the file should hold and does not.
    pub fn lacks(&mut self, text: impl Into<String>) {
        self.missing.push(text.into());
    }

    /// States the largest sample of all columns of a kind, where none of them may have it.
    pub fn state_max_of_all(&mut self, kind: RowKind, max: u64) {
        let of_it = self.columns.iter_mut().filter(|column| column.probe.kind == kind);
        let why = match of_it.max_by_key(|column| column.max) {
            Some(column) if column.max.is_some_and(|reached| reached >= max) => return,
            Some(column) => {
                column.state_max(max);
                "and none reaches it"
            }
            None => "and has none",
        };
        let probe = kind.name();
        self.lacks(format!("the file states a maximum of {max} for all rows of {probe}, {why}"));
    }

    /// Notes that the end of the text cannot be told.
    pub fn unmarked(&mut self) {
        let program = self.program();
        self.note(format!("nothing marks the end of {program}'s text: whether it is whole cannot be told"));
    }

    /// Notes that no sample but the extremes is known.
    pub fn extremes_alone(&mut self) {
        self.note("the file holds no histogram: only minimum, mean and maximum are known");
    }

    /// Adds a taint.
    pub fn taint(&mut self, code: &'static str, reason: String, cure: &str, cpu: Option<u32>) {
        self.manifest.taints.push(Taint { cpu, ..Taint::new(code, reason, cure) });
    }

    /// Adds a row that was not run.
    pub fn not_run(&mut self, probe: impl ToString, reason: String) {
        let (probe, load) = (probe.to_string(), UNKNOWN_LOAD.to_string());
        self.manifest.not_run.push(NotRun { probe, load, reason, optional: false });
    }

    /// How long the tool was told to run.
    pub fn ran_s(&mut self, seconds: Option<u64>) {
        self.manifest.asked.duration_ns = seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000));
    }

    /// The policy and priority that were asked; a taint where they are not real-time ones.
    pub fn scheduled(&mut self, policy: Option<&str>, priority: Option<u64>) {
        let asked = &mut self.manifest.asked;
        asked.policy = policy.map(str::to_string);
        asked.priority = priority.and_then(|p| u32::try_from(p).ok()).filter(|p| *p > 0);
        if let Some(policy) = policy.filter(|policy| matches!(*policy, "other" | "batch" | "idle")) {
            let (program, policy) = (self.program(), policy.to_uppercase());
            let reason = format!("{program} ran as SCHED_{policy}, without a real-time priority");
            self.taint(taint::NOT_REAL_TIME_POLICY, reason, "measure again with a real-time priority", None);
        }
    }

    /// The same for an option that makes the policy FIFO.
    pub fn scheduled_fifo(&mut self, priority: Option<u64>) {
        let priority = priority.filter(|priority| *priority > 0);
        self.scheduled(Some(if priority.is_some() { "fifo" } else { "other" }), priority);
    }

    /// The same for threads with a priority each: only one that all share is what was asked.
    pub fn share_priority(&mut self, mut priorities: impl Iterator<Item = u64>, policy: Option<&str>) {
        let Some(first) = priorities.next() else { return };
        if priorities.all(|priority| priority == first) {
            let policy = policy.filter(|policy| first > 0 || !matches!(*policy, "fifo" | "rr"));
            self.scheduled(policy.or((first == 0).then_some("other")), Some(first));
        }
    }

    /// The bundle; an error where there is no column.
    pub fn into_bundle(mut self) -> Result<Bundle, String> {
        if self.columns.is_empty() && self.manifest.not_run.is_empty() {
            return Err("it holds no result".into());
        }
        let program = self.program();
        if !self.cpus_known {
            self.note(format!(
                "{program} numbers threads here: the CPU of each is not stated; the thread number is used instead"
            ));
        }
        if self.skips_missed && self.columns.iter().any(|column| column.period_ns.is_none()) {
            self.note(format!(
                "{program} skips missed periods without counting them, and this file does not say the period: \
                 a latency above it hides some"
            ));
        }
        let mut rows: Vec<Row> = Vec::new();
        let mut known = HashMap::new();
        for column in std::mem::take(&mut self.columns) {
            if column.samples() == 0 && !column.probe.kind.is_above_threshold_only() {
                let reason = match column.thread {
                    Some(thread) => format!("the file has no sample of thread {thread}: it never woke up"),
                    None => format!("the file has no sample of cpu {}", column.cpu),
                };
                self.not_run(column.probe, reason);
                continue;
            }
            let missed_known = !self.hidden_by(&column);
            let (latency, coarse) = column.latency(self.digits, &mut self.missing);
            let coarse = Coarse { missed_known, ..coarse };
            let key = RowKey::new(&column.probe.to_string(), UNKNOWN_LOAD, column.cpu, column.period_ns);
            if let Some(place) = known.get(&key) {
                let row: &mut Row = &mut rows[*place];
                row.series.latency.merge(&latency);
                join(&mut row.entry.coarse, coarse);
                self.note(format!("{key}: several threads are one row"));
            } else {
                known.insert(key.clone(), rows.len());
                let entry = RowEntry { coarse: Some(coarse), ..RowEntry::new(key) };
                rows.push(Row::new(entry, Series { latency, ..Series::default() }));
            }
        }
        let asked = &mut self.manifest.asked;
        let mut periods = HashSet::new();
        for RowKey { probe, cpu, period_ns, .. } in rows.iter().map(|row| &row.entry.key) {
            if !asked.probes.contains(probe) {
                asked.probes.push(probe.clone());
            }
            asked.periods_ns.extend(period_ns.filter(|ns| periods.insert(*ns)));
            if self.cpus_known {
                asked.cpus.insert(*cpu);
            }
        }
        self.manifest.rows = rows.iter().map(|row| row.entry.clone()).collect();
        let kernel = &self.manifest.machine.kernel;
        if kernel.preemption != Preemption::Unknown {
            self.manifest.taints.extend(fact::of_kernel(kernel));
        }
        self.manifest.taints.extend(fact::unknown(&self.manifest));
        let (manifest, missing) = (self.manifest, self.missing);
        let mut bundle =
            Bundle { path: PathBuf::new(), manifest, rows, spikes: Vec::new(), lab: None, missing };
        self.load.iter().for_each(|load| super::set_load(&mut bundle, load));
        Ok(bundle)
    }

    /// Says what the source hides about a column: overflow, and periods that were missed and not counted;
    /// whether there are such periods.
    fn hidden_by(&mut self, column: &ImportedSeries) -> bool {
        let ImportedSeries { probe, cpu, overflow, .. } = column;
        if *overflow > 0 {
            let lie = if *overflow == 1 { "sample lies" } else { "samples lie" };
            self.note(format!(
                "{probe} on cpu {cpu}: {overflow} {lie} beyond the buckets, of which only the largest is known; \
                 percentiles there are unknown"
            ));
        }
        let max_ns = column.max.unwrap_or(0).saturating_mul(column.unit_ns);
        let skips = self.skips_missed && column.period_ns.is_some_and(|period_ns| max_ns >= period_ns);
        if skips {
            let program = self.program();
            let reason = format!(
                "{probe} on cpu {cpu}: {program} skips missed periods without counting them, and a sample was \
                 later than a period"
            );
            let cure = "measure with isolator measure wakeup, which counts them";
            self.taint(taint::MISSED_PERIODS_UNCOUNTED, reason, cure, self.cpus_known.then_some(*cpu));
        }
        skips
    }
}

fn join(coarse: &mut Option<Coarse>, other: Coarse) {
    if let Some(coarse) = coarse {
        let from = [coarse.overflow_from_ns, other.overflow_from_ns].into_iter().flatten().min();
        coarse.resolution_ns = coarse.resolution_ns.max(other.resolution_ns);
        coarse.unit_ns = coarse.unit_ns.min(other.unit_ns);
        coarse.below_ns = coarse.below_ns.max(other.below_ns);
        coarse.above_ns = coarse.above_ns.max(other.above_ns);
        coarse.mean_known &= other.mean_known;
        coarse.min_known &= other.min_known;
        coarse.max_known &= other.max_known;
        coarse.count_known &= other.count_known;
        coarse.missed_known &= other.missed_known;
        coarse.overflow_from_ns = from;
        coarse.overflow_count = coarse.overflow_count.saturating_add(other.overflow_count);
        coarse.missed = coarse.missed.saturating_add(other.missed);
    }
}

/// The kernel of a line of `uname`, as the tools hand it on.
pub(super) fn kernel(release: Option<String>, version: Option<String>, realtime: bool) -> Kernel {
    let says = |word: &str| version.as_deref().is_some_and(|version| version.contains(word));
    // Mainline PREEMPT_RT may lack /sys/kernel/realtime, so a zero there says nothing.
    let known = [
        ("PREEMPT_RT", Preemption::RealTime),
        ("PREEMPT RT", Preemption::RealTime),
        ("PREEMPT_DYNAMIC", Preemption::Dynamic),
        ("PREEMPT_LAZY", Preemption::Lazy),
        ("PREEMPT", Preemption::Full),
    ];
    let said = known.into_iter().find(|(word, _)| says(word)).map_or(Preemption::Unknown, |known| known.1);
    let preemption = if realtime { Preemption::RealTime } else { said };
    Kernel { release, version, preemption, ..Kernel::default() }
}

/// CPUs in the kernel's list syntax; `None` where it is something else.
pub(super) fn cpus(text: &str) -> Option<CpuSet> {
    text.parse::<CpuSet>().ok().filter(|cpus| !cpus.is_empty())
}
