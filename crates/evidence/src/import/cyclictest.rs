// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cyclictest prints: histograms, samples (`-v`) and summary lines.
//!
//! A bucket `N` counts latencies of N us up to below N + 1. The text does not say whether `-N` made them
//! nanoseconds, so microseconds are taken unless the caller tells, and that is noted. `# Total:` counts the buckets alone, without the
//! overflows; `-H` adds a column with the sum of all threads. cyclictest skips periods it has missed without
//! counting them; which CPU a thread ran on only `-v` says.

use std::collections::BTreeMap;

use super::column::{Column, Found};
use super::command::{Command, Syntax};
use super::text::whole_lines;

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
pub(super) fn period_ns(command: &Command, number: u32) -> Option<u64> {
    let given = |letter, default| if command.has(letter) { command.number(letter) } else { Some(default) };
    let distance = if command.has('h') || command.has('H') { 0 } else { given('d', 500)? };
    let us = distance.checked_mul(u64::from(number))?.checked_add(given('i', 1_000)?)?;
    us.checked_mul(1_000).filter(|ns| *ns > 0)
}

/// What a command line asks.
pub(super) fn asked(found: &mut Found, command: &Command) {
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

/// A line of `-v`: thread, cycle and latency.
pub(super) fn sample(line: &str) -> Option<(u32, u64, u64)> {
    let mut fields = line.split(':').map(str::trim);
    let fields = (fields.next()?, fields.next()?, fields.next()?, fields.next());
    let (thread, cycle, latency, None) = fields else { return None };
    Some((thread.parse().ok()?, cycle.parse().ok()?, latency.parse().ok()?))
}

/// Figures of one `T:` line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    thread: u32,
    priority: u64,
    interval_us: u64,
    cycles: u64,
    min: u64,
    avg: u64,
    max: u64,
}

/// A line `T: 0 ( 3407) P:99 I:1000 C: 100000 Min: 7 Act: 10 Avg: 10 Max: 18`.
pub(super) fn summary(line: &str) -> Option<Summary> {
    let figures = line.trim_start().strip_prefix("T:")?;
    let (thread, figures) = figures.split_once('(')?;
    let field = |name: &str| -> Option<u64> {
        let (_, rest) = figures.split_once(name)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    Some(Summary {
        thread: thread.trim().parse().ok()?,
        priority: field(" P:")?,
        interval_us: field(" I:")?,
        cycles: field(" C:")?,
        min: field(" Min:")?,
        avg: field(" Avg:")?,
        max: field(" Max:")?,
    })
}

/// All that the text holds beside its table or samples.
#[derive(Default)]
struct Around<'a> {
    /// The last `T:` line of each thread.
    threads: BTreeMap<u32, Summary>,
    /// Thread to CPU.
    cpus: BTreeMap<u32, u32>,
    policy: Option<&'a str>,
    dma_latency_us: Option<u32>,
    /// Nanoseconds of one unit of the figures, as the caller tells it.
    unit_ns: Option<u64>,
}

impl<'a> Around<'a> {
    fn in_unit(unit_ns: Option<u64>) -> Around<'a> {
        Around { unit_ns, ..Around::default() }
    }

    fn take(&mut self, line: &'a str) {
        if let Some(summary) = summary(line) {
            self.threads.insert(summary.thread, summary);
        } else if let Some((_, policy)) = line.split_once("policy: ") {
            self.policy = policy.split(':').next();
        } else if let Some((_, latency)) = line.split_once("/dev/cpu_dma_latency set to ") {
            self.dma_latency_us = latency.trim().strip_suffix("us").and_then(|us| us.parse().ok());
        } else if let Some((thread, cpu)) = line
            .strip_prefix("Thread ")
            .and_then(|line| line.trim_end().strip_suffix('.'))
            .and_then(|line| line.split_once(" using cpu "))
            && let (Ok(thread), Ok(cpu)) = (thread.parse(), cpu.parse())
        {
            self.cpus.insert(thread, cpu);
        }
    }

    fn column(&self, thread: u32) -> Column {
        let summary = self.threads.get(&thread);
        let period_ns = summary.and_then(|s| s.interval_us.checked_mul(1_000)).filter(|ns| *ns > 0);
        let cpu = self.cpus.get(&thread).copied().unwrap_or(thread);
        let unit_ns = self.unit_ns.unwrap_or(1_000);
        Column { probe: "wakeup", cpu, period_ns, unit_ns, width: 1, ..Column::default() }
    }

    /// Ends the reading.
    fn into(self, mut found: Found) -> Found {
        found.skips_missed = true;
        if self.unit_ns.is_none() {
            found.note(
                "cyclictest's text does not say whether -N made its figures nanoseconds: taken as microseconds",
            );
            let lowest = |column: &Column| column.min.or(column.buckets.first().map(|bucket| bucket.0));
            // No thread always wakes up a millisecond late.
            if found.columns.iter().filter_map(lowest).min().is_some_and(|lowest| lowest >= 1_000) {
                found.note("every latency is above 1000, as nanoseconds are: import it with --unit ns if so");
            }
        }
        found.manifest.asked.dma_latency_us = self.dma_latency_us;
        let mut priorities = self.threads.values().map(|summary| summary.priority);
        if let Some(priority) = priorities.next().filter(|first| priorities.all(|other| other == *first)) {
            let known =
                self.policy.filter(|policy| matches!(*policy, "fifo" | "rr" | "other" | "batch" | "idle"));
            found.scheduled(known.or((priority == 0).then_some("other")), Some(priority));
        }
        found
    }
}

/// Reads `-h`, `-H` or `--histfile`.
pub(super) fn read_histogram(text: &str, unit_ns: Option<u64>) -> Result<Found, String> {
    let mut found = Found::by("cyclictest", None);
    let (mut around, mut stated) = (Around::in_unit(unit_ns), BTreeMap::new());
    let mut rows: Vec<(u64, Vec<u64>)> = Vec::new();
    for (n, line) in whole_lines(text, &mut found.missing).lines().enumerate() {
        if let Some((name, figures)) = line.strip_prefix("# ").and_then(|line| line.split_once(':'))
            && let "Total" | "Min Latencies" | "Avg Latencies" | "Max Latencies" | "Histogram Overflows" =
                name
        {
            stated.insert(name, numbers(figures, n)?);
        } else if line.starts_with(|c: char| c.is_ascii_digit()) && !line.contains(':') {
            let mut figures = numbers(line, n)?;
            rows.push((figures.remove(0), figures));
        } else {
            around.take(line);
        }
    }
    let width = rows.first().map_or(0, |row| row.1.len());
    if let Some(row) = rows.iter().find(|row| row.1.len() != width) {
        return Err(format!("bucket {} has {} columns, others have {width}", row.0, row.1.len()));
    }
    // Of the figures below the table, these two never have a column for the sum.
    let threads = ["Min Latencies", "Avg Latencies"].iter().find_map(|name| stated.get(name)).map(Vec::len);
    let threads = threads.unwrap_or_else(|| if ends_in_sum(&rows) { width - 1 } else { width });
    if !rows.is_empty() && !(threads..=threads + 1).contains(&width) {
        return Err(format!("its table has {width} columns for {threads} threads"));
    }
    rows.sort_by_key(|row| row.0);
    if rows.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("it holds more than one run".into());
    }
    for name in ["Min Latencies", "Max Latencies", "Histogram Overflows"] {
        if stated.get(name).is_none_or(|figures| figures.len() < threads) {
            found.missing.push(format!("the file has no '# {name}:' for every thread: it was cut short"));
            stated.remove(name);
        }
    }
    for thread in 0..threads {
        let figure = |name: &str| stated.get(name).and_then(|figures| figures.get(thread).copied());
        let mut column = around.column(thread as u32);
        column.buckets =
            rows.iter().map(|row| (row.0, row.1[thread])).filter(|bucket| bucket.1 > 0).collect();
        column.overflow = figure("Histogram Overflows").unwrap_or(0);
        column.overflow_from = rows.last().map(|row| row.0.saturating_add(1));
        if let Some(total) = figure("Total").filter(|total| *total != column.listed()) {
            let listed = column.listed();
            found
                .missing
                .push(format!("thread {thread}: the table holds {listed} samples, its total says {total}"));
        }
        if column.listed() > 0 || column.overflow > 0 {
            column.min = figure("Min Latencies");
            column.avg = figure("Avg Latencies").map(|avg| avg as f64);
            column.max = figure("Max Latencies");
        }
        found.columns.push(column);
    }
    found.cpus_known = false;
    Ok(around.into(found))
}

/// Samples of one thread.
#[derive(Default)]
struct Samples {
    buckets: BTreeMap<u64, u64>,
    count: u64,
    first: u64,
    last: Option<u64>,
}

/// Reads `-v`.
pub(super) fn read_samples(text: &str, unit_ns: Option<u64>) -> Result<Found, String> {
    let mut found = Found::by("cyclictest", None);
    let mut around = Around::in_unit(unit_ns);
    let mut threads: BTreeMap<u32, Samples> = BTreeMap::new();
    for line in whole_lines(text, &mut found.missing).lines() {
        let Some((thread, cycle, latency)) = sample(line) else {
            around.take(line);
            continue;
        };
        let samples = threads.entry(thread).or_insert_with(|| Samples { first: cycle, ..Samples::default() });
        if samples.last.is_some_and(|last| last >= cycle) {
            return Err("it holds more than one run".into());
        }
        samples.last = Some(cycle);
        samples.count += 1;
        *samples.buckets.entry(latency).or_default() += 1;
    }
    found.cpus_known = !threads.is_empty() && threads.keys().all(|thread| around.cpus.contains_key(thread));
    for (thread, samples) in threads {
        let cycles = samples.last.map_or(0, |last| last - samples.first).saturating_add(1);
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
    found.note("nothing marks the end of cyclictest -v: whether the file is whole cannot be told");
    Ok(around.into(found))
}

/// Reads `T:` lines without a histogram.
pub(super) fn read_summary(text: &str, unit_ns: Option<u64>) -> Result<Found, String> {
    let mut found = Found::by("cyclictest", None);
    let mut around = Around::in_unit(unit_ns);
    whole_lines(text, &mut found.missing).lines().for_each(|line| around.take(line));
    for (thread, summary) in around.threads.iter().filter(|thread| thread.1.cycles > 0) {
        let mut column = around.column(*thread);
        column.overflow = summary.cycles;
        (column.min, column.max) = (Some(summary.min), Some(summary.max));
        column.avg = Some(summary.avg as f64);
        found.columns.push(column);
    }
    found.cpus_known = false;
    found.note("the file holds no histogram: only minimum, mean and maximum are known");
    Ok(around.into(found))
}

fn numbers(text: &str, line: usize) -> Result<Vec<u64>, String> {
    let number = |word: &str| word.parse().map_err(|_| format!("line {}: '{word}' is no count", line + 1));
    text.split_whitespace().map(number).collect()
}

/// Whether the last of at least three columns is the sum of the others, as `-H` writes it.
fn ends_in_sum(rows: &[(u64, Vec<u64>)]) -> bool {
    let is_sum = |row: &Vec<u64>| match row.split_last() {
        Some((last, others)) if others.len() > 1 => {
            others.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)) == Some(*last)
        }
        _ => false,
    };
    !rows.is_empty() && rows.iter().all(|row| is_sum(&row.1))
}
