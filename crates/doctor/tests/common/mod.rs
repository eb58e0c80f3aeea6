// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines made of files: captured ones, and ones made up for a test.
#![allow(dead_code, reason = "every file of tests uses a part of it")]

#[path = "../../../inspect/tests/common/capture.rs"]
mod capture;

use std::fs;

use doctor::{DoctorQuestion, Finding, FindingOutcome, Profile, Report};
use machine::Snapshot;
use tempfile::TempDir;

/// The names of the captured machines; `machine`'s tests say what each is.
pub use capture::names as captured;

/// A captured machine's files in a folder.
pub fn lay_out(name: &str) -> TempDir {
    capture::lay_out(name, |_| None)
}

/// A folder with these files.
pub fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let place = root.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }
    root
}

/// The files of a machine of eight CPUs on which nothing is wrong that a test is not about; a later file of
/// the same name stands for the earlier one.
pub const SOUND: &[(&str, &str)] = &[
    ("proc/sys/kernel/ostype", "Linux\n"),
    ("proc/sys/kernel/osrelease", "6.12.1-rt-amd64\n"),
    ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.12.1\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    (
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\nmodel name\t: A\nflags\t\t: lm constant_tsc nonstop_tsc tsc_adjust\n",
    ),
    (
        "boot/config-6.12.1-rt-amd64",
        "CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_SMP=y\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_X86_INTEL_PSTATE=y\nCONFIG_IRQ_FORCED_THREADING=y\n",
    ),
    ("sys/devices/system/cpu/present", "0-7\n"),
    ("sys/devices/system/cpu/possible", "0-7\n"),
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("sys/devices/system/cpu/isolated", "6-7\n"),
    ("sys/devices/system/cpu/nohz_full", "\n"),
    ("proc/cmdline", "root=/dev/sda1 ro quiet isolcpus=managed_irq,domain,6-7 irqaffinity=0-5\n"),
    ("proc/irq/default_smp_affinity", "3f\n"),
    ("var/log/dmesg", "[    0.000000] Linux version 6.12.1-rt-amd64\n"),
];

/// A machine of eight CPUs on which most checks find a fault.
pub const WRONG: &[(&str, &str)] = &[
    ("proc/sys/kernel/ostype", "Linux\n"),
    ("proc/sys/kernel/osrelease", "6.12.1-rt-generic\n"),
    ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.1\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    ("proc/sys/kernel/timer_migration", "1\n"),
    ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
    ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
    ("proc/sys/kernel/soft_watchdog", "1\n"),
    ("proc/sys/kernel/watchdog", "1\n"),
    ("proc/sys/kernel/watchdog_cpumask", "0-7\n"),
    ("proc/sys/kernel/nmi_watchdog", "1\n"),
    ("proc/sys/kernel/numa_balancing", "1\n"),
    ("proc/cpuinfo", "vendor_id\t: GenuineIntel\nmodel name\t: A\nflags\t\t: lm tsc hypervisor\n"),
    (
        "boot/config-6.12.1-rt-generic",
        "CONFIG_SMP=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_NONE=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RPS=y\nCONFIG_RT_GROUP_SCHED=y\nCONFIG_PROVE_LOCKING=y\nCONFIG_NUMA_BALANCING=y\n",
    ),
    ("boot/vmlinuz-6.12.1-rt-generic", ""),
    ("boot/vmlinuz-6.1.0-rt-amd64", ""),
    ("boot/config-6.1.0-rt-amd64", "CONFIG_PREEMPT_RT=y\nCONFIG_EXT4_FS=m\n"),
    ("lib/modules/6.1.0-rt-amd64/modules.dep", ""),
    ("lib/modules/6.12.1-rt-generic/modules.dep", ""),
    ("sys/devices/system/cpu/present", "0-7\n"),
    ("sys/devices/system/cpu/possible", "0-7\n"),
    ("sys/devices/system/cpu/online", "0-6\n"),
    ("sys/devices/system/cpu/isolated", "0,5-7\n"),
    ("sys/devices/system/cpu/nohz_full", "4-6\n"),
    ("sys/devices/system/cpu/smt/control", "on\n"),
    ("sys/devices/virtual/workqueue/cpumask", "ff\n"),
    ("sys/kernel/rcu_normal", "0\n"),
    ("sys/kernel/rcu_expedited", "1\n"),
    ("sys/kernel/tracing/current_tracer", "function\n"),
    ("sys/kernel/tracing/set_event", "sched:sched_switch\n"),
    ("sys/kernel/debug/sched/preempt", "(none) voluntary full lazy\n"),
    ("sys/kernel/debug/sched/fair_server/cpu5/runtime", "50000000\n"),
    ("sys/kernel/debug/irq/irqs/24", "IRQD_SINGLE_TARGET\n"),
    ("sys/kernel/debug/irq/irqs/25", "IRQD_AFFINITY_MANAGED\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("sys/kernel/mm/ksm/run", "1\n"),
    ("sys/kernel/sched_ext/state", "enabled\n"),
    ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
    ("sys/devices/system/machinecheck/machinecheck0/check_interval", "12c\n"),
    ("sys/devices/system/machinecheck/machinecheck0/ignore_ce", "0\n"),
    ("sys/module/cpuidle/parameters/off", "1\n"),
    ("sys/module/cpufreq/parameters/off", "0\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    ("sys/devices/system/node/node1/cpulist", "4-7\n"),
    (
        "proc/cmdline",
        "root=/dev/sda1 ro isolcpus=domain,0,5-9 isolcpus=5-N nohz_full=4-6 rcu_nocbs=1-3 irqaffinity=0-7 nohlt skewtick=1 transparent_hugepage=never idle=poll\n",
    ),
    ("proc/irq/default_smp_affinity", "ff\n"),
    ("proc/irq/24/smp_affinity_list", "0-3\n"),
    ("proc/irq/24/effective_affinity_list", "5\n"),
    ("proc/irq/25/smp_affinity_list", "6\n"),
    ("proc/irq/25/effective_affinity_list", "6\n"),
    ("sys/kernel/irq/24/actions", "eth0-rx-0\n"),
    ("sys/kernel/irq/25/actions", "nvme0q6\n"),
    ("sys/class/net/eth0/device/numa_node", "0\n"),
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "60\n"),
    ("proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 100\n"),
    ("proc/modules", "nvidia 1 0 - Live 0x0\n"),
    (
        "var/log/dmesg",
        "[0.0] Linux version 6.12.1\n[0.1] Housekeeping: nohz_full= must match isolcpus=\n[9.0] sched: RT throttling activated\n[9.1] tsc: Marking TSC unstable due to x\n[9.2] Unknown kernel command line parameters \"nohlt\", will be passed to user space.\n",
    ),
    (
        "proc/self/status",
        "Uid:\t1000\t1000\t1000\t1000\nGroups:\t1000 \nCapEff:\t0000000000000000\nSeccomp:\t0\n",
    ),
    (
        "proc/self/limits",
        "Limit Soft Hard Units\nMax locked memory         65536                65536                bytes\nMax realtime priority     0                    0\n",
    ),
    ("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"),
    ("proc/self/cgroup", "0::/\n"),
    ("etc/passwd", "ann:x:1000:1000::/home/ann:/bin/sh\n"),
    ("etc/group", "realtime:x:998:\n"),
    ("etc/security/limits.d/95.conf", "@realtime - rtprio 95\n"),
    ("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_TIMEOUT=5\n"),
    (
        "boot/grub/grub.cfg",
        "set default=\"0\"\nmenuentry 'Debian' --id 'a' {\n\tlinux /vmlinuz-6.12.9 root=/dev/sda1 ro quiet\n}\n",
    ),
    ("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
    ("sys/fs/cgroup/rt/cpuset.cpus.partition", "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n"),
    ("sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs", "700\n"),
    ("sys/fs/cgroup/system.slice/power-profiles-daemon.service/cgroup.procs", "701\n"),
    ("etc/systemd/system/multi-user.target.wants/tlp.service", ""),
    (
        "proc/2/stat",
        "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 0 0 0 0 0 0\n",
    ),
    ("proc/2/status", "Name:\tkthreadd\nCpus_allowed_list:\t0-7\n"),
    (
        "proc/30/stat",
        "30 (rcuop/5) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 0 0 0 0 0 0\n",
    ),
    ("proc/30/status", "Name:\trcuop/5\nCpus_allowed_list:\t0-7\n"),
    (
        "proc/40/stat",
        "40 (irq/24-eth0) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 50 1 0 0 0 0\n",
    ),
    ("proc/40/status", "Name:\tirq/24-eth0\nCpus_allowed_list:\t5\n"),
    (
        "proc/100/stat",
        "100 (loop) S 1 100 100 0 -1 0 0 0 0 0 0 0 0 0 -100 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5 99 1 0 0 0 0\n",
    ),
    (
        "proc/100/status",
        "Name:\tloop\nTgid:\t100\nVmLck:\t 0 kB\nVmRSS:\t 9000 kB\nCpus_allowed_list:\t0-7\n",
    ),
    (
        "proc/700/stat",
        "700 (irqbalance) S 1 700 700 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
    ),
    ("proc/700/status", "Name:\tirqbalance\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-7\n"),
];

/// The same where other things are wrong: power, idle states, a board, a container.
pub const WEAK: &[(&str, &str)] = &[
    ("proc/cmdline", "root=/dev/sda1 quiet\n"),
    ("sys/devices/system/cpu/isolated", "6-7\n"),
    ("sys/devices/system/cpu/cpu6/cpuidle/state0/name", "POLL\n"),
    ("sys/devices/system/cpu/cpu6/cpuidle/state0/latency", "0\n"),
    ("sys/devices/system/cpu/cpu6/cpuidle/state1/name", "C6\n"),
    ("sys/devices/system/cpu/cpu6/cpuidle/state1/latency", "133\n"),
    ("sys/devices/system/cpu/cpu6/cpuidle/state1/disable", "0\n"),
    ("sys/devices/system/cpu/cpu6/power/pm_qos_resume_latency_us", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy6/affected_cpus", "6\n"),
    ("sys/devices/system/cpu/cpufreq/policy6/scaling_driver", "acpi-cpufreq\n"),
    ("sys/devices/system/cpu/cpufreq/policy6/scaling_governor", "ondemand\n"),
    ("sys/devices/system/cpu/cpufreq/policy6/scaling_min_freq", "800000\n"),
    ("sys/devices/system/cpu/cpufreq/policy6/scaling_max_freq", "3000000\n"),
    ("sys/devices/system/cpu/cpufreq/policy7/affected_cpus", "7\n"),
    ("sys/devices/system/cpu/cpufreq/policy7/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpufreq/policy7/scaling_min_freq", "3000000\n"),
    ("sys/devices/system/cpu/cpufreq/policy7/scaling_max_freq", "3000000\n"),
    ("sys/devices/system/cpu/cpu6/thermal_throttle/core_throttle_count", "12\n"),
    ("sys/devices/system/cpu/cpu6/topology/core_cpus_list", "5-6\n"),
    ("sys/devices/system/cpu/cpu5/topology/core_cpus_list", "5-6\n"),
    ("sys/devices/system/cpu/cpu7/topology/core_cpus_list", "7\n"),
    ("etc/nv_tegra_release", "# R36\n"),
    ("etc/nvpmodel.conf", "< POWER_MODEL ID=0 NAME=15W >\n< POWER_MODEL ID=2 NAME=MAXN >\n"),
    ("var/lib/nvpmodel/status", "pmode:0000\n"),
    ("run/systemd/container", "docker\n"),
    ("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"),
    ("proc/self/limits", "Max locked memory         65536 65536 bytes\nMax realtime priority     0 0\n"),
    ("proc/self/cgroup", "3:cpu:/\n0::/\n"),
    ("sys/fs/cgroup/cpu/cpu.rt_runtime_us", "0\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset\n"),
    ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
];

/// [`SOUND`] with `files` besides or instead.
pub fn sound_but(files: &[(&str, &str)]) -> Snapshot {
    let mut all: Vec<(&str, &str)> = SOUND.to_vec();
    all.extend_from_slice(files);
    inspect::read_whole(tree(&all).path())
}

/// The findings of all checks for a profile.
pub fn examined(machine: &Snapshot, profile: Profile) -> Report {
    doctor::examine(machine, &DoctorQuestion { profile, ..DoctorQuestion::default() })
}

/// One check's finding.
#[track_caller]
pub fn finding(machine: &Snapshot, profile: Profile, id: &str) -> Finding {
    let report = examined(machine, profile);
    report.checks.into_iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("no check {id}"))
}

/// Fails unless a check comes out so and says so.
#[track_caller]
pub fn says(machine: &Snapshot, profile: Profile, id: &str, result: FindingOutcome, words: &str) {
    let found = finding(machine, profile, id);
    assert_eq!(found.result, result, "{found:#?}");
    assert!(found.says.contains(words), "{words} is not in {found:#?}");
}
