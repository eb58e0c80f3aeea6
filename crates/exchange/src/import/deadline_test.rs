// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of deadline_test of rt-tests: a block for each SCHED_DEADLINE thread.
//!
//! It runs a loop of fixed length in every period and states how long that took, from begin to end: the
//! `execution` of a cycle. Deadlines that it missed and periods that it began late are periods missed. Its
//! rows are numbered in the order of the text: neither CPU nor histogram is in it.

use super::column::{ImportedFile, ImportedSeries, Rounding};
use super::figures::second_run;
use super::scan::Scan;
use super::scan::format::{Answer, Cpus, Description, End, Half, Mark, Missed, StatedSamples, Told, Unit};
use super::threads;

pub(super) const FORMAT: Description = Description {
    name: "deadline_test text",
    program: "deadline_test",
    told: Told::Lines(|line| Mark::beginning(line, &["missed deadlines  =", "nr_periods :"])),
    parts: &[],
    unit: Unit::Known,
    rounding: Rounding::Cut,
    cpus: Cpus::Threads,
    samples: StatedSamples::Extremes,
    totals: Answer::Field("nr_periods"),
    missed: Missed::Counted,
    end: End::Marked,
    half_line: |_| Half::Dropped,
    worse: Answer::Never("max_time is its only figure of the kind"),
    stops: Answer::Never("it has no threshold"),
    aborts: threads::FAILURES,
    losses: Answer::Never("a loop that did not run is a missed period"),
    doubts: threads::DOUBTS,
    read,
};

/// A block.
#[derive(Debug, Default)]
struct DeadlineBlock {
    id: String,
    deadlines: Option<u64>,
    periods: Option<u64>,
    period_us: Option<u64>,
    cycles: Option<u64>,
    times: Option<(u64, u64, u64)>,
}

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let mut found = scan.file();
    let mut blocks: Vec<DeadlineBlock> = Vec::new();
    let mut announced = Vec::new();
    while let Some(line) = scan.next()? {
        if let Some(id) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && id.bytes().all(|byte| byte.is_ascii_digit())
        {
            if blocks.iter().any(|block| block.id == id) {
                return second_run();
            }
            blocks.push(DeadlineBlock { id: id.to_string(), ..DeadlineBlock::default() });
        } else if line.text == "Setup:" && !blocks.is_empty() {
            return second_run();
        } else if let Some(id) = line.strip_prefix("deadline thread ") {
            announced.push(id.to_string());
        } else if let Some((_, reason)) = line.split_once(" failed: ") {
            found.not_run(
                evidence::kind::RowKind::Execution.name(),
                format!("deadline_test says that a thread failed: {reason}"),
            );
        } else if let Some(block) = blocks.last_mut() {
            take(block, &line).ok_or_else(|| line.unreadable())?;
        }
    }
    found.scheduled(Some("deadline"), None);
    if announced.is_empty() {
        found.unmarked();
    }
    for id in announced.iter().filter(|id| blocks.iter().all(|block| block.id != **id)) {
        found.missing.push(format!("the block of thread {id} is absent: the file was cut short"));
    }
    for (number, block) in blocks.into_iter().enumerate() {
        let whole = block.deadlines.is_some() && block.periods.is_some() && block.times.is_some();
        if !whole || block.period_us.is_none() || block.cycles.is_none() {
            found.missing.push(format!("the block of thread {} lacks lines: it was cut short", block.id));
        }
        found.columns.push(column(number as u32, &block));
    }
    Ok(found)
}

fn column(number: u32, block: &DeadlineBlock) -> ImportedSeries {
    let (max, min, avg) =
        block.times.map_or((None, None, None), |(max, min, avg)| (Some(max), Some(min), Some(avg)));
    ImportedSeries {
        probe: evidence::kind::RowKind::Execution.name(),
        cpu: number,
        unit_ns: 1_000,
        width: 1,
        overflow: if max.is_some() { block.cycles.unwrap_or(0) } else { 0 },
        min,
        avg: avg.map(|avg| avg as f64),
        max,
        missed: block.deadlines.unwrap_or(0).saturating_add(block.periods.unwrap_or(0)),
        ..ImportedSeries::default()
    }
    .each_us(block.period_us.unwrap_or(0))
}

/// Takes a line into its block; `None` where it should be one of its figures and is not.
fn take(block: &mut DeadlineBlock, line: &str) -> Option<()> {
    let Some((name, value)) = line.split_once(['=', ':']) else { return Some(()) };
    let number = |text: &str| text.trim().trim_end_matches("us").trim_end().parse::<u64>().ok();
    match name.trim() {
        "missed deadlines" => block.deadlines = Some(number(value)?),
        "missed periods" => block.periods = Some(number(value)?),
        "deadline" => block.period_us = Some(number(value)?),
        "nr_periods" => block.cycles = Some(number(value)?),
        "max_time" => block.times = Some(times(line)?),
        _ => {}
    }
    Some(())
}

/// `max_time: 4560us min_time: 2320us avg_time: 2382us`, with tabs between.
fn times(line: &str) -> Option<(u64, u64, u64)> {
    let figure = |name: &str| {
        let word = line.split_once(name)?.1.split_whitespace().next()?;
        word.strip_suffix("us")?.parse::<u64>().ok()
    };
    Some((figure("max_time:")?, figure("min_time:")?, figure("avg_time:")?))
}
