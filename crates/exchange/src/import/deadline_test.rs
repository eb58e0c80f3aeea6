// SPDX-License-Identifier: MIT OR Apache-2.0
//! What deadline_test of rt-tests prints: a block for each SCHED_DEADLINE thread.
//!
//! It runs a loop of fixed length in every period and states how long that took, from begin to end: the
//! `execution` of a cycle. Deadlines that it missed and periods that it began late are periods missed. Its
//! rows are numbered in the order of the text: neither CPU nor histogram is in it.

use super::column::{ImportedFile, ImportedSeries};
use super::text::whole_lines;

/// Whether a line is one of a block.
pub(super) fn is_figure(line: &str) -> bool {
    line.starts_with("missed deadlines  =") || line.starts_with("nr_periods :")
}

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

/// Reads the text.
pub(super) fn read(text: &str) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by("deadline_test", None);
    let mut blocks: Vec<DeadlineBlock> = Vec::new();
    let mut announced = Vec::new();
    for (n, line) in whole_lines(text, &mut found.missing).lines().enumerate() {
        let bad = || format!("line {}: '{line}' is not a line of deadline_test", n + 1);
        if let Some(id) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && id.bytes().all(|byte| byte.is_ascii_digit())
        {
            if blocks.iter().any(|block| block.id == id) {
                return Err("it holds more than one run".into());
            }
            blocks.push(DeadlineBlock { id: id.to_string(), ..DeadlineBlock::default() });
        } else if line == "Setup:" && !blocks.is_empty() {
            return Err("it holds more than one run".into());
        } else if let Some(id) = line.strip_prefix("deadline thread ") {
            announced.push(id.to_string());
        } else if let Some((_, reason)) = line.split_once(" failed: ") {
            found.not_run(
                evidence::kind::RowKind::Execution.name(),
                format!("deadline_test says that a thread failed: {reason}"),
            );
        } else if let Some(block) = blocks.last_mut() {
            take(block, line).ok_or_else(bad)?;
        }
    }
    found.cpus_known = false;
    found.scheduled(Some("deadline"), None);
    found.note("the file holds no histogram: only minimum, mean and maximum are known");
    if announced.is_empty() {
        found.note("the text does not list the threads: whether it is whole cannot be told");
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
        period_ns: block.period_us.and_then(|us| us.checked_mul(1_000)).filter(|ns| *ns > 0),
        unit_ns: 1_000,
        width: 1,
        overflow: if max.is_some() { block.cycles.unwrap_or(0) } else { 0 },
        min,
        avg: avg.map(|avg| avg as f64),
        max,
        missed: block.deadlines.unwrap_or(0).saturating_add(block.periods.unwrap_or(0)),
        ..ImportedSeries::default()
    }
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
