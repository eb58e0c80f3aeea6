// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of `stress-ng --cyclic`: figures, percentiles, and with `--cyclic-dist` a histogram.
//!
//! Every figure is in nanoseconds, on lines of a log (`stress-ng: info:  [22648] cyclic: …`). Each cycle
//! sleeps anew, so that none can be missed. Without a histogram the percentiles serve as one: they are
//! samples, and what lies between two of them is counted at the upper one. Only the first instance prints,
//! without its CPU; samples beyond its buffer are not in its figures.

use crate::import::figures::after;
use crate::import::scan::prelude::*;

pub(in crate::import) const FORMAT: Description = Description {
    lacks: &[Lack::Cpus],
    says: &[
        Says::Lines(Losses, &["{}Note: --cyclic-samples needed to be {some} {}"]),
        Says::Lines(
            Aborts,
            &[
                "stress-ng: fail:{}",
                "stress-ng: error:{}",
                "{}unsuccessful run completed{}",
                "{}terminated on signal{}",
            ],
        ),
        Says::NoLine(Totals, "the samples of its line 'sched'"),
        Says::NoLine(Worse, "max: is its only figure of the kind"),
        Says::NoLine(Stops, "it has no threshold"),
        Says::NoLine(Doubts, "it doubts nothing but for samples that it lost"),
    ],
    ..Description::of("stress-ng --cyclic", "stress-ng", Told::Lines(mark), Digits::All, read)
};

fn mark(line: &str) -> Option<Mark> {
    let message = message(line)?;
    let is_head = message.starts_with("sched ") && message.ends_with("samples");
    Mark::first([is_head, message.starts_with("min:") && message.contains("max:")])
}

/// The message of the stressor in a line of the log.
fn message(line: &str) -> Option<&str> {
    let rest = line.split_once("cyclic: ")?;
    let head = rest.0.trim_end_matches("stress-ng-");
    (head.is_empty() || head.ends_with(' ')).then(|| rest.1.trim())
}

#[derive(Debug, Default)]
struct StressNgLog {
    policy: Option<String>,
    samples: Option<u64>,
    mean: Option<f64>,
    min: Option<u64>,
    max: Option<u64>,
    /// Thousandths of a percent, and the sample there.
    percentiles: Vec<(u64, u64)>,
    width: Option<u64>,
    buckets: Vec<(u64, u64)>,
    /// How many buckets are listed, zeros between them left out.
    bucket_count: Option<u64>,
}

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let mut log = StressNgLog::default();
    while let Some(line) = scan.next()? {
        let Some(message) = message(line.text) else { continue };
        second_run_if(message.starts_with("sched ") && log.samples.is_some())?;
        take(&mut log, found, message).ok_or_else(|| line.part(message).unreadable())?;
    }
    let policy = log.policy.as_deref().and_then(|policy| policy.strip_prefix("SCHED_"));
    found.scheduled(policy.map(str::to_lowercase).as_deref(), None);
    for (what, is_there) in [
        ("number of samples", log.samples.is_some()),
        ("minimum and maximum", log.max.is_some()),
        ("mean", log.mean.is_some()),
    ] {
        if !is_there {
            found.lacks(format!("the log has no {what}: it was cut short"));
        }
    }
    let samples = log.samples.unwrap_or(0);
    let column = ImportedSeries::new(RowKind::Wakeup, 0, 1);
    let mut column = ImportedSeries { min: log.min, avg: log.mean, max: log.max, ..column };
    if let Some(width) = log.width.filter(|width| *width > 0) {
        column.width = width;
        column.overflow_from = log.buckets.last().map(|bucket| bucket.0.saturating_add(width));
        column.buckets = log.buckets.into_iter().filter(|bucket| bucket.1 > 0).collect();
        column.set_total(samples, found);
        let end = log.bucket_count.and_then(|count| count.checked_mul(width));
        if end.is_none() || column.overflow_from != end {
            found.lacks("the log does not have all its buckets: it was cut short");
        }
    } else {
        column.buckets = between(&log, samples);
        column.overflow = samples.saturating_sub(column.listed());
        if log.percentiles.len() < 9 {
            found.lacks("the log has fewer than nine percentiles: it was cut short");
        }
        found.note("samples between two percentiles of stress-ng are counted at the upper one");
    }
    found.columns.push(column);
    Ok(())
}

/// Buckets made of percentiles. Their sample is the one at that part of all samples in ascending order, so
/// that as many lie at or below it.
fn between(log: &StressNgLog, samples: u64) -> Vec<(u64, u64)> {
    let first = log.min.filter(|_| samples > 0).map(|min| (min, 1));
    let (mut buckets, mut counted) = (Vec::from_iter(first), u64::from(first.is_some()));
    for (part, value) in &log.percentiles {
        let below = u128::from(samples) * u128::from(*part) / 100_000;
        // The maximum is recorded as such.
        let until = u64::try_from(below).unwrap_or(u64::MAX).saturating_add(1).min(samples.saturating_sub(1));
        if until > counted {
            buckets.push((*value, until - counted));
            counted = until;
        }
    }
    buckets
}

/// Takes a message of the stressor; `None` where a figure cannot be read.
fn take(log: &mut StressNgLog, found: &mut ImportedFile, message: &str) -> Option<()> {
    let number = |name: &str| after(message, name)?.parse::<u64>().ok();
    if let Some(rest) = message.strip_prefix("sched ") {
        let (policy, rest) = rest.split_once(':')?;
        log.policy = Some(policy.to_string());
        let (delay, samples) = rest.split_once(',')?;
        let delay = delay.trim().strip_suffix("ns delay")?.trim();
        found.note(format!("each cycle of stress-ng slept {delay} ns anew: none of them can be missed"));
        log.samples = Some(samples.trim().strip_suffix("samples")?.trim().parse().ok()?);
    } else if message.starts_with("mean:") {
        log.mean = Some(thousandths(after(message, "mean:")?)? as f64 / 1e3);
    } else if message.starts_with("min:") {
        (log.min, log.max) = (Some(number("min:")?), Some(number("max:")?));
    } else if message.starts_with("latency distribution (") {
        log.width = Some(number("latency distribution (")?);
    } else if message.starts_with("(for the first ") {
        log.bucket_count = Some(number("(for the first ")?);
    } else if let Some((part, value)) = message.split_once("%:") {
        let part = u64::try_from(thousandths(part.trim())?).ok()?;
        let value = value.trim().strip_suffix("ns")?.trim().parse().ok()?;
        log.percentiles.push((part, value));
    } else if log.width.is_some() && message.starts_with(|c: char| c.is_ascii_digit()) {
        let (from, count) = message.split_once(' ')?;
        let bucket = (from.parse().ok()?, count.trim().parse().ok()?);
        if log.buckets.last().is_some_and(|before| before.0 >= bucket.0) {
            return None;
        }
        log.buckets.push(bucket);
    }
    Some(())
}
