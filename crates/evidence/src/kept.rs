// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spikes of a run that goes on for days: of each series the longest and the latest ones.

use std::collections::{BTreeMap, VecDeque};

use crate::manifest::{RowKey, Spike};

/// Spikes kept of a series for their length, and as many for being the latest.
pub(crate) const KEPT: usize = 50;

/// What is kept of every series.
#[derive(Debug, Default)]
pub(crate) struct KeptSpikes {
    rows: BTreeMap<RowKey, KeptOfRow>,
}

/// What is kept of one series: a spike is in one of both.
#[derive(Debug, Default)]
struct KeptOfRow {
    /// The longest first.
    longest: Vec<KeptSpike>,
    /// In the order of their coming.
    latest: VecDeque<KeptSpike>,
}

/// A spike as its line of the list, which takes a fraction of the memory of its causes and their stacks.
#[derive(Debug)]
pub(crate) struct KeptSpike {
    latency_ns: u64,
    monotonic_ns: u64,
    /// The line, with its end.
    pub(crate) line: Box<str>,
}

impl KeptSpikes {
    /// Takes in a spike and its line; another one may have to go.
    pub(crate) fn add(&mut self, spike: &Spike, line: &str) {
        let row = self.rows.entry(spike.key.clone()).or_default();
        let Spike { latency_ns, monotonic_ns, .. } = *spike;
        row.latest.push_back(KeptSpike { latency_ns, monotonic_ns, line: line.into() });
        if row.latest.len() <= KEPT {
            return;
        }
        let Some(older) = row.latest.pop_front() else { return };
        let place = row.longest.partition_point(|kept| kept.latency_ns >= older.latency_ns);
        row.longest.insert(place, older);
        row.longest.truncate(KEPT);
    }

    /// How many are kept of a series.
    pub(crate) fn count(&self, key: &RowKey) -> u64 {
        self.rows.get(key).map_or(0, |row| (row.longest.len() + row.latest.len()) as u64)
    }

    /// How many are kept in all.
    pub(crate) fn len(&self) -> usize {
        self.rows.values().map(|row| row.longest.len() + row.latest.len()).sum()
    }

    /// All that are kept, in the order of time.
    pub(crate) fn all(&self) -> Vec<&KeptSpike> {
        let mut all: Vec<&KeptSpike> =
            self.rows.values().flat_map(|row| row.longest.iter().chain(&row.latest)).collect();
        all.sort_by_key(|spike| spike.monotonic_ns);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spike(at_ns: u64, latency_ns: u64) -> Spike {
        let key = RowKey {
            probe: "loop".into(),
            load: "idle".into(),
            cpu: 1,
            period_ns: Some(1_000_000),
            thread_name: None,
        };
        Spike {
            key,
            at_ns,
            monotonic_ns: at_ns,
            wall_time: None,
            latency_ns,
            missed: 0,
            causes: Vec::new(),
            unexplained_ns: None,
            siblings: Vec::new(),
        }
    }

    #[test]
    fn the_longest_and_the_latest_are_kept_and_each_once() {
        let mut kept = KeptSpikes::default();
        // The longest come in the middle, and get shorter from there on.
        let latency_ns = |at: u64| if at < 500 { at } else { 1_000 - at };
        (0..1_000).for_each(|at| kept.add(&spike(at, 10 + latency_ns(at)), &format!("{at}\n")));
        let times: Vec<u64> = kept.all().iter().map(|kept| kept.line.trim().parse().unwrap()).collect();
        assert_eq!((times.len(), kept.len()), (2 * KEPT, 2 * KEPT));
        assert_eq!(kept.count(&spike(0, 0).key), 2 * KEPT as u64);
        let latest: Vec<u64> = (950..1_000).collect();
        assert_eq!(times[KEPT..], latest);
        assert!(times[..KEPT].iter().all(|at| (475..=525).contains(at)), "{times:?}");
    }
}
