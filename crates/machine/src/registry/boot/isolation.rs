// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot parameters that set CPUs apart: domains, tick, RCU, interrupts, kernel threads, deferred work.

use crate::registry::{BOOT, Setting, SettingKind, ValueKind};

const ISOLATION: &str = "Linux 6.12, kernel/sched/isolation.c";

pub(super) const ALL: &[Setting] = &[
    Setting {
        name: "isolcpus",
        takes: ValueKind::FlagsAndCpus,
        needs: &["CPU_ISOLATION"],
        // Of the flags' sets only the domain's has a file.
        effective: &["/sys/devices/system/cpu/isolated"],
        rejected: &[
            "Housekeeping: nohz unsupported",
            "Housekeeping: nohz_full= or isolcpus= incorrect CPU range",
            "Housekeeping: must include one present CPU",
            "Housekeeping: nohz_full= must match isolcpus=",
            "isolcpus: Invalid flag",
            "isolcpus: Skipped unknown flag",
            "isolcpus: Error, unknown flag",
        ],
        reason: "takes CPUs out of the scheduler's domains (domain), and managed interrupts off them (managed_irq)",
        cost: "nothing balances tasks there any more: what is not pinned to a CPU piles up on one",
        source: ISOLATION,
        ..BOOT
    },
    Setting {
        name: "nohz_full",
        takes: ValueKind::Cpus,
        needs: &["NO_HZ_FULL"],
        effective: &["/sys/devices/system/cpu/nohz_full"],
        rejected: &[
            "Housekeeping: nohz unsupported",
            "Housekeeping: nohz_full= or isolcpus= incorrect CPU range",
            "Housekeeping: nohz_full= must match isolcpus=",
        ],
        accepted: &["NO_HZ: Full dynticks CPUs: *"],
        since: Some((3, 10)),
        reason: "stops the tick while a single task runs; offloads RCU callbacks and unbound kernel threads as well",
        cost: "each kernel entry costs more: for programs that poll, not for those that sleep each period",
        source: "Linux 6.12, kernel/sched/isolation.c; Linux of 2026-08, Documentation/core-api/real-time/kernel-configuration.rst",
        ..BOOT
    },
    Setting {
        name: "rcu_nocbs",
        takes: ValueKind::MaybeCpus,
        needs: &["RCU_NOCB_CPU"],
        rejected: &["rcu_nocbs= bad CPU range, all CPUs set", "*contains nonexistent CPUs"],
        accepted: &["Offload RCU callbacks from CPUs: *"],
        since: Some((3, 8)),
        reason: "RCU callbacks of those CPUs run in threads that can be elsewhere, not in their softirq",
        cost: "a wakeup of such a thread now and then; with a wrong list the kernel offloads all CPUs",
        source: "Linux 6.12, kernel/rcu/tree_nocb.h",
        ..BOOT
    },
    Setting {
        name: "rcu_nocb_poll",
        takes: ValueKind::Nothing,
        needs: &["RCU_NOCB_CPU"],
        accepted: &["Poll for callbacks from no-CBs CPUs."],
        since: Some((3, 8)),
        reason: "offloaded CPUs need not wake the callback threads, which poll",
        cost: "CPU time and power on housekeeping CPUs",
        source: "Linux 6.12, kernel/rcu/tree_nocb.h",
        ..BOOT
    },
    Setting {
        name: "irqaffinity",
        takes: ValueKind::Cpus,
        needs: &["SMP"],
        // The boot CPU is added by the kernel.
        effective: &["/proc/irq/default_smp_affinity"],
        since: Some((4, 6)),
        reason: "device interrupts begin on these CPUs",
        cost: "interrupts share fewer CPUs; a list that cannot be read is dropped in silence",
        source: "Linux 6.12, kernel/irq/irqdesc.c",
        ..BOOT
    },
    Setting {
        name: "kthread_cpus",
        kind: SettingKind::Foreign,
        takes: ValueKind::Cpus,
        reason: "of a patch that some vendors carry; elsewhere it goes to init, unread",
        source: "absent from Linux 6.12; nohz_full= keeps unbound kernel threads away (kernel/kthread.c), since 7.0 any isolated domain does",
        ..BOOT
    },
    Setting {
        name: "skew_tick",
        takes: ValueKind::Switch,
        reason: "CPUs tick one after another, so that they do not meet at the same locks",
        cost: "power: sleeping CPUs wake at different times",
        source: "Linux 6.12, kernel/time/tick-sched.c",
        ..BOOT
    },
    Setting {
        name: "nohz",
        takes: ValueKind::Word(&["on", "off"]),
        needs: &["NO_HZ_COMMON"],
        reason: "on is the default; off lets idle CPUs tick",
        source: "Linux 6.12, kernel/time/tick-sched.c",
        ..BOOT
    },
    Setting {
        name: "workqueue.unbound_cpus",
        takes: ValueKind::Cpus,
        effective: &["/sys/devices/virtual/workqueue/cpumask"],
        rejected: &["workqueue.unbound_cpus: incorrect CPU range"],
        since: Some((6, 6)),
        reason: "unbound deferred work runs on these CPUs only",
        source: "Linux 6.12, kernel/workqueue.c",
        ..BOOT
    },
    Setting {
        name: "workqueue.power_efficient",
        takes: ValueKind::Switch,
        effective: &["/sys/module/workqueue/parameters/power_efficient"],
        since: Some((3, 11)),
        reason: "some work bound to a CPU becomes unbound, and can be kept off isolated CPUs",
        source: "Linux 6.12, kernel/workqueue.c",
        ..BOOT
    },
    Setting {
        name: "nosmt",
        takes: ValueKind::Word(&["", "force"]),
        needs: &["HOTPLUG_SMT"],
        effective: &["/sys/devices/system/cpu/smt/control"],
        since: Some((4, 19)),
        reason: "one hardware thread a core: nothing shares the isolated core's units and caches",
        cost: "half of the hardware threads",
        source: "Linux 6.12, kernel/cpu.c",
        ..BOOT
    },
    Setting {
        name: "maxcpus",
        takes: ValueKind::Number,
        effective: &["/sys/devices/system/cpu/online"],
        reason: "brings up so many CPUs at boot",
        cost: "CPUs meant for isolation may stay offline",
        ..BOOT
    },
    Setting {
        name: "nr_cpus",
        takes: ValueKind::Number,
        effective: &["/sys/devices/system/cpu/possible"],
        reason: "the kernel knows no more CPUs than these",
        cost: "a list that names a higher CPU is dropped whole",
        ..BOOT
    },
    Setting {
        name: "threadirqs",
        takes: ValueKind::Nothing,
        needs: &["IRQ_FORCED_THREADING"],
        idle_with: &["PREEMPT_RT"],
        reason: "interrupt handlers run in threads, which have priorities",
        cost: "a switch of threads for each interrupt",
        source: "Linux 6.12, kernel/irq/manage.c, include/linux/interrupt.h",
        ..BOOT
    },
    Setting {
        name: "systemd.cpu_affinity",
        kind: SettingKind::BootUser,
        takes: ValueKind::Cpus,
        effective: &["/proc/1/status"],
        reason: "systemd and all that it starts stay on these CPUs",
        source: "systemd(1)",
        ..BOOT
    },
    Setting {
        name: "cgroup_disable",
        takes: ValueKind::Text,
        effective: &["/sys/fs/cgroup/cgroup.controllers"],
        reason: "switches a controller off; without cpuset there is no isolation at run time",
        ..BOOT
    },
    Setting {
        name: "cgroup_no_v1",
        takes: ValueKind::Text,
        effective: &["/sys/fs/cgroup/cgroup.controllers"],
        since: Some((4, 6)),
        reason: "leaves a controller to version 2",
        ..BOOT
    },
    Setting {
        name: "systemd.unified_cgroup_hierarchy",
        kind: SettingKind::BootUser,
        takes: ValueKind::Switch,
        effective: &["/sys/fs/cgroup/cgroup.controllers"],
        reason: "chooses version 2 of control groups, of which isolated partitions are part",
        source: "systemd(1)",
        ..BOOT
    },
];
