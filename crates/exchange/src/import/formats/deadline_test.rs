// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of deadline_test of rt-tests: a block for each SCHED_DEADLINE thread.
//!
//! It runs a loop of fixed length in every period and states how long that took, from begin to end: the
//! `execution` of a cycle. Deadlines that it missed and periods that it began late are periods missed. Its
//! rows are numbered in the order of the text: neither CPU nor histogram is in it.

use crate::import::figures::{ToolScreen, after};
use crate::import::scan::prelude::*;

pub(in crate::import) const FORMAT: Description = Description {
    lacks: &[Lack::Cpus, Lack::Distribution],
    says: &[
        FAILURES,
        DOUBTS,
        Says::NoLine(Totals, "nr_periods"),
        Says::NoLine(Worse, "max_time is its only figure of the kind"),
        Says::NoLine(Stops, "it has no threshold"),
        Says::NoLine(Losses, "a loop that did not run is a missed period"),
    ],
    ..Description::of(
        "deadline_test text",
        "deadline_test",
        Told::Lines(|line| Mark::beginning(line, &["missed deadlines  =", "nr_periods :"])),
        Digits::OfCutTimes,
        read,
    )
};

/// A block.
#[derive(Debug, Default)]
struct DeadlineBlock {
    id: String,
    deadlines: Option<u64>,
    periods: Option<u64>,
    period_us: Option<u64>,
    cycles: Option<u64>,
    times: Option<ToolScreen>,
}

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let mut blocks: Vec<DeadlineBlock> = Vec::new();
    let mut announced = Vec::new();
    while let Some(line) = scan.next()? {
        if let Some(id) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && id.bytes().all(|byte| byte.is_ascii_digit())
        {
            second_run_if(blocks.iter().any(|block| block.id == id))?;
            blocks.push(DeadlineBlock { id: id.to_string(), ..DeadlineBlock::default() });
        } else if line.text == "Setup:" && !blocks.is_empty() {
            return second_run();
        } else if let Some(id) = line.strip_prefix("deadline thread ") {
            announced.push(id.to_string());
        } else if let Some((_, reason)) = line.split_once(" failed: ") {
            let reason = format!("deadline_test says that a thread failed: {reason}");
            found.not_run(RowKind::Execution.name(), reason);
        } else if let Some(block) = blocks.last_mut() {
            take(block, &line).ok_or_else(|| line.unreadable())?;
        }
    }
    found.scheduled(Some("deadline"), None);
    if announced.is_empty() {
        found.unmarked();
    }
    for id in announced.iter().filter(|id| blocks.iter().all(|block| block.id != **id)) {
        found.lacks(format!("the block of thread {id} is absent: the file was cut short"));
    }
    for (number, block) in blocks.into_iter().enumerate() {
        let DeadlineBlock { id, deadlines, periods, period_us, cycles, times } = block;
        if [deadlines, periods, period_us, cycles].contains(&None) || times.is_none() {
            found.lacks(format!("the block of thread {id} lacks lines: it was cut short"));
        }
        let times = times.map(|times| ToolScreen { cycles: cycles.unwrap_or(0), ..times });
        let column = ImportedSeries::new(RowKind::Execution, number as u32, 1_000);
        let column = column.screen(&times.unwrap_or_default()).each_us(period_us.unwrap_or(0));
        let missed = deadlines.unwrap_or(0).saturating_add(periods.unwrap_or(0));
        found.columns.push(ImportedSeries { missed, ..column });
    }
    Ok(())
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
fn times(line: &str) -> Option<ToolScreen> {
    let figure = |name: &str| after(line, name)?.strip_suffix("us")?.parse::<u64>().ok();
    let (max, min, avg) = (figure("max_time:")?, figure("min_time:")?, figure("avg_time:")?);
    Some(ToolScreen { min: Some(min), avg: Some(avg as f64), max: Some(max), ..ToolScreen::default() })
}
