// SPDX-License-Identifier: MIT OR Apache-2.0
//! One series of a bundle, with what the manifest says of it.

use std::sync::OnceLock;

use machine::quantity::{Count, Cycles};

use crate::manifest::{Coarse, RowEntry};
use crate::series::Series;
use crate::tail::{self, Tail};

/// The list of spikes, and the words for missing ones.
pub const SPIKES: &str = "spikes.jsonl";

/// One series with what the manifest says of it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The manifest's entry.
    pub entry: RowEntry,
    /// The data.
    pub series: Series,
    tail: OnceLock<Tail>,
}

impl Row {
    /// A row of its parts.
    pub fn new(entry: RowEntry, series: Series) -> Row {
        Row { entry, series, tail: OnceLock::new() }
    }

    /// Periods missed in all: those of the seconds, and those that an imported file states for the whole run.
    pub fn missed(&self) -> u64 {
        let stated = self.entry.coarse.as_ref().map_or(0, |coarse| coarse.missed);
        self.series.missed().saturating_add(stated)
    }

    /// Whether its source states that figure: our own rows have all.
    pub(crate) fn states(&self, figure: impl FnOnce(&Coarse) -> bool) -> bool {
        self.entry.coarse.as_ref().is_none_or(figure)
    }

    /// Its samples; `None` where the source does not say how many there were.
    pub fn stated_count(&self) -> Option<u64> {
        self.states(|coarse| coarse.count_known).then(|| self.series.latency.count())
    }

    /// Its cycles that were due: those with a sample, and those whose period was missed.
    pub fn due(&self) -> Count<Cycles> {
        Count::due(Count::exact(self.series.latency.count()), Count::exact(self.missed()))
    }

    /// The suggestion of the tail of its latencies. Fitted at the first call, since that takes long and a
    /// verdict, a document and a page all show it: the series is not to change afterwards.
    pub fn tail(&self) -> &Tail {
        self.tail.get_or_init(|| match self.entry.coarse.as_ref().and_then(Coarse::hidden_from_ns) {
            Some(_) => Tail::Refused {
                reason: "the source counts its largest samples without their latencies".into(),
            },
            None => tail::estimate(&self.series.latency, &self.series.seconds),
        })
    }
}
