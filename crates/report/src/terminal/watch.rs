// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator watch` for a terminal: a line for each source, a column for each CPU, sorted and scrolled as the
//! user wants.

use std::collections::BTreeMap;

use cause::rates::WatchDocument;

use crate::terminal::{ResultPaint, Style, wrapped};
use crate::text;
use crate::watch::{self, SourceLine, WatchColumn, count, rate};

/// Width of a column of figures.
const COLUMN: usize = 9;

/// Room for a source's name at the least.
const NAMES: usize = 20;

/// Room for a source's name at the most.
const LONGEST: usize = 44;

/// Senders told of at the most, and what they leave to the sources.
const SENDERS: usize = 12;

/// The keys, those needed most first: a narrow terminal cuts it.
const KEYS: &str = "q quit · ↑↓ PgUp PgDn scroll · sort: n name t total p per s ←→ column r reverse";

/// How the sources are sorted, and which of them are in sight.
#[derive(Debug, Clone, Default)]
pub struct WatchView {
    column: WatchColumn,
    is_reversed: bool,
    /// Sources above those in sight.
    above: usize,
    /// Whether keys are read, so that their help is shown.
    has_keys: bool,
    /// The columns that were drawn, and the sources in sight and in all.
    columns: Vec<WatchColumn>,
    sources: (usize, usize),
}

impl WatchView {
    /// A view that shows what keys do.
    pub fn with_keys() -> WatchView {
        WatchView { has_keys: true, ..WatchView::default() }
    }

    /// Sorts by this column, from the top.
    pub fn sort_by(&mut self, column: WatchColumn) {
        (self.column, self.is_reversed, self.above) = (column, false, 0);
    }

    /// Sorts by the column beside, of those that were drawn: to the right, else to the left.
    pub fn sort_beside(&mut self, is_right: bool) {
        let at = self.columns.iter().position(|column| *column == self.column).unwrap_or(0);
        let at = if is_right { at + 1 } else { at.saturating_sub(1) };
        if let Some(column) = self.columns.get(at) {
            self.sort_by(*column);
        }
    }

    /// Sorts the other way round.
    pub fn reverse(&mut self) {
        (self.is_reversed, self.above) = (!self.is_reversed, 0);
    }

    /// Scrolls by so many sources, down where it is positive.
    pub fn scroll(&mut self, sources: isize) {
        let (in_sight, all) = self.sources;
        self.above = self.above.saturating_add_signed(sources).min(all.saturating_sub(in_sight));
    }

    /// Scrolls by what is in sight, but for a line.
    pub fn page(&mut self, is_down: bool) {
        let lines = self.sources.0.saturating_sub(1).max(1).cast_signed();
        self.scroll(if is_down { lines } else { -lines });
    }

    fn head(&self, column: WatchColumn) -> String {
        let name = match column {
            WatchColumn::Name => "source".to_string(),
            WatchColumn::Total => "in all".to_string(),
            WatchColumn::PerSecond => "per s".to_string(),
            WatchColumn::Cpu(cpu) => format!("cpu {cpu}"),
        };
        let mark = match self.is_reversed {
            _ if column != self.column || !self.has_keys => "",
            false => "▾",
            true => "▴",
        };
        name + mark
    }
}

/// The interval as a picture of at most `lines` lines.
pub fn watch(document: &WatchDocument, view: &mut WatchView, style: Style, lines: usize) -> String {
    let mut out = String::new();
    wrapped(&mut out, "", &watch::head(document), ResultPaint::Quiet, style);
    let mut sources = watch::sources(document);
    sources.sort_by(|a, b| match view.is_reversed {
        false => view.column.compare(a, b),
        true => view.column.compare(b, a),
    });
    let mut below = senders(document, style);
    for what in &document.could_not_see {
        let mut text = String::new();
        wrapped(&mut text, "not seen: ", &text::clean(what), ResultPaint::Quiet, style);
        below.extend(text.lines().map(str::to_string));
    }
    if view.has_keys {
        below.push(style.paint(ResultPaint::Quiet, &text::short(KEYS, style.width())));
    }
    let room = lines.saturating_sub(out.lines().count() + 1 + below.len()).max(1);
    table(&mut out, document, &sources, view, room, style);
    for line in below {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn table(
    out: &mut String,
    document: &WatchDocument,
    sources: &[SourceLine],
    view: &mut WatchView,
    room: usize,
    style: Style,
) {
    if sources.is_empty() {
        (view.columns, view.sources) = (Vec::new(), (0, 0));
        out.push_str("nothing has interrupted since the watch began\n");
        return;
    }
    let longest = sources.iter().map(|source| source.name.chars().count()).max();
    let names = longest.unwrap_or(0).clamp(NAMES, LONGEST).min(style.width() - 2 * COLUMN);
    let shown = shown_cpus(document, view.column, (style.width() - names) / COLUMN - 2);
    let cpus_left = document.cpus.len() - shown.len();
    // A line says what is out of sight.
    let fits = if sources.len() > room || cpus_left > 0 { room.saturating_sub(1).max(1) } else { room };
    let in_sight = sources.len().min(fits);
    view.sources = (in_sight, sources.len());
    view.scroll(0);
    view.columns = vec![WatchColumn::Name, WatchColumn::Total, WatchColumn::PerSecond];
    view.columns.extend(shown.iter().copied().map(WatchColumn::Cpu));
    let cells = |cells: Vec<String>| cells.iter().map(|cell| format!("{cell:>COLUMN$}")).collect::<String>();
    let heads = view.columns.iter().map(|column| view.head(*column)).collect::<Vec<_>>();
    let head = format!("{:<names$}{}", heads[0], cells(heads[1..].to_vec()));
    out.push_str(&style.paint(ResultPaint::Quiet, &head));
    out.push('\n');
    for source in &sources[view.above..view.above + in_sight] {
        let mut figures = vec![count(source.total), rate(source.per_second)];
        figures.extend(shown.iter().map(|cpu| rate(source.on(*cpu))));
        let paint = if source.per_second > 0.0 { ResultPaint::Plain } else { ResultPaint::Quiet };
        let line = format!("{:<names$}{}", text::short(&source.name, names), cells(figures));
        out.push_str(&style.paint(paint, &line));
        out.push('\n');
    }
    let mut left = Vec::new();
    if in_sight < sources.len() {
        left.push(format!("sources {} to {} of {}", view.above + 1, view.above + in_sight, sources.len()));
    }
    if cpus_left > 0 {
        let why = if shown.is_empty() { "not shown" } else { "with fewer interrupts not shown" };
        left.push(format!("{} {why}", text::plural(cpus_left, "cpu")));
    }
    if !left.is_empty() {
        let line = text::short(&left.join(" · "), style.width());
        out.push_str(&style.paint(ResultPaint::Quiet, &line));
        out.push('\n');
    }
}

/// The CPUs that have a column: where there is no room for all that by which is sorted, and the busiest, in
/// their own order.
fn shown_cpus(document: &WatchDocument, column: WatchColumn, room: usize) -> Vec<u32> {
    let busy: BTreeMap<u32, f64> = watch::interrupts(document);
    let mut shown: Vec<u32> = document.cpus.iter().collect();
    let rate = |cpu: &u32| busy.get(cpu).copied().unwrap_or(0.0);
    shown.sort_by(|a, b| {
        let is_first = |cpu: u32| column == WatchColumn::Cpu(cpu);
        is_first(*b).cmp(&is_first(*a)).then(rate(b).total_cmp(&rate(a)))
    });
    shown.truncate(room);
    shown.sort_unstable();
    shown
}

fn senders(document: &WatchDocument, style: Style) -> Vec<String> {
    let Some(senders) = &document.senders else { return Vec::new() };
    if senders.is_empty() {
        return vec![style.paint(ResultPaint::Quiet, "no IPI was sent to them")];
    }
    senders.iter().take(SENDERS).map(|one| text::short(&watch::sender(one), style.width())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_their_column() {
        assert_eq!(
            [0.0, 0.04, 0.5, 9.96, 250.4, 1_000.0].map(rate),
            ["·", "0.04", "0.5", "10", "250", "1,000"]
        );
        for number in [0, 999_999, 1_000_000, 999_949_999, 5_000_000_000, u64::from(u32::MAX) * 1_000] {
            assert!(count(number).chars().count() < COLUMN, "{}", count(number));
        }
    }
}
