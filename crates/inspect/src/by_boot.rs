// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts that each boot decides anew and a user does not: the kernel's address, the CPU that takes each
//! interrupt, the range of each CPU's frequency. Where one of two boots is late, one of these may be why.
//!
//! Limit: addresses need root, and are those of the kernel alone, not of a program's memory.

use std::collections::BTreeMap;
use std::path::Path;

use machine::CpuSet;

use crate::inventory::irqs;
use crate::tree::Tree;

/// The facts by name, of the machine below `root`.
pub fn by_boot(root: &Path) -> BTreeMap<String, String> {
    read(&mut Tree::new(root))
}

fn read(tree: &mut Tree) -> BTreeMap<String, String> {
    let mut facts = routes(tree);
    facts.extend(kernel_address(tree).map(|address| ("address of the kernel".to_string(), address)));
    facts.extend(frequencies(tree));
    facts
}

/// Where the kernel's code lies in memory; the file has zeroes for a reader without rights.
fn kernel_address(tree: &Tree) -> Option<String> {
    let text = tree.hint("proc/iomem")?;
    let range = text.lines().find_map(|line| line.strip_suffix(" : Kernel code"))?;
    let (begin, _) = range.trim().split_once('-')?;
    begin.bytes().any(|digit| digit != b'0').then(|| format!("0x{}", begin.trim_start_matches('0')))
}

/// The CPUs that take each interrupt with a handler, by the handlers' names: a number may change.
fn routes(tree: &mut Tree) -> BTreeMap<String, String> {
    let mut cpus = BTreeMap::<String, CpuSet>::new();
    for irq in irqs::read(tree).into_iter().filter(|irq| !irq.actions.is_empty()) {
        let taken_by = irq.effective.filter(|cpus| !cpus.is_empty()).or(irq.affinity).unwrap_or_default();
        let known = cpus.entry(format!("interrupt {}", irq.actions.join("+"))).or_default();
        *known = known.iter().chain(taken_by.iter()).collect();
    }
    cpus.into_iter().map(|(name, cpus)| (name, format!("cpu {cpus}"))).collect()
}

/// The range of each policy's frequency, as firmware, heat and governor allow it.
fn frequencies(tree: &mut Tree) -> BTreeMap<String, String> {
    let folder = "sys/devices/system/cpu/cpufreq";
    let policies = tree.hint_names(folder).into_iter().filter(|name| name.starts_with("policy"));
    let range = |policy: String| {
        let number = |name| tree.hint(&format!("{folder}/{policy}/{name}"))?.parse::<u64>().ok();
        let (least, most) = (number("scaling_min_freq")?, number("scaling_max_freq")?);
        let cpus = tree.hint(&format!("{folder}/{policy}/affected_cpus"))?.replace(' ', ",");
        Some((format!("frequency of cpu {cpus}"), format!("{} to {} MHz", least / 1000, most / 1000)))
    };
    policies.filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    fn facts(files: &[(&str, &str)]) -> Vec<String> {
        let facts = read(&mut made_of(files).1);
        facts.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn reads_addresses_routes_and_frequencies() {
        let files = [
            ("proc/iomem", "00100000-7fffffff : System RAM\n  2a000000-2b1fffff : Kernel code\n"),
            ("proc/irq/24/smp_affinity_list", "0-3\n"),
            ("proc/irq/24/effective_affinity_list", "2\n"),
            ("sys/kernel/irq/24/actions", "eth0-rx\n"),
            ("proc/irq/25/smp_affinity_list", "0-3\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0 1\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "800000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "3100000\n"),
        ];
        let expected = [
            "address of the kernel: 0x2a000000",
            "frequency of cpu 0,1: 800 to 3100 MHz",
            "interrupt eth0-rx: cpu 2",
        ];
        assert_eq!(facts(&files), expected);
    }

    #[test]
    fn hidden_addresses_are_no_fact() {
        assert!(facts(&[("proc/iomem", "00000000-00000000 : Kernel code\n")]).is_empty());
        assert!(facts(&[("proc/irq/24/smp_affinity_list", "1\n")]).is_empty());
    }
}
