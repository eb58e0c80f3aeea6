// SPDX-License-Identifier: MIT OR Apache-2.0
//! The excursions of each run: a line a scenario, with what entered the kernel folded away below it.

use evidence::lab::{EntryExcursions, LabDocument, LabRow, Spread};
use serde::Serialize;

use crate::runs::ShownRun;
use crate::scale::{GridLine, LogScale, hundredth};
use crate::text;

/// Entries and functions, each, that are listed for a row.
const LISTED: usize = 12;

/// Entries that are named without unfolding.
const NAMED: usize = 2;

/// The counts of one run.
#[derive(Serialize)]
pub(crate) struct CountsTable {
    pub run: String,
    pub name: String,
    /// The axis of the bars; the same for all runs.
    pub ticks: Vec<GridLine>,
    pub rows: Vec<CountsRow>,
}

/// One isolated CPU in one scenario.
#[derive(Serialize)]
pub(crate) struct CountsRow {
    pub scenario: String,
    pub cpu: u32,
    pub seconds: String,
    pub excursions: String,
    /// The bar's length in per cent.
    pub length: f64,
    pub instructions: String,
    pub longest: String,
    pub user_instructions: String,
    pub dropped: String,
    /// The counts of the guest's own kernel, where it isolated the CPU.
    pub isolation: String,
    /// How it answered edges, where it did.
    pub responses: String,
    /// The text that is read without unfolding.
    pub summary: String,
    pub entries: List<Through>,
    pub functions: List<(String, String)>,
}

/// The first of many, and a word on the others.
#[derive(Serialize)]
pub(crate) struct List<T> {
    pub items: Vec<T>,
    pub more: usize,
}

/// Excursions through one entry.
#[derive(Serialize)]
pub(crate) struct Through {
    pub entry: String,
    pub count: String,
    pub instructions: String,
    pub mean: String,
    pub max: String,
}

/// An axis for all counts; below one there is none, and none has no bar.
pub(super) fn axis(most: u64) -> LogScale {
    LogScale::around(0.5, (most as f64 * 1.1).max(10.0))
}

pub(super) fn length(axis: &LogScale, count: u64) -> f64 {
    if count == 0 { 0.0 } else { hundredth(axis.at(count as f64)) }
}

/// `1`, `100`, `10k`, where there is room for a few letters only.
pub(super) fn ticks(axis: &LogScale, most: usize) -> Vec<GridLine> {
    axis.ticks(most, |value| match value {
        ..1.0 => String::new(),
        ..1e3 => format!("{value:.0}"),
        ..1e6 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.0}M", value / 1e6),
    })
}

pub(super) fn tables(labs: &[(&ShownRun, &LabDocument)], several: bool) -> Vec<CountsTable> {
    let rows = labs.iter().flat_map(|(_, lab)| &lab.rows);
    let axis = axis(rows.map(|row| row.excursions).max().unwrap_or(0));
    let counted = labs.iter().filter(|(_, lab)| !lab.rows.is_empty());
    let table = |(run, lab): &(&ShownRun, &LabDocument)| CountsTable {
        run: run.mark(several),
        name: text::clean(&run.name),
        ticks: ticks(&axis, 3),
        rows: lab.rows.iter().map(|one| row(one, &axis)).collect(),
    };
    counted.map(table).collect()
}

fn row(row: &LabRow, axis: &LogScale) -> CountsRow {
    let mut entries = row.by_entry.iter().collect::<Vec<_>>();
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.count));
    let mut functions = row.functions.iter().collect::<Vec<_>>();
    functions.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let dropped = match row.records_dropped {
        0 => String::new(),
        dropped => text::count(dropped),
    };
    CountsRow {
        scenario: text::clean(&row.scenario),
        cpu: row.cpu,
        seconds: format!("{:.1}", row.seconds_guest),
        excursions: text::count(row.excursions),
        length: length(axis, row.excursions),
        instructions: text::count(row.kernel_instructions),
        longest: text::count(row.max_kernel_instructions),
        user_instructions: text::count(row.user_instructions),
        dropped,
        isolation: isolation(row).unwrap_or_default(),
        responses: responses(row).unwrap_or_default(),
        summary: summary(&entries),
        entries: listed(entries, |(name, entry)| through(name, entry)),
        functions: listed(functions, |(name, count)| (text::clean(name), text::count(*count))),
    }
}

/// The counts of the guest's own kernel for a CPU that it isolated, in words.
pub(crate) fn isolation(row: &LabRow) -> Option<String> {
    let (counted, deferred, breaches) = (row.isolation.as_ref()?, row.deferred()?, row.breaches()?);
    let kinds = |start: &str| {
        let kinds = counted.iter().filter(|(name, _)| name.starts_with(start));
        let kinds = kinds.map(|(name, count)| format!("{} {}", text::count(*count), text::clean(name)));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        if kinds.is_empty() { kinds } else { format!(" ({kinds})") }
    };
    let (deferred, breaches) = (text::count(deferred), text::count(breaches));
    let (late, put_off) = (kinds("breach_"), kinds("defer_"));
    Some(format!(
        "the isolator counts {breaches} breaches{late}, and {deferred} pieces of work deferred{put_off}"
    ))
}

/// How a CPU answered edges, in words.
pub(crate) fn responses(row: &LabRow) -> Option<String> {
    let responses = row.responses.as_ref()?;
    let all = responses.all();
    let figures = |spread: &Spread| {
        let Spread { least_instructions, most_instructions, .. } = spread;
        let (least, most) = (text::count(*least_instructions), text::count(*most_instructions));
        format!("{least} to {most} instructions, spread {}", text::count(spread.instructions()))
    };
    let edges = text::count(responses.edges);
    let (answers, half) = (text::count(all.count), text::count(all.quantile(0.5)));
    let mut words = format!("{answers} of {edges} edges answered: p50 {half}, {}", figures(&all));
    if responses.interrupted.count > 0 {
        let interrupted = text::count(responses.interrupted.count);
        words += &format!("; {interrupted} of them interrupted, the others {}", figures(&responses.quiet));
    }
    let others = [
        (responses.doubled, "doubled"),
        (responses.unanswered(), "unanswered"),
        (responses.blind, "spurious"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        words += &format!("; {} {what}", text::count(count));
    }
    Some(words)
}

fn listed<T, L>(all: Vec<T>, line: impl Fn(T) -> L) -> List<L> {
    // None is left out alone.
    let shown = if all.len() > LISTED + 1 { LISTED } else { all.len() };
    let more = all.len() - shown;
    List { items: all.into_iter().take(shown).map(line).collect(), more }
}

fn through(name: &str, entry: &EntryExcursions) -> Through {
    let mean = entry.instructions as f64 / entry.count.max(1) as f64;
    Through {
        entry: text::clean(name),
        count: text::count(entry.count),
        instructions: text::count(entry.instructions),
        mean: text::count(mean.round() as u64),
        max: text::count(entry.max),
    }
}

fn summary(entries: &[(&String, &EntryExcursions)]) -> String {
    let shown = if entries.len() > NAMED + 1 { NAMED } else { entries.len() };
    let named = entries[..shown].iter();
    let named = named.map(|(name, entry)| format!("{} {}", text::count(entry.count), text::clean(name)));
    let named = named.collect::<Vec<_>>().join(", ");
    match entries.len() - shown {
        0 if named.is_empty() => "nothing entered the kernel".to_string(),
        0 => named,
        more => format!("{named}, and {more} more entries"),
    }
}

#[cfg(test)]
mod tests {
    use evidence::lab::Responses;

    use super::*;

    #[test]
    fn nothing_has_no_bar_and_one_has_a_short_one() {
        let axis = axis(12_000);
        assert_eq!(length(&axis, 0), 0.0);
        assert!(length(&axis, 1) > 2.0 && length(&axis, 1) < 20.0);
        assert!(length(&axis, 12_000) > 80.0);
        let labels = ticks(&axis, 3).into_iter().map(|tick| tick.label).filter(|label| !label.is_empty());
        assert_eq!(labels.collect::<Vec<_>>(), ["1", "100", "10k"]);
    }

    #[test]
    fn what_the_isolator_counted_is_told_by_kind() {
        let counted = |counters: &[(&str, u64)]| {
            let counters = counters.iter().map(|(name, count)| (name.to_string(), *count)).collect();
            isolation(&LabRow { isolation: Some(counters), ..LabRow::default() }).unwrap()
        };
        assert_eq!(counted(&[]), "the isolator counts 0 breaches, and 0 pieces of work deferred");
        assert_eq!(
            counted(&[("breach_stop", 2), ("defer_sync", 40), ("defer_tick", 1), ("entries", 9)]),
            "the isolator counts 2 breaches (2 breach_stop), and 41 pieces of work deferred (40 defer_sync, 1 defer_tick)"
        );
        assert_eq!(isolation(&LabRow::default()), None);
    }

    #[test]
    fn a_list_never_leaves_out_one_alone() {
        let list = |length: usize| listed((0..length).collect(), |n| n);
        assert_eq!((list(LISTED + 1).items.len(), list(LISTED + 1).more), (LISTED + 1, 0));
        assert_eq!((list(LISTED + 2).items.len(), list(LISTED + 2).more), (LISTED, 2));
    }

    #[test]
    fn responses_are_told_with_what_delayed_some_and_edges_that_had_none() {
        let spread = |least_instructions, most_instructions, count| Spread {
            count,
            least_instructions,
            most_instructions,
            counts: vec![(most_instructions, count)],
        };
        let told = |responses| responses_of(&LabRow { responses: Some(responses), ..LabRow::default() });
        let quiet = Responses { edges: 1_000, quiet: spread(3, 14, 1_000), ..Responses::default() };
        assert_eq!(
            told(quiet.clone()),
            "1,000 of 1,000 edges answered: p50 14, 3 to 14 instructions, spread 11"
        );
        let delayed =
            Responses { edges: 1_005, doubled: 2, blind: 1, interrupted: spread(4, 400, 2), ..quiet };
        assert_eq!(
            told(delayed),
            "1,002 of 1,005 edges answered: p50 14, 3 to 400 instructions, spread 397; 2 of them interrupted, the others \
             3 to 14 instructions, spread 11; 2 doubled; 1 unanswered; 1 spurious"
        );
    }

    fn responses_of(row: &LabRow) -> String {
        responses(row).unwrap()
    }
}
