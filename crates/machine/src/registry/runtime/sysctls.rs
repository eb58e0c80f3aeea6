// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sysctls. What was written with `sysctl -w` is gone after a boot; a file in /etc/sysctl.d keeps it.

use crate::registry::{SYSCTL, Setting, ValueKind, X86};

const SCHED: &str = "Linux 6.12, kernel/sched/rt.c, kernel/sched/deadline.c";
const WATCHDOG: &str = "Linux 6.12, kernel/watchdog.c";
const VM: &str = "Linux 6.12, Documentation/admin-guide/sysctl/vm.rst";

pub(super) const ALL: &[Setting] = &[
    Setting {
        name: "kernel.timer_migration",
        takes: ValueKind::Switch,
        needs: &["NO_HZ_COMMON", "SMP"],
        effective: &["/proc/sys/kernel/timer_migration"],
        reason: "0: a timer that a nohz_full CPU starts fires there, and not on another CPU that must then send an IPI",
        cost: "idle CPUs keep their timers, and wake for them",
        source: "Linux 6.12, kernel/time/timer_migration.c, include/linux/sched/nohz.h",
        ..SYSCTL
    },
    Setting {
        name: "kernel.sched_rt_runtime_us",
        effective: &["/proc/sys/kernel/sched_rt_runtime_us"],
        reason: "-1: real-time threads may take all of a CPU's time (before Linux 6.12, or with RT_GROUP_SCHED)",
        cost: "a real-time thread that never sleeps hangs its CPU; and SCHED_DEADLINE admits without a test",
        source: SCHED,
        ..SYSCTL
    },
    Setting {
        name: "kernel.sched_rt_period_us",
        effective: &["/proc/sys/kernel/sched_rt_period_us"],
        reason: "the period of the limit above",
        source: SCHED,
        ..SYSCTL
    },
    Setting {
        name: "kernel.sched_autogroup_enabled",
        takes: ValueKind::Switch,
        needs: &["SCHED_AUTOGROUP"],
        effective: &["/proc/sys/kernel/sched_autogroup_enabled"],
        reason: "groups ordinary tasks by session; real-time policies do not know of it",
        source: "Linux 6.12, kernel/sched/autogroup.c",
        ..SYSCTL
    },
    Setting {
        name: "kernel.sched_schedstats",
        takes: ValueKind::Switch,
        needs: &["SCHEDSTATS"],
        effective: &["/proc/sys/kernel/sched_schedstats"],
        reason: "0 spares each switch of tasks its statistics",
        source: "Linux 6.12, kernel/sched/core.c",
        ..SYSCTL
    },
    Setting {
        name: "kernel.watchdog",
        takes: ValueKind::Switch,
        needs: &["LOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/watchdog"],
        reason: "0 ends both lockup detectors",
        cost: "a CPU that hangs is not reported",
        source: WATCHDOG,
        ..SYSCTL
    },
    Setting {
        name: "kernel.soft_watchdog",
        takes: ValueKind::Switch,
        needs: &["SOFTLOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/soft_watchdog"],
        reason: "0 ends its timer and stopping thread on every CPU",
        cost: "a CPU that hangs is not reported",
        source: WATCHDOG,
        ..SYSCTL
    },
    Setting {
        name: "kernel.watchdog_cpumask",
        takes: ValueKind::Cpus,
        needs: &["LOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/watchdog_cpumask"],
        reason: "spares isolated CPUs the watchdog's timer and keeps it on the others",
        cost: "a hang of an isolated CPU is not reported",
        source: WATCHDOG,
        ..SYSCTL
    },
    Setting {
        name: "kernel.watchdog_thresh",
        needs: &["LOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/watchdog_thresh"],
        reason: "seconds until a CPU counts as hung; its timer fires at two fifths of that",
        source: WATCHDOG,
        ..SYSCTL
    },
    Setting {
        name: "kernel.nmi_watchdog",
        takes: ValueKind::Switch,
        needs: &["HARDLOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/nmi_watchdog"],
        reason: "0 ends an interrupt that nothing can mask, on every CPU",
        cost: "a CPU that hangs with interrupts off is not reported",
        source: WATCHDOG,
        ..SYSCTL
    },
    Setting {
        name: "kernel.hung_task_timeout_secs",
        needs: &["DETECT_HUNG_TASK"],
        effective: &["/proc/sys/kernel/hung_task_timeout_secs"],
        reason: "how often all tasks are looked through for hung ones",
        source: "Linux 6.12, kernel/hung_task.c",
        ..SYSCTL
    },
    Setting {
        name: "kernel.numa_balancing",
        needs: &["NUMA_BALANCING"],
        effective: &["/proc/sys/kernel/numa_balancing"],
        reason: "0: pages are not unmapped to find their users",
        cost: "memory of programs that move between nodes stays where it is",
        source: "Linux 6.12, kernel/sched/fair.c; not there on a real-time kernel (init/Kconfig)",
        ..SYSCTL
    },
    Setting {
        name: "kernel.printk",
        takes: ValueKind::Text,
        effective: &["/proc/sys/kernel/printk"],
        reason: "a low first number keeps messages off a slow console, which is written to with interrupts off",
        cost: "messages are in the log only",
        source: "Linux 6.12, kernel/printk/printk.c",
        fix: "sysctl -w kernel.printk=\"VALUE\"",
        undo: "sysctl -w kernel.printk=\"VALUE\"",
        ..SYSCTL
    },
    Setting {
        name: "kernel.split_lock_mitigate",
        takes: ValueKind::Switch,
        architectures: X86,
        since: Some((6, 2)),
        effective: &["/proc/sys/kernel/split_lock_mitigate"],
        reason: "0: a program that splits a locked access is warned of, not slowed down on purpose",
        cost: "such accesses lock the bus for every CPU",
        source: "Linux 6.12, arch/x86/kernel/cpu/bus_lock.c",
        ..SYSCTL
    },
    Setting {
        name: "kernel.modules_disabled",
        takes: ValueKind::Switch,
        effective: &["/proc/sys/kernel/modules_disabled"],
        reason: "1: no module comes or goes while a deadline counts; each patches code on all CPUs",
        cost: "cannot be undone before the next boot",
        source: "Linux 6.12, kernel/module/main.c",
        undo: "boot again",
        ..SYSCTL
    },
    Setting {
        name: "vm.stat_interval",
        effective: &["/proc/sys/vm/stat_interval"],
        reason: "every so many seconds each CPU adds up its memory statistics; CPUs that were isolated at boot are spared since Linux 6.5",
        cost: "older figures in /proc/vmstat",
        source: VM,
        ..SYSCTL
    },
    Setting {
        name: "vm.swappiness",
        effective: &["/proc/sys/vm/swappiness"],
        reason: "a low number keeps pages of programs in memory; memory that is locked is never swapped",
        source: VM,
        ..SYSCTL
    },
    Setting {
        name: "vm.compaction_proactiveness",
        needs: &["COMPACTION"],
        effective: &["/proc/sys/vm/compaction_proactiveness"],
        reason: "0: memory is not compacted in advance, with pages moved and shootdowns",
        cost: "huge pages are harder to get",
        source: VM,
        ..SYSCTL
    },
    Setting {
        name: "vm.compact_unevictable_allowed",
        takes: ValueKind::Switch,
        needs: &["COMPACTION"],
        effective: &["/proc/sys/vm/compact_unevictable_allowed"],
        reason: "0: locked pages are not moved, so that touching one never faults; on a real-time kernel the default",
        cost: "huge pages are harder to get",
        source: VM,
        ..SYSCTL
    },
    Setting {
        name: "vm.dirty_ratio",
        effective: &["/proc/sys/vm/dirty_ratio"],
        reason: "a low number writes back earlier and less at once",
        source: VM,
        ..SYSCTL
    },
    Setting {
        name: "vm.dirty_background_ratio",
        effective: &["/proc/sys/vm/dirty_background_ratio"],
        reason: "a low number writes back earlier and less at once",
        source: VM,
        ..SYSCTL
    },
    Setting {
        name: "vm.zone_reclaim_mode",
        needs: &["NUMA"],
        effective: &["/proc/sys/vm/zone_reclaim_mode"],
        reason: "0: a node that is full takes memory of another one and does not clean up first",
        source: VM,
        ..SYSCTL
    },
    Setting {
        name: "net.core.busy_poll",
        needs: &["NET_RX_BUSY_POLL"],
        effective: &["/proc/sys/net/core/busy_poll"],
        reason: "waits for packets by polling, so many µs",
        cost: "CPU time",
        source: "Linux 6.12, Documentation/admin-guide/sysctl/net.rst",
        ..SYSCTL
    },
    Setting {
        name: "net.core.rps_default_mask",
        takes: ValueKind::Mask,
        needs: &["RPS"],
        effective: &["/proc/sys/net/core/rps_default_mask"],
        reason: "network devices to come hand packets to these CPUs",
        source: "Linux 6.12, net/core/sysctl_net_core.c",
        ..SYSCTL
    },
];
