// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of `rtla timerlat top`, `rtla osnoise top` and `rtla hwnoise`.
//!
//! They are drawn anew each second with figures since the start: the last screen counts, and the worst
//! maximum of all. Figures are cut to whole units. timerlat counts interrupts alone; threads are taken to be
//! as many. osnoise counts interruptions by their origin, and states the longest single one and the most
//! noise of one period.

use std::collections::BTreeMap;

use super::column::{ImportedFile, ImportedSeries};
use super::text::whole_lines;

use machine::units::whole_us;

/// Columns of timerlat, in the order of the table.
const PROBES: [&str; 3] = ["timerlat-irq", "timerlat-thread", "timerlat-user"];

/// Whether a line heads a table of `rtla timerlat top`.
pub(super) fn heads_timerlat(line: &str) -> bool {
    let mut words = line.split_whitespace();
    line.contains('|') && words.next() == Some("CPU") && words.next() == Some("COUNT")
}

/// Whether a line heads a table of `rtla osnoise top` or `rtla hwnoise`.
pub(super) fn heads_osnoise(line: &str) -> bool {
    let mut words = line.split_whitespace();
    line.contains("Max Single") && words.next() == Some("CPU") && words.next() == Some("Period")
}

/// A row of either table.
#[derive(Debug, Clone, PartialEq)]
struct TopRow {
    count: u64,
    /// For each probe: minimum, mean and maximum; none where it has no sample.
    figures: Vec<Option<TopFigures>>,
    /// The most noise of one period.
    worst_period: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct TopFigures {
    min: Option<u64>,
    avg: f64,
    max: u64,
}

/// All screens, joined.
#[derive(Debug, Default)]
struct Screens {
    rows: BTreeMap<u32, TopRow>,
    drawn: u64,
    /// Whether other text followed the last screen, so that the next one is another run's.
    ended: bool,
}

impl Screens {
    fn head(&mut self) -> Result<(), String> {
        if self.ended {
            return Err("it holds more than one run".into());
        }
        self.drawn += 1;
        Ok(())
    }

    fn row(&mut self, cpu: u32, mut row: TopRow) -> Result<(), String> {
        if let Some(before) = self.rows.get(&cpu) {
            let unlike = before.figures.len() != row.figures.len() || before.count > row.count;
            if unlike || self.drawn < 2 {
                return Err("it holds more than one run".into());
            }
            for (now, before) in row.figures.iter_mut().zip(&before.figures) {
                keep_worst(now, *before);
            }
            row.worst_period = row.worst_period.max(before.worst_period);
        }
        self.rows.insert(cpu, row);
        Ok(())
    }
}

fn keep_worst(now: &mut Option<TopFigures>, before: Option<TopFigures>) {
    match (now.as_mut(), before) {
        (Some(now), Some(before)) => now.max = now.max.max(before.max),
        (None, Some(before)) => *now = Some(before),
        (_, None) => {}
    }
}

/// Reads `rtla timerlat top`.
pub(super) fn read_timerlat(text: &str) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("rtla", None);
    found.skips_missed = true;
    let (mut screens, mut unit_ns) = (Screens::default(), None);
    let mut stopped_on = None;
    for (n, line) in whole_lines(text, &mut found.missing).lines().enumerate() {
        if heads_timerlat(line) {
            screens.head()?;
        } else if line.contains("IRQ Timer Latency (") {
            unit_ns = unit_of(line);
        } else if let Some((cpu, row)) = timerlat_row(line).map_err(|why| format!("line {}: {why}", n + 1))? {
            screens.row(cpu, row)?;
        } else if !is_frame(line) && screens.drawn > 0 {
            screens.ended = true;
            stopped_on = analysis(line, stopped_on, &mut screens.rows, unit_ns.unwrap_or(1_000));
        }
    }
    let unit_ns = unit_ns.ok_or("it does not say its time unit")?;
    if text.contains("hit stop tracing") {
        found.note("rtla stopped at the threshold it was given");
    }
    unmarked(&screens, &mut found);
    found.note("rtla timerlat top counts interrupts alone: its threads are taken to have as many samples");
    for (cpu, row) in screens.rows {
        for (probe, figures) in PROBES.iter().zip(row.figures) {
            let mut column = ImportedSeries { probe, cpu, unit_ns, width: 1, ..ImportedSeries::default() };
            if let Some(TopFigures { min, avg, max }) = figures {
                column.overflow = row.count.max(1);
                (column.min, column.avg, column.max) = (min, Some(avg), Some(max));
            }
            found.columns.push(column);
        }
    }
    Ok(found)
}

/// Reads `rtla osnoise top` or `rtla hwnoise`.
pub(super) fn read_osnoise(text: &str) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("rtla", None);
    let (mut screens, mut is_us) = (Screens::default(), false);
    for (n, line) in whole_lines(text, &mut found.missing).lines().enumerate() {
        if heads_osnoise(line) {
            screens.head()?;
        } else if line.ends_with("time is in us") {
            is_us = true;
        } else if let Some((cpu, row)) = osnoise_row(line).map_err(|why| format!("line {}: {why}", n + 1))? {
            screens.row(cpu, row)?;
        } else if !is_frame(line) && screens.drawn > 0 {
            screens.ended = true;
        }
    }
    if !is_us {
        return Err("it does not say its time unit".into());
    }
    unmarked(&screens, &mut found);
    for (cpu, row) in screens.rows {
        let mut column =
            ImportedSeries { probe: "noise", cpu, unit_ns: 1_000, width: 1, ..ImportedSeries::default() };
        if let Some(Some(TopFigures { avg, max, .. })) = row.figures.first() {
            column.overflow = row.count.max(1);
            (column.avg, column.max) = (Some(*avg), Some(*max));
        }
        if let Some(us) = row.worst_period {
            found.note(format!("noise on cpu {cpu}: up to {} in one period of rtla", whole_us(us)));
        }
        found.columns.push(column);
    }
    Ok(found)
}

fn unmarked(screens: &Screens, found: &mut ImportedFile) {
    if screens.drawn > 1 {
        found.note(format!("the last of {} screens counts, and the worst maximum of all", screens.drawn));
    }
    found.note("nothing marks the end of rtla's table: whether it is whole cannot be told");
}

/// Whether a line belongs to the table without being a row.
fn is_frame(line: &str) -> bool {
    let is_rule = line.bytes().all(|byte| b"-| ".contains(&byte));
    let is_title = ["Timer Latency", "Operating System Noise", "Hardware-related Noise"].contains(&line);
    is_rule || is_title || line.starts_with("ALL ") || line.starts_with("duration:")
}

fn unit_of(line: &str) -> Option<u64> {
    match line.split_once("Latency (")?.1.get(..3)? {
        "us)" => Some(1_000),
        "ns)" => Some(1),
        _ => None,
    }
}

/// `0 #3222` before the first bar: CPU and count.
fn cpu_and_count(text: &str) -> Option<Result<(u32, u64), String>> {
    let (cpu, rest) = text.split_once('#')?;
    let cpu = cpu.trim().parse().ok()?;
    let count = rest.split_whitespace().next().unwrap_or_default();
    Some(count.parse().map(|count| (cpu, count)).map_err(|_| format!("'{count}' is not a count")))
}

/// `0 #3222      |    10739         8       319     18665 |    18736        24       381     23982`.
fn timerlat_row(line: &str) -> Result<Option<(u32, TopRow)>, String> {
    let mut groups = line.split('|');
    let Some(head) = groups.next().and_then(cpu_and_count) else { return Ok(None) };
    let (cpu, count) = head?;
    let figures = groups.map(group).collect::<Result<Vec<_>, _>>()?;
    if !(2..=PROBES.len()).contains(&figures.len()) {
        return Err(format!("cpu {cpu} has {} groups of figures", figures.len()));
    }
    Ok(Some((cpu, TopRow { count, figures, worst_period: None })))
}

/// `cur min avg max` of one probe, or a dash for each.
fn group(text: &str) -> Result<Option<TopFigures>, String> {
    let words = text.split_whitespace().collect::<Vec<_>>();
    if words.len() != 4 {
        return Err(format!("'{}' are not the four figures cur, min, avg and max", text.trim()));
    }
    if words.iter().all(|word| *word == "-") {
        return Ok(None);
    }
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("'{word}' is not one of its figures"));
    let (cur, min, avg, max) = (number(words[0])?, number(words[1])?, number(words[2])?, number(words[3])?);
    Ok(Some(TopFigures { min: Some(min), avg: avg as f64, max: max.max(cur) }))
}

/// `0 #4           4015681      3133376    21.97149      787570        50300         154 …`.
fn osnoise_row(line: &str) -> Result<Option<(u32, TopRow)>, String> {
    let Some(head) = cpu_and_count(line) else { return Ok(None) };
    let (cpu, _) = head?;
    let words = line.split_once('#').map(|(_, rest)| rest.split_whitespace().skip(1)).into_iter().flatten();
    let words = words.collect::<Vec<_>>();
    // rtla hwnoise has no columns of IRQ, softirq and thread.
    if words.len() != 10 && words.len() != 7 {
        return Err(format!("cpu {cpu} has {} figures", words.len()));
    }
    let number = |at: usize| {
        words[at].parse::<u64>().map_err(|_| format!("'{}' is not one of its figures", words[at]))
    };
    let (noise_us, worst_period_us, single_us) = (number(1)?, number(3)?, number(4)?);
    let counts = (5..words.len()).map(number).collect::<Result<Vec<_>, _>>()?;
    let count = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    let is_quiet = count == 0 && single_us == 0;
    let avg = noise_us as f64 / count.max(1) as f64;
    let figures =
        (!is_quiet).then_some(TopFigures { min: None, avg: avg.min(single_us as f64), max: single_us });
    Ok(Some((cpu, TopRow { count, figures: vec![figures], worst_period: Some(worst_period_us) })))
}

/// Takes a figure of the analysis that rtla prints when it stopped: it may be worse than the table, which
/// lacks the sample that stopped it.
fn analysis(line: &str, on: Option<u32>, rows: &mut BTreeMap<u32, TopRow>, unit_ns: u64) -> Option<u32> {
    if let Some(rest) = line.strip_prefix("## CPU ") {
        return rest.split_whitespace().next().and_then(|cpu| cpu.parse().ok());
    }
    let mut raise = |cpu: Option<u32>, place: usize, figure: &str| {
        let us = figure.split_whitespace().next().and_then(|us| us.parse::<f64>().ok());
        let row = cpu.and_then(|cpu| rows.get_mut(&cpu));
        if let (Some(us), Some(row)) = (us, row)
            && let Some(Some(figures)) = row.figures.get_mut(place)
        {
            figures.max = figures.max.max((us * 1e3 / unit_ns as f64).ceil() as u64);
        }
    };
    if let Some(figure) = line.strip_prefix("Thread latency:") {
        raise(on, 1, figure);
    } else if let Some(figure) = line.strip_prefix("IRQ latency:") {
        raise(on, 0, figure);
    } else if let Some(figure) = line.strip_prefix("Max timerlat IRQ latency from idle:") {
        let cpu = figure.rsplit_once("in cpu ").and_then(|(_, cpu)| cpu.trim().parse().ok());
        raise(cpu, 0, figure);
    }
    on
}
