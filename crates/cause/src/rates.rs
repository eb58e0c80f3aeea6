// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt rates of CPUs (`isolator watch`), from two readings of the kernel's counters.

use std::collections::BTreeMap;

use evidence::cause::{CauseKind, Sender};
use evidence::manifest::SCHEMA_VERSION;
use inspect::counters::Counters;
use machine::CpuSet;
use machine::counters::CounterSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line of `isolator watch --json`: an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// Number of the interval, from 1.
    pub number: u64,
    /// End of the interval, RFC 3339 in UTC.
    pub time: String,
    /// Length of the interval.
    pub interval_ns: u64,
    /// The watched CPUs that are online.
    pub cpus: CpuSet,
    /// The isolated ones among them.
    pub isolated: CpuSet,
    /// Interruptions since the watch began, by CPU and then by rate.
    pub sources: Vec<Interrupter>,
    /// Senders of IPIs in the interval, the most frequent first; absent where senders are not watched.
    pub senders: Option<Vec<SentRate>>,
    /// Counters and events that cannot be read.
    pub could_not_see: Vec<String>,
}

/// The rate of one kind of interruption of a CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupter {
    /// The CPU.
    pub cpu: u32,
    /// The kind of cause.
    pub kind: CauseKind,
    /// Its name: `45 nvme0q3`, `reschedule`, `NET_RX`.
    pub name: String,
    /// Count in the interval.
    pub count: u64,
    /// Count per second.
    pub per_second: f64,
    /// Count since the watch began.
    pub total: u64,
}

/// The rate of IPIs from one sender to a CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SentRate {
    /// The interrupted CPU.
    pub cpu: u32,
    /// The name of the IPI.
    pub name: String,
    /// The sender.
    pub sender: Sender,
    /// Count in the interval.
    pub count: u64,
    /// Count per second.
    pub per_second: f64,
}

/// A watch of CPUs, and the counts since it began.
#[derive(Debug)]
pub struct Watching {
    isolated: CpuSet,
    last: Counters,
    totals: BTreeMap<(u32, CounterSource), u64>,
    number: u64,
}

impl Watching {
    /// Takes the first reading; `isolated` are the machine's isolated CPUs.
    pub fn from(first: Counters, isolated: &CpuSet) -> Watching {
        Watching { isolated: isolated.clone(), last: first, totals: BTreeMap::new(), number: 0 }
    }

    /// The counts since the previous reading, `interval_ns` ago.
    pub fn next(&mut self, now: Counters, time: String, interval_ns: u64) -> WatchDocument {
        self.number += 1;
        let mut counts = BTreeMap::new();
        for one in now.since(&self.last) {
            counts.insert((one.cpu, one.source), one.count);
        }
        for (key, count) in &counts {
            let total = self.totals.entry(key.clone()).or_default();
            *total = total.saturating_add(*count);
        }
        let seconds = interval_ns.max(1) as f64 / 1e9;
        let one = |(key, total): (&(u32, CounterSource), &u64)| {
            let count = counts.get(key).copied().unwrap_or(0);
            Interrupter {
                cpu: key.0,
                kind: key.1.class.into(),
                name: key.1.name.clone(),
                count,
                per_second: count as f64 / seconds,
                total: *total,
            }
        };
        let mut sources: Vec<_> = self.totals.iter().map(one).collect();
        sources.sort_by_key(|one| (one.cpu, u64::MAX - one.total));
        let cpus = now.cpus().clone();
        let could_not_see = now.unread().to_vec();
        self.last = now;
        WatchDocument {
            schema_version: SCHEMA_VERSION,
            number: self.number,
            time,
            interval_ns,
            isolated: cpus.and(&self.isolated),
            cpus,
            sources,
            senders: None,
            could_not_see,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(disk: u64, tick: u64) -> Counters {
        let text =
            format!("CPU0 CPU1\n 45: 9 {disk} x 1-edge nvme0q3\nLOC: 9 {tick} Local timer interrupts\n");
        Counters::parse([&text, "", "", ""], &CpuSet::from_iter([1]))
    }

    #[test]
    fn a_single_interrupt_stays_listed_with_its_total() {
        let mut watching = Watching::from(counters(7, 100), &CpuSet::from_iter([1, 5]));
        let first = watching.next(counters(8, 350), "t".into(), 500_000_000);
        let second = watching.next(counters(8, 600), "t".into(), 1_000_000_000);
        let counted = |document: &WatchDocument| -> Vec<(String, u64, f64, u64)> {
            let one = |one: &Interrupter| (one.name.clone(), one.count, one.per_second, one.total);
            document.sources.iter().map(one).collect()
        };
        assert_eq!(
            counted(&first),
            [("local timer".into(), 250, 500.0, 250), ("45 nvme0q3".into(), 1, 2.0, 1)]
        );
        assert_eq!(
            counted(&second),
            [("local timer".into(), 250, 250.0, 500), ("45 nvme0q3".into(), 0, 0.0, 1)]
        );
        assert_eq!(
            (second.number, second.cpus.to_string(), second.isolated.to_string()),
            (2, "1".into(), "1".into())
        );
    }
}
