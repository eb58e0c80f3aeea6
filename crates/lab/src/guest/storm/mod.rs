// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storms: what a housekeeping CPU may do to an isolated one. Each is a kind of kernel work that interrupts CPUs
//! which did not ask for it.
//!
//! A storm blows in *rounds*: a fixed number of them at fixed distances, so that the same seed gives the same
//! disturbance. It says afterwards what it did; one that did nothing fails the run. Storms know nothing of the
//! isolated CPU's defences.
//!
//! A process of its own blows them, on the housekeeping CPUs that it inherits. It ends when its rounds are over and
//! its standard input is closed.

mod keys;

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use machine::CpuSet;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::guest::Result;

/// The hidden verb under which this program blows storms.
pub const VERB: &str = "lab-storm";

/// What a storm process shall do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Storms by name; several take turns, drawn from the seed.
    pub storms: Vec<String>,
    /// The CPUs that are measured.
    pub measured: CpuSet,
    /// Seed of all that is drawn.
    pub seed: u64,
}

/// What a storm says of itself; the host adds the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Did {
    /// The storm's name.
    pub name: String,
    /// Whether it did what it is named for.
    pub took_effect: bool,
    /// What it did, or why it did not.
    pub did: String,
}

/// What a storm may know and use.
pub struct Context {
    /// The CPU that is measured; the first where there are several.
    pub target: u32,
    /// What is drawn.
    pub random: Xoshiro256PlusPlus,
}

/// One storm, ready to blow.
pub trait Storm {
    /// Does its work once; a few milliseconds at the most.
    fn round(&mut self, context: &mut Context) -> Result<()>;

    /// Puts back what it changed and says in figures what it did, checked against what the kernel shows; an error
    /// says why it took no effect.
    fn end(&mut self, rounds: u64) -> Result<String>;
}

/// A storm by its name.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// How many rounds it blows.
    pub rounds: u64,
    /// Time from the beginning of one to the beginning of the next.
    pub pace: Duration,
    /// Modules that must be loaded for it, in order, where the kernel has them as modules.
    pub modules: &'static [&'static str],
    /// Modules that it loads and unloads itself.
    pub carried: &'static [&'static str],
    /// Readies it; an error says why this kernel or machine cannot.
    pub ready: fn(&mut Context) -> Result<Box<dyn Storm>>,
}

/// The storm called `name`.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Every storm there is.
pub const KINDS: &[Kind] = &[keys::STATIC_KEYS, keys::TRACEPOINTS];

/// The main function of a storm process.
pub fn main(mut args: impl Iterator<Item = String>) -> ExitCode {
    let order: Order = match args.next().map(|text| serde_json::from_str(&text)) {
        Some(Ok(order)) => order,
        _ => return ExitCode::FAILURE,
    };
    for did in blow(&order) {
        println!("{}", serde_json::to_string(&did).unwrap_or_default());
    }
    // The reader must find the process there until it asks for its end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

/// A storm under way.
struct Blowing {
    kind: &'static Kind,
    storm: Result<Box<dyn Storm>>,
    rounds: u64,
    next: Instant,
}

fn blow(order: &Order) -> Vec<Did> {
    let target = order.measured.iter().next().unwrap_or(1);
    let mut context = Context { target, random: Xoshiro256PlusPlus::seed_from_u64(order.seed) };
    let mut unknown = Vec::new();
    let mut blowing = BTreeMap::new();
    for (n, name) in order.storms.iter().enumerate() {
        match kind(name) {
            Some(kind) => {
                let storm = (kind.ready)(&mut context);
                blowing.insert(n, Blowing { kind, storm, rounds: 0, next: Instant::now() });
            }
            None => unknown.push(Did {
                name: name.clone(),
                took_effect: false,
                did: "there is no such storm".into(),
            }),
        }
    }
    turns(&mut blowing, &mut context);
    blowing.into_values().map(Blowing::end).chain(unknown).collect()
}

/// Lets storms that are due blow a round, in an order drawn from the seed, until all had their rounds.
fn turns(blowing: &mut BTreeMap<usize, Blowing>, context: &mut Context) {
    loop {
        let open = blowing.values().filter(|one| one.open()).map(|one| one.next).min();
        let Some(next) = open else { return };
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let due = blowing.iter().filter(|(_, one)| one.open() && one.next <= next).map(|(n, _)| *n);
        let due = due.collect::<Vec<_>>();
        let n = due[context.random.random_range(0..due.len())];
        if let Some(one) = blowing.get_mut(&n) {
            one.round(context);
        }
    }
}

impl Blowing {
    fn open(&self) -> bool {
        self.storm.is_ok() && self.rounds < self.kind.rounds
    }

    fn round(&mut self, context: &mut Context) {
        let Ok(storm) = &mut self.storm else { return };
        if let Err(why) = storm.round(context) {
            let why = format!("round {}: {why}", self.rounds + 1);
            let _ = storm.end(self.rounds);
            self.storm = Err(why.into());
        }
        self.rounds += 1;
        self.next += self.kind.pace;
    }

    fn end(self) -> Did {
        let ended = self.storm.and_then(|mut storm| storm.end(self.rounds));
        let (took_effect, did) = match ended {
            Ok(did) => (true, did),
            Err(why) => (false, why.to_string()),
        };
        Did { name: self.kind.name.to_string(), took_effect, did }
    }
}
