// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated machines: families of how late cycles come, each with a number for how often they do.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// Cycles of a run.
pub const CYCLES: usize = 20_000;

/// Cycles in a second: a run is 200 s long.
pub const PER_SECOND: usize = 100;

/// The limit of machines whose late cycles have a latency of their own.
const LIMIT_NS: f64 = 100_000.0;

/// The latency of those.
const LATE_NS: u64 = 200_000;

/// How late cycles come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LateFamily {
    /// Each cycle by itself: latencies have an exponential tail.
    Independent,
    /// Bursts of so many cycles, of which most stay below the limit: one latency a burst, exponential.
    Bursts(usize),
    /// Bursts of so many cycles, all of them late; other cycles are far below the limit.
    SuddenBursts(usize),
    /// An autoregressive process of the first order with this coefficient: latencies are normal.
    Autoregressive(f64),
    /// Phases of so many cycles on average, in which one cycle of so many is late; none elsewhere.
    Phases(usize, usize),
    /// A cause that comes again after so many runs, for a hundredth of a run: a daily job.
    Again,
    /// Boots, of which one in five is bad: sudden bursts of 10 in them, no late cycle in others.
    BadBoots,
    /// Independent latencies, bursts of 10 and sudden bursts of 40, a third of the late episodes each.
    Mixture,
}

/// A machine: a family, and how often its late cycles come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedMachine {
    /// How late cycles come.
    pub family: LateFamily,
    /// Late bursts, phases or cycles to be expected in a run; of a cause that comes again, after how many
    /// runs it does.
    pub often: f64,
}

fn exponential(rng: &mut Xoshiro256PlusPlus) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// The latency of a quiet machine: 3 us on average. It is not drawn where late cycles alone are wanted.
fn quiet(state: &State, rng: &mut Xoshiro256PlusPlus) -> u64 {
    if state.is_bare { 0 } else { (2_000.0 + 1_000.0 * exponential(rng)) as u64 }
}

/// A burst or a phase under way: cycles left, and the latency of a burst.
#[derive(Clone, Copy, Default)]
struct Under {
    left: usize,
    latency_ns: u64,
}

/// Bursts, late or not, in a run.
fn bursts(length: usize) -> f64 {
    if length > 100 { 15.0 } else { 60.0 }
}

impl SimulatedMachine {
    /// The latency above which a cycle is late.
    pub fn limit_ns(&self) -> u64 {
        let limit = match self.family {
            LateFamily::Independent => 2_000.0 + 1_000.0 * (CYCLES as f64 / self.often).ln(),
            LateFamily::Bursts(length) => 20_000.0 + 10_000.0 * (bursts(length) / self.often).ln(),
            LateFamily::Autoregressive(_) => 20_000.0 + 2_000.0 * upper_normal(self.often / CYCLES as f64),
            LateFamily::Mixture => 20_000.0 + 10_000.0 * (bursts(10) / (self.often / 3.0)).ln(),
            _ => LIMIT_NS,
        };
        limit as u64
    }

    /// The latency that a cycle exceeds once in so many, of a family with one continuous distribution.
    pub fn once_in_ns(&self, cycles: f64) -> f64 {
        match self.family {
            LateFamily::Autoregressive(_) => 20_000.0 + 2_000.0 * upper_normal(1.0 / cycles),
            LateFamily::Bursts(length) => {
                let in_bursts = bursts(length) * length as f64 / CYCLES as f64;
                20_000.0 + 10_000.0 * (cycles * in_bursts / (1.0 + in_bursts)).ln()
            }
            _ => 2_000.0 + 1_000.0 * cycles.ln(),
        }
    }

    /// The machine as it is in one boot.
    pub fn booted(self, rng: &mut Xoshiro256PlusPlus) -> SimulatedMachine {
        match self.family {
            LateFamily::BadBoots => self.boots()[usize::from(rng.random_range(0..5) == 0)],
            _ => self,
        }
    }

    /// Its possible states in one boot: the good one first.
    pub fn boots(self) -> Vec<SimulatedMachine> {
        match self.family {
            LateFamily::BadBoots => {
                let family = LateFamily::SuddenBursts(10);
                vec![SimulatedMachine { family, often: 0.0 }, SimulatedMachine { family, ..self }]
            }
            _ => vec![self],
        }
    }

    /// Runs it: latencies into `out`, to the first late cycle where `is_short`; else those of quiet cycles
    /// are left out. The places of late cycles.
    pub fn run(self, rng: &mut Xoshiro256PlusPlus, is_short: bool, out: &mut Vec<u64>) -> Vec<u32> {
        out.clear();
        let (limit_ns, mut late) = (self.limit_ns(), Vec::new());
        let mut state = self.begin(rng);
        state.is_bare = !is_short;
        for cycle in 0..CYCLES {
            let latency_ns = self.next(cycle, &mut state, rng);
            out.push(latency_ns);
            if latency_ns > limit_ns {
                late.push(cycle as u32);
                if is_short {
                    break;
                }
            }
        }
        late
    }

    /// The latencies of a whole run.
    pub fn latencies(self, rng: &mut Xoshiro256PlusPlus) -> Vec<u64> {
        let mut state = self.begin(rng);
        (0..CYCLES).map(|cycle| self.next(cycle, &mut state, rng)).collect()
    }

    /// The state in which a run finds the machine: it runs for long already.
    fn begin(self, rng: &mut Xoshiro256PlusPlus) -> State {
        let mut state = State { level: normal(rng), ..State::default() };
        match self.family {
            LateFamily::Phases(length, _) => {
                let share = self.often * length as f64 / (CYCLES as f64 + self.often * length as f64);
                if rng.random::<f64>() < share {
                    state.under.left = 1 + (length as f64 * exponential(rng)) as usize;
                }
            }
            LateFamily::Again => state.phase = rng.random::<f64>() * self.often,
            _ => {}
        }
        state
    }

    fn next(self, cycle: usize, state: &mut State, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let per_cycle = |often: f64| often / CYCLES as f64;
        match self.family {
            LateFamily::Independent => (2_000.0 + 1_000.0 * exponential(rng)) as u64,
            LateFamily::Bursts(length) => {
                let latency_ns = burst(&mut state.under, per_cycle(bursts(length)), length, rng);
                latency_ns.unwrap_or_else(|| quiet(state, rng))
            }
            LateFamily::SuddenBursts(length) => {
                let under = sudden(&mut state.other, per_cycle(self.often), length, rng);
                if under { LATE_NS } else { quiet(state, rng) }
            }
            LateFamily::Autoregressive(coefficient) => {
                state.level =
                    coefficient * state.level + (1.0 - coefficient * coefficient).sqrt() * normal(rng);
                (20_000.0 + 2_000.0 * state.level).max(0.0) as u64
            }
            LateFamily::Phases(length, one_in) => {
                if state.under.left == 0 && rng.random::<f64>() < per_cycle(self.often) {
                    state.under.left = 1 + (length as f64 * exponential(rng)) as usize;
                }
                let is_within = state.under.left > 0;
                state.under.left = state.under.left.saturating_sub(1);
                if is_within && rng.random_range(0..one_in) == 0 { LATE_NS } else { quiet(state, rng) }
            }
            LateFamily::Again => {
                let since = (cycle as f64 / CYCLES as f64 + state.phase).rem_euclid(self.often);
                if since < 0.01 && rng.random_range(0..5) == 0 { LATE_NS } else { quiet(state, rng) }
            }
            LateFamily::Mixture => {
                let third = self.often / 3.0;
                if sudden(&mut state.other, per_cycle(third), 40, rng) {
                    return LATE_NS;
                }
                let in_burst = burst(&mut state.under, per_cycle(bursts(10)), 10, rng);
                in_burst.unwrap_or_else(|| {
                    let scale = (self.limit_ns() as f64 - 2_000.0) / (CYCLES as f64 / third).ln();
                    (2_000.0 + scale * exponential(rng)) as u64
                })
            }
            LateFamily::BadBoots => quiet(state, rng),
        }
    }
}

/// Where a run stands.
#[derive(Default)]
struct State {
    under: Under,
    other: Under,
    level: f64,
    phase: f64,
    /// Whether late cycles alone are wanted.
    is_bare: bool,
}

/// The latency of a burst that is under way, or begins.
fn burst(under: &mut Under, chance: f64, length: usize, rng: &mut Xoshiro256PlusPlus) -> Option<u64> {
    if under.left == 0 && rng.random::<f64>() < chance {
        *under = Under { left: length, latency_ns: (20_000.0 + 10_000.0 * exponential(rng)) as u64 };
    }
    let is_within = under.left > 0;
    under.left = under.left.saturating_sub(1);
    is_within.then_some(under.latency_ns)
}

/// Whether a burst is under way, or begins.
fn sudden(under: &mut Under, chance: f64, length: usize, rng: &mut Xoshiro256PlusPlus) -> bool {
    burst(under, chance, length, rng).is_some()
}

/// The value that a normal variable exceeds with this chance (Abramowitz & Stegun 26.2.23, to 5e-4).
fn upper_normal(chance: f64) -> f64 {
    let t = (-2.0 * chance.min(0.5).ln()).sqrt();
    t - (2.515_517 + 0.802_853 * t + 0.010_328 * t * t)
        / (1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t * t * t)
}
