// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts and unbound workqueues: their owners, and the CPUs that they may use.

use std::collections::BTreeMap;

use crate::counters::devices_of;
use crate::tree::Tree;
use machine::CpuSet;
use machine::inventory::Irq;

/// Most interrupts that are looked at.
const MOST: usize = 8_192;

pub(crate) fn read(tree: &mut Tree) -> Vec<Irq> {
    let debug = tree.exists("sys/kernel/debug/irq/irqs");
    let numbers = tree.numbered("proc/irq", "");
    let lines = tree.hint("proc/interrupts").map(|text| devices_of(&text));
    numbers.into_iter().take(MOST).map(|number| irq(tree, number, debug, lines.as_ref())).collect()
}

type IrqLines = BTreeMap<u32, Vec<String>>;

/// The handlers of an interrupt; `None` where no file says it. `/sys/kernel/irq` is new in Linux 4.9.
fn actions(tree: &mut Tree, number: u32, lines: Option<&IrqLines>) -> Option<Vec<String>> {
    if let Some(text) = tree.hint(&format!("sys/kernel/irq/{number}/actions")) {
        return Some(text.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect());
    }
    // Each handler has a folder there.
    let proc = format!("proc/irq/{number}");
    let folders: Vec<String> =
        tree.names(&proc).into_iter().filter(|name| tree.is_folder(&format!("{proc}/{name}"))).collect();
    if !folders.is_empty() {
        return Some(folders);
    }
    lines.map(|lines| lines.get(&number).cloned().unwrap_or_default())
}

fn irq(tree: &mut Tree, number: u32, debug: bool, lines: Option<&IrqLines>) -> Irq {
    let (proc, sys) = (format!("proc/irq/{number}"), format!("sys/kernel/irq/{number}"));
    let actions = actions(tree, number, lines);
    Irq {
        number,
        unseen: actions.is_none(),
        actions: actions.unwrap_or_default(),
        chip: tree.hint(&format!("{sys}/chip_name")).filter(|name| !name.is_empty()),
        affinity: tree.cpus(&format!("{proc}/smp_affinity_list")),
        effective: tree.cpus(&format!("{proc}/effective_affinity_list")),
        settable: tree.writable(&format!("{proc}/smp_affinity_list")),
        managed: if debug {
            tree.hint(&format!("sys/kernel/debug/irq/irqs/{number}"))
                .filter(|text| text.contains("dstate:") || text.contains("IRQD_"))
                .map(|text| text.contains("IRQD_AFFINITY_MANAGED"))
        } else {
            None
        },
    }
}

/// Unbound workqueues that show themselves in sysfs, and the mask for all.
pub(super) fn workqueues(tree: &mut Tree) -> BTreeMap<String, CpuSet> {
    let folder = "sys/devices/virtual/workqueue";
    let names = tree.names(folder);
    names
        .into_iter()
        .filter_map(|name| Some((name.clone(), tree.mask(&format!("{folder}/{name}/cpumask"))?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn takes_handlers_from_the_counts_where_no_file_names_them() {
        let mask = ("proc/irq/78/smp_affinity_list", "2\n");
        let counts = "      CPU0 CPU1\n 78: 0 3  PCI-MSI 0-edge      mpi3mr0-msix0, other\nLOC: 1 1 Local\n";
        let irqs = read(&mut made_of(&[mask, ("proc/interrupts", counts)]).1);
        assert_eq!((irqs[0].actions.join("+").as_str(), irqs[0].unseen), ("mpi3mr0-msix0+other", false));
        let none = read(&mut made_of(&[mask, ("proc/interrupts", "CPU0\n")]).1);
        assert_eq!((none[0].actions.len(), none[0].unseen), (0, false));
        assert!(read(&mut made_of(&[mask]).1)[0].unseen);
    }

    #[test]
    fn names_the_handlers_of_an_interrupt() {
        let (_folder, mut tree) = made_of(&[
            ("proc/irq/default_smp_affinity", "f\n"),
            ("proc/irq/24/smp_affinity_list", "0-3\n"),
            ("proc/irq/24/effective_affinity_list", "2\n"),
            ("proc/irq/24/eth0-rx/x", ""),
            ("proc/irq/30/smp_affinity_list", "1\n"),
            ("sys/kernel/irq/30/actions", "nvme0q1,other\n"),
            ("sys/kernel/irq/30/chip_name", "PCI-MSI\n"),
            ("sys/kernel/debug/irq/irqs/30", "dstate: 0x1\n IRQD_AFFINITY_MANAGED\n"),
            ("sys/devices/virtual/workqueue/cpumask", "f"),
            ("sys/devices/virtual/workqueue/writeback/cpumask", "3"),
        ]);
        let irqs = read(&mut tree);
        assert_eq!(irqs[0].actions, ["eth0-rx"]);
        assert_eq!(irqs[0].effective.as_ref().unwrap().to_string(), "2");
        assert_eq!((irqs[0].managed, irqs[1].managed), (None, Some(true)));
        assert_eq!(
            (irqs[1].actions.len(), irqs[1].chip.as_deref(), irqs[1].settable),
            (2, Some("PCI-MSI"), Some(true))
        );
        let queues: Vec<_> =
            workqueues(&mut tree).into_iter().map(|(name, cpus)| format!("{name} {cpus}")).collect();
        assert_eq!(queues, ["writeback 0-1"]);
    }
}
