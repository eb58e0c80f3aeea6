// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine on which a plan was applied, and what may have gone wrong with it.

use machine::inventory::{Inventory, Irq, Irqbalance, Reading, Thread};
use machine::snapshot::{Cpu, Preemption};
use machine::{CpuSet, Snapshot};

use super::*;
use crate::plan::{Intent, MadeFor, Plan, Profile, WantedCpus, plan};

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// Four CPUs, Linux 6.12, nothing set as yet.
fn machine() -> Snapshot {
    let mut machine = Snapshot::default();
    for id in 0..4 {
        let governor = Some("schedutil".to_string());
        machine.cpus.push(Cpu {
            id,
            online: true,
            siblings: [id].into_iter().collect(),
            governor,
            ..Cpu::default()
        });
    }
    machine.possible = cpus("0-3");
    machine.kernel.release = Some("6.12.1".into());
    machine.kernel.preemption = Preemption::RealTime;
    machine.kernel.command_line = Some("root=/dev/sda1".into());
    for option in ["CPU_ISOLATION", "RCU_NOCB_CPU"] {
        machine.kernel.options.insert(option.into(), "y".into());
    }
    machine.settings.insert("/proc/irq/default_smp_affinity".into(), "f".into());
    machine.settings.insert("/proc/sys/kernel/watchdog_cpumask".into(), "0-3".into());
    machine.isolation.irq_default = cpus("0-3");
    let kernel = |name: &str, bound, list| Thread {
        name: name.into(),
        kernel: true,
        bound,
        cpus: cpus(list),
        ..Thread::default()
    };
    let irq = |number, name: &str, list| Irq {
        number,
        actions: vec![name.into()],
        affinity: Some(cpus(list)),
        effective: Some(cpus(list)),
        ..Irq::default()
    };
    machine.inventory = Some(Box::new(Inventory {
        whole: true,
        threads: vec![kernel("kworker/3:0", true, "3"), kernel("kswapd0", false, "0-3")],
        irqs: vec![irq(20, "eth0", "3"), irq(21, "usb", "0")],
        ..Inventory::default()
    }));
    machine
}

fn planned(machine: &Snapshot) -> Plan {
    let intent = Intent::new(Profile::Periodic, WantedCpus::Cores(1));
    plan(machine, &MadeFor::default(), &intent).unwrap()
}

/// The machine with the plan in force.
fn applied(plan: &Plan) -> Snapshot {
    let mut machine = machine();
    machine.kernel.command_line = Some(format!("root=/dev/sda1 {}", plan.boot_line()));
    machine.isolation.isolated = plan.isolated.clone();
    machine.isolation.irq_default = plan.housekeeping.clone();
    machine.settings.insert("/proc/irq/default_smp_affinity".into(), "00000007".into());
    machine.settings.insert("/proc/sys/kernel/watchdog_cpumask".into(), "0,1-2".into());
    machine.cpus[3].governor = Some("performance".into());
    let inventory = machine.inventory.as_mut().unwrap();
    inventory.threads[1].cpus = cpus("0-2");
    let nocb =
        Thread { name: "rcuop/3".into(), kernel: true, bound: false, cpus: cpus("0-2"), ..Thread::default() };
    inventory.threads.push(nocb);
    inventory.irqs[0].affinity = Some(cpus("0-2"));
    inventory.irqs[0].effective = Some(cpus("1"));
    inventory.session.rules =
        crate::places::LIMITS.lines().map(|line| format!("{}: {line}", crate::places::LIMITS_FILE)).collect();
    machine
}

fn of<'v>(verified: &'v Verified, target: &str) -> &'v ActionCheck {
    verified.checks.iter().find(|check| check.target == target).unwrap()
}

#[test]
fn nothing_is_in_force_before_a_plan_is_applied_and_all_after() {
    let plan = planned(&machine());
    let before = verify(&plan, &machine(), &[]);
    assert!(!before.in_force);
    assert_eq!(of(&before, "isolcpus").result, CheckState::Not);
    assert_eq!(of(&before, "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor").result, CheckState::Not);
    let after = verify(&plan, &applied(&plan), &[]);
    let not: Vec<_> = after.checks.iter().filter(|check| check.result != CheckState::InForce).collect();
    assert!(after.in_force && not.is_empty(), "{not:#?}");
}

#[test]
fn rights_that_no_program_reads_here_are_not_checked() {
    let plan = planned(&machine());
    let mut machine = applied(&plan);
    machine.inventory.as_mut().unwrap().session.rules.clear();
    assert_eq!(of(&verify(&plan, &machine, &[]), crate::places::LIMITS_FILE).result, CheckState::Not);
    machine.inventory.as_mut().unwrap().session.without_limits_folder = true;
    let verified = verify(&plan, &machine, &[]);
    assert!(verified.in_force && verified.checks.iter().all(|check| check.kind != ActionKind::Limits));
}

#[test]
fn what_the_kernel_was_told_is_not_what_it_does() {
    let plan = planned(&machine());
    let mut machine = applied(&plan);
    machine.isolation.isolated = CpuSet::new();
    let verified = verify(&plan, &machine, &[]);
    let check = of(&verified, "isolcpus");
    assert_eq!((check.running.agrees, check.effective.agrees), (Some(true), Some(false)));
    assert_eq!(check.result, CheckState::Not);
    assert!(check.why.contains("dropped the list"), "{}", check.why);
}

#[test]
fn a_parameter_that_the_kernel_named_as_unknown_is_not_in_force() {
    let plan = planned(&machine());
    let mut machine = applied(&plan);
    let line = "Unknown kernel command line parameters \"BOOT_IMAGE=/vmlinuz rcu-nocb-poll skew_tick=1\", will be passed to user space.";
    machine.inventory.as_mut().unwrap().log.lines.push(line.into());
    let verified = verify(&plan, &machine, &[]);
    assert_eq!(of(&verified, "rcu_nocb_poll").result, CheckState::Not);
    assert_eq!(of(&verified, "skew_tick").result, CheckState::Not);
    assert_eq!(of(&verified, "irqaffinity").result, CheckState::InForce);
}

#[test]
fn a_later_token_with_another_list_wins() {
    let plan = planned(&machine());
    let mut machine = applied(&plan);
    machine.kernel.command_line.as_mut().unwrap().push_str(" irqaffinity=0");
    machine.isolation.irq_default = cpus("0");
    let verified = verify(&plan, &machine, &[]);
    assert_eq!(of(&verified, "irqaffinity").running.value.as_deref(), Some("0"));
    assert_eq!(of(&verified, "irqaffinity").result, CheckState::Not);
}

#[test]
fn interrupts_that_cannot_move_are_named_and_those_that_can_are_held_against_it() {
    let plan = planned(&machine());
    let mut machine = applied(&plan);
    let irqs = &mut machine.inventory.as_mut().unwrap().irqs;
    irqs[1].effective = Some(cpus("3"));
    irqs[1].managed = Some(true);
    let verified = verify(&plan, &machine, &[]);
    assert_eq!(of(&verified, "/proc/irq").result, CheckState::InForce);
    assert!(of(&verified, "/proc/irq").why.contains("21 (usb) on 3"), "{}", of(&verified, "/proc/irq").why);
    machine.inventory.as_mut().unwrap().irqs[1].managed = Some(false);
    assert_eq!(of(&verify(&plan, &machine, &[]), "/proc/irq").result, CheckState::Not);
    // Where the kernel does not say it beforehand.
    machine.inventory.as_mut().unwrap().irqs[1].managed = None;
    assert_eq!(of(&verify(&plan, &machine, &[]), "/proc/irq").result, CheckState::Not);
    assert_eq!(of(&verify(&plan, &machine, &[21]), "/proc/irq").result, CheckState::InForce);
}

#[test]
fn irqbalance_is_judged_by_what_it_was_told() {
    let mut facts = machine();
    facts.services.push("irqbalance".into());
    let plan = planned(&facts);
    let mut machine = applied(&plan);
    let mut told = |banned: Option<&str>| {
        let services = &mut machine.inventory.as_mut().unwrap().services;
        services.processes.insert("irqbalance".into());
        services.irqbalance =
            banned.map(|list| Irqbalance { list: Some(list.to_string()), ..Irqbalance::default() });
        of(&verify(&plan, &machine, &[]), "irqbalance.service").result
    };
    assert_eq!(told(None), CheckState::Unknown);
    assert_eq!(told(Some("")), CheckState::Not);
    assert_eq!(told(Some("3")), CheckState::InForce);
}

#[test]
fn what_may_not_be_read_is_unknown_and_what_is_gone_is_not_in_force() {
    let plan = planned(&machine());
    let path = "/proc/sys/kernel/watchdog_cpumask";
    let mut machine = applied(&plan);
    machine.settings.remove(path);
    let reading = Reading::Unreadable { unreadable: "permission denied".into() };
    machine.inventory.as_mut().unwrap().files.insert(path.into(), reading);
    let verified = verify(&plan, &machine, &[]);
    assert_eq!(of(&verified, path).result, CheckState::Unknown);
    assert!(!verified.in_force && verified.summary.unknown == 1);
    machine.inventory.as_mut().unwrap().files.insert(path.into(), Reading::Absent);
    assert_eq!(of(&verify(&plan, &machine, &[]), path).result, CheckState::Not);
}
