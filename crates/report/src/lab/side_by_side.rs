// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several lab runs in one table: a line a scenario, a column a run, changes against the first of them.
//!
//! Only like is set beside like: counts beside counts, virtual nanoseconds beside virtual nanoseconds.

use evidence::lab::{LabDocument, LabRow, Mode, Responses};
use serde::Serialize;

use super::card::no_result;
use super::change::{self, FigureChange};
use super::{boot_line, counts};
use crate::chart::LoadStyle;
use crate::chart::maxima::{Bars, MaximumBar};
use crate::runs::{RowView, ShownRun};
use crate::text;

type LabRun<'a> = (&'a ShownRun<'a>, &'a LabDocument);

/// A table of all runs in one mode.
#[derive(Serialize)]
pub(crate) struct ModeTable {
    pub title: &'static str,
    pub lead: &'static str,
    pub columns: Vec<RunColumn>,
    pub rows: Vec<ComparisonLine>,
}

#[derive(Serialize)]
pub(crate) struct RunColumn {
    pub run: String,
    pub name: String,
    pub kernel: String,
    pub boot_line: String,
    /// Why its figures are none; may be empty.
    pub no_result: String,
}

#[derive(Serialize)]
pub(crate) struct ComparisonLine {
    pub scenario: String,
    pub place: String,
    /// Nothing where a run has no such row.
    pub cells: Vec<Option<ComparisonCell>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ComparisonCell {
    pub figure: String,
    pub change: Option<FigureChange>,
    /// Smaller figures below it, each with its own change.
    pub also: Vec<(String, Option<FigureChange>)>,
}

/// Windows that differ by more than this hold different amounts of whatever comes with time.
const LIKE_LENGTH: f64 = 1.05;

/// Where there are more, the table alone shows them.
const MOST_BARS: usize = 48;

pub(super) fn all(labs: &[LabRun]) -> Vec<ModeTable> {
    [excursions(labs), responses(labs), virtual_maxima(labs)].into_iter().flatten().collect()
}

fn excursions(labs: &[LabRun]) -> Option<ModeTable> {
    let labs = counted(labs);
    let keys = keys(labs.iter().flat_map(|(_, lab)| lab.rows.iter().map(key)))?;
    let line = |(scenario, cpu): &(&str, u32)| {
        let of = |lab: &&LabDocument| lab.rows.iter().find(|row| key(row) == (*scenario, *cpu)).cloned();
        let rows: Vec<_> = labs.iter().map(|(_, lab)| of(lab)).collect();
        ComparisonLine {
            scenario: text::clean(scenario),
            place: format!("cpu {cpu}"),
            cells: count_cells(&rows),
        }
    };
    (labs.len() > 1).then(|| ModeTable {
        title: "Excursions",
        lead: "Below each count: the kernel instructions of all of them. In per cent: the change against the first run, \
               coloured where it is more than chance makes of such counts and the counts per second changed the same \
               way. Where the windows of a scenario differ in length, the seconds are named: what comes with time, as \
               ticks do, grows with them.",
        columns: columns(&labs),
        rows: keys.iter().map(line).collect(),
    })
}

fn count_cells(rows: &[Option<LabRow>]) -> Vec<Option<ComparisonCell>> {
    let first = rows[0].as_ref();
    let lengths = || rows.iter().flatten().map(|row| row.seconds_guest);
    let (least, most) = (lengths().fold(f64::MAX, f64::min), lengths().fold(0.0, f64::max));
    let cell = |(place, row): (usize, &Option<LabRow>)| {
        let row = row.as_ref()?;
        let against = first.filter(|_| place > 0);
        let mut also = vec![(
            format!("{} instructions", text::count(row.kernel_instructions)),
            against
                .map(|first| change::of(first.kernel_instructions, row.kernel_instructions, f64::INFINITY)),
        )];
        if most > least * LIKE_LENGTH {
            also.push((format!("in {:.1} s", row.seconds_guest), None));
        }
        if let (Some(breaches), Some(deferred)) = (row.breaches(), row.deferred()) {
            also.push((
                format!("{} breaches, {} deferred", text::count(breaches), text::count(deferred)),
                None,
            ));
        }
        Some(ComparisonCell {
            figure: text::count(row.excursions),
            change: against.map(|first| change::of_counts(first, row)),
            also,
        })
    };
    rows.iter().enumerate().map(cell).collect()
}

fn responses(labs: &[LabRun]) -> Option<ModeTable> {
    let labs = counted(labs);
    let answering = |lab: &LabDocument| lab.rows.iter().any(|row| row.responses.is_some());
    let labs = labs.into_iter().filter(|(_, lab)| answering(lab)).collect::<Vec<_>>();
    let rows = labs.iter().flat_map(|(_, lab)| &lab.rows).filter(|row| row.responses.is_some());
    let keys = keys(rows.map(key))?;
    let line = |(scenario, cpu): &(&str, u32)| {
        let of = |lab: &LabDocument| {
            lab.rows.iter().find(|row| key(row) == (*scenario, *cpu)).and_then(|row| row.responses.clone())
        };
        let all = labs.iter().map(|(_, lab)| of(lab)).collect::<Vec<_>>();
        ComparisonLine {
            scenario: text::clean(scenario),
            place: format!("cpu {cpu}"),
            cells: response_cells(&all),
        }
    };
    (labs.len() > 1).then(|| ModeTable {
        title: "Responses",
        lead: "The longest from an edge to its answer, in instructions of the CPU that answers. Below it: how many were answered and \
               what half of them took at the most, the shortest and how far apart the two are, and how many an \
               interruption delayed. In per cent: the change of the longest against the first run.",
        columns: columns(&labs),
        rows: keys.iter().map(line).collect(),
    })
}

fn response_cells(all: &[Option<Responses>]) -> Vec<Option<ComparisonCell>> {
    let first = all[0].as_ref().map(|responses| responses.all().most_instructions);
    let cell = |(place, responses): (usize, &Option<Responses>)| {
        let responses = responses.as_ref()?;
        let spread = responses.all();
        let (answers, half) = (text::count(spread.count), text::count(spread.quantile(0.5)));
        let (least, apart) = (text::count(spread.least_instructions), text::count(spread.instructions()));
        let also = |words: String| (words, None);
        Some(ComparisonCell {
            figure: text::count(spread.most_instructions),
            change: first.filter(|_| place > 0).map(|first| change::of(first, spread.most_instructions, 0.0)),
            also: vec![
                also(format!("{answers} answers, p50 {half}")),
                also(format!("from {least} on, spread {apart}")),
                also(format!("{} interrupted", text::count(responses.interrupted.count))),
            ],
        })
    };
    all.iter().enumerate().map(cell).collect()
}

fn virtual_maxima(labs: &[LabRun]) -> Option<ModeTable> {
    let labs: Vec<LabRun> = labs.iter().copied().filter(|(run, _)| run.virtual_time).collect();
    let keys = keys(labs.iter().flat_map(|(run, _)| run.rows().map(|row| row.row.entry.key.clone())))?;
    let line = |wanted: &evidence::manifest::RowKey| {
        let of = |run: &ShownRun| {
            run.rows().find(|row| row.row.entry.key == *wanted).map(|row| row.summary.clone())
        };
        let rows: Vec<_> = labs.iter().map(|(run, _)| of(run)).collect();
        let first = rows[0].clone();
        let cell = |(place, row): (usize, &Option<evidence::Summary>)| {
            let row = row.as_ref()?;
            let against = first.as_ref().filter(|_| place > 0);
            let also = |words: String| (words, None);
            Some(ComparisonCell {
                figure: text::count(row.max_ns),
                change: against.map(|first| change::of(first.max_ns, row.max_ns, 0.0)),
                also: [
                    row.mean_ns.map(|ns| also(format!("mean {}", text::count(ns.round() as u64)))),
                    row.p99_9_ns.map(|ns| also(format!("99.9 % up to {}", text::count(ns)))),
                ]
                .into_iter()
                .flatten()
                .collect(),
            })
        };
        let kind = labs.iter().find_map(|(run, _)| {
            run.rows().find(|row| row.row.entry.key == *wanted).map(|row: RowView| row.kind().to_string())
        });
        ComparisonLine {
            scenario: text::clean(&wanted.load),
            place: format!("{} · cpu {}", kind.unwrap_or_default(), wanted.cpu),
            cells: rows.iter().enumerate().map(cell).collect(),
        }
    };
    (labs.len() > 1).then(|| ModeTable {
        title: "Largest latencies in virtual time",
        lead: "Virtual nanoseconds: each is one instruction of the guest. In per cent: the change against the first run.",
        columns: columns(&labs),
        rows: keys.iter().map(line).collect(),
    })
}

/// The excursions of several runs as bars, on a logarithmic axis.
pub(super) fn bars(labs: &[LabRun]) -> Option<Bars> {
    let labs = counted(labs);
    let keys = keys(labs.iter().flat_map(|(_, lab)| lab.rows.iter().map(key)))?;
    let rows = labs.iter().flat_map(|(_, lab)| &lab.rows);
    let axis = counts::axis(rows.map(|row| row.excursions).max()?);
    let mut bars: Vec<MaximumBar> = Vec::new();
    for (scenario, cpu) in &keys {
        let cpus = keys.iter().filter(|(other, _)| other == scenario).count();
        let place = if cpus > 1 { format!(" · cpu {cpu}") } else { String::new() };
        let before = bars.len();
        for (run, lab) in &labs {
            let Some(row) = lab.rows.iter().find(|row| key(row) == (scenario, *cpu)) else { continue };
            bars.push(MaximumBar {
                same: bars.len() > before,
                style: LoadStyle::of(0),
                load: format!("{}{place}", text::short(scenario, 80)),
                run: run.letter.clone(),
                value: text::count(row.excursions),
                state: "count",
                length: counts::length(&axis, row.excursions),
                cpus: Vec::new(),
                limit: None,
            });
        }
    }
    (labs.len() > 1 && bars.len() <= MOST_BARS).then(|| Bars {
        what: "Excursions in each scenario",
        title: "Excursions".to_string(),
        x_title: "excursions, logarithmic".to_string(),
        limit: None,
        x: counts::ticks(&axis, 5),
        bars,
    })
}

fn counted<'a>(labs: &[LabRun<'a>]) -> Vec<LabRun<'a>> {
    labs.iter().copied().filter(|(_, lab)| lab.mode == Mode::Count && !lab.rows.is_empty()).collect()
}

fn key(row: &LabRow) -> (&str, u32) {
    (&row.scenario, row.cpu)
}

/// Every key once, in the order of first appearance.
fn keys<K: PartialEq>(all: impl Iterator<Item = K>) -> Option<Vec<K>> {
    let mut keys = Vec::new();
    for key in all {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    (!keys.is_empty()).then_some(keys)
}

fn columns(labs: &[LabRun]) -> Vec<RunColumn> {
    let column = |(run, lab): &LabRun| RunColumn {
        run: run.letter.clone(),
        name: text::clean(&run.name),
        kernel: text::clean(&lab.kernel),
        boot_line: boot_line(lab),
        no_result: no_result(lab),
    };
    labs.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use evidence::lab::Spread;

    use super::*;

    #[test]
    fn the_longest_response_is_set_against_the_first_runs() {
        let spread = |most_instructions, count| Spread {
            count,
            least_instructions: 4,
            most_instructions,
            counts: vec![(12, count)],
        };
        let stock =
            Responses { quiet: spread(14, 90), interrupted: spread(1400, 10), ..Responses::default() };
        let ours = Responses { quiet: spread(14, 1000), ..Responses::default() };
        let cells = response_cells(&[Some(stock), None, Some(ours)]);
        let figures = cells.iter().map(|cell| Some(cell.as_ref()?.figure.clone())).collect::<Vec<_>>();
        assert_eq!(figures, [Some("1,400".into()), None, Some("14".into())]);
        let [Some(first), None, Some(last)] = cells.as_slice() else { panic!("{cells:?}") };
        assert!(
            first.change.is_none() && last.change.as_ref().is_some_and(|change| change.words.contains("99"))
        );
        let words = last.also.iter().map(|(words, _)| words.as_str()).collect::<Vec<_>>();
        assert_eq!(words, ["1,000 answers, p50 12", "from 4 on, spread 10", "0 interrupted"]);
    }

    #[test]
    fn seconds_are_named_where_windows_differ() {
        let rows = |seconds: [f64; 2]| {
            seconds.map(|seconds_guest| Some(LabRow { seconds_guest, ..LabRow::default() }))
        };
        let named = |seconds| {
            count_cells(&rows(seconds)).into_iter().flatten().map(|cell| cell.also.len()).sum::<usize>()
        };
        assert_eq!(named([5.0, 5.01]), 2);
        assert_eq!(named([5.0, 65.0]), 4);
    }
}
