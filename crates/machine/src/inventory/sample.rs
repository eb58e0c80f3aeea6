// SPDX-License-Identifier: MIT OR Apache-2.0
//! The activity of each CPU over some seconds: counters, read twice. No privilege is needed but for SMIs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The activity over some seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Sample")]
pub struct MachineSample {
    /// How long it took, in ms.
    pub duration_ms: u64,
    /// The activity of each CPU.
    pub cpus: Vec<CpuSample>,
    /// The activity of each real-time thread of a program.
    pub threads: Vec<ThreadSample>,
    /// System management interrupts.
    pub smi: Option<u64>,
    /// The reason why they could not be counted.
    pub smi_unread: Option<String>,
    /// Other files that could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// The activity of one CPU: its interrupts and tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuSample {
    /// The CPU.
    pub cpu: u32,
    /// Interrupts of devices (`24 eth0-rx-0`).
    pub devices: BTreeMap<String, u64>,
    /// Interrupts that other CPUs sent (`reschedule`, `TLB`).
    pub calls: BTreeMap<String, u64>,
    /// Interrupts of the local timer.
    pub timer: u64,
    /// Non-maskable interrupts, and those of machine checks.
    pub nmis: BTreeMap<String, u64>,
    /// Rounds of softirqs.
    pub softirqs: BTreeMap<String, u64>,
    /// How often a task was put on it.
    pub switches: u64,
    /// Time that the hypervisor took, in ticks of /proc/stat.
    pub steal_ticks: u64,
    /// How often it was throttled for heat.
    pub throttled: u64,
}

/// The activity of a real-time thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadSample {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Time that it ran, in ticks of /proc/stat.
    pub ran_ticks: u64,
    /// Page faults without a disk.
    pub minor_faults: u64,
    /// Page faults with one.
    pub major_faults: u64,
}

impl MachineSample {
    /// A count as a rate.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1_000.0 / self.duration_ms.max(1) as f64
    }
}

impl CpuSample {
    /// In a line, what came most often first.
    pub fn describe(&self) -> Vec<String> {
        let all = [&self.devices, &self.calls, &self.nmis, &self.softirqs];
        let mut named: Vec<(u64, String)> =
            all.iter().flat_map(|counts| counts.iter()).map(|(name, count)| (*count, name.clone())).collect();
        named.push((self.timer, "timer".to_string()));
        named.push((self.switches, "switches".to_string()));
        named.retain(|(count, _)| *count > 0);
        named.sort_by(|a, b| b.cmp(a));
        named.into_iter().map(|(count, name)| format!("{count} {name}")).collect()
    }
}

impl ThreadSample {
    /// How much of the time it ran; a tick of /proc/stat is 10 ms (USER_HZ).
    pub fn busy_percent(&self, duration_ms: u64) -> f64 {
        self.ran_ticks as f64 * 1_000.0 / duration_ms.max(1) as f64
    }
}
