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

    /// Makes changes, each a word: `policy=other`, `old-kernel`, `idle=2:85` (cpu 2 leaves it in 85 us).
    fn with(mut self, changes: &str) -> Self {
        for change in changes.split_whitespace() {
            let (name, value) = change.split_once('=').unwrap_or((change, ""));
            self.change(name, value).unwrap_or_else(|| panic!("unknown change {change}"));
        }
        self
    }

    fn change(&mut self, name: &str, value: &str) -> Option<()> {
        let Case { machine, asked, privilege, .. } = self;
        let text = || Some(value.to_string()).filter(|text| !text.is_empty());
        let number = || value.parse::<u64>().unwrap();
        let of_cpu = || value.split_once(':').map(|(cpu, of)| (cpu.parse::<usize>().unwrap(), of));
        match name {
            "policy" => asked.policy = text(),
            "priority" => asked.priority = value.parse().ok(),
            "probe" => asked.probes = vec![value.into()],
            "cpus" => asked.cpus = cpus(value),
            "housekeeping" => asked.house_keeping = cpus(value),
            "limit" => asked.limit = text(),
            "dma-latency" => asked.dma_latency_us = value.parse().ok(),
            "rtprio" => privilege.rtprio_limit = number(),
            "memlock" => privilege.memlock_limit_bytes = Some(number()),
            "cap-sys-nice" => privilege.cap_sys_nice = true,
            "cap-ipc-lock" => privilege.cap_ipc_lock = true,
            "clock-resolution" => self.clock_resolution_ns = number(),
            "preemption" => machine.kernel.preemption = serde_json::from_value(value.into()).unwrap(),
            "release" => machine.kernel.release = text(),
            "old-kernel" => {
                machine.kernel.release = Some("6.1.0-rt".into());
                machine.cpus.iter_mut().for_each(|cpu| cpu.fair_server_runtime_ns = None);
            }
            "rt-runtime" => machine.scheduler.rt_runtime_us = value.parse().ok(),
            "rt-groups" => machine.scheduler.rt_group_scheduling = Some(true),
            "cgroup" => machine.cgroup.path = text(),
            "cgroup-rt-runtime" => machine.cgroup.rt_runtime_us = value.parse().ok(),
            "cgroup-cpus" => machine.cgroup.cpus = Some(cpus(value)),
            "quota" => {
                (machine.cgroup.quota_us, machine.cgroup.quota_period_us) = (Some(50_000), Some(100_000))
            }
            "clocksource" => machine.clocksource = text(),
            "hypervisor" => machine.hypervisor = text(),
            "container" => machine.container = text(),
            "isolated" => machine.isolation.isolated = cpus(value),
            "partitions" => machine.isolation.partitions = cpus(value),
            "irq-default" => machine.isolation.irq_default = cpus(value),
            "known-cpus" => machine.cpus.retain(|cpu| cpus(value).contains(cpu.id)),
            "offline" => machine.cpus[number() as usize].online = false,
            "siblings" => {
                cpus(value).iter().for_each(|cpu| machine.cpus[cpu as usize].siblings = cpus(value))
            }
            "fair-server" => machine.cpus[number() as usize].fair_server_runtime_ns = Some(50_000_000),
            "fair-servers-unread" => {
                machine.cpus.iter_mut().for_each(|cpu| cpu.fair_server_runtime_ns = None)
            }
            _ => {
                let (cpu, of) = of_cpu()?;
                let cpu = &mut machine.cpus[cpu];
                match name {
                    "governor" => cpu.governor = Some(of.to_string()).filter(|name| !name.is_empty()),
                    "idle" => cpu.idle_states.push(state("C6", of.parse().unwrap())),
                    "idle-disabled" => {
                        let state = state("C6", of.parse().unwrap());
                        cpu.idle_states.push(IdleState { disabled: true, ..state });
                    }
                    "idle-limit" => cpu.idle_latency_limit_us = of.parse().ok(),
                    _ => return None,
                }
            }
        }
        Some(())
    }
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn state(name: &str, exit_latency_us: u64) -> IdleState {
    IdleState { name: name.into(), exit_latency_us, disabled: false }
}

/// The name of a case, the changes to a well-tuned machine, and every finding that they must bring: effect,
/// code, and the CPU if it is about one.
type Row<'a> = (&'a str, &'a str, &'a str);

/// Compares everything that is found with what must be.
fn check(rows: &[Row<'_>]) {
    for (name, changes, expected) in rows {
        let findings = Case::well_tuned().with(changes).findings();
        let found: Vec<String> = findings.iter().map(said).collect();
        assert_eq!(found.join(", "), *expected, "{name}: {findings:#?}");
        for finding in findings {
            let line = finding.to_string();
            assert!(!line.contains('\n') && !line.contains("  "), "{name}: one line, evenly spaced: {line}");
            assert!(!finding.reason.is_empty() && !finding.cure.is_empty(), "{name}");
            let listed = taint::CODES.contains(&finding.code);
            assert!(listed || finding.effect != Taint, "{name}: {} cannot be accepted", finding.code);
        }
    }
}

/// A finding as the rows write it.
fn said(finding: &PreflightFinding) -> String {
    let effect = match finding.effect {
        Refuse => "refuse",
        Taint => "taint",
        Note => "note",
    };
    let cpu = finding.cpu.map(|cpu| format!(" of cpu {cpu}")).unwrap_or_default();
    format!("{effect} {}{cpu}", finding.code)
}

#[test]
fn a_well_tuned_machine_brings_no_finding() {
    check(&[("nothing changed", "", "")]);
}

#[test]
fn checks_policy_priority_and_permission() {
    check(&[
        ("SCHED_OTHER", "policy=other", "taint not-real-time-policy"),
        ("SCHED_BATCH", "policy=batch", "taint not-real-time-policy"),
        ("priority 99", "priority=99 rtprio=99", ""),
        ("as high as interrupt threads", "priority=50", "note irq-thread-priority"),
        ("just above interrupt threads", "priority=51", ""),
        ("too low an RLIMIT_RTPRIO", "rtprio=79", "refuse no-permission"),
        ("just enough RLIMIT_RTPRIO", "rtprio=80", ""),
        ("CAP_SYS_NICE instead", "rtprio=0 cap-sys-nice", ""),
        (
            "SCHED_DEADLINE, for which no RLIMIT helps",
            "probe=wakeup rt-runtime=-1 policy=deadline rtprio=99",
            "refuse no-permission",
        ),
        ("SCHED_OTHER needs no permission", "policy=other rtprio=0", "taint not-real-time-policy"),
        ("RLIMIT_MEMLOCK", "memlock=8388608", "taint memory-not-locked"),
        ("enough RLIMIT_MEMLOCK", "memlock=104857600", ""),
        ("CAP_IPC_LOCK instead", "memlock=0 cap-ipc-lock", ""),
    ]);
}

#[test]
fn says_where_a_deadline_thread_may_run_and_that_it_has_a_budget() {
    for (name, changes, expected) in [
        ("among isolated CPUs", "probe=wakeup", "taint deadline-not-pinned"),
        ("on the only isolated CPU", "probe=wakeup isolated=3 cpus=3", ""),
        ("without a limit on bandwidth", "probe=wakeup rt-runtime=-1", ""),
        ("spinning", "probe=spin rt-runtime=-1", "taint deadline-runtime"),
    ] {
        check(&[(name, &format!("policy=deadline cap-sys-nice {changes}"), expected)]);
    }
}

#[test]
fn the_cure_of_missing_permission_fits_the_place() {
    let mut case = Case::well_tuned();
    case.privilege.rtprio_limit = 0;
    let finding = case.findings().remove(0);
    assert_eq!(finding.reason, "SCHED_FIFO 80 is not permitted: no CAP_SYS_NICE, and RLIMIT_RTPRIO is 0");
    assert!(finding.cure.contains("setcap") && finding.cure.contains("rtprio 98"), "{}", finding.cure);
    for (container, cure) in [
        ("docker", "start the container with --cap-add sys_nice or --ulimit rtprio=80"),
        ("kubernetes", "add SYS_NICE to securityContext.capabilities of the container"),
    ] {
        case.machine.container = Some(container.into());
        let finding = case.findings().remove(0);
        let without = "; or measure with --policy other, which taints the result";
        assert_eq!(finding.cure, format!("{cure}{without}"));
    }
}

#[test]
fn taints_kernels_that_are_not_real_time() {
    check(&[
        ("PREEMPT", "preemption=full", "taint not-real-time-kernel"),
        ("lazy", "preemption=lazy", "taint not-real-time-kernel"),
        ("dynamic", "preemption=dynamic", "taint not-real-time-kernel"),
        ("unknown", "preemption=unknown", "taint not-real-time-kernel"),
    ]);
}

#[test]
fn says_what_stops_a_thread_that_never_sleeps() {
    check(&[
        ("an old kernel throttles a spinner", "old-kernel", "taint rt-throttling"),
        ("an old kernel hardly throttles a wakeup", "old-kernel probe=wakeup", "note rt-throttling"),
        ("an old kernel whose throttling is off", "old-kernel rt-runtime=-1", ""),
        ("an old kernel whose runtime is the whole period", "old-kernel rt-runtime=1000000", ""),
        ("an old kernel and SCHED_OTHER", "old-kernel policy=other", "taint not-real-time-policy"),
        ("a new kernel with RT groups, in the root group", "rt-groups cgroup=/", "taint rt-throttling"),
        ("a kernel of unknown release", "release=", "taint rt-throttling"),
        ("the fair server of one CPU", "fair-server=3", "taint fair-server of cpu 3"),
        ("fair servers that could not be read", "fair-servers-unread", "taint fair-server"),
        ("the fair server and a wakeup", "probe=wakeup fair-server=3", "note fair-server of cpu 3"),
    ]);
}

#[test]
fn knows_what_a_cgroup_forbids() {
    // Where RT groups stand in a row, the kernel throttles nothing.
    check(&[
        (
            "a version 1 group without real-time runtime",
            "rt-groups rt-runtime=-1 cgroup-rt-runtime=0 cap-sys-nice",
            "refuse rt-group-runtime",
        ),
        ("a version 1 group with real-time runtime", "rt-groups rt-runtime=-1 cgroup-rt-runtime=500000", ""),
        ("a version 2 group", "rt-groups rt-runtime=-1", "note rt-group-runtime"),
        ("no RT group scheduling", "cgroup-rt-runtime=0", ""),
        ("a quota", "quota", "note cpu-quota"),
        (
            "a quota on the measuring thread itself",
            "policy=other quota",
            "taint not-real-time-policy, taint cpu-quota",
        ),
    ]);
}

#[test]
fn knows_clocks() {
    check(&[
        ("hpet", "clocksource=hpet", "taint clocksource"),
        ("jiffies", "clocksource=jiffies", "taint clocksource"),
        ("kvm-clock", "clocksource=kvm-clock", "note clocksource"),
        ("an Arm counter", "clocksource=arch_sys_counter", ""),
        ("unknown", "clocksource=", ""),
    ]);
}

#[test]
fn notes_what_is_below_and_around() {
    check(&[
        ("a guest", "hypervisor=kvm", "note virtual-machine"),
        ("a container", "container=docker", "note container"),
    ]);
}

#[test]
fn notes_a_use_of_another_period_than_the_loops() {
    let loop_of = |purpose: &str, period_ns: u64| {
        let mut case = Case::well_tuned().with("probe=loop");
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

#[test]
fn taints_a_cpu_whose_sibling_is_not_quiet_by_arrangement() {
    check(&[
        ("a housekeeping sibling", "siblings=1,3", "taint smt-sibling of cpu 3"),
        ("a sibling that is not isolated", "siblings=1,3 housekeeping=0", "taint smt-sibling of cpu 3"),
        ("an isolated sibling", "siblings=1,3 housekeeping=0 isolated=1-3", ""),
        ("an isolated housekeeping sibling", "siblings=1,3 isolated=1-3", "taint smt-sibling of cpu 3"),
        ("an offline sibling", "siblings=1,3 housekeeping=0 offline=1", ""),
        ("siblings measured together", "siblings=2-3", "note smt-sibling"),
    ]);
}

#[test]
fn weighs_idle_states_against_the_limit() {
    check(&[
        ("within the limit", "idle=2:85", "note deep-idle of cpu 2"),
        ("beyond the limit", "idle=2:101", "taint deep-idle of cpu 2"),
        ("shallow", "idle=2:10", ""),
        ("shallow, but beyond a short limit", "limit=1500ns", "taint deep-idle"),
        ("on every measured CPU, said once", "idle=2:85 idle=3:85", "note deep-idle"),
        ("disabled", "idle-disabled=2:200", ""),
        ("held off by the requested latency", "idle=2:85 dma-latency=84", ""),
        ("allowed by the requested latency", "idle=2:85 dma-latency=85", "note deep-idle of cpu 2"),
        ("held off on this CPU", "idle=2:200 idle-limit=2:0", ""),
        ("no idling while spinning", "probe=spin idle=2:200", ""),
    ]);
}

#[test]
fn notes_what_else_may_use_the_measured_cpus() {
    check(&[
        ("a governor", "governor=3:schedutil", "note governor of cpu 3"),
        ("a governor elsewhere", "governor=0:schedutil", ""),
        ("no frequency scaling", "governor=3:", ""),
        ("one CPU not isolated", "isolated=2", "note not-isolated of cpu 3"),
        ("none isolated", "isolated=", "note not-isolated"),
        ("isolated by a partition", "partitions=2-3 isolated=", ""),
        ("interrupts", "irq-default=0-3", "note irq-affinity"),
    ]);
}

#[test]
fn the_hardware_probe_does_not_depend_on_scheduling() {
    check(&[
        ("nothing that scheduling needs", "probe=hardware preemption=none rtprio=0 siblings=1,3", ""),
        ("a CPU that is not there", "probe=hardware cpus=7", "refuse unknown-cpu of cpu 7"),
    ]);
}

#[test]
fn the_gravest_comes_first() {
    check(&[(
        "three at once",
        "hypervisor=kvm preemption=full clock-resolution=4000000",
        "refuse period, taint not-real-time-kernel, note virtual-machine",
    )]);
}

#[test]
fn becomes_a_taint_of_the_manifest() {
    let taint = ManifestTaint::from(Case::well_tuned().with("siblings=1,3").findings().remove(0));
    assert_eq!((taint.code.as_str(), taint.cpu, taint.load), ("smt-sibling", Some(3), None));
    assert_eq!(taint.reason, "cpu 3 shares its core with cpu 1, on which other work may run");
    assert!(taint.cure.is_some_and(|cure| cure.contains("offline")) && !taint.accepted);
}
