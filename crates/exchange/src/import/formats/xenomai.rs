// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of Xenomai's `latency` and EVL's `latmus`: `RTH|RTD|RTS` tables, and the histogram that
//! `latmus -g` writes for gnuplot.
//!
//! ```text
//! RTT|  00:00:01  (periodic user-mode task, 1000 us period, priority 99)
//! RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst
//! RTD|      0.723|      2.302|      3.740|       0|     0|      0.723|      3.740
//! RTS|      0.173|      2.114|      4.036|       0|     0|    00:00:20/00:00:20
//! ```
//! ```text
//! # context: user
//! # thread affinity: CPU1
//! # OVERRUNS: 2
//! # max latency: 9.204
//! # sample count: 3581
//! 0 12
//! 9+ 1
//! ```
//!
//! Figures are microseconds with a fraction. `RTD` is a second: as many samples as periods fit into it.
//! Overruns are periods missed, counted from the start. Where `-h` lists every sample (`HSD|    avg|`), those
//! are the buckets. Xenomai sets its timer early, so that a latency may be below zero: it counts as zero
//! here. A bucket of `latmus -g` is 1 us; a `+` behind the last one says that it holds everything above, too.
//! The table may stand in the same text: its worst latency and overruns count where they are worse.

use std::collections::BTreeMap;

use crate::import::column::kernel;
use crate::import::scan::prelude::*;

pub(in crate::import) const TABLE: Description = Description {
    says: &[
        Says::Lines(Worse, &["latency threshold is exceeded ({} >= {us}), aborting."]),
        Says::Lines(
            Aborts,
            &["-- aborting{}", "*** OOPS:{}", "latency: failed to{}", "latency: unexpected{}"],
        ),
        Says::Lines(
            Doubts,
            &[
                "{}NOT reliable{}",
                "{}latency peaks may have been due to involuntary mode switches{}",
                "# IN-BAND SWITCHES: {some}",
            ],
        ),
        Says::NoLine(Totals, "the line RTS; # sample count:"),
        Says::NoLine(Stops, "its threshold says so with the value"),
        Says::NoLine(Losses, "a period that was overrun is counted"),
    ],
    ..Description::of(
        "Xenomai latency",
        "xenomai latency",
        Told::Lines(|line| (is_row(line) || is_frame(line)).then_some(Mark::Half)),
        Digits::All,
        read_table,
    )
};

pub(in crate::import) const HISTOGRAM: Description = Description {
    name: "latmus histogram",
    program: "latmus",
    told: Told::Lines(|line| {
        Mark::beginning(line, &["# sample count:", "# max latency:", "# sampling period:"])
    }),
    read: read_histogram,
    ..TABLE
};

const SECOND_NS: u64 = 1_000_000_000;

/// Whether a line is one of the table's.
fn is_row(line: &str) -> bool {
    line.starts_with("RTD|") || line.starts_with("RTS|")
}

/// Whether a line is another one of the table.
fn is_frame(line: &str) -> bool {
    ["RTT|", "RTH|", "---|---"].iter().any(|start| line.starts_with(start))
}

/// The program that ran and its frequency, as the lines at the head say.
#[derive(Debug, Clone, Default, PartialEq)]
struct Heading {
    context: Option<String>,
    period_us: Option<u64>,
    priority: Option<u64>,
    cpu: Option<u32>,
}

impl Heading {
    /// Takes a value by latmus' name for it; `None` where it cannot be read.
    fn take(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "context" => self.context = Some(value.to_string()),
            "sampling period" => {
                let us = value.strip_suffix("microseconds").or_else(|| value.strip_suffix("us"))?;
                self.period_us = Some(us.trim().parse().ok()?);
            }
            "thread priority" => self.priority = Some(value.parse().ok()?),
            "thread affinity" => {
                self.cpu = Some(value.strip_prefix("CPU")?.split('-').next()?.parse().ok()?);
            }
            _ => {}
        }
        Some(())
    }

    /// Of `RTT|  00:00:01  (user, 1000 us period, priority 98, CPU1-noisol)`.
    fn of_table(line: &str) -> Option<Heading> {
        let inside = line.split_once('(')?.1.strip_suffix(')')?;
        let mut heading = Heading::default();
        for (n, part) in inside.split(',').map(str::trim).enumerate() {
            let _ = match (part.strip_suffix(" period"), part.strip_prefix("priority ")) {
                _ if n == 0 => heading.take("context", part),
                (Some(period), _) => heading.take("sampling period", period),
                (None, Some(priority)) => heading.take("thread priority", priority),
                (None, None) => heading.take("thread affinity", part),
            };
        }
        Some(heading)
    }

    /// The probe that measures the same, and the tool that names the context so.
    fn probe(&self) -> Result<(RowKind, &'static str), String> {
        Ok(match self.context.as_deref() {
            None | Some("periodic user-mode task") => (RowKind::Wakeup, "xenomai latency"),
            Some("in-kernel periodic task") => (RowKind::TimerlatThread, "xenomai latency"),
            Some("in-kernel timer handler") => (RowKind::TimerlatIrq, "xenomai latency"),
            Some("user") => (RowKind::Wakeup, "latmus"),
            Some("kernel") => (RowKind::TimerlatThread, "latmus"),
            Some("irq") => (RowKind::TimerlatIrq, "latmus"),
            Some("oob-gpio" | "inband-gpio") => (RowKind::ResponseLines, "latmus"),
            Some(other) => return Err(format!("it measured '{other}', which no probe does")),
        })
    }

    /// The only column, with the figures that are stated of all samples.
    fn column(&self, figures: &Extremes, found: &mut ImportedFile) -> Result<ImportedSeries, String> {
        // Xenomai's timer is early: a latency may be below zero.
        let from_zero = |ns: Option<i64>| ns.map(|ns| u64::try_from(ns).unwrap_or(0));
        found.cpus_known = self.cpu.is_some();
        found.scheduled(None, self.priority);
        let column = ImportedSeries {
            missed: figures.overruns,
            min: from_zero(figures.best_ns),
            avg: from_zero(figures.avg_ns).map(|ns| ns as f64),
            max: from_zero(figures.worst_ns),
            ..ImportedSeries::new(self.probe()?.0, self.cpu.unwrap_or(0), 1)
        };
        Ok(column.each_us(self.period_us.unwrap_or(0)))
    }
}

/// Figures of all samples, in nanoseconds.
#[derive(Debug, Default)]
struct Extremes {
    best_ns: Option<i64>,
    avg_ns: Option<i64>,
    worst_ns: Option<i64>,
    overruns: u64,
}

/// Figures of all lines so far.
#[derive(Debug, Default)]
struct Rows {
    /// Cells of a line, as `RTH|` heads them.
    columns: Option<usize>,
    seconds: u64,
    sum_of_avg_ns: i64,
    extremes: Extremes,
    /// As the last line states them, which tell another run apart.
    stated_worst_ns: Option<i64>,
    switches: u64,
    /// Whether `RTS|` was read, and the seconds that it states.
    summary: Option<Option<u64>>,
}

impl Rows {
    fn see(&mut self, lowest_ns: i64, highest_ns: i64) {
        let Extremes { best_ns, worst_ns, .. } = &mut self.extremes;
        *best_ns = Some(best_ns.map_or(lowest_ns, |best| best.min(lowest_ns)));
        *worst_ns = (*worst_ns).max(Some(highest_ns));
    }

    /// Reads `RTD|` or `RTS|`.
    fn take(&mut self, line: &Line) -> Result<(), String> {
        let cells = line.split('|').map(str::trim).collect::<Vec<_>>();
        let figure = |at: usize| thousandths(cells[at]).ok_or_else(|| line.no_figure(cells[at]));
        let count = |at: usize| line.number(cells[at]);
        // Xenomai 2.4 and older had no column of mode switches. A summary has one column less than a second.
        let is_summary = cells[0] == "RTS";
        let columns = cells.len() + usize::from(is_summary);
        let switches_at = match columns {
            8 => Some(5),
            7 => None,
            _ => return Err(line.at(format_args!("it has {} columns", cells.len() - 1))),
        };
        if self.columns.is_some_and(|headed| headed != columns) {
            return Err(line.at(format_args!("it has {} columns, and the heading others", cells.len() - 1)));
        }
        let (min_ns, avg_ns, max_ns) = (figure(1)?, figure(2)?, figure(3)?);
        let (overruns, switches) = (count(4)?, switches_at.map_or(Ok(0), count)?);
        second_run_if(self.summary.is_some() || overruns < self.extremes.overruns)?;
        (self.extremes.overruns, self.switches) = (overruns, self.switches.max(switches));
        self.see(min_ns, max_ns);
        let last = cells.len() - 1;
        if is_summary {
            self.summary = Some(cells[last].split('/').next().and_then(clock_s));
            self.extremes.avg_ns = Some(avg_ns);
            return Ok(());
        }
        let (best_ns, worst_ns) = (figure(last - 1)?, figure(last)?);
        second_run_if(self.stated_worst_ns.is_some_and(|before| worst_ns < before))?;
        self.stated_worst_ns = Some(worst_ns);
        self.see(best_ns, worst_ns);
        self.seconds += 1;
        self.sum_of_avg_ns = self.sum_of_avg_ns.saturating_add(avg_ns);
        self.extremes.avg_ns = i64::try_from(self.seconds).ok().map(|seconds| self.sum_of_avg_ns / seconds);
        Ok(())
    }

    /// How many samples there were, where no histogram lists them.
    fn samples(&self, period_ns: Option<u64>, found: &mut ImportedFile) -> u64 {
        found.extremes_alone();
        let seconds = self.seconds.max(self.summary.flatten().unwrap_or(0));
        match period_ns {
            Some(period_ns) if seconds > 0 => {
                let each = (SECOND_NS / period_ns).max(1);
                found.note(format!("{seconds} s of {each} periods each are counted as samples"));
                seconds.saturating_mul(each)
            }
            _ if seconds == 0 && self.summary.is_none() => 0,
            _ => {
                found.note("the file does not say the period: one sample is counted for each line");
                self.seconds.max(1)
            }
        }
    }

    /// Notes on what the figures hide.
    fn remarks(&self, found: &mut ImportedFile) {
        let program = found.program();
        if let Some(early_ns) = self.extremes.best_ns.filter(|ns| *ns < 0) {
            let early_ns = -early_ns;
            found.note(format!("{program} woke up to {early_ns} ns early: a latency below zero counts as 0"));
        }
        if self.switches > 0 {
            let switches = self.switches;
            found
                .note(format!("the measuring thread was switched {switches} times to Linux' own scheduling"));
        }
        if self.summary.is_none() {
            found.unmarked();
        }
    }
}

fn read_table(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (mut heading, mut table, mut stated) = (None::<Heading>, Rows::default(), Heading::default());
    let (mut listed, mut samples) = (BTreeMap::<u64, u64>::new(), None);
    while let Some(line) = scan.next()? {
        if is_row(&line) {
            table.take(&line)?;
        } else if line.starts_with("RTT|") {
            let next = Heading::of_table(&line).ok_or_else(|| line.unreadable())?;
            second_run_if(heading.as_ref().is_some_and(|before| *before != next) || table.summary.is_some())?;
            heading = Some(next);
        } else if let Some(bucket) = line.strip_prefix("HSD|") {
            let (from, count) = bucket_of_samples(bucket).ok_or_else(|| line.unreadable())?;
            second_run_if(count > 0 && listed.insert(from, count).is_some())?;
        } else if let Some(count) = line.strip_prefix("HSS|    avg|") {
            samples = Some(line.number(count.split('|').next().unwrap_or_default().trim())?);
        } else if let Some(period) = line.strip_prefix("== Sampling period:") {
            stated.take("sampling period", period.trim());
        } else if let Some(context) = line.strip_prefix("== Test mode:") {
            stated.take("context", context.trim());
        } else if line.starts_with("RTH|") {
            table.columns = Some(line.split('|').count());
        }
    }
    // With -q only the lines before the table say what ran.
    let mut heading = heading.unwrap_or(stated.clone());
    heading.period_us = heading.period_us.or(stated.period_us);
    found.manifest.written_by.program = heading.probe()?.1.into();
    let mut column = heading.column(&table.extremes, found)?;
    table.remarks(found);
    if listed.is_empty() {
        column.overflow = table.samples(column.period_ns, found);
    } else {
        put_buckets(&mut column, listed)?;
        let listed = column.listed().saturating_add(column.overflow);
        if samples.is_some_and(|stated: u64| stated != listed) {
            let stated = samples.unwrap_or(0);
            found.lacks(format!("{stated} samples are stated and {listed} listed: lines are missing"));
        }
    }
    found.columns.push(column);
    Ok(())
}

/// Puts the buckets of `-h` in. Their width is not stated: it is the default of 1 us unless the worst latency
/// contradicts that.
fn put_buckets(column: &mut ImportedSeries, listed: BTreeMap<u64, u64>) -> Result<(), String> {
    let last = listed.last_key_value().map_or(0, |(from, _)| *from);
    if column.max.is_some_and(|max_ns| max_ns / 1_000 < last) && column.min != Some(0) {
        return Err("its histogram has buckets of another width than 1 us, which it does not state".into());
    }
    // The last bucket holds everything above.
    let is_open = column.max.is_some_and(|max_ns| max_ns >= last.saturating_mul(1_000).saturating_add(1_000));
    of_microseconds(column, listed.into_iter().collect(), is_open);
    Ok(())
}

/// Puts buckets of 1 us in; `is_open` where the last one holds everything above, too.
fn of_microseconds(column: &mut ImportedSeries, buckets: Vec<(u64, u64)>, is_open: bool) {
    column.width = 1_000;
    column.buckets = buckets.into_iter().map(|(from, count)| (from.saturating_mul(1_000), count)).collect();
    if is_open && let Some((from, count)) = column.buckets.pop() {
        (column.overflow_from, column.overflow) = (Some(from), count);
    }
}

/// `avg| 3 -  4 | 123` as bucket and count; lists of each second's minimum and maximum have no samples of
/// ours.
fn bucket_of_samples(cells: &str) -> Option<(u64, u64)> {
    let mut cells = cells.split('|').map(str::trim);
    let (kind, range, count) = (cells.next()?, cells.next()?, cells.next()?);
    let bucket = (range.split('-').next()?.trim().parse().ok()?, count.parse().ok()?);
    Some(if kind == "avg" { bucket } else { (0, 0) })
}

/// `00:01:30` in seconds.
fn clock_s(text: &str) -> Option<u64> {
    text.trim().split(':').try_fold(0u64, |sum, part| sum.checked_mul(60)?.checked_add(part.parse().ok()?))
}

/// Reads `latmus -g`.
fn read_histogram(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (mut heading, mut figures, mut samples) = (Heading::default(), Extremes::default(), None);
    let (mut buckets, mut is_open) = (Vec::<(u64, u64)>::new(), false);
    while let Some(line) = scan.next()? {
        let bad = || line.unreadable();
        if let Some((name, value)) = line.text.strip_prefix("# ").and_then(|line| line.split_once(':')) {
            let (value, figure) = (value.trim(), || thousandths(value.trim()).ok_or_else(bad));
            let count = || value.parse().map_err(|_| bad());
            match name {
                "OVERRUNS" => figures.overruns = count()?,
                "min latency" => figures.best_ns = Some(figure()?),
                "avg latency" => figures.avg_ns = Some(figure()?),
                "max latency" => figures.worst_ns = figures.worst_ns.max(Some(figure()?)),
                "sample count" => samples = Some(count()?),
                "libevl version" => found.manifest.written_by.version = Some(value.to_string()),
                _ => heading.take(name, value).ok_or_else(bad)?,
            }
        } else if line.starts_with("# Linux version ") {
            let release = line.split_whitespace().nth(3).map(str::to_string);
            let version = line.find(" #").map(|at| line[at + 1..].to_string());
            found.manifest.machine.kernel = kernel(release, version, false);
        } else if is_row(&line) {
            let mut row = Rows::default();
            row.take(&line)?;
            figures.worst_ns = figures.worst_ns.max(row.extremes.worst_ns);
            figures.overruns = figures.overruns.max(row.extremes.overruns);
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let (label, count) = line.split_once(' ').ok_or_else(bad)?;
            let from = label.trim_end_matches('+').parse().map_err(|_| bad())?;
            second_run_if(buckets.last().is_some_and(|before| before.0 >= from) || is_open)?;
            is_open = label.ends_with('+');
            buckets.push((from, count.trim().parse().map_err(|_| bad())?));
        }
    }
    let mut column = heading.column(&figures, found)?;
    of_microseconds(&mut column, buckets, is_open);
    let listed = column.listed().saturating_add(column.overflow);
    match samples {
        Some(stated) if stated != listed => {
            found.lacks(format!("{stated} samples are stated and {listed} listed: the file was cut short"));
            column.overflow = column.overflow.saturating_add(stated.saturating_sub(listed));
        }
        Some(_) => {}
        None => found.lacks("the file does not state its sample count: it was cut short"),
    }
    if figures.worst_ns.is_none() {
        found.lacks("the file does not state its maximum: it was cut short");
    }
    found.columns.push(column);
    Ok(())
}
