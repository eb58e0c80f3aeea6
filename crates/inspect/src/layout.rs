// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that CPUs share beyond a core, and their speed: caches, clusters, frequency policies, core
//! types.
//!
//! Sources are sysfs alone: `cache/index*` (the highest level that holds data), `topology/cluster_cpus`
//! (since Linux 5.16), `cpufreq/related_cpus`, `cpu_capacity` (arm64 and others), the event sources
//! `cpu_core`, `cpu_atom` and `cpu_lowpower` of Intel's hybrid processors. What a machine lacks stays empty.

use std::collections::BTreeSet;

use crate::tree::Tree;
use machine::snapshot::{CoreKind, Cpu};
use machine::{CpuSet, Snapshot};

const CPUS: &str = "sys/devices/system/cpu";

pub(crate) fn read(tree: &mut Tree, machine: &mut Snapshot) {
    let kinds = [
        (CoreKind::Performance, "cpu_core"),
        (CoreKind::Efficient, "cpu_atom"),
        (CoreKind::LowPower, "cpu_lowpower"),
    ]
    .map(|(kind, name)| (kind, tree.cpus(&format!("sys/devices/{name}/cpus")).unwrap_or_default()));
    machine.tsc_watched = tsc_watched(tree, machine);
    for cpu in &mut machine.cpus {
        let folder = format!("{CPUS}/cpu{}", cpu.id);
        // The later names are the rarer ones: a low-power core may stand in two lists.
        cpu.kind = kinds.iter().rev().find(|(_, cpus)| cpus.contains(cpu.id)).map(|(kind, _)| *kind);
        cpu.capacity = tree.number(&format!("{folder}/cpu_capacity"));
        cpu.max_frequency_khz = tree.number(&format!("{folder}/cpufreq/cpuinfo_max_freq"));
        cpu.frequency_cpus = set(tree, &format!("{folder}/cpufreq/related_cpus"), cpu.id);
        cpu.cluster = listed(tree, &format!("{folder}/topology/cluster_cpus"), cpu.id);
        last_cache(tree, &format!("{folder}/cache"), cpu);
    }
}

/// Whether the clock source watchdog watches the TSC (arch/x86/kernel/tsc.c,
/// `check_system_tsc_reliable`; `tsc_reliable` is what hypervisors promise).
fn tsc_watched(tree: &mut Tree, machine: &Snapshot) -> Option<bool> {
    let cpuinfo = tree.text("proc/cpuinfo")?;
    let flags: Vec<&str> = crate::identity::field(&cpuinfo, "flags")?.split(' ').collect();
    let has = |flag| flags.contains(&flag);
    let packages: BTreeSet<u32> = machine.cpus.iter().filter_map(|cpu| cpu.package).collect();
    let good = has("constant_tsc") && has("nonstop_tsc") && !has("tsc_reliable");
    Some(good && (!has("tsc_adjust") || packages.len() > 4))
}

/// The cache of the highest level that holds data, and whose it is.
fn last_cache(tree: &mut Tree, folder: &str, cpu: &mut Cpu) {
    for index in tree.numbered(folder, "index") {
        let index = format!("{folder}/index{index}");
        if tree.word(&format!("{index}/type")).as_deref() == Some("Instruction") {
            continue;
        }
        let Some(level) = tree.number::<u32>(&format!("{index}/level")) else { continue };
        if cpu.last_cache_level.is_none_or(|known| level > known) {
            let list = tree.cpus(&format!("{index}/shared_cpu_list"));
            let cpus = list.or_else(|| tree.mask(&format!("{index}/shared_cpu_map")));
            let Some(cpus) = cpus.filter(|cpus| cpus.contains(cpu.id)) else { continue };
            (cpu.last_cache_level, cpu.last_cache_cpus) = (Some(level), cpus);
        }
    }
}

/// The CPUs that `path`_list, or the mask in `path`, names, where `own` is among them.
fn listed(tree: &mut Tree, path: &str, own: u32) -> CpuSet {
    let list = tree.cpus(&format!("{path}_list")).or_else(|| tree.mask(path));
    list.filter(|cpus| cpus.contains(own)).unwrap_or_default()
}

/// The CPUs in `path`, which prints them with spaces between, where `own` is among them.
fn set(tree: &mut Tree, path: &str, own: u32) -> CpuSet {
    let text = tree.text(path).unwrap_or_default();
    let cpus: CpuSet = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if cpus.contains(own) { cpus } else { CpuSet::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    fn machine(files: &[(&str, &str)]) -> Snapshot {
        let (_folder, mut tree) = made_of(files);
        let cpus = (0..4).map(|id| Cpu { id, online: true, ..Cpu::default() }).collect();
        let mut machine = Snapshot { cpus, ..Snapshot::default() };
        read(&mut tree, &mut machine);
        machine
    }

    #[test]
    fn the_last_cache_is_the_highest_level_that_holds_data() {
        let cache = |index: u32, name: &str| format!("{CPUS}/cpu1/cache/index{index}/{name}");
        let mut files = Vec::new();
        for (index, level, kind, list) in
            [(0, "1", "Data", "1"), (1, "4", "Instruction", "0-3"), (2, "2", "Unified", "0-1")]
        {
            files.push((cache(index, "level"), level));
            files.push((cache(index, "type"), kind));
            files.push((cache(index, "shared_cpu_list"), list));
        }
        files.push((cache(3, "level"), "3"));
        files.push((cache(3, "shared_cpu_map"), "f"));
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let cpu = &machine(&files).cpus[1];
        assert_eq!((cpu.last_cache_level, cpu.last_cache_cpus.to_string().as_str()), (Some(3), "0-3"));
    }

    #[test]
    fn what_leaves_its_own_cpu_out_is_not_believed() {
        let machine = machine(&[
            ("sys/devices/system/cpu/cpu2/cache/index0/level", "2"),
            ("sys/devices/system/cpu/cpu2/cache/index0/shared_cpu_list", "0-1"),
            ("sys/devices/system/cpu/cpu2/topology/cluster_cpus_list", "0-1"),
            ("sys/devices/system/cpu/cpu2/cpufreq/related_cpus", "0 1"),
        ]);
        assert_eq!(machine.cpus[2], Cpu { id: 2, online: true, ..Cpu::default() });
    }

    #[test]
    fn the_tsc_is_watched_where_it_is_good_but_cannot_be_checked_by_itself() {
        for (flags, watched) in [
            ("flags\t: constant_tsc nonstop_tsc", Some(true)),
            ("flags\t: constant_tsc nonstop_tsc tsc_adjust", Some(false)),
            ("flags\t: tsc", Some(false)),
            ("CPU architecture: 8", None),
        ] {
            assert_eq!(machine(&[("proc/cpuinfo", flags)]).tsc_watched, watched, "{flags}");
        }
    }

    #[test]
    fn knows_core_types_capacities_and_policies() {
        let machine = machine(&[
            ("sys/devices/cpu_core/cpus", "0-1"),
            ("sys/devices/cpu_atom/cpus", "2-3"),
            ("sys/devices/cpu_lowpower/cpus", "3"),
            ("sys/devices/system/cpu/cpu0/cpu_capacity", "1024"),
            ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "2201600"),
            ("sys/devices/system/cpu/cpu0/cpufreq/related_cpus", "0 1 "),
        ]);
        let kinds: Vec<_> = machine.cpus.iter().filter_map(|cpu| cpu.kind).collect();
        use CoreKind::*;
        assert_eq!(kinds, [Performance, Performance, Efficient, LowPower]);
        let first = &machine.cpus[0];
        assert_eq!((first.capacity, first.max_frequency_khz), (Some(1024), Some(2_201_600)));
        assert_eq!(first.frequency_cpus.to_string(), "0-1");
    }
}
