// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frequencies, throttling, and the limit on wakeup latency that programs ask for.

use super::live;
use crate::tree::Tree;
use machine::inventory::{CpuPower, DmaLatencyLimit, Frequency};
use machine::{CpuSet, Snapshot};

pub(super) fn frequencies(tree: &mut Tree) -> Vec<Frequency> {
    let folder = "sys/devices/system/cpu/cpufreq";
    let mut policies = Vec::new();
    for number in tree.numbered(folder, "policy") {
        let policy = format!("{folder}/policy{number}");
        let cpus = tree.text(&format!("{policy}/affected_cpus")).unwrap_or_default();
        policies.push(policy_of(
            tree,
            &policy,
            cpus.split_whitespace().filter_map(|cpu| cpu.parse().ok()).collect(),
        ));
    }
    if policies.is_empty() {
        // Some trees hold the CPUs' own folders instead of links to a policy's.
        for cpu in tree.numbered("sys/devices/system/cpu", "cpu") {
            let policy = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
            if tree.exists(&policy) {
                policies.push(policy_of(tree, &policy, CpuSet::from_iter([cpu])));
            }
        }
    }
    policies
}

fn policy_of(tree: &mut Tree, folder: &str, cpus: CpuSet) -> Frequency {
    let governors = tree.text(&format!("{folder}/scaling_available_governors")).unwrap_or_default();
    Frequency {
        name: folder.rsplit('/').next().unwrap_or_default().to_string(),
        cpus,
        driver: tree.word(&format!("{folder}/scaling_driver")),
        governor: tree.word(&format!("{folder}/scaling_governor")),
        governors: governors.split_whitespace().map(str::to_string).collect(),
        min_khz: tree.number(&format!("{folder}/scaling_min_freq")),
        max_khz: tree.number(&format!("{folder}/scaling_max_freq")),
        hardware_min_khz: tree.number(&format!("{folder}/cpuinfo_min_freq")),
        hardware_max_khz: tree.number(&format!("{folder}/cpuinfo_max_freq")),
        preference: tree.word(&format!("{folder}/energy_performance_preference")),
    }
}

pub(super) fn cpus(tree: &mut Tree, machine: &Snapshot) -> Vec<CpuPower> {
    let mut found = Vec::new();
    for cpu in machine.online().iter() {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
        if tree.exists(&folder) {
            found.push(CpuPower {
                cpu,
                core_throttled: tree.number(&format!("{folder}/core_throttle_count")),
                package_throttled: tree.number(&format!("{folder}/package_throttle_count")),
            });
        }
    }
    found
}

/// The kernel's value for no limit (`PM_QOS_LATENCY_ANY`'s default for the file).
const NO_LIMIT_US: i32 = 2_000_000_000;

pub(super) fn dma_latency(tree: &mut Tree) -> DmaLatencyLimit {
    if !tree.live() {
        return DmaLatencyLimit::default();
    }
    match live::dma_latency_us() {
        Ok(limit) => {
            let holders = if limit < NO_LIMIT_US { holders(tree) } else { Vec::new() };
            DmaLatencyLimit { limit_us: Some(limit), holders, ..DmaLatencyLimit::default() }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => DmaLatencyLimit::default(),
        Err(error) => DmaLatencyLimit { unread: Some(error::reason(&error)), ..DmaLatencyLimit::default() },
    }
}

/// Looked for only while there is a limit: it takes a look at every open file of every process.
fn holders(tree: &mut Tree) -> Vec<String> {
    let mut found = Vec::new();
    for process in tree.numbered("proc", "").into_iter().take(5_000) {
        let folder = format!("proc/{process}/fd");
        let Ok(files) = std::fs::read_dir(format!("/{folder}")) else { continue };
        let ours = |file: std::fs::DirEntry| {
            std::fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == "/dev/cpu_dma_latency")
        };
        if process != std::process::id() && files.flatten().any(ours) {
            let name = tree.hint(&format!("proc/{process}/comm")).unwrap_or_default();
            found.push(format!("{name} ({process})"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn reads_policies_or_where_there_are_none_the_cpus_own() {
        let (_folder, mut tree) = made_of(&[
            ("sys/devices/system/cpu/cpufreq/policy4/affected_cpus", "4 5 6\n"),
            ("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "schedutil\n"),
            ("sys/devices/system/cpu/cpufreq/policy4/scaling_min_freq", "115200\n"),
        ]);
        let policies = frequencies(&mut tree);
        assert_eq!((policies.len(), policies[0].cpus.to_string().as_str()), (1, "4-6"));
        assert_eq!((policies[0].name.as_str(), policies[0].min_khz), ("policy4", Some(115_200)));
        let (_folder, mut tree) =
            made_of(&[("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n")]);
        assert_eq!(frequencies(&mut tree)[0].cpus.to_string(), "3");
    }
}
