// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram as a table: a label and a count for each column, and figures of each column below or above.
//!
//! cyclictest, oslat and rtla write such tables; they differ in how a row is labelled and a figure named.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::column::ImportedFile;
use super::figures::second_run_if;
use super::scan::Line;

/// The table. A figure is kept as the word that the tool wrote.
#[derive(Debug, Default)]
pub(super) struct Table<'a> {
    pub rows: BTreeMap<u64, Vec<u64>>,
    figures: BTreeMap<&'static str, Vec<&'a str>>,
}

impl<'a> Table<'a> {
    /// Takes a row: its label, and a count for each column.
    pub fn row<'w>(
        &mut self,
        line: &Line,
        label: u64,
        counts: impl Iterator<Item = &'w str>,
    ) -> Result<(), String> {
        let counts = counts.map(|word| line.number(word)).collect::<Result<Vec<_>, _>>()?;
        second_run_if(self.rows.insert(label, counts).is_some())
    }

    /// Takes figures of all columns; each is stated once.
    pub fn figures(
        &mut self,
        name: &'static str,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        second_run_if(self.figures.insert(name, words.collect()).is_some())
    }

    /// The words of a figure, one for each column.
    pub fn cells(&self, name: &str) -> Option<&[&'a str]> {
        self.figures.get(name).map(Vec::as_slice)
    }

    /// A figure of a column.
    pub fn word(&self, name: &str, column: usize) -> Option<&'a str> {
        self.figures.get(name)?.get(column).copied()
    }

    /// A figure of a column that is a whole number.
    pub fn number(&self, name: &str, column: usize) -> Option<u64> {
        self.word(name, column)?.parse().ok()
    }

    /// How many columns the first row has.
    pub fn width(&self) -> usize {
        self.rows.first_key_value().map_or(0, |row| row.1.len())
    }

    /// Refuses a table whose rows do not have `columns` counts.
    pub fn check_width(&self, columns: usize) -> Result<(), String> {
        match self.rows.iter().find(|row| row.1.len() != columns) {
            Some((label, row)) => {
                Err(format!("bucket {label} has {} counts for {columns} columns", row.len()))
            }
            None => Ok(()),
        }
    }

    /// Tells which of the figures are not there for every column, and drops them.
    pub fn require(
        &mut self,
        names: &[&'static str],
        columns: RangeInclusive<usize>,
        found: &mut ImportedFile,
    ) {
        for name in names {
            if self.cells(name).is_none_or(|words| !columns.contains(&words.len())) {
                found.lacks(format!("the file has no '{name}' for every column: it was cut short"));
                self.figures.remove(name);
            }
        }
    }

    /// The buckets of a column that hold a sample.
    pub fn buckets(&self, column: usize) -> Vec<(u64, u64)> {
        let buckets = self.rows.iter().map(|(label, counts)| (*label, counts[column]));
        buckets.filter(|bucket| bucket.1 > 0).collect()
    }
}
