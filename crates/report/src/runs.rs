// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several bundles side by side: which probes, loads and CPUs there are in any of them, and where.

use std::collections::{BTreeMap, BTreeSet};

use evidence::document::ProveDocument;
use evidence::kind::RowKind;
use evidence::lab::Mode;
use evidence::manifest::RowKey;
use evidence::verdict::RowVerdict;
use evidence::{Bundle, Row, Summary};
use machine::quantity::Time;

use crate::text;

/// All bundles of one report.
pub(crate) struct Runs<'a> {
    pub all: Vec<ShownRun<'a>>,
    /// Loads in the order of measurement.
    pub loads: Vec<String>,
    /// Probes with their periods, in the order of measurement.
    pub kinds: Vec<ProbePeriod>,
    /// The rows of each kind, by run and place: a bundle from elsewhere may have as many kinds as rows.
    of_kind: BTreeMap<ProbePeriod, Vec<(usize, usize)>>,
    /// Place of each load among all.
    load_places: BTreeMap<String, usize>,
    /// Loads under which anything was measured.
    measured: BTreeSet<String>,
}

/// One bundle.
pub(crate) struct ShownRun<'a> {
    /// `A`, `B`, …; what marks it in charts and tables.
    pub letter: String,
    /// The name of its folder or file.
    pub name: String,
    pub bundle: &'a Bundle,
    pub document: &'a ProveDocument,
    /// Whether its latencies are in virtual nanoseconds.
    pub virtual_time: bool,
    places: BTreeMap<RowKey, usize>,
}

/// A probe with its period: rows that share an axis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProbePeriod {
    pub probe: String,
    pub period_ns: Option<u64>,
    /// The thread whose loop it is.
    pub thread_name: Option<String>,
    /// Virtual nanoseconds share no axis with those of a clock.
    pub virtual_time: bool,
}

/// One row, with all that is known of it.
#[derive(Clone, Copy)]
pub(crate) struct RowView<'a> {
    pub row: &'a Row,
    pub summary: &'a Summary,
    pub verdict: &'a RowVerdict,
    virtual_time: bool,
}

impl<'a> Runs<'a> {
    /// Each bundle with its document.
    pub fn of(bundles: &'a [Bundle], documents: &'a [ProveDocument]) -> Runs<'a> {
        let pairs = bundles.iter().zip(documents).enumerate();
        let all: Vec<_> = pairs.map(|(n, (bundle, document))| ShownRun::of(n, bundle, document)).collect();
        let (mut loads, mut kinds) = (Distinct::default(), Distinct::default());
        let mut of_kind = BTreeMap::<ProbePeriod, Vec<(usize, usize)>>::new();
        for (n, run) in all.iter().enumerate() {
            for (place, row) in run.rows().enumerate() {
                loads.push(row.row.entry.key.load.clone());
                kinds.push(row.kind());
                of_kind.entry(row.kind()).or_default().push((n, place));
            }
        }
        let measured = loads.seen.clone();
        for not_run in all.iter().flat_map(|run| &run.bundle.manifest.not_run) {
            loads.push(not_run.load.clone());
        }
        let load_places = loads.list.iter().cloned().zip(0..).collect();
        Runs { all, loads: loads.list, kinds: kinds.list, of_kind, load_places, measured }
    }

    pub fn several(&self) -> bool {
        self.all.len() > 1
    }

    /// Every row of every run that is of `kind`.
    pub fn rows_of(&self, kind: &ProbePeriod) -> impl Iterator<Item = RowView<'a>> {
        let places = self.of_kind.get(kind).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|(run, place)| self.all[*run].row_at(*place))
    }

    /// The CPUs on which `kind` was measured in any run.
    pub fn cpus(&self, kind: &ProbePeriod) -> BTreeSet<u32> {
        self.rows_of(kind).map(|row| row.row.entry.key.cpu).collect()
    }

    /// Whether anything was measured under `load`.
    pub fn measured(&self, load: &str) -> bool {
        self.measured.contains(load)
    }

    /// How many loads `kind` was measured under in any run.
    pub fn loads_of(&self, kind: &ProbePeriod) -> usize {
        self.rows_of(kind).map(|row| &row.row.entry.key.load).collect::<BTreeSet<_>>().len()
    }

    /// The place of `load` among all loads: what gives it its colour and shape.
    pub fn load_place(&self, load: &str) -> usize {
        self.load_places.get(load).copied().unwrap_or(0)
    }
}

impl<'a> ShownRun<'a> {
    fn of(place: usize, bundle: &'a Bundle, document: &'a ProveDocument) -> ShownRun<'a> {
        let letter = match u8::try_from(place) {
            Ok(n @ 0..26) => char::from(b'A' + n).to_string(),
            _ => (place + 1).to_string(),
        };
        let name = bundle.path.file_name().unwrap_or(bundle.path.as_os_str()).to_string_lossy().into_owned();
        let places = bundle.rows.iter().enumerate().map(|(n, row)| (row.entry.key.clone(), n)).collect();
        let virtual_time = bundle.lab.as_ref().is_some_and(|lab| lab.mode == Mode::Virtual);
        ShownRun { letter, name, bundle, document, virtual_time, places }
    }

    /// Its mark where there are `several`.
    pub fn mark(&self, several: bool) -> String {
        if several { self.letter.clone() } else { String::new() }
    }

    /// Whether only excursions were counted: no latency is in it, and none is missed.
    pub fn counts_only(&self) -> bool {
        self.bundle.lab.is_some() && self.bundle.rows.is_empty()
    }

    pub fn rows(&self) -> impl Iterator<Item = RowView<'a>> {
        (0..self.bundle.rows.len()).map(|place| self.row_at(place))
    }

    /// The loads that it was measured under, in the order of measurement.
    pub fn loads(&self) -> Vec<&str> {
        let mut loads = Distinct::default();
        self.rows().for_each(|row| loads.push(row.row.entry.key.load.as_str()));
        loads.list
    }

    /// Its probes with their periods, in the order of measurement.
    pub fn kinds(&self) -> Vec<ProbePeriod> {
        let mut kinds = Distinct::default();
        self.rows().for_each(|row| kinds.push(row.kind()));
        kinds.list
    }

    pub fn row(&self, kind: &ProbePeriod, load: &str, cpu: u32) -> Option<RowView<'a>> {
        let ProbePeriod { probe, period_ns, thread_name, .. } = kind.clone();
        let key = RowKey { probe, load: load.to_string(), cpu, period_ns, thread_name };
        let place = self.places.get(&key).filter(|_| kind.virtual_time == self.virtual_time);
        place.map(|place| self.row_at(*place))
    }

    fn row_at(&self, place: usize) -> RowView<'a> {
        let (bundle, document) = (self.bundle, self.document);
        RowView {
            row: &bundle.rows[place],
            summary: &document.rows[place],
            verdict: &document.verdict.rows[place],
            virtual_time: self.virtual_time,
        }
    }
}

impl ProbePeriod {
    /// The kind of its rows.
    pub fn row_kind(&self) -> RowKind {
        RowKind::of(&self.probe)
    }
}

impl std::fmt::Display for ProbePeriod {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&text::clean(&self.probe))?;
        if let Some(name) = &self.thread_name {
            write!(out, " of {}", text::clean(name))?;
        }
        if let Some(ns) = self.period_ns {
            write!(out, " every {}", text::page(Time::round(ns)))?;
        }
        if self.virtual_time { out.write_str(", virtual time") } else { Ok(()) }
    }
}

impl RowView<'_> {
    /// A latency with its unit.
    pub fn latency(&self, ns: u64) -> String {
        latency(ns, self.virtual_time)
    }

    pub fn kind(&self) -> ProbePeriod {
        kind(&self.row.entry.key, self.virtual_time)
    }

    /// Where it was measured, shortly: `wakeup every 1 ms · io · cpu 2`.
    pub fn place(&self) -> String {
        place(&self.row.entry.key, self.virtual_time)
    }
}

/// The short name of `key`: `wakeup every 1 ms · io · cpu 2`.
pub(crate) fn place(key: &RowKey, virtual_time: bool) -> String {
    format!("{} · {} · cpu {}", kind(key, virtual_time), text::short(&key.load, 24), key.cpu)
}

/// A latency with its unit. Virtual ones are written in nanoseconds only: nothing about them is a clock's.
pub(crate) fn latency(ns: u64, virtual_time: bool) -> String {
    if virtual_time { format!("{} virtual ns", text::count(ns)) } else { text::page(Time::measured(ns)) }
}

fn kind(key: &RowKey, virtual_time: bool) -> ProbePeriod {
    ProbePeriod {
        probe: key.probe.clone(),
        period_ns: key.period_ns,
        thread_name: key.thread_name.clone(),
        virtual_time,
    }
}

/// Items in their order, each once.
struct Distinct<T> {
    list: Vec<T>,
    seen: BTreeSet<T>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Distinct<T> {
        Distinct { list: Vec::new(), seen: BTreeSet::new() }
    }
}

impl<T: Clone + Ord> Distinct<T> {
    fn push(&mut self, item: T) {
        if self.seen.insert(item.clone()) {
            self.list.push(item);
        }
    }
}
