// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as the planner sees it: physical cores with what they share, and what the kernel can do.
//!
//! Everything is derived from the snapshot. Cores are what sysfs says share a core, never arithmetic on
//! numbers.

use std::collections::BTreeSet;

use machine::snapshot::CoreKind;
use machine::{CpuSet, Snapshot};

/// One physical core with at least one online CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Core {
    /// Its online hardware threads.
    pub(super) cpus: CpuSet,
    /// Its memory node; 0 where the machine has none, or contradicts itself.
    pub(super) node: u32,
    /// How fast it is, the machine's fastest having the highest; cores of one type have the same.
    pub(super) speed: u64,
    /// Whether it is a low-power core, outside of the others' last cache.
    pub(super) low_power: bool,
    /// The CPUs that share its last cache; its own where unknown.
    pub(super) cache: CpuSet,
    /// The CPUs of its cluster; its own where unknown.
    pub(super) cluster: CpuSet,
}

impl Core {
    /// Its first hardware thread, which names it.
    pub(super) fn first(&self) -> u32 {
        self.cpus.iter().next().unwrap_or_default()
    }
}

/// The machine.
#[derive(Debug, Clone)]
pub(super) struct PlanFacts<'a> {
    /// Whence the rest.
    pub(super) machine: &'a Snapshot,
    /// Online cores, by their first hardware thread.
    pub(super) cores: Vec<Core>,
    /// The CPU that the machine boots on: the first that is present.
    pub(super) boot_cpu: u32,
    /// Whether the siblings of any online CPU are not known.
    pub(super) siblings_unknown: bool,
    /// Whether hardware threads are off now, by SMT's switch or CPU by CPU: a reboot brings them back.
    pub(super) smt_off: bool,
}

/// The kernel's switch of hardware threads; `on` only where the processor has them.
const SMT: &str = "/sys/devices/system/cpu/smt/control";

impl<'a> PlanFacts<'a> {
    pub(super) fn of(machine: &'a Snapshot) -> Self {
        let online = machine.online();
        let boot_cpu = machine.cpus.iter().map(|cpu| cpu.id).min().unwrap_or_default();
        let highest_level = machine.cpus.iter().filter_map(|cpu| cpu.last_cache_level).max();
        let mut seen = CpuSet::new();
        let mut cores = Vec::new();
        for cpu in machine.cpus.iter().filter(|cpu| cpu.online) {
            if seen.contains(cpu.id) {
                continue;
            }
            let own = CpuSet::from_iter([cpu.id]);
            let or_own = |cpus: &CpuSet| if cpus.is_empty() { own.clone() } else { cpus.and(&online) };
            let cpus = or_own(&cpu.siblings).without(&seen);
            seen = seen.or(&cpus);
            let without_last_cache = cpu.last_cache_level < highest_level;
            let low_power = match cpu.kind {
                Some(CoreKind::LowPower) => true,
                Some(CoreKind::Efficient) => without_last_cache,
                _ => false,
            };
            cores.push(Core {
                node: cpu.node.unwrap_or_default(),
                speed: speed(machine, cpu.id),
                low_power,
                cache: or_own(&cpu.last_cache_cpus).or(&cpus),
                cluster: or_own(&cpu.cluster).or(&cpus),
                cpus,
            });
        }
        cores.sort_by_key(Core::first);
        let siblings_unknown = machine.cpus.iter().any(|cpu| cpu.online && cpu.siblings.is_empty());
        let by_hand = !siblings_unknown
            && machine.cpus.iter().any(|cpu| !cpu.online)
            && cores.iter().all(|core| core.cpus.len() == 1);
        let smt_off = match machine.settings.get(SMT).map(String::as_str) {
            Some("off") => true,
            Some("on") => by_hand,
            _ => false,
        };
        PlanFacts { machine, cores, boot_cpu, siblings_unknown, smt_off }
    }

    /// All online CPUs.
    pub(super) fn online(&self) -> CpuSet {
        self.machine.online()
    }

    /// The hardware threads that share a core with any of `cpus`, `cpus` included.
    pub(super) fn whole_cores(&self, cpus: &CpuSet) -> CpuSet {
        let touched = self.cores.iter().filter(|core| !core.cpus.and(cpus).is_empty());
        touched.fold(cpus.clone(), |all, core| all.or(&core.cpus))
    }

    /// Those of `cores` whose node has CPUs and no memory of its own.
    pub(super) fn without_memory<'c>(&self, cores: impl Iterator<Item = &'c Core>) -> CpuSet {
        let without = &self.machine.nodes_without_memory;
        cores.filter(|core| without.contains(core.node)).flat_map(|core| core.cpus.iter()).collect()
    }

    /// The nodes that have CPUs.
    pub(super) fn nodes(&self) -> BTreeSet<u32> {
        self.cores.iter().map(|core| core.node).collect()
    }

    /// Whether CONFIG_`name` is set, as far as known.
    pub(super) fn option(&self, name: &str) -> Option<bool> {
        // A kernel built without it has no switch that is off (`notimplemented`, or no file).
        if name == "HOTPLUG_SMT" && self.smt_off {
            return Some(true);
        }
        self.machine.kernel.option(name)
    }
}

/// The speed of a core, as far as the machine says: type first, then capacity, then highest frequency in
/// steps of a tenth, since cores of one type may differ a little from each other (favoured cores).
fn speed(machine: &Snapshot, id: u32) -> u64 {
    let Some(cpu) = machine.cpu(id) else { return 0 };
    if machine.cpus.iter().any(|cpu| cpu.kind.is_some()) {
        return match cpu.kind {
            Some(CoreKind::Performance) => 3,
            Some(CoreKind::Efficient) => 2,
            Some(CoreKind::LowPower) => 1,
            None => 0,
        };
    }
    if machine.cpus.iter().any(|cpu| cpu.capacity.is_some()) {
        return class(
            machine.cpus.iter().filter_map(|cpu| cpu.capacity.map(u64::from)),
            cpu.capacity.map(u64::from),
        );
    }
    class(machine.cpus.iter().filter_map(|cpu| cpu.max_frequency_khz), cpu.max_frequency_khz)
}

/// In which class `own` is when all values are put in classes so that neighbours in one differ by under a
/// tenth.
fn class(all: impl Iterator<Item = u64>, own: Option<u64>) -> u64 {
    let Some(own) = own else { return 0 };
    let mut values: Vec<u64> = all.collect();
    values.sort_unstable();
    values.dedup();
    let steps = values.windows(2).filter(|pair| pair[1] <= own && pair[1] > pair[0] + pair[0] / 10);
    1 + steps.count() as u64
}
