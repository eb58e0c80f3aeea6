// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of sysfs, procfs, debugfs and control groups. What was written to them is gone after a boot.

use crate::registry::{FILE, REAL_TIME, Setting, SettingKind, ValueKind, X86};

const WORKQUEUE: &str = "Linux 6.12, kernel/workqueue.c, Documentation/core-api/workqueue.rst";
const IRQ: &str = "Linux 6.12, Documentation/core-api/irq/irq-affinity.rst, kernel/irq/proc.c";
const PM: &str = "Linux 6.12, Documentation/admin-guide/pm";
const CGROUP: &str = "Linux 6.12, Documentation/admin-guide/cgroup-v2.rst";

pub(super) const ALL: &[Setting] = &[
    Setting {
        name: "/proc/irq/default_smp_affinity",
        takes: ValueKind::Mask,
        effective: &["/proc/irq/default_smp_affinity"],
        reason: "interrupts that are requested from now on begin on these CPUs",
        source: IRQ,
        ..FILE
    },
    Setting {
        name: "/proc/irq/N/smp_affinity_list",
        takes: ValueKind::Cpus,
        effective: &["/proc/irq/N/effective_affinity_list"],
        reason: "takes a device's interrupt off isolated CPUs",
        cost: "refused with EIO for managed interrupts, with EPERM for those of a CPU",
        source: IRQ,
        ..FILE
    },
    Setting {
        name: "/sys/devices/virtual/workqueue/cpumask",
        takes: ValueKind::Mask,
        effective: &["/sys/devices/virtual/workqueue/cpumask"],
        reason: "unbound deferred work runs on these CPUs only",
        source: WORKQUEUE,
        ..FILE
    },
    Setting {
        name: "/sys/devices/virtual/workqueue/writeback/cpumask",
        takes: ValueKind::Mask,
        effective: &["/sys/devices/virtual/workqueue/writeback/cpumask"],
        reason: "pages are written back on these CPUs only",
        source: WORKQUEUE,
        ..FILE
    },
    Setting {
        name: "/sys/kernel/rcu_normal",
        takes: ValueKind::Switch,
        effective: &["/sys/kernel/rcu_normal"],
        reason: "1: no expedited grace period interrupts every CPU",
        cost: "reconfiguring networks and control groups takes longer",
        source: "Linux 6.12, kernel/ksysfs.c, kernel/rcu/update.c",
        ..FILE
    },
    Setting {
        name: "/sys/kernel/rcu_expedited",
        takes: ValueKind::Switch,
        effective: &["/sys/kernel/rcu_expedited"],
        reason: "0: grace periods do not interrupt every CPU as a rule",
        source: "Linux 6.12, kernel/ksysfs.c, kernel/rcu/update.c",
        ..FILE
    },
    Setting {
        name: "/sys/kernel/debug/sched/fair_server/cpuN/runtime",
        takes: ValueKind::Number,
        since: Some((6, 12)),
        effective: &["/sys/kernel/debug/sched/fair_server/cpuN/runtime"],
        reason: "0: starving ordinary tasks do not get 50 ms of each second ahead of SCHED_FIFO on this CPU",
        cost: "a real-time thread that never sleeps starves all else there, kernel threads among them",
        source: "Linux 6.12, kernel/sched/deadline.c, kernel/sched/debug.c",
        ..FILE
    },
    Setting {
        name: "/sys/kernel/debug/sched/preempt",
        takes: ValueKind::Word(&["none", "voluntary", "full", "lazy"]),
        needs: &["PREEMPT_DYNAMIC"],
        effective: &["/sys/kernel/debug/sched/preempt"],
        reason: "full lets the kernel be preempted almost everywhere",
        cost: "some throughput",
        source: "Linux 6.12, kernel/sched/debug.c",
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/cpuN/cpufreq/scaling_governor",
        effective: &["/sys/devices/system/cpu/cpuN/cpufreq/scaling_governor"],
        reason: "performance: the frequency does not follow the load",
        cost: "power and heat",
        source: REAL_TIME,
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/cpuN/cpufreq/scaling_min_freq",
        takes: ValueKind::Number,
        effective: &["/sys/devices/system/cpu/cpuN/cpufreq/scaling_min_freq"],
        reason: "as high as scaling_max_freq, the frequency does not change at all",
        cost: "power and heat",
        source: PM,
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/cpuN/cpufreq/energy_performance_preference",
        effective: &["/sys/devices/system/cpu/cpuN/cpufreq/energy_performance_preference"],
        reason: "performance: the processor itself does not save power by frequency",
        cost: "power",
        source: PM,
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us",
        takes: ValueKind::Text,
        effective: &["/sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us"],
        reason: "idle states that take longer to leave than so many µs are not entered; 0 is no limit",
        cost: "power; n/a allows no latency at all, and an x86 CPU then polls as with idle=poll",
        source: "Linux 6.12, drivers/base/power/sysfs.c, drivers/cpuidle/governors/menu.c",
        ..FILE
    },
    Setting {
        name: "/dev/cpu_dma_latency",
        takes: ValueKind::Number,
        reason: "the same limit for all CPUs, as long as a program holds the file open",
        cost: "power, on all CPUs",
        source: "Linux 6.12, kernel/power/qos.c",
        fix: "keep /dev/cpu_dma_latency open after writing VALUE (32 bits) to it",
        undo: "close it",
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/cpuN/cpuidle/stateN/disable",
        takes: ValueKind::Switch,
        effective: &["/sys/devices/system/cpu/cpuN/cpuidle/stateN/disable"],
        reason: "1: this idle state is not entered",
        cost: "power",
        source: PM,
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/intel_pstate/no_turbo",
        takes: ValueKind::Switch,
        architectures: X86,
        effective: &["/sys/devices/system/cpu/intel_pstate/no_turbo"],
        reason: "1: the frequency does not depend on neighbours and temperature",
        cost: "speed",
        source: PM,
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/cpufreq/boost",
        takes: ValueKind::Switch,
        effective: &["/sys/devices/system/cpu/cpufreq/boost"],
        reason: "0: the frequency does not depend on neighbours and temperature",
        cost: "speed",
        source: PM,
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/smt/control",
        takes: ValueKind::Word(&["on", "off", "forceoff"]),
        needs: &["HOTPLUG_SMT"],
        effective: &["/sys/devices/system/cpu/smt/active"],
        reason: "off: one hardware thread a core",
        cost: "half of the hardware threads",
        source: "Linux 6.12, kernel/cpu.c",
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/cpu/cpuN/online",
        takes: ValueKind::Switch,
        effective: &["/sys/devices/system/cpu/online"],
        reason: "0 takes a CPU away, an isolated CPU's sibling for example",
        cost: "taking one away stops all CPUs for a moment, and breaks cgroup partitions that it is in",
        source: "Linux 6.12, Documentation/core-api/cpu_hotplug.rst",
        ..FILE
    },
    Setting {
        name: "/sys/kernel/mm/transparent_hugepage/enabled",
        takes: ValueKind::Word(&["always", "madvise", "never"]),
        needs: &["TRANSPARENT_HUGEPAGE"],
        effective: &["/sys/kernel/mm/transparent_hugepage/enabled"],
        reason: "never: no page is collected or split behind a program's back, with shootdowns",
        cost: "more misses of the translation cache",
        source: "Linux 6.12, Documentation/admin-guide/mm/transhuge.rst",
        ..FILE
    },
    Setting {
        name: "/sys/kernel/mm/ksm/run",
        takes: ValueKind::Number,
        needs: &["KSM"],
        effective: &["/sys/kernel/mm/ksm/run"],
        reason: "0: equal pages are not looked for and merged; 2 splits merged ones as well",
        cost: "memory, on hosts of many alike guests",
        source: "Linux 6.12, Documentation/admin-guide/mm/ksm.rst",
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/machinecheck/machinecheckN/check_interval",
        takes: ValueKind::Number,
        needs: &["X86_MCE"],
        architectures: X86,
        effective: &["/sys/devices/system/machinecheck/machinecheck0/check_interval"],
        reason: "0: corrected errors are not polled for on every CPU (300 s by default)",
        cost: "some corrected memory errors are not logged",
        source: "Linux 6.12, arch/x86/kernel/cpu/mce/core.c",
        ..FILE
    },
    Setting {
        name: "/sys/devices/system/machinecheck/machinecheckN/ignore_ce",
        takes: ValueKind::Switch,
        needs: &["X86_MCE"],
        architectures: X86,
        effective: &["/sys/devices/system/machinecheck/machinecheck0/ignore_ce"],
        reason: "1: corrected errors are neither polled for nor announced by interrupt",
        cost: "corrected memory errors are not logged",
        source: "Linux 6.12, arch/x86/kernel/cpu/mce/core.c",
        ..FILE
    },
    Setting {
        name: "/sys/module/pcie_aspm/parameters/policy",
        takes: ValueKind::Word(&["default", "performance", "powersave", "powersupersave"]),
        needs: &["PCIEASPM"],
        effective: &["/sys/module/pcie_aspm/parameters/policy"],
        reason: "performance: links to cards do not sleep, and need no time to wake",
        cost: "power",
        source: "Linux 6.12, drivers/pci/pcie/aspm.c",
        ..FILE
    },
    Setting {
        name: "/sys/module/kvm/parameters/halt_poll_ns",
        takes: ValueKind::Number,
        effective: &["/sys/module/kvm/parameters/halt_poll_ns"],
        reason: "for how long the host polls for a guest's wakeup before it lets the CPU go; 0 never polls",
        cost: "with 0 each wakeup of a guest takes the longer way; polling takes the sibling's and other guests' time",
        source: "Linux 6.12, Documentation/virt/kvm/halt-polling.rst",
        ..FILE
    },
    Setting {
        name: "/sys/class/net/IF/threaded",
        takes: ValueKind::Switch,
        since: Some((5, 12)),
        reason: "1: an interface's packets are handled in threads of their own, which have a policy and CPUs",
        cost: "each packet pays for another wakeup",
        source: "Linux 6.12, Documentation/networking/napi.rst (threaded NAPI)",
        ..FILE
    },
    Setting {
        name: "/sys/class/net/IF/queues/tx-N/xps_cpus",
        takes: ValueKind::Mask,
        reason: "CPUs that send by this queue: a queue of the loop's own is locked by no other CPU",
        cost: "none known",
        source: "Linux 6.12, Documentation/networking/scaling.rst (XPS)",
        ..FILE
    },
    Setting {
        name: "/sys/class/net/IF/queues/rx-N/rps_cpus",
        takes: ValueKind::Mask,
        needs: &["RPS"],
        effective: &["/sys/class/net/IF/queues/rx-N/rps_cpus"],
        reason: "hands received packets to these CPUs; none is the default",
        source: "Linux 6.12, Documentation/networking/scaling.rst",
        ..FILE
    },
    Setting {
        name: "cpuset.cpus.partition",
        kind: SettingKind::Cgroup,
        takes: ValueKind::Word(&["member", "root", "isolated"]),
        needs: &["CPUSETS"],
        since: Some((6, 1)),
        effective: &["/sys/fs/cgroup/cpuset.cpus.isolated"],
        reason: "isolated: CPUs outside of the scheduler's domains, without a boot",
        cost: "unlike isolcpus= it leaves timers, unbound kernel threads and managed interrupts before Linux 7.0",
        source: CGROUP,
        fix: "echo VALUE > /sys/fs/cgroup/GROUP/cpuset.cpus.partition",
        undo: "echo member > /sys/fs/cgroup/GROUP/cpuset.cpus.partition",
        ..FILE
    },
    Setting {
        name: "cpuset.cpus.exclusive",
        kind: SettingKind::Cgroup,
        takes: ValueKind::Cpus,
        needs: &["CPUSETS"],
        since: Some((6, 7)),
        effective: &["cpuset.cpus.exclusive.effective"],
        reason: "CPUs of a partition that no other group has",
        source: CGROUP,
        fix: "echo VALUE > /sys/fs/cgroup/GROUP/cpuset.cpus.exclusive",
        undo: "echo '' > /sys/fs/cgroup/GROUP/cpuset.cpus.exclusive",
        ..FILE
    },
];
