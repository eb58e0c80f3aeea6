// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one type that says what a machine is; serialised whole into every evidence bundle.
//!
//! A field that could not be read is `None` (or empty), and [`Snapshot::unread`] says which file and why:
//! unknown is reported, never guessed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuSet;
use crate::inventory::Inventory;

pub use crate::isolation::Isolation;

/// The name in [`Snapshot::container`] of a pod's runtime.
pub const KUBERNETES: &str = "kubernetes";

/// The state of a machine, read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Snapshot {
    /// The host's name (`/proc/sys/kernel/hostname`).
    pub hostname: Option<String>,
    /// The processor architecture, as in `uname -m`.
    pub architecture: Option<String>,
    /// The processor's name (`/proc/cpuinfo`, or the device tree's model).
    pub cpu_model: Option<String>,
    /// Memory of the machine in bytes (`MemTotal`).
    pub memory_bytes: Option<u64>,
    /// The boot (`/proc/sys/kernel/random/boot_id`): another one for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The kernel.
    pub kernel: Kernel,
    /// Every CPU that is present, online or not, ascending.
    pub cpus: Vec<Cpu>,
    /// CPUs that could be present, now or after a hotplug.
    pub possible: CpuSet,
    /// NUMA nodes that have no memory of their own, as a list of their numbers.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub nodes_without_memory: CpuSet,
    /// Which CPUs are isolated, as the kernel itself reports it.
    pub isolation: Isolation,
    /// Scheduler limits that decide whether a real-time thread may run.
    pub scheduler: Scheduler,
    /// The limits of this process' control group.
    pub cgroup: Cgroup,
    /// The clock that the kernel keeps time with, `tsc` for example.
    pub clocksource: Option<String>,
    /// Whether the kernel compares the TSC with another clock twice a second (x86; the TSC is constant and
    /// does not stop, but the processor lacks `tsc_adjust`, or there are more than four packages);
    /// absent elsewhere.
    pub tsc_watched: Option<bool>,
    /// Devices that a real-time program may talk to.
    pub devices: Vec<Device>,
    /// The hypervisor of a virtual machine (`kvm`, `vmware`, …).
    pub hypervisor: Option<String>,
    /// The container runtime, where the program runs in a container.
    pub container: Option<String>,
    /// Firmware: vendor, version and date in one line.
    pub firmware: Option<String>,
    /// The machine's maker and product name.
    pub product: Option<String>,
    /// Present values of the settings that can change at run time, by path; settings that the machine lacks
    /// are absent.
    pub settings: BTreeMap<String, String>,
    /// Services that keep house: `systemd`, `irqbalance`, `TuneD`.
    pub services: Vec<String>,
    /// Further facts for an audit and a plan; absent if not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Box<Inventory>>,
    /// Files that could not be read, and why, `path: reason`.
    pub unread: Vec<String>,
}

/// A device that a real-time program may talk to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Device {
    /// Its name, `eth1` or `card0`.
    pub name: String,
    /// Its kind: `network`, `sound`.
    pub kind: String,
    /// Its address on its bus, or that of the controller it hangs on, `0000:03:00.0`.
    pub address: Option<String>,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// Its interrupts.
    pub irqs: Vec<u32>,
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
    /// The file of that configuration.
    pub config_source: Option<String>,
    /// Its options with an effect on latency, without `CONFIG_`, `n` where off; empty where no configuration
    /// was read.
    pub options: BTreeMap<String, String>,
    /// Whether it takes the line that it was built with, and no loader's; no part of documents.
    #[serde(skip)]
    pub line_is_built_in: bool,
}

/// How far the kernel lets itself be preempted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// PREEMPT_RT: interrupt threads, sleeping locks.
    RealTime,
    /// PREEMPT, also if chosen at boot.
    Full,
    /// PREEMPT_LAZY.
    Lazy,
    /// PREEMPT_VOLUNTARY.
    Voluntary,
    /// PREEMPT_NONE.
    None,
    /// PREEMPT_DYNAMIC whose present mode could not be read.
    Dynamic,
    /// It could not be found out.
    #[default]
    Unknown,
}

impl Preemption {
    /// Its option's name, for a sentence: `the kernel is …`.
    pub fn name(self) -> &'static str {
        match self {
            Preemption::RealTime => "PREEMPT_RT",
            Preemption::Full => "PREEMPT",
            Preemption::Lazy => "PREEMPT_LAZY",
            Preemption::Voluntary => "PREEMPT_VOLUNTARY",
            Preemption::None => "PREEMPT_NONE",
            Preemption::Dynamic => "PREEMPT_DYNAMIC",
            Preemption::Unknown => "not known to be PREEMPT_RT",
        }
    }
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
    /// All online hardware threads of its core, with itself; empty where unknown.
    pub siblings: CpuSet,
    /// The type of core, on hybrid processors that report it.
    pub kind: Option<CoreKind>,
    /// How much it does compared with the machine's fastest, which has 1024.
    pub capacity: Option<u32>,
    /// The highest frequency that it reaches.
    pub max_frequency_khz: Option<u64>,
    /// The CPUs that share its frequency setting; empty where unknown.
    pub frequency_cpus: CpuSet,
    /// The CPUs of its cluster (cores that share a second-level cache, mostly); empty where unknown.
    pub cluster: CpuSet,
    /// The level of its last cache.
    pub last_cache_level: Option<u32>,
    /// The CPUs that share its last cache; empty where unknown.
    pub last_cache_cpus: CpuSet,
    /// The frequency governor (`performance`, `schedutil`, …).
    pub governor: Option<String>,
    /// Its idle states, shallowest first.
    pub idle_states: Vec<IdleState>,
    /// How many more idle states there are that could not be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle_states_unread: u32,
    /// Longest exit latency that its idle states may have in microseconds (`pm_qos_resume_latency_us`);
    /// absent: no bound.
    pub idle_latency_limit_us: Option<u64>,
    /// Runtime of its deadline server for ordinary tasks in ns (debugfs, since Linux 6.12); 0: switched off.
    pub fair_server_runtime_ns: Option<u64>,
}

/// A type of core on a hybrid processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// Fast.
    Performance,
    /// Slower, smaller.
    Efficient,
    /// Slowest, outside of the others' last cache.
    LowPower,
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

/// Scheduler limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Scheduler {
    /// `kernel.sched_rt_runtime_us`; -1 is no limit.
    pub rt_runtime_us: Option<i64>,
    /// `kernel.sched_rt_period_us`.
    pub rt_period_us: Option<i64>,
    /// Whether real-time runtime is shared out by control group (CONFIG_RT_GROUP_SCHED, and not off at
    /// boot).
    pub rt_group_scheduling: Option<bool>,
    /// Highest real-time priority among interrupt threads, where any runs.
    pub highest_irq_thread_priority: Option<u32>,
}

/// The limits of a control group; `/proc/self/cgroup` names it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cgroup {
    /// Its path, in version 2's tree where there is one, else in that of the cpu controller.
    pub path: Option<String>,
    /// CPUs that its processes may use.
    pub cpus: Option<CpuSet>,
    /// CPU time that ordinary tasks may use per [`Cgroup::quota_period_us`]; absent: no limit.
    pub quota_us: Option<u64>,
    /// Period of that quota in microseconds.
    pub quota_period_us: Option<u64>,
    /// Real-time runtime per `sched_rt_period_us` (`cpu.rt_runtime_us`, version 1 only); 0 forbids real-time
    /// policies.
    pub rt_runtime_us: Option<i64>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Kernel {
    /// Whether CONFIG_`name` is set, as `y` or `m`; `None` where the configuration, or the option, is not
    /// known.
    pub fn option(&self, name: &str) -> Option<bool> {
        self.options.get(name).map(|value| value != "n")
    }

    /// Whether it keeps its version and takes over much of newer ones, as Red Hat's and their kin do for
    /// years: then a version says little of what it lacks.
    pub fn takes_over(&self) -> bool {
        let release = self.release.as_deref().unwrap_or_default();
        release.split(".el").skip(1).any(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    }

    /// Whether the release is `major.minor` or newer; `None` where the release is unknown.
    pub fn at_least(&self, major: u32, minor: u32) -> Option<bool> {
        let mut numbers = self.release.as_deref()?.split(|c: char| !c.is_ascii_digit());
        let have = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(have >= (major, minor))
    }
}

impl Snapshot {
    /// The CPU with number `id`, where it is present.
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// Whether the program runs in a pod of Kubernetes, where what a container may is written in a manifest.
    pub fn is_pod(&self) -> bool {
        self.container.as_deref() == Some(KUBERNETES)
    }

    /// Whether the kernel stops real-time threads that reach `kernel.sched_rt_runtime_us`: since Linux 6.12
    /// only with RT group scheduling, where each group has a limit of its own, too. Without it a server for
    /// ordinary threads took its place. `None` where that is not known.
    pub fn limits_real_time(&self) -> Option<bool> {
        match (self.kernel.at_least(6, 12), self.scheduler.rt_group_scheduling) {
            (Some(true), Some(false)) => Some(false),
            (Some(false), _) | (_, Some(true)) => Some(true),
            _ => None,
        }
    }

    /// The CPUs that are online.
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
    }

    /// The hardware threads that share a core with any CPU of `cpus`, those CPUs excluded.
    pub fn siblings_of(&self, cpus: &CpuSet) -> CpuSet {
        let shared = self.cpus.iter().filter(|cpu| cpus.contains(cpu.id)).flat_map(|cpu| cpu.siblings.iter());
        shared.collect::<CpuSet>().without(cpus)
    }

    /// The CPUs that a deadline thread for `id` must be allowed to run on, `id` among them. While the kernel
    /// limits deadline bandwidth, it takes no such thread whose affinity is less than its root domain
    /// (kernel/sched, `__sched_setscheduler`): all isolated CPUs make one, all others another.
    /// Limit: cgroup partitions of type `root` make more, and are not known here.
    pub fn deadline_cpus(&self, id: u32) -> CpuSet {
        if self.scheduler.rt_runtime_us == Some(-1) {
            return CpuSet::from_iter([id]);
        }
        let (online, apart) = (self.online(), self.isolation.set_apart());
        if apart.contains(id) { apart.and(&online) } else { online.without(&apart) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_thread_needs_its_whole_root_domain_unless_bandwidth_has_no_limit() {
        let cpu = |id| Cpu { id, online: id != 3, ..Cpu::default() };
        let mut machine = Snapshot { cpus: (0..6).map(cpu).collect(), ..Snapshot::default() };
        let seen = |machine: &Snapshot| [0, 4].map(|id| machine.deadline_cpus(id).to_string());
        assert_eq!(seen(&machine), ["0-2,4-5", "0-2,4-5"]);
        machine.isolation.isolated = "3-4".parse().unwrap();
        assert_eq!(seen(&machine), ["0-2,5", "4"]);
        machine.isolation.partitions = "5".parse().unwrap();
        assert_eq!(seen(&machine), ["0-2", "4-5"]);
        machine.scheduler.rt_runtime_us = Some(-1);
        assert_eq!(seen(&machine), ["0", "4"]);
    }
}
