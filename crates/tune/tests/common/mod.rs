// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines made of a description: what the planner would read of them. Each test uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use machine::snapshot::{Cpu, Preemption};
use machine::{CpuSet, Snapshot};
use serde::Deserialize;

/// A machine in the vectors' file.
#[derive(Debug, Clone, Deserialize)]
pub struct Topology {
    pub name: String,
    pub arch: String,
    pub kernel: Option<(u32, u32)>,
    pub config: Option<Vec<String>>,
    #[serde(default)]
    pub tsc_watchdog_risk: bool,
    pub device_node: Option<u32>,
    pub cores: Vec<CpuSet>,
    pub nodes: Vec<CpuSet>,
    pub llc: Vec<CpuSet>,
    #[serde(default)]
    pub cluster: Vec<CpuSet>,
    #[serde(default)]
    pub capacity: BTreeMap<String, CpuSet>,
    #[serde(default)]
    pub max_khz: BTreeMap<String, CpuSet>,
    #[serde(default)]
    pub offline: CpuSet,
}

impl Topology {
    pub fn snapshot(&self) -> Snapshot {
        let mut machine = Snapshot::default();
        let holding =
            |sets: &[CpuSet], id| sets.iter().find(|set| set.contains(id)).cloned().unwrap_or_default();
        for id in self.cores.iter().flat_map(|core| core.iter().collect::<Vec<_>>()) {
            // As the reader does it: a CPU in several nodes is in none.
            let nodes: Vec<u32> =
                (0u32..).zip(&self.nodes).filter(|(_, node)| node.contains(id)).map(|(n, _)| n).collect();
            let number = |of: &BTreeMap<String, CpuSet>| {
                of.iter().find(|(_, cpus)| cpus.contains(id)).map(|(value, _)| value.parse::<u64>().unwrap())
            };
            machine.cpus.push(Cpu {
                id,
                online: true,
                node: if nodes.len() == 1 { Some(nodes[0]) } else { None },
                siblings: holding(&self.cores, id),
                last_cache_level: (!self.llc.is_empty()).then_some(3),
                last_cache_cpus: holding(&self.llc, id),
                cluster: holding(&self.cluster, id),
                capacity: number(&self.capacity).map(|capacity| capacity as u32),
                max_frequency_khz: number(&self.max_khz),
                ..Cpu::default()
            });
        }
        machine.cpus.extend(self.offline.iter().map(|id| Cpu { id, ..Cpu::default() }));
        machine.cpus.sort_by_key(|cpu| cpu.id);
        machine.possible = machine.online();
        machine.settings.insert("/proc/irq/default_smp_affinity".into(), "ff".into());
        let architecture = match self.arch.as_str() {
            "x86" => "x86_64",
            "arm64" => "aarch64",
            other => other,
        };
        machine.architecture = Some(architecture.to_string());
        machine.tsc_watched = (self.arch == "x86").then_some(self.tsc_watchdog_risk);
        machine.kernel.release = self.kernel.map(|(major, minor)| format!("{major}.{minor}.0"));
        machine.kernel.preemption = Preemption::RealTime;
        for option in ["NO_HZ_FULL", "RCU_NOCB_CPU", "CPU_ISOLATION"].iter().filter(|_| self.config.is_some())
        {
            let value = if self.config.iter().flatten().any(|set| set == option) { "y" } else { "n" };
            machine.kernel.options.insert(option.to_string(), value.to_string());
        }
        if let Some(node) = self.device_node {
            machine.devices.push(machine::snapshot::Device {
                name: "eth1".to_string(),
                node: Some(node),
                ..Default::default()
            });
        }
        machine
    }
}

/// The list of CPUs in `text`.
pub fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// Set for a test that runs in [`in_namespace`].
pub const INSIDE: &str = "ISOLATOR_INSIDE_NAMESPACE";

/// Why this process cannot make a mount namespace of its own.
pub fn cannot_mount() -> Option<&'static str> {
    let tried = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    (!tried.is_ok_and(|output| output.status.success())).then_some("it needs to mount, as root")
}

/// Runs the ignored test `name` of this program in a mount namespace that `script` prepares, in `folder`.
pub fn in_namespace(folder: &Path, script: &str, name: &str) {
    let script = format!("set -e; {script}; exec \"$TEST\" --ignored --exact --nocapture {name}");
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .current_dir(folder)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("TEST", std::env::current_exe().unwrap())
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}
