// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of LinuxCNC's latency-test, as people post them, and of `latency-histogram --nox`.
//!
//! ```text
//!                        Max Interval (ns)   Max Jitter (ns)   Last interval (ns)
//! Servo thread (1.0ms):            1009075              9075               999413
//! Base thread (25.0us):              33954              8954                24972
//! ```
//! ```text
//!    10 s  servo min: -12.345 us max:  45.678 us sdev:   1.234 us
//! ```
//!
//! Sources: `scripts/latency-test` and `scripts/latency-histogram` of LinuxCNC 2.9, and
//! latency-histogram(1), where `--nox` prints elapsed time, minimum, maximum and standard deviation. Its bins
//! are drawn, and saved as a picture alone.
//!
//! Both state how far the time between two runs of a thread was off its period, in either direction. A run
//! that comes early by that much follows one that came late by as much, so the larger counts. It is a
//! deviation between two runs: the lateness itself may be larger by that of the run before. Neither says how
//! many runs there were.

use std::collections::BTreeMap;

use crate::import::scan::prelude::*;

pub(in crate::import) const TEST: Description = Description {
    lacks: &[Lack::Cpus, Lack::Distribution, Lack::End],
    says: &[
        Says::Lines(Aborts, &["{}Can't find RTAI{}", "{}Realtime system did not load{}"]),
        // A period that was overrun: LinuxCNC prints this once a session.
        Says::Lines(Doubts, &["{}nexpected realtime delay on task {}"]),
        Says::NoLine(Totals, "it does not state how many runs there were"),
        Says::NoLine(Stops, "it has no threshold"),
        Says::NoLine(Losses, "every run is in its figures"),
        Says::NoLine(Worse, "the intervals, beside the jitter; the extremes are since the start"),
    ],
    ..Description::of(
        "LinuxCNC latency-test",
        "latency-test",
        Told::Lines(mark_of_test),
        Digits::All,
        read_test,
    )
};

pub(in crate::import) const HISTOGRAM: Description = Description {
    name: "LinuxCNC latency-histogram",
    program: "latency-histogram",
    told: Told::Lines(|line| is_histogram(line).then_some(Mark::Sure)),
    read: read_histogram,
    ..TEST
};

fn mark_of_test(line: &str) -> Option<Mark> {
    match thread_of(line) {
        Some((_, rest)) if rest.to_lowercase().contains("jitter") => Some(Mark::Sure),
        Some((name, _)) => Some(Mark::Kind(if name == "Servo" { 1 } else { 2 })),
        None => is_heading(line).then_some(Mark::Kind(0)),
    }
}

/// Whether a line heads the figures of latency-test.
fn is_heading(line: &str) -> bool {
    if line.len() > 500 {
        return false;
    }
    let line = line.to_lowercase();
    line.contains("max interval") && line.contains("max jitter")
}

/// Whether a line is of `latency-histogram --nox`.
fn is_histogram(line: &str) -> bool {
    ["servo", "base"].iter().any(|thread| line.split_whitespace().nth(2) == Some(*thread))
        && [" s ", "min:", "max:", "sdev:"].iter().all(|part| line.contains(part))
}

/// A thread's worst figures, in nanoseconds.
#[derive(Debug, Default)]
struct LinuxcncThread {
    period_ns: Option<u64>,
    worst_ns: u64,
    elapsed_s: u64,
}

fn read_test(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (mut threads, mut is_headed) = (BTreeMap::new(), false);
    while let Some(line) = scan.next()? {
        if let Some((name, rest)) = thread_of(&line) {
            let thread = test_thread(rest, is_headed).map_err(|why| line.at(why))?;
            second_run_if(threads.insert(name, thread).is_some())?;
        } else if is_heading(&line) {
            second_run_if(is_headed && !threads.is_empty())?;
            is_headed = line.matches("(ns)").count() >= 2;
            if !is_headed {
                return Err(line.at("its figures are not stated to be nanoseconds"));
            }
        }
    }
    into_rows(threads, found);
    Ok(())
}

fn read_histogram(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let mut threads: BTreeMap<&str, LinuxcncThread> = BTreeMap::new();
    while let Some(line) = scan.next()? {
        if !is_histogram(&line) {
            continue;
        }
        let (name, next) = histogram_thread(&line).ok_or_else(|| line.unreadable())?;
        let thread = threads.entry(name).or_default();
        second_run_if(next.elapsed_s < thread.elapsed_s)?;
        thread.elapsed_s = next.elapsed_s;
        thread.worst_ns = thread.worst_ns.max(next.worst_ns);
    }
    found.ran_s(threads.values().map(|thread| thread.elapsed_s).max());
    into_rows(threads, found);
    Ok(())
}

fn into_rows(threads: BTreeMap<&str, LinuxcncThread>, found: &mut ImportedFile) {
    let program = found.program();
    found.note(format!(
        "{program} states how far the time between two runs was off the period: a run may have been later than that"
    ));
    found.note(format!("{program} does not state how many runs there were: the worst one and one of unknown latency are counted"));
    for (name, thread) in threads {
        // The servo thread is LinuxCNC's main one.
        let number = u32::from(name == "Base");
        found.note(format!("cpu {number} stands for the {} thread", name.to_lowercase()));
        found.columns.push(ImportedSeries {
            period_ns: thread.period_ns,
            // Jitter is between two runs: there were at least so many.
            overflow: 2,
            counts_no_samples: true,
            max: Some(thread.worst_ns),
            ..ImportedSeries::new(RowKind::Wakeup, number, 1)
        });
    }
}

/// `Servo thread (1.0ms): 1009075 9075 999413` as name and rest.
fn thread_of(line: &str) -> Option<(&'static str, &str)> {
    // A row of a Markdown table begins with a bar.
    let line = line.trim_start_matches(['|', ' ']);
    ["Servo", "Base"].into_iter().find_map(|name| {
        let start = line.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name))?;
        let rest = line[start.len()..].trim_start();
        let word = rest.get(.."thread".len()).filter(|word| word.eq_ignore_ascii_case("thread"))?;
        Some((name, &rest[word.len()..]))
    })
}

/// The figures of latency-test behind the thread's name: in the order of its heading, or each with its name.
fn test_thread(rest: &str, is_headed: bool) -> Result<LinuxcncThread, String> {
    let told = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (period, figures) = told.map_or((None, rest), |(period, figures)| (Some(period), figures));
    let period_ns = |period| time_ns(period).ok_or_else(|| format!("'{period}' is no period"));
    let period_ns = period.map(period_ns).transpose()?;
    let figures = figures.trim_start_matches(':').replace('|', " ").to_lowercase();
    let number = |word: &str| {
        word.trim_end_matches(',').parse::<u64>().map_err(|_| format!("'{word}' is not one of its figures"))
    };
    let (interval_ns, jitter_ns) = if figures.contains("jitter") {
        let named = |name: &str| figures.split_once(name).and_then(|(_, rest)| figure_ns(rest));
        let jitter_ns = named("jitter").ok_or("its jitter has no figure in ns")?;
        (named("interval"), jitter_ns)
    } else if is_headed {
        let words = figures.split_whitespace().collect::<Vec<_>>();
        if words.len() != 2 && words.len() != 3 {
            return Err(format!("a thread has {} figures, the heading names three", words.len()));
        }
        let numbers = words.into_iter().map(number).collect::<Result<Vec<_>, _>>()?;
        (Some(numbers[0].max(numbers.get(2).copied().unwrap_or(0))), numbers[1])
    } else {
        return Err("the text does not say which figure is the jitter, and in which unit".into());
    };
    let over = interval_ns.zip(period_ns).map_or(0, |(interval, period)| interval.saturating_sub(period));
    let period_ns = period_ns.filter(|ns| *ns > 0);
    Ok(LinuxcncThread { period_ns, worst_ns: jitter_ns.max(over), elapsed_s: 0 })
}

/// The first number of `: 9075 ns, …`, where the unit is stated.
fn figure_ns(text: &str) -> Option<u64> {
    let text = text.trim_start_matches([':', '=', ' ']);
    let (is_ns, text) = text.strip_prefix("(ns)").map_or((false, text), |text| (true, text));
    let text = text.trim_start_matches([':', '=', ' ']);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = text[end..].trim_start();
    let unit = unit.find(|c: char| !c.is_alphabetic()).map_or(unit, |end| &unit[..end]);
    match unit {
        "" if is_ns => text[..end].parse().ok(),
        unit => time_ns(&format!("{}{unit}", &text[..end])),
    }
}

/// `1.0ms` or `25µs` in nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let each_ns = match text[end..].trim() {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let thousandths = u64::try_from(thousandths(&text[..end])?).ok()?;
    Some(thousandths.checked_mul(each_ns)?.div_ceil(1_000))
}

/// `10 s  servo min: -12.345 us max:  45.678 us sdev:   1.234 us`.
fn histogram_thread(line: &str) -> Option<(&'static str, LinuxcncThread)> {
    // A long figure leaves no blank before it.
    let line = line.replace("min:", "min: ").replace("max:", "max: ");
    let words = line.split_whitespace().collect::<Vec<_>>();
    let [elapsed, "s", name, "min:", min, "us", "max:", max, "us", ..] = words.as_slice() else {
        return None;
    };
    let name = if *name == "servo" { "Servo" } else { "Base" };
    let worst_ns = thousandths(min)?.checked_neg()?.max(thousandths(max)?);
    let (worst_ns, elapsed_s) = (u64::try_from(worst_ns).unwrap_or(0), elapsed.parse().ok()?);
    Some((name, LinuxcncThread { period_ns: None, worst_ns, elapsed_s }))
}
