// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements of a tool beside its figures: a worse value, a stop, a failure, lost samples, a doubt.
//!
//! A statement is a pattern of a line, which its format's [`Description`] lists. In a pattern a blank stands
//! for any number of blanks, and a name in braces for a figure: `{us}` microseconds, `{units}` a number in
//! the file's own unit, `{cpu}`, `{tid}`, `{some}` a number above zero, `{}` any text. Every line of every
//! text passes here before a reader sees it, wherever it stands: a statement is never lost.

use std::collections::{BTreeMap, HashMap};

use super::format::{Answer, Description, Worse};
use crate::import::column::{ImportedFile, ImportedSeries, Rounding};
use crate::import::figures::thousandths;
use evidence::taint;
use machine::units::us;

/// A shell's words for any tool that died.
const DEATHS: &[&str] = &[
    "Segmentation fault{}",
    "Bus error{}",
    "Aborted{}",
    "Killed",
    "{}: line {some}: {some} Segmentation fault {}",
    "{}: line {some}: {some} Aborted {}",
    "{}: line {some}: {some} Killed {}",
];

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
    worst: BTreeMap<(Option<&'static str>, Option<Place>), Largest>,
    /// Taints by code, each with the line that says so.
    taints: Vec<(&'static str, String)>,
    stops: Vec<String>,
}

impl Said {
    /// Takes a line; false where it is no statement, and an error where its figure cannot be read.
    pub fn take(&mut self, format: &Description, line: &str) -> Result<bool, ()> {
        for worse in format.worse.lines() {
            let (Worse::Sample(pattern, _) | Worse::Place(pattern)) = worse;
            if let Some(fields) = fields(pattern, line) {
                self.sample(*worse, &fields).ok_or(())?;
                return Ok(true);
            }
        }
        let says = |patterns: &[&str]| patterns.iter().any(|pattern| states(pattern, line));
        if says(format.stops.lines()) {
            push_new(&mut self.stops, line.to_string());
            return Ok(true);
        }
        let code = if says(format.losses.lines()) {
            taint::SAMPLES_LOST
        } else if says(format.aborts.lines()) || says(format.doubts.lines()) || says(DEATHS) {
            taint::TOOL_FAILED
        } else {
            return Ok(false);
        };
        push_new(&mut self.taints, (code, line.to_string()));
        Ok(true)
    }

    fn sample(&mut self, worse: Worse, fields: &[(&str, &str)]) -> Option<()> {
        let mut stated = None;
        let mut place = None;
        for (name, text) in fields {
            match *name {
                "us" => stated = Some(Largest { ns: thousandths(text)?.try_into().ok()?, units: 0 }),
                "units" => stated = Some(Largest { ns: 0, units: text.parse().ok()? }),
                "cpu" => place = Some(Place::Cpu(text.parse().ok()?)),
                "tid" => place = Some(Place::Thread(text.parse().ok()?)),
                _ => {}
            }
        }
        match worse {
            Worse::Place(_) => self.place = Some(place?),
            Worse::Sample(_, probe) => {
                let stated = stated?;
                let known = self.worst.entry((probe, place.or(self.place))).or_default();
                *known = Largest { ns: known.ns.max(stated.ns), units: known.units.max(stated.units) };
            }
        }
        Some(())
    }

    /// Lets all statements count.
    pub fn settle(self, rounding: Rounding, found: &mut ImportedFile) {
        let program = found.manifest.written_by.program.clone();
        for line in &self.stops {
            found.note(format!("{program} stopped at the threshold it was given: {line}"));
        }
        for (code, line) in self.taints {
            let cure = "find out why, and measure again";
            found.taint(code, format!("{program} says: {line}"), cure, None);
        }
        if self.worst.is_empty() {
            return;
        }
        let places = places(found);
        for ((probe, place), stated) in self.worst {
            let at = place.and_then(|place| places.get(&(probe, place))).copied();
            let of_probe = |column: &ImportedSeries| probe.is_none_or(|probe| column.probe == probe);
            let others = || found.columns.iter().enumerate().filter(|(_, column)| of_probe(column));
            let worst = || others().max_by_key(|(_, column)| column.max).map(|(at, _)| at);
            let Some(column) = at.or_else(worst) else {
                found.columns.push(ImportedSeries {
                    probe: probe.unwrap_or("wakeup"),
                    cpu: if let Some(Place::Cpu(cpu)) = place { cpu } else { 0 },
                    unit_ns: 1,
                    width: 1,
                    overflow: 1,
                    max: Some(stated.ns.max(stated.units.saturating_mul(1_000))),
                    ..ImportedSeries::default()
                });
                found.missing.push(format!("{program} states a latency that its table does not hold"));
                continue;
            };
            let is_unsure = at.is_none() && others().nth(1).is_some();
            let column = &mut found.columns[column];
            let ns = stated.ns.max(stated.units.saturating_mul(column.unit_ns));
            column.state_max_ns(ns, rounding);
            if is_unsure {
                found.missing.push(format!("the file does not say which row has the latency of {}", us(ns)));
            }
        }
    }
}

/// The columns by probe and place. A probe that is not told stands for any.
fn places(found: &ImportedFile) -> HashMap<(Option<&'static str>, Place), usize> {
    let mut places = HashMap::new();
    for (at, column) in found.columns.iter().enumerate() {
        let here = [Some(Place::Cpu(column.cpu)), column.tid.map(Place::Thread)];
        for place in here.into_iter().flatten() {
            places.insert((Some(column.probe), place), at);
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

/// Whether a line is the statement of a pattern: a `{some}` in it has to be above zero.
fn states(pattern: &str, line: &str) -> bool {
    fields(pattern, line).is_some_and(|fields| {
        let is_some = |text: &str| text.parse::<u64>().is_ok_and(|number| number > 0);
        fields.iter().all(|(name, text)| *name != "some" || is_some(text))
    })
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
        found.push((name, rest[..end].trim()));
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

/// A question about a format's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatQuestion {
    /// Where the text states how many samples there were.
    Totals,
    /// Which lines state a sample that the table may lack.
    Worse,
    /// Which lines say that the tool ended early, as it was told to.
    Stops,
    /// Which lines say that the tool failed.
    Aborts,
    /// Which lines say that samples were lost.
    Losses,
    /// Which lines say that the figures are not to be relied on.
    Doubts,
}

impl FormatQuestion {
    /// All of them.
    pub const ALL: [FormatQuestion; 6] = [
        FormatQuestion::Totals,
        FormatQuestion::Worse,
        FormatQuestion::Stops,
        FormatQuestion::Aborts,
        FormatQuestion::Losses,
        FormatQuestion::Doubts,
    ];
}

impl Description {
    /// The lines that answer a question, as patterns. Absent: the second text says which field of the file
    /// answers it, or why the tool never states such a thing.
    pub fn answer(&self, question: FormatQuestion) -> (Vec<&'static str>, Option<&'static str>) {
        fn text<T>(
            answer: &Answer<T>,
            pattern: fn(&T) -> &'static str,
        ) -> (Vec<&'static str>, Option<&'static str>) {
            match answer {
                Answer::Lines(lines) => (lines.iter().map(pattern).collect(), None),
                Answer::Field(field) | Answer::Never(field) => (Vec::new(), Some(field)),
            }
        }
        match question {
            FormatQuestion::Totals => text(&self.totals, |line| line),
            FormatQuestion::Worse => text(&self.worse, |worse| {
                let (Worse::Sample(pattern, _) | Worse::Place(pattern)) = worse;
                pattern
            }),
            FormatQuestion::Stops => text(&self.stops, |line| line),
            FormatQuestion::Aborts => text(&self.aborts, |line| line),
            FormatQuestion::Losses => text(&self.losses, |line| line),
            FormatQuestion::Doubts => text(&self.doubts, |line| line),
        }
    }
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
        ] {
            let found = fields(pattern, line).map(|fields| fields.iter().map(|field| field.1).collect());
            assert_eq!(found, expected, "{pattern}: {line}");
        }
        assert!(
            states("# SWITCHES: {some}", "# SWITCHES: 3") && !states("# SWITCHES: {some}", "# SWITCHES: 0")
        );
    }
}
