// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a format.
//!
//! A format is a [`Description`]: how its text is told from others, which figures it has, and the lines in
//! which its tool states a worse value, stops, fails, loses samples or doubts itself. No part has a default:
//! a format that leaves a question open does not compile. A question whose answer is "never" says why.
//! `read` is the rest: it puts the lines that are left into columns.

use super::Scan;
use crate::import::column::{ImportedFile, Rounding};

/// A format.
pub(in crate::import) struct Description {
    /// Its name for people.
    pub name: &'static str,
    /// The tool that writes it.
    pub program: &'static str,
    pub told: Told,
    /// The names of formats whose lines one run of the tool may print besides.
    pub parts: &'static [&'static str],
    pub unit: Unit,
    pub rounding: Rounding,
    pub cpus: Cpus,
    pub samples: StatedSamples,
    /// Where it states how many samples there were.
    pub totals: Answer<&'static str>,
    pub missed: Missed,
    pub end: End,
    /// The fate of a last line without a line end, which may be half of one.
    pub half_line: fn(&str) -> Half,
    /// The lines that state a sample which the table may lack.
    pub worse: Answer<Worse>,
    /// The lines that say that the tool ended early, as it was told to.
    pub stops: Answer<&'static str>,
    /// The lines that say that the tool failed.
    pub aborts: Answer<&'static str>,
    /// The lines that say that samples were lost.
    pub losses: Answer<&'static str>,
    /// The lines that say that the figures are not to be relied on.
    pub doubts: Answer<&'static str>,
    pub read: for<'a> fn(&mut Scan<'a>) -> Result<ImportedFile, String>,
}

/// How a format is told from others.
pub(in crate::import) enum Told {
    /// By what each line of the text shows.
    Lines(fn(&str) -> Option<Mark>),
    /// By the JSON document in the text.
    Json(fn(&serde_json::Value) -> bool),
    /// By the whole text.
    Text(fn(&str) -> bool),
}

/// The mark that a line shows of a format. One that prose may quote is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Mark {
    /// No other text has such a line.
    Sure,
    /// Two such lines tell the format.
    Half,
    /// Two lines of different kinds tell the format.
    Kind(u8),
}

impl Mark {
    /// The kind of the first beginning that a line has.
    pub fn beginning(line: &str, beginnings: &[&str]) -> Option<Mark> {
        beginnings.iter().position(|beginning| line.starts_with(beginning)).map(|at| Mark::Kind(at as u8))
    }
}

/// The answer to a question about a format.
pub(in crate::import) enum Answer<T: 'static> {
    /// These lines, and where else.
    Lines(&'static [T]),
    /// A field that the reader takes.
    Field(&'static str),
    /// Never, and why.
    Never(&'static str),
}

impl<T> Answer<T> {
    pub fn lines(&self) -> &'static [T] {
        match self {
            Answer::Lines(lines) => lines,
            Answer::Field(_) | Answer::Never(_) => &[],
        }
    }
}

/// A line that states a sample, or the thread or CPU of the samples in the lines that follow.
#[derive(Debug, Clone, Copy)]
pub(in crate::import) enum Worse {
    /// A pattern with `{us}` or `{units}`, and the probe of the sample; absent: the file's only one.
    Sample(&'static str, Option<&'static str>),
    /// A pattern with `{cpu}` or `{tid}`.
    Place(&'static str),
}

/// In which unit the figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Unit {
    /// The text states it, or the tool has but one.
    Known,
    /// The text may leave it out.
    Untold,
}

/// Which CPU a column is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Cpus {
    /// The text states it; the reader says so where it does not.
    Stated,
    /// Columns are numbered in the order of the threads.
    Threads,
}

/// How much of the samples the text holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum StatedSamples {
    /// Their distribution; the reader says so where it lacks.
    Distribution,
    /// Minimum, mean and maximum alone.
    Extremes,
}

/// The fate of periods that the tool missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Missed {
    /// It passes over them in silence.
    Skipped,
    /// It counts them, or each is a sample.
    Counted,
    /// It has no periods that can be missed.
    NoPeriods,
}

/// How the end of a whole text is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum End {
    /// By what the text has to hold.
    Marked,
    /// Not at all.
    Unmarked,
}

/// A last line without a line end that does not show by its columns that it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Half {
    /// It is whole all the same, or half of it changes no figure in silence.
    Whole,
    /// It is read, and told: half of its figure says something, too.
    Doubtful,
    /// It is left out, and told.
    Dropped,
}
