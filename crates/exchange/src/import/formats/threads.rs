// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines `T:` of cyclictest, signaltest and cyclicdeadline, and all that the latter two print.
//!
//! ```text
//! T: 0 (22580) P:80 C:   1457 Min:     20 Act:   24 Avg:   37 Max:     397     signaltest: no interval
//! T: 0 (27965) I:5000 C:    401 Min:      1 Act:    5 Avg:   24 Max:     116   cyclicdeadline: no priority
//! ```
//!
//! cyclictest's line has both. A thread that never ran has a minimum and a maximum that mean nothing.
//! signaltest sends a signal from thread to thread in a ring: a latency is one round. cyclicdeadline's is how
//! late a SCHED_DEADLINE thread begins its period. Neither says the CPU of a thread.

use std::collections::BTreeMap;

use crate::import::command::{Syntax, ToolCommand};
use crate::import::figures::ToolScreen;
use crate::import::scan::prelude::*;

pub(in crate::import) const SIGNALTEST: Description = Description {
    lacks: &[Lack::Cpus, Lack::Distribution, Lack::End],
    says: &[
        BREAK,
        FAILURES,
        DOUBTS,
        Says::NoLine(Totals, "C: of a thread's line"),
        Says::NoLine(Stops, "its break value says so"),
        Says::NoLine(Losses, "every round, or every period, is in its figures"),
    ],
    ..Description::of(
        "signaltest text",
        "signaltest",
        Told::Lines(|line| (ThreadTool::of(line)? == ThreadTool::Signaltest).then_some(Mark::Sure)),
        Digits::OfCutTimes,
        |scan, found| read(scan, found, ThreadTool::Signaltest),
    )
};

pub(in crate::import) const CYCLICDEADLINE: Description = Description {
    name: "cyclicdeadline text",
    program: "cyclicdeadline",
    told: Told::Lines(|line| (ThreadTool::of(line)? == ThreadTool::Cyclicdeadline).then_some(Mark::Sure)),
    read: |scan, found| read(scan, found, ThreadTool::Cyclicdeadline),
    ..SIGNALTEST
};

/// A tool that writes such lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum ThreadTool {
    Cyclictest,
    Signaltest,
    Cyclicdeadline,
}

impl ThreadTool {
    /// The tool whose line this is or should be.
    pub fn of(line: &str) -> Option<ThreadTool> {
        if let Some(read) = ThreadLine::read(line) {
            return read.tool();
        }
        let has = |names: &[&str]| names.iter().all(|name| line.contains(name));
        if has(&["T:", " P:", " I:", " C:", "Max:"]) {
            return Some(ThreadTool::Cyclictest);
        }
        let rest = line.strip_prefix("T:")?.split_once(") ")?.1;
        let tool = match rest.get(..2)? {
            "P:" if !rest.contains("I:") => ThreadTool::Signaltest,
            "I:" => ThreadTool::Cyclicdeadline,
            _ => return None,
        };
        has(&[" C:", " Min:", " Max:"]).then_some(tool)
    }

    /// The tool of a name, but for cyclictest.
    pub fn named(name: &str) -> Option<ThreadTool> {
        [ThreadTool::Signaltest, ThreadTool::Cyclicdeadline].into_iter().find(|tool| tool.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            ThreadTool::Cyclictest => "cyclictest",
            ThreadTool::Signaltest => "signaltest",
            ThreadTool::Cyclicdeadline => "cyclicdeadline",
        }
    }

    /// Options of the two tools without a file of their own.
    pub fn syntax(self) -> Syntax {
        match self {
            ThreadTool::Cyclicdeadline => Syntax {
                letters: "a::b:c:D:hi:s:t:q",
                names: &[("affinity", 'a'), ("duration", 'D'), ("interval", 'i'), ("step", 's')],
            },
            _ => Syntax {
                letters: "a::b:D:hl:mp:qt:v",
                names: &[("affinity", 'a'), ("duration", 'D'), ("prio", 'p')],
            },
        }
    }

    /// The period of a thread by its command line: cyclicdeadline's get longer by a step.
    pub fn period_us(self, command: &ToolCommand, number: u32) -> u64 {
        let period_us = || {
            let longer = command.number_or('s', 500)?.checked_mul(u64::from(number))?;
            longer.checked_add(command.number_or('i', 1_000)?)
        };
        if self == ThreadTool::Cyclicdeadline { period_us().unwrap_or(0) } else { 0 }
    }

    /// The probe that measures the same.
    pub fn probe(self) -> RowProbe {
        match self {
            ThreadTool::Signaltest => RowProbe::message("signal"),
            ThreadTool::Cyclictest | ThreadTool::Cyclicdeadline => RowKind::Wakeup.into(),
        }
    }

    /// Notes that hold for text and JSON of the tool.
    pub fn remarks(self, found: &mut ImportedFile) {
        match self {
            ThreadTool::Signaltest => found.note("a latency is one round of the signal through all threads"),
            ThreadTool::Cyclicdeadline => found.scheduled(Some("deadline"), None),
            ThreadTool::Cyclictest => {}
        }
    }
}

/// A thread's line, every field of which is whole.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::import) struct ThreadLine {
    pub thread: u32,
    pub tid: u64,
    pub priority: Option<u64>,
    pub interval_us: Option<u64>,
    pub screen: ToolScreen,
}

impl ThreadLine {
    pub fn read(line: &str) -> Option<ThreadLine> {
        let (thread, rest) = line.trim_start().strip_prefix("T:")?.split_once('(')?;
        let (tid, rest) = rest.split_once(')')?;
        let tid = plain_number(tid.trim())?;
        let mut fields = BTreeMap::new();
        let mut words = rest.split_whitespace();
        while let Some(word) = words.next() {
            let (name, value) = word.split_once(':')?;
            let value = if value.is_empty() { words.next()? } else { value };
            if fields.insert(name, value).is_some() {
                return None;
            }
        }
        let whole = |name: &str| fields.get(name).map(|value| plain_number(value).ok_or(())).transpose().ok();
        let (priority, interval_us) = (whole("P")?, whole("I")?);
        let cycles = whole("C")??;
        let figures = ["Min", "Avg", "Max"].map(|name| fields.get(name).copied());
        let [Some(min), Some(avg), Some(max)] = figures else { return None };
        let figure = |word: &str| match cycles {
            // Figures of a thread that never ran are the tool's first guesses: 1000000 and -1000000.
            0 => plain_number(word.strip_prefix('-').unwrap_or(word)).map(|_| None),
            _ => plain_number(word).map(Some),
        };
        // The last latency may be negative.
        let last = fields.get("Act").and_then(|act| plain_number(act)).filter(|_| cycles > 0);
        let screen = ToolScreen {
            identity: (tid, interval_us.or(priority).unwrap_or(0)),
            cycles,
            min: figure(min)?,
            avg: figure(avg)?.map(|avg| avg as f64),
            max: figure(max)?.max(last),
        };
        Some(ThreadLine { thread: thread.trim().parse().ok()?, tid, priority, interval_us, screen })
    }

    pub fn tool(&self) -> Option<ThreadTool> {
        match (self.priority, self.interval_us) {
            (Some(_), Some(_)) => Some(ThreadTool::Cyclictest),
            (Some(_), None) => Some(ThreadTool::Signaltest),
            (None, Some(_)) => Some(ThreadTool::Cyclicdeadline),
            (None, None) => None,
        }
    }
}

/// All lines of threads: the last one of each, with the worst maximum of all.
#[derive(Debug, Default)]
pub(in crate::import) struct Threads(pub BTreeMap<u32, ThreadLine>);

impl Threads {
    /// Takes a line; false where it is not a thread's. An error where it should be one and cannot be read,
    /// is another tool's, or belongs to another run.
    pub fn take(&mut self, tool: ThreadTool, line: &Line) -> Result<bool, String> {
        let Some(mut next) = ThreadLine::read(line) else {
            let has = |name: &str| line.contains(name);
            let resembles = line.starts_with("T:") && has("(") || has("Min:") && (has("Max:") || has("C:"));
            return if resembles { Err(line.unreadable()) } else { Ok(false) };
        };
        if next.tool() != Some(tool) {
            return Err(line.unreadable());
        }
        if let Some(ThreadLine { screen: mut known, .. }) = self.0.remove(&next.thread) {
            // cyclictest never forgets a maximum.
            let sinks = next.screen.max < known.max || known.min < next.screen.min;
            second_run_if(tool == ThreadTool::Cyclictest && known.cycles > 0 && sinks)?;
            known.redraw(next.screen)?;
            next.screen = known;
        }
        self.0.insert(next.thread, next);
        Ok(true)
    }

    /// The priority that all threads share.
    pub fn priority(&self, policy: Option<&str>, found: &mut ImportedFile) {
        found.share_priority(self.0.values().filter_map(|line| line.priority), policy);
    }
}

/// Samples that `-v` lists: the counts of each latency by thread.
#[derive(Debug, Default)]
pub(in crate::import) struct SampleLines(pub BTreeMap<u32, ThreadSamples>);

/// Samples of one thread.
#[derive(Debug, Default)]
pub(in crate::import) struct ThreadSamples {
    pub buckets: BTreeMap<u64, u64>,
    pub count: u64,
    pub first: u64,
    pub last: u64,
}

impl SampleLines {
    /// Takes a sample's line; false where it is none, and an error where it belongs to another run.
    pub fn take(&mut self, line: &str) -> Result<bool, String> {
        let Some((thread, cycle, latency)) = sample(line) else { return Ok(false) };
        second_run_if(self.0.get(&thread).is_some_and(|known| known.last >= cycle))?;
        let new = || ThreadSamples { first: cycle, ..ThreadSamples::default() };
        let samples = self.0.entry(thread).or_insert_with(new);
        samples.last = cycle;
        samples.count += 1;
        *samples.buckets.entry(latency).or_default() += 1;
        Ok(true)
    }
}

fn read(scan: &mut Scan, found: &mut ImportedFile, tool: ThreadTool) -> Result<(), String> {
    let (mut threads, mut samples) = (Threads::default(), SampleLines::default());
    while let Some(line) = scan.next()? {
        if !threads.take(tool, &line)? {
            samples.take(&line)?;
        }
    }
    tool.remarks(found);
    threads.priority(Some("fifo"), found);
    for (thread, ThreadLine { tid, interval_us, mut screen, .. }) in threads.0 {
        if screen.min.zip(screen.avg).is_some_and(|(min, avg)| min as f64 > avg + 1.0) {
            let name = tool.name();
            found.note(format!("thread {thread}: its minimum is above its mean: {name} forgot one of 0"));
            screen.min = Some(0);
        }
        let listed = samples.0.get(&thread).and_then(|samples| samples.buckets.last_key_value());
        screen.max = screen.max.max(listed.map(|bucket| *bucket.0));
        let column = ImportedSeries::new(tool.probe(), thread, 1_000).screen(&screen);
        let column = column.each_us(interval_us.unwrap_or(0));
        found.columns.push(ImportedSeries { tid: Some(tid), ..column });
    }
    Ok(())
}

/// A line of `-v`: thread, cycle and latency.
pub(in crate::import) fn sample(line: &str) -> Option<(u32, u64, u64)> {
    let fields = line.split(':').map(str::trim).collect::<Vec<_>>();
    let [thread, cycle, latency] = fields[..] else { return None };
    // A time of day, as `date` prints it between two programs.
    if line.len() == 8 && fields.iter().all(|field| field.len() == 2) {
        return None;
    }
    Some((thread.parse().ok()?, plain_number(cycle)?, plain_number(latency)?))
}
