// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator watch` for a terminal: a line for each source, the busiest first, a column for each CPU.

use std::collections::BTreeMap;

use cause::rates::{Interrupter, WatchDocument};
use evidence::cause::CauseKind;

use crate::terminal::{ResultPaint, Style, wrapped};
use crate::{text, why};

/// Width of a column of figures.
const COLUMN: usize = 9;

/// Room for a source's name at the least.
const NAMES: usize = 20;

/// Room for a source's name at the most.
const LONGEST: usize = 44;

/// Senders told of at the most, and what they leave to the sources.
const SENDERS: usize = 12;

/// A source on all CPUs.
#[derive(Default)]
struct SourceLine {
    per_second: f64,
    total: u64,
    by_cpu: BTreeMap<u32, f64>,
}

/// The interval as a picture of at most `lines` lines.
pub fn watch(document: &WatchDocument, style: Style, lines: usize) -> String {
    let mut out = String::new();
    wrapped(&mut out, "", &head(document), ResultPaint::Quiet, style);
    let mut sources = BTreeMap::<(CauseKind, &str), SourceLine>::new();
    let mut busy = BTreeMap::<u32, f64>::new();
    for one in &document.sources {
        let line = sources.entry((one.kind, &one.name)).or_default();
        line.per_second += one.per_second;
        line.total = line.total.saturating_add(one.total);
        *line.by_cpu.entry(one.cpu).or_default() += one.per_second;
        *busy.entry(one.cpu).or_default() += if interrupts(one) { one.per_second } else { 0.0 };
    }
    let mut sources: Vec<_> = sources.into_iter().collect();
    sources.sort_by(|a, b| b.1.total.cmp(&a.1.total).then(a.0.cmp(&b.0)));
    let senders = senders(document, style);
    let below = senders.len() + document.could_not_see.len();
    let room = lines.saturating_sub(out.lines().count() + 2 + below).max(1);
    table(&mut out, document, &sources, &busy, room, style);
    for line in senders {
        out.push_str(&line);
        out.push('\n');
    }
    for what in &document.could_not_see {
        wrapped(&mut out, "not seen: ", &text::clean(what), ResultPaint::Quiet, style);
    }
    out
}

/// Whether a source interrupts a CPU: softirqs, switches and steal follow or are beside interrupts.
fn interrupts(one: &Interrupter) -> bool {
    matches!(one.kind, CauseKind::Irq | CauseKind::Ipi | CauseKind::Nmi | CauseKind::Tick)
}

fn head(document: &WatchDocument) -> String {
    let cpus = text::cpus(&document.cpus);
    let what = if document.isolated == document.cpus && !document.cpus.is_empty() {
        format!("isolated {cpus}")
    } else if document.isolated.is_empty() {
        format!("{cpus}, none isolated")
    } else {
        format!("{cpus}, of which {} isolated", document.isolated)
    };
    let time = document.time.split_once('T').map_or(document.time.as_str(), |(_, time)| time);
    let interval = text::time((document.interval_ns as f64 / 1e6).round() * 1e6);
    format!("{what} · the last {interval} · {}", text::clean(time))
}

fn table(
    out: &mut String,
    document: &WatchDocument,
    sources: &[((CauseKind, &str), SourceLine)],
    busy: &BTreeMap<u32, f64>,
    room: usize,
    style: Style,
) {
    if sources.is_empty() {
        out.push_str("nothing has interrupted since the watch began\n");
        return;
    }
    let longest = sources.iter().map(|((kind, name), _)| why::named(*kind, name).chars().count()).max();
    let names = longest.unwrap_or(0).clamp(NAMES, LONGEST).min(style.width() - 2 * COLUMN);
    let columns = (style.width() - names) / COLUMN - 2;
    // The busiest CPUs where there is no room for all, in their own order.
    let mut shown: Vec<u32> = document.cpus.iter().collect();
    shown.sort_by(|a, b| busy.get(b).unwrap_or(&0.0).total_cmp(busy.get(a).unwrap_or(&0.0)));
    shown.truncate(columns);
    shown.sort_unstable();
    let cells = |cells: Vec<String>| cells.iter().map(|cell| format!("{cell:>COLUMN$}")).collect::<String>();
    let mut head = vec!["in all".to_string(), "per s".to_string()];
    head.extend(shown.iter().map(|cpu| format!("cpu {cpu}")));
    out.push_str(&style.paint(ResultPaint::Quiet, format!("{:<names$}{}", "", cells(head)).trim_end()));
    out.push('\n');
    let fits = if sources.len() > room { room - 1 } else { sources.len() };
    for ((kind, name), line) in &sources[..fits] {
        let name = text::short(&why::named(*kind, name), names);
        let mut figures = vec![count(line.total), rate(line.per_second)];
        figures.extend(shown.iter().map(|cpu| rate(line.by_cpu.get(cpu).copied().unwrap_or(0.0))));
        let paint = if line.per_second > 0.0 { ResultPaint::Plain } else { ResultPaint::Quiet };
        out.push_str(&style.paint(paint, &format!("{name:<names$}{}", cells(figures))));
        out.push('\n');
    }
    let (sources_left, cpus_left) = (sources.len() - fits, document.cpus.len() - shown.len());
    let mut left = Vec::new();
    if sources_left > 0 {
        left.push(text::plural(sources_left, "rarer source"));
    }
    if cpus_left > 0 {
        let why = if shown.is_empty() { "not shown" } else { "with fewer interrupts" };
        left.push(format!("{} {why}", text::plural(cpus_left, "cpu")));
    }
    if !left.is_empty() {
        let line = text::short(&format!("and {}", left.join(", ")), style.width());
        out.push_str(&style.paint(ResultPaint::Quiet, &line));
        out.push('\n');
    }
}

fn senders(document: &WatchDocument, style: Style) -> Vec<String> {
    let Some(senders) = &document.senders else { return Vec::new() };
    if senders.is_empty() {
        return vec![style.paint(ResultPaint::Quiet, "no IPI was sent to them")];
    }
    let line = |one: &cause::rates::SentRate| {
        let sent = why::sent(&one.sender, &one.name);
        let line =
            format!("cpu {} {} {} per s, {sent}", one.cpu, text::clean(&one.name), rate(one.per_second));
        text::short(&line, style.width())
    };
    senders.iter().take(SENDERS).map(line).collect()
}

/// A rate with the digits that matter: `0`, `0.5`, `12`, `1,004`, `12.3k`.
fn rate(per_second: f64) -> String {
    match per_second {
        ..=0.0 => "·".to_string(),
        ..0.095 => format!("{per_second:.2}"),
        ..9.95 => format!("{per_second:.1}"),
        _ => count(per_second.round() as u64),
    }
}

/// A count that fits its column.
fn count(number: u64) -> String {
    match number {
        ..1_000_000 => text::count(number),
        1_000_000..1_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1}G", number as f64 / 1e9),
        _ => format!("{:.1}T", number as f64 / 1e12),
    }
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
