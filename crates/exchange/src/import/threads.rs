// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of signaltest and cyclicdeadline, which look like cyclictest's and lack one of its fields.
//!
//! ```text
//! T: 0 (22580) P:80 C:   1457 Min:     20 Act:   24 Avg:   37 Max:     397     signaltest: no interval
//! T: 0 (27965) I:5000 C:    401 Min:      1 Act:    5 Avg:   24 Max:     116   cyclicdeadline: no priority
//! ```
//!
//! signaltest sends a signal from thread to thread in a ring: a latency is one round. cyclicdeadline's is how
//! late a SCHED_DEADLINE thread begins its period. Neither says the CPU of a thread.

use std::collections::BTreeMap;

use super::column::{ImportedFile, ImportedSeries};
use super::command::{Syntax, ToolCommand};
use super::cyclictest;
use super::figures::{ToolScreen, after};
use super::text::whole_lines;

/// Which of the two tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairTool {
    Signaltest,
    Cyclicdeadline,
}

impl PairTool {
    /// The tool that wrote a line.
    pub fn of(line: &str) -> Option<PairTool> {
        let rest = line.strip_prefix("T:")?.split_once(") ")?.1;
        let is_summary = [" C:", " Min:", " Max:"].iter().all(|name| rest.contains(name));
        match (rest.starts_with("P:"), rest.contains("I:")) {
            (true, false) if is_summary => Some(PairTool::Signaltest),
            (false, true) if is_summary && rest.starts_with("I:") => Some(PairTool::Cyclicdeadline),
            _ => None,
        }
    }

    /// The tool of a name.
    pub fn named(name: &str) -> Option<PairTool> {
        match name {
            "signaltest" => Some(PairTool::Signaltest),
            "cyclicdeadline" => Some(PairTool::Cyclicdeadline),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            PairTool::Signaltest => "signaltest",
            PairTool::Cyclicdeadline => "cyclicdeadline",
        }
    }

    /// Its options.
    pub fn syntax(self) -> Syntax {
        match self {
            PairTool::Signaltest => Syntax {
                letters: "a::b:D:hl:mp:qt:v",
                names: &[("affinity", 'a'), ("duration", 'D'), ("prio", 'p')],
            },
            PairTool::Cyclicdeadline => Syntax {
                letters: "a::b:c:D:hi:s:t:q",
                names: &[("affinity", 'a'), ("duration", 'D'), ("interval", 'i'), ("step", 's')],
            },
        }
    }

    /// What a command line asks.
    pub fn asked(self, command: &ToolCommand, found: &mut ImportedFile) {
        if self == PairTool::Signaltest {
            match command.number('p').filter(|priority| *priority > 0) {
                Some(priority) => found.scheduled(Some("fifo"), Some(priority)),
                None => found.scheduled(Some("other"), None),
            }
        }
    }

    /// The period of a thread: cyclicdeadline's get longer by a step.
    pub fn period_us(self, command: &ToolCommand, number: u32) -> u64 {
        let given =
            |letter, default| if command.has(letter) { command.number(letter) } else { Some(default) };
        let period_us = || {
            let longer = given('s', 500)?.checked_mul(u64::from(number))?;
            longer.checked_add(given('i', 1_000)?)
        };
        if self == PairTool::Cyclicdeadline { period_us().unwrap_or(0) } else { 0 }
    }

    /// The probe that measures the same.
    pub fn probe(self) -> &'static str {
        match self {
            PairTool::Signaltest => "message-signal",
            PairTool::Cyclicdeadline => "wakeup",
        }
    }
}

/// Reads the text.
pub(super) fn read(text: &str, tool: PairTool) -> Result<ImportedFile, String> {
    let mut found = ImportedFile::by(tool.name(), None);
    let mut threads: BTreeMap<u32, (ToolScreen, u64)> = BTreeMap::new();
    // The last cycle and the worst latency of each thread, where -v lists them.
    let mut samples: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (n, line) in whole_lines(text, &mut found.missing).lines().enumerate() {
        if PairTool::of(line) == Some(tool) {
            let bad = || format!("line {}: '{line}' is not a line of {}", n + 1, tool.name());
            let (thread, screen, number) = thread(line, tool).ok_or_else(bad)?;
            match threads.get_mut(&thread) {
                Some(known) => known.0.redraw(screen)?,
                None => {
                    threads.insert(thread, (screen, number));
                }
            }
        } else if line.starts_with("T:") {
            return Err(format!("line {}: '{line}' is not a line of {}", n + 1, tool.name()));
        } else if let Some((thread, cycle, latency)) = cyclictest::sample(line) {
            match samples.get_mut(&thread) {
                Some((last, _)) if *last >= cycle => return Err("it holds more than one run".into()),
                Some((last, worst)) => (*last, *worst) = (cycle, latency.max(*worst)),
                None => {
                    samples.insert(thread, (cycle, latency));
                }
            }
        }
    }
    found.cpus_known = false;
    found.note("nothing marks the end of the text: whether it is whole cannot be told");
    remarks(tool, &mut found);
    if tool == PairTool::Signaltest {
        let mut priorities = threads.values().map(|thread| thread.1);
        if let Some(priority) = priorities.next().filter(|first| priorities.all(|other| other == *first)) {
            found.scheduled(Some(if priority > 0 { "fifo" } else { "other" }), Some(priority));
        }
    }
    for (thread, (mut screen, number)) in threads {
        if screen.min.zip(screen.avg).is_some_and(|(min, avg)| min as f64 > avg + 1.0) {
            found.note(format!(
                "thread {thread}: its minimum is above its mean: {} forgot one of 0",
                tool.name()
            ));
            screen.min = Some(0);
        }
        screen.max = screen.max.max(samples.get(&thread).map(|seen| seen.1));
        let period_us = if tool == PairTool::Cyclicdeadline { number } else { 0 };
        found.columns.push(column(tool, &screen, thread, period_us));
    }
    Ok(found)
}

/// What holds for text and JSON of the tool.
pub(super) fn remarks(tool: PairTool, found: &mut ImportedFile) {
    found.note("the file holds no histogram: only minimum, mean and maximum are known");
    match tool {
        PairTool::Signaltest => found.note("a latency is one round of the signal through all threads"),
        PairTool::Cyclicdeadline => found.scheduled(Some("deadline"), None),
    }
}

/// A thread's row.
pub(super) fn column(tool: PairTool, screen: &ToolScreen, cpu: u32, period_us: u64) -> ImportedSeries {
    ImportedSeries {
        probe: tool.probe(),
        cpu,
        period_ns: period_us.checked_mul(1_000).filter(|ns| *ns > 0),
        unit_ns: 1_000,
        width: 1,
        overflow: screen.cycles,
        min: screen.min,
        avg: screen.avg,
        max: screen.max,
        ..ImportedSeries::default()
    }
}

/// A line's thread, its figures, and its priority or interval.
fn thread(line: &str, tool: PairTool) -> Option<(u32, ToolScreen, u64)> {
    let (thread, rest) = line.strip_prefix("T:")?.split_once('(')?;
    let (id, rest) = rest.split_once(')')?;
    let number = match tool {
        PairTool::Signaltest => after(rest, "P:")?,
        PairTool::Cyclicdeadline => after(rest, "I:")?,
    };
    let figure = |name: &str| after(rest, name)?.parse::<u64>().ok();
    let screen = ToolScreen {
        identity: format!("{} {number}", id.trim()),
        cycles: figure("C:")?,
        min: Some(figure("Min:")?),
        avg: Some(figure("Avg:")? as f64),
        max: Some(figure("Max:")?.max(figure("Act:")?)),
    };
    Some((thread.trim().parse().ok()?, screen, number.parse().ok()?))
}
