// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage: where the parts of a bundle contradict one another, or what was asked is not there.
//!
//! A series is kept twice, as a histogram and as seconds, and the manifest and the list of spikes speak of
//! both. The writer makes them agree, so a difference means a disk that failed, a copy that was cut, or an
//! edit. Every difference is listed, and a bundle with one cannot hold.
//!
//! Limits: a row that still runs may differ by its last second. Other tools' files have no seconds, and state
//! a minimum and a maximum of their own. A forger that changes all parts alike is not found.

use std::collections::{BTreeMap, BTreeSet};

use crate::histogram::Histogram;
use crate::kind::{RowKind, RowsOf};
use crate::limit::Limits;
use crate::manifest::{Manifest, RowEntry, RowKey, RunState, Second, Spike};
use crate::row::{Row, SPIKES};
use crate::series::Series;
use crate::taint::SAMPLES_LOST;
use machine::units::us;

/// The error of a sum that is made of a mean with three digits after the point, for each sample.
const MEAN_ERROR_NS: f64 = 0.001;

/// The share of cycles by which a whole row may differ from its length.
const LENGTH_ERROR: f64 = 0.02;

/// Where a finished row contradicts itself; `through` is the last second that its histograms speak of.
pub(crate) fn of_row(
    entry: &RowEntry,
    series: &Series,
    through: Option<u32>,
    has_journal: bool,
    is_ours: bool,
) -> Vec<String> {
    let name = format!("series/{}", entry.files);
    let mut found = Vec::new();
    if entry.state != RunState::Running && has_journal {
        found.push(format!("{name}.journal is still there, but the manifest says that the row ended"));
    }
    // The buckets of a journal run ahead of its seconds, by what was measured of the one that goes on.
    if entry.state != RunState::Running || !has_journal {
        found.extend(of_buckets(&series.latency, is_ours).map(|why| format!("{name}.histograms.csv: {why}")));
    }
    let samples = series.latency.count();
    let more = [
        ("its jitter", series.early.count().saturating_add(series.late.count())),
        (
            "its persistence picture",
            series.persistence.cells.iter().map(|(.., cell)| cell.count).fold(0, u64::saturating_add),
        ),
    ];
    let more = more.into_iter().filter(|(_, count)| *count > samples);
    found.extend(more.map(|(what, count)| {
        format!("{name}.histograms.csv: {what} counts {count} samples, its latencies {samples}")
    }));
    let seconds = &series.seconds;
    if let Some(why) = of_seconds(seconds) {
        found.push(format!("{name}.seconds.csv: {why}"));
    } else if entry.state != RunState::Running && (is_ours || !seconds.is_empty()) {
        found.extend(between(&name, series, through));
    }
    found
}

/// Where a histogram contradicts itself.
fn of_buckets(latency: &Histogram, is_ours: bool) -> Option<String> {
    let (first, last) = (latency.buckets().next()?, latency.buckets().last()?);
    let (min_ns, max_ns) = (latency.min_ns(), latency.max_ns());
    // Another tool may know its extremes better than its buckets.
    if max_ns < last.from_ns || (is_ours && max_ns > last.to_ns) {
        return Some(format!("the maximum {max_ns} ns is not in the last bucket"));
    }
    if is_ours && !(first.from_ns..=first.to_ns).contains(&min_ns) {
        return Some(format!("the minimum {min_ns} ns is not in the first bucket"));
    }
    // The spin probe knows gaps to a tick, and the histogram to the nanosecond below.
    let sums = latency.buckets().fold((0.0, 0.0), |(low, high), bucket| {
        let count = bucket.count as f64;
        (low + bucket.from_ns as f64 * count, high + (bucket.to_ns as f64 + 1.0) * count)
    });
    let (sum, slack) = (latency.sum_ns() as f64, 1e-9 * sums.1 + 1e6);
    (is_ours && (sum < sums.0 - slack || sum > sums.1 + slack))
        .then(|| format!("the sum {} ns is not that of its buckets", latency.sum_ns()))
}

/// Where a table of seconds contradicts itself: the first such line.
fn of_seconds(seconds: &[Second]) -> Option<String> {
    let mut before = None;
    for second in seconds {
        if before > Some(second.second) {
            let before = before.unwrap_or(0);
            return Some(format!("seconds are out of order: {} after {before}", second.second));
        }
        before = Some(second.second);
        let Second { count, min_ns, sum_ns, max_ns, .. } = *second;
        let mean_ns = sum_ns as f64 / count.max(1) as f64;
        let (low, high) = (min_ns as f64 - 1.0, (max_ns as f64 + 1.0) * 1.001);
        // A sum of absurd times ends at the largest number.
        let is_capped = sum_ns == u64::MAX && high * count as f64 >= u64::MAX as f64;
        let is_possible = match count {
            0 => (min_ns, sum_ns, max_ns) == (0, 0, 0),
            _ => min_ns <= max_ns && (is_capped || (low..=high).contains(&mean_ns)),
        };
        if !is_possible {
            return Some(format!(
                "second {} has a count, minimum, mean and maximum that cannot be",
                second.second
            ));
        }
    }
    None
}

/// Where the histogram and the seconds of a row contradict each other.
fn between(name: &str, series: &Series, through: Option<u32>) -> Vec<String> {
    let Series { latency, seconds, .. } = series;
    let held = seconds.iter().fold(0, |sum: u64, second| sum.saturating_add(second.count));
    let measured = latency.count();
    if held < measured {
        return vec![format!("{name}.seconds.csv has {held} of {measured} samples: the rest was cut off")];
    }
    if held > measured {
        return vec![format!("{name}.histograms.csv has {measured} samples, its seconds have {held}")];
    }
    let mut found = Vec::new();
    let counted = || seconds.iter().filter(|second| second.count > 0);
    let extremes = [
        ("minimum", counted().map(|second| second.min_ns).min(), latency.min_ns()),
        ("maximum", counted().map(|second| second.max_ns).max(), latency.max_ns()),
    ];
    for (which, of_seconds, of_histogram) in extremes {
        if let Some(ns) = of_seconds.filter(|ns| *ns != of_histogram) {
            found.push(format!("{name}: the seconds' {which} is {ns} ns, the histogram's {of_histogram} ns"));
        }
    }
    let sum = seconds.iter().map(|second| second.sum_ns as f64).sum::<f64>();
    let slack = MEAN_ERROR_NS * held as f64 + seconds.len() as f64 + 1e-9 * sum;
    let is_capped = seconds.iter().any(|second| second.sum_ns == u64::MAX);
    if (sum - latency.sum_ns() as f64).abs() > slack && !is_capped {
        found.push(format!(
            "{name}: the seconds' sum is {sum:.0} ns, the histogram's {} ns",
            latency.sum_ns()
        ));
    }
    let last = seconds.last().map(|second| second.second);
    if through != last {
        let number = |second: Option<u32>| second.map_or("none".to_string(), |second| second.to_string());
        let (through, last) = (number(through), number(last));
        found.push(format!("{name}: the histograms end with second {through}, the seconds with {last}"));
    }
    found
}

/// Where the manifest, the rows and the spikes contradict one another.
pub(crate) fn of_bundle(manifest: &Manifest, rows: &[Row], spikes: &[Spike], is_of_lab: bool) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(repeated(&manifest.rows));
    found.extend(unended(manifest));
    found.extend(loosened(manifest));
    found.extend(of_spikes(rows, spikes, is_of_lab));
    let is_ours = manifest.written_by.program == "isolator";
    if is_ours && !is_of_lab && manifest.state != RunState::Running {
        found.extend(unmeasured(manifest));
        found.extend(rows.iter().filter_map(|row| wrong_length(manifest, row)));
    }
    found
}

/// Rows that are listed twice, or whose files are another row's.
fn repeated(rows: &[RowEntry]) -> Vec<String> {
    let (mut keys, mut files) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for entry in rows {
        if !keys.insert(&entry.key) {
            found.push(format!("{}: the manifest lists this row twice", entry.key));
        }
        if !files.insert(entry.files.as_str()) {
            found.push(format!("{}: its files series/{} are those of another row", entry.key, entry.files));
        }
    }
    found
}

/// Rows that never ended in a run that did.
fn unended(manifest: &Manifest) -> Vec<String> {
    let over = manifest.state != RunState::Running;
    let rows = manifest.rows.iter().filter(|entry| over && entry.state == RunState::Running);
    rows.map(|entry| format!("{}: its measurement did not end in order", entry.key)).collect()
}

/// Rows that are judged by a looser limit than was asked.
fn loosened(manifest: &Manifest) -> Vec<String> {
    let asked = |key: &RowKey| match key.period_ns.and_then(|ns| key.kind().own_limit_ns(ns)) {
        Some(own_ns) => Some(own_ns),
        None => Limits::parse(manifest.asked.limit.as_deref()?).ok()?.ns(key.period_ns).ok(),
    };
    let looser = |entry: &RowEntry| {
        let (limit_ns, asked_ns) = (entry.limit_ns?, asked(&entry.key)?);
        let line = format!("{}: its limit is {}, but {} was asked", entry.key, us(limit_ns), us(asked_ns));
        (limit_ns > asked_ns).then_some(line)
    };
    manifest.rows.iter().filter_map(looser).collect()
}

/// Spikes that are missing, or that no row has.
fn of_spikes(rows: &[Row], spikes: &[Spike], is_of_lab: bool) -> Vec<String> {
    let mut listed = BTreeMap::<&RowKey, (u64, u64, u64)>::new();
    for spike in spikes {
        let (count, missed, max_ns) = listed.entry(&spike.key).or_default();
        (*count, *missed) = (*count + 1, missed.saturating_add(spike.missed));
        // The latency of a program that stopped to cycle is a silence, and no sample.
        let is_silence = spike.key.kind() == RowKind::Loop && spike.missed > 0;
        *max_ns = if is_silence { *max_ns } else { spike.latency_ns.max(*max_ns) };
    }
    let mut found = Vec::new();
    let (mut lost, mut all) = (0u64, 0u64);
    for Row { entry, series, .. } in rows.iter().filter(|row| row.entry.state != RunState::Running) {
        let (count, missed, max_ns) = listed.remove(&entry.key).unwrap_or_default();
        let expected = entry.spikes.saturating_sub(entry.spikes_not_listed);
        (lost, all) = (lost.saturating_add(expected.saturating_sub(count)), all.saturating_add(expected));
        if count > expected {
            found.push(format!("{SPIKES} lists {count} spikes of {expected} of {}", entry.key));
        }
        if max_ns > series.latency.max_ns() {
            let (spike, row) = (us(max_ns), us(series.latency.max_ns()));
            found.push(format!("{}: a spike of {spike} is above the row's maximum {row}", entry.key));
        }
        if missed > series.missed() {
            let had = series.missed();
            found.push(format!("{}: its spikes missed {missed} periods, its seconds {had}", entry.key));
        }
    }
    if lost > 0 {
        found.push(format!("{SPIKES} lists {} spikes of {all}: the rest was cut off", all - lost));
    }
    let strangers = rows.iter().fold(listed, |mut listed, row| {
        listed.remove(&row.entry.key);
        listed
    });
    // Where the lab only counts, it keeps a guest's spikes for their causes.
    if !is_of_lab && !strangers.is_empty() {
        let keys = strangers.keys().take(3).map(ToString::to_string).collect::<Vec<_>>().join(", ");
        found.push(format!("{SPIKES} has spikes of rows that the manifest does not list: {keys}"));
    }
    found
}

/// Rows that were asked and neither measured nor reported as not run.
fn unmeasured(manifest: &Manifest) -> Vec<String> {
    let asked = &manifest.asked;
    let name = |load: &str| load.split('=').next().unwrap_or_default().to_string();
    let mut found = Vec::new();
    for load in asked.loads.iter().filter(|load| *load != "all") {
        let is_load = |other: &str| other == load || name(other) == name(load);
        for probe in &asked.probes {
            if manifest.not_run.iter().any(|row| row.probe == *probe && is_load(&row.load)) {
                continue;
            }
            let rows = manifest.rows.iter().map(|entry| &entry.key);
            let rows = rows.filter(|key| key.probe == *probe && is_load(&key.load)).collect::<Vec<_>>();
            // One CPU of a pair has no row of its own, and a program's loop runs where it likes.
            let periods = match RowKind::of(probe).rows() {
                _ if rows.is_empty() => {
                    found.push(format!("{probe} under {load}: its rows are missing"));
                    continue;
                }
                RowsOf::EachPair | RowsOf::Program => continue,
                RowsOf::EachPeriod => asked.periods_ns.iter().copied().map(Some).collect(),
                _ => vec![None],
            };
            // A file from elsewhere may have thousands of CPUs.
            let measured = rows.iter().flat_map(|key| [(key.cpu, key.period_ns), (key.cpu, None)]);
            let measured: BTreeSet<(u32, Option<u64>)> = measured.collect();
            for (cpu, period_ns) in asked.cpus.iter().flat_map(|cpu| periods.iter().map(move |ns| (cpu, *ns)))
            {
                if !measured.contains(&(cpu, period_ns)) {
                    let key = RowKey::new(probe, load, cpu, period_ns);
                    found.push(format!("{key}: its row is missing"));
                }
            }
        }
    }
    found
}

/// A row of cycles that is shorter than was asked, or has more cycles than its time has room for.
fn wrong_length(manifest: &Manifest, row: &Row) -> Option<String> {
    let Row { entry, series, .. } = row;
    let key = &entry.key;
    if key.kind().rows() != RowsOf::EachPeriod || entry.state != RunState::Finished {
        return None;
    }
    let period_ns = key.period_ns.filter(|ns| *ns > 0)? as f64;
    let cycles = series.latency.count().saturating_add(series.missed()) as f64;
    let seconds = series.seconds.last().map_or(0.0, |second| f64::from(second.second) + 1.0);
    let room = (seconds * 1e9 / period_ns) * (1.0 + LENGTH_ERROR) + 2.0;
    if cycles > room {
        return Some(format!("{key}: {cycles:.0} cycles are more than {seconds:.0} s have room for"));
    }
    let is_of_row = |cpu: Option<u32>| cpu.is_none_or(|cpu| cpu == key.cpu);
    let lost = manifest.taints.iter().any(|taint| taint.code == SAMPLES_LOST && is_of_row(taint.cpu));
    let asked = match (manifest.asked.loops, manifest.asked.duration_ns) {
        (None, Some(duration_ns)) if manifest.state == RunState::Finished && !lost => {
            duration_ns as f64 / period_ns
        }
        _ => return None,
    };
    (cycles < asked * (1.0 - LENGTH_ERROR) - 2.0)
        .then(|| format!("{key}: it has {cycles:.0} cycles of the {asked:.0} that were asked"))
}
