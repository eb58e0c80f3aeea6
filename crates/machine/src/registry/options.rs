// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's options that decide latency, and which kernels have them.
//!
//! An option that a kernel does not know yet, or no more, stands in no configuration of it, and says nothing:
//! before Linux 4.15 `isolcpus=` was there without CPU_ISOLATION. Versions are those of kernel.org; a
//! distribution may have taken one over earlier, and then its configuration names it.

use super::KernelVersion;
use crate::snapshot::Kernel;

/// One option, without `CONFIG_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelOption {
    /// Its name.
    pub name: &'static str,
    /// The first kernel that has it; absent: every kernel in use (3.2 and later).
    pub since: Option<KernelVersion>,
    /// The first kernel that has it no more.
    pub until: Option<KernelVersion>,
    /// The file that defines it; where there is a version, the commit's subject or what it was before.
    pub source: &'static str,
}

impl KernelOption {
    /// Whether a configuration of this kernel that does not name it says that it is off.
    pub fn is_off_where_unnamed(&self, kernel: &Kernel) -> bool {
        let at_least = |(major, minor): KernelVersion| kernel.at_least(major, minor);
        self.since.is_none_or(|version| at_least(version) == Some(true))
            && self.until.is_none_or(|version| at_least(version) == Some(false))
    }
}

/// One that every kernel in use has.
const fn always(name: &'static str, source: &'static str) -> KernelOption {
    KernelOption { name, since: None, until: None, source }
}

/// One that is new in this version.
const fn new(name: &'static str, major: u32, minor: u32, source: &'static str) -> KernelOption {
    KernelOption { name, since: Some((major, minor)), until: None, source }
}

/// One that went away in this version.
const fn gone(name: &'static str, major: u32, minor: u32, source: &'static str) -> KernelOption {
    KernelOption { name, since: None, until: Some((major, minor)), source }
}

const DEBUG: &str = "lib/Kconfig.debug";
const INIT: &str = "init/Kconfig";
const PREEMPT: &str = "kernel/Kconfig.preempt";
const TRACE: &str = "kernel/trace/Kconfig";

/// All that a snapshot keeps.
pub const ALL: &[KernelOption] = &[
    always("ACPI_PROCESSOR", "drivers/acpi/Kconfig"),
    always("AUDIT", INIT),
    new("BPF_EVENTS", 4, 1, TRACE),
    new("BPF_SYSCALL", 3, 18, "kernel/bpf/Kconfig; init/Kconfig before 5.13"),
    always("CGROUP_SCHED", INIT),
    always("COMPACTION", "mm/Kconfig"),
    always("CPUSETS", INIT),
    always("CPU_FREQ", "drivers/cpufreq/Kconfig"),
    always("CPU_FREQ_DEFAULT_GOV_PERFORMANCE", "drivers/cpufreq/Kconfig"),
    always("CPU_FREQ_GOV_CONSERVATIVE", "drivers/cpufreq/Kconfig"),
    always("CPU_FREQ_GOV_ONDEMAND", "drivers/cpufreq/Kconfig"),
    new("CPU_FREQ_GOV_SCHEDUTIL", 4, 7, "drivers/cpufreq/Kconfig"),
    always("CPU_FREQ_STAT", "drivers/cpufreq/Kconfig"),
    always("CPU_IDLE", "drivers/cpuidle/Kconfig"),
    new(
        "CPU_ISOLATION",
        4,
        15,
        "init/Kconfig: sched/isolation: Make CONFIG_CPU_ISOLATION=y depend on SMP or COMPILE_TEST",
    ),
    always("DEBUG_ATOMIC_SLEEP", DEBUG),
    new("DEBUG_INFO_BTF", 5, 2, DEBUG),
    always("DEBUG_KMEMLEAK", DEBUG),
    always("DEBUG_LOCK_ALLOC", DEBUG),
    always("DEBUG_OBJECTS", DEBUG),
    always("DEBUG_PAGEALLOC", "mm/Kconfig.debug"),
    always("DEBUG_PREEMPT", DEBUG),
    always("DETECT_HUNG_TASK", DEBUG),
    always("DRM", "drivers/gpu/drm/Kconfig"),
    always("EFI", "arch/x86/Kconfig; arm64 has it since 3.16"),
    new("EFI_DISABLE_RUNTIME", 6, 0, "drivers/firmware/efi/Kconfig"),
    always("FTRACE", TRACE),
    always("FTRACE_STARTUP_TEST", TRACE),
    new("GENERIC_IDLE_POLL_SETUP", 3, 10, "arch/Kconfig: the generic idle loop"),
    new("GENERIC_IRQ_DEBUGFS", 4, 13, "kernel/irq/Kconfig: genirq/debugfs: Add proper debugfs interface"),
    new("HALTPOLL_CPUIDLE", 5, 4, "drivers/cpuidle/Kconfig: add cpuidle-haltpoll driver"),
    always("HARDLOCKUP_DETECTOR", DEBUG),
    always("HAVE_SYSCALL_TRACEPOINTS", TRACE),
    always("HIGH_RES_TIMERS", "kernel/time/Kconfig"),
    new(
        "HOTPLUG_SMT",
        4,
        19,
        "arch/Kconfig: cpu/hotplug: Provide knobs to control SMT; stable kernels took it over",
    ),
    new("HWLAT_TRACER", 4, 9, TRACE),
    always("HZ", "kernel/Kconfig.hz"),
    always("IKCONFIG", INIT),
    always("INTEL_IDLE", "drivers/idle/Kconfig"),
    always("IRQSOFF_TRACER", TRACE),
    always("IRQ_FORCED_THREADING", "kernel/irq/Kconfig"),
    new("KASAN", 4, 0, "lib/Kconfig.kasan"),
    new("KCSAN", 5, 8, "lib/Kconfig.kcsan"),
    new("KMSAN", 6, 1, "lib/Kconfig.kmsan"),
    always("KSM", "mm/Kconfig"),
    always("LOCKDEP", DEBUG),
    always("LOCKUP_DETECTOR", DEBUG),
    always("LOCK_STAT", DEBUG),
    always("MODULES", "kernel/module/Kconfig"),
    new("NET_RX_BUSY_POLL", 3, 11, "net/Kconfig"),
    new("NO_HZ_COMMON", 3, 10, "kernel/time/Kconfig: NO_HZ alone before"),
    new("NO_HZ_FULL", 3, 10, "kernel/time/Kconfig"),
    always("NUMA", "arch/*/Kconfig"),
    new("NUMA_BALANCING", 3, 8, INIT),
    new("OSNOISE_TRACER", 5, 14, TRACE),
    always("PCIEASPM", "drivers/pci/pcie/Kconfig"),
    always("PREEMPT", PREEMPT),
    new("PREEMPT_DYNAMIC", 5, 12, PREEMPT),
    new("PREEMPT_LAZY", 6, 13, PREEMPT),
    always("PREEMPT_NONE", PREEMPT),
    new("PREEMPT_RT", 5, 3, "kernel/Kconfig.preempt: PREEMPT_RT_FULL in the patches before"),
    gone("PREEMPT_RT_FULL", 5, 3, "the PREEMPT_RT patches up to Linux 5.2"),
    always("PREEMPT_TRACER", TRACE),
    always("PREEMPT_VOLUNTARY", PREEMPT),
    always("PROC_SYSCTL", "fs/proc/Kconfig"),
    always("PROVE_LOCKING", DEBUG),
    new("PSI", 4, 20, INIT),
    always("RCU_BOOST", "kernel/rcu/Kconfig"),
    new("RCU_LAZY", 6, 2, "kernel/rcu/Kconfig"),
    new("RCU_NOCB_CPU", 3, 8, "kernel/rcu/Kconfig"),
    new(
        "RCU_NOCB_CPU_DEFAULT_ALL",
        6,
        0,
        "kernel/rcu/Kconfig; another option of a like name, RCU_NOCB_CPU_ALL, before 4.13",
    ),
    always("RPS", "net/Kconfig"),
    always("RT_GROUP_SCHED", INIT),
    new("RT_GROUP_SCHED_DEFAULT_DISABLED", 6, 16, INIT),
    always("SCHEDSTATS", DEBUG),
    always("SCHED_AUTOGROUP", INIT),
    gone(
        "SCHED_DEBUG",
        6,
        15,
        "lib/Kconfig.debug: sched/debug: Make CONFIG_SCHED_DEBUG functionality unconditional",
    ),
    always("SLUB_DEBUG_ON", "mm/Kconfig.debug"),
    always("SMP", "arch/*/Kconfig"),
    new(
        "SOFTLOCKUP_DETECTOR",
        4,
        13,
        "lib/Kconfig.debug: kernel/watchdog: split up config options; part of LOCKUP_DETECTOR before",
    ),
    new("TIMERLAT_TRACER", 5, 14, TRACE),
    always("TRACING", TRACE),
    always("TRANSPARENT_HUGEPAGE", "mm/Kconfig"),
    new("UBSAN_TRAP", 5, 7, "lib/Kconfig.ubsan"),
    new("UPROBE_EVENTS", 4, 12, "kernel/trace/Kconfig: UPROBE_EVENT before"),
    always("USB", "drivers/usb/Kconfig"),
    new("X86_AMD_PSTATE", 5, 17, "drivers/cpufreq/Kconfig.x86"),
    new("X86_INTEL_PSTATE", 3, 9, "drivers/cpufreq/Kconfig.x86"),
    always("X86_MCE", "arch/x86/Kconfig"),
];

/// Files that are newer than some kernels in use: where one is not there, an older kernel merely does not
/// show it.
const FILES: &[(&str, KernelVersion)] = &[
    ("/proc/sys/kernel/soft_watchdog", (4, 1)),
    ("/proc/sys/kernel/timer_migration", (4, 2)),
    ("/proc/sys/kernel/watchdog_cpumask", (4, 2)),
    ("/sys/devices/system/cpu/isolated", (4, 2)),
    ("/sys/devices/system/cpu/nohz_full", (4, 2)),
    ("/sys/devices/system/cpu/smt/control", (4, 19)),
    ("/sys/devices/virtual/workqueue/cpumask", (4, 2)),
    ("/sys/kernel/debug/irq/irqs", (4, 13)),
    ("/sys/kernel/debug/sched/preempt", (5, 13)),
    ("/sys/kernel/irq", (4, 9)),
    ("/sys/kernel/rcu_normal", (4, 5)),
    ("/sys/kernel/tracing/current_tracer", (4, 1)),
    ("/sys/module/rcutree/parameters/kthread_prio", (4, 0)),
];

/// The first kernel that shows a file; absent: every kernel in use does, or it is not known.
pub fn file_since(path: &str) -> Option<KernelVersion> {
    FILES.iter().find(|(known, _)| *known == path).map(|(_, version)| *version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn kernel(release: Option<&str>) -> Kernel {
        Kernel { release: release.map(str::to_string), ..Kernel::default() }
    }

    #[test]
    fn every_option_that_a_setting_needs_has_its_versions() {
        let known: BTreeSet<&str> = ALL.iter().map(|option| option.name).collect();
        assert_eq!(known.len(), ALL.len(), "one occurs twice");
        for setting in crate::registry::all() {
            for name in setting.needs.iter().chain(setting.idle_with) {
                assert!(known.contains(name), "{name} of {}", setting.name);
            }
        }
        assert!(ALL.iter().all(|option| !option.source.is_empty()));
    }

    #[test]
    fn an_option_unknown_to_a_kernel_is_not_off() {
        let off = |name: &str, release| {
            let option = ALL.iter().find(|option| option.name == name).unwrap();
            option.is_off_where_unnamed(&kernel(release))
        };
        assert!(!off("CPU_ISOLATION", Some("4.9.253-rt168-tegra")));
        assert!(!off("CPU_ISOLATION", Some("3.10.0-1160.rt56.el7")));
        assert!(off("CPU_ISOLATION", Some("4.15.0")));
        assert!(!off("CPU_ISOLATION", None) && !off("CPU_ISOLATION", Some("next")));
        assert!(off("AUDIT", None));
        assert!(off("SCHED_DEBUG", Some("6.14.2")) && !off("SCHED_DEBUG", Some("6.15.0")));
        assert!(!off("SOFTLOCKUP_DETECTOR", Some("4.9.1")) && off("SOFTLOCKUP_DETECTOR", Some("4.13.0")));
    }
}
