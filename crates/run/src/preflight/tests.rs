// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each finding appears exactly when it should: one case changes one thing of a machine that is well tuned.

use evidence::Taint as ManifestTaint;
use evidence::manifest::Asked;
use evidence::taint;
use machine::Snapshot;
use machine::snapshot::{Cpu, IdleState, Preemption};

use super::FindingEffect::{Note, Refuse, Taint};
use super::*;

mod numbers;

/// All that goes into a preflight.
struct Case {
    machine: Snapshot,
    asked: Asked,
    clock_resolution_ns: u64,
    privilege: Privilege,
}

impl Case {
    /// Linux 6.12 PREEMPT_RT, CPUs 0-1 for housekeeping, 2-3 isolated and measured.
    fn well_tuned() -> Self {
        let mut machine = Snapshot::default();
        machine.kernel.release = Some("6.12.9-rt".into());
        machine.kernel.preemption = Preemption::RealTime;
        machine.cpus = (0..4)
            .map(|id| Cpu {
                id,
                online: true,
                siblings: CpuSet::from_iter([id]),
                governor: Some("performance".into()),
                idle_states: vec![state("POLL", 0), state("C1", 2)],
                fair_server_runtime_ns: Some(if id < 2 { 50_000_000 } else { 0 }),
                ..Cpu::default()
            })
            .collect();
        machine.isolation.isolated = cpus("2-3");
        machine.isolation.irq_default = cpus("0-1");
        machine.scheduler.rt_runtime_us = Some(950_000);
        machine.scheduler.rt_period_us = Some(1_000_000);
        machine.scheduler.rt_group_scheduling = Some(false);
        machine.scheduler.highest_irq_thread_priority = Some(50);
        machine.cgroup.path = Some("/user.slice".into());
        machine.cgroup.cpus = Some(cpus("0-3"));
        machine.clocksource = Some("tsc".into());
        let asked = Asked {
            probes: vec!["wakeup".into(), "spin".into()],
            cpus: cpus("2-3"),
            house_keeping: cpus("0-1"),
            periods_ns: vec![1_000_000],
            policy: Some("fifo".into()),
            priority: Some(80),
            ..Asked::default()
        };
        let privilege = Privilege {
            cap_sys_nice: false,
            cap_ipc_lock: false,
            rtprio_limit: 95,
            memlock_limit_bytes: None,
            address_space_bytes: 100 << 20,
        };
        Case { machine, asked, clock_resolution_ns: 1, privilege }
    }

    fn findings(&self) -> Vec<PreflightFinding> {
        let spec = &RunSpec::of(self.asked.clone()).unwrap();
        let (clock_resolution_ns, privilege) = (self.clock_resolution_ns, self.privilege);
        preflight(&self.machine, &PreflightRequest { spec, clock_resolution_ns, privilege })
    }

    fn cpu(&mut self, id: usize) -> &mut Cpu {
        &mut self.machine.cpus[id]
    }
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn state(name: &str, exit_latency_us: u64) -> IdleState {
    IdleState { name: name.into(), exit_latency_us, disabled: false }
}

fn probes(case: &mut Case, probe: &str) {
    case.asked.probes = vec![probe.into()];
}

/// The name of a change, the change, and the effect, code and CPU of every finding that it must bring.
type Row = (&'static str, fn(&mut Case), &'static [(FindingEffect, &'static str, Option<u32>)]);

/// Changes one thing at a time and compares everything that is found with what must be.
fn check(rows: &[Row]) {
    for (what, change, expected) in rows {
        let mut case = Case::well_tuned();
        change(&mut case);
        let findings = case.findings();
        let found: Vec<_> =
            findings.iter().map(|finding| (finding.effect, finding.code, finding.cpu)).collect();
        assert_eq!(found, *expected, "{what}: {findings:#?}");
        for finding in findings {
            let line = finding.to_string();
            assert!(!line.contains('\n') && !line.contains("  "), "{what}: one line, evenly spaced: {line}");
            assert!(!finding.reason.is_empty() && !finding.cure.is_empty(), "{what}");
            let listed = taint::CODES.contains(&finding.code);
            assert!(listed || finding.effect != Taint, "{what}: {} cannot be accepted", finding.code);
        }
    }
}

#[test]
fn a_well_tuned_machine_brings_no_finding() {
    assert_eq!(Case::well_tuned().findings(), []);
}

#[test]
fn checks_policy_priority_and_permission() {
    check(&[
        ("SCHED_OTHER", |c| c.asked.policy = Some("other".into()), &[(Taint, "not-real-time-policy", None)]),
        ("SCHED_BATCH", |c| c.asked.policy = Some("batch".into()), &[(Taint, "not-real-time-policy", None)]),
        ("priority 99", |c| (c.asked.priority, c.privilege.rtprio_limit) = (Some(99), 99), &[]),
        (
            "as high as interrupt threads",
            |c| c.asked.priority = Some(50),
            &[(Note, "irq-thread-priority", None)],
        ),
        ("just above interrupt threads", |c| c.asked.priority = Some(51), &[]),
        ("too low an RLIMIT_RTPRIO", |c| c.privilege.rtprio_limit = 79, &[(Refuse, "no-permission", None)]),
        ("just enough RLIMIT_RTPRIO", |c| c.privilege.rtprio_limit = 80, &[]),
        ("CAP_SYS_NICE instead", |c| (c.privilege.rtprio_limit, c.privilege.cap_sys_nice) = (0, true), &[]),
        (
            "SCHED_DEADLINE, for which no RLIMIT helps",
            |c| {
                probes(c, "wakeup");
                c.machine.scheduler.rt_runtime_us = Some(-1);
                (c.asked.policy, c.privilege.rtprio_limit) = (Some("deadline".into()), 99);
            },
            &[(Refuse, "no-permission", None)],
        ),
        (
            "SCHED_OTHER needs no permission",
            |c| (c.asked.policy, c.privilege.rtprio_limit) = (Some("other".into()), 0),
            &[(Taint, "not-real-time-policy", None)],
        ),
        (
            "RLIMIT_MEMLOCK",
            |c| c.privilege.memlock_limit_bytes = Some(8 << 20),
            &[(Taint, "memory-not-locked", None)],
        ),
        ("enough RLIMIT_MEMLOCK", |c| c.privilege.memlock_limit_bytes = Some(100 << 20), &[]),
        (
            "CAP_IPC_LOCK instead",
            |c| (c.privilege.memlock_limit_bytes, c.privilege.cap_ipc_lock) = (Some(0), true),
            &[],
        ),
    ]);
}

#[test]
fn says_where_a_deadline_thread_may_run_and_that_it_has_a_budget() {
    fn deadline(case: &mut Case, probe: &str) {
        probes(case, probe);
        case.asked.policy = Some("deadline".into());
        case.privilege.cap_sys_nice = true;
    }
    check(&[
        ("among isolated CPUs", |c| deadline(c, "wakeup"), &[(Taint, "deadline-not-pinned", None)]),
        (
            "on the only isolated CPU",
            |c| {
                deadline(c, "wakeup");
                c.machine.isolation.isolated = cpus("3");
                c.asked.cpus = cpus("3");
            },
            &[],
        ),
        (
            "without a limit on bandwidth",
            |c| {
                deadline(c, "wakeup");
                c.machine.scheduler.rt_runtime_us = Some(-1);
            },
            &[],
        ),
        (
            "spinning",
            |c| {
                deadline(c, "spin");
                c.machine.scheduler.rt_runtime_us = Some(-1);
            },
            &[(Taint, "deadline-runtime", None)],
        ),
    ]);
}

#[test]
fn the_cure_of_missing_permission_fits_the_place() {
    let mut case = Case::well_tuned();
    case.privilege.rtprio_limit = 0;
    let finding = case.findings().remove(0);
    assert_eq!(finding.reason, "SCHED_FIFO 80 is not permitted: no CAP_SYS_NICE, and RLIMIT_RTPRIO is 0");
    assert!(finding.cure.contains("setcap") && finding.cure.contains("rtprio 98"), "{}", finding.cure);
    case.machine.container = Some("docker".into());
    let finding = case.findings().remove(0);
    assert_eq!(finding.cure, "start the container with --cap-add sys_nice or --ulimit rtprio=80");
    case.machine.container = Some("kubernetes".into());
    let finding = case.findings().remove(0);
    assert_eq!(finding.cure, "add SYS_NICE to securityContext.capabilities of the container");
}

#[test]
fn taints_kernels_that_are_not_real_time() {
    check(&[
        (
            "PREEMPT",
            |c| c.machine.kernel.preemption = Preemption::Full,
            &[(Taint, "not-real-time-kernel", None)],
        ),
        (
            "lazy",
            |c| c.machine.kernel.preemption = Preemption::Lazy,
            &[(Taint, "not-real-time-kernel", None)],
        ),
        (
            "dynamic",
            |c| c.machine.kernel.preemption = Preemption::Dynamic,
            &[(Taint, "not-real-time-kernel", None)],
        ),
        (
            "unknown",
            |c| c.machine.kernel.preemption = Preemption::Unknown,
            &[(Taint, "not-real-time-kernel", None)],
        ),
    ]);
}

fn old_kernel(case: &mut Case) {
    case.machine.kernel.release = Some("6.1.0-rt".into());
    case.machine.cpus.iter_mut().for_each(|cpu| cpu.fair_server_runtime_ns = None);
}

#[test]
fn says_what_stops_a_thread_that_never_sleeps() {
    check(&[
        ("an old kernel throttles a spinner", old_kernel, &[(Taint, "rt-throttling", None)]),
        (
            "an old kernel hardly throttles a wakeup",
            |c| {
                old_kernel(c);
                probes(c, "wakeup");
            },
            &[(Note, "rt-throttling", None)],
        ),
        (
            "an old kernel whose throttling is off",
            |c| {
                old_kernel(c);
                c.machine.scheduler.rt_runtime_us = Some(-1);
            },
            &[],
        ),
        (
            "an old kernel whose runtime is the whole period",
            |c| {
                old_kernel(c);
                c.machine.scheduler.rt_runtime_us = Some(1_000_000);
            },
            &[],
        ),
        (
            "an old kernel and SCHED_OTHER",
            |c| {
                old_kernel(c);
                c.asked.policy = Some("other".into());
            },
            &[(Taint, "not-real-time-policy", None)],
        ),
        (
            "a new kernel with RT group scheduling, in the root group",
            |c| {
                c.machine.scheduler.rt_group_scheduling = Some(true);
                c.machine.cgroup.path = Some("/".into());
            },
            &[(Taint, "rt-throttling", None)],
        ),
        (
            "a kernel of unknown release",
            |c| c.machine.kernel.release = None,
            &[(Taint, "rt-throttling", None)],
        ),
        (
            "the fair server of one CPU",
            |c| c.cpu(3).fair_server_runtime_ns = Some(50_000_000),
            &[(Taint, "fair-server", Some(3))],
        ),
        (
            "fair servers that could not be read",
            |c| c.machine.cpus.iter_mut().for_each(|cpu| cpu.fair_server_runtime_ns = None),
            &[(Taint, "fair-server", None)],
        ),
        (
            "the fair server and a wakeup",
            |c| {
                probes(c, "wakeup");
                c.cpu(3).fair_server_runtime_ns = Some(50_000_000);
            },
            &[(Note, "fair-server", Some(3))],
        ),
    ]);
}

/// A kernel with RT group scheduling that throttles nothing.
fn group_scheduling(case: &mut Case) {
    case.machine.scheduler.rt_group_scheduling = Some(true);
    case.machine.scheduler.rt_runtime_us = Some(-1);
}

#[test]
fn knows_what_a_cgroup_forbids() {
    check(&[
        (
            "a version 1 group without real-time runtime",
            |c| {
                group_scheduling(c);
                c.machine.cgroup.rt_runtime_us = Some(0);
                c.privilege.cap_sys_nice = true;
            },
            &[(Refuse, "rt-group-runtime", None)],
        ),
        (
            "a version 1 group with real-time runtime",
            |c| {
                group_scheduling(c);
                c.machine.cgroup.rt_runtime_us = Some(500_000);
            },
            &[],
        ),
        ("a version 2 group", group_scheduling, &[(Note, "rt-group-runtime", None)]),
        ("no RT group scheduling", |c| c.machine.cgroup.rt_runtime_us = Some(0), &[]),
        (
            "a quota",
            |c| (c.machine.cgroup.quota_us, c.machine.cgroup.quota_period_us) = (Some(50_000), Some(100_000)),
            &[(Note, "cpu-quota", None)],
        ),
        (
            "a quota on the measuring thread itself",
            |c| {
                c.asked.policy = Some("other".into());
                (c.machine.cgroup.quota_us, c.machine.cgroup.quota_period_us) = (Some(50_000), Some(100_000));
            },
            &[(Taint, "not-real-time-policy", None), (Taint, "cpu-quota", None)],
        ),
    ]);
}

#[test]
fn knows_clocks() {
    check(&[
        ("hpet", |c| c.machine.clocksource = Some("hpet".into()), &[(Taint, "clocksource", None)]),
        ("jiffies", |c| c.machine.clocksource = Some("jiffies".into()), &[(Taint, "clocksource", None)]),
        ("kvm-clock", |c| c.machine.clocksource = Some("kvm-clock".into()), &[(Note, "clocksource", None)]),
        ("an Arm counter", |c| c.machine.clocksource = Some("arch_sys_counter".into()), &[]),
        ("unknown", |c| c.machine.clocksource = None, &[]),
    ]);
}

#[test]
fn notes_what_is_below_and_around() {
    check(&[
        ("a guest", |c| c.machine.hypervisor = Some("kvm".into()), &[(Note, "virtual-machine", None)]),
        ("a container", |c| c.machine.container = Some("docker".into()), &[(Note, "container", None)]),
    ]);
}

#[test]
fn notes_a_use_of_another_period_than_the_loops() {
    let loop_of = |purpose: &str, period_ns: u64| {
        let mut case = Case::well_tuned();
        probes(&mut case, "loop");
        (case.asked.purpose, case.asked.periods_ns) = (Some(purpose.into()), vec![period_ns]);
        let findings = case.findings();
        let of_use = findings.iter().filter(|finding| finding.code == "use-period");
        of_use.map(|finding| finding.reason.clone()).collect::<Vec<_>>()
    };
    for (purpose, period_ns) in
        [("control:1kHz", 1_000_000), ("linuxcnc:25us+1ms", 1_000_500), ("ethercat:1kHz", 1_050_000)]
    {
        assert_eq!(loop_of(purpose, period_ns), [""; 0], "{purpose}");
    }
    for (purpose, period_ns, found, of_use) in [
        ("audio:64@48000", 2_666_667, "2,666.667 us", "1,333.333 us"),
        ("control:1kHz", 2_000_000, "2,000 us", "1,000 us"),
        ("linuxcnc:25us+1ms", 4_000_000, "4,000 us", "1,000 us"),
        ("ethercat:1kHz", 500_000, "500 us", "1,000 us"),
    ] {
        let line =
            format!("a loop begins every {found}; {purpose}, which judges it, has a period of {of_use}");
        assert_eq!(loop_of(purpose, period_ns), [line]);
    }
}

/// CPUs 1 and 3 are threads of one core.
fn share_a_core(case: &mut Case) {
    case.cpu(1).siblings = cpus("1,3");
    case.cpu(3).siblings = cpus("1,3");
}

#[test]
fn taints_a_cpu_whose_sibling_is_not_quiet_by_arrangement() {
    check(&[
        ("a housekeeping sibling", share_a_core, &[(Taint, "smt-sibling", Some(3))]),
        (
            "a sibling that is not isolated",
            |c| {
                share_a_core(c);
                c.asked.house_keeping = cpus("0");
            },
            &[(Taint, "smt-sibling", Some(3))],
        ),
        (
            "an isolated sibling",
            |c| {
                share_a_core(c);
                c.asked.house_keeping = cpus("0");
                c.machine.isolation.isolated = cpus("1-3");
            },
            &[],
        ),
        (
            "an isolated sibling that does the housekeeping",
            |c| {
                share_a_core(c);
                c.machine.isolation.isolated = cpus("1-3");
            },
            &[(Taint, "smt-sibling", Some(3))],
        ),
        (
            "an offline sibling",
            |c| {
                share_a_core(c);
                c.asked.house_keeping = cpus("0");
                c.cpu(1).online = false;
            },
            &[],
        ),
        (
            "siblings measured together",
            |c| {
                c.cpu(2).siblings = cpus("2-3");
                c.cpu(3).siblings = cpus("2-3");
            },
            &[(Note, "smt-sibling", None)],
        ),
    ]);
}

#[test]
fn weighs_idle_states_against_the_limit() {
    check(&[
        ("within the limit", |c| c.cpu(2).idle_states.push(state("C6", 85)), &[(Note, "deep-idle", Some(2))]),
        (
            "beyond the limit",
            |c| c.cpu(2).idle_states.push(state("C10", 101)),
            &[(Taint, "deep-idle", Some(2))],
        ),
        ("shallow", |c| c.cpu(2).idle_states.push(state("C1E", 10)), &[]),
        (
            "shallow, but beyond a short limit",
            |c| c.asked.limit = Some("1500ns".into()),
            &[(Taint, "deep-idle", None)],
        ),
        (
            "on every measured CPU, said once",
            |c| (2..4).for_each(|id| c.cpu(id).idle_states.push(state("C6", 85))),
            &[(Note, "deep-idle", None)],
        ),
        ("disabled", |c| c.cpu(2).idle_states.push(IdleState { disabled: true, ..state("C6", 200) }), &[]),
        (
            "held off by the requested latency",
            |c| {
                c.cpu(2).idle_states.push(state("C6", 85));
                c.asked.dma_latency_us = Some(84);
            },
            &[],
        ),
        (
            "allowed by the requested latency",
            |c| {
                c.cpu(2).idle_states.push(state("C6", 85));
                c.asked.dma_latency_us = Some(85);
            },
            &[(Note, "deep-idle", Some(2))],
        ),
        (
            "held off on this CPU",
            |c| {
                c.cpu(2).idle_states.push(state("C6", 200));
                c.cpu(2).idle_latency_limit_us = Some(0);
            },
            &[],
        ),
        (
            "no idling while spinning",
            |c| {
                probes(c, "spin");
                c.cpu(2).idle_states.push(state("C6", 200));
            },
            &[],
        ),
    ]);
}

#[test]
fn notes_what_else_may_use_the_measured_cpus() {
    check(&[
        ("a governor", |c| c.cpu(3).governor = Some("schedutil".into()), &[(Note, "governor", Some(3))]),
        ("a governor elsewhere", |c| c.cpu(0).governor = Some("schedutil".into()), &[]),
        ("no frequency scaling", |c| c.cpu(3).governor = None, &[]),
        (
            "one CPU not isolated",
            |c| c.machine.isolation.isolated = cpus("2"),
            &[(Note, "not-isolated", Some(3))],
        ),
        ("none isolated", |c| c.machine.isolation.isolated = CpuSet::new(), &[(Note, "not-isolated", None)]),
        (
            "isolated by a partition",
            |c| {
                c.machine.isolation.partitions = c.machine.isolation.isolated.clone();
                c.machine.isolation.isolated = CpuSet::new();
            },
            &[],
        ),
        ("interrupts", |c| c.machine.isolation.irq_default = cpus("0-3"), &[(Note, "irq-affinity", None)]),
    ]);
}

#[test]
fn the_hardware_probe_does_not_depend_on_scheduling() {
    let mut case = Case::well_tuned();
    probes(&mut case, "hardware");
    case.machine.kernel.preemption = Preemption::None;
    case.privilege.rtprio_limit = 0;
    share_a_core(&mut case);
    assert_eq!(case.findings(), []);
    case.asked.cpus = cpus("7");
    assert_eq!(case.findings()[0].code, "unknown-cpu");
}

#[test]
fn the_gravest_comes_first() {
    let mut case = Case::well_tuned();
    case.machine.hypervisor = Some("kvm".into());
    case.machine.kernel.preemption = Preemption::Full;
    case.clock_resolution_ns = 4_000_000;
    let effects: Vec<_> = case.findings().iter().map(|finding| finding.effect).collect();
    assert_eq!(effects, [Refuse, Taint, Note]);
}

#[test]
fn becomes_a_taint_of_the_manifest() {
    let mut case = Case::well_tuned();
    share_a_core(&mut case);
    let taint = ManifestTaint::from(case.findings().remove(0));
    assert_eq!((taint.code.as_str(), taint.cpu, taint.load), ("smt-sibling", Some(3), None));
    assert_eq!(taint.reason, "cpu 3 shares its core with cpu 1, on which other work may run");
    assert!(taint.cure.is_some_and(|cure| cure.contains("offline")) && !taint.accepted);
}
