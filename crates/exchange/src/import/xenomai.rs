// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of Xenomai's `latency` and EVL's `latmus`: `RTH|RTD|RTS` tables.
//!
//! ```text
//! RTT|  00:00:01  (periodic user-mode task, 1000 us period, priority 99)
//! RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst
//! RTD|      0.723|      2.302|      3.740|       0|     0|      0.723|      3.740
//! RTS|      0.173|      2.114|      4.036|       0|     0|    00:00:20/00:00:20
//! ```
//!
//! Figures are microseconds with a fraction. `RTD` is a second: as many samples as periods fit into it.
//! Overruns are periods missed, counted from the start. Where `-h` lists every sample (`HSD|    avg|`), those
//! are the buckets. Xenomai sets its timer early, so that a latency may be below zero: it counts as zero
//! here.

use std::collections::BTreeMap;

use super::column::{ImportedFile, ImportedSeries, Rounding};
use super::figures::{second_run, thousandths};
use super::scan::format::{
    Answer, Cpus, Description, End, Half, Mark, Missed, StatedSamples, Told, Unit, Worse,
};
use super::scan::{Line, Scan};

pub(super) const FORMAT: Description = Description {
    name: "Xenomai latency",
    program: "xenomai latency",
    told: Told::Lines(|line| (is_row(line) || is_frame(line)).then_some(Mark::Half)),
    parts: &[],
    unit: Unit::Known,
    rounding: Rounding::Exact,
    cpus: Cpus::Stated,
    samples: StatedSamples::Distribution,
    totals: Answer::Field("the line RTS"),
    missed: Missed::Counted,
    end: End::Marked,
    half_line: |_| Half::Dropped,
    worse: Answer::Lines(&[Worse::Sample("latency threshold is exceeded ({} >= {us}), aborting.", None)]),
    stops: Answer::Never("its threshold says so with the value"),
    aborts: Answer::Lines(&["-- aborting{}", "*** OOPS:{}", "latency: failed to{}", "latency: unexpected{}"]),
    losses: Answer::Never("a period that was overrun is counted"),
    doubts: Answer::Lines(&[
        "{}NOT reliable{}",
        "{}latency peaks may have been due to involuntary mode switches{}",
        "# IN-BAND SWITCHES: {some}",
    ]),
    read,
};

const SECOND_NS: u64 = 1_000_000_000;

/// Whether a line is one of the table's.
pub(super) fn is_row(line: &str) -> bool {
    line.starts_with("RTD|") || line.starts_with("RTS|")
}

/// Whether a line is another one of the table.
fn is_frame(line: &str) -> bool {
    ["RTT|", "RTH|", "---|---"].iter().any(|start| line.starts_with(start))
}

/// The program that ran and its frequency, as `RTT|` says.
#[derive(Debug, Clone, Default, PartialEq)]
struct Heading {
    context: Option<String>,
    period_us: Option<u64>,
    priority: Option<u64>,
    cpu: Option<u32>,
}

impl Heading {
    /// Of `RTT|  00:00:01  (user, 1000 us period, priority 98, CPU1-noisol)`.
    fn read(line: &str) -> Option<Heading> {
        let inside = line.split_once('(')?.1.strip_suffix(')')?;
        let mut heading = Heading::default();
        for (n, part) in inside.split(',').map(str::trim).enumerate() {
            if n == 0 {
                heading.context = Some(part.to_string());
            } else if let Some(us) = part.strip_suffix(" us period") {
                heading.period_us = us.parse().ok();
            } else if let Some(priority) = part.strip_prefix("priority ") {
                heading.priority = priority.parse().ok();
            } else if let Some(cpu) = part.strip_prefix("CPU") {
                heading.cpu = cpu.split('-').next()?.parse().ok();
            }
        }
        Some(heading)
    }

    /// The probe that measures the same, and the tool that names the context so.
    fn probe(&self) -> Result<(&'static str, &'static str), String> {
        Ok(match self.context.as_deref() {
            None | Some("periodic user-mode task") => ("wakeup", "xenomai latency"),
            Some("in-kernel periodic task") => ("timerlat-thread", "xenomai latency"),
            Some("in-kernel timer handler") => ("timerlat-irq", "xenomai latency"),
            Some("user") => ("wakeup", "latmus"),
            Some("kernel") => ("timerlat-thread", "latmus"),
            Some("irq") => ("timerlat-irq", "latmus"),
            Some("oob-gpio" | "inband-gpio") => ("response-lines", "latmus"),
            Some(other) => return Err(format!("it measured '{other}', which no probe does")),
        })
    }
}

/// The probe of latmus' `context`, for its histogram file too.
pub(super) fn probe(context: Option<&str>) -> Result<&'static str, String> {
    Heading { context: context.map(str::to_string), ..Heading::default() }.probe().map(|found| found.0)
}

/// Figures of all lines so far, in nanoseconds.
#[derive(Debug, Default)]
struct XenomaiFigures {
    /// Cells of a line, as `RTH|` heads them.
    columns: Option<usize>,
    seconds: u64,
    sum_of_avg_ns: i64,
    best_ns: Option<i64>,
    worst_ns: Option<i64>,
    /// As the last line states them, which tell another run apart.
    stated_worst_ns: Option<i64>,
    overruns: u64,
    switches: u64,
    summary: Option<RtsLine>,
}

/// `RTS|`.
#[derive(Debug)]
struct RtsLine {
    avg_ns: i64,
    seconds: Option<u64>,
}

impl XenomaiFigures {
    fn see(&mut self, lowest_ns: i64, highest_ns: i64) {
        self.best_ns = Some(self.best_ns.map_or(lowest_ns, |best| best.min(lowest_ns)));
        self.worst_ns = Some(self.worst_ns.map_or(highest_ns, |worst| worst.max(highest_ns)));
    }

    fn count(&mut self, overruns: u64, switches: u64) -> Result<(), String> {
        if self.summary.is_some() || overruns < self.overruns {
            return second_run();
        }
        (self.overruns, self.switches) = (overruns, self.switches.max(switches));
        Ok(())
    }

    /// Reads `RTD|` or `RTS|`.
    fn row(&mut self, line: &Line) -> Result<(), String> {
        let cells = line.split('|').map(str::trim).collect::<Vec<_>>();
        let figure = |at: usize| -> Result<i64, String> {
            thousandths(cells[at])
                .ok_or_else(|| line.at(format_args!("'{}' is not one of its figures", cells[at])))
        };
        let count = |at: usize| line.number(cells[at]);
        // Xenomai 2.4 and older had no column of mode switches. A summary has one column less than a second.
        let columns = if cells[0] == "RTS" { cells.len() + 1 } else { cells.len() };
        let switches_at = match columns {
            8 => Some(5),
            7 => None,
            _ => return Err(line.at(format_args!("it has {} columns", cells.len() - 1))),
        };
        if self.columns.is_some_and(|headed| headed != columns) {
            return Err(line.at(format_args!("it has {} columns, and the heading others", cells.len() - 1)));
        }
        let (min_ns, avg_ns, max_ns) = (figure(1)?, figure(2)?, figure(3)?);
        self.count(count(4)?, switches_at.map_or(Ok(0), count)?)?;
        self.see(min_ns, max_ns);
        let last = cells.len() - 1;
        if cells[0] == "RTS" {
            let ran = cells[last].split('/').next().and_then(clock_s);
            self.summary = Some(RtsLine { avg_ns, seconds: ran });
            return Ok(());
        }
        let (best_ns, worst_ns) = (figure(last - 1)?, figure(last)?);
        if self.stated_worst_ns.is_some_and(|before| worst_ns < before) {
            return second_run();
        }
        self.stated_worst_ns = Some(worst_ns);
        self.see(best_ns, worst_ns);
        self.seconds += 1;
        self.sum_of_avg_ns = self.sum_of_avg_ns.saturating_add(avg_ns);
        Ok(())
    }

    fn avg_ns(&self) -> Option<i64> {
        let seconds = i64::try_from(self.seconds).ok().filter(|seconds| *seconds > 0);
        let of_rows = seconds.map(|seconds| self.sum_of_avg_ns / seconds);
        self.summary.as_ref().map(|summary| summary.avg_ns).or(of_rows)
    }
}

/// The worst latency in nanoseconds, and the overruns, of one row.
pub(super) fn worst(line: &Line) -> Result<(i64, u64), String> {
    let mut table = XenomaiFigures::default();
    table.row(line)?;
    Ok((table.worst_ns.unwrap_or(0), table.overruns))
}

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let (mut heading, mut table) = (None::<Heading>, XenomaiFigures::default());
    let mut listed: BTreeMap<u64, u64> = BTreeMap::new();
    let mut stated = Heading::default();
    while let Some(line) = scan.next()? {
        if is_row(&line) {
            table.row(&line)?;
        } else if line.starts_with("RTT|") {
            let found = Heading::read(&line).ok_or_else(|| line.unreadable())?;
            if heading.as_ref().is_some_and(|before| *before != found) || table.summary.is_some() {
                return second_run();
            }
            heading = Some(found);
        } else if let Some(bucket) = line.strip_prefix("HSD|") {
            let (from, count) = bucket_of_samples(bucket).ok_or_else(|| line.unreadable())?;
            if count > 0 && listed.insert(from, count).is_some() {
                return second_run();
            }
        } else if let Some(period) = line.strip_prefix("== Sampling period:") {
            stated.period_us = period.trim().strip_suffix(" us").and_then(|us| us.parse().ok());
        } else if let Some(context) = line.strip_prefix("== Test mode:") {
            stated.context = Some(context.trim().to_string());
        } else if line.starts_with("RTH|") {
            table.columns = Some(line.split('|').count());
        }
    }
    // With -q only the lines before the table say what ran.
    let heading = heading.unwrap_or(stated.clone());
    let (probe, program) = heading.probe()?;
    let mut found = scan.file();
    found.manifest.written_by.program = program.into();
    found.cpus_known = heading.cpu.is_some();
    found.scheduled(None, heading.priority);
    let period_ns = heading.period_us.or(stated.period_us).and_then(|us| us.checked_mul(1_000));
    let period_ns = period_ns.filter(|ns| *ns > 0);
    remarks(&table, &mut found);
    let mut column = ImportedSeries {
        probe,
        cpu: heading.cpu.unwrap_or(0),
        period_ns,
        unit_ns: 1,
        width: 1,
        missed: table.overruns,
        min: table.best_ns.map(at_least_zero),
        avg: table.avg_ns().map(|ns| ns.max(0) as f64),
        max: table.worst_ns.map(at_least_zero),
        ..ImportedSeries::default()
    };
    if listed.is_empty() {
        column.overflow = samples(&table, period_ns, &mut found);
    } else {
        buckets(&mut column, listed)?;
    }
    found.columns.push(column);
    Ok(found)
}

/// Puts the buckets of `-h` in. Their width is not stated: it is the default of 1 us unless the worst latency
/// contradicts that.
fn buckets(column: &mut ImportedSeries, listed: BTreeMap<u64, u64>) -> Result<(), String> {
    let last = listed.last_key_value().map_or(0, |(from, _)| *from);
    if column.max.is_some_and(|max_ns| max_ns / 1_000 < last) && column.min != Some(0) {
        return Err("its histogram has buckets of another width than 1 us, which it does not state".into());
    }
    column.buckets = listed.into_iter().map(|(from, count)| (from.saturating_mul(1_000), count)).collect();
    column.width = 1_000;
    let beyond = last.saturating_mul(1_000);
    // The last bucket holds everything above.
    if column.max.is_some_and(|max_ns| max_ns >= beyond.saturating_add(1_000)) {
        column.overflow = column.buckets.pop().map_or(0, |bucket| bucket.1);
        column.overflow_from = Some(beyond);
    }
    Ok(())
}

/// How many samples there were, where no histogram lists them.
fn samples(table: &XenomaiFigures, period_ns: Option<u64>, found: &mut ImportedFile) -> u64 {
    found.extremes_alone();
    let ran = table.summary.as_ref().and_then(|summary| summary.seconds);
    let seconds = table.seconds.max(ran.unwrap_or(0));
    match period_ns {
        Some(period_ns) if seconds > 0 => {
            let each = (SECOND_NS / period_ns).max(1);
            found.note(format!("{seconds} s of {each} periods each are counted as samples"));
            seconds.saturating_mul(each)
        }
        _ => {
            if seconds == 0 && table.summary.is_none() {
                return 0;
            }
            found.note("the file does not say the period: one sample is counted for each line");
            table.seconds.max(1)
        }
    }
}

/// Notes on what the figures hide.
fn remarks(table: &XenomaiFigures, found: &mut ImportedFile) {
    let program = found.manifest.written_by.program.clone();
    if table.best_ns.is_some_and(|ns| ns < 0) {
        found.note(format!(
            "{program} woke up to {} ns early: a latency below zero counts as 0",
            -table.best_ns.unwrap_or(0)
        ));
    }
    if table.switches > 0 {
        let switches = table.switches;
        found.note(format!("the measuring thread was switched {switches} times to Linux' own scheduling"));
    }
    if table.summary.is_none() {
        found.unmarked();
    }
}

/// `avg| 3 -  4 | 123` as bucket and count; lists of each second's minimum and maximum have no samples of
/// ours.
fn bucket_of_samples(cells: &str) -> Option<(u64, u64)> {
    let mut cells = cells.split('|').map(str::trim);
    let (kind, range, count) = (cells.next()?, cells.next()?, cells.next()?);
    let from = range.split('-').next()?.trim().parse().ok()?;
    let count = count.parse().ok()?;
    Some(if kind == "avg" { (from, count) } else { (0, 0) })
}

/// `00:01:30` in seconds.
fn clock_s(text: &str) -> Option<u64> {
    text.trim().split(':').try_fold(0u64, |sum, part| sum.checked_mul(60)?.checked_add(part.parse().ok()?))
}

/// A latency as this program keeps it.
fn at_least_zero(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}
