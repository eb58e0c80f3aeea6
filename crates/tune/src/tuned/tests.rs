// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of plans that are made by hand; TuneD itself reads one in the tests of the program.

use super::*;
use crate::plan::{Intent, MadeFor, Profile, SCHEMA_VERSION, WantedCpus};

fn plan(actions: &[(ActionKind, &str, &str)]) -> Plan {
    let action = |&(kind, target, value): &(ActionKind, &str, &str)| Action {
        reason: format!("reason of {target}"),
        ..Action::new(kind, target, value)
    };
    let actions: Vec<Action> = actions.iter().map(action).collect();
    let plan = Plan {
        schema_version: SCHEMA_VERSION,
        made_for: MadeFor { hostname: Some("bench\nx".into()), ..MadeFor::default() },
        intent: Intent::new(Profile::Periodic, WantedCpus::Default),
        isolated: "2-3".parse().unwrap(),
        real_time: "2".parse().unwrap(),
        housekeeping: "0-1".parse().unwrap(),
        why: String::new(),
        actions,
        skipped: Vec::new(),
        warnings: Vec::new(),
        digest: String::new(),
    };
    let plan = plan.sealed();
    assert_eq!(crate::allowed::actions(&plan.actions), Ok(()));
    Plan { digest: "0123".into(), ..plan }
}

#[test]
fn each_action_becomes_the_option_that_does_it() {
    use ActionKind::*;
    let made = profile(&plan(&[
        (BootParameter, "isolcpus", "managed_irq,domain,2-3"),
        (BootParameter, "skew_tick", "1"),
        (IrqDefault, "/proc/irq/default_smp_affinity", "3"),
        (Irqs, "/proc/irq", "0-1"),
        (IrqBalance, "irqbalance.service", "2-3"),
        (DeviceIrqs, "eth1", "2"),
        (KernelThreads, "kthreads", "0-1"),
        (Sysctl, "/proc/sys/kernel/watchdog_cpumask", "0-1"),
        (Governor, "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance"),
        (PmQos, "/sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us", "n/a"),
        (Limits, crate::places::LIMITS_FILE, crate::places::LIMITS),
        (ManagerAffinity, "systemd", "0-1"),
        (Service, "robot.service", "fifo 80 2"),
    ]));
    let expected = "\
# Made by `isolator tune export` from the plan 0123
# for the machine bench x with the kernel of a name that is not known.
# Left out: /etc/security/limits.d/95-isolator.conf: TuneD gives users no rights; isolator setup-user does

[main]
summary=Isolator's profile periodic, CPUs 2-3 isolated, 0-1 for the rest

[bootloader]
# GRUB 2, entries of the Boot Loader Specification, and ostree; without a trial boot.
# isolcpus: reason of isolcpus
# skew_tick: reason of skew_tick
cmdline_isolator=+isolcpus=managed_irq,domain,2-3 skew_tick=1

[scheduler]
# reason of /proc/irq/default_smp_affinity
default_irq_smp_affinity=0-1
# reason of /proc/irq
isolated_cores=2-3
# reason of kthreads
runtime=0
cgroup_ps_blacklist=:/[^,]
ps_blacklist=^irq/

[irqbalance]
# reason of irqbalance.service
banned_cpus=2-3
# TuneD writes /etc/sysconfig/irqbalance. Debian's irqbalance reads /etc/default/irqbalance instead: put \
IRQBALANCE_BANNED_CPULIST=2-3 there.

[script]
# reason of eth1
priority=5
script=${i:PROFILE_DIR}/script.sh

[sysctl]
# reason of /proc/sys/kernel/watchdog_cpumask
kernel.watchdog_cpumask=0-1

[sysfs]
# reason of /sys/devices/system/cpu/cpu2/cpufreq/scaling_governor
/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor=performance
# reason of /sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us
/sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us=n/a

[systemd]
# reason of systemd
cpu_affinity=0-1

[service]
# reason of robot.service
service.robot=file:${i:PROFILE_DIR}/robot.service.conf
";
    let [main, script, service] = made.files.as_slice() else { panic!("{made:?}") };
    assert_eq!((main.path.as_str(), main.text.as_str()), ("tuned.conf", expected));
    assert!(script.is_program && script.text.contains("\ndevice='eth1' cpus='2'\n"), "{}", script.text);
    assert_eq!((service.path.as_str(), service.is_program), ("robot.service.conf", false));
    assert!(service.text.ends_with(
        "\n[Service]\nCPUAffinity=\nCPUAffinity=2\nCPUSchedulingPolicy=fifo\nCPUSchedulingPriority=80\n\
         LimitRTPRIO=98\nLimitMEMLOCK=infinity\n"
    ));
    for file in &made.files {
        assert!(file.text.lines().take(2).any(|line| line.starts_with(HEAD)), "{}", file.path);
    }
}

#[test]
fn what_tuned_has_no_option_for_is_left_out_with_the_reason() {
    use ActionKind::*;
    let made = profile(&plan(&[
        (Slice, "system.slice", "0-1"),
        (Partition, crate::places::PARTITION, "2-3"),
        (RealTimeSlice, crate::service::SLICE, "2-3"),
    ]));
    let left: Vec<&str> = made.left_out.iter().map(|left| left.what.as_str()).collect();
    assert_eq!(left, ["system.slice", "/sys/fs/cgroup/isolator", "isolator.slice"]);
    assert_eq!(made.files.len(), 1);
    let lines = made.files[0].text.lines().filter(|line| line.starts_with('['));
    assert_eq!(lines.collect::<Vec<_>>(), ["[main]"]);
    for left in &made.left_out {
        assert!(made.files[0].text.contains(&format!("# Left out: {}: {}\n", left.what, left.reason)));
    }
}

#[test]
fn names_of_profiles_are_those_that_tuned_takes() {
    for name in ["isolator", "robot-1", "a_b.c"] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", ".", "..", "-x", "a b", "a/b", "ä"] {
        assert!(!is_name(name), "{name}");
    }
}
