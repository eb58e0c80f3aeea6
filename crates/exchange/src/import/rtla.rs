// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of `rtla timerlat hist` and `rtla osnoise hist`.
//!
//! A row is labelled with the smallest value of its bucket; the bucket's width (`-b`) is not said, but no
//! wider than the greatest common divisor of all labels. `count:` includes `over:`. Rows without a count are
//! left out, so that overflow begins somewhere after the last row. Neither period nor priority is in the
//! file. Since 6.14 rtla states below any table how many events it missed.

use super::column::{ImportedFile, ImportedSeries, Rounding};
use super::figures::second_run;
use super::scan::format::{
    Answer, Cpus, Description, End, Half, Mark, Missed, StatedSamples, Told, Unit, Worse,
};
use super::scan::{Line, Scan};
use super::table::Table;
use super::text::is_row;

pub(super) const TIMERLAT: Description = Description {
    name: "rtla timerlat hist",
    program: "rtla",
    told: Told::Lines(|line| mark(line, "# RTLA timerlat histogram")),
    parts: &[],
    unit: Unit::Known,
    rounding: Rounding::Cut,
    cpus: Cpus::Stated,
    samples: StatedSamples::Distribution,
    totals: Answer::Field("count: of each column, and max: below ALL:"),
    missed: Missed::Skipped,
    // Below the table the analysis may follow, and how many events were missed.
    end: End::Unmarked,
    half_line: |_| Half::Dropped,
    // The analysis below the table (-a): of the sample that stopped rtla, which the table lacks.
    worse: Answer::Lines(&[
        Worse::Place("## CPU {cpu} hit stop tracing{}"),
        Worse::Sample("IRQ latency: {us} us{}", Some("timerlat-irq")),
        Worse::Sample("Thread latency: {us} us{}", Some("timerlat-thread")),
        Worse::Sample("Max timerlat IRQ latency from idle: {us} us in cpu {cpu}", Some("timerlat-irq")),
    ]),
    stops: Answer::Lines(&["{} hit stop tracing{}"]),
    aborts: Answer::Lines(&["Error iterating on events{}", "{}failed to enable the tracer{}"]),
    losses: Answer::Lines(&["{}events missed, results might not be accurate{}", "{}[LOST {some} EVENTS]{}"]),
    doubts: Answer::Never("rtla doubts nothing but for lost events"),
    read,
};

pub(super) const OSNOISE: Description = Description {
    name: "rtla osnoise hist",
    told: Told::Lines(|line| mark(line, "# RTLA osnoise histogram")),
    missed: Missed::NoPeriods,
    worse: Answer::Never("osnoise prints no analysis: its table holds the sample that stopped it"),
    ..TIMERLAT
};

/// The head of a tool, or the columns below it.
fn mark(line: &str, head: &str) -> Option<Mark> {
    let is_columns = || line.split_whitespace().next() == Some("Index");
    if line == head { Some(Mark::Kind(0)) } else { is_columns().then_some(Mark::Kind(1)) }
}

/// Lines below the table.
const FIGURES: [&str; 5] = ["over:", "count:", "min:", "avg:", "max:"];

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let mut found = scan.file();
    let mut unit_ns = None;
    let names = loop {
        let Some(line) = scan.next()? else {
            return Err("it has no line 'Index' with the columns (was it written with --no-header?)".into());
        };
        let mut words = line.text.split_whitespace();
        if words.next() == Some("Index") {
            break words.collect::<Vec<_>>();
        }
        match line.text {
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
    let mut table = Table::default();
    // The figures of all CPUs below the table: heads, then maxima.
    let (mut all, mut worst) = (None::<Vec<&str>>, Vec::new());
    while let Some(line) = scan.next()? {
        let mut words = line.text.split_whitespace();
        let Some(first) = words.next() else { continue };
        let named = FIGURES.iter().find(|name| **name == first);
        if line.starts_with("# RTLA") || first == "Index" {
            return second_run();
        } else if let Some(heads) = &all {
            if first == "max:" {
                let maxima = words.map(|word| figure(&line, word)).collect::<Result<Vec<_>, _>>()?;
                worst = heads.iter().copied().zip(maxima).collect();
            }
        } else if let Some(name) = named {
            words.clone().try_for_each(|word| figure(&line, word).map(|_| ()))?;
            table.figures(name, words)?;
        } else if first == "ALL:" {
            all = Some(words.collect());
        } else if first.starts_with(|c: char| c.is_ascii_digit())
            && FIGURES.iter().all(|name| table.cells(name).is_none())
        {
            let label = line.number(first)?;
            if table.rows.last_key_value().is_some_and(|last| *last.0 >= label) {
                return Err(line.at(format_args!("bucket {label} comes too late, give one run alone")));
            }
            table.row(&line, label, words)?;
        } else if is_row(&line) {
            return Err(line.unreadable());
        }
    }
    table.check_width(columns.len())?;
    table.require(&FIGURES, columns.len()..=columns.len(), &mut found.missing);
    let figure =
        |name: &str, column: usize| table.word(name, column).and_then(|word| word.parse::<f64>().ok());
    let last = table.rows.last_key_value().map(|row| *row.0);
    // Of the first bucket alone no label tells the width; the samples in it do.
    let widest =
        (0..columns.len()).filter_map(|column| figure("max:", column)).map(|max| whole(max) + 1).max();
    let labels = table.rows.keys().copied().fold(0, divisor);
    let width = if labels == 0 && last == Some(0) { widest.unwrap_or(1) } else { labels.max(1) };
    for (place, column) in columns.iter_mut().enumerate() {
        let number = |name: &str| figure(name, place).map(whole);
        column.buckets = if last.is_some() { table.buckets(place) } else { Vec::new() };
        column.width = width;
        column.overflow_from = last.map(|last| last.saturating_add(width));
        (column.min, column.avg, column.max) = (number("min:"), figure("avg:", place), number("max:"));
        column.overflow = number("over:").unwrap_or(0);
        let count = column.samples();
        column.unplaced = number("count:").unwrap_or(0).saturating_sub(count);
        if let Some(stated) = number("count:").filter(|stated| *stated != count) {
            found
                .missing
                .push(format!("{}: {count} samples are listed, its count says {stated}", names[place]));
        }
    }
    found.columns = columns;
    if all.is_some() && worst.is_empty() {
        found.missing.push("the file has no 'max:' below 'ALL:': it was cut short".into());
    }
    for (head, max) in worst {
        if let (Some(max), Some(probe)) = (max.map(whole), probe(head)) {
            found.state_max_of_all(probe, max);
        }
    }
    Ok(found)
}

/// A figure below the table; `None` where rtla has none.
fn figure(line: &Line, word: &str) -> Result<Option<f64>, String> {
    let is_figure = word.starts_with(|c: char| c.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match word {
        "-" => Ok(None),
        _ if is_figure => word.parse().map(Some).map_err(|_| line.unreadable()),
        _ => Err(line.unreadable()),
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

/// Figures without a fraction, which rtla has in means alone; the cast saturates.
fn whole(figure: f64) -> u64 {
    figure.ceil() as u64
}

/// The greatest common divisor; 0 counts as a multiple of everything.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
