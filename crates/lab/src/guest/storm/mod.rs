// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storms: what a housekeeping CPU may do to an isolated one. Each is a kind of kernel work that interrupts
//! CPUs which did not ask for it.
//!
//! A storm blows in *rounds*: a fixed number of them at fixed distances, so that the same seed gives the same
//! disturbance. It says afterwards what it did; one that did nothing fails the run. Storms know nothing of
//! the isolated CPU's defences.
//!
//! Processes of their own blow them ([`runner`]), on the housekeeping CPUs that they inherit. Those that
//! concern the memory of the measuring program itself blow inside of it ([`owner`]).

mod bpf;
mod caches;
mod clock;
mod disk;
mod events;
mod hotplug;
mod keys;
mod membarrier;
mod memory;
mod module;
mod msr;
mod net;
pub mod owner;
mod probes;
mod rcu;
pub mod runner;
mod signals;
mod tracing;
mod vmalloc;
mod wake;

use std::time::Duration;

use machine::CpuSet;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::guest::Result;

/// The hidden verb under which this program blows storms.
pub const VERB: &str = "lab-storm";

/// The order to a storm process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StormJob {
    /// Storms by name; several take turns, drawn from the seed.
    pub storms: Vec<String>,
    /// The CPUs that are measured.
    pub measured: CpuSet,
    /// Seed of all that is drawn.
    pub seed: u64,
    /// How many times as many rounds each blows as its kind says.
    pub times: u64,
}

/// A storm's own report; the host adds the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StormOutcome {
    /// The storm's name.
    pub name: String,
    /// Whether it did what it is named for.
    pub took_effect: bool,
    /// Its work, or why it did none.
    pub did: String,
}

impl StormOutcome {
    fn nothing(name: &str, why: String) -> StormOutcome {
        StormOutcome { name: name.to_string(), took_effect: false, did: why }
    }
}

/// The surroundings that a storm may know and use.
pub struct Context {
    /// The CPU that is measured; the first where there are several.
    pub target: u32,
    /// All CPUs that are measured.
    pub measured: CpuSet,
    /// How many rounds there will be.
    pub rounds: u64,
    /// The source of random numbers, for this storm alone: others do not change it.
    pub random: Xoshiro256PlusPlus,
}

/// One storm, ready to blow.
pub trait Storm {
    /// Does its work once; a few milliseconds at the most, where the kernel does not make it wait.
    fn round(&mut self, context: &mut Context) -> Result<()>;

    /// Puts back what it changed and says in figures what it did, checked against what the kernel shows; an
    /// error says why it took no effect.
    fn end(&mut self, rounds: u64) -> Result<String>;
}

/// A storm by its name.
pub struct StormKind {
    /// Its name.
    pub name: &'static str,
    /// A description of its effect.
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

impl StormKind {
    /// Twenty rounds a second, and no module; each storm names itself.
    const USUAL: StormKind = StormKind {
        name: "",
        about: "",
        rounds: 50,
        pace: Duration::from_millis(50),
        modules: &[],
        carried: &[],
        ready: |_| Err("this storm has no rounds".into()),
    };

    /// Whether it blows inside the measuring program.
    pub fn is_own(&self) -> bool {
        OWN.contains(&self.name)
    }

    /// Whether guests of an architecture have what it changes.
    pub fn is_on(&self, architecture: Architecture) -> bool {
        architecture == Architecture::X86_64 || !OF_X86.contains(&self.name)
    }
}

/// Storms that concern the measuring program's own memory.
const OWN: &[&str] = &["membarrier-own", "mprotect-own", "munmap-own", "fork-own", "signals"];

/// Storms that change what only x86 processors have.
const OF_X86: &[&str] = &["msr"];

/// The storm called `name`.
pub fn kind(name: &str) -> Option<&'static StormKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Every storm there is.
pub const KINDS: &[StormKind] = &[
    keys::STATIC_KEYS,
    keys::TRACEPOINTS,
    probes::KPROBES,
    probes::FTRACE,
    bpf::BPF,
    membarrier::OWN,
    membarrier::OTHER,
    memory::MPROTECT_OWN,
    memory::MPROTECT_OTHER,
    memory::MUNMAP_OWN,
    memory::MUNMAP_OTHER,
    memory::FORK_OWN,
    memory::FORK_OTHER,
    vmalloc::VMALLOC,
    caches::DROP_CACHES,
    caches::COMPACTION,
    caches::STAT_REFRESH,
    events::PERF_OPEN,
    events::TIMERS,
    wake::WAKE_PINNED,
    signals::SIGNALS,
    hotplug::HOTPLUG,
    msr::MSR,
    clock::CLOCK_SETTIME,
    rcu::RCU_EXPEDITED,
    module::MODULE_LOAD,
    net::NET_LOOPBACK,
    disk::DISK,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_storm_has_a_name_of_its_own_and_blows_for_a_few_seconds() {
        for (n, one) in KINDS.iter().enumerate() {
            assert!(KINDS[..n].iter().all(|other| other.name != one.name), "{}", one.name);
            let length = one.pace * one.rounds as u32;
            assert!((Duration::from_secs(2)..=Duration::from_secs(3)).contains(&length), "{}", one.name);
        }
        assert!(OWN.iter().all(|name| kind(name).is_some()));
    }
}
