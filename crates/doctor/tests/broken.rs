// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines on which one thing is wrong, and that the doctor finds it; and a sound one, on which it finds
//! nothing.

use crate::common::*;
use doctor::DoctorQuestion;
use doctor::FindingOutcome::{Fail, NotApplicable, Pass, Unknown, Warn};
use doctor::Profile::{Audio, Periodic, Poll, Server, Vm};
use machine::inventory::{
    CpuSample, Irq, MachineSample, NetworkInterface, ProgramCopy, Reading, SessionLimit, Thread,
    ThreadPolicy, ThreadSample,
};
use machine::snapshot::IdleState;
use machine::{CpuSet, Snapshot};

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// The sound machine with another boot line.
fn booted(line: &str, more: &[(&str, &str)]) -> Snapshot {
    let mut files = vec![("proc/cmdline", line)];
    files.extend_from_slice(more);
    sound_but(&files)
}

/// The sound machine, changed.
fn changed(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut machine = sound_but(&[]);
    change(&mut machine);
    machine
}

/// A check's fix.
fn fix(machine: &Snapshot, id: &str) -> String {
    finding(machine, Periodic, id).fix.unwrap_or_default()
}

fn kernel_thread(id: u32, name: &str, list: &str, bound: bool) -> Thread {
    Thread { id, process: id, name: name.into(), kernel: true, bound, cpus: cpus(list), ..Thread::default() }
}

fn program(id: u32, name: &str, list: &str, priority: u32) -> Thread {
    let policy = if priority > 0 { ThreadPolicy::Fifo } else { ThreadPolicy::Other };
    Thread { id, process: id, name: name.into(), policy, priority, cpus: cpus(list), ..Thread::default() }
}

fn with_threads(threads: Vec<Thread>) -> Snapshot {
    changed(|machine| machine.inventory.as_mut().unwrap().threads = threads)
}

#[test]
fn a_sound_machine_has_no_fault() {
    let machine = sound_but(&[]);
    for id in [
        "kernel-preempt-rt",
        "kernel-config-nohz-full",
        "kernel-debug-options",
        "boot-param-effective",
        "boot-cpulist-range",
        "boot-cpulist-N",
        "boot-param-noop",
        "boot-param-rejected",
        "boot-param-unknown",
        "boot-param-duplicates",
        "iso-present",
        "iso-consistent",
        "iso-cpus-online",
        "iso-boot-cpu",
        "iso-housekeeping-size",
        "irq-default-affinity",
        "clk-tsc-flags",
        "virt-wsl",
    ] {
        let found = finding(&machine, Periodic, id);
        assert_eq!(found.result, Pass, "{found:#?}");
        assert_eq!(found.fix, None);
    }
    let failed: Vec<_> =
        examined(&machine, Periodic).checks.into_iter().filter(|found| found.result == Fail).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn words_of_the_boot_line_that_do_nothing() {
    let misspelt = booted("root=/dev/sda1 isolcpu=6-7 nohz_full=6-7", &[]);
    says(&misspelt, Periodic, "boot-param-unknown", Fail, "isolcpu=6-7 (did you mean isolcpus?)");
    let idle =
        booted("kthread_cpus=0-1 amd_idle.max_cstate=1 nohlt threadirqs nohz=on intel_pstate=passive", &[]);
    let found = finding(&idle, Periodic, "boot-param-noop");
    assert_eq!(found.result, Warn, "{found:#?}");
    for word in ["amd_idle.max_cstate=1", "nohlt", "threadirqs", "nohz=on"] {
        assert!(found.evidence.value.contains(word), "{word}: {found:#?}");
    }
    assert!(!found.evidence.value.contains("intel_pstate"), "{found:#?}");
    // The log has its beginning and does not call it unknown: this kernel carries the patch.
    assert!(!found.evidence.value.contains("kthread_cpus"), "{found:#?}");
    let unknown = "[0.0] Linux version 6.12\n[0.1] Unknown kernel command line parameters \"BOOT_IMAGE=/vmlinuz kthread_cpus=0-1\", will be passed to user space.\n";
    let named = booted("kthread_cpus=0-1", &[("var/log/dmesg", unknown)]);
    says(&named, Periodic, "boot-param-noop", Warn, "kthread_cpus=0-1: no kernel of kernel.org has it");
    says(&named, Periodic, "boot-param-unknown", Pass, "none of them for isolation");
}

#[test]
fn parameters_that_the_kernel_was_built_without() {
    let files = [
        ("boot/config-6.12.1-rt-amd64", "CONFIG_PREEMPT_RT=y\nCONFIG_CPU_ISOLATION=y\n"),
        (
            "var/log/dmesg",
            "[0.0] Linux version 6.12\n[0.0] Housekeeping: nohz unsupported. Build with CONFIG_NO_HZ_FULL\n[0.1] Unknown kernel command line parameters \"nohz_full=6-7 rcu_nocbs=6-7\", will be passed to user space.\n",
        ),
    ];
    let machine = booted("isolcpus=6-7 nohz_full=6-7 rcu_nocbs=6-7", &files);
    says(&machine, Periodic, "kernel-config-nohz-full", Fail, "built without NO_HZ_FULL");
    says(&machine, Periodic, "kernel-config-rcu-nocb", Fail, "built without RCU_NOCB_CPU");
    says(&machine, Periodic, "boot-param-unknown", Fail, "nohz_full=6-7");
    says(&machine, Periodic, "boot-param-rejected", Fail, "nohz unsupported");
    let found = finding(&machine, Periodic, "boot-param-effective");
    assert_eq!(found.result, Fail, "{found:#?}");
    let state = found.state.unwrap();
    assert_eq!((state.running.as_deref(), state.effective.as_deref()), (Some("6-7"), Some("")));
}

#[test]
fn lists_that_the_kernel_drops_or_others_misread() {
    says(
        &booted("isolcpus=6-8", &[]),
        Periodic,
        "boot-cpulist-range",
        Fail,
        "cpu 8 is beyond the last one, 7",
    );
    says(&booted("nohz_full=7-6", &[]), Periodic, "boot-cpulist-range", Fail, "is not a list of CPUs");
    says(&booted("isolcpus=6-N", &[]), Periodic, "boot-cpulist-N", Warn, "other programs misread");
    says(&booted("isolcpus=6-n", &[]), Periodic, "boot-cpulist-N", Fail, "no kernel takes n for a CPU");
    let old = booted("isolcpus=6-N", &[("proc/sys/kernel/osrelease", "5.10.0\n")]);
    says(&old, Periodic, "boot-cpulist-N", Fail, "does not take letters");
    says(&booted("quiet", &[]), Periodic, "boot-cpulist-range", NotApplicable, "no list");
    let sparse = booted("isolcpus=5-6", &[("sys/devices/system/cpu/present", "0-4,6-7\n")]);
    says(&sparse, Periodic, "boot-cpulist-range", Fail, "cpus 5 do not exist");
}

#[test]
fn parameters_that_stand_twice() {
    says(
        &booted("isolcpus=6-7 isolcpus=5", &[]),
        Periodic,
        "boot-param-duplicates",
        Fail,
        "isolcpus=6-7 isolcpus=5",
    );
    says(&booted("isolcpus=6-7 isolcpus=6-7", &[]), Periodic, "boot-param-duplicates", Warn, "several times");
    says(&booted("rcu-nocbs=6 rcu_nocbs=7", &[]), Periodic, "boot-param-duplicates", Warn, "rcu_nocbs");
    says(
        &booted("console=tty0 console=ttyS0 -- isolcpus=1 isolcpus=2", &[]),
        Periodic,
        "boot-param-duplicates",
        Pass,
        "once",
    );
}

#[test]
fn parameters_that_took_no_effect() {
    let thp = booted(
        "transparent_hugepage=never",
        &[("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")],
    );
    says(&thp, Periodic, "boot-param-effective", Fail, "transparent_hugepage=never");
    says(&thp, Periodic, "mem-thp", Warn, "every program");
    let cstate = booted("processor.max_cstate=1", &[("sys/module/processor/parameters/max_cstate", "8\n")]);
    says(&cstate, Periodic, "boot-param-effective", Fail, "says '8'");
    let switched =
        booted("workqueue.power_efficient=1", &[("sys/module/workqueue/parameters/power_efficient", "Y\n")]);
    says(&switched, Periodic, "boot-param-effective", Pass, "visible effect (1)");
    says(&booted("quiet", &[]), Periodic, "boot-param-effective", NotApplicable, "no parameter");
}

#[test]
fn sets_of_cpus_that_do_not_fit() {
    let inverted = booted("isolcpus=6-7 rcu_nocbs=0-5", &[]);
    says(&inverted, Periodic, "iso-consistent", Fail, "inverted");
    let differ = booted("isolcpus=6-7 nohz_full=5-7", &[("sys/devices/system/cpu/nohz_full", "5-7\n")]);
    says(&differ, Periodic, "iso-consistent", Warn, "isolated 6-7, nohz_full 5-7");
    let irq = booted("isolcpus=6-7 irqaffinity=0-7", &[("proc/irq/default_smp_affinity", "ff\n")]);
    says(&irq, Periodic, "iso-consistent", Fail, "irqaffinity");
    says(&irq, Periodic, "irq-default-affinity", Warn, "6-7");
    let boot = sound_but(&[("sys/devices/system/cpu/isolated", "0,7\n")]);
    says(&boot, Periodic, "iso-boot-cpu", Fail, "cpu 0");
    let all = sound_but(&[("sys/devices/system/cpu/isolated", "0-7\n")]);
    says(&all, Periodic, "iso-housekeeping-size", Fail, "there is no housekeeping CPU");
    let offline = sound_but(&[("sys/devices/system/cpu/online", "0-6\n")]);
    says(&offline, Periodic, "iso-cpus-online", Fail, "cpus 7");
    let none = sound_but(&[("sys/devices/system/cpu/isolated", "\n"), ("proc/cmdline", "quiet\n")]);
    says(&none, Periodic, "iso-present", Warn, "no CPU is isolated");
    says(&none, Audio, "iso-present", NotApplicable, "needs no isolated CPU");
    let tickless = [
        ("proc/cmdline", "nohz_full=6-7\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
        ("sys/devices/system/cpu/nohz_full", "6-7\n"),
    ];
    says(&sound_but(&tickless), Periodic, "iso-present", Warn, "cpus 6-7 are in nohz_full alone");
    let beside = [("sys/fs/cgroup/cpuset.cpus.isolated", "6\n")];
    let some = sound_but(&[&tickless[..], &beside].concat());
    says(&some, Periodic, "iso-present", Warn, "cpus 7 are in nohz_full alone");
    let partition = [("sys/fs/cgroup/cpuset.cpus.isolated", "6-7\n")];
    let whole = sound_but(&[&tickless[..], &partition].concat());
    says(&whole, Periodic, "iso-present", Pass, "cpus 6-7");
    says(&none, Periodic, "irq-on-isolated", NotApplicable, "no CPU is isolated");
}

#[test]
fn siblings_that_are_split() {
    let name = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
    let files: Vec<(String, String)> =
        (0..8).map(|cpu| (name(cpu), format!("{},{}", cpu % 4, cpu % 4 + 4))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let split = sound_but(&files);
    says(&split, Periodic, "iso-smt-siblings", Fail, "cpus 2-3");
    says(&split, Periodic, "fw-smt", Fail, "cpus 2-3");
    let whole = sound_but(&[&files[..], &[("sys/devices/system/cpu/isolated", "3,7\n")]].concat());
    says(&whole, Periodic, "iso-smt-siblings", Pass, "");
}

#[test]
fn nohz_full_and_its_timers() {
    let nohz = [("sys/devices/system/cpu/nohz_full", "6-7\n"), ("proc/sys/kernel/timer_migration", "1\n")];
    let machine = booted("isolcpus=6-7 nohz_full=6-7", &nohz);
    says(&machine, Periodic, "iso-nohz-full-fit", Warn, "delays a loop");
    says(&machine, Poll, "iso-nohz-full-fit", Pass, "");
    says(&machine, Periodic, "iso-timer-migration", Fail, "by IPI");
    says(&machine, Poll, "iso-timer-migration", Pass, "");
    says(&sound_but(&nohz[1..]), Periodic, "iso-timer-migration", Pass, "without nohz_full");
    says(&sound_but(&[]), Poll, "iso-nohz-full-fit", Warn, "cpus 6-7");
}

#[test]
fn kernel_threads_and_programs_on_cpus_that_were_set_apart() {
    let machine = with_threads(vec![
        kernel_thread(2, "kthreadd", "0-7", false),
        kernel_thread(20, "migration/7", "7", true),
        kernel_thread(30, "rcuop/6", "0-7", false),
        kernel_thread(40, "irq/24-nvme", "6", false),
        program(100, "sshd", "0-7", 0),
        program(101, "loop", "7", 80),
        program(102, "cron", "0-5", 0),
    ]);
    says(&machine, Periodic, "iso-kthreads", Warn, "1 that could be moved may run on cpus 6-7: kthreadd (2)");
    says(&machine, Periodic, "iso-rcuo-placement", Warn, "rcuop/6");
    says(&machine, Periodic, "iso-rcu-offload", Warn, "cpus 7");
    says(&machine, Periodic, "iso-user-tasks", Warn, "1 may also run on cpus 6-7: sshd (100)");
    says(&machine, Periodic, "thr-affinity", Pass, "every real-time thread");
    let container = with_threads(vec![program(1, "sh", "0-7", 0)]);
    says(&container, Periodic, "iso-kthreads", Unknown, "no kernel thread can be seen");
}

#[test]
fn priorities_of_programs_and_not_of_the_stop_class() {
    let mut migration = kernel_thread(20, "migration/7", "7", true);
    (migration.policy, migration.priority) = (ThreadPolicy::Fifo, 99);
    let mut irq = kernel_thread(40, "irq/24-eth0", "0", false);
    (irq.policy, irq.priority) = (ThreadPolicy::Fifo, 50);
    let quiet = with_threads(vec![migration.clone(), irq.clone(), program(100, "loop", "7", 40)]);
    says(&quiet, Periodic, "thr-prio-99", Pass, "no program");
    says(&quiet, Periodic, "irq-thread-prio", Pass, "programs less");
    let loud = with_threads(vec![migration, irq, program(100, "loop", "7", 99)]);
    says(&loud, Periodic, "thr-prio-99", Warn, "loop (100) fifo 99");
    says(&loud, Periodic, "irq-thread-prio", Warn, "loop (100) 99");
    says(&loud, Poll, "irq-thread-prio", Pass, "");
}

#[test]
fn memory_that_is_not_locked() {
    let with = |locked| {
        let mut thread = program(100, "loop", "7", 80);
        (thread.locked_kib, thread.resident_kib) = (Some(locked), Some(10_000));
        with_threads(vec![thread])
    };
    says(&with(0), Periodic, "thr-mlock", Warn, "loop (100) 0 of 10000 KiB");
    says(&with(60_000), Periodic, "thr-mlock", Pass, "");
    let swap = |locked| {
        let mut machine = with(locked);
        let text = "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 100".to_string();
        machine.inventory.as_mut().unwrap().files.insert("/proc/swaps".into(), Reading::Text(text));
        machine
    };
    says(&swap(0), Periodic, "mem-swap", Warn, "/dev/zram0");
    says(&swap(60_000), Periodic, "mem-swap", Pass, "locked");
}

#[test]
fn interrupts_on_cpus_that_were_set_apart() {
    let irq = |number, name: &str, asked: &str, effective: &str, managed| Irq {
        number,
        actions: vec![name.into()],
        affinity: Some(cpus(asked)),
        effective: Some(cpus(effective)),
        managed,
        ..Irq::default()
    };
    let machine = changed(|machine| {
        let inventory = machine.inventory.as_mut().unwrap();
        inventory.irqs = vec![
            irq(24, "eth0-rx-0", "0-7", "7", Some(false)),
            irq(25, "nvme0q7", "7", "7", Some(true)),
            irq(26, "xhci", "0-3", "5", Some(false)),
            Irq { number: 9, effective: Some(cpus("7")), ..Irq::default() },
        ];
        inventory.interfaces =
            vec![NetworkInterface { name: "eth0".into(), rps: cpus("6"), ..NetworkInterface::default() }];
    });
    says(&machine, Periodic, "irq-on-isolated", Warn, "24 (eth0-rx-0)");
    says(&machine, Periodic, "irq-managed", Warn, "25 (nvme0q7)");
    says(&machine, Periodic, "irq-pending", Warn, "26 (xhci)");
    says(&machine, Periodic, "net-irq", Warn, "24 (eth0-rx-0)");
    says(&machine, Periodic, "net-rps", Warn, "eth0 to cpus 6");
}

#[test]
fn idle_states_and_what_bounds_them() {
    let with = |limit: Option<u64>, asked: Option<i32>| {
        changed(|machine| {
            for cpu in &mut machine.cpus {
                let state = |name: &str, exit_latency_us| IdleState {
                    name: name.into(),
                    exit_latency_us,
                    disabled: false,
                };
                cpu.idle_states = vec![state("POLL", 0), state("C1", 2), state("C6", 133)];
                cpu.idle_latency_limit_us = limit;
            }
            machine.inventory.as_mut().unwrap().dma_latency.limit_us = asked;
        })
    };
    says(&with(None, None), Periodic, "pwr-cstate-latency", Fail, "C6 takes 133 us");
    says(&with(Some(2), None), Periodic, "pwr-cstate-latency", Pass, "C1");
    // n/a bounds it to nothing, and an idle x86 CPU then polls.
    says(&with(Some(0), None), Periodic, "pwr-cstate-latency", Warn, "poll");
    says(&with(None, Some(10)), Periodic, "pwr-cstate-latency", Pass, "C1");
    says(&with(None, Some(0)), Periodic, "pwr-pmqos-holder", Warn, "when it ends");
    says(&with(None, Some(2_000_000_000)), Periodic, "pwr-pmqos-holder", Pass, "no program");
    let slow =
        DoctorQuestion { purpose: Some("control:100Hz".parse().unwrap()), ..DoctorQuestion::default() };
    let report = doctor::examine(&with(None, None), &slow);
    let found = report.checks.iter().find(|found| found.id == "pwr-cstate-latency").unwrap();
    assert_eq!(found.result, Warn, "{found:#?}");
    assert!(
        report.summary.advice[0]
            .contains("every 10,000 us, at most 1,000 us late; isolator prove --use control:100Hz"),
        "{:?}",
        report.summary.advice
    );
}

#[test]
fn what_only_a_sample_shows() {
    let machine = sound_but(&[]);
    for id in ["iso-noise-sample", "irq-ipi-rate"] {
        let found = finding(&machine, Periodic, id);
        assert_eq!((found.result, found.fix.as_deref()), (Unknown, Some("isolator doctor --sample 10s")));
    }
    let sampled = changed(|machine| {
        let count = |name: &str, count| (name.to_string(), count);
        let busy = CpuSample {
            cpu: 7,
            devices: [count("24 eth0", 50)].into(),
            calls: [count("TLB", 2_000)].into(),
            timer: 2_500,
            steal_ticks: 30,
            throttled: 1,
            ..CpuSample::default()
        };
        let spins = ThreadSample {
            id: 100,
            name: "loop".into(),
            ran_ticks: 1_000,
            major_faults: 2,
            ..ThreadSample::default()
        };
        machine.hypervisor = Some("kvm".into());
        let inventory = machine.inventory.as_mut().unwrap();
        inventory.threads = vec![program(100, "loop", "7", 80)];
        inventory.irqs = vec![Irq {
            number: 24,
            actions: vec!["eth0".into()],
            effective: Some(cpus("7")),
            ..Irq::default()
        }];
        inventory.sample = Some(MachineSample {
            duration_ms: 10_000,
            cpus: vec![busy],
            threads: vec![spins],
            ..MachineSample::default()
        });
    });
    says(&sampled, Periodic, "iso-noise-sample", Warn, "50 24 eth0 on cpu 7");
    says(&sampled, Periodic, "irq-on-isolated", Fail, "5 times a second");
    says(&sampled, Periodic, "irq-ipi-rate", Fail, "200 a second");
    says(&sampled, Periodic, "virt-steal", Fail, "3.0 %");
    says(&sampled, Periodic, "pwr-thermal-throttle", Fail, "cpus 7");
    says(&sampled, Periodic, "thr-faults", Fail, "loop (100) 2");
    says(&sampled, Poll, "thr-spinner", Warn, "never sleeps");
}

#[test]
fn limits_and_groups_of_the_session() {
    let with = |priority: u64, locked: Option<u64>, capabilities: u64| {
        changed(|machine| {
            let session = &mut machine.inventory.as_mut().unwrap().session;
            (session.uid, session.user, session.capabilities) =
                (Some(1000), Some("ann".into()), Some(capabilities));
            session.limits.insert(
                "Max realtime priority".into(),
                SessionLimit { soft: Some(priority), hard: Some(priority) },
            );
            session.limits.insert("Max locked memory".into(), SessionLimit { soft: locked, hard: locked });
            session.known_groups.insert("realtime".into(), (998, vec!["ann".into()]));
            session.rules = vec!["/etc/security/limits.d/95.conf: @realtime - rtprio 95".into()];
        })
    };
    let poor = with(0, Some(8 << 20), 0);
    says(&poor, Periodic, "lim-rtprio", Fail, "no real-time priority");
    says(&poor, Periodic, "lim-memlock", Fail, "8 MiB");
    says(&poor, Periodic, "lim-group", Warn, "this session does not");
    says(&with(95, None, 0), Periodic, "lim-rtprio", Pass, "up to 95");
    says(&with(0, None, 1 << 23), Periodic, "lim-rtprio", Pass, "every real-time priority");
    let copied = |copy| {
        let mut machine = with(95, None, 0);
        machine.inventory.as_mut().unwrap().session.copy = copy;
        machine
    };
    says(&copied(None), Periodic, "lim-copy", NotApplicable, "no such copy");
    says(&copied(Some(ProgramCopy::Same)), Periodic, "lim-copy", Pass, "the installed program");
    let stale = copied(Some(ProgramCopy::Differs { installed: "/usr/bin/isolator".into() }));
    says(&stale, Periodic, "lim-copy", Warn, "is not the program /usr/bin/isolator");
    assert!(fix(&stale, "lim-copy").contains("setup-user"));
    let closed = copied(Some(ProgramCopy::Unknown { reason: "permission denied".into() }));
    says(&closed, Periodic, "lim-copy", Unknown, "permission denied");
    let mut container = with(0, None, 0);
    container.container = Some("docker".into());
    says(&container, Periodic, "ctr-rtprio", Fail, "neither");
    says(&container, Periodic, "ctr-detect", Warn, "docker");
    assert_eq!(fix(&container, "lim-rtprio"), "see ctr-rtprio");
    assert!(fix(&container, "ctr-rtprio").starts_with("docker run"));
    container.container = Some("kubernetes".into());
    assert!(fix(&container, "ctr-rtprio").contains("securityContext"));
}

#[test]
fn what_a_pod_lacks() {
    let pod = |cpus: &str, change: fn(&mut Snapshot)| {
        changed(|machine| {
            machine.container = Some("kubernetes".into());
            machine.cgroup.cpus = Some(self::cpus(cpus));
            machine.scheduler.rt_group_scheduling = Some(true);
            machine.inventory.as_mut().unwrap().dma_latency = Default::default();
            change(machine);
        })
    };
    let shared = pod("0-7", |machine| machine.cgroup.rt_runtime_us = Some(0));
    says(&shared, Periodic, "ctr-exclusive", Warn, "every CPU of the node");
    says(&shared, Periodic, "ctr-rtprio", Fail, "no real-time runtime");
    assert!(fix(&shared, "ctr-rtprio").contains("rt_group_sched=0"), "{}", fix(&shared, "ctr-rtprio"));
    says(&shared, Periodic, "ctr-dma-latency", Warn, "no such device");
    says(&shared, Periodic, "pwr-pmqos-holder", NotApplicable, "in a container");
    says(&pod("6-7", |_| ()), Periodic, "ctr-exclusive", Pass, "6-7");
    let open = pod("6-7", |machine| {
        machine.inventory.as_mut().unwrap().dma_latency.limit_us = Some(2_000_000_000);
    });
    says(&open, Periodic, "ctr-dma-latency", Pass, "the container may");
    says(&changed(|_| ()), Periodic, "ctr-exclusive", NotApplicable, "no pod");
}

#[test]
fn what_could_not_be_read_is_no_fault() {
    let machine = changed(|machine| {
        let inventory = machine.inventory.as_mut().unwrap();
        let denied = || Reading::Unreadable { unreadable: "permission denied".into() };
        inventory.files.insert("/sys/kernel/tracing/current_tracer".into(), denied());
        inventory.files.insert("/sys/kernel/debug/sched/fair_server".into(), denied());
        inventory.log = machine::inventory::KernelLog {
            unread: Some("/dev/kmsg: operation not permitted".into()),
            ..Default::default()
        };
    });
    for (profile, id) in [
        (Periodic, "kernel-tracer-active"),
        (Poll, "sched-fair-server"),
        (Periodic, "boot-param-rejected"),
        (Periodic, "sched-rt-throttled-log"),
    ] {
        let found = finding(&machine, profile, id);
        assert_eq!(found.result, Unknown, "{found:#?}");
        assert!(found.fix.as_deref().unwrap().contains("as root"), "{found:#?}");
    }
    says(&machine, Periodic, "sched-fair-server", NotApplicable, "does not affect");
}

#[test]
fn a_server_is_told_that_it_wants_no_real_time_kernel() {
    let report = examined(&sound_but(&[]), Server);
    assert!(report.summary.advice[0].starts_with("You do not want a real-time kernel here."));
    says(&sound_but(&[]), Server, "kernel-preempt-rt", Warn, "throughput");
    says(&sound_but(&[]), Server, "iso-present", NotApplicable, "server");
}

#[test]
fn kernels_that_are_not_real_time() {
    let kernel = |version: &'static str| {
        sound_but(&[("proc/sys/kernel/version", version), ("boot/config-6.12.1-rt-amd64", "CONFIG_SMP=y\n")])
    };
    says(&kernel("#1 SMP PREEMPT_VOLUNTARY x\n"), Periodic, "kernel-rt-false-name", Unknown, "");
    says(&kernel("#1 SMP PREEMPT x\n"), Periodic, "kernel-rt-false-name", Warn, "name says real-time");
    says(&kernel("#1 SMP PREEMPT x\n"), Periodic, "kernel-preempt-rt", Warn, "not real-time");
    let voluntary = sound_but(&[
        ("proc/sys/kernel/version", "#1 SMP x\n"),
        ("boot/config-6.12.1-rt-amd64", "CONFIG_PREEMPT_VOLUNTARY=y\n"),
    ]);
    says(&voluntary, Vm, "kernel-preempt-rt", Fail, "PREEMPT_VOLUNTARY");
    let debugging = sound_but(&[(
        "boot/config-6.12.1-rt-amd64",
        "CONFIG_PREEMPT_RT=y\nCONFIG_PROVE_LOCKING=y\nCONFIG_KASAN=y\n",
    )]);
    says(&debugging, Periodic, "kernel-debug-options", Fail, "PROVE_LOCKING");
    let wsl = sound_but(&[("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n")]);
    says(&wsl, Periodic, "virt-wsl", Fail, "cannot keep deadlines");
}

#[test]
fn grace_periods_throttling_and_watchdogs() {
    let rcu = |normal: &'static str, expedited: &'static str| {
        sound_but(&[("sys/kernel/rcu_normal", normal), ("sys/kernel/rcu_expedited", expedited)])
    };
    says(&rcu("0", "1"), Periodic, "kernel-rcu-normal", Fail, "every grace period");
    says(&rcu("0", "0"), Periodic, "kernel-rcu-normal", Warn, "may be");
    // The kernel asks rcu_normal first.
    says(&rcu("1", "1"), Periodic, "kernel-rcu-normal", Pass, "");
    let throttled =
        sound_but(&[("var/log/dmesg", "[0.0] Linux version 6\n[9.0] sched: RT throttling activated\n")]);
    says(&throttled, Periodic, "sched-rt-throttled-log", Fail, "RT throttling activated");
    let dog = sound_but(&[
        ("proc/sys/kernel/soft_watchdog", "1"),
        ("proc/sys/kernel/watchdog_cpumask", "0-7"),
        ("proc/sys/kernel/nmi_watchdog", "1"),
    ]);
    says(&dog, Periodic, "sched-softlockup", Warn, "cpus 6-7");
    says(&dog, Periodic, "sched-hardlockup", Warn, "the hard lockup watchdog is on");
    let limit = [
        ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
        ("proc/sys/kernel/sched_rt_period_us", "1000000"),
    ];
    says(&sound_but(&limit), Poll, "sched-rt-runtime", Pass, "does not throttle");
    let old = sound_but(&[&limit[..], &[("proc/sys/kernel/osrelease", "5.15.0\n")]].concat());
    says(&old, Poll, "sched-rt-runtime", Warn, "50,000 us of each 1,000,000 us");
    says(&old, Periodic, "sched-rt-runtime", Pass, "does not reach");
}

#[test]
fn a_jetson_in_a_lower_power_mode() {
    let files = [
        ("etc/nv_tegra_release", "# R36\n"),
        (
            "etc/nvpmodel.conf",
            "< POWER_MODEL ID=0 NAME=15W >\n< POWER_MODEL ID=2 NAME=MAXN_SUPER >\n< PM_CONFIG DEFAULT=0 >\n",
        ),
        ("var/lib/nvpmodel/status", "pmode:0000\n"),
    ];
    let found = finding(&sound_but(&files), Periodic, "pwr-nvpmodel");
    assert_eq!(
        (found.result, found.fix.as_deref()),
        (Warn, Some("nvpmodel -m 2, which may need a boot")),
        "{found:#?}"
    );
    let highest = sound_but(&[&files[..2], &[("var/lib/nvpmodel/status", "pmode:0002\n")]].concat());
    says(&highest, Periodic, "pwr-nvpmodel", Pass, "MAXN_SUPER");
    says(&highest, Periodic, "fw-jetson-ab", Unknown, "nvbootctrl");
    says(&sound_but(&[]), Periodic, "pwr-nvpmodel", NotApplicable, "no Jetson");
}

#[test]
fn a_boot_line_that_was_edited_and_never_generated() {
    let files = [
        ("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=6-7\"\nGRUB_TIMEOUT=5\n"),
        ("etc/debian_version", "12.5\n"),
        ("boot/vmlinuz-6.12.1-rt-amd64", ""),
        ("boot/initrd.img-6.12.1-rt-amd64", ""),
        (
            "boot/grub/grub.cfg",
            "set default=\"0\"\nmenuentry 'Debian' --id 'a' {\n\tlinux /vmlinuz-6.12.1-rt-amd64 root=/dev/sda1 ro quiet\n\tinitrd /initrd.img-6.12.1-rt-amd64\n}\n",
        ),
    ];
    let machine = booted("root=/dev/sda1 ro quiet", &files);
    says(&machine, Periodic, "boot-loader-known", Pass, "GRUB");
    says(&machine, Periodic, "boot-cmdline-drift", Warn, "isolcpus=6-7");
    says(&machine, Periodic, "boot-fallback-entry", Fail, "a single entry");
    says(&machine, Periodic, "boot-initrd-version", Pass, "");
}
