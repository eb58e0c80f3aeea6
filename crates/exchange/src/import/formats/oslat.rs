// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of oslat, and what its figures mean, in text and JSON alike.
//!
//! oslat rounds an iteration up to whole microseconds, so that its `1` is anything up to 1 us; that value is
//! kept: it is never too low. A wider bucket (`-W`) is taken to begin at its label, so that nothing in it is
//! too early. The last bucket holds its own value and everything above. Since rt-tests 2.5 every bucket is
//! labelled, and the average computed, 1 us too high while minimum and maximum are right: where the lowest
//! bucket lies exactly 1 us above the stated minimum, both are put back and that is noted.

use crate::import::column::cpus;
use crate::import::command::Syntax;
use crate::import::scan::prelude::*;
use crate::import::table::Table;
use crate::import::text::is_row;

/// The statements of its text, and beside its JSON.
pub(in crate::import) const SAYS: &[Says] = &[
    // The gap at which oslat stopped.
    Says::Lines(Worse, &["oslat: Trace threshold ({} us) triggered on cpu {cpu} with {us} us!{}"]),
    FAILURES,
    DOUBTS,
    Says::NoLine(Totals, "the buckets hold every sample"),
    Says::NoLine(Stops, "its trace threshold says so with the value"),
    Says::NoLine(Losses, "the loop sees every sample"),
];

pub(in crate::import) const FORMAT: Description = Description {
    says: SAYS,
    ..Description::of("oslat text", "oslat", Told::Lines(mark), Digits::RoundedUp, read)
};

fn mark(line: &str) -> Option<Mark> {
    match Mark::beginning(line, &["oslat V", "Counter Freq:", "Core:", "Workload mem:"]) {
        Some(Mark::Kind(kind)) => Some(Mark::Kind(255 - kind)),
        _ => {
            // The bucket whose row it is: `001 (us): 0 0`.
            let label = line.split_once(':')?.0.strip_suffix(" (us)")?.trim().parse::<u64>().ok()?;
            Some(Mark::Kind(label as u8))
        }
    }
}

/// oslat's options.
pub(in crate::import) const SYNTAX: Syntax = Syntax {
    letters: "b:Bc:C:D:f:hm:qsT:vw:W:z",
    names: &[("bucket-width", 'W'), ("duration", 'D'), ("rtprio", 'f')],
};

/// Puts labels right and sets the overflow apart that is in the bucket `open`, or in the last one.
pub(in crate::import) fn settle(column: &mut ImportedSeries, open: Option<u64>, found: &mut ImportedFile) {
    column.buckets.retain(|bucket| bucket.1 > 0);
    // The table alone counts; without it the minimum and the maximum are two samples, and more are not known.
    let cpu = column.cpu;
    if column.buckets.is_empty() && column.max.is_some_and(|max| max > 0) {
        column.unplaced = 2;
        found.lacks(format!("spin on cpu {cpu}: figures are stated and no sample is listed"));
    }
    let lowest = column.buckets.first().map_or(0, |bucket| bucket.0);
    if column.width == 1 && column.min.is_some_and(|min| min.checked_add(1) == Some(lowest)) {
        column.buckets.iter_mut().for_each(|bucket| bucket.0 -= 1);
        column.avg = column.avg.map(|avg| avg - 1.0);
        found
            .note(format!("spin on cpu {cpu}: oslat labelled its buckets 1 us too high, which is put right"));
    }
    let Some((last, count)) = column.buckets.last().copied() else { return };
    let is_open = column.max.map_or(Some(last) == open, |max| max > last.saturating_add(column.width - 1));
    if is_open {
        column.buckets.pop();
        (column.overflow, column.overflow_from) = (count, Some(last));
    }
}

/// Figures of each column, and what the text states once.
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

/// A figure; an error where it is none.
fn number<T: std::str::FromStr>(table: &Table, name: &str, column: usize) -> Result<Option<T>, String> {
    let is_plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let word = table.word(name, column);
    let figure = |text: &str| Some(text).filter(is_plain)?.parse().ok();
    word.map(|text| figure(text).ok_or_else(|| format!("'{name}: {text}' is not a figure"))).transpose()
}

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (mut table, mut open) = (Table::default(), None);
    while let Some(line) = scan.next()? {
        if let Some(version) = line.strip_prefix("oslat V ") {
            found.manifest.written_by.version = Some(version.trim().to_string());
        }
        let (name, rest) = line.text.split_once(':').unwrap_or_default();
        let words = rest.split('(').next().unwrap_or_default().split_whitespace();
        let name = name.trim();
        if let Some(label) = name.strip_suffix(" (us)") {
            let label = line.number(label.trim())?;
            open = open.or(rest.contains("including overflows").then_some(label));
            table.row(&line, label, words)?;
        } else if let Some(figure) = FIGURES.iter().find(|figure| **figure == name) {
            table.figures(figure, words)?;
        } else if is_row(&line) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(line.unreadable());
        }
    }
    let numbers = (0..table.width()).map(|n| n.to_string()).collect::<Vec<_>>();
    found.cpus_known = table.cells("Core").is_some();
    let cores = match table.cells("Core") {
        Some(cores) => cores.to_vec(),
        None if numbers.is_empty() => {
            return Err("it has neither a line 'Core:' with the CPUs nor a table".into());
        }
        None => numbers.iter().map(String::as_str).collect(),
    };
    table.check_width(cores.len())?;
    let each = cores.len()..=cores.len();
    table.require(&["Minimum", "Average", "Maximum", "Duration"], each, found);
    // Where rows without a count are listed too, the labels show how wide a bucket is (-W).
    let labels = table.rows.keys().copied().collect::<Vec<_>>();
    let lists_all = table.rows.values().any(|counts| counts.iter().all(|count| *count == 0));
    let width = labels.windows(2).map(|pair| pair[1] - pair[0]).min().filter(|_| lists_all).unwrap_or(1);
    for (place, core) in cores.iter().enumerate() {
        let cpu = core.parse().map_err(|_| format!("'{core}' is no CPU"))?;
        let mut column = ImportedSeries {
            width,
            buckets: table.buckets(place),
            min: number(&table, "Minimum", place)?,
            avg: number(&table, "Average", place)?,
            max: number(&table, "Maximum", place)?,
            ..ImportedSeries::new(RowKind::Spin, cpu, 1_000)
        };
        settle(&mut column, open, found);
        found.columns.push(column);
    }
    let is_seconds = table.word("Total runtime", 1) == Some("seconds");
    found.ran_s(table.number("Total runtime", 0).filter(|_| is_seconds));
    found.manifest.asked.cpus = table.word("CPU list", 0).and_then(cpus).unwrap_or_default();
    let priority = table.word("Thread priority", 0);
    let fifo = priority.and_then(|text| text.strip_prefix("SCHED_FIFO:")?.parse().ok());
    match priority {
        Some("default") => found.scheduled(Some("other"), None),
        _ => found.scheduled(fifo.map(|_| "fifo"), fifo),
    }
    Ok(())
}
