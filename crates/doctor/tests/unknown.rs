// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines on which something cannot be compared or read: the check says so, and passes nothing.

use crate::common::*;
use doctor::FindingOutcome::{Fail, NotApplicable, Pass, Unknown, Warn};
use doctor::Profile::{Periodic, Poll};
use machine::Snapshot;
use machine::inventory::{CpuSample, MachineSample, Thread, ThreadPolicy};

/// The sound machine with another kernel, whose configuration is this text.
fn kernel(release: &'static str, config: &'static str, more: &[(&str, &str)]) -> Snapshot {
    let version = format!("{release}\n");
    let path = format!("boot/config-{release}");
    let mut files = vec![("proc/sys/kernel/osrelease", version.as_str()), (path.as_str(), config)];
    files.extend_from_slice(more);
    sound_but(&files)
}

#[test]
fn an_option_newer_than_the_kernel_is_not_off() {
    let line = ("proc/cmdline", "isolcpus=6-7\n");
    for release in ["4.9.253-rt168-tegra", "3.10.0-1160.rt56.1131.el7.x86_64"] {
        let old = kernel(release, "CONFIG_SMP=y\nCONFIG_NO_HZ_FULL=y\n", &[line]);
        says(&old, Periodic, "kernel-config-cpu-isolation", Pass, "CPUs are isolated");
        says(&old, Periodic, "boot-param-noop", Pass, "every parameter can have an effect");
        says(&old, Periodic, "boot-param-effective", Pass, "visible effect (1)");
        // Nothing isolates: then neither the configuration nor the kernel tells.
        let idle = kernel(
            release,
            "CONFIG_SMP=y\n",
            &[("proc/cmdline", "quiet\n"), ("sys/devices/system/cpu/isolated", "\n")],
        );
        says(&idle, Periodic, "kernel-config-cpu-isolation", Unknown, "need not know");
    }
    let none = [("proc/cmdline", "quiet\n"), ("sys/devices/system/cpu/isolated", "\n")];
    let new = kernel("4.19.59-rt23", "CONFIG_SMP=y\n", &none);
    says(&new, Periodic, "kernel-config-cpu-isolation", Fail, "built without CPU_ISOLATION");
    let named = kernel("4.9.1", "CONFIG_SMP=y\n# CONFIG_CPU_ISOLATION is not set\n", &none);
    says(&named, Periodic, "kernel-config-cpu-isolation", Fail, "built without CPU_ISOLATION");
}

#[test]
fn what_a_file_shows_comes_before_versions_and_options() {
    // RHEL and the stable kernels took nosmt over.
    let smt = |control| {
        let files = [("proc/cmdline", "nosmt\n"), ("sys/devices/system/cpu/smt/control", control)];
        kernel("4.14.200", "CONFIG_SMP=y\n", &files)
    };
    says(&smt("off\n"), Periodic, "boot-param-noop", Pass, "every parameter can have an effect");
    says(&smt("on\n"), Periodic, "boot-param-noop", Warn, "new in Linux 4.19");
}

#[test]
fn a_file_newer_than_the_kernel_is_no_proof_of_nothing() {
    let old: Vec<(&str, &str)> = SOUND
        .iter()
        .copied()
        .filter(|(path, _)| !path.ends_with("/isolated") && !path.ends_with("/nohz_full"))
        .collect();
    let with = |release, line| {
        let more = [("proc/sys/kernel/osrelease", release), ("proc/cmdline", line)];
        inspect::read_whole(tree(&[&old[..], &more].concat()).path())
    };
    let asked = with("3.18.20\n", "isolcpus=6-7\n");
    says(&asked, Periodic, "iso-present", Unknown, "the effect of the boot line is not visible");
    says(&asked, Periodic, "boot-param-effective", Unknown, "Linux 4.2 is the first that shows it");
    says(&with("3.18.20\n", "quiet\n"), Periodic, "iso-present", Warn, "no CPU is isolated");
    says(&with("6.1.0\n", "isolcpus=6-7\n"), Periodic, "boot-param-effective", Fail, "no such file");
    says(&asked, Periodic, "iso-timer-migration", Unknown, "Linux 4.2 is the first");
}

#[test]
fn flags_of_isolcpus_that_the_kernel_does_not_take() {
    let with = |release, line| kernel(release, "CONFIG_SMP=y\n", &[("proc/cmdline", line)]);
    let flagged = "isolcpus=managed_irq,domain,6-7\n";
    says(
        &with("4.9.1", flagged),
        Periodic,
        "boot-cpulist-range",
        Fail,
        "5.6 is the first that knows managed_irq",
    );
    says(&with("5.4.1", flagged), Periodic, "boot-cpulist-range", Fail, "drops the whole list");
    says(&with("6.1.1", flagged), Periodic, "boot-cpulist-range", Pass, "existing CPUs");
    let inverse = sound_but(&[
        ("proc/cmdline", "isolcpus=inverse,0 nohz_full=inverse,0\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
    ]);
    says(&inverse, Periodic, "boot-cpulist-range", Fail, "isolcpus has no flag inverse, the kernel skips it");
    says(&inverse, Periodic, "boot-cpulist-N", Unknown, "nohz_full=inverse,0 is not a list");
    says(&inverse, Periodic, "iso-cpus-online", NotApplicable, "no CPU is isolated");
}

#[test]
fn a_list_that_the_kernel_dropped_is_no_cpu_online() {
    let boot = sound_but(&[("proc/cmdline", "isolcpus=0\n"), ("sys/devices/system/cpu/isolated", "\n")]);
    says(&boot, Periodic, "iso-cpus-online", NotApplicable, "no CPU is isolated");
    says(&boot, Periodic, "boot-param-effective", Fail, "isolcpus=0 did not take effect");
}

/// The sound machine with a queue of an NVMe disk on an isolated CPU, placed by the kernel.
fn managed(line: &'static str, more: &[(&str, &str)]) -> Snapshot {
    let queue = [
        ("proc/cmdline", line),
        ("proc/irq/80/smp_affinity_list", "6\n"),
        ("proc/irq/80/effective_affinity_list", "6\n"),
        ("proc/interrupts", "  CPU0 CPU1\n 80: 0 0  PCI-MSI 2-edge      nvme0q6\n"),
    ];
    sound_but(&[&queue[..], more].concat())
}

#[test]
fn managed_interrupts_are_delivered_whoever_places_them() {
    let shown = ("sys/kernel/debug/irq/irqs/80", "dstate: 0x37608200\n  IRQD_AFFINITY_MANAGED\n");
    let asked = managed("isolcpus=managed_irq,domain,6-7 irqaffinity=0-5\n", &[shown]);
    says(&asked, Periodic, "irq-on-isolated", Warn, "managed interrupts are delivered to cpus 6-7");
    let found = finding(&asked, Periodic, "irq-managed");
    let fix = found.fix.unwrap();
    assert!(fix.contains("fewer queues") && !fix.contains("boot line"), "{fix}");
    let plain = managed("isolcpus=6-7\n", &[shown]);
    assert!(finding(&plain, Periodic, "irq-managed").fix.unwrap().contains("managed_irq"));
    // Without debugfs nothing tells who places it.
    let blind = managed("isolcpus=managed_irq,domain,6-7 irqaffinity=0-5\n", &[]);
    says(&blind, Periodic, "irq-on-isolated", Warn, "80 (nvme0q6)");
    says(&blind, Periodic, "irq-managed", Unknown, "80 (nvme0q6)");
}

#[test]
fn an_interrupt_of_which_nothing_is_shown_passes_nothing() {
    let silent = sound_but(&[("proc/irq/9/smp_affinity_list", "0-7\n")]);
    says(&silent, Periodic, "irq-on-isolated", Unknown, "9 (of an unknown device)");
    says(&silent, Periodic, "irq-pending", Unknown, "9 (of an unknown device)");
    // It was asked to stay away, and cannot be there.
    let away = sound_but(&[("proc/irq/9/smp_affinity_list", "0-5\n")]);
    says(&away, Periodic, "irq-on-isolated", Pass, "no interrupt");
}

#[test]
fn a_log_without_its_beginning_proves_nothing() {
    let late = sound_but(&[("var/log/dmesg", "[900.0] usb 1-1: new device\n")]);
    says(&late, Periodic, "sched-rt-throttled-log", Unknown, "lost its beginning");
    says(&late, Periodic, "clk-tsc-unstable", Unknown, "lost its beginning");
    let clock = ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    let trusted = sound_but(&[("var/log/dmesg", "[900.0] usb 1-1: new device\n"), clock]);
    says(&trusted, Periodic, "clk-tsc-unstable", Pass, "the kernel uses the TSC");
}

#[test]
fn two_services_that_tune_undo_each_other() {
    let enabled = [
        ("etc/systemd/system/multi-user.target.wants/isolator-tune.service", ""),
        ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/system.slice/power-profiles-daemon.service/cgroup.procs", "9\n"),
    ];
    let both = sound_but(&enabled);
    says(&both, Periodic, "svc-tuner-conflict", Warn, "two: isolator-tune, power-profiles-daemon");
    says(&sound_but(&enabled[..1]), Periodic, "svc-tuner-conflict", Pass, "isolator-tune");
    // A container does not see other programs of the host.
    let inside = [&enabled[..1], &[("run/systemd/container", "lxc\n")]].concat();
    says(&sound_but(&inside), Periodic, "svc-tuner-conflict", Unknown, "a container (lxc)");
}

#[test]
fn wsl_is_not_told_to_pin_virtual_cpus() {
    let wsl = sound_but(&[("proc/sys/kernel/osrelease", "5.15.146.1-microsoft-standard-WSL2\n")]);
    assert_eq!(finding(&wsl, Periodic, "virt-guest").fix.as_deref(), Some("run Linux on bare metal"));
}

#[test]
fn threads_that_could_not_be_read_pass_no_check() {
    let blind = sound_but(&[
        (
            "proc/1/stat",
            "1 (init) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        ),
        ("proc/1/status", "Name:\tinit\nCpus_allowed_list:\t0-5\n"),
        ("proc/50/stat", "50 (cut"),
    ]);
    for id in ["thr-prio-99", "iso-user-tasks", "thr-rt-inventory"] {
        says(&blind, Periodic, id, Unknown, "/proc/50/stat makes no sense");
    }
}

#[test]
fn whether_real_time_threads_are_throttled_is_unknown_without_a_configuration() {
    let files: Vec<(&str, &str)> =
        SOUND.iter().copied().filter(|(path, _)| !path.starts_with("boot/config")).collect();
    let limit = [("proc/sys/kernel/sched_rt_runtime_us", "950000\n")];
    let machine = inspect::read_whole(tree(&[&files[..], &limit].concat()).path());
    says(&machine, Poll, "sched-rt-runtime", Unknown, "cannot be told");
    says(&machine, Periodic, "sched-rt-runtime", Pass, "does not reach it");
}

/// The sound machine after a sample of these CPUs in which nothing happened.
fn sampled(list: &str, unread: &[&str]) -> Snapshot {
    let mut machine = sound_but(&[]);
    let cpus: machine::CpuSet = list.parse().unwrap();
    let cpus = cpus.iter().map(|cpu| CpuSample { cpu, ..CpuSample::default() }).collect();
    let unread = unread.iter().map(|line| line.to_string()).collect();
    machine.inventory.as_mut().unwrap().sample =
        Some(MachineSample { duration_ms: 1_000, cpus, unread, ..MachineSample::default() });
    machine
}

#[test]
fn a_cpu_that_was_not_sampled_was_not_quiet() {
    for id in ["irq-ipi-rate", "iso-noise-sample"] {
        says(&sampled("0-7", &[]), Periodic, id, Pass, "");
        says(&sampled("0-6", &[]), Periodic, id, Unknown, "cpus 7 were not sampled");
        let blind = sampled("0-7", &["/proc/interrupts cannot be read"]);
        says(&blind, Periodic, id, Unknown, "cannot be read");
    }
}

#[test]
fn a_thread_that_was_not_sampled_did_not_sleep() {
    let mut machine = sampled("0-7", &[]);
    let thread = Thread {
        id: 9,
        process: 9,
        name: "loop".into(),
        policy: ThreadPolicy::Fifo,
        priority: 80,
        cpus: "7".parse().unwrap(),
        ..Thread::default()
    };
    machine.inventory.as_mut().unwrap().threads = vec![thread];
    says(&machine, Poll, "thr-spinner", Unknown, "loop was not sampled");
    says(&machine, Periodic, "thr-faults", Unknown, "loop was not sampled");
}

#[test]
fn a_container_says_nothing_of_the_hosts_interfaces_and_kernels() {
    let inside = sound_but(&[
        ("run/systemd/container", "lxc\n"),
        ("boot/vmlinuz-6.12.1-rt-amd64", ""),
        ("boot/initrd.img-6.12.1-rt-amd64", ""),
        ("sys/class/net/eth0/device/numa_node", "0\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
    ]);
    for id in ["net-rps", "boot-initrd-version", "boot-root-driver", "thr-prio-99"] {
        let found = finding(&inside, Periodic, id);
        assert_eq!(found.result, Unknown, "{found:#?}");
    }
}
