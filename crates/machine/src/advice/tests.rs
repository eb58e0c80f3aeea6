// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table is whole: each setting is in the registry, each advice has an action or a reason, each value its
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
    for setting in SettingId::ALL {
        machine.settings.insert(setting.file(), String::new());
    }
    machine
}

fn aim(machine: &Snapshot, profile: Profile) -> Aim<'_> {
    let isolated: CpuSet = "6-7".parse().unwrap();
    Aim { machine, profile, housekeeping: machine.online().without(&isolated), isolated }
}

#[test]
fn every_setting_is_in_the_registry() {
    for setting in SettingId::ALL {
        assert_eq!(setting.entry().name, setting.name());
        assert_eq!(SettingId::of(setting.name()), Some(*setting));
    }
}

#[test]
fn every_setting_has_a_plan_or_a_reason() {
    let machine = machine();
    for profile in Profile::ALL {
        for setting in SettingId::ALL {
            let advice = setting.advice_on(&aim(&machine, profile), &"6-7".parse().unwrap());
            let said = advice.to_string();
            match advice.why_no_plan() {
                None => assert!(said.ends_with(&format!("({})", setting.planned_by())), "{said}"),
                Some(reason) => assert!(!reason.is_empty() && said.contains(reason), "{said}"),
            }
        }
    }
    assert!(Manual::ALL.iter().all(|manual| manual.reason().len() > 10));
}

#[test]
fn every_value_has_the_form_of_its_setting() {
    let machine = machine();
    for profile in Profile::ALL {
        let aim = aim(&machine, profile);
        for setting in SettingId::ALL {
            let value = setting.value(&aim, Some(7)).unwrap();
            let fits = match setting.entry().takes {
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
            assert!(fits, "{setting:?}={value}");
        }
    }
}

#[test]
fn a_value_follows_the_machine_and_the_profile() {
    let machine = machine();
    let (periodic, audio) = (aim(&machine, Profile::Periodic), aim(&machine, Profile::Audio));
    let cpus: CpuSet = "6-7".parse().unwrap();
    let latency = "/sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us for each of cpus 6-7";
    let said = |setting: SettingId, aim: &Aim| setting.advice_on(aim, &cpus).to_string();
    assert_eq!(said(SettingId::ResumeLatency, &periodic), format!("echo 2 > {latency} (isolator tune plan)"));
    assert_eq!(said(SettingId::ResumeLatency, &audio), format!("echo 100 > {latency} (isolator tune plan)"));
    assert_eq!(
        SettingId::NohzFull.advice(&periodic).to_string(),
        "add nohz_full=6-7 to the boot line (in no plan here: a loop that sleeps pays for it at each wakeup)"
    );
    let poll = aim(&machine, Profile::Poll);
    assert_eq!(
        SettingId::NohzFull.advice(&poll).to_string(),
        "add nohz_full=6-7 to the boot line (isolator tune plan)"
    );
    assert_eq!(SettingId::TimerMigration.value(&poll, None).as_deref(), Some("1"));
    assert_eq!(
        SettingId::IrqAffinity.advice_for(&poll, 45).to_string(),
        "echo 0-5 > /proc/irq/45/smp_affinity_list (isolator tune plan)"
    );
}

/// The machine with each setting that it can have already.
fn ready(profile: Profile) -> Snapshot {
    let mut machine = machine();
    machine.isolation.isolated = "6-7".parse().unwrap();
    machine.isolation.nohz_full = "6-7".parse().unwrap();
    machine.kernel.command_line = Some("quiet rcu_nocbs=4-7".into());
    machine.scheduler.rt_runtime_us = Some(-1);
    for cpu in &mut machine.cpus {
        cpu.governor = Some("performance".into());
        cpu.idle_latency_limit_us = Some(2);
        cpu.fair_server_runtime_ns = Some(0);
    }
    let plain = machine.clone();
    for knob in SettingId::ALL {
        machine.settings.insert(knob.file(), knob.value(&aim(&plain, profile), None).unwrap_or_default());
    }
    machine
}

#[test]
fn no_advice_asks_for_what_is_already_so() {
    let cpus: CpuSet = "6-7".parse().unwrap();
    let (bare, ready) = (machine(), ready(Profile::Poll));
    let (bare, ready) = (aim(&bare, Profile::Poll), aim(&ready, Profile::Poll));
    for knob in [
        SettingId::Isolcpus,
        SettingId::NohzFull,
        SettingId::RcuNocbs,
        SettingId::RtRuntime,
        SettingId::Governor,
        SettingId::FairServer,
        SettingId::ResumeLatency,
        SettingId::NmiWatchdog,
        SettingId::StatInterval,
        SettingId::Workqueues,
        SettingId::RcuNormal,
        SettingId::WatchdogCpumask,
    ] {
        assert!(knob.is_so(&ready, &cpus), "{knob:?}");
        assert!(!knob.is_so(&bare, &cpus), "{knob:?}");
        let said = knob.advice_unless_so(&ready, &cpus).to_string();
        assert_eq!(said, format!("{} is as it should be", knob.name()));
        assert!(!knob.advice_unless_so(&bare, &cpus).to_string().contains("as it should"));
    }
    assert!(SettingId::Preempt.is_so(&bare, &cpus), "this kernel is preemptible");
    assert!(!SettingId::Governor.is_so(&ready, &CpuSet::new()), "of no CPU nothing is known");
    assert!(
        SettingId::RcuNocbs.is_so(&ready, &cpus)
            && !SettingId::RcuNocbs.is_so(&ready, &"3,6".parse().unwrap())
    );
}

#[test]
fn no_advice_leads_through_what_is_not_mounted() {
    let cpus: CpuSet = "6-7".parse().unwrap();
    let mut machine = machine();
    assert!(SettingId::FairServer.can_be_set(&aim(&machine, Profile::Poll), &cpus));
    machine.cpus[7].fair_server_runtime_ns = None;
    assert!(!SettingId::FairServer.can_be_set(&aim(&machine, Profile::Poll), &cpus));
    assert!(SettingId::Governor.can_be_set(&aim(&machine, Profile::Poll), &cpus));
}

#[test]
fn no_plan_has_a_file_that_is_not_there() {
    let machine = Snapshot::default();
    let said = SettingId::NmiWatchdog.advice(&aim(&machine, Profile::Poll)).to_string();
    assert_eq!(said, "sysctl -w kernel.nmi_watchdog=0 (in no plan here: this file is not seen)");
}

#[test]
fn a_file_of_one_cpu_is_that_of_them_all() {
    for (path, name) in [
        ("/proc/sys/kernel/nmi_watchdog", "kernel.nmi_watchdog"),
        ("/proc/irq/45/smp_affinity_list", "/proc/irq/N/smp_affinity_list"),
        (&SettingId::Governor.file_of(7), SettingId::Governor.name()),
        (&SettingId::CheckInterval.file(), SettingId::CheckInterval.name()),
    ] {
        assert_eq!(of_file(path).map(|setting| setting.name), Some(name));
    }
    assert_eq!(of_file("/proc/irq/x/smp_affinity_list"), None);
}
