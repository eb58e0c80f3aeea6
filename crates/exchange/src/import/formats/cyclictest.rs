// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that cyclictest prints: histograms, samples (`-v`) and summary lines.
//!
//! A bucket `N` counts latencies of N us up to below N + 1. The text does not say whether `-N` made them
//! nanoseconds, so microseconds are taken unless the caller tells, and that is noted. `# Total:` counts the
//! buckets alone, without the overflows; `-H` adds a column with the sum of all threads. cyclictest skips
//! periods it has missed without counting them; which CPU a thread ran on only `-v` says.

use std::collections::{BTreeMap, BTreeSet};

use super::threads::{SampleLines, ThreadLine, ThreadTool, Threads, sample};
use crate::import::command::{Syntax, ToolCommand};
use crate::import::figures::once;
use crate::import::scan::prelude::*;
use crate::import::table::Table;
use crate::import::text::is_row;

const NO_STOP: Says = Says::NoLine(Stops, "its break value says so");
const NO_LOSS: Says = Says::NoLine(Losses, "cycles that -v does not list are found by their numbers");

pub(in crate::import) const HISTOGRAM: Description = Description {
    lacks: &[Lack::Unit, Lack::Cpus, Lack::MissedPeriods],
    half_line: |line| match ThreadLine::read(line) {
        // A maximum that fills its eight columns is whole.
        Some(_) if line.rsplit_once("Max:").is_some_and(|(_, max)| max.len() >= 8) => Half::Whole,
        Some(_) => Half::Doubtful,
        None if line.starts_with("# Thread ") && line.ends_with(':') => Half::Whole,
        None if line.starts_with("# Histogram Overflow at") => Half::Whole,
        None => Half::Dropped,
    },
    says: &[
        BREAK,
        FAILURES,
        DOUBTS,
        NO_STOP,
        NO_LOSS,
        Says::NoLine(Totals, "# Total: counts the buckets, # Histogram Overflows: the others"),
    ],
    ..Description::of(
        "cyclictest histogram",
        "cyclictest",
        Told::Lines(mark_of_histogram),
        Digits::OfCutTimes,
        read_histogram,
    )
};

pub(in crate::import) const SAMPLES: Description = Description {
    name: "cyclictest -v",
    told: Told::Lines(|line| match sample(line) {
        Some((_, cycle, _)) => Some(Mark::Kind((cycle % 255) as u8)),
        None => line.starts_with("Thread 0 Interval:").then_some(Mark::Kind(255)),
    }),
    lacks: &[Lack::Unit, Lack::Cpus, Lack::MissedPeriods, Lack::End],
    says: &[BREAK, FAILURES, DOUBTS, NO_STOP, NO_LOSS, Says::NoLine(Totals, "a line is a sample")],
    read: read_samples,
    ..HISTOGRAM
};

pub(in crate::import) const SUMMARY: Description = Description {
    name: "cyclictest summary",
    told: Told::Lines(|line| (ThreadTool::of(line)? == ThreadTool::Cyclictest).then_some(Mark::Sure)),
    lacks: &[Lack::Unit, Lack::Cpus, Lack::Distribution, Lack::MissedPeriods, Lack::End],
    says: &[BREAK, FAILURES, DOUBTS, NO_STOP, NO_LOSS, Says::NoLine(Totals, "C: of a thread's line")],
    read: read_summary,
    ..HISTOGRAM
};

fn mark_of_histogram(line: &str) -> Option<Mark> {
    let mut words = line.split_whitespace();
    let mut is_count = || words.next().is_some_and(|word| word.len() >= 6 && plain_number(word).is_some());
    let is_bucket = is_count() && is_count();
    Mark::beginning(line, &["# Histogram", MIN, AVG, MAX, TOTAL]).or(is_bucket.then_some(Mark::Kind(9)))
}

const TOTAL: &str = "# Total:";
const MIN: &str = "# Min Latencies:";
const AVG: &str = "# Avg Latencies:";
const MAX: &str = "# Max Latencies:";
const OVERFLOWS: &str = "# Histogram Overflows:";
const FIGURES: [&str; 5] = [TOTAL, MIN, AVG, MAX, OVERFLOWS];

/// cyclictest's options: `y` stands for `--policy`, which has no letter.
pub(in crate::import) const SYNTAX: Syntax = Syntax {
    letters: "a::A:b:c:d:D:F:h:H:i:l:mMNo:p:qQrRsSt::uvxy:e:",
    names: &[
        ("breaktrace", 'b'),
        ("distance", 'd'),
        ("duration", 'D'),
        ("histogram", 'h'),
        ("histofall", 'H'),
        ("interval", 'i'),
        ("latency", 'e'),
        ("loops", 'l'),
        ("policy", 'y'),
        ("priority", 'p'),
    ],
};

/// The period of thread `number`: each thread's is longer by the distance, which a histogram sets to zero.
pub(in crate::import) fn period_ns(command: &ToolCommand, number: u32) -> Option<u64> {
    let distance = if command.has('h') || command.has('H') { 0 } else { command.number_or('d', 500)? };
    let us = distance.checked_mul(u64::from(number))?.checked_add(command.number_or('i', 1_000)?)?;
    us.checked_mul(1_000).filter(|ns| *ns > 0)
}

/// The request of a command line.
pub(in crate::import) fn asked(found: &mut ImportedFile, command: &ToolCommand) {
    let asked = &mut found.manifest.asked;
    asked.loops = command.number('l').filter(|loops| *loops > 0);
    asked.dma_latency_us = command.number('e').and_then(|us| us.try_into().ok());
    if command.has('b') {
        found.note("cyclictest was told (-b) to end at the first latency above a threshold");
    }
    let policy = command.argument('y').map(|policy| if policy == "normal" { "other" } else { policy });
    match (command.has('p'), command.number('p')) {
        // Like the tool: a priority makes the policy FIFO unless it is RR.
        (true, Some(priority @ 1..)) => {
            found.scheduled(policy.filter(|policy| *policy == "rr").or(Some("fifo")), Some(priority));
        }
        (true, None) => {}
        _ => found.scheduled(policy.or(Some("other")), None),
    }
}

/// `Thread 0 using cpu 1.`
fn thread_and_cpu(line: &str) -> Option<(u32, u32)> {
    let (thread, cpu) =
        line.strip_prefix("Thread ")?.trim_end().strip_suffix('.')?.split_once(" using cpu ")?;
    Some((thread.parse().ok()?, cpu.parse().ok()?))
}

/// Whether a line that cannot be read should be a sample.
fn resembles_sample(line: &str) -> bool {
    let fields = line.split(':').map(str::trim).collect::<Vec<_>>();
    let [thread, cycle, _] = fields.as_slice() else { return is_row(line) };
    let is_number = |text: &str| !text.is_empty() && plain_number(text).is_some();
    is_number(thread) && is_number(cycle) || is_row(line)
}

/// All that the text holds beside its table or samples.
#[derive(Default)]
struct Around<'a> {
    threads: Threads,
    /// Thread to CPU.
    cpus: BTreeMap<u32, u32>,
    /// Ids of the threads in their order.
    tids: Vec<u64>,
    policy: Option<&'a str>,
    dma_latency: Option<&'a str>,
    /// Nanoseconds of one unit of the figures, as the caller tells it.
    unit_ns: Option<u64>,
}

impl<'a> Around<'a> {
    /// Takes a line; an error where it should be a row and is none, or belongs to another run.
    fn take(&mut self, line: &Line<'a>) -> Result<(), String> {
        let text = line.text;
        if self.threads.take(ThreadTool::Cyclictest, line)? {
        } else if let Some((_, policy)) = text.split_once("policy: ") {
            self.policy = policy.split(':').next();
        } else if let Some((_, latency)) = text.split_once("/dev/cpu_dma_latency set to ") {
            once(&mut self.dma_latency, latency.trim())?;
        } else if let Some((thread, cpu)) = thread_and_cpu(text) {
            second_run_if(self.cpus.insert(thread, cpu).is_some())?;
        } else if let Some(tids) = text.strip_prefix("# Thread Ids:") {
            self.tids = tids.split_whitespace().map_while(plain_number).collect();
        }
        Ok(())
    }

    fn column(&self, thread: u32) -> ImportedSeries {
        let line = self.threads.0.get(&thread);
        let cpu = self.cpus.get(&thread).copied().unwrap_or(thread);
        let column = ImportedSeries {
            thread: Some(thread),
            tid: line.map(|line| line.tid).or(self.tids.get(thread as usize).copied()),
            ..ImportedSeries::new(RowKind::Wakeup, cpu, self.unit_ns.unwrap_or(1_000))
        };
        column.each_us(line.and_then(|line| line.interval_us).unwrap_or(0))
    }

    /// Ends the reading: what the text states beside its table or samples counts where it is worse.
    fn settle(self, found: &mut ImportedFile) {
        for column in &mut found.columns {
            if let Some(max) = column.thread.and_then(|thread| self.threads.0.get(&thread)?.screen.max) {
                column.state_max(max);
            }
        }
        let threads = found.columns.iter().filter_map(|column| column.thread).collect::<BTreeSet<_>>();
        let last = self.cpus.keys().chain(&threads).max().copied().unwrap_or(0);
        let absent = gaps(&threads, last);
        if !absent.is_empty() {
            found.not_run(RowKind::Wakeup.name(), format!("the file has no sample of threads {absent}"));
        }
        if self.unit_ns.is_none() {
            found.note(
                "cyclictest's text does not say whether -N made its figures nanoseconds: taken as microseconds",
            );
            let first = |column: &ImportedSeries| column.buckets.first().map(|bucket| bucket.0);
            let lowest = found.columns.iter().filter_map(|column| column.min.or(first(column))).min();
            // No thread always wakes up a millisecond late.
            if lowest.is_some_and(|lowest| lowest >= 1_000) {
                found.note("every latency is above 1000, as nanoseconds are: import it with --unit ns if so");
            }
        }
        let us = self.dma_latency.and_then(|latency| latency.strip_suffix("us"));
        found.manifest.asked.dma_latency_us = us.and_then(|us| us.parse().ok());
        let known = ["fifo", "rr", "other", "batch", "idle"];
        self.threads.priority(self.policy.filter(|policy| known.contains(policy)), found);
    }
}

/// Reads `-h`, `-H` or `--histfile`.
fn read_histogram(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let mut table = Table::default();
    let mut around = Around { unit_ns: scan.unit_ns, ..Around::default() };
    while let Some(line) = scan.next()? {
        let named = |name: &&'static str| Some((*name, line.text.strip_prefix(name)?));
        if let Some((name, rest)) = FIGURES.iter().find_map(named) {
            rest.split_whitespace().try_for_each(|word| line.number(word).map(|_| ()))?;
            table.figures(name, rest.split_whitespace())?;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) && !line.contains(':') || is_row(&line) {
            let mut words = line.text.split_whitespace();
            let label = line.number(words.next().unwrap_or_default())?;
            table.row(&line, label, words)?;
        } else {
            around.take(&line)?;
        }
    }
    let width = table.width();
    table.check_width(width)?;
    // Of the figures below the table, these two never have a column for the sum.
    let threads = [MIN, AVG].iter().find_map(|name| table.cells(name)).map(<[&str]>::len);
    let threads = threads.unwrap_or_else(|| match table.cells(MAX).or_else(|| table.cells(OVERFLOWS)) {
        // Neither is there where an export does not know them.
        Some(each) if table.rows.is_empty() => each.len(),
        _ if ends_in_sum(&table) => width - 1,
        _ => width,
    });
    if !table.rows.is_empty() && !(threads..=threads + 1).contains(&width) {
        return Err(format!("its table has {width} columns for {threads} threads"));
    }
    let more = |name: &&&str| table.cells(name).is_some_and(|words| words.len() > threads + 1);
    if let Some(name) = FIGURES.iter().find(more) {
        return Err(format!("'{name}' has figures of more than {threads} threads"));
    }
    // The maxima come after the minima: an export may leave those out.
    let required = if table.cells(MIN).is_none() && table.cells(MAX).is_some() { 1.. } else { 0.. };
    table.require(&[MIN, MAX, OVERFLOWS][required], threads..=threads + 1, found);
    for thread in 0..threads {
        let mut column = around.column(thread as u32);
        column.buckets = table.buckets(thread);
        column.overflow = table.number(OVERFLOWS, thread).unwrap_or(0);
        column.overflow_from = table.rows.last_key_value().map(|row| row.0.saturating_add(1));
        // The total leaves the overflows out.
        let (total, listed) = (table.number(TOTAL, thread), column.listed());
        if table.rows.is_empty() {
            let cycles = around.threads.0.get(&(thread as u32)).map(|line| line.screen.cycles);
            column.unplaced = total.or(cycles).unwrap_or(0);
        } else if let Some(total) = total.filter(|total| *total != listed) {
            column.unplaced = total.saturating_sub(listed);
            found.lacks(format!("thread {thread}: the table holds {listed} samples, its total says {total}"));
        }
        if column.samples() > 0 {
            column.min = table.number(MIN, thread);
            column.avg = table.number(AVG, thread).map(|avg| avg as f64);
            column.max = table.number(MAX, thread);
        }
        found.columns.push(column);
    }
    if table.rows.is_empty() {
        found.extremes_alone();
    }
    around.settle(found);
    Ok(())
}

/// Reads `-v`.
fn read_samples(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let mut samples = SampleLines::default();
    let mut around = Around { unit_ns: scan.unit_ns, ..Around::default() };
    while let Some(line) = scan.next()? {
        if samples.take(&line)? {
        } else if resembles_sample(&line) {
            return Err(line.unreadable());
        } else {
            around.take(&line)?;
        }
    }
    let is_told = |thread| around.cpus.contains_key(thread);
    found.cpus_known = !samples.0.is_empty() && samples.0.keys().all(is_told);
    for (thread, samples) in samples.0 {
        let absent = (samples.last - samples.first).saturating_add(1).saturating_sub(samples.count);
        if absent > 0 {
            found.lacks(format!("thread {thread}: {absent} cycles are not in the file (-o, or lost)"));
        }
        let mut column = around.column(thread);
        column.min = samples.buckets.keys().next().copied();
        column.max = samples.buckets.keys().next_back().copied();
        column.buckets = samples.buckets.into_iter().collect();
        found.columns.push(column);
    }
    around.settle(found);
    Ok(())
}

/// Reads `T:` lines without a histogram.
fn read_summary(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let mut around = Around { unit_ns: scan.unit_ns, ..Around::default() };
    while let Some(line) = scan.next()? {
        around.take(&line)?;
    }
    for (thread, line) in &around.threads.0 {
        let column = around.column(*thread).screen(&line.screen);
        found.columns.push(ImportedSeries { overflow: 0, unplaced: line.screen.cycles, ..column });
    }
    around.settle(found);
    Ok(())
}

/// The numbers up to `last` that are not there, in the kernel's list syntax.
fn gaps(there: &BTreeSet<u32>, last: u32) -> String {
    let (mut gaps, mut next) = (Vec::new(), 0);
    for end in there.iter().map(|number| u64::from(*number)).chain([u64::from(last) + 1]) {
        match end.saturating_sub(next) {
            0 => {}
            1 => gaps.push(next.to_string()),
            _ => gaps.push(format!("{next}-{}", end - 1)),
        }
        next = end + 1;
    }
    gaps.join(",")
}

/// Whether the last of at least three columns is the sum of the others, as `-H` writes it.
fn ends_in_sum(table: &Table) -> bool {
    let is_sum = |row: &Vec<u64>| match row.split_last() {
        Some((last, others)) if others.len() > 1 => {
            others.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)) == Some(*last)
        }
        _ => false,
    };
    !table.rows.is_empty() && table.rows.values().all(is_sum)
}
