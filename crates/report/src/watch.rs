// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts of CPUs, for the terminal and for a page: a line for each source, in the order of a column.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cause::rates::{Interrupter, SentRate, WatchDocument};
use evidence::cause::CauseKind;
use machine::quantity::{Say, Sign, Time};

use crate::{text, why};

/// A source on all CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceLine {
    /// `irq 45 nvme0q3`
    pub name: String,
    /// How often in a second, on all CPUs together.
    pub per_second: f64,
    /// How often since the watch began.
    pub total: u64,
    /// How often in a second, by CPU.
    pub by_cpu: BTreeMap<u32, f64>,
}

impl SourceLine {
    /// How often in a second on this CPU.
    pub fn on(&self, cpu: u32) -> f64 {
        self.by_cpu.get(&cpu).copied().unwrap_or(0.0)
    }
}

/// A column of the table of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatchColumn {
    /// The source.
    Name,
    /// The count since the watch began.
    #[default]
    Total,
    /// The rate on all CPUs.
    PerSecond,
    /// The rate on one.
    Cpu(u32),
}

impl WatchColumn {
    /// The order of lines: the most first, and of names the first of the alphabet.
    pub(crate) fn compare(self, a: &SourceLine, b: &SourceLine) -> Ordering {
        let first = match self {
            WatchColumn::Name => Ordering::Equal,
            WatchColumn::Total => b.total.cmp(&a.total),
            WatchColumn::PerSecond => b.per_second.total_cmp(&a.per_second),
            WatchColumn::Cpu(cpu) => b.on(cpu).total_cmp(&a.on(cpu)),
        };
        let then = match self {
            WatchColumn::Name => Ordering::Equal,
            _ => b.total.cmp(&a.total),
        };
        first.then(then).then_with(|| a.name.cmp(&b.name))
    }
}

/// The sources of a document, those that came most often first.
pub fn sources(document: &WatchDocument) -> Vec<SourceLine> {
    let mut sources = BTreeMap::<(CauseKind, &str), SourceLine>::new();
    for one in &document.sources {
        let line = sources.entry((one.kind, &one.name)).or_insert_with(|| SourceLine {
            name: why::named(one.kind, &one.name),
            per_second: 0.0,
            total: 0,
            by_cpu: BTreeMap::new(),
        });
        line.per_second += one.per_second;
        line.total = line.total.saturating_add(one.total);
        *line.by_cpu.entry(one.cpu).or_default() += one.per_second;
    }
    let mut sources: Vec<_> = sources.into_values().collect();
    sources.sort_by(|a, b| WatchColumn::Total.compare(a, b));
    sources
}

/// How often each CPU of the document is interrupted in a second.
pub fn interrupts(document: &WatchDocument) -> BTreeMap<u32, f64> {
    let mut rates: BTreeMap<u32, f64> = document.cpus.iter().map(|cpu| (cpu, 0.0)).collect();
    for one in document.sources.iter().filter(|one| is_interrupt(one)) {
        // One that went offline has no rate.
        if let Some(rate) = rates.get_mut(&one.cpu) {
            *rate += one.per_second;
        }
    }
    rates
}

/// Whether a source interrupts a CPU: softirqs, switches and steal follow or are beside interrupts.
fn is_interrupt(one: &Interrupter) -> bool {
    matches!(one.kind, CauseKind::Irq | CauseKind::Ipi | CauseKind::Nmi | CauseKind::Tick)
}

/// The CPUs and the interval of a document.
pub fn head(document: &WatchDocument) -> String {
    let cpus = text::cpus(&document.cpus);
    let what = if document.isolated == document.cpus && !document.cpus.is_empty() {
        format!("isolated {cpus}")
    } else if document.isolated.is_empty() {
        format!("{cpus}, none isolated")
    } else {
        format!("{cpus}, of which {} isolated", document.isolated)
    };
    let time = document.time.split_once('T').map_or(document.time.as_str(), |(_, time)| time);
    let whole_ms = (document.interval_ns as f64 / 1e6).round() as u64;
    let interval = Time::round(whole_ms.saturating_mul(1_000_000)).write(Sign::Plain);
    format!("{what} · the last {interval} · {}", text::clean(time))
}

/// A sender in a line.
pub fn sender(one: &SentRate) -> String {
    let sent = why::sent(&one.sender, &one.name);
    format!("cpu {} {} {} per s, {sent}", one.cpu, text::clean(&one.name), rate(one.per_second))
}

/// A rate with the digits that matter: `0`, `0.5`, `12`, `1,004`, `12.3k`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        ..=0.0 => "·".to_string(),
        ..0.095 => format!("{per_second:.2}"),
        ..9.95 => format!("{per_second:.1}"),
        _ => count(per_second.round() as u64),
    }
}

/// A count that fits its column.
pub(crate) fn count(number: u64) -> String {
    match number {
        ..1_000_000 => text::count(number),
        1_000_000..1_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1}G", number as f64 / 1e9),
        _ => format!("{:.1}T", number as f64 / 1e12),
    }
}
