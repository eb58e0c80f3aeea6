// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs to isolate: whole physical cores of one type, never the boot CPU's, near the device,
//! as a whole cache or cluster where that fits, the highest numbers else; and what stays for everything else.
//!
//! Limits: caches that the firmware partitions and memory channels are not known here.

use std::collections::{BTreeMap, BTreeSet};

use machine::CpuSet;
use machine::advice::Aim;
use machine::registry::cpus;

use super::facts::{Core, PlanFacts};
use super::intent::{Intent, WantedCpus};
use crate::action::PlanRefusal;

/// The CPUs of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CpuChoice {
    /// To isolate.
    pub(super) isolated: CpuSet,
    /// Of those, for real-time threads.
    pub(super) real_time: CpuSet,
    /// For everything else.
    pub(super) housekeeping: CpuSet,
    /// Why these.
    pub(super) why: String,
    /// The warnings.
    pub(super) warnings: Vec<String>,
}

impl CpuChoice {
    /// The CPUs of the table of advice.
    pub(super) fn aim<'a>(&self, facts: &PlanFacts<'a>, intent: &Intent) -> Aim<'a> {
        Aim {
            machine: facts.machine,
            profile: intent.profile,
            isolated: self.isolated.clone(),
            housekeeping: self.housekeeping.clone(),
        }
    }
}

/// Shorthand for a refusal.
pub(super) fn refuse<T>(reason: impl Into<String>, cure: impl Into<String>) -> Result<T, PlanRefusal> {
    Err(PlanRefusal { reason: reason.into(), cure: cure.into() })
}

/// Chooses, or takes what was asked for.
pub(super) fn choose(
    facts: &PlanFacts,
    intent: &Intent,
    node: Option<u32>,
) -> Result<CpuChoice, PlanRefusal> {
    if facts.cores.is_empty() {
        return refuse(
            "the CPUs of the machine could not be read",
            "plan on the machine itself, or from a capture that has /sys/devices/system/cpu",
        );
    }
    let mut choice = match &intent.cpus {
        WantedCpus::Default => by_count(facts, 1, node)?,
        WantedCpus::Cores(count) => by_count(facts, *count, node)?,
        WantedCpus::Cpus(cpus) => as_asked(facts, intent, cpus)?,
    };
    if intent.nosmt {
        // The other threads will be offline: a list that names them confuses who verifies it.
        let firsts: CpuSet = facts.cores.iter().map(Core::first).collect();
        choice.isolated = choice.isolated.and(&firsts);
        choice.housekeeping = choice.housekeeping.and(&firsts);
        choice.real_time = choice.real_time.and(&firsts);
    }
    let present = facts.machine.kernel.command_line.as_deref().unwrap_or_default();
    if let Some((word, gone)) = cpus::taken_away(present, &choice.isolated).filter(|_| !intent.no_reboot) {
        let online = facts.online();
        let all_gone = cpus::taken_away(present, &online).map_or_else(CpuSet::new, |(_, gone)| gone);
        let stays = online.without(&all_gone);
        return refuse(
            format!("{} of the boot line takes cpus {gone} away at the next boot", word.raw),
            format!("take {} off, or choose from {stays} (--cpus)", word.raw),
        );
    }
    choice.warnings.extend(warnings(facts, &choice));
    Ok(choice)
}

/// How many cores must stay: one of up to four, two of more.
fn floor(cores: usize) -> usize {
    if cores <= 4 { 1 } else { 2 }
}

fn by_count(facts: &PlanFacts, count: u32, node: Option<u32>) -> Result<CpuChoice, PlanRefusal> {
    let count = count as usize;
    if count == 0 {
        return refuse("no core is asked for", "ask for at least one (--cores 1)");
    }
    if facts.cores.len() < 2 {
        return refuse(
            "the machine has one physical core, which everything else needs",
            "use a machine with at least two cores; without isolation a real-time policy alone still helps (isolator run)",
        );
    }
    let groups = groups(facts);
    let most = groups.values().map(Vec::len).max().unwrap_or_default();
    let most = most.min(facts.cores.len() - floor(facts.cores.len()));
    if count > most {
        let kinds = if groups.len() > 1 { " of one type" } else { "" };
        return refuse(
            format!(
                "{count} cores{kinds} cannot be isolated: of {}, at most {most} can, since the boot CPU's, and at \
                 least one on every memory node with CPUs, are for everything else",
                facts.cores.len()
            ),
            if most == 0 {
                "use a machine with more cores".into()
            } else {
                format!("ask for at most {most} (--cores {most})")
            },
        );
    }
    // The fastest type that has as many.
    let Some(group) = groups.values().rev().find(|cores| cores.len() >= count) else {
        return refuse("no type of core has as many", format!("ask for at most {most} (--cores {most})"));
    };
    let (cores, why, mut warnings) = of_group(facts, group, count, node);
    if let Some(node) = node.filter(|node| cores.iter().any(|core| core.node != *node)) {
        let far: CpuSet =
            cores.iter().filter(|core| core.node != node).flat_map(|core| core.cpus.iter()).collect();
        warnings.push(format!(
            "cpus {far} are not on the device's memory node {node}, which has no more cores to give"
        ));
    }
    let mut choice = of_cores(facts, &cores);
    (choice.why, choice.warnings) = (why, warnings);
    Ok(choice)
}

/// Cores that may be isolated, by speed: not the boot CPU's, no low-power one, and of each node that has CPUs
/// one stays.
fn groups<'f>(facts: &'f PlanFacts) -> BTreeMap<u64, Vec<&'f Core>> {
    let mut eligible: Vec<&Core> =
        facts.cores.iter().filter(|core| !core.low_power && !core.cpus.contains(facts.boot_cpu)).collect();
    for node in facts.nodes() {
        let of_node = |core: &&Core| core.node == node;
        if facts.cores.iter().filter(of_node).count() == eligible.iter().copied().filter(of_node).count() {
            // The slowest, then the lowest: the least loss.
            let stays =
                eligible.iter().copied().filter(of_node).min_by_key(|core| (core.speed, core.first()));
            let stays = stays.map(Core::first);
            eligible.retain(|core| Some(core.first()) != stays);
        }
    }
    let mut groups: BTreeMap<u64, Vec<&Core>> = BTreeMap::new();
    for core in eligible {
        groups.entry(core.speed).or_default().push(core);
    }
    groups
}

/// `count` cores of one type: of one node where that goes, a whole cache, a whole cluster, or the highest.
fn of_group<'f>(
    facts: &PlanFacts,
    group: &[&'f Core],
    count: usize,
    node: Option<u32>,
) -> (Vec<&'f Core>, String, Vec<String>) {
    let mut nodes: Vec<u32> =
        group.iter().map(|core| core.node).collect::<BTreeSet<_>>().into_iter().collect();
    // The device's node, else the highest that has memory of its own.
    let far = &facts.machine.nodes_without_memory;
    nodes.sort_by_key(|own| (Some(*own) != node, far.contains(*own), std::cmp::Reverse(*own)));
    let within = |node: u32| group.iter().copied().filter(|core| core.node == node).collect::<Vec<_>>();
    let near = nodes.first().map(|node| within(*node)).unwrap_or_default();
    let fitting = if node.is_some() && near.len() < count {
        None
    } else {
        nodes.iter().map(|node| within(*node)).find(|cores| cores.len() >= count)
    };
    let place = if node.is_some() { ", near the device" } else { "" };
    let Some(candidates) = fitting else {
        // As many as the nearest node has, the rest from the next.
        let mut cores: Vec<&Core> =
            nodes.iter().flat_map(|node| within(*node).into_iter().rev()).take(count).collect();
        cores.sort_by_key(|core| core.first());
        let spread: BTreeSet<u32> = cores.iter().map(|core| core.node).collect();
        let warning = format!(
            "the cores are on {} memory nodes: memory of the other node is slower to reach",
            spread.len()
        );
        return (cores, format!("the highest-numbered of the fastest cores{place}"), vec![warning]);
    };
    for (what, shared) in [
        ("a last-level cache", (|core: &Core| core.cache.clone()) as fn(&Core) -> CpuSet),
        ("a cluster", |core: &Core| core.cluster.clone()),
    ] {
        if let Some(cores) = whole(facts, &candidates, count, shared) {
            return (cores, format!("the whole of {what}{place}: nothing else shares it"), Vec::new());
        }
    }
    // One cache that is not the boot CPU's, where it has as many; then simply the highest.
    let mut by_cache: BTreeMap<CpuSet, Vec<&Core>> = BTreeMap::new();
    for core in &candidates {
        by_cache.entry(core.cache.clone()).or_default().push(core);
    }
    let mut caches: Vec<(&CpuSet, &Vec<&Core>)> =
        by_cache.iter().filter(|(_, cores)| cores.len() >= count).collect();
    caches.sort_by_key(|(cache, cores)| {
        (!cache.contains(facts.boot_cpu), cores.iter().map(|core| core.first()).max())
    });
    let from = caches.last().map_or(&candidates, |(_, cores)| cores);
    (
        from[from.len() - count..].to_vec(),
        format!("the highest-numbered of the fastest cores{place}"),
        Vec::new(),
    )
}

/// `count` cores that are exactly one or more whole groups of what `shared` says, the boot CPU's not among
/// them.
fn whole<'f>(
    facts: &PlanFacts,
    candidates: &[&'f Core],
    count: usize,
    shared: fn(&Core) -> CpuSet,
) -> Option<Vec<&'f Core>> {
    let mut groups: Vec<(CpuSet, Vec<&Core>)> = Vec::new();
    for core in candidates {
        let cpus = shared(core);
        match groups.iter_mut().find(|(known, _)| *known == cpus) {
            Some((_, cores)) => cores.push(core),
            None => groups.push((cpus, vec![core])),
        }
    }
    let all_there = |cpus: &CpuSet, cores: &[&Core]| {
        let taken: CpuSet = cores.iter().flat_map(|core| core.cpus.iter()).collect();
        cores.len() > 1 && taken == cpus.and(&facts.online()) && !cpus.contains(facts.boot_cpu)
    };
    groups.retain(|(cpus, cores)| all_there(cpus, cores));
    groups.sort_by_key(|(_, cores)| cores.iter().map(|core| core.first()).max());
    let mut taken: Vec<&Core> = Vec::new();
    for (_, cores) in groups.into_iter().rev() {
        if taken.len() + cores.len() <= count {
            taken.extend(cores);
        }
    }
    taken.sort_by_key(|core| core.first());
    (taken.len() == count).then_some(taken)
}

fn of_cores(facts: &PlanFacts, cores: &[&Core]) -> CpuChoice {
    let isolated: CpuSet = cores.iter().flat_map(|core| core.cpus.iter()).collect();
    let housekeeping = facts.online().without(&isolated);
    let real_time = cores.iter().map(|core| core.first()).collect();
    CpuChoice { isolated, real_time, housekeeping, ..CpuChoice::default() }
}

/// The CPUs that the user named, where a machine can live with that.
fn as_asked(facts: &PlanFacts, intent: &Intent, cpus: &CpuSet) -> Result<CpuChoice, PlanRefusal> {
    let online = facts.online();
    if cpus.is_empty() {
        return refuse(
            "no CPU is named",
            format!("name some of {online}, or say how many cores (--cores 1)"),
        );
    }
    let present: CpuSet = facts.machine.cpus.iter().map(|cpu| cpu.id).collect();
    let absent = cpus.without(&present);
    if !absent.is_empty() {
        return refuse(
            format!("cpus {absent} do not exist, and a kernel drops the whole list then"),
            format!("choose from {online}"),
        );
    }
    let offline = cpus.without(&online);
    if !offline.is_empty() {
        return refuse(
            format!("cpus {offline} are offline, in this power mode or by hand"),
            format!(
                "bring them online first (echo 1 > /sys/devices/system/cpu/cpu{}/online, on a Jetson nvpmodel -m 0), or choose from {online}",
                offline.iter().next().unwrap_or_default()
            ),
        );
    }
    let asked = cpus;
    let whole = facts.whole_cores(asked);
    // Without hardware threads a core is one CPU, by whichever of its threads it was named.
    let cpus = if intent.nosmt { &whole } else { asked };
    let rest = online.without(cpus);
    if rest.is_empty() {
        return refuse(
            "that isolates every CPU, and nothing is left for the system itself",
            format!("leave at least cpu {} out", facts.boot_cpu),
        );
    }
    let boot_core = facts.whole_cores(&CpuSet::from_iter([facts.boot_cpu]));
    if cpus.contains(facts.boot_cpu) {
        return refuse(
            format!("cpu {} is the boot CPU, which interrupts and timekeeping fall back to", facts.boot_cpu),
            format!("choose from {}", online.without(&boot_core)),
        );
    }
    let split = whole.without(cpus);
    let mut warnings = Vec::new();
    if !split.is_empty() {
        if !intent.split_siblings {
            let shares_boot = !split.and(&boot_core).is_empty();
            let cure = if shares_boot {
                format!("choose from {}", online.without(&boot_core))
            } else {
                format!(
                    "add them (--cpus {whole}), switch hardware threads off (--nosmt), or insist with --split-siblings"
                )
            };
            return refuse(
                format!("cpus {split} share cores with the CPUs named, and work on them slows those"),
                cure,
            );
        }
        warnings.push(format!("cpus {split} share cores with isolated ones: what runs there disturbs them"));
    }
    if facts.cores.len() < 2 {
        return refuse(
            "the machine has one physical core, which everything else needs",
            "use a machine with at least two cores",
        );
    }
    let mut kinds: Vec<u64> =
        facts.cores.iter().filter(|core| !core.cpus.and(cpus).is_empty()).map(|core| core.speed).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() > 1 {
        warnings.push("the CPUs named are of several types: the same loop takes longer on some".to_string());
    }
    for node in facts.nodes() {
        let of_node: CpuSet =
            facts.cores.iter().filter(|core| core.node == node).flat_map(|core| core.cpus.iter()).collect();
        if of_node.without(cpus).is_empty() {
            warnings.push(format!(
                "memory node {node} keeps no CPU for the system: kernel memory work for it runs on CPUs of other nodes"
            ));
        }
    }
    let firsts = facts.cores.iter().filter_map(|core| core.cpus.and(cpus).iter().next()).collect();
    Ok(CpuChoice {
        housekeeping: rest,
        isolated: cpus.clone(),
        real_time: firsts,
        why: "as asked for".to_string(),
        warnings,
    })
}

fn warnings(facts: &PlanFacts, choice: &CpuChoice) -> Vec<String> {
    let mut warnings = Vec::new();
    if facts.cores.len() == 2 {
        warnings.push(
            "with two cores, one carries the whole system: loads there interfere through caches and memory"
                .into(),
        );
    }
    if facts.siblings_unknown {
        warnings.push("which CPUs share a core is not known: an isolated one may share its core".into());
    }
    let taken = facts.cores.iter().filter(|core| !core.cpus.and(&choice.isolated).is_empty());
    let far = facts.without_memory(taken);
    if !far.is_empty() {
        warnings.push(format!(
            "cpus {far} are on a node without memory: all that they use is on another node, and slower to reach"
        ));
    }
    let offline: CpuSet = facts.machine.cpus.iter().filter(|cpu| !cpu.online).map(|cpu| cpu.id).collect();
    if !offline.is_empty() && !choice.isolated.is_empty() && !facts.smt_off {
        warnings.push(format!(
            "cpus {offline} are offline: one that comes online may share a core with an isolated one, so plan again then"
        ));
    }
    let shared: CpuSet = facts
        .cores
        .iter()
        .filter(|core| !core.cpus.and(&choice.isolated).is_empty())
        .flat_map(|core| core.cache.without(&choice.isolated).iter().collect::<Vec<_>>())
        .collect();
    let shared = shared.and(&choice.housekeeping);
    if !shared.is_empty() {
        warnings.push(format!(
            "the last cache is shared with cpus {shared}: their memory traffic interferes; split it with resctrl where the processor can"
        ));
    }
    warnings
}
