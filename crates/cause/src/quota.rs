// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control group whose quota stopped a measuring thread, by the count of stops that each group keeps
//! (`cpu.stat`, versions 1 and 2). The kernel has no event of it.
//!
//! Limits: quotas are for ordinary threads. A group that stopped other threads in the same quarter of a
//! second is named too. With groups of version 1 for real-time threads (`cpu.rt_runtime_us`) nothing counts.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use inspect::cgroup::{Stops, stops};

/// Readings that are kept: a spike is explained within a second.
const KEPT: usize = 8;

/// The stops of control groups, by folder.
type Reading = BTreeMap<String, Stops>;

/// The groups of the ordinary measuring threads.
#[derive(Debug, Default)]
pub struct Quotas {
    memberships: Vec<String>,
    /// The time of each reading before anything that came later.
    readings: VecDeque<(u64, Reading)>,
}

impl Quotas {
    /// Of these threads.
    pub fn of(threads: &[u32]) -> Quotas {
        let membership =
            |thread: &u32| untrusted::text(Path::new("/proc").join(thread.to_string()).join("cgroup")).ok();
        let mut quotas =
            Quotas { memberships: threads.iter().filter_map(membership).collect(), ..Quotas::default() };
        quotas.poll();
        quotas
    }

    /// Reads the groups; called before spikes are explained.
    pub fn poll(&mut self) {
        if !self.memberships.is_empty() {
            self.add(rt::clock::monotonic_ns(), self.read());
        }
    }

    fn read(&self) -> Reading {
        self.memberships.iter().flat_map(|membership| stops(membership)).collect()
    }

    fn add(&mut self, at_ns: u64, reading: Reading) {
        if self.readings.len() == KEPT {
            self.readings.pop_front();
        }
        self.readings.push_back((at_ns, reading));
    }

    /// The groups that stopped their threads since about `from_ns`, in one word.
    pub fn stopped_since(&self, from_ns: u64) -> Option<String> {
        let now = self.readings.back()?;
        let before = self.readings.iter().rev().find(|(at_ns, _)| *at_ns <= from_ns);
        let (_, before) = before.or(self.readings.front())?;
        let times =
            |reading: &Reading, group: &str| reading.get(group).map_or(0, |stops: &Stops| stops.times);
        let grown = now.1.keys().filter(|group| times(&now.1, group) > times(before, group));
        let grown = grown.map(String::as_str).collect::<Vec<_>>();
        (!grown.is_empty()).then(|| grown.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(groups: &[(&str, u64)]) -> Reading {
        let stops = |times| Stops { times, length_ns: times * 1_000 };
        groups.iter().map(|(group, times)| (group.to_string(), stops(*times))).collect()
    }

    #[test]
    fn the_group_that_stopped_since_then_is_named() {
        let mut quotas = Quotas::default();
        assert_eq!(quotas.stopped_since(0), None);
        quotas.add(1_000, reading(&[("/a", 3), ("/a/b", 7)]));
        assert_eq!(quotas.stopped_since(500), None);
        quotas.add(2_000, reading(&[("/a", 3), ("/a/b", 8)]));
        quotas.add(3_000, reading(&[("/a", 4), ("/a/b", 8)]));
        assert_eq!(quotas.stopped_since(2_500).as_deref(), Some("/a"));
        assert_eq!(quotas.stopped_since(1_500).as_deref(), Some("/a and /a/b"));
        assert_eq!(quotas.stopped_since(3_000), None);
        for later in 0..2 * KEPT as u64 {
            quotas.add(4_000 + later, reading(&[("/a", 4), ("/a/b", 8)]));
        }
        assert_eq!((quotas.stopped_since(0), quotas.readings.len()), (None, KEPT));
    }
}
