// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of `rtla timerlat hist` and `rtla osnoise hist`.
//!
//! A row is labelled with the smallest value of its bucket; the bucket's width (`-b`) is not said, but no
//! wider than the greatest common divisor of all labels. `count:` includes `over:`. Rows without a count are
//! left out, so that overflow begins somewhere after the last row. Neither period nor priority is in the
//! file.

use std::collections::BTreeMap;

use super::column::{ImportedFile, ImportedSeries};
use super::text::{is_row, whole_lines};

/// Lines below the table.
const FIGURES: [&str; 5] = ["over:", "count:", "min:", "avg:", "max:"];

pub(super) fn read(text: &str) -> Result<ImportedFile, String> {
    let mut missing = Vec::new();
    let mut lines = whole_lines(text, &mut missing).lines().enumerate();
    let mut found = ImportedFile::by("rtla", None);
    found.missing = missing;
    let mut unit_ns = None;
    let names = loop {
        let Some((_, line)) = lines.next() else {
            return Err("it has no line 'Index' with the columns (was it written with --no-header?)".into());
        };
        let mut words = line.split_whitespace();
        if words.next() == Some("Index") {
            break words.collect::<Vec<_>>();
        }
        match line.trim() {
            "# RTLA timerlat histogram" => found.skips_missed = true,
            "# Time unit is microseconds (us)" => unit_ns = Some(1_000),
            "# Time unit is nanoseconds (ns)" => unit_ns = Some(1),
            line => {
                if let Some(duration) = line.strip_prefix("# Duration:") {
                    found.note(format!("rtla ran for {} (days h:m:s)", duration.trim()));
                }
            }
        }
    };
    if names.is_empty() {
        return Err(
            "its histogram is empty: rtla recorded no sample (none was above the threshold of -T)".into()
        );
    }
    let unit_ns = unit_ns.ok_or("it does not say its time unit")?;
    let mut columns = names.iter().map(|name| column(name, unit_ns)).collect::<Result<Vec<_>, _>>()?;
    let mut figures: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    let mut labels = 0;
    // The figures of all CPUs below the table: heads, then maxima.
    let (mut all, mut worst) = (None::<Vec<&str>>, Vec::new());
    let mut stopped = StoppedAt::default();
    for (n, line) in lines {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let bad = |what: &str| format!("line {}: '{what}' is not one of its figures", n + 1);
        if line.starts_with("# RTLA") || first == "Index" {
            return Err("it holds more than one run".into());
        }
        stopped.take(line);
        if let Some(heads) = &all {
            if first == "max:" {
                let maxima = words.map(|word| figure(word).ok_or_else(|| bad(word)));
                let maxima = maxima.collect::<Result<Vec<_>, _>>()?;
                worst = heads.iter().copied().zip(maxima).collect();
            }
            continue;
        }
        if let Some(name) = FIGURES.iter().find(|name| **name == first) {
            let values = words.map(|word| figure(word).ok_or_else(|| bad(word)));
            if figures.insert(name, values.collect::<Result<_, _>>()?).is_some() {
                return Err("it holds more than one run".into());
            }
        } else if first == "ALL:" {
            all = Some(words.collect());
        } else if first.starts_with(|c: char| c.is_ascii_digit()) && figures.is_empty() {
            let label = first.parse().map_err(|_| bad(first))?;
            let counts = words.map(|word| word.parse().map_err(|_| bad(word)));
            let counts = counts.collect::<Result<Vec<u64>, String>>()?;
            if counts.len() != columns.len() {
                return Err(format!("line {}: {} counts for {} columns", n + 1, counts.len(), columns.len()));
            }
            if columns.iter().any(|column| column.buckets.last().is_some_and(|bucket| bucket.0 >= label)) {
                return Err(format!("line {}: bucket {label} comes too late, give one run alone", n + 1));
            }
            labels = divisor(labels, label);
            let nonzero = columns.iter_mut().zip(counts).filter(|(_, count)| *count > 0);
            nonzero.for_each(|(column, count)| column.buckets.push((label, count)));
        } else if is_row(line) {
            return Err(format!("line {}: '{line}' cannot be read as a row of rtla", n + 1));
        }
    }
    if text.contains("hit stop tracing") {
        found.note("rtla stopped at the threshold it was given");
    }
    for name in FIGURES {
        if figures.get(name).is_none_or(|values| values.len() != columns.len()) {
            found.missing.push(format!("the file has no '{name}' for every column: it was cut short"));
            figures.remove(name);
        }
    }
    let last = columns.iter().filter_map(|column| column.buckets.last()).map(|bucket| bucket.0).max();
    // Of the first bucket alone no label tells the width; the samples in it do.
    let widest = figures.get("max:").into_iter().flatten().flatten().map(|max| whole(*max) + 1).max();
    let width = if labels == 0 && last == Some(0) { widest.unwrap_or(1) } else { labels.max(1) };
    for (place, column) in columns.iter_mut().enumerate() {
        let figure = |name: &str| figures.get(name).and_then(|values| values[place]);
        column.width = width;
        column.overflow_from = last.map(|last| last.saturating_add(column.width));
        (column.min, column.max) = (figure("min:").map(whole), figure("max:").map(whole));
        column.avg = figure("avg:");
        column.overflow = figure("over:").map_or(0, whole);
        let count = column.samples();
        column.unplaced = figure("count:").map_or(0, whole).saturating_sub(count);
        if let Some(stated) = figure("count:").map(whole).filter(|stated| *stated != count) {
            found
                .missing
                .push(format!("{}: {count} samples are listed, its count says {stated}", names[place]));
        }
    }
    found.columns = columns;
    for (head, max) in worst {
        let (Some(max), Some(probe)) = (max.map(whole), probe(head)) else { continue };
        let of_it = found.columns.iter_mut().filter(|column| column.probe == probe);
        match of_it.max_by_key(|column| column.max) {
            Some(column) if column.max.is_some_and(|reached| reached >= max) => {}
            Some(column) => {
                column.state_max(max);
                found
                    .missing
                    .push(format!("no column of {head} reaches {max}, which the file states of all CPUs"));
            }
            None => {
                found.missing.push(format!("the file states {head} of all CPUs, and has no column of it"))
            }
        }
    }
    stopped.settle(&mut found);
    Ok(found)
}

/// A figure below the table; `None` within where rtla has none, and without where it is not a number.
fn figure(word: &str) -> Option<Option<f64>> {
    let is_figure = word.starts_with(|c: char| c.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match word {
        "-" => Some(None),
        _ => is_figure.then(|| word.parse().ok()).flatten().map(Some),
    }
}

/// What rtla says of the sample at which it stopped (`-T`, `--auto`): `## CPU 12 hit stop tracing, analyzing
/// it ##`.
#[derive(Default)]
struct StoppedAt {
    cpu: Option<u32>,
    latencies: Vec<(&'static str, u32, u64)>,
}

impl StoppedAt {
    fn take(&mut self, line: &str) {
        if let Some((cpu, _)) =
            line.strip_prefix("## CPU ").and_then(|rest| rest.split_once(" hit stop tracing"))
        {
            self.cpu = cpu.trim().parse().ok();
        }
        let Some(cpu) = self.cpu else { return };
        for (name, probe) in [("IRQ latency:", "timerlat-irq"), ("Thread latency:", "timerlat-thread")] {
            let value = line.strip_prefix(name).and_then(|rest| rest.split_once("us"));
            if let Some(us) = value.and_then(|(us, _)| figure(us.trim()).flatten()) {
                self.latencies.push((probe, cpu, (us * 1e3) as u64));
            }
        }
    }

    /// Lets that sample count where the histogram does not hold it.
    fn settle(&self, found: &mut ImportedFile) {
        for (probe, cpu, ns) in &self.latencies {
            let is_it = |column: &&mut ImportedSeries| column.probe == *probe && column.cpu == *cpu;
            match found.columns.iter_mut().find(is_it) {
                Some(column) => column.state_max(ns / column.unit_ns.max(1)),
                None => found.missing.push(format!("{probe} on cpu {cpu} was late, and the table lacks it")),
            }
        }
    }
}

/// The probe that a head of rtla stands for.
fn probe(head: &str) -> Option<&'static str> {
    Some(match head {
        "IRQ" => "timerlat-irq",
        "Thr" => "timerlat-thread",
        "Usr" => "timerlat-user",
        "CPU" => "noise",
        _ => return None,
    })
}

/// The column that `IRQ-000`, `Thr-000`, `Usr-000` or `CPU-000` heads.
fn column(name: &str, unit_ns: u64) -> Result<ImportedSeries, String> {
    let unknown = || format!("'{name}' is not a column of rtla");
    let (kind, cpu) = name.split_once('-').ok_or_else(unknown)?;
    let probe = probe(kind).ok_or_else(unknown)?;
    let cpu = cpu.parse().map_err(|_| unknown())?;
    Ok(ImportedSeries { probe, cpu, unit_ns, width: 1, ..ImportedSeries::default() })
}

/// Figures without a fraction; the cast saturates.
fn whole(figure: f64) -> u64 {
    figure as u64
}

/// The greatest common divisor; 0 counts as a multiple of everything.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
