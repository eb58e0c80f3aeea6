// SPDX-License-Identifier: MIT OR Apache-2.0
//! The claims of simulated runs, and whether they are true of the machine.

use evidence::claim::{ClaimPer, RowClaim, THREE};
use evidence::manifest::{RowEntry, RowKey, Second};
use evidence::{Histogram, Row, Series};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::machine::{CYCLES, PER_SECOND, SimulatedMachine};

/// Runs from which the truth about a machine is taken, at least and at most.
const RUNS_FOR_TRUTH: [u64; 2] = [100, 2_000];

/// Horizons for which the truth is counted, in seconds; a longer one has at most as many episodes as the next
/// shorter.
const HORIZONS_S: [usize; 6] = [20, 25, 30, 40, 50, 60];

/// The true figures of a machine.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// The rate of late cycles.
    pub rate: f64,
    /// Late episodes in a run, for each of the horizons.
    episodes: [f64; HORIZONS_S.len()],
}

impl Truth {
    /// From so many runs of the machine.
    pub fn of(machine: SimulatedMachine, runs: u64, rng: &mut Xoshiro256PlusPlus) -> Truth {
        let mut truth = Truth::default();
        let mut latencies = Vec::with_capacity(CYCLES);
        for _ in 0..runs {
            let late = machine.run(rng, false, &mut latencies);
            truth.rate += late.len() as f64;
            for (mean, horizon_s) in truth.episodes.iter_mut().zip(HORIZONS_S) {
                let quiet = (horizon_s * PER_SECOND) as u32;
                let after = late.windows(2).filter(|pair| pair[1] - pair[0] > quiet).count();
                *mean += (after + usize::from(!late.is_empty())) as f64;
            }
        }
        truth.rate /= runs as f64 * CYCLES as f64;
        truth.episodes.iter_mut().for_each(|mean| *mean /= runs as f64);
        truth
    }

    /// Late episodes that a run has on average, at most, where this horizon ends them.
    pub fn episodes(&self, horizon_ns: u64) -> f64 {
        let place = HORIZONS_S.iter().rposition(|known_s| *known_s as u64 * 1_000_000_000 <= horizon_ns);
        self.episodes[place.unwrap_or(0)]
    }
}

/// Runs with a claim, and with a false one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Claims {
    /// Runs that made the claim.
    pub made: u64,
    /// Of these, those in which it is false.
    pub is_false: u64,
}

impl Claims {
    fn count(&mut self, is_false: bool) {
        self.made += 1;
        self.is_false += u64::from(is_false);
    }

    fn add(&mut self, other: &Claims) {
        self.made += other.made;
        self.is_false += other.is_false;
    }
}

/// The claims of many runs, by rule.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaimTally {
    /// All runs.
    pub runs: u64,
    /// Fewer than 3/N of the cycles are late.
    pub three: Claims,
    /// Fewer than 3 late episodes in a run.
    pub episodes: Claims,
    /// Fewer than 3/N of the cycles, times the cluster factor.
    pub cycles: Claims,
}

impl ClaimTally {
    /// The claims of so many runs of a machine, each in a boot of its own.
    pub fn of(machine: SimulatedMachine, runs: u64, seed: u64) -> ClaimTally {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let boots = machine.boots();
        let for_truth = runs.clamp(RUNS_FOR_TRUTH[0], RUNS_FOR_TRUTH[1]);
        let truths = boots.iter().map(|boot| Truth::of(*boot, for_truth, &mut rng)).collect::<Vec<_>>();
        let mut tally = ClaimTally { runs, ..ClaimTally::default() };
        let mut latencies = Vec::with_capacity(CYCLES);
        for _ in 0..runs {
            let booted = machine.booted(&mut rng);
            let place = boots.iter().position(|boot| *boot == booted).unwrap_or(0);
            // Of a late run nothing is claimed.
            if booted.run(&mut rng, true, &mut latencies).is_empty() {
                tally.judge(&row(&latencies, booted.limit_ns()), &truths[place]);
            }
        }
        tally
    }

    fn judge(&mut self, row: &Row, truth: &Truth) {
        self.three.count(truth.rate >= THREE / CYCLES as f64);
        let claim = RowClaim::of(row);
        if !claim.is_too_short {
            self.episodes.count(truth.episodes(claim.horizon_ns) >= claim.episodes_below(1));
        }
        if let Some(rate) = claim.rate_below(ClaimPer::Cycle) {
            self.cycles.count(truth.rate >= rate);
        }
    }

    /// Both together.
    pub fn join(mut self, other: &ClaimTally) -> ClaimTally {
        self.runs += other.runs;
        self.three.add(&other.three);
        self.episodes.add(&other.episodes);
        self.cycles.add(&other.cycles);
        self
    }
}

/// The row of a run, as a bundle holds it.
pub fn row(latencies: &[u64], limit_ns: u64) -> Row {
    let mut latency = Histogram::new();
    latencies.iter().for_each(|ns| latency.record(*ns));
    let second = |(second, cycles): (usize, &[u64])| Second {
        second: second as u32,
        count: cycles.len() as u64,
        min_ns: cycles.iter().copied().min().unwrap_or(0),
        sum_ns: cycles.iter().sum(),
        max_ns: cycles.iter().copied().max().unwrap_or(0),
        missed: 0,
    };
    let seconds = latencies.chunks(PER_SECOND).enumerate().map(second).collect();
    let period_ns = Some(1_000_000_000 / PER_SECOND as u64);
    let key = RowKey::new("wakeup", "idle", 0, period_ns);
    let entry = RowEntry { limit_ns: Some(limit_ns), ..RowEntry::new(key) };
    Row::new(entry, Series { latency, seconds, ..Series::default() })
}
