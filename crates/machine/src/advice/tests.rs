// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table is whole: each knob is in the registry, each advice has an action or a reason, each value its
//! form.

use super::*;
use crate::registry::{ValueKind, of_file};
use crate::snapshot::{Cpu, IdleState, Preemption};
use crate::{CpuSet, Profile, Snapshot};

fn machine() -> Snapshot {
    let state = |us| IdleState { name: format!("C{us}"), exit_latency_us: us, disabled: false };
    let cpu = |id| Cpu {
        id,
        online: true,
        max_frequency_khz: Some(3_000_000),
        governor: Some("ondemand".into()),
        fair_server_runtime_ns: Some(50_000_000),
        idle_states: vec![state(0), state(2), state(85)],
        ..Cpu::default()
    };
    let mut machine = Snapshot { cpus: (0..8).map(cpu).collect(), ..Snapshot::default() };
    machine.possible = machine.online();
    machine.kernel.release = Some("6.12.1".into());
    machine.kernel.preemption = Preemption::Full;
    for option in ["NO_HZ_FULL", "RCU_NOCB_CPU", "IRQ_FORCED_THREADING"] {
        machine.kernel.options.insert(option.into(), "y".into());
    }
    machine.tsc_watched = Some(true);
    for knob in Knob::ALL {
        machine.settings.insert(knob.file(), String::new());
    }
    machine
}

fn aim(machine: &Snapshot, profile: Profile) -> Aim<'_> {
    let isolated: CpuSet = "6-7".parse().unwrap();
    Aim { machine, profile, housekeeping: machine.online().without(&isolated), isolated }
}

#[test]
fn every_knob_is_in_the_registry() {
    for knob in Knob::ALL {
        assert_eq!(knob.setting().name, knob.name());
        assert_eq!(Knob::of(knob.name()), Some(*knob));
    }
}

#[test]
fn every_knob_has_a_plan_or_a_reason() {
    let machine = machine();
    for profile in Profile::ALL {
        for knob in Knob::ALL {
            let advice = knob.advice_on(&aim(&machine, profile), &"6-7".parse().unwrap());
            let said = advice.to_string();
            match advice.why_by_hand() {
                None => assert!(said.ends_with(&format!("({})", knob.planned_by())), "{said}"),
                Some(reason) => assert!(!reason.is_empty() && said.contains(reason), "{said}"),
            }
        }
    }
    assert!(Hand::ALL.iter().all(|hand| hand.reason().len() > 10));
}

#[test]
fn every_value_has_the_form_of_its_setting() {
    let machine = machine();
    for profile in Profile::ALL {
        let aim = aim(&machine, profile);
        for knob in Knob::ALL {
            let value = knob.value(&aim, Some(7)).unwrap();
            let fits = match knob.setting().takes {
                ValueKind::Cpus | ValueKind::MaybeCpus => {
                    value.parse::<CpuSet>().is_ok_and(|set| set.len() >= 2)
                }
                ValueKind::FlagsAndCpus => value.ends_with("domain,6-7"),
                ValueKind::Mask => CpuSet::from_mask(&value).is_ok() && value.parse::<CpuSet>().is_err(),
                ValueKind::Number => value.parse::<i64>().is_ok() || value == "unlimited",
                ValueKind::Switch => ["0", "1"].contains(&value.as_str()),
                ValueKind::Word(words) => words.contains(&value.as_str()),
                ValueKind::Nothing => value.is_empty(),
                ValueKind::Text => !value.is_empty(),
            };
            assert!(fits, "{knob:?}={value}");
        }
    }
}

#[test]
fn a_value_follows_the_machine_and_the_profile() {
    let machine = machine();
    let (periodic, audio) = (aim(&machine, Profile::Periodic), aim(&machine, Profile::Audio));
    let cpus: CpuSet = "6-7".parse().unwrap();
    let latency = "/sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us for each of cpus 6-7";
    let said = |knob: Knob, aim: &Aim| knob.advice_on(aim, &cpus).to_string();
    assert_eq!(said(Knob::ResumeLatency, &periodic), format!("echo 2 > {latency} (isolator tune plan)"));
    assert_eq!(said(Knob::ResumeLatency, &audio), format!("echo 100 > {latency} (isolator tune plan)"));
    assert_eq!(
        Knob::NohzFull.advice(&periodic).to_string(),
        "add nohz_full=6-7 to the boot line (in no plan here: a loop that sleeps pays for it at each wakeup)"
    );
    let poll = aim(&machine, Profile::Poll);
    assert_eq!(
        Knob::NohzFull.advice(&poll).to_string(),
        "add nohz_full=6-7 to the boot line (isolator tune plan)"
    );
    assert_eq!(Knob::TimerMigration.value(&poll, None).as_deref(), Some("1"));
    assert_eq!(
        Knob::IrqAffinity.advice_for(&poll, 45).to_string(),
        "echo 0-5 > /proc/irq/45/smp_affinity_list (isolator tune plan)"
    );
}

#[test]
fn no_plan_has_a_file_that_is_not_there() {
    let machine = Snapshot::default();
    let said = Knob::NmiWatchdog.advice(&aim(&machine, Profile::Poll)).to_string();
    assert_eq!(said, "sysctl -w kernel.nmi_watchdog=0 (in no plan here: this file is not seen)");
}

#[test]
fn a_file_of_one_cpu_is_that_of_them_all() {
    for (path, name) in [
        ("/proc/sys/kernel/nmi_watchdog", "kernel.nmi_watchdog"),
        ("/proc/irq/45/smp_affinity_list", "/proc/irq/N/smp_affinity_list"),
        (&Knob::Governor.file_of(7), Knob::Governor.name()),
        (&Knob::CheckInterval.file(), Knob::CheckInterval.name()),
    ] {
        assert_eq!(of_file(path).map(|setting| setting.name), Some(name));
    }
    assert_eq!(of_file("/proc/irq/x/smp_affinity_list"), None);
}
