// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of runs of one machine, which a comparison may call better or worse in hardly a pair.

use compare::compare;
use evidence::manifest::{Asked, Manifest, RowEntry, RowKey, Second};
use evidence::{Bundle, Row, Series};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::machine::PER_SECOND;
use super::{LateFamily, SimulatedMachine};

/// Pairs of which a figure was called so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangedPairs {
    /// Worse, of any figure.
    pub worse: u64,
    /// Better, of any figure.
    pub better: u64,
    /// Figures of all pairs that had an interval.
    pub intervals: u64,
}

/// A run of the machine as evidence: a row of 200 s at 100 Hz.
pub fn run(machine: SimulatedMachine, rng: &mut Xoshiro256PlusPlus) -> Bundle {
    let mut series = Series::default();
    for (second, cycles) in (0..).zip(machine.latencies(rng).chunks(PER_SECOND)) {
        let mut line = Second { second, count: cycles.len() as u64, min_ns: u64::MAX, ..Second::default() };
        for latency_ns in cycles {
            series.latency.record(*latency_ns);
            line.sum_ns += latency_ns;
            line.min_ns = line.min_ns.min(*latency_ns);
            line.max_ns = line.max_ns.max(*latency_ns);
        }
        series.seconds.push(line);
    }
    let key = RowKey::new("wakeup", "idle", 1, Some(1_000_000_000 / PER_SECOND as u64));
    let entry = RowEntry { limit_ns: Some(machine.limit_ns()), ..RowEntry::new(key) };
    let manifest = Manifest { rows: vec![entry.clone()], ..Manifest::new("isolator", Asked::default()) };
    Bundle { rows: vec![Row::new(entry, series)], ..Bundle::new("run", manifest) }
}

/// The judgement of a comparison on so many pairs of runs, each of one boot of the machine.
pub fn changed(family: LateFamily, often: f64, pairs: u64, seed: u64) -> ChangedPairs {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut changed = ChangedPairs::default();
    for _ in 0..pairs {
        let machine = SimulatedMachine { family, often }.booted(&mut rng);
        let (before, after) = (run(machine, &mut rng), run(machine, &mut rng));
        let rows = compare(&before, &after, false).rows;
        let intervals = || rows.iter().filter_map(|change| change.interval_percent);
        changed.worse += u64::from(intervals().any(|[low, _]| low > 0.0));
        changed.better += u64::from(intervals().any(|[_, high]| high < 0.0));
        changed.intervals += intervals().count() as u64;
    }
    changed
}
