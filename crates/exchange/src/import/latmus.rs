// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram that EVL's `latmus -g` writes for gnuplot.
//!
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
//! A bucket is 1 us. A `+` behind the last one says that it holds everything above, too. The table that
//! latmus prints may stand in the same text: its worst latency and overruns count where they are worse.

use super::column::{ImportedFile, ImportedSeries, kernel};
use super::figures::{second_run, thousandths};
use super::scan::Scan;
use super::scan::format::{Answer, Description, Mark, Told};
use super::xenomai;

pub(super) const FORMAT: Description = Description {
    name: "latmus histogram",
    program: "latmus",
    told: Told::Lines(|line| {
        Mark::beginning(line, &["# sample count:", "# max latency:", "# sampling period:"])
    }),
    parts: &["Xenomai latency"],
    totals: Answer::Field("# sample count:"),
    read,
    ..xenomai::FORMAT
};

/// Figures of the head, in thousandths of a microsecond.
#[derive(Debug, Default)]
struct LatmusHead<'a> {
    context: Option<&'a str>,
    cpu: Option<u32>,
    period_us: Option<u64>,
    priority: Option<u64>,
    overruns: u64,
    min_ns: Option<i64>,
    avg_ns: Option<i64>,
    max_ns: Option<i64>,
    samples: Option<u64>,
}

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let (mut head, mut found) = (LatmusHead::default(), scan.file());
    let (mut buckets, mut last_is_open) = (Vec::<(u64, u64)>::new(), false);
    while let Some(line) = scan.next()? {
        let bad = || line.unreadable();
        if let Some((name, value)) = line.text.strip_prefix("# ").and_then(|line| line.split_once(':')) {
            take(&mut head, &mut found, name, value.trim()).ok_or_else(bad)?;
        } else if line.starts_with("# Linux version ") {
            let release = line.split_whitespace().nth(3).map(str::to_string);
            let version = line.find(" #").map(|at| line[at + 1..].to_string());
            found.manifest.machine.kernel = kernel(release, version, false);
        } else if xenomai::is_row(&line) {
            let (worst_ns, overruns) = xenomai::worst(&line)?;
            head.max_ns = head.max_ns.max(Some(worst_ns));
            head.overruns = head.overruns.max(overruns);
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let (label, count) = line.split_once(' ').ok_or_else(bad)?;
            let from = label.trim_end_matches('+').parse().map_err(|_| bad())?;
            if buckets.last().is_some_and(|before| before.0 >= from) || last_is_open {
                return second_run();
            }
            last_is_open = label.ends_with('+');
            buckets.push((from, count.trim().parse().map_err(|_| bad())?));
        }
    }
    found.cpus_known = head.cpu.is_some();
    found.scheduled(None, head.priority);
    let column = column(&head, buckets, last_is_open, &mut found)?;
    found.columns.push(column);
    Ok(found)
}

fn column(
    head: &LatmusHead,
    mut buckets: Vec<(u64, u64)>,
    is_open: bool,
    found: &mut ImportedFile,
) -> Result<ImportedSeries, String> {
    let from_zero = |ns: Option<i64>| ns.map(|ns| u64::try_from(ns).unwrap_or(0));
    let mut column = ImportedSeries {
        probe: xenomai::probe(head.context)?,
        cpu: head.cpu.unwrap_or(0),
        period_ns: head.period_us.and_then(|us| us.checked_mul(1_000)).filter(|ns| *ns > 0),
        unit_ns: 1,
        width: 1_000,
        min: from_zero(head.min_ns),
        avg: from_zero(head.avg_ns).map(|ns| ns as f64),
        max: from_zero(head.max_ns),
        missed: head.overruns,
        ..ImportedSeries::default()
    };
    let listed = buckets.iter().fold(0u64, |sum, bucket| sum.saturating_add(bucket.1));
    if is_open && let Some((from, count)) = buckets.pop() {
        column.overflow_from = Some(from.saturating_mul(1_000));
        column.overflow = count;
    }
    column.buckets = buckets.into_iter().map(|(from, count)| (from.saturating_mul(1_000), count)).collect();
    match head.samples {
        Some(stated) if stated != listed => {
            found
                .missing
                .push(format!("{stated} samples are stated and {listed} listed: the file was cut short"));
            column.overflow = column.overflow.saturating_add(stated.saturating_sub(listed));
        }
        Some(_) => {}
        None => found.missing.push("the file does not state its sample count: it was cut short".into()),
    }
    if head.max_ns.is_none() {
        found.missing.push("the file does not state its maximum: it was cut short".into());
    }
    Ok(column)
}

/// Takes a line of the head; `None` where it cannot be read.
fn take<'a>(head: &mut LatmusHead<'a>, found: &mut ImportedFile, name: &str, value: &'a str) -> Option<()> {
    match name {
        "context" => head.context = Some(value),
        "sampling period" => head.period_us = Some(value.strip_suffix("microseconds")?.trim().parse().ok()?),
        "thread priority" => head.priority = Some(value.parse().ok()?),
        "thread affinity" => head.cpu = Some(value.strip_prefix("CPU")?.split('-').next()?.parse().ok()?),
        "OVERRUNS" => head.overruns = value.parse().ok()?,
        "min latency" => head.min_ns = Some(thousandths(value)?),
        "avg latency" => head.avg_ns = Some(thousandths(value)?),
        "max latency" => head.max_ns = head.max_ns.max(Some(thousandths(value)?)),
        "sample count" => head.samples = Some(value.parse().ok()?),
        "libevl version" => found.manifest.written_by.version = Some(value.to_string()),
        _ => {}
    }
    Some(())
}
