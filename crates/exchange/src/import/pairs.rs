// SPDX-License-Identifier: MIT OR Apache-2.0
//! pmqtest, ptsematest, svsematest and sigwaittest of rt-tests: how long a message takes from a sending to a
//! receiving thread.
//!
//! ```text
//! #0: ID22390, P80, CPU0, I1000; #1: ID22391, P80, CPU0, TO 0, Cycles 948
//! #1 -> #0, Min    3, Cur    4, Avg    4, Max   39
//! ```
//!
//! A row is a pair, on the CPU of its receiver. The text names the tool only where its command line is in it;
//! pmqtest alone counts timeouts (`TO`), each of which is a message that did not come: a period missed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::column::{ImportedFile, ImportedSeries, Rounding};
use super::figures::{ToolScreen, after, second_run};
use super::scan::Scan;
use super::scan::format::{Answer, Cpus, Description, End, Half, Mark, Missed, StatedSamples, Told, Unit};
use super::threads;

pub(super) const FORMAT: Description = Description {
    name: "pmqtest and ptsematest text",
    program: "rt-tests",
    told: Told::Lines(|line| {
        if is_head(line) { Some(Mark::Kind(0)) } else { is_figures(line).then_some(Mark::Kind(1)) }
    }),
    parts: &[],
    unit: Unit::Known,
    rounding: Rounding::Cut,
    cpus: Cpus::Stated,
    samples: StatedSamples::Extremes,
    totals: Answer::Field("Cycles of each pair"),
    missed: Missed::Counted,
    end: End::Unmarked,
    half_line: |_| Half::Dropped,
    worse: Answer::Field("Cur, beside Max"),
    stops: Answer::Never("-b ends it in silence; its Max has the value"),
    aborts: threads::FAILURES,
    losses: Answer::Field("TO: a message that did not come is a missed period"),
    doubts: threads::DOUBTS,
    read,
};

/// The tools and what carries their messages.
const TOOLS: [(&str, &str); 4] = [
    ("pmqtest", "message-mqueue"),
    ("ptsematest", "message-mutex"),
    ("svsematest", "message-semaphore"),
    ("sigwaittest", "message-sigwait"),
];

/// The probe of a tool of this family.
fn probe(tool: &str) -> Option<&'static str> {
    TOOLS.iter().find(|known| known.0 == tool).map(|known| known.1)
}

/// The tool of this family that has a name.
pub(super) fn tool(name: &str) -> Option<&'static str> {
    TOOLS.iter().map(|tool| tool.0).find(|tool| *tool == name)
}

/// Whether a line is the head of a pair.
fn is_head(line: &str) -> bool {
    line.starts_with('#') && line.contains(": ID") && line.contains("Cycles ")
}

/// Whether a line has the figures of a pair.
fn is_figures(line: &str) -> bool {
    line.starts_with('#') && line.contains(" -> #")
}

/// A pair as its two lines state it.
#[derive(Debug, Default)]
struct Pair {
    screen: ToolScreen,
    cpu: u32,
    period_us: u64,
    priority: u64,
    timeouts: u64,
    /// Whether its second line was read, on the last screen.
    told: bool,
}

fn read(scan: &mut Scan) -> Result<ImportedFile, String> {
    let mut pairs: BTreeMap<u32, Pair> = BTreeMap::new();
    let mut has_timeouts = false;
    while let Some(line) = scan.next()? {
        let bad = || line.unreadable();
        if is_head(&line) {
            let (number, pair) = head(&line).ok_or_else(bad)?;
            has_timeouts |= line.contains(" TO ");
            match pairs.get_mut(&number) {
                Some(known) => advance(known, pair)?,
                None => {
                    pairs.insert(number, pair);
                }
            }
        } else if is_figures(&line) {
            let number = line.split("-> #").nth(1).and_then(leading_number).ok_or_else(bad)?;
            let pair = pairs.get_mut(&number).ok_or_else(bad)?;
            pair.told = true;
            if !line.ends_with("(not yet ready)") {
                figures(&line, &mut pair.screen).ok_or_else(bad)?;
            }
        }
    }
    let mut found = scan.file();
    match tool_of(scan.text).or(has_timeouts.then_some("pmqtest")) {
        Some(tool) => found.manifest.written_by.program = tool.into(),
        None => found.note("the text does not say which of ptsematest, svsematest and sigwaittest wrote it"),
    }
    one_way(&mut found);
    let probe = probe(&found.manifest.written_by.program).unwrap_or("message-unknown");
    // Every pair after the first has a lower priority.
    found.share_priority(pairs.values().map(|pair| pair.priority), Some("fifo"));
    for (number, pair) in pairs {
        if !pair.told {
            found.missing.push(format!("the pair #{number} has no line of figures: the file was cut short"));
        }
        let column = ImportedSeries::of_screen(probe, pair.cpu, 1_000, &pair.screen);
        found.columns.push(ImportedSeries { missed: pair.timeouts, ..column.each_us(pair.period_us) });
    }
    Ok(found)
}

/// JSON of a pair.
#[derive(Debug, Deserialize)]
pub(super) struct PairSender {
    cpu: Option<i64>,
    priority: Option<u64>,
    samples: u64,
    interval: Option<u64>,
}

/// JSON of a pair.
#[derive(Debug, Deserialize)]
pub(super) struct PairReceiver {
    cpu: Option<i64>,
    #[serde(default)]
    timeoutcount: u64,
    min: Option<u64>,
    avg: Option<f64>,
    max: Option<u64>,
}

/// Takes the pairs of a JSON document.
pub(super) fn take(tool: &str, pairs: Vec<(u32, PairSender, PairReceiver)>, found: &mut ImportedFile) {
    one_way(found);
    found.extremes_alone();
    let probe = probe(tool).unwrap_or("message-unknown");
    found.share_priority(pairs.iter().filter_map(|(_, sender, _)| sender.priority), Some("fifo"));
    for (number, sender, receiver) in pairs {
        let cpu = receiver.cpu.or(sender.cpu).and_then(|cpu| u32::try_from(cpu).ok());
        found.cpus_known &= cpu.is_some();
        let screen = ToolScreen {
            cycles: sender.samples,
            min: receiver.min,
            avg: receiver.avg,
            max: receiver.max,
            ..ToolScreen::default()
        };
        let column = ImportedSeries::of_screen(probe, cpu.unwrap_or(number), 1_000, &screen);
        let column = column.each_us(sender.interval.unwrap_or(0));
        found.columns.push(ImportedSeries { missed: receiver.timeoutcount, ..column });
    }
}

fn one_way(found: &mut ImportedFile) {
    found.note("a latency is one way, from the sender to the receiver, without an answer");
}

/// `#0: ID22390, P80, CPU0, I1000; #1: ID22391, P80, CPU0, TO 0, Cycles 948`: the number of the receiving
/// thread, and the pair.
fn head(line: &str) -> Option<(u32, Pair)> {
    let (first, second) = line.split_once(';')?;
    let number = leading_number(first.strip_prefix('#')?)?;
    let field = |text: &str, name: &str| -> Option<u64> {
        // `I1000` is not the `ID22390` before it: only a number may follow.
        let parts = text.split(',').map(|part| part.split_once(':').map_or(part, |(_, part)| part).trim());
        parts.filter_map(|part| part.strip_prefix(name)).find_map(|number| number.trim().parse().ok())
    };
    let pair = Pair {
        screen: ToolScreen {
            identity: (field(first, "ID")?, field(first, "I")?),
            cycles: field(second, "Cycles")?,
            ..ToolScreen::default()
        },
        // The line of figures goes from the second thread to the first: the second one receives.
        cpu: field(second, "CPU")?.try_into().ok()?,
        period_us: field(first, "I")?,
        priority: field(first, "P")?,
        timeouts: field(second, "TO").unwrap_or(0),
        told: false,
    };
    Some((number, pair))
}

fn advance(known: &mut Pair, next: Pair) -> Result<(), String> {
    known.screen.redraw(next.screen)?;
    if next.timeouts < known.timeouts {
        return second_run();
    }
    (known.timeouts, known.told, known.cpu) = (next.timeouts, false, next.cpu);
    Ok(())
}

/// `#1 -> #0, Min    3, Cur    4, Avg    4, Max   39`.
fn figures(line: &str, screen: &mut ToolScreen) -> Option<()> {
    let figure = |name: &str| after(line, name)?.trim_end_matches(',').parse::<u64>().ok();
    let (min, cur, avg, max) = (figure("Min")?, figure("Cur")?, figure("Avg")?, figure("Max")?);
    (screen.min, screen.avg) = (Some(min), Some(avg as f64));
    screen.max = screen.max.max(Some(max.max(cur)));
    Some(())
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The tool whose command line is in the text: `$ sudo ptsematest -t 2`.
fn tool_of(text: &str) -> Option<&'static str> {
    let words =
        text.lines().filter(|line| !is_head(line) && !is_figures(line)).flat_map(str::split_whitespace);
    let names = words.map(|word| word.rsplit('/').next().unwrap_or(word));
    names.into_iter().find_map(tool)
}
