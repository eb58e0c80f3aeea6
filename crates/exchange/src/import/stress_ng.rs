// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `stress-ng --cyclic` prints: figures, percentiles, and with `--cyclic-dist` a histogram.
//!
//! Every figure is in nanoseconds, on lines of a log (`stress-ng: info:  [22648] cyclic: …`). Each cycle
//! sleeps anew, so that none can be missed. Without a histogram the percentiles serve as one: they are
//! samples, and what lies between two of them is counted at the upper one. Only the first instance prints,
//! without its CPU; samples beyond its buffer are not in its figures.

use super::column::{ImportedFile, ImportedSeries};
use super::figures::thousandths;
use super::text::whole_lines;

/// What the stressor says in a line of the log.
pub(super) fn message(line: &str) -> Option<&str> {
    let rest = line.split_once("cyclic: ")?;
    let head = rest.0.trim_end_matches("stress-ng-");
    (head.is_empty() || head.ends_with(' ')).then(|| rest.1.trim())
}

/// Whether a line states the samples.
pub(super) fn is_head(line: &str) -> bool {
    message(line).is_some_and(|message| message.starts_with("sched ") && message.ends_with("samples"))
}

/// Whether a line states the extremes.
pub(super) fn is_extremes(line: &str) -> bool {
    message(line).is_some_and(|message| message.starts_with("min:") && message.contains("max:"))
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

/// Reads the log.
pub(super) fn read(text: &str) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("stress-ng", None);
    let mut log = StressNgLog::default();
    for (n, line) in whole_lines(text, &mut found.missing).lines().enumerate() {
        let Some(message) = message(line) else { continue };
        let bad = || format!("line {}: '{message}' is not a line of stress-ng --cyclic", n + 1);
        if message.starts_with("sched ") && log.samples.is_some() {
            return Err("it holds more than one run".into());
        }
        take(&mut log, &mut found, message).ok_or_else(bad)?;
    }
    found.cpus_known = false;
    let policy = log.policy.as_deref().and_then(|policy| policy.strip_prefix("SCHED_"));
    found.scheduled(policy.map(str::to_lowercase).as_deref(), None);
    for (what, is_there) in [
        ("number of samples", log.samples.is_some()),
        ("minimum and maximum", log.max.is_some()),
        ("mean", log.mean.is_some()),
    ] {
        if !is_there {
            found.missing.push(format!("the log has no {what}: it was cut short"));
        }
    }
    let column = column(log, &mut found);
    found.columns.push(column);
    Ok(found)
}

fn column(log: StressNgLog, found: &mut ImportedFile) -> ImportedSeries {
    let samples = log.samples.unwrap_or(0);
    let mut column = ImportedSeries {
        probe: "wakeup",
        unit_ns: 1,
        width: 1,
        min: log.min,
        avg: log.mean,
        max: log.max,
        ..ImportedSeries::default()
    };
    match log.width {
        Some(width) if width > 0 => {
            column.width = width;
            column.overflow_from = log.buckets.last().map(|bucket| bucket.0.saturating_add(width));
            column.buckets = log.buckets.into_iter().filter(|bucket| bucket.1 > 0).collect();
            column.set_total(samples, &mut found.missing);
            let end = log.bucket_count.and_then(|count| count.checked_mul(width));
            if end.is_none() || column.overflow_from != end {
                found.missing.push("the log does not have all its buckets: it was cut short".into());
            }
        }
        _ => {
            column.buckets = between(&log, samples);
            column.overflow = samples.saturating_sub(column.listed());
            if log.percentiles.len() < 9 {
                found.missing.push("the log has fewer than nine percentiles: it was cut short".into());
            }
            found.note("samples between two percentiles of stress-ng are counted at the upper one");
        }
    }
    column
}

/// Buckets made of percentiles. Their sample is the one at that part of all samples in ascending order, so
/// that as many lie at or below it.
fn between(log: &StressNgLog, samples: u64) -> Vec<(u64, u64)> {
    let mut buckets = Vec::new();
    let mut counted = 0u64;
    if let Some(min) = log.min.filter(|_| samples > 0) {
        buckets.push((min, 1));
        counted = 1;
    }
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

/// Takes what the stressor says; `None` where a figure cannot be read.
fn take(log: &mut StressNgLog, found: &mut ImportedFile, message: &str) -> Option<()> {
    if let Some(rest) = message.strip_prefix("sched ") {
        let (policy, rest) = rest.split_once(':')?;
        log.policy = Some(policy.to_string());
        let (delay, samples) = rest.split_once(',')?;
        let delay = delay.trim().strip_suffix("ns delay")?.trim();
        found.note(format!("each cycle of stress-ng slept {delay} ns anew: none of them can be missed"));
        log.samples = Some(samples.trim().strip_suffix("samples")?.trim().parse().ok()?);
    } else if let Some(rest) = message.strip_prefix("mean:") {
        log.mean = Some(thousandths(rest.split_whitespace().next()?)? as f64 / 1e3);
    } else if let Some(rest) = message.strip_prefix("min:") {
        log.min = Some(rest.split_whitespace().next()?.parse().ok()?);
        log.max = Some(rest.split_once("max:")?.1.split_whitespace().next()?.parse().ok()?);
    } else if let Some(rest) = message.strip_prefix("latency distribution (") {
        log.width = Some(rest.split_whitespace().next()?.parse().ok()?);
    } else if let Some(rest) = message.strip_prefix("(for the first ") {
        log.bucket_count = Some(rest.split_whitespace().next()?.parse().ok()?);
    } else if let Some(rest) = message.strip_prefix("Note: --cyclic-samples needed to be ") {
        let needed = rest.split_whitespace().next()?;
        found.missing.push(format!(
            "stress-ng recorded only the first of {needed} samples; give --cyclic-samples={needed}"
        ));
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
