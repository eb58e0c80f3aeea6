// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weakly hard limits (m, k): at most *m* late cycles in any *k* consecutive ones (Bernat, Burns & Llamosí
//! 2001, IEEE Trans. Comput. 50, 308). Every window is judged, and a missed period is a late cycle.
//!
//! The places of late cycles are those of the row's spikes, so that the list must have each of them; where it
//! lacks some, windows that are violated by the listed ones are counted, and the others are not counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::limit::LateAllowance;
use crate::manifest::Spike;
use crate::row::Row;

/// Late cycles of which places are kept; with more the limit is violated long before.
const MOST: usize = 4_000_000;

/// How a row kept a weakly hard limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WeaklyHard {
    /// Late cycles that are allowed.
    pub m: u64,
    /// In so many consecutive cycles.
    pub k: u64,
    /// Windows of `k` cycles with more late ones, at least; absent where the bundle does not have the places
    /// of all late cycles and the known ones violate none.
    pub violations: Option<u64>,
}

impl WeaklyHard {
    /// How `row` kept the limit, by the spikes of its bundle.
    pub fn of(row: &Row, spikes: &[Spike], allowed: LateAllowance) -> WeaklyHard {
        let LateAllowance { m, k } = allowed;
        let late = Places::of(row, spikes);
        let seen = late.violations(allowed, row.due().most());
        WeaklyHard { m, k, violations: (seen > 0 || late.are_all).then_some(seen) }
    }
}

/// The numbers of late cycles of a row.
struct Places {
    /// Ascending, each once.
    at: Vec<u64>,
    are_all: bool,
}

impl Places {
    fn of(row: &Row, spikes: &[Spike]) -> Places {
        let is_late = row.missed() > 0 || row.over_limit().1 > 0;
        let known = row.entry.key.period_ns.filter(|period_ns| *period_ns > 0).zip(row.entry.limit_ns);
        let Some((period_ns, limit_ns)) = known else { return Places { at: Vec::new(), are_all: !is_late } };
        let (mut at, mut over, mut missed) = (Vec::new(), 0u64, 0u64);
        for spike in spikes.iter().filter(|spike| spike.key == row.entry.key) {
            let due = spike.at_ns.saturating_add(period_ns / 2) / period_ns;
            let is_over = spike.latency_ns > limit_ns;
            over += u64::from(is_over);
            missed = missed.saturating_add(spike.missed);
            let first = due + u64::from(!is_over);
            let room = (MOST - at.len().min(MOST)) as u64;
            at.extend((first..=due.saturating_add(spike.missed)).take(room as usize));
        }
        at.sort_unstable();
        at.dedup();
        // The histogram counts the limit's own bucket among those above: the list tells better, where it is
        // of all that is above the limit.
        let is_whole = row.entry.spikes_not_listed == 0 && missed >= row.missed();
        let in_bucket = row.series.latency.count_at(crate::histogram::index(limit_ns));
        Places { at, are_all: is_whole && over.saturating_add(in_bucket) >= row.over_limit().1 }
    }

    /// Windows with more late cycles than are allowed, of a row of so many cycles.
    fn violations(&self, LateAllowance { m, k }: LateAllowance, cycles: u64) -> u64 {
        let last = cycles.saturating_sub(k);
        let (mut windows, mut before) = (0u64, None);
        for (n, first) in self.at.iter().enumerate() {
            let beyond = usize::try_from(m).ok().and_then(|m| self.at.get(n.checked_add(m)?));
            // Windows whose first late cycle is this one, and that reach to the first one too many.
            if let Some(beyond) = beyond {
                let from = before.map_or(0, |before: u64| before + 1).max((beyond + 1).saturating_sub(k));
                let to = (*first).min(last);
                windows += (to + 1).saturating_sub(from);
            }
            before = Some(*first);
        }
        windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_allowed() {
        assert_eq!("1in10".parse(), Ok(LateAllowance { m: 1, k: 10 }));
        assert_eq!("0in5".parse::<LateAllowance>().unwrap().to_string(), "0in5");
        for wrong in ["", "1", "10in10", "3in2", "1in", "in10", "-1in10", "1 of 10"] {
            assert!(wrong.parse::<LateAllowance>().is_err(), "{wrong}");
        }
    }

    /// Counted window by window.
    fn counted(at: &[u64], LateAllowance { m, k }: LateAllowance, cycles: u64) -> u64 {
        let late = |from: u64| at.iter().filter(|place| (from..from + k).contains(place)).count() as u64;
        (0..=cycles.saturating_sub(k)).filter(|from| late(*from) > m).count() as u64
    }

    #[test]
    fn judges_every_window() {
        let places = [vec![], vec![3], vec![3, 4], vec![0, 9, 10, 25, 26, 27], vec![1, 11, 21, 29], vec![29]];
        for at in places {
            for (m, k) in [(0, 1), (1, 2), (1, 10), (2, 5), (0, 10), (3, 29), (1, 40)] {
                let allowed = LateAllowance { m, k };
                let found = Places { at: at.clone(), are_all: true }.violations(allowed, 30);
                assert_eq!(found, counted(&at, allowed, 30), "{at:?} {allowed}");
            }
        }
    }
}
