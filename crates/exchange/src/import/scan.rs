// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one way through a text: its lines with their numbers, without statements and without half a line.
//!
//! A reader takes the lines that are left. It refuses one that should be a row and is none with
//! [`Line::unreadable`], and a second run with [`super::figures::second_run`].

pub mod format;
pub mod says;

use std::ops::Deref;

use self::format::{Description, Half, Lack, Told};
use self::says::Said;
use super::column::ImportedFile;
use super::figures::Digits;
use super::text::split_cut;

/// The vocabulary of a format's file.
pub mod prelude {
    pub(in crate::import) use super::format::{Description, Half, Lack, Mark, Told};
    pub(in crate::import) use super::says::FormatQuestion::{Aborts, Doubts, Losses, Stops, Totals, Worse};
    pub(in crate::import) use super::says::{BREAK, DOUBTS, FAILURES, Says};
    pub(in crate::import) use super::{Line, Scan, plain_number};
    pub(in crate::import) use crate::import::column::{ImportedFile, ImportedSeries, RowProbe};
    pub(in crate::import) use crate::import::figures::{Digits, second_run, second_run_if, thousandths};
    pub(in crate::import) use evidence::kind::RowKind;
}

/// A text on its way through a reader.
pub(super) struct Scan<'a> {
    pub text: &'a str,
    /// Nanoseconds of one unit of the figures, as the caller tells it.
    pub unit_ns: Option<u64>,
    format: &'static Description,
    rest: &'a str,
    number: usize,
    /// The last line, where it has no line end and is read all the same.
    half: Option<&'a str>,
    said: Said,
    /// How many statements were passed.
    pub statements: usize,
    /// The end of the file, where it is none of a line.
    ends: Option<&'static str>,
}

/// A line of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub text: &'a str,
    number: usize,
    program: &'static str,
}

impl Deref for Line<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.text
    }
}

impl<'a> Line<'a> {
    /// A part of the line, which is refused as a line is.
    pub fn part(self, text: &'a str) -> Line<'a> {
        Line { text, ..self }
    }

    /// Why the line is refused.
    pub fn at(&self, why: impl std::fmt::Display) -> String {
        format!("line {}: {why}", self.number)
    }

    /// Why a line is refused that should be a row, or a figure, and cannot be read as one.
    pub fn unreadable(&self) -> String {
        self.at(format_args!("'{}' is not a line of {}", self.text, self.program))
    }

    /// Why a line is refused for a word that is not a figure.
    pub fn no_figure(&self, word: &str) -> String {
        self.at(format_args!("'{word}' is not one of its figures"))
    }

    /// A figure of the line: a number without sign and separators.
    pub fn number(&self, word: &str) -> Result<u64, String> {
        plain_number(word).ok_or_else(|| self.no_figure(word))
    }
}

/// A number without sign and separators.
pub(super) fn plain_number(word: &str) -> Option<u64> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok())?
}

impl<'a> Scan<'a> {
    /// Begins to read a plain text. `around` is the text beside a document, which may hold statements too.
    pub fn of(
        text: &'a str,
        around: [&str; 2],
        format: &'static Description,
        unit_ns: Option<u64>,
    ) -> Result<Scan<'a>, String> {
        let (mut ends, mut half) = (None, None);
        // A document that is cut is no document.
        let is_lines = matches!(format.told, Told::Lines(_));
        let (whole, cut) = if is_lines { split_cut(text) } else { (text, None) };
        let mut rest = whole;
        if let Some(cut) = cut {
            let is_said = Said::default().take(format.says, cut).unwrap_or(false);
            let fate = if is_said { Half::Doubtful } else { (format.half_line)(cut) };
            ends = match fate {
                Half::Whole => None,
                Half::Doubtful => Some("without a line end: its last figure may be cut short"),
                Half::Dropped => Some("within a line: it was cut short"),
            };
            if fate != Half::Dropped {
                (rest, half) = (text, Some(cut));
            }
        }
        let mut said = Said::default();
        for line in around.into_iter().flat_map(str::lines) {
            said.take(format.says, line)
                .map_err(|()| format!("'{line}' is not a line of {}", format.program))?;
        }
        Ok(Scan { text, unit_ns, format, rest, number: 0, half, said, statements: 0, ends })
    }

    /// The next line that is no statement.
    pub fn next(&mut self) -> Result<Option<Line<'a>>, String> {
        while !self.rest.is_empty() {
            let (text, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            self.number += 1;
            let line = Line { text, number: self.number, program: self.format.program };
            if !self.said.take(self.format.says, text).map_err(|()| line.unreadable())? {
                return Ok(Some(line));
            }
            self.statements += 1;
        }
        Ok(None)
    }

    /// Whether a line is the last one, which may be half.
    pub fn is_half(&self, line: &Line) -> bool {
        self.rest.is_empty() && self.half == Some(line.text)
    }

    /// Reads the text, and lets everything count that stands beside the figures.
    pub fn read(mut self) -> Result<ImportedFile, String> {
        let format = self.format;
        let mut found = ImportedFile::by(format.program);
        found.digits = format.digits;
        found.skips_missed = format.lacks(Lack::MissedPeriods);
        found.cpus_known = !format.lacks(Lack::Cpus);
        if format.lacks(Lack::End) {
            found.unmarked();
        }
        if format.lacks(Lack::Distribution) {
            found.extremes_alone();
        }
        (format.read)(&mut self, &mut found)?;
        found.missing.splice(0..0, self.ends.map(|ends| format!("the file ends {ends}")));
        self.said.settle(format.digits == Digits::Cut, &mut found);
        Ok(found)
    }
}
