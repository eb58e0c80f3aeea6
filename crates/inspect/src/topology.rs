// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs there are, which are online, how they share cores, packages and memory nodes, and which are
//! isolated.
//!
//! Old kernels lack the lists and print masks only; some machines have gaps in the numbering, CPUs without
//! topology, or a NUMA table that puts one CPU into several nodes. What contradicts itself stays unknown.

use std::collections::BTreeMap;

use crate::tree::Tree;
use machine::snapshot::Cpu;
use machine::{CpuSet, Snapshot};

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

pub(crate) fn read(tree: &mut Tree, machine: &mut Snapshot) {
    let folders: CpuSet = tree.numbered(CPUS, "cpu").into_iter().collect();
    let present = tree.cpus(&format!("{CPUS}/present")).unwrap_or(folders);
    let online = tree.cpus(&format!("{CPUS}/online"));
    let mut nodes = nodes(tree);
    machine.cpus = present
        .iter()
        .map(|id| {
            let mut cpu = cpu(tree, id);
            cpu.online = match &online {
                Some(online) => online.contains(id),
                None => tree.text(&format!("{CPUS}/cpu{id}/online")).as_deref() != Some("0"),
            };
            cpu.node = nodes.remove(&id);
            cpu
        })
        .collect();
    machine.nodes_without_memory = nodes_without_memory(tree);
    machine.possible = tree.cpus(&format!("{CPUS}/possible")).unwrap_or(present);
    let isolation = &mut machine.isolation;
    isolation.isolated = tree.cpus(&format!("{CPUS}/isolated")).unwrap_or_default();
    isolation.nohz_full = tree.cpus(&format!("{CPUS}/nohz_full")).unwrap_or_default();
    isolation.partitions = tree.cpus("sys/fs/cgroup/cpuset.cpus.isolated").unwrap_or_default();
    isolation.irq_default = tree.mask("proc/irq/default_smp_affinity").unwrap_or_default();
}

fn cpu(tree: &mut Tree, id: u32) -> Cpu {
    let topology = format!("{CPUS}/cpu{id}/topology");
    // -1 is the kernel's word for unknown.
    let mut known = |name: &str| {
        let value: i64 = tree.number(&format!("{topology}/{name}"))?;
        u32::try_from(value).ok()
    };
    let (core, package) = (known("core_id"), known("physical_package_id"));
    Cpu { id, core, package, siblings: siblings(tree, &topology, id), ..Cpu::default() }
}

/// The hardware threads of one core; `core_cpus` is the newer name of `thread_siblings` (Linux 5.3).
fn siblings(tree: &mut Tree, topology: &str, id: u32) -> CpuSet {
    let mut found = None;
    for name in ["core_cpus", "thread_siblings"] {
        let list = format!("{topology}/{name}_list");
        let mask = format!("{topology}/{name}");
        found = found.or_else(|| tree.cpus(&list)).or_else(|| tree.mask(&mask));
    }
    let siblings = found.unwrap_or_default();
    if !siblings.is_empty() && !siblings.contains(id) {
        tree.note(topology, format_args!("the siblings {siblings} of cpu {id} leave it out"));
        return CpuSet::new();
    }
    siblings
}

/// The memory node of each CPU that is in exactly one.
fn nodes(tree: &mut Tree) -> BTreeMap<u32, u32> {
    let mut node_of = BTreeMap::new();
    let mut in_several = CpuSet::new();
    for node in tree.numbered(NODES, "node") {
        let (list, mask) = (format!("{NODES}/node{node}/cpulist"), format!("{NODES}/node{node}/cpumap"));
        let cpus = tree.cpus(&list).or_else(|| tree.mask(&mask)).unwrap_or_default();
        for cpu in cpus.iter() {
            if node_of.insert(cpu, node).is_some() {
                in_several.insert(cpu);
            }
        }
    }
    if !in_several.is_empty() {
        tree.note(NODES, format_args!("cpus {in_several} are in several nodes"));
        node_of.retain(|cpu, _| !in_several.contains(*cpu));
    }
    node_of
}

/// The nodes that `has_memory` (Linux 2.6.24) leaves out.
fn nodes_without_memory(tree: &mut Tree) -> CpuSet {
    let nodes: CpuSet = tree.numbered(NODES, "node").into_iter().collect();
    // A list of nodes is written as one of CPUs.
    let with_memory = tree.cpus(&format!("{NODES}/has_memory"));
    with_memory.map_or_else(CpuSet::new, |with_memory| nodes.without(&with_memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    fn machine(files: &[(&str, &str)]) -> (Snapshot, Vec<String>) {
        let (_folder, mut tree) = made_of(files);
        let mut machine = Snapshot::default();
        read(&mut tree, &mut machine);
        (machine, tree.unread())
    }

    #[test]
    fn a_machine_without_topology_has_cpus_of_which_nothing_is_known() {
        let (machine, unread) = machine(&[("sys/devices/system/cpu/present", "0-1\n")]);
        let unknown = |id| Cpu { id, online: true, ..Cpu::default() };
        assert_eq!(machine.cpus, [unknown(0), unknown(1)]);
        assert_eq!(machine.possible.to_string(), "0-1");
        assert_eq!(unread, Vec::<String>::new());
    }

    #[test]
    fn an_empty_tree_has_no_cpus() {
        let (machine, unread) = machine(&[]);
        assert_eq!((machine, unread), (Snapshot::default(), Vec::new()));
    }

    #[test]
    fn cpus_may_be_numbered_with_gaps() {
        let (machine, _) = machine(&[
            ("sys/devices/system/cpu/cpu0/topology/core_id", "0"),
            ("sys/devices/system/cpu/cpu4/topology/core_id", "1"),
            ("sys/devices/system/cpu/cpu12/topology/core_id", "-1"),
            ("sys/devices/system/cpu/cpu12/online", "0"),
            ("sys/devices/system/cpu/cpufreq/boost", "1"),
            ("sys/devices/system/cpu/cpu99999999999/topology/core_id", "1"),
        ]);
        let seen: Vec<_> = machine.cpus.iter().map(|cpu| (cpu.id, cpu.online, cpu.core)).collect();
        assert_eq!(seen, [(0, true, Some(0)), (4, true, Some(1)), (12, false, None)]);
        assert_eq!(machine.cpu(4).unwrap().core, Some(1));
        assert!(machine.cpu(5).is_none());
    }

    #[test]
    fn nodes_may_have_no_memory() {
        let nodes = ["node0", "node1", "node2"].map(|node| format!("sys/devices/system/node/{node}/cpulist"));
        let files = nodes.each_ref().map(|path| (path.as_str(), "0"));
        let without = |lists: &[(&str, &str)]| machine(&[&files, lists].concat()).0.nodes_without_memory;
        assert_eq!(without(&[("sys/devices/system/node/has_memory", "1\n")]).to_string(), "0,2");
        assert!(without(&[("sys/devices/system/node/has_memory", "0-2\n")]).is_empty());
        assert!(without(&[]).is_empty(), "an old kernel has no such file");
    }

    #[test]
    fn contradictions_stay_unknown_and_are_named() {
        let (machine, unread) = machine(&[
            ("sys/devices/system/cpu/present", "0-2"),
            ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "0,2"),
            ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2-1"),
            ("sys/devices/system/node/node0/cpulist", "0-1"),
            ("sys/devices/system/node/node1/cpulist", "1-2"),
        ]);
        assert!(machine.cpus.iter().all(|cpu| cpu.siblings.is_empty()));
        assert_eq!(machine.cpus.iter().map(|cpu| cpu.node).collect::<Vec<_>>(), [Some(0), None, Some(1)]);
        assert_eq!(
            unread,
            [
                "/sys/devices/system/node: cpus 1 are in several nodes",
                "/sys/devices/system/cpu/cpu1/topology: the siblings 0,2 of cpu 1 leave it out",
                "/sys/devices/system/cpu/cpu2/topology/core_cpus_list: '2-1' names no CPUs"
            ]
        );
    }

    #[test]
    fn reads_what_is_set_apart() {
        let (machine, _) = machine(&[
            ("sys/devices/system/cpu/isolated", "2-3\n"),
            ("sys/devices/system/cpu/nohz_full", "  (null)\n"),
            ("sys/fs/cgroup/cpuset.cpus.isolated", "5\n"),
            ("proc/irq/default_smp_affinity", "0,00000003\n"),
        ]);
        assert_eq!(machine.isolation.set_apart().to_string(), "2-3,5");
        assert!(machine.isolation.nohz_full.is_empty());
        assert_eq!(machine.isolation.irq_default.to_string(), "0-1");
    }
}
