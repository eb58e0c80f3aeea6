// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of `rtla timerlat hist` and `rtla osnoise hist`.
//!
//! A row is labelled with the smallest value of its bucket; the bucket's width (`-b`) is not said, but no wider
//! than the greatest common divisor of all labels. `count:` includes `over:`. Rows without a count are left
//! out, so that overflow begins somewhere after the last row. Neither period nor priority is in the file.

use std::collections::BTreeMap;

use super::column::{Column, Found};
use super::text::whole_lines;

/// Lines below the table.
const FIGURES: [&str; 5] = ["over:", "count:", "min:", "avg:", "max:"];

pub(super) fn read(text: &str) -> Result<Found, String> {
    let mut missing = Vec::new();
    let mut lines = whole_lines(text, &mut missing).lines().enumerate();
    let mut found = Found::by("rtla", None);
    found.missing = missing;
    let mut unit_ns = None;
    let names = loop {
        let Some((_, line)) = lines.next() else {
            return Err("it has no line 'Index' with the columns (was it written with --no-header?)".into());
        };
        if let Some(names) = line.trim().strip_prefix("Index ") {
            break names.split_whitespace().collect::<Vec<_>>();
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
    let unit_ns = unit_ns.ok_or("it does not say its time unit")?;
    let mut columns = names.iter().map(|name| column(name, unit_ns)).collect::<Result<Vec<_>, _>>()?;
    let mut figures: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    let (mut labels, mut all) = (0, false);
    for (n, line) in lines {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let bad = |what: &str| format!("line {}: '{what}' is no figure of it", n + 1);
        if all && !line.starts_with("# RTLA") {
            continue;
        }
        if let Some(name) = FIGURES.iter().find(|name| **name == first) {
            let parse = |word: &str| match word {
                "-" => Ok(None),
                word => word.parse().map(Some).map_err(|_| bad(word)),
            };
            figures.entry(name).or_insert(words.map(parse).collect::<Result<_, _>>()?);
        } else if line.starts_with("# RTLA") {
            return Err("it holds more than one run".into());
        } else if first == "ALL:" {
            all = true;
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
    for (place, column) in columns.iter_mut().enumerate() {
        let figure = |name: &str| figures.get(name).and_then(|values| values[place]);
        column.width = labels.max(1);
        column.overflow_from = last.map(|last| last.saturating_add(column.width));
        (column.min, column.max) = (figure("min:").map(whole), figure("max:").map(whole));
        column.avg = figure("avg:");
        column.overflow = figure("over:").map_or(0, whole);
        let count = column.listed().saturating_add(column.overflow);
        if let Some(stated) = figure("count:").map(whole).filter(|stated| *stated != count) {
            found
                .missing
                .push(format!("{}: {count} samples are listed, its count says {stated}", names[place]));
        }
    }
    found.columns = columns;
    Ok(found)
}

/// The column that `IRQ-000`, `Thr-000`, `Usr-000` or `CPU-000` heads.
fn column(name: &str, unit_ns: u64) -> Result<Column, String> {
    let unknown = || format!("'{name}' is no column of rtla");
    let (kind, cpu) = name.split_once('-').ok_or_else(unknown)?;
    let probe = match kind {
        "IRQ" => "timerlat-irq",
        "Thr" => "timerlat-thread",
        "Usr" => "timerlat-user",
        "CPU" => "noise",
        _ => return Err(unknown()),
    };
    let cpu = cpu.parse().map_err(|_| unknown())?;
    Ok(Column { probe, cpu, unit_ns, width: 1, ..Column::default() })
}

/// Figures without a fraction; the cast saturates.
fn whole(figure: f64) -> u64 {
    figure as u64
}

/// The greatest common divisor; 0 counts as a multiple of everything.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
