// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices: network interfaces, interrupts, and the power management of CPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// A network interface that is a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Interface")]
pub struct NetworkInterface {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: Option<String>,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// `up`, `down`, `unknown`.
    pub state: Option<String>,
    /// Whether it is wireless.
    pub wireless: bool,
    /// CPUs that its received packets are handed to, all queues together.
    pub rps: CpuSet,
    /// Whether that could not be read of a queue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rps_unread: bool,
    /// How it collects interrupts; absent: it could not be asked.
    pub coalescing: Option<Coalescing>,
}

/// How an interface collects interrupts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Coalescing {
    /// Whether it adapts itself to the traffic.
    pub adaptive_receive: Option<bool>,
    /// How long a received packet may wait for its interrupt, in µs.
    pub receive_us: Option<u32>,
}

/// One interrupt line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Irq {
    /// Its number.
    pub number: u32,
    /// Its handlers (`nvme0q1`, `eth0-rx-0`, …); empty: none, where that could be read.
    pub actions: Vec<String>,
    /// Whether no file shows if it has a handler.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// The controller's name (`PCI-MSI`, `GICv3`, …).
    pub chip: Option<String>,
    /// CPUs that were asked for (`smp_affinity_list`).
    pub affinity: Option<CpuSet>,
    /// CPUs to which it is delivered (`effective_affinity_list`); absent where it could not be read.
    pub effective: Option<CpuSet>,
    /// Whether its affinity file may be written at all.
    pub settable: Option<bool>,
    /// Whether the kernel itself spreads it over CPUs, so that it cannot be moved; known by debugfs alone.
    pub managed: Option<bool>,
}

/// One frequency policy: CPUs that change their frequency together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Frequency {
    /// Its folder's name (`policy0`).
    pub name: String,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its driver.
    pub driver: Option<String>,
    /// Its governor.
    pub governor: Option<String>,
    /// Governors that there are.
    pub governors: Vec<String>,
    /// Lowest frequency that may be chosen, in kHz.
    pub min_khz: Option<u64>,
    /// Highest frequency that may be chosen, in kHz.
    pub max_khz: Option<u64>,
    /// Lowest frequency of the hardware, in kHz.
    pub hardware_min_khz: Option<u64>,
    /// Highest frequency of the hardware, in kHz.
    pub hardware_max_khz: Option<u64>,
    /// The energy preference of the processor (`performance`, `balance_power`, …).
    pub preference: Option<String>,
}

/// Further settings of a CPU's power management.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuPower {
    /// The CPU.
    pub cpu: u32,
    /// How often its core was throttled for heat since boot.
    pub core_throttled: Option<u64>,
    /// How often its package was throttled for heat since boot.
    pub package_throttled: Option<u64>,
}

/// The limit on wakeup latency that programs ask for through `/dev/cpu_dma_latency`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "DmaLatency")]
pub struct DmaLatencyLimit {
    /// The limit in force, in µs; 2,000,000,000 is none.
    pub limit_us: Option<i32>,
    /// Why it could not be read.
    pub unread: Option<String>,
    /// Programs that have the file open.
    pub holders: Vec<String>,
}
