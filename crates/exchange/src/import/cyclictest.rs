// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cyclictest prints: histograms, samples (`-v`) and summary lines.
//!
//! A bucket `N` counts latencies of N us up to below N + 1. The text does not say whether `-N` made them
//! nanoseconds, so microseconds are taken unless the caller tells, and that is noted. `# Total:` counts the
//! buckets alone, without the overflows; `-H` adds a column with the sum of all threads. cyclictest skips
//! periods it has missed without counting them; which CPU a thread ran on only `-v` says.

use std::collections::{BTreeMap, BTreeSet};

use machine::CpuSet;

use super::column::{ImportedFile, ImportedSeries};
use super::command::{Syntax, ToolCommand};
use super::text::{is_row, split_cut, whole_lines};

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

/// What a command line asks.
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

/// A line of `-v`: thread, cycle and latency.
pub(super) fn sample(line: &str) -> Option<(u32, u64, u64)> {
    let mut fields = line.split(':').map(str::trim);
    let fields = (fields.next()?, fields.next()?, fields.next()?, fields.next());
    let (thread, cycle, latency, None) = fields else { return None };
    // A time of day, as `date` prints it between two programs.
    let is_time = line.len() == 8 && [thread, cycle, latency].iter().all(|field| field.len() == 2);
    if is_time {
        return None;
    }
    Some((thread.parse().ok()?, number(cycle)?, number(latency)?))
}

/// Figures of one `T:` line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ThreadLine {
    thread: u32,
    /// The thread's id, which tells one run from the next.
    tid: u64,
    priority: u64,
    interval_us: u64,
    cycles: u64,
    min: u64,
    avg: u64,
    max: u64,
}

impl ThreadLine {
    /// Whether `next` may be the same thread later in the same run: cyclictest draws its lines again and
    /// again.
    fn leads_to(&self, next: &ThreadLine) -> bool {
        let never = self.cycles == 0;
        self.tid == next.tid
            && self.cycles <= next.cycles
            && (never || (next.min <= self.min && self.max <= next.max))
    }
}

/// A line `T: 0 ( 3407) P:99 I:1000 C: 100000 Min: 7 Act: 10 Avg: 10 Max: 18`, every field of which is whole.
pub(super) fn summary(line: &str) -> Option<ThreadLine> {
    let (thread, rest) = line.trim_start().strip_prefix("T:")?.split_once('(')?;
    let (tid, rest) = rest.split_once(')')?;
    let mut fields = BTreeMap::new();
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once(':')?;
        let value = if value.is_empty() { words.next()? } else { value };
        // The last latency decides nothing, and may be negative.
        let value = if name == "Act" { 0 } else { number(value)? };
        if fields.insert(name, value).is_some() {
            return None;
        }
    }
    let field = |name: &str| fields.get(name).copied();
    Some(ThreadLine {
        thread: thread.trim().parse().ok()?,
        tid: number(tid.trim())?,
        priority: field("P")?,
        interval_us: field("I")?,
        cycles: field("C")?,
        min: field("Min")?,
        avg: field("Avg")?,
        max: field("Max")?,
    })
}

/// A plain number: no sign, no separators.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Whether a line is a thread's summary, or should be one.
pub(super) fn is_summary(line: &str) -> bool {
    let named = ["T:", " P:", " I:", " C:", "Max:"].iter().all(|name| line.contains(name));
    summary(line).is_some() || named
}

/// Whether a line that cannot be read should be a thread's summary: something stands around it, or in it.
fn resembles_summary(line: &str) -> bool {
    let has = |name: &str| line.contains(name);
    line.starts_with("T:") && has("(") || has("Min:") && (has("Max:") || has("C:"))
}

/// Whether a line that cannot be read should be a sample.
fn resembles_sample(line: &str) -> bool {
    let fields = line.split(':').map(str::trim).collect::<Vec<_>>();
    let [thread, cycle, _] = fields.as_slice() else { return is_row(line) };
    let is_number = |text: &str| !text.is_empty() && number(text).is_some();
    is_number(thread) && is_number(cycle) || is_row(line)
}

/// All that the text holds beside its table or samples.
#[derive(Default)]
struct Around<'a> {
    /// The last `T:` line of each thread.
    threads: BTreeMap<u32, ThreadLine>,
    /// Thread to CPU.
    cpus: BTreeMap<u32, u32>,
    /// Ids of the threads in their order, the one that ended the run (`-b`), and at which latency it did.
    tids: Vec<u64>,
    break_tid: Option<u64>,
    break_value: Option<u64>,
    policy: Option<&'a str>,
    dma_latency_us: Option<u32>,
    /// Nanoseconds of one unit of the figures, as the caller tells it.
    unit_ns: Option<u64>,
}

impl<'a> Around<'a> {
    fn in_unit(unit_ns: Option<u64>) -> Around<'a> {
        Around { unit_ns, ..Around::default() }
    }

    /// Takes a line, the `n`th; an error where it should be a row and is none, or belongs to another run.
    fn take(&mut self, line: &'a str, n: usize) -> Result<(), String> {
        const SEVERAL: &str = "it holds more than one run";
        let unreadable = || format!("line {}: '{line}' cannot be read as a row of cyclictest", n + 1);
        let first = |known: bool| if known { Err(SEVERAL.to_string()) } else { Ok(()) };
        if let Some(summary) = summary(line) {
            let known = self.threads.get(&summary.thread);
            first(known.is_some_and(|known| !known.leads_to(&summary)))?;
            self.threads.insert(summary.thread, summary);
        } else if resembles_summary(line) {
            return Err(unreadable());
        } else if let Some((_, policy)) = line.split_once("policy: ") {
            self.policy = policy.split(':').next();
        } else if let Some((_, latency)) = line.split_once("/dev/cpu_dma_latency set to ") {
            first(self.dma_latency_us.is_some())?;
            self.dma_latency_us = latency.trim().strip_suffix("us").and_then(|us| us.parse().ok());
        } else if let Some((thread, cpu)) = line
            .strip_prefix("Thread ")
            .and_then(|line| line.trim_end().strip_suffix('.'))
            .and_then(|line| line.split_once(" using cpu "))
            && let (Ok(thread), Ok(cpu)) = (thread.parse(), cpu.parse())
        {
            first(self.cpus.insert(thread, cpu).is_some())?;
        } else if let Some(tids) = line.strip_prefix("# Thread Ids:") {
            self.tids = tids.split_whitespace().map_while(number).collect();
        } else if let Some(tid) = line.strip_prefix("# Break thread:") {
            self.break_tid = number(tid.trim());
        } else if let Some(value) = line.strip_prefix("# Break value:") {
            first(self.break_value.is_some())?;
            self.break_value = Some(number(value.trim()).ok_or_else(unreadable)?);
        }
        Ok(())
    }

    /// Lets what the text states beside its table or samples count where it is worse.
    fn settle(&self, found: &mut ImportedFile) {
        for (thread, summary) in self.threads.iter().filter(|thread| thread.1.cycles > 0) {
            if let Some(column) = found.columns.iter_mut().find(|column| column.thread == Some(*thread)) {
                column.state_max(summary.max);
            }
        }
        let Some(value) = self.break_value else { return };
        found.note("cyclictest ended at the first latency above its threshold (-b)");
        let ids = self.threads.values().map(|summary| (summary.tid, summary.thread));
        let ids = ids.chain(self.tids.iter().copied().zip(0..)).collect::<BTreeMap<_, _>>();
        let thread = self.break_tid.and_then(|tid| ids.get(&tid)).copied();
        let place = found.columns.iter().position(|column| thread.is_some() && column.thread == thread);
        if place.is_none() && found.columns.len() > 1 {
            found
                .missing
                .push(format!("the file does not say which thread was late by {value} (# Break value)"));
        }
        if let Some(column) = found.columns.get_mut(place.unwrap_or(0)) {
            column.state_max(value);
        }
    }

    fn column(&self, thread: u32) -> ImportedSeries {
        let summary = self.threads.get(&thread);
        let period_ns = summary.and_then(|s| s.interval_us.checked_mul(1_000)).filter(|ns| *ns > 0);
        let cpu = self.cpus.get(&thread).copied().unwrap_or(thread);
        let unit_ns = self.unit_ns.unwrap_or(1_000);
        ImportedSeries {
            probe: "wakeup",
            cpu,
            period_ns,
            unit_ns,
            width: 1,
            thread: Some(thread),
            ..ImportedSeries::default()
        }
    }

    /// Ends the reading.
    fn into(self, mut found: ImportedFile) -> ImportedFile {
        self.settle(&mut found);
        found.skips_missed = true;
        let threads = found.columns.iter().filter_map(|column| column.thread).collect::<BTreeSet<_>>();
        let last = self.cpus.keys().chain(&threads).max().copied().unwrap_or(0);
        let absent = (0..=last).filter(|thread| !threads.contains(thread)).collect::<CpuSet>();
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
pub(super) fn read_histogram(text: &str, unit_ns: Option<u64>) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("cyclictest", None);
    let (mut around, mut stated) = (Around::in_unit(unit_ns), BTreeMap::new());
    let mut rows: Vec<(u64, Vec<u64>)> = Vec::new();
    for (n, line) in lines(text, &mut found.missing).lines().enumerate() {
        if let Some((name, figures)) = line.strip_prefix("# ").and_then(|line| line.split_once(':'))
            && let "Total" | "Min Latencies" | "Avg Latencies" | "Max Latencies" | "Histogram Overflows" =
                name
        {
            if stated.insert(name, numbers(figures, n)?).is_some() {
                return Err("it holds more than one run".into());
            }
        } else if line.starts_with(|c: char| c.is_ascii_digit()) && !line.contains(':') || is_row(line) {
            let mut figures = numbers(line, n)?;
            rows.push((figures.remove(0), figures));
        } else {
            around.take(line, n)?;
        }
    }
    let width = rows.first().map_or(0, |row| row.1.len());
    if let Some(row) = rows.iter().find(|row| row.1.len() != width) {
        return Err(format!("bucket {} has {} columns, others have {width}", row.0, row.1.len()));
    }
    // Of the figures below the table, these two never have a column for the sum.
    let threads = ["Min Latencies", "Avg Latencies"].iter().find_map(|name| stated.get(name)).map(Vec::len);
    let threads = threads.unwrap_or_else(|| match stated.get("Max Latencies") {
        // Neither is there where an export does not know them.
        Some(max) if rows.is_empty() => max.len(),
        _ if ends_in_sum(&rows) => width - 1,
        _ => width,
    });
    if !rows.is_empty() && !(threads..=threads + 1).contains(&width) {
        return Err(format!("its table has {width} columns for {threads} threads"));
    }
    rows.sort_by_key(|row| row.0);
    if rows.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("it holds more than one run".into());
    }
    let more = |figures: &&Vec<u64>| figures.len() > threads + 1;
    if let Some(figures) = stated.values().find(more) {
        return Err(format!("it states figures of {} threads and of {threads}", figures.len()));
    }
    for name in ["Min Latencies", "Max Latencies", "Histogram Overflows"] {
        // The maxima come after the minima.
        let is_left_out = name == "Min Latencies" && !stated.contains_key(name);
        if is_left_out && stated.contains_key("Max Latencies") {
            continue;
        }
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
        // The total leaves the overflows out.
        let total = figure("Total").or(around.threads.get(&(thread as u32)).map(|summary| summary.cycles));
        if rows.is_empty() {
            column.unplaced = total.unwrap_or(0);
        } else if let Some(total) = figure("Total").filter(|total| *total != column.listed()) {
            let listed = column.listed();
            column.unplaced = total.saturating_sub(listed);
            found
                .missing
                .push(format!("thread {thread}: the table holds {listed} samples, its total says {total}"));
        }
        if column.samples() > 0 {
            column.min = figure("Min Latencies");
            column.avg = figure("Avg Latencies").map(|avg| avg as f64);
            column.max = figure("Max Latencies");
        }
        found.columns.push(column);
    }
    found.cpus_known = false;
    if rows.is_empty() {
        found.note("the file holds no row of its histogram: only minimum, mean and maximum are known");
    }
    Ok(around.into(found))
}

/// Samples of one thread.
#[derive(Default)]
struct ThreadSamples {
    buckets: BTreeMap<u64, u64>,
    count: u64,
    first: u64,
    last: Option<u64>,
}

/// Reads `-v`.
pub(super) fn read_samples(text: &str, unit_ns: Option<u64>) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("cyclictest", None);
    let mut around = Around::in_unit(unit_ns);
    let mut threads: BTreeMap<u32, ThreadSamples> = BTreeMap::new();
    for (n, line) in lines(text, &mut found.missing).lines().enumerate() {
        let Some((thread, cycle, latency)) = sample(line) else {
            if resembles_sample(line) {
                return Err(format!("line {}: '{line}' cannot be read as a sample of cyclictest -v", n + 1));
            }
            around.take(line, n)?;
            continue;
        };
        let samples = threads
            .entry(thread)
            .or_insert_with(|| ThreadSamples { first: cycle, ..ThreadSamples::default() });
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
pub(super) fn read_summary(text: &str, unit_ns: Option<u64>) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("cyclictest", None);
    let mut around = Around::in_unit(unit_ns);
    let lines = lines(text, &mut found.missing).lines();
    lines.enumerate().try_for_each(|(n, line)| around.take(line, n))?;
    for (thread, summary) in &around.threads {
        let mut column = around.column(*thread);
        if summary.cycles > 0 {
            column.unplaced = summary.cycles;
            (column.min, column.max) = (Some(summary.min), Some(summary.max));
            column.avg = Some(summary.avg as f64);
        }
        found.columns.push(column);
    }
    found.cpus_known = false;
    found.note("the file holds no histogram: only minimum, mean and maximum are known");
    Ok(around.into(found))
}

/// The lines that are whole. Without a line end, those that nothing is read from count as whole, and so does
/// a thread's summary whose last figure fills its eight columns.
fn lines<'a>(text: &'a str, missing: &mut Vec<String>) -> &'a str {
    let (_, cut) = split_cut(text);
    let is_whole = |cut: &str| {
        let of_thread = cut.strip_prefix("# Thread ").and_then(|rest| rest.split_once(':'));
        of_thread.is_some_and(|(thread, _)| number(thread).is_some())
            || cut.starts_with("# Histogram Overflow at")
            || summary(cut).is_some() && cut.rsplit_once("Max:").is_some_and(|(_, max)| max.len() >= 8)
    };
    match cut {
        // Half a break value is still one; a note says that it may be more.
        Some(cut) if is_whole(cut) => text,
        Some(cut) if cut.starts_with("# Break value:") || summary(cut).is_some() => {
            missing.push("the file ends without a line end: its last figure may be cut short".into());
            text
        }
        _ => whole_lines(text, missing),
    }
}

fn numbers(text: &str, line: usize) -> Result<Vec<u64>, String> {
    let count = |word| number(word).ok_or_else(|| format!("line {}: '{word}' is not a count", line + 1));
    text.split_whitespace().map(count).collect()
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
