// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts that an audit and a plan need beyond the bundle's [`Snapshot`](crate::Snapshot): settings as they
//! stand, threads, interrupts, services, devices, limits, the kernel's log.
//!
//! A file that was looked at is in [`Inventory::files`], with its text, as absent, or with the reason why it
//! could not be read: an audit that calls "may not be read" a fault is worse than none. What a captured tree
//! lacks is in none of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuSet;
use crate::boot::Boot;

mod hardware;
mod irqbalance;
mod sample;
mod services;
mod system;
mod threads;

pub use hardware::{Coalescing, CpuPower, DmaLatencyLimit, Frequency, Irq, NetworkInterface};
pub use irqbalance::{BANNED, BANNED_MASK, BannedBy, Irqbalance, Spares};
pub use sample::{CpuSample, MachineSample, ThreadSample};
pub use services::{ControlGroup, Services};
pub use system::{
    Distribution, Installed, KernelLog, ProgramCopy, RootDevice, SessionLimit, UserSession, line_matches,
};
pub use threads::{Thread, ThreadPolicy};

/// Further facts for an audit and a plan, beyond the rest of the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Inventory {
    /// Whether the machine itself was read, or a complete tree of it: files that are absent there do not
    /// exist.
    pub whole: bool,
    /// Whether root read it.
    pub as_root: bool,
    /// Configuration files, by path, with their content.
    pub files: BTreeMap<String, Reading>,
    /// The boot loader of the machine.
    pub boot: Boot,
    /// Lines of the kernel's log that matter here.
    pub log: KernelLog,
    /// Threads; ordinary ones of a process that are alike are one entry.
    pub threads: Vec<Thread>,
    /// The reason why these are not all; absent if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_unread: Option<String>,
    /// Interrupts.
    pub irqs: Vec<Irq>,
    /// Devices whose interrupts a plan gave to the CPUs of its loop; no part of documents.
    #[serde(skip)]
    pub served: BTreeMap<String, CpuSet>,
    /// Which CPUs each unbound workqueue that shows itself in sysfs may use.
    pub workqueues: BTreeMap<String, CpuSet>,
    /// Frequency policies.
    pub frequencies: Vec<Frequency>,
    /// More about a CPU's power management.
    pub cpu_power: Vec<CpuPower>,
    /// The limit on wakeup latency that programs ask for.
    pub dma_latency: DmaLatencyLimit,
    /// Services, and control groups with CPUs of their own.
    pub services: Services,
    /// The permissions of this session.
    pub session: UserSession,
    /// Loaded modules.
    pub modules: Vec<String>,
    /// Network interfaces that are devices.
    pub interfaces: Vec<NetworkInterface>,
    /// Drivers of graphics devices.
    pub graphics: Vec<String>,
    /// The distribution.
    pub distribution: Distribution,
    /// Kernels that are installed.
    pub kernels: Vec<Installed>,
    /// The device of the root file system.
    pub root_device: RootDevice,
    /// The processor's vendor (`GenuineIntel`, …).
    pub cpu_vendor: Option<String>,
    /// The processor's flags that matter here.
    pub cpu_flags: Vec<String>,
    /// The activity over some seconds; absent if not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<MachineSample>,
    /// Resolution of CLOCK_MONOTONIC in ns; 1 with high-resolution timers.
    pub clock_resolution_ns: Option<u64>,
}

impl Inventory {
    /// The text of a file, where there is one.
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.files.get(path)? {
            Reading::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether a module is loaded.
    pub fn has_module(&self, name: &str) -> bool {
        self.modules.iter().any(|module| module == name)
    }
}

/// The content of a file, or the reason why it has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reading {
    /// Its text, without surrounding space; empty for a folder.
    Text(String),
    /// It could not be read.
    Unreadable {
        /// Why.
        unreadable: String,
    },
    /// The machine has no such file.
    Absent,
}
