// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is not there, may not be read, or makes no sense passes no check: each file of a machine on which much is wrong is
//! taken away, kept from the reader and overwritten, one at a time, and no fault may turn into a PASS.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::*;
use doctor::{Outcome, Profile};

/// A machine of eight CPUs on which most checks find a fault.
const WRONG: &[(&str, &str)] = &[
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
const WEAK: &[(&str, &str)] = &[
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

/// Files whose presence is what the check looks for, so that without them there is no fault.
const FACTS: &[(&str, &str, &str)] = &[
    ("ctr-detect", "run/systemd/container", "taken away"),
    // A kernel that is not there, and a process that is not.
    ("boot-initrd-version", "boot/vmlinuz-", "taken away"),
    ("boot-root-driver", "boot/vmlinuz-", "taken away"),
    ("iso-kthreads", "proc/2/stat", "taken away"),
    ("svc-tuner-conflict", "multi-user.target.wants/", "taken away"),
    // Any text is a boot line, a file of assignments, a program's name.
    ("boot-param-noop", "proc/cmdline", "overwritten"),
    ("boot-param-duplicates", "proc/cmdline", "overwritten"),
    ("kernel-config-nohz-full", "proc/cmdline", "overwritten"),
    ("kernel-config-rcu-nocb", "proc/cmdline", "overwritten"),
    ("irq-balance", "etc/default/irqbalance", "overwritten"),
    ("net-irq", "/actions", "overwritten"),
];

/// What each check says for each profile.
fn outcomes(root: &Path) -> BTreeMap<(String, String), (Outcome, String)> {
    let machine = machine::read_whole(root);
    let mut all = BTreeMap::new();
    for profile in Profile::ALL {
        for found in examined(&machine, profile).checks {
            all.insert((profile.to_string(), found.id.clone()), (found.result, found.says));
        }
    }
    all
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

type Change = (&'static str, fn(&Path));

const CHANGES: &[Change] = &[
    ("taken away", |path| fs::remove_file(path).unwrap()),
    ("kept from us", |path| {
        fs::remove_file(path).unwrap();
        // A link that leads out of a captured tree is there and is not read.
        symlink("/", path).unwrap();
    }),
    ("overwritten", |path| fs::write(path, b"\xff\xfe no sense \x1b[31m\n").unwrap()),
];

/// One file of each kind: `cpu3/online` stands for those of all CPUs.
fn kinds(root: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
    let kind = |path: &PathBuf| {
        let short = path.strip_prefix(root).unwrap().display().to_string();
        let mut kind = short.replace(|letter: char| letter.is_ascii_digit(), "N");
        while kind.contains("NN") {
            kind = kind.replace("NN", "N");
        }
        kind
    };
    let mut seen = std::collections::BTreeSet::new();
    files.into_iter().filter(|path| seen.insert(kind(path))).collect()
}

fn no_fault_passes(name: &str, root: &Path, files: Vec<PathBuf>, changes: &[Change]) {
    let before = outcomes(root);
    let mut wrong = Vec::new();
    for path in files {
        let short = path.strip_prefix(root).unwrap().display().to_string();
        let content = fs::read(&path).unwrap();
        for (how, change) in changes {
            change(&path);
            for (key, (result, says)) in outcomes(root) {
                let (was, said) = &before[&key];
                let fault = matches!(was, Outcome::Fail | Outcome::Warn);
                let is_fact =
                    FACTS.iter().any(|(id, part, what)| key.1 == *id && short.contains(part) && how == what);
                if fault && result == Outcome::Pass && !is_fact {
                    wrong.push(format!("{name}: {short} {how}: {} {}: {was} {said} -> {says}", key.0, key.1));
                }
            }
            fs::remove_file(&path).ok();
            fs::write(&path, &content).unwrap();
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_fault_passes_for_want_of_a_file() {
    let root = tree(WRONG);
    no_fault_passes("wrong", root.path(), files(root.path()), CHANGES);
}

#[test]
fn no_weakness_passes_for_want_of_a_file() {
    let mut all: Vec<(&str, &str)> = SOUND.to_vec();
    all.extend_from_slice(WEAK);
    let root = tree(&all);
    no_fault_passes("weak", root.path(), files(root.path()), CHANGES);
}

#[test]
fn no_captured_machine_passes_for_want_of_a_file() {
    for name in captured() {
        let root = lay_out(&name);
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/ostype"), "Linux\n").unwrap();
        let some = kinds(root.path(), files(root.path()));
        no_fault_passes(&name, root.path(), some, &CHANGES[..1]);
    }
}

#[test]
fn most_checks_find_a_fault_on_these_machines() {
    let weak = [SOUND, WEAK].concat();
    let seen = [outcomes(tree(WRONG).path()), outcomes(tree(&weak).path())];
    let fault = |(_, (result, _)): &(&(String, String), &(Outcome, String))| {
        matches!(result, Outcome::Fail | Outcome::Warn)
    };
    let found: std::collections::BTreeSet<&str> =
        seen.iter().flatten().filter(fault).map(|((_, id), _)| id.as_str()).collect();
    let all: Vec<&str> = doctor::ALL.iter().copied().flatten().map(|check| check.id).collect();
    let silent: Vec<&&str> = all.iter().filter(|id| !found.contains(**id)).collect();
    // The rest needs a sample, or asks what no file of a tree says.
    assert!(found.len() >= 70, "{} of {}; silent: {silent:?}", found.len(), all.len());
}
