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

use crate::import::figures::{ToolScreen, after};
use crate::import::scan::prelude::*;

pub(in crate::import) const FORMAT: Description = Description {
    lacks: &[Lack::Distribution, Lack::End],
    says: &[
        FAILURES,
        DOUBTS,
        Says::NoLine(Totals, "Cycles of each pair"),
        Says::NoLine(Worse, "Cur, beside Max"),
        Says::NoLine(Stops, "-b ends it in silence; its Max has the value"),
        Says::NoLine(Losses, "TO: a message that did not come is a missed period"),
    ],
    ..Description::of(
        "pmqtest and ptsematest text",
        "rt-tests",
        Told::Lines(|line| Mark::first([is_head(line), is_figures(line)])),
        Digits::OfCutTimes,
        read,
    )
};

/// The tools and what carries their messages.
const TOOLS: [(&str, &str); 4] =
    [("pmqtest", "mqueue"), ("ptsematest", "mutex"), ("svsematest", "semaphore"), ("sigwaittest", "sigwait")];

/// The probe of a tool of this family.
pub(in crate::import) fn probe(tool: &str) -> RowProbe {
    RowProbe::message(TOOLS.iter().find(|known| known.0 == tool).map_or("unknown", |known| known.1))
}

/// The tool of this family that has a name.
pub(in crate::import) fn tool(name: &str) -> Option<&'static str> {
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

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let mut pairs: BTreeMap<u32, Pair> = BTreeMap::new();
    let mut has_timeouts = false;
    while let Some(line) = scan.next()? {
        let bad = || line.unreadable();
        if is_head(&line) {
            let (number, pair) = head(&line).ok_or_else(bad)?;
            has_timeouts |= line.contains(" TO ");
            match pairs.get_mut(&number) {
                Some(known) => known.advance(pair)?,
                None => drop(pairs.insert(number, pair)),
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
    match tool_of(scan.text).or(has_timeouts.then_some("pmqtest")) {
        Some(tool) => found.manifest.written_by.program = tool.into(),
        None => found.note("the text does not say which of ptsematest, svsematest and sigwaittest wrote it"),
    }
    remark(found);
    let probe = probe(&found.program());
    // Every pair after the first has a lower priority.
    found.share_priority(pairs.values().map(|pair| pair.priority), Some("fifo"));
    for (number, pair) in pairs {
        if !pair.told {
            found.lacks(format!("the pair #{number} has no line of figures: the file was cut short"));
        }
        let column = ImportedSeries::new(probe, pair.cpu, 1_000).screen(&pair.screen);
        found.columns.push(ImportedSeries { missed: pair.timeouts, ..column.each_us(pair.period_us) });
    }
    Ok(())
}

/// A note that holds for text and JSON.
pub(in crate::import) fn remark(found: &mut ImportedFile) {
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

impl Pair {
    /// Takes the pair of the next screen.
    fn advance(&mut self, next: Pair) -> Result<(), String> {
        self.screen.redraw(next.screen)?;
        second_run_if(next.timeouts < self.timeouts)?;
        (self.timeouts, self.told, self.cpu) = (next.timeouts, false, next.cpu);
        Ok(())
    }
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
