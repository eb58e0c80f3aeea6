// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated machines against the rule of the claim: how often what a run claims is false.
//!
//! Each family of machines is tried at several rates of late cycles, around those at which a claim becomes
//! false, since there it is false most often. The worst of these rates counts. Whether a claim is true is
//! taken from 2,000 further runs of the same machine. A claim must be false in at most 5 % of runs.

mod machine;
pub mod pairs;
mod trial;

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

pub use machine::{LateFamily, SimulatedMachine};
pub use trial::{ClaimTally, Claims};

use evidence::claim::{THREE, spelled};
use evidence::tail::Tail;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::page;

/// Simulated runs of each family in the long form, spread over its rates.
pub const RUNS: u64 = 10_000;

/// The share of false claims that is allowed.
const ALPHA: f64 = 0.05;

/// Standard errors of a share of false claims by which it may lie above.
const SLACK: f64 = 3.0;

/// Late bursts, phases or cycles in a run: around 3 a claim becomes false.
const OFTEN: [f64; 7] = [1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 7.0];

/// The same of a process whose late cycles have clusters of any length.
const CYCLES_OFTEN: [f64; 8] = [3.0, 6.0, 12.0, 25.0, 60.0, 150.0, 400.0, 1_000.0];

/// The rare latency that is compared: once in so many cycles.
const RARE: u64 = 1_000_000;

/// After how many runs a cause comes again.
const AGAIN: [f64; 7] = [0.2, 0.33, 0.5, 1.05, 2.0, 5.0, 24.0];

/// A family, and what its runs claimed at each rate.
pub struct TriedFamily {
    name: &'static str,
    rates: Vec<ClaimTally>,
    /// Whether the rate per cycle is held to its 5 %: not where lower thresholds show other causes than those
    /// of late cycles.
    is_rate_held: bool,
}

/// The families, with the rates at which they are tried.
pub fn families() -> Vec<(&'static str, LateFamily, &'static [f64], bool)> {
    use LateFamily::{Again, Autoregressive, BadBoots, Bursts, Independent, Mixture, Phases, SuddenBursts};
    vec![
        ("independent", Independent, &OFTEN, true),
        ("bursts of 2", Bursts(2), &OFTEN, true),
        ("bursts of 10", Bursts(10), &OFTEN, true),
        ("bursts of 40", Bursts(40), &OFTEN, true),
        ("bursts of 400", Bursts(400), &OFTEN, true),
        ("sudden bursts of 2", SuddenBursts(2), &OFTEN, true),
        ("sudden bursts of 40", SuddenBursts(40), &OFTEN, true),
        ("sudden bursts of 400", SuddenBursts(400), &OFTEN, true),
        ("AR(1), 0.9", Autoregressive(0.9), &CYCLES_OFTEN, true),
        ("AR(1), 0.99", Autoregressive(0.99), &CYCLES_OFTEN, true),
        ("AR(1), 0.999", Autoregressive(0.999), &CYCLES_OFTEN, true),
        ("phases of 5 s, late each 0.5 s", Phases(500, 50), &OFTEN, true),
        ("phases of 20 s, late each 3 s", Phases(2_000, 300), &OFTEN, true),
        ("phases of 60 s, late each 10 s", Phases(6_000, 1_000), &OFTEN, true),
        ("a daily cause", Again, &AGAIN, true),
        ("bad boots, one in five", BadBoots, &OFTEN, true),
        ("mixture", Mixture, &OFTEN, false),
    ]
}

/// Tries every family with so many runs, spread over its rates.
pub fn tried(runs: u64) -> Vec<TriedFamily> {
    let one = |(n, (name, family, often_all, is_rate_held)): (usize, (_, LateFamily, &[f64], bool))| {
        let rates = often_all.iter().enumerate().map(|(k, often)| {
            let seed = (n * 100 + k) as u64;
            ClaimTally::of(SimulatedMachine { family, often: *often }, runs / often_all.len() as u64, seed)
        });
        TriedFamily { name, rates: rates.collect(), is_rate_held }
    };
    let all = families();
    let (here, there): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(n, _)| n % 2 == 0);
    // Half of them in a second thread.
    let mut tried = std::thread::scope(|scope| {
        let other =
            scope.spawn(|| there.into_iter().map(|family| (family.0, one(family))).collect::<Vec<_>>());
        let mut tried = here.into_iter().map(|family| (family.0, one(family))).collect::<Vec<_>>();
        tried.extend(other.join().unwrap_or_default());
        tried
    });
    tried.sort_by_key(|(n, _)| *n);
    tried.into_iter().map(|(_, family)| family).collect()
}

impl TriedFamily {
    /// The largest share of runs with a false claim, over the rates.
    fn worst(&self, claims: fn(&ClaimTally) -> Claims) -> f64 {
        let share = |tally: &ClaimTally| claims(tally).is_false as f64 / tally.runs as f64;
        self.rates.iter().map(share).fold(0.0, f64::max)
    }

    /// The share of runs without a late cycle that claim it.
    fn made(&self, claims: fn(&ClaimTally) -> Claims) -> f64 {
        let all = self.rates.iter().fold(ClaimTally::default(), |sum, one| sum.join(one));
        claims(&all).made as f64 / all.three.made.max(1) as f64
    }

    /// The claims that are false in more than 5 % of runs, beyond chance.
    pub fn wrong(&self) -> Vec<String> {
        let runs = self.rates.iter().map(|tally| tally.runs).min().unwrap_or(1) as f64;
        let most = ALPHA + SLACK * (ALPHA * (1.0 - ALPHA) / runs).sqrt();
        let held = [("episodes", self.worst(|tally| tally.episodes))];
        let rate = self.is_rate_held.then(|| ("per cycle", self.worst(|tally| tally.cycles)));
        let wrong = held.into_iter().chain(rate).filter(|(_, share)| *share > most);
        let wrong =
            wrong.map(|(rule, share)| format!("{}: {rule} false in {:.1} %", self.name, 100.0 * share));
        wrong.collect()
    }
}

/// The table of all families.
fn table(tried: &[TriedFamily]) -> String {
    let mut out = String::from(
        "| Late cycles | 3/*N* per cycle | 3 episodes a run | Claimed in | per cycle, with factor | Claimed in |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    for one in tried {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            one.name,
            percent(one.worst(|tally| tally.three)),
            percent(one.worst(|tally| tally.episodes)),
            percent(one.made(|tally| tally.episodes)),
            percent(one.worst(|tally| tally.cycles)),
            percent(one.made(|tally| tally.cycles)),
        );
    }
    out
}

/// How often a run holds, by how many late episodes it has on average, and how long it must be.
fn power(runs: u64) -> String {
    let mut out = String::from(
        "| Late episodes in a run, on average | e^-n | independent | sudden bursts of 40 |\n|---|--:|--:|--:|\n",
    );
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    for often in [0.03, 0.1, 0.3, 1.0, 3.0] {
        let holds = |family: LateFamily, seed: u64| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (machine, mut latencies) = (SimulatedMachine { family, often }, Vec::new());
            let held = (0..runs).filter(|_| machine.run(&mut rng, true, &mut latencies).is_empty()).count();
            percent(held as f64 / runs as f64)
        };
        let (independent, sudden) =
            (holds(LateFamily::Independent, 1), holds(LateFamily::SuddenBursts(40), 2));
        let _ = writeln!(out, "| {often} | {} | {independent} | {sudden} |", percent((-often).exp()));
    }
    let _ = writeln!(out, "\n| Claim | Cluster factor | Cycles | At 1 kHz |\n|---|--:|--:|--:|");
    for claim in [1e-3, 1e-6] {
        for factor in [1.0, 3.0, 40.0] {
            let cycles = (THREE * factor / claim).round();
            let length = spelled(cycles as u64 * 1_000_000);
            let _ = writeln!(out, "| {claim:.0e} | {factor} | {cycles:.0} | {length} |");
        }
    }
    out
}

/// How often boots that all held claim too small a share of bad ones. One in five is bad, and shows it in
/// nearly each run.
fn boots(trials: u64) -> String {
    let mut out = String::from("| Boots | Claim: bad boots are below | False in |\n|---|--:|--:|\n");
    let machine = SimulatedMachine { family: LateFamily::BadBoots, often: 6.0 };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut latencies = Vec::new();
    let mut holds = || machine.booted(&mut rng).run(&mut rng, true, &mut latencies).is_empty();
    let bad = (0..20 * trials).filter(|_| !holds()).count() as f64 / (20 * trials) as f64;
    for wanted in [5, 10, 15, 16, 20, 30] {
        let below = (THREE / f64::from(wanted)).min(1.0);
        let is_false = bad >= below;
        let made = (0..trials).filter(|_| is_false && (0..wanted).all(|_| holds())).count();
        let (below, share) = (100.0 * below, 100.0 * made as f64 / trials as f64);
        let _ = writeln!(out, "| {wanted} | {below:.0} % | {share:.1} % |");
    }
    out
}

/// How often the tail of a run is estimated, its interval has the latency that is true, and the bound without
/// a model is above it.
fn tails(runs: u64) -> String {
    let mut out = String::from(
        "| Latencies | Estimated in | Interval has the truth in | Bound by moments above it in |\n|---|--:|--:|--:|\n",
    );
    use LateFamily::{Autoregressive, Bursts, Independent};
    let families = [
        ("independent", Independent),
        ("AR(1), 0.9", Autoregressive(0.9)),
        ("AR(1), 0.99", Autoregressive(0.99)),
        ("bursts of 10", Bursts(10)),
        ("bursts of 40", Bursts(40)),
    ];
    for (name, family) in families {
        // So rare that no run ends early.
        let machine = SimulatedMachine { family, often: 1e-9 };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(runs);
        let (mut latencies, mut estimated, mut has, mut above) = (Vec::new(), 0u64, 0u64, 0u64);
        for _ in 0..runs {
            machine.run(&mut rng, true, &mut latencies);
            let row = trial::row(&latencies, machine.limit_ns());
            let Tail::Estimate(estimate) = row.tail() else { continue };
            let Some(level) = estimate.levels.iter().find(|level| level.once_in == RARE) else { continue };
            let truth_ns = machine.once_in_ns(RARE as f64) as u64;
            estimated += 1;
            has += u64::from((level.low_ns..=level.high_ns).contains(&truth_ns));
            above += u64::from(level.model_free_ns.is_some_and(|bound_ns| bound_ns >= truth_ns));
        }
        let of = |part: u64, whole: u64| match whole {
            0 => "–".to_string(),
            _ => format!("{:.0} %", 100.0 * part as f64 / whole as f64),
        };
        let (all, has, above) = (of(estimated, runs), of(has, estimated), of(above, estimated));
        let _ = writeln!(out, "| {name} | {all} | {has} | {above} |");
    }
    out
}

/// Tries all families and puts the tables into the page; fails where a claim is false too often.
pub fn run(page: &Path, runs: u64) -> Result<(), Box<dyn Error>> {
    const FAMILIES: &str = "proof-claims";
    const POWER: &str = "proof-claims, power";
    const TAILS: &str = "proof-claims, tails";
    const BOOTS: &str = "proof-claims, boots";
    [FAMILIES, POWER, TAILS, BOOTS].into_iter().try_for_each(|name| page::has_place(page, name))?;
    let tried = tried(runs);
    let families = table(&tried);
    print!("{families}");
    page::put(page, FAMILIES, &families)?;
    let power = power(runs);
    print!("{power}");
    page::put(page, POWER, &power)?;
    let boots = boots(runs / 4);
    print!("{boots}");
    page::put(page, BOOTS, &boots)?;
    let tails = tails(runs / 40);
    print!("{tails}");
    page::put(page, TAILS, &tails)?;
    let wrong = tried.iter().flat_map(TriedFamily::wrong).collect::<Vec<_>>();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_false_in_at_most_one_of_twenty() {
        let wrong = tried(210).iter().flat_map(TriedFamily::wrong).collect::<Vec<_>>();
        assert_eq!(wrong, Vec::<String>::new());
    }
}
