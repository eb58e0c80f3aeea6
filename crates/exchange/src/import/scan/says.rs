// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements of a tool beside its figures: a worse value, a stop, a failure, lost samples, a doubt.
//!
//! A statement is a pattern of a line, which the description of its format lists. In a pattern a blank stands
//! for any number of blanks, and a name in braces for a figure: `{us}` microseconds, `{units}` a number in
//! the file's own unit, `{cpu}`, `{tid}`, `{some}` a number above zero, `{}` any text. Every line of every
//! text passes here before a reader sees it, wherever it stands: a statement is never lost.

use std::collections::{BTreeMap, HashMap};

use crate::import::column::{ImportedFile, ImportedSeries};
use crate::import::figures::thousandths;
use evidence::kind::RowKind;
use evidence::taint;
use machine::units::us;

use FormatQuestion::{Aborts, Doubts, Losses, Stops, Worse};

/// A question about a format's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatQuestion {
    /// Where the text states how many samples there were.
    Totals,
    /// Which lines state a sample that the table may lack.
    Worse,
    /// Which lines say that the tool ended early, as it was told to.
    Stops,
    /// Which lines say that samples were lost.
    Losses,
    /// Which lines say that the tool failed.
    Aborts,
    /// Which lines say that the figures are not to be relied on.
    Doubts,
}

impl FormatQuestion {
    /// All of them.
    pub const ALL: [FormatQuestion; 6] = [FormatQuestion::Totals, Worse, Stops, Losses, Aborts, Doubts];
}

/// An answer to a question about a format's text.
#[derive(Debug, Clone, Copy)]
pub(in crate::import) enum Says {
    /// Lines, as patterns. Of a worse sample, one without a value states the place of those that follow.
    Lines(FormatQuestion, &'static [&'static str]),
    /// The line of a worse sample of one of several probes.
    SampleOf(RowKind, &'static str),
    /// No line: a field that the reader takes, or why the tool never states such a thing.
    NoLine(FormatQuestion, &'static str),
}

/// The latency at which a tool of rt-tests ended (`-b`), and the thread that had it.
pub(in crate::import) const BREAK: Says =
    Says::Lines(Worse, &["# Break thread:{tid}", "# Break value:{units}"]);

/// Failures that rt-tests state without ending.
pub(in crate::import) const FAILURES: Says = Says::Lines(
    Aborts,
    &[
        "FATAL:{}",
        "ERROR:{}",
        "{}clock_nanosleep{}failed{}",
        "{}clock_gettime{}failed{}",
        "could not {} message{}",
        "{}ailed to set priority to{}",
    ],
);

/// Doubts that rt-tests state.
pub(in crate::import) const DOUBTS: Says = Says::Lines(
    Doubts,
    &[
        "WARN: High resolution timers not available{}",
        "{}Could not set CPU affinity{}",
        "WARN: Running on unknown kernel version{}",
    ],
);

/// A shell's words for any tool that died.
const DEATHS: Says = Says::Lines(
    Aborts,
    &[
        "Segmentation fault{}",
        "Bus error{}",
        "Aborted{}",
        "Killed",
        "{}: line {some}: {some} Segmentation fault {}",
        "{}: line {some}: {some} Aborted {}",
        "{}: line {some}: {some} Killed {}",
    ],
);

/// Where a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Cpu(u32),
    Thread(u64),
}

/// The largest value that is stated of a place: nanoseconds, and figures in the unit of the file.
#[derive(Debug, Clone, Copy, Default)]
struct Largest {
    ns: u64,
    units: u64,
}

/// All statements of a text so far.
#[derive(Debug, Default)]
pub(in crate::import) struct Said {
    place: Option<Place>,
    worst: BTreeMap<(Option<RowKind>, Option<Place>), Largest>,
    /// Taints by code, each with the line that says so.
    taints: Vec<(&'static str, String)>,
    stops: Vec<String>,
}

impl Said {
    /// Takes a line; false where it is no statement, and an error where its figure cannot be read.
    pub fn take(&mut self, says: &[Says], line: &str) -> Result<bool, ()> {
        for says in says.iter().chain([&DEATHS]) {
            let (question, kind, patterns) = match says {
                Says::Lines(question, patterns) => (*question, None, *patterns),
                Says::SampleOf(kind, pattern) => (Worse, Some(*kind), std::slice::from_ref(pattern)),
                Says::NoLine(..) => continue,
            };
            let Some(fields) = patterns.iter().find_map(|pattern| fields(pattern, line)) else { continue };
            match question {
                Worse => self.sample(kind, &fields).ok_or(())?,
                Stops => push_new(&mut self.stops, line.to_string()),
                Losses => push_new(&mut self.taints, (taint::SAMPLES_LOST, line.to_string())),
                _ => push_new(&mut self.taints, (taint::TOOL_FAILED, line.to_string())),
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn sample(&mut self, kind: Option<RowKind>, fields: &[(&str, &str)]) -> Option<()> {
        let (mut stated, mut place) = (None, None);
        for (name, text) in fields {
            match *name {
                "us" => stated = Some(Largest { ns: thousandths(text)?.try_into().ok()?, units: 0 }),
                "units" => stated = Some(Largest { ns: 0, units: text.parse().ok()? }),
                "cpu" => place = Some(Place::Cpu(text.parse().ok()?)),
                "tid" => place = Some(Place::Thread(text.parse().ok()?)),
                _ => {}
            }
        }
        let Some(stated) = stated else {
            self.place = Some(place?);
            return Some(());
        };
        let known = self.worst.entry((kind, place.or(self.place))).or_default();
        *known = Largest { ns: known.ns.max(stated.ns), units: known.units.max(stated.units) };
        Some(())
    }

    /// Lets all statements count; `is_cut` where the figures of the table lack the last digits.
    pub fn settle(self, is_cut: bool, found: &mut ImportedFile) {
        let program = found.program();
        for line in &self.stops {
            found.note(format!("{program} stopped at the threshold it was given: {line}"));
        }
        for (code, line) in self.taints {
            let cure = "find out why, and measure again";
            found.taint(code, format!("{program} says: {line}"), cure, None);
        }
        let places = if self.worst.is_empty() { HashMap::new() } else { places(found) };
        for ((kind, place), stated) in self.worst {
            let at = place.and_then(|place| places.get(&(kind, place))).copied();
            let of_kind = |column: &ImportedSeries| kind.is_none_or(|kind| column.probe.kind == kind);
            let others = || found.columns.iter().enumerate().filter(|(_, column)| of_kind(column));
            let worst = || others().max_by_key(|(_, column)| column.max).map(|(at, _)| at);
            let Some(column) = at.or_else(worst) else {
                let cpu = if let Some(Place::Cpu(cpu)) = place { cpu } else { 0 };
                found.columns.push(ImportedSeries {
                    overflow: 1,
                    max: Some(stated.ns.max(stated.units.saturating_mul(1_000))),
                    ..ImportedSeries::new(kind.unwrap_or(RowKind::Wakeup), cpu, 1)
                });
                found.lacks(format!("{program} states a latency that its table does not hold"));
                continue;
            };
            let is_unsure = at.is_none() && others().nth(1).is_some();
            let column = &mut found.columns[column];
            let ns = stated.ns.max(stated.units.saturating_mul(column.unit_ns));
            column.state_max_ns(ns, is_cut);
            if is_unsure {
                found.lacks(format!("the file does not say which row has the latency of {}", us(ns)));
            }
        }
    }
}

/// The columns by probe and place. A probe that is not told stands for any.
fn places(found: &ImportedFile) -> HashMap<(Option<RowKind>, Place), usize> {
    let mut places = HashMap::new();
    for (at, column) in found.columns.iter().enumerate() {
        let here = [Some(Place::Cpu(column.cpu)), column.tid.map(Place::Thread)];
        for place in here.into_iter().flatten() {
            places.insert((Some(column.probe.kind), place), at);
            places.insert((None, place), at);
        }
    }
    places
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    /// A screen drawn again says the same; a text of nothing but statements is no reason to keep them all.
    const MOST: usize = 20;
    if list.len() < MOST && !list.contains(&item) {
        list.push(item);
    }
}

/// The named parts of a line that fits a pattern.
fn fields<'p, 'l>(pattern: &'p str, line: &'l str) -> Option<Vec<(&'p str, &'l str)>> {
    let (mut pattern, mut rest, mut found) = (pattern, line, Vec::new());
    while let Some((before, after)) = pattern.split_once('{') {
        let (name, after) = after.split_once('}')?;
        rest = literal(before, rest)?;
        let next = after.split('{').next().unwrap_or_default();
        let stop = next.split_whitespace().next();
        let end = match stop {
            Some(stop) => rest.find(stop)?,
            None if next.is_empty() => rest.len(),
            None => rest.trim_start().find(char::is_whitespace)? + (rest.len() - rest.trim_start().len()),
        };
        let text = rest[..end].trim();
        if name == "some" && !text.parse::<u64>().is_ok_and(|number| number > 0) {
            return None;
        }
        found.push((name, text));
        (pattern, rest) = (after, &rest[end..]);
    }
    literal(pattern, rest)?.trim().is_empty().then_some(found)
}

/// The rest of a line behind the words of a pattern.
fn literal<'l>(words: &str, line: &'l str) -> Option<&'l str> {
    let mut rest = line;
    for (n, word) in words.split(' ').enumerate() {
        if n > 0 {
            rest = rest.trim_start();
        }
        rest = rest.strip_prefix(word)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_fields_of_a_line() {
        for (pattern, line, expected) in [
            (
                "Thread latency: {us} us{}",
                "Thread latency:\t\t 31.44 us (100%)",
                Some(vec!["31.44", "(100%)"]),
            ),
            ("Thread latency: {us} us{}", "IRQ latency: 31.44 us", None),
            ("{} hit stop tracing{}", "rtla timerlat hit stop tracing", Some(vec!["rtla timerlat", ""])),
            ("## CPU {cpu} hit stop tracing{}", "## CPU 2 hit stop tracing, x ##", Some(vec!["2", ", x ##"])),
            ("with {us} us!", "with 41 us! more", None),
            ("Killed", "Killed", Some(vec![])),
            ("Killed", "Killed 3", None),
            ("{some} ({}) events missed", "3 (2.1%) events missed", Some(vec!["3", "2.1%"])),
            ("# SWITCHES: {some}", "# SWITCHES: 3", Some(vec!["3"])),
            ("# SWITCHES: {some}", "# SWITCHES: 0", None),
        ] {
            let found = fields(pattern, line).map(|fields| fields.iter().map(|field| field.1).collect());
            assert_eq!(found, expected, "{pattern}: {line}");
        }
    }
}
