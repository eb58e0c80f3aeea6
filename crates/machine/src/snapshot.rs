// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one type that says what a machine is; serialised whole into every evidence bundle.
//!
//! A field that could not be read is `None` (or empty), and [`Snapshot::unread`] says which file and why:
//! unknown is said, never guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// What a machine is, as read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Snapshot {
    /// The host's name (`/proc/sys/kernel/hostname`).
    pub hostname: Option<String>,
    /// The processor architecture as `uname -m` says it.
    pub architecture: Option<String>,
    /// The processor's name (`/proc/cpuinfo`, or the device tree's model).
    pub cpu_model: Option<String>,
    /// Memory of the machine in bytes (`MemTotal`).
    pub memory_bytes: Option<u64>,
    /// The kernel.
    pub kernel: Kernel,
    /// Every CPU the machine could have, present or not, ascending.
    pub cpus: Vec<Cpu>,
    /// Which CPUs are set apart, as the kernel itself reports it.
    pub isolation: Isolation,
    /// Scheduler limits that decide whether a real-time thread may run.
    pub scheduler: Scheduler,
    /// The clock that the kernel keeps time with, `tsc` for example.
    pub clocksource: Option<String>,
    /// The hypervisor, where the machine is virtual (`kvm`, `vmware`, …).
    pub hypervisor: Option<String>,
    /// The container runtime, where the program runs in a container.
    pub container: Option<String>,
    /// Firmware: vendor, version and date in one line.
    pub firmware: Option<String>,
    /// The machine's maker and product name.
    pub product: Option<String>,
    /// Files that could not be read, and why, `path: reason`.
    pub unread: Vec<String>,
}

/// The kernel that runs, and how it was configured and booted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// Its preemption model.
    pub preemption: Preemption,
    /// The boot line (`/proc/cmdline`).
    pub command_line: Option<String>,
    /// SHA-256 of the kernel's configuration text, hexadecimal.
    pub config_sha256: Option<String>,
    /// Where that configuration was read.
    pub config_source: Option<String>,
}

/// How far the kernel lets itself be preempted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// PREEMPT_RT: interrupt threads, sleeping locks.
    RealTime,
    /// PREEMPT, also where chosen at boot.
    Full,
    /// PREEMPT_LAZY.
    Lazy,
    /// PREEMPT_VOLUNTARY.
    Voluntary,
    /// PREEMPT_NONE.
    None,
    /// PREEMPT_DYNAMIC whose present choice could not be read.
    Dynamic,
    /// It could not be found out.
    #[default]
    Unknown,
}

/// One CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// Whether it is online.
    pub online: bool,
    /// Its core within the package.
    pub core: Option<u32>,
    /// Its package (socket).
    pub package: Option<u32>,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// All hardware threads of its core, itself among them.
    pub siblings: CpuSet,
    /// The frequency governor (`performance`, `schedutil`, …).
    pub governor: Option<String>,
    /// Its idle states, shallowest first.
    pub idle_states: Vec<IdleState>,
}

/// One idle state of a CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IdleState {
    /// The driver's name for it (`C6`, `WFI`, …).
    pub name: String,
    /// How long leaving it takes, in microseconds.
    pub exit_latency_us: u64,
    /// Whether it is disabled for this CPU.
    pub disabled: bool,
}

/// CPUs that are set apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Isolation {
    /// CPUs outside the scheduler's domains (`/sys/devices/system/cpu/isolated`).
    pub isolated: CpuSet,
    /// CPUs whose tick may stop (`/sys/devices/system/cpu/nohz_full`).
    pub nohz_full: CpuSet,
    /// CPUs that a device interrupt may use by default (`/proc/irq/default_smp_affinity`).
    pub irq_default: CpuSet,
}

/// Scheduler limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Scheduler {
    /// `kernel.sched_rt_runtime_us`; -1 is no limit.
    pub rt_runtime_us: Option<i64>,
    /// `kernel.sched_rt_period_us`.
    pub rt_period_us: Option<i64>,
    /// Runtime of the deadline server for ordinary tasks per CPU in ns (debugfs, since 6.12), one entry a CPU.
    pub fair_server_runtime_ns: Vec<u64>,
    /// Highest real-time priority among interrupt threads, where any runs.
    pub highest_irq_thread_priority: Option<u32>,
}

impl Snapshot {
    /// The CPUs that are online.
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
    }

    /// The hardware threads that share a core with any CPU of `cpus`, those CPUs excluded.
    pub fn siblings_of(&self, cpus: &CpuSet) -> CpuSet {
        let shared = self.cpus.iter().filter(|cpu| cpus.contains(cpu.id)).flat_map(|cpu| cpu.siblings.iter());
        shared.collect::<CpuSet>().without(cpus)
    }
}
