// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spikes of a run that goes on for days: of each series the longest and the latest ones. Their lines, of
//! some kilobytes each, stay in the file that lists them.

use std::collections::{BTreeMap, VecDeque};

use crate::manifest::{RowKey, Spike};

/// Spikes kept of a series for their length, and as many for being the latest.
pub(crate) const KEPT: usize = 50;

/// The spikes that are kept of every series.
#[derive(Debug, Default)]
pub(crate) struct KeptSpikes {
    rows: BTreeMap<RowKey, KeptOfRow>,
}

/// The spikes that are kept of one series: a spike is in one of both.
#[derive(Debug, Default)]
struct KeptOfRow {
    /// The longest first.
    longest: Vec<KeptSpike>,
    /// In the order of their coming.
    latest: VecDeque<KeptSpike>,
}

/// A spike, by the place of its line in the list.
#[derive(Debug)]
pub(crate) struct KeptSpike {
    latency_ns: u64,
    monotonic_ns: u64,
    /// Where the line begins, and its length with its end.
    pub(crate) at: u64,
    pub(crate) length: usize,
}

impl KeptSpikes {
    /// Takes in a spike whose line has this place and length; another one may have to go.
    pub(crate) fn add(&mut self, spike: &Spike, at: u64, length: usize) {
        let row = self.rows.entry(spike.key.clone()).or_default();
        let Spike { latency_ns, monotonic_ns, .. } = *spike;
        row.latest.push_back(KeptSpike { latency_ns, monotonic_ns, at, length });
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
    pub(crate) fn all(&mut self) -> Vec<&mut KeptSpike> {
        let rows = self.rows.values_mut();
        let mut all: Vec<&mut KeptSpike> =
            rows.flat_map(|row| row.longest.iter_mut().chain(&mut row.latest)).collect();
        all.sort_by_key(|spike| spike.monotonic_ns);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spike(at_ns: u64, latency_ns: u64) -> Spike {
        let key = RowKey::new("loop", "idle", 1, Some(1_000_000));
        Spike { at_ns, monotonic_ns: at_ns, ..Spike::new(key, latency_ns) }
    }

    #[test]
    fn the_longest_and_the_latest_are_kept_and_each_once() {
        let mut kept = KeptSpikes::default();
        // The longest come in the middle, and get shorter from there on.
        let latency_ns = |at: u64| if at < 500 { at } else { 1_000 - at };
        (0..1_000).for_each(|at| kept.add(&spike(at, 10 + latency_ns(at)), at, 1));
        let times: Vec<u64> = kept.all().iter().map(|kept| kept.at).collect();
        assert_eq!((times.len(), kept.len()), (2 * KEPT, 2 * KEPT));
        assert_eq!(kept.count(&spike(0, 0).key), 2 * KEPT as u64);
        let latest: Vec<u64> = (950..1_000).collect();
        assert_eq!(times[KEPT..], latest);
        assert!(times[..KEPT].iter().all(|at| (475..=525).contains(at)), "{times:?}");
    }
}
