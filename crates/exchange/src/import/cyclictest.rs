// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that cyclictest prints: histograms, samples (`-v`) and summary lines.
//!
//! A bucket `N` counts latencies of N us up to below N + 1. The text does not say whether `-N` made them
//! nanoseconds, so microseconds are taken unless the caller tells, and that is noted. `# Total:` counts the
//! buckets alone, without the overflows; `-H` adds a column with the sum of all threads. cyclictest skips
//! periods it has missed without counting them; which CPU a thread ran on only `-v` says.

use std::collections::{BTreeMap, BTreeSet};

use super::column::{ImportedFile, ImportedSeries, Rounding};
use super::command::{Syntax, ToolCommand};
use super::figures::{once, second_run};
use super::scan::format::{Answer, Cpus, Description, End, Half, Mark, Missed, StatedSamples, Told, Unit};
use super::scan::{Line, Scan, plain_number};
use super::table::Table;
use super::text::is_row;
use super::threads::{self, SampleLines, ThreadLine, ThreadTool, Threads, sample};

pub(super) const HISTOGRAM: Description = Description {
    name: "cyclictest histogram",
    program: "cyclictest",
    told: Told::Lines(|line| {
        let mut words = line.split_whitespace();
        let mut is_count =
            || words.next().is_some_and(|word| word.len() >= 6 && plain_number(word).is_some());
        let is_bucket = is_count() && is_count();
        Mark::beginning(line, &["# Histogram", MIN, AVG, MAX, TOTAL]).or(is_bucket.then_some(Mark::Kind(9)))
    }),
    parts: &["cyclictest summary", "cyclictest -v"],
    unit: Unit::Untold,
    rounding: Rounding::Cut,
    cpus: Cpus::Threads,
    samples: StatedSamples::Distribution,
    totals: Answer::Field("# Total: counts the buckets, # Histogram Overflows: the others"),
    missed: Missed::Skipped,
    end: End::Marked,
    half_line: |line| match ThreadLine::read(line) {
        // A maximum that fills its eight columns is whole.
        Some(_) if line.rsplit_once("Max:").is_some_and(|(_, max)| max.len() >= 8) => Half::Whole,
        Some(_) => Half::Doubtful,
        None if line.starts_with("# Thread ") && line.ends_with(':') => Half::Whole,
        None if line.starts_with("# Histogram Overflow at") => Half::Whole,
        None => Half::Dropped,
    },
    worse: threads::BREAK,
    stops: Answer::Never("its break value says so"),
    aborts: threads::FAILURES,
    losses: Answer::Never("cycles that -v does not list are found by their numbers"),
    doubts: threads::DOUBTS,
    read: read_histogram,
};

pub(super) const SAMPLES: Description = Description {
    name: "cyclictest -v",
    told: Told::Lines(|line| match sample(line) {
        Some((_, cycle, _)) => Some(Mark::Kind((cycle % 255) as u8)),
        None => line.starts_with("Thread 0 Interval:").then_some(Mark::Kind(255)),
    }),
    parts: &["cyclictest summary"],
    totals: Answer::Never("a line is a sample"),
    end: End::Unmarked,
    read: read_samples,
    ..HISTOGRAM
};

pub(super) const SUMMARY: Description = Description {
    name: "cyclictest summary",
    told: Told::Lines(|line| (ThreadTool::of(line)? == ThreadTool::Cyclictest).then_some(Mark::Sure)),
    parts: &[],
    samples: StatedSamples::Extremes,
    totals: Answer::Field("C: of a thread's line"),
    end: End::Unmarked,
    read: read_summary,
    ..HISTOGRAM
};

const TOTAL: &str = "# Total:";
const MIN: &str = "# Min Latencies:";
const AVG: &str = "# Avg Latencies:";
const MAX: &str = "# Max Latencies:";
const OVERFLOWS: &str = "# Histogram Overflows:";

/// cyclictest's options: `y` stands for `--policy`, which has no letter.
pub(super) const SYNTAX: Syntax = Syntax {
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
pub(super) fn period_ns(command: &ToolCommand, number: u32) -> Option<u64> {
    let given = |letter, default| if command.has(letter) { command.number(letter) } else { Some(default) };
    let distance = if command.has('h') || command.has('H') { 0 } else { given('d', 500)? };
    let us = distance.checked_mul(u64::from(number))?.checked_add(given('i', 1_000)?)?;
    us.checked_mul(1_000).filter(|ns| *ns > 0)
}

/// The request of a command line.
pub(super) fn asked(found: &mut ImportedFile, command: &ToolCommand) {
    let asked = &mut found.manifest.asked;
    asked.loops = command.number('l').filter(|loops| *loops > 0);
    asked.dma_latency_us = command.number('e').and_then(|us| us.try_into().ok());
    if command.has('b') {
        found.note("cyclictest was told (-b) to end at the first latency above a threshold");
    }
    let policy = match command.argument('y') {
        Some("normal") => Some("other"),
        policy => policy,
    };
    match (command.has('p'), command.number('p'), policy) {
        // Like the tool: a priority makes the policy FIFO unless it is RR.
        (true, Some(1..), Some("rr")) => found.scheduled(Some("rr"), command.number('p')),
        (true, Some(1..), _) => found.scheduled(Some("fifo"), command.number('p')),
        (true, None, _) => {}
        (_, _, policy) => found.scheduled(policy.or(Some("other")), None),
    }
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
        } else if let Some((thread, cpu)) = text
            .strip_prefix("Thread ")
            .and_then(|line| line.trim_end().strip_suffix('.'))
            .and_then(|line| line.split_once(" using cpu "))
            && let (Ok(thread), Ok(cpu)) = (thread.parse(), cpu.parse())
        {
            if self.cpus.insert(thread, cpu).is_some() {
                return second_run();
            }
        } else if let Some(tids) = text.strip_prefix("# Thread Ids:") {
            self.tids = tids.split_whitespace().map_while(plain_number).collect();
        }
        Ok(())
    }

    fn column(&self, thread: u32) -> ImportedSeries {
        let line = self.threads.lines.get(&thread);
        let column = ImportedSeries {
            probe: "wakeup",
            cpu: self.cpus.get(&thread).copied().unwrap_or(thread),
            unit_ns: self.unit_ns.unwrap_or(1_000),
            width: 1,
            thread: Some(thread),
            tid: line.map(|line| line.tid).or(self.tids.get(thread as usize).copied()),
            ..ImportedSeries::default()
        };
        column.each_us(line.and_then(|line| line.interval_us).unwrap_or(0))
    }

    /// Ends the reading: what the text states beside its table or samples counts where it is worse.
    fn into(self, mut found: ImportedFile) -> ImportedFile {
        for column in &mut found.columns {
            let screen = column.thread.and_then(|thread| self.threads.screens.0.get(&thread));
            if let Some(max) = screen.and_then(|screen| screen.max) {
                column.state_max(max);
            }
        }
        let threads = found.columns.iter().filter_map(|column| column.thread).collect::<BTreeSet<_>>();
        let last = self.cpus.keys().chain(&threads).max().copied().unwrap_or(0);
        let absent = gaps(&threads, last);
        if !absent.is_empty() {
            found.not_run("wakeup", format!("the file has no sample of threads {absent}"));
        }
        if self.unit_ns.is_none() {
            found.note(
                "cyclictest's text does not say whether -N made its figures nanoseconds: taken as microseconds",
            );
            let lowest =
                |column: &ImportedSeries| column.min.or(column.buckets.first().map(|bucket| bucket.0));
            // No thread always wakes up a millisecond late.
            if found.columns.iter().filter_map(lowest).min().is_some_and(|lowest| lowest >= 1_000) {
                found.note("every latency is above 1000, as nanoseconds are: import it with --unit ns if so");
            }
        }
        let us = self.dma_latency.and_then(|latency| latency.strip_suffix("us"));
        found.manifest.asked.dma_latency_us = us.and_then(|us| us.parse().ok());
        let known =
            self.policy.filter(|policy| matches!(*policy, "fifo" | "rr" | "other" | "batch" | "idle"));
        self.threads.priority(known, &mut found);
        found
    }
}

/// Reads `-h`, `-H` or `--histfile`.
fn read_histogram(scan: &mut Scan) -> Result<ImportedFile, String> {
    let (mut found, mut table) = (scan.file(), Table::default());
    let mut around = Around { unit_ns: scan.unit_ns, ..Around::default() };
    while let Some(line) = scan.next()? {
        let named = [TOTAL, MIN, AVG, MAX, OVERFLOWS].into_iter();
        if let Some((name, rest)) =
            named.filter_map(|name| Some((name, line.text.strip_prefix(name)?))).next()
        {
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
    let threads = threads.unwrap_or_else(|| match table.cells(MAX) {
        // Neither is there where an export does not know them.
        Some(max) if table.rows.is_empty() => max.len(),
        _ if ends_in_sum(&table) => width - 1,
        _ => width,
    });
    if !table.rows.is_empty() && !(threads..=threads + 1).contains(&width) {
        return Err(format!("its table has {width} columns for {threads} threads"));
    }
    let more = |name: &&&str| table.cells(name).is_some_and(|words| words.len() > threads + 1);
    if let Some(name) = [TOTAL, MIN, AVG, MAX, OVERFLOWS].iter().find(more) {
        return Err(format!("'{name}' has figures of more than {threads} threads"));
    }
    // The maxima come after the minima: an export may leave those out.
    let required = if table.cells(MIN).is_none() && table.cells(MAX).is_some() { 1.. } else { 0.. };
    table.require(&[MIN, MAX, OVERFLOWS][required], threads..=threads + 1, &mut found.missing);
    for thread in 0..threads {
        let mut column = around.column(thread as u32);
        if !table.rows.is_empty() {
            column.buckets = table.buckets(thread);
        }
        column.overflow = table.number(OVERFLOWS, thread).unwrap_or(0);
        column.overflow_from = table.rows.last_key_value().map(|row| row.0.saturating_add(1));
        // The total leaves the overflows out.
        let total = table.number(TOTAL, thread);
        if table.rows.is_empty() {
            let cycles = around.threads.screens.0.get(&(thread as u32)).map(|screen| screen.cycles);
            column.unplaced = total.or(cycles).unwrap_or(0);
        } else if let Some(total) = total.filter(|total| *total != column.listed()) {
            let listed = column.listed();
            column.unplaced = total.saturating_sub(listed);
            found
                .missing
                .push(format!("thread {thread}: the table holds {listed} samples, its total says {total}"));
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
    Ok(around.into(found))
}

/// Reads `-v`.
fn read_samples(scan: &mut Scan) -> Result<ImportedFile, String> {
    let (mut found, mut samples) = (scan.file(), SampleLines::default());
    let mut around = Around { unit_ns: scan.unit_ns, ..Around::default() };
    while let Some(line) = scan.next()? {
        if samples.take(&line)? {
        } else if resembles_sample(&line) {
            return Err(line.unreadable());
        } else {
            around.take(&line)?;
        }
    }
    found.cpus_known =
        !samples.0.is_empty() && samples.0.keys().all(|thread| around.cpus.contains_key(thread));
    for (thread, samples) in samples.0 {
        let cycles = (samples.last - samples.first).saturating_add(1);
        if cycles > samples.count {
            let absent = cycles - samples.count;
            found.missing.push(format!("thread {thread}: {absent} cycles are not in the file (-o, or lost)"));
        }
        let mut column = around.column(thread);
        column.min = samples.buckets.keys().next().copied();
        column.max = samples.buckets.keys().next_back().copied();
        column.buckets = samples.buckets.into_iter().collect();
        found.columns.push(column);
    }
    Ok(around.into(found))
}

/// Reads `T:` lines without a histogram.
fn read_summary(scan: &mut Scan) -> Result<ImportedFile, String> {
    let mut found = scan.file();
    let mut around = Around { unit_ns: scan.unit_ns, ..Around::default() };
    while let Some(line) = scan.next()? {
        around.take(&line)?;
    }
    for (thread, screen) in &around.threads.screens.0 {
        let mut column = around.column(*thread);
        column.unplaced = screen.cycles;
        (column.min, column.avg, column.max) = (screen.min, screen.avg, screen.max);
        found.columns.push(column);
    }
    Ok(around.into(found))
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
