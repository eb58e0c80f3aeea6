// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of `rtla timerlat hist` and `rtla osnoise hist`.
//!
//! A row is labelled with the smallest value of its bucket; the bucket's width (`-b`) is not said, but no
//! wider than the greatest common divisor of all labels. `count:` includes `over:`. Rows without a count are
//! left out, so that overflow begins somewhere after the last row. Neither period nor priority is in the
//! file. Since 6.14 rtla states below any table how many events it missed.

use crate::import::scan::prelude::*;
use crate::import::table::Table;
use crate::import::text::is_row;

const STOPS: Says = Says::Lines(Stops, &["{} hit stop tracing{}"]);
const LOSSES: Says =
    Says::Lines(Losses, &["{}events missed, results might not be accurate{}", "{}[LOST {some} EVENTS]{}"]);
const ABORTS: Says = Says::Lines(Aborts, &["Error iterating on events{}", "{}failed to enable the tracer{}"]);
const NO_DOUBT: Says = Says::NoLine(Doubts, "rtla doubts nothing but for lost events");

pub(in crate::import) const TIMERLAT: Description = Description {
    // Below the table the analysis may follow, and how many events were missed.
    lacks: &[Lack::MissedPeriods, Lack::End],
    says: &[
        // The analysis below the table (-a): of the sample that stopped rtla, which the table lacks.
        Says::Lines(Worse, &["## CPU {cpu} hit stop tracing{}"]),
        Says::SampleOf(RowKind::TimerlatIrq, "IRQ latency: {us} us{}"),
        Says::SampleOf(RowKind::TimerlatThread, "Thread latency: {us} us{}"),
        Says::SampleOf(RowKind::TimerlatIrq, "Max timerlat IRQ latency from idle: {us} us in cpu {cpu}"),
        STOPS,
        LOSSES,
        ABORTS,
        NO_DOUBT,
        Says::NoLine(Totals, "count: or #COUNT of each column, and the line ALL"),
    ],
    ..Description::of(
        "rtla timerlat hist",
        "rtla",
        Told::Lines(|line| mark(line, "# RTLA timerlat histogram")),
        Digits::Cut,
        read,
    )
};

pub(in crate::import) const OSNOISE: Description = Description {
    name: "rtla osnoise hist",
    told: Told::Lines(|line| mark(line, "# RTLA osnoise histogram")),
    lacks: &[Lack::End],
    says: &[
        STOPS,
        LOSSES,
        ABORTS,
        NO_DOUBT,
        Says::NoLine(Totals, "count: of each column, or the counts of each CPU by origin"),
        Says::NoLine(Worse, "osnoise prints no analysis: its table holds the sample that stopped it"),
    ],
    ..TIMERLAT
};

/// The head of a tool, or the columns below it.
fn mark(line: &str, head: &str) -> Option<Mark> {
    Mark::first([line == head, line.split_whitespace().next() == Some("Index")])
}

/// Lines below the table.
const FIGURES: [&str; 5] = ["over:", "count:", "min:", "avg:", "max:"];

/// Reads the head: the names of the columns, and nanoseconds of a unit where it is stated.
fn head<'a>(scan: &mut Scan<'a>, found: &mut ImportedFile) -> Result<(Vec<&'a str>, Option<u64>), String> {
    let mut unit_ns = None;
    while let Some(line) = scan.next()? {
        let mut words = line.text.split_whitespace();
        match line.text {
            "# Time unit is microseconds (us)" => unit_ns = Some(1_000),
            "# Time unit is nanoseconds (ns)" => unit_ns = Some(1),
            _ if words.next() == Some("Index") => return Ok((words.collect(), unit_ns)),
            line => {
                if let Some(duration) = line.strip_prefix("# Duration:") {
                    found.note(format!("rtla ran for {} (days h:m:s)", duration.trim()));
                }
            }
        }
    }
    Err("it has no line 'Index' with the columns (was it written with --no-header?)".into())
}

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (names, unit_ns) = head(scan, found)?;
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
    table.require(&FIGURES, columns.len()..=columns.len(), found);
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
        column.buckets = table.buckets(place);
        column.width = width;
        column.overflow_from = last.map(|last| last.saturating_add(width));
        (column.min, column.avg, column.max) = (number("min:"), figure("avg:", place), number("max:"));
        column.overflow = number("over:").unwrap_or(0);
        let count = column.samples();
        column.unplaced = number("count:").unwrap_or(0).saturating_sub(count);
        if let Some(stated) = number("count:").filter(|stated| *stated != count) {
            let name = names[place];
            found.lacks(format!("{name}: {count} samples are listed, its count says {stated}"));
        }
    }
    found.columns = columns;
    if all.is_some() && worst.is_empty() {
        found.lacks("the file has no 'max:' below 'ALL:': it was cut short");
    }
    for (kind, max) in worst.into_iter().filter_map(|(head, max)| kind(head).zip(max)) {
        found.state_max_of_all(kind, whole(max));
    }
    Ok(())
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

/// The kind of row that a head of rtla stands for.
fn kind(head: &str) -> Option<RowKind> {
    Some(match head {
        "IRQ" => RowKind::TimerlatIrq,
        "Thr" => RowKind::TimerlatThread,
        "Usr" => RowKind::TimerlatUser,
        "CPU" => RowKind::Noise,
        _ => return None,
    })
}

/// The column that `IRQ-000`, `Thr-000`, `Usr-000` or `CPU-000` heads.
fn column(name: &str, unit_ns: u64) -> Result<ImportedSeries, String> {
    let column = name.split_once('-').and_then(|(head, cpu)| Some((kind(head)?, cpu.parse().ok()?)));
    let (kind, cpu) = column.ok_or_else(|| format!("'{name}' is not a column of rtla"))?;
    Ok(ImportedSeries::new(kind, cpu, unit_ns))
}

/// Figures without a fraction, which rtla has in means alone; the cast saturates.
fn whole(figure: f64) -> u64 {
    figure.ceil() as u64
}

/// The greatest common divisor; 0 counts as a multiple of everything.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
