// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot parameters of the kernel's own work: preemption, RCU, watchdogs, clocks, memory, auditing.

use crate::registry::{BOOT, REAL_TIME, Setting, ValueKind, X86};

const RCU: &str = "Linux 6.12, kernel/rcu/tree.c, kernel/rcu/update.c";
const WATCHDOG: &str = "Linux 6.12, kernel/watchdog.c";

pub(super) const ALL: &[Setting] = &[
    Setting {
        name: "preempt",
        takes: ValueKind::Word(&["none", "voluntary", "full", "lazy"]),
        needs: &["PREEMPT_DYNAMIC"],
        idle_with: &["PREEMPT_RT"],
        since: Some((5, 12)),
        effective: &["/sys/kernel/debug/sched/preempt"],
        rejected: &["Dynamic Preempt: unsupported mode"],
        accepted: &["Dynamic Preempt: *"],
        reason: "full lets the kernel be preempted almost everywhere, short of a real-time kernel",
        cost: "some throughput",
        source: "Linux 6.12, kernel/sched/core.c",
        ..BOOT
    },
    Setting {
        name: "rt_group_sched",
        takes: ValueKind::Switch,
        needs: &["RT_GROUP_SCHED"],
        since: Some((6, 16)),
        reason: "0 ends the sharing out of real-time runtime by control group, and its refusals",
        source: "Linux 6.18, kernel/sched/core.c",
        ..BOOT
    },
    Setting {
        name: "rcupdate.rcu_normal",
        takes: ValueKind::Switch,
        effective: &["/sys/module/rcupdate/parameters/rcu_normal", "/sys/kernel/rcu_normal"],
        since: Some((4, 5)),
        reason: "no expedited grace period interrupts every CPU, from boot on",
        cost: "a slower boot",
        source: RCU,
        ..BOOT
    },
    Setting {
        name: "rcupdate.rcu_normal_after_boot",
        takes: ValueKind::Switch,
        effective: &["/sys/module/rcupdate/parameters/rcu_normal_after_boot"],
        since: Some((4, 5)),
        reason: "once booted, no expedited grace period interrupts every CPU; on a real-time kernel the default",
        cost: "reconfiguring networks and control groups takes longer",
        source: RCU,
        ..BOOT
    },
    Setting {
        name: "rcupdate.rcu_expedited",
        takes: ValueKind::Switch,
        effective: &["/sys/module/rcupdate/parameters/rcu_expedited", "/sys/kernel/rcu_expedited"],
        reason: "1 makes every grace period interrupt all CPUs, isolated ones too",
        source: RCU,
        ..BOOT
    },
    Setting {
        name: "rcutree.kthread_prio",
        takes: ValueKind::Number,
        effective: &["/sys/module/rcutree/parameters/kthread_prio"],
        since: Some((4, 0)),
        reason: "RCU's threads get in beside real-time programs that never sleep",
        cost: "they preempt programs of lower priority",
        source: RCU,
        ..BOOT
    },
    Setting {
        name: "rcutree.use_softirq",
        takes: ValueKind::Switch,
        effective: &["/sys/module/rcutree/parameters/use_softirq"],
        since: Some((5, 3)),
        reason: "0 runs RCU's core in threads (rcuc/N), which have priorities; on a real-time kernel the default",
        source: RCU,
        ..BOOT
    },
    Setting {
        name: "rcutree.nohz_full_patience_delay",
        takes: ValueKind::Number,
        effective: &["/sys/module/rcutree/parameters/nohz_full_patience_delay"],
        since: Some((6, 11)),
        reason: "RCU waits so many ms before it interrupts a nohz_full CPU",
        cost: "longer grace periods",
        source: RCU,
        ..BOOT
    },
    Setting {
        name: "rcutree.enable_rcu_lazy",
        takes: ValueKind::Switch,
        needs: &["RCU_LAZY"],
        effective: &["/sys/module/rcutree/parameters/enable_rcu_lazy"],
        since: Some((6, 8)),
        reason: "0 has callbacks of offloaded CPUs done without a delay",
        cost: "power",
        source: RCU,
        ..BOOT
    },
    Setting {
        name: "nosoftlockup",
        takes: ValueKind::Nothing,
        needs: &["SOFTLOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/soft_watchdog"],
        reason: "no timer and no stopping thread on every CPU each few seconds",
        cost: "a CPU that hangs is not reported; kernel.watchdog_cpumask spares isolated CPUs only",
        source: WATCHDOG,
        ..BOOT
    },
    Setting {
        name: "nowatchdog",
        takes: ValueKind::Nothing,
        needs: &["LOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/watchdog"],
        reason: "no lockup detector",
        cost: "a CPU that hangs is not reported; kernel.watchdog_cpumask spares isolated CPUs only",
        source: WATCHDOG,
        ..BOOT
    },
    Setting {
        name: "nmi_watchdog",
        takes: ValueKind::Text,
        needs: &["HARDLOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/nmi_watchdog"],
        reason: "0 ends the interrupt that a performance counter sends every CPU, which nothing can mask",
        cost: "a CPU that hangs with interrupts off is not reported",
        source: WATCHDOG,
        ..BOOT
    },
    Setting {
        name: "watchdog_thresh",
        takes: ValueKind::Number,
        needs: &["LOCKUP_DETECTOR"],
        effective: &["/proc/sys/kernel/watchdog_thresh"],
        since: Some((5, 0)),
        reason: "seconds until a CPU counts as hung; its timer fires at two fifths of that",
        source: WATCHDOG,
        ..BOOT
    },
    Setting {
        name: "tsc",
        takes: ValueKind::Word(&[
            "reliable",
            "nowatchdog",
            "noirqtime",
            "unstable",
            "recalibrate",
            "watchdog",
        ]),
        architectures: X86,
        effective: &["/sys/devices/system/clocksource/clocksource0/current_clocksource"],
        reason: "nowatchdog ends the timer that visits every CPU twice a second to compare clocks",
        cost: "a counter that drifts is not noticed",
        source: "Linux 6.12, arch/x86/kernel/tsc.c",
        ..BOOT
    },
    Setting {
        name: "clocksource",
        effective: &["/sys/devices/system/clocksource/clocksource0/current_clocksource"],
        reason: "selects the clocksource",
        source: "Linux 6.12, kernel/time/clocksource.c",
        ..BOOT
    },
    Setting {
        name: "highres",
        takes: ValueKind::Word(&["on", "off"]),
        needs: &["HIGH_RES_TIMERS"],
        effective: &["/proc/timer_list"],
        reason: "off rounds every wakeup up to the next tick",
        source: "Linux 6.12, kernel/time/hrtimer.c",
        ..BOOT
    },
    Setting {
        name: "transparent_hugepage",
        takes: ValueKind::Word(&["always", "madvise", "never"]),
        needs: &["TRANSPARENT_HUGEPAGE"],
        effective: &["/sys/kernel/mm/transparent_hugepage/enabled"],
        reason: "never: no page is collected or split behind a program's back, with shootdowns",
        cost: "more misses of the translation cache",
        source: "Linux 6.12, mm/huge_memory.c; not there on a real-time kernel (mm/Kconfig)",
        ..BOOT
    },
    Setting {
        name: "numa_balancing",
        takes: ValueKind::Word(&["enable", "disable"]),
        needs: &["NUMA_BALANCING"],
        effective: &["/proc/sys/kernel/numa_balancing"],
        since: Some((3, 8)),
        reason: "disable: pages are not unmapped to find their users",
        source: "Linux 6.12, mm/mempolicy.c; not there on a real-time kernel (init/Kconfig)",
        ..BOOT
    },
    Setting {
        name: "psi",
        takes: ValueKind::Switch,
        needs: &["PSI"],
        effective: &["/proc/pressure"],
        reason: "0 ends pressure accounting in every switch of tasks",
        cost: "systemd-oomd and others that read /proc/pressure stop working",
        source: "Linux 6.12, kernel/sched/psi.c",
        ..BOOT
    },
    Setting {
        name: "audit",
        takes: ValueKind::Switch,
        needs: &["AUDIT"],
        reason: "0 takes auditing out of every system call",
        cost: "no audit trail",
        source: "Linux 6.12, kernel/audit.c",
        ..BOOT
    },
    Setting {
        name: "mitigations",
        takes: ValueKind::Text,
        effective: &["/sys/devices/system/cpu/vulnerabilities"],
        reason: "off makes system calls cheaper; a worst case is seldom made by them",
        cost: "the machine is open to attacks that its processor allows",
        source: "Linux 6.12, kernel/cpu.c",
        ..BOOT
    },
    Setting {
        name: "mce",
        takes: ValueKind::Text,
        needs: &["X86_MCE"],
        architectures: X86,
        effective: &["/sys/devices/system/machinecheck/machinecheck0/ignore_ce"],
        reason: "ignore_ce ends the polling of corrected errors on every CPU",
        cost: "corrected memory errors are not logged; off: not even fatal ones are handled",
        source: "Linux 6.12, arch/x86/kernel/cpu/mce/core.c",
        ..BOOT
    },
    Setting {
        name: "split_lock_detect",
        takes: ValueKind::Text,
        architectures: X86,
        since: Some((5, 7)),
        effective: &["/proc/sys/kernel/split_lock_mitigate"],
        reason: "off: a program that splits a locked access over two cache lines is not slowed down on purpose",
        cost: "such accesses lock the bus for every CPU, unseen",
        source: "Linux 6.12, arch/x86/kernel/cpu/bus_lock.c",
        ..BOOT
    },
    Setting {
        name: "efi",
        takes: ValueKind::Word(&["noruntime", "runtime"]),
        needs: &["EFI"],
        reason: "noruntime keeps the firmware's services, which may take ms, from being called; on a real-time kernel the default",
        cost: "efibootmgr, bootctl set-oneshot and firmware updates need runtime",
        source: REAL_TIME,
        ..BOOT
    },
    Setting {
        name: "iommu",
        takes: ValueKind::Text,
        effective: &["/sys/kernel/iommu_groups"],
        reason: "pt spares devices of the host the mapping of each transfer",
        cost: "those devices can reach all memory",
        ..BOOT
    },
    Setting {
        name: "sysctl",
        takes: ValueKind::Text,
        needs: &["PROC_SYSCTL"],
        since: Some((5, 8)),
        reason: "sets a sysctl before the first program runs: sysctl.kernel.timer_migration=0",
        source: "Linux 6.12, fs/proc/proc_sysctl.c",
        ..BOOT
    },
    Setting {
        name: "quiet",
        takes: ValueKind::Nothing,
        effective: &["/proc/sys/kernel/printk"],
        reason: "less is printed on a console, which may be slow",
        ..BOOT
    },
    Setting {
        name: "loglevel",
        takes: ValueKind::Number,
        effective: &["/proc/sys/kernel/printk"],
        reason: "less is printed on a console, which may be slow",
        ..BOOT
    },
];
