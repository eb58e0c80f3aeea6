// SPDX-License-Identifier: MIT OR Apache-2.0
//! What oslat prints, and what its figures mean, in text and JSON alike.
//!
//! oslat rounds an iteration up to whole microseconds, so that its `1` is anything up to 1 us; that value is
//! kept: it is never too low. A wider bucket (`-W`) is taken to begin at its label, so that nothing in it is
//! too early. The last bucket holds its own value and everything above. Since rt-tests 2.5 every bucket is
//! labelled, and the average computed, 1 us too high while minimum and maximum are right: where the lowest
//! bucket lies exactly 1 us above the stated minimum, both are put back and that is noted.

use std::collections::BTreeMap;

use super::column::{ImportedFile, ImportedSeries, cpus};
use super::command::Syntax;
use super::text::{is_row, whole_lines};

use machine::units::whole_us;

/// oslat's options.
pub(super) const SYNTAX: Syntax = Syntax {
    letters: "b:Bc:C:D:f:hm:qsT:vw:W:z",
    names: &[("bucket-width", 'W'), ("duration", 'D'), ("rtprio", 'f')],
};

/// Puts labels right and sets the last bucket's overflow apart.
pub(super) fn settle(column: &mut ImportedSeries, found: &mut ImportedFile) {
    column.buckets.retain(|bucket| bucket.1 > 0);
    // The table alone counts; without it the minimum and the maximum are two samples, and more are not known.
    if column.buckets.is_empty() && column.max.is_some_and(|max| max > 0) {
        column.unplaced = 2;
        found.missing.push(format!("spin on cpu {}: figures are stated and no sample is listed", column.cpu));
    }
    let lowest = column.buckets.first().map_or(0, |bucket| bucket.0);
    if column.width == 1 && column.min.is_some_and(|min| min.checked_add(1) == Some(lowest)) {
        column.buckets.iter_mut().for_each(|bucket| bucket.0 -= 1);
        column.avg = column.avg.map(|avg| avg - 1.0);
        let cpu = column.cpu;
        found
            .note(format!("spin on cpu {cpu}: oslat labelled its buckets 1 us too high, which is put right"));
    }
    if let (Some(last), Some(max)) = (column.buckets.last().copied(), column.max)
        && max > last.0.saturating_add(column.width - 1)
    {
        column.buckets.pop();
        column.overflow = last.1;
        column.overflow_from = Some(last.0);
    }
}

/// The bucket whose row a line is: `001 (us): 0 0`.
pub(super) fn bucket(line: &str) -> Option<u64> {
    line.split_once(':')?.0.strip_suffix(" (us)")?.trim().parse().ok()
}

/// What the text states beside its table.
const FIGURES: [&str; 10] = [
    "Core",
    "Counter Freq",
    "Minimum",
    "Average",
    "Maximum",
    "Max-Min",
    "Duration",
    "Total runtime",
    "CPU list",
    "Thread priority",
];

/// `oslat: Trace threshold (20 us) triggered on cpu 3 with 41 us!` as CPU and gap.
fn hit(line: &str) -> Option<(u32, u64)> {
    let (_, rest) = line.split_once("triggered on cpu ")?;
    let (cpu, rest) = rest.split_once(" with ")?;
    Some((cpu.trim().parse().ok()?, rest.split_whitespace().next()?.parse().ok()?))
}

/// A figure; an error where it is none.
fn number<T: std::str::FromStr>(name: &str, text: Option<&str>) -> Result<Option<T>, String> {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parse = |text: &str| text.parse().ok().filter(|_| plain(text));
    text.map(|text| parse(text).ok_or_else(|| format!("'{name}: {text}' is not a figure"))).transpose()
}

/// Reads the text.
pub(super) fn read(text: &str) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("oslat", None);
    let mut figures: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut rows: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut hits = Vec::new();
    for (n, line) in whole_lines(text, &mut found.missing).lines().enumerate() {
        if let Some(version) = line.strip_prefix("oslat V ") {
            found.manifest.written_by.version = Some(version.trim().to_string());
        }
        if let Some(hit) = hit(line) {
            hits.push(hit);
            continue;
        }
        let Some((name, rest)) = line.split_once(':') else {
            if is_row(line) {
                return Err(format!("line {}: '{line}' cannot be read as a row of oslat", n + 1));
            }
            continue;
        };
        let values = rest.split('(').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
        match name.trim().strip_suffix(" (us)") {
            Some(label) => {
                let bad = |what: &str| format!("line {}: '{what}' is not a count", n + 1);
                let counts = values.iter().map(|word| word.parse().map_err(|_| bad(word)));
                let counts = counts.collect::<Result<_, _>>()?;
                if rows.insert(label.trim().parse().map_err(|_| bad(label))?, counts).is_some() {
                    return Err("it holds more than one run".into());
                }
            }
            None if FIGURES.contains(&name.trim()) && figures.insert(name.trim(), values).is_some() => {
                return Err("it holds more than one run".into());
            }
            None if is_row(line) || name.starts_with(|c: char| c.is_ascii_digit()) => {
                return Err(format!("line {}: '{line}' cannot be read as a row of oslat", n + 1));
            }
            None => {}
        }
    }
    let numbers =
        (0..rows.first_key_value().map_or(0, |row| row.1.len())).map(|n| n.to_string()).collect::<Vec<_>>();
    let cores = match figures.get("Core") {
        Some(cores) => cores.clone(),
        None if numbers.is_empty() => {
            return Err("it has neither a line 'Core:' with the CPUs nor a table".into());
        }
        None => {
            found.cpus_known = false;
            numbers.iter().map(String::as_str).collect()
        }
    };
    if let Some((label, row)) = rows.iter().find(|row| row.1.len() != cores.len()) {
        return Err(format!("bucket {label} has {} columns for {} CPUs", row.len(), cores.len()));
    }
    for name in ["Minimum", "Average", "Maximum", "Duration"] {
        if figures.get(name).is_none_or(|values| values.len() != cores.len()) {
            found.missing.push(format!("the file has no '{name}:' for every CPU: it was cut short"));
            figures.remove(name);
        }
    }
    // Where rows without a count are listed too, the labels show how wide a bucket is (-W).
    let labels = rows.keys().copied().collect::<Vec<_>>();
    let lists_all = rows.values().any(|counts| counts.iter().all(|count| *count == 0));
    let width = labels.windows(2).map(|pair| pair[1] - pair[0]).min().filter(|_| lists_all).unwrap_or(1);
    for (place, core) in cores.iter().enumerate() {
        let figure = |name: &str| figures.get(name).map(|values| values[place]);
        let mut column = ImportedSeries {
            probe: "spin",
            cpu: core.parse().map_err(|_| format!("'{core}' is no CPU"))?,
            unit_ns: 1_000,
            width,
            buckets: rows.iter().map(|(label, counts)| (*label, counts[place])).collect(),
            min: number("Minimum", figure("Minimum"))?,
            avg: number("Average", figure("Average"))?,
            max: number("Maximum", figure("Maximum"))?,
            ..ImportedSeries::default()
        };
        settle(&mut column, &mut found);
        found.columns.push(column);
    }
    for (cpu, us) in hits {
        found.note(format!("oslat stopped at {} on cpu {cpu} (-T)", whole_us(us)));
        match found.columns.iter_mut().find(|column| column.cpu == cpu) {
            Some(column) => column.state_max(us),
            None => found.missing.push(format!(
                "spin on cpu {cpu}: a gap of {} is stated, and no column is of it",
                whole_us(us)
            )),
        }
    }
    let figure = |name: &str| figures.get(name).and_then(|values| values.first()).copied();
    let seconds = figures.get("Total runtime").filter(|values| values.get(1) == Some(&"seconds"));
    let duration_ns = seconds.and_then(|values| values[0].parse::<u64>().ok()?.checked_mul(1_000_000_000));
    let list = figure("CPU list").and_then(cpus);
    let priority = figure("Thread priority").map(str::to_string);
    found.manifest.asked.duration_ns = duration_ns;
    found.manifest.asked.cpus = list.unwrap_or_default();
    match priority.as_deref() {
        Some("default") => found.scheduled(Some("other"), None),
        Some(text) => {
            let priority = text.strip_prefix("SCHED_FIFO:").and_then(|priority| priority.parse().ok());
            found.scheduled(priority.map(|_| "fifo"), priority);
        }
        None => {}
    }
    Ok(found)
}
