// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a format.
//!
//! A format is a [`Description`]: how its text is told from others, which of the usual properties it lacks,
//! and the lines in which its tool states a worse value, stops, fails, loses samples or doubts itself. A
//! question whose answer is "never" says why. `read` is the rest: it puts the lines that are left into
//! columns.

use super::Scan;
use super::says::{FormatQuestion, Says};
use crate::import::column::ImportedFile;
use crate::import::figures::Digits;

/// A reader of the lines that are left.
pub(in crate::import) type FormatReader = for<'a> fn(&mut Scan<'a>, &mut ImportedFile) -> Result<(), String>;

/// A format.
pub(in crate::import) struct Description {
    /// Its name for people.
    pub name: &'static str,
    /// The tool that writes it.
    pub program: &'static str,
    pub told: Told,
    /// The digits that its figures have.
    pub digits: Digits,
    /// The usual properties that it does not have.
    pub lacks: &'static [Lack],
    /// The fate of a last line without a line end, which may be half of one.
    pub half_line: fn(&str) -> Half,
    /// The answers to all questions. Of several patterns that fit a line the first one counts.
    pub says: &'static [Says],
    pub read: FormatReader,
}

impl Description {
    /// A format that lacks nothing and answers nothing yet.
    pub const fn of(
        name: &'static str,
        program: &'static str,
        told: Told,
        digits: Digits,
        read: FormatReader,
    ) -> Description {
        Description { name, program, told, digits, lacks: &[], half_line: |_| Half::Dropped, says: &[], read }
    }

    pub fn lacks(&self, property: Lack) -> bool {
        self.lacks.contains(&property)
    }

    /// The lines that answer a question, as patterns. Absent: the second text says which field of the file
    /// answers it, or why the tool never states such a thing.
    pub fn answer(&self, question: FormatQuestion) -> (Vec<&'static str>, Option<&'static str>) {
        let (mut patterns, mut reason) = (Vec::new(), None);
        for says in self.says {
            match says {
                Says::Lines(of, lines) if *of == question => patterns.extend(*lines),
                Says::SampleOf(_, line) if question == FormatQuestion::Worse => patterns.push(*line),
                Says::NoLine(of, why) if *of == question => reason = Some(*why),
                _ => {}
            }
        }
        (patterns, reason)
    }
}

/// A property of most formats that one may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Lack {
    /// The unit of its figures: the text may leave it out.
    Unit,
    /// The CPU of a column: they are numbered in the order of the threads.
    Cpus,
    /// The distribution of its samples: only minimum, mean and maximum are stated.
    Distribution,
    /// Periods that the tool missed: it passes over them in silence.
    MissedPeriods,
    /// A mark of its end: whether a text is whole cannot be told.
    End,
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
        Mark::first(beginnings.iter().map(|beginning| line.starts_with(beginning)))
    }

    /// The kind of the first property that a line has.
    pub fn first(has: impl IntoIterator<Item = bool>) -> Option<Mark> {
        has.into_iter().position(|has| has).map(|at| Mark::Kind(at as u8))
    }
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
