// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power that devices save, consoles, the kernel's options beside its documentation, and the device of a
//! plan.

use crate::common::*;
use doctor::FindingOutcome::{Fail, NotApplicable, Pass, Unknown, Warn};
use doctor::Profile::{Audio, Periodic, Poll, Vm};
use machine::Snapshot;
use machine::snapshot::Device;

const TURBO: &str = "sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "sys/devices/system/cpu/cpufreq/boost";
const ASPM: &str = "sys/module/pcie_aspm/parameters/policy";
const USB: &str = "sys/module/usbcore/parameters/autosuspend";

#[test]
fn tells_what_saves_power() {
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(Files, &str, _, &str)] = &[
        (&[(TURBO, "1\n")], "pwr-turbo", Pass, "turbo is off"),
        (&[(TURBO, "0\n")], "pwr-turbo", Warn, "turbo is on"),
        (&[(TURBO, "x\n")], "pwr-turbo", Unknown, "neither 0 nor 1"),
        (&[(BOOST, "0\n")], "pwr-turbo", Pass, "turbo is off"),
        (&[(BOOST, "1\n")], "pwr-turbo", Warn, "execution times depend"),
        (&[], "pwr-turbo", NotApplicable, "no switch"),
        (&[(ASPM, "[default] performance powersave\n")], "pwr-aspm", Warn, "where the firmware"),
        (&[(ASPM, "default [performance] powersave\n")], "pwr-aspm", Pass, "stay awake"),
        (&[(ASPM, "default performance [powersave]\n")], "pwr-aspm", Warn, "links sleep"),
        (&[(ASPM, "default performance powersave [powersupersave]\n")], "pwr-aspm", Warn, "links sleep"),
        (&[(ASPM, "default performance\n")], "pwr-aspm", Unknown, "names no policy"),
        (&[(USB, "-1\n")], "pwr-usb-autosuspend", Pass, "not put to sleep"),
        (&[(USB, "2\n")], "pwr-usb-autosuspend", Warn, "after 2 s"),
        (&[(USB, "two\n")], "pwr-usb-autosuspend", Unknown, "not a number"),
    ];
    for (files, id, result, text) in cases {
        says(&sound_but(files), Periodic, id, *result, text);
    }
    says(&sound_but(&[(TURBO, "0\n")]), Audio, "pwr-turbo", NotApplicable, "does not apply");
}

#[test]
fn tells_which_console_is_slow() {
    let with =
        |version: &'static str, release: &'static str, consoles: &'static str, printk: &'static str| {
            sound_but(&[
                ("proc/sys/kernel/version", version),
                ("proc/sys/kernel/osrelease", release),
                ("proc/consoles", consoles),
                ("proc/sys/kernel/printk", printk),
            ])
        };
    let (plain, real_time) = ("#1 SMP PREEMPT_DYNAMIC\n", "#1 SMP PREEMPT_RT\n");
    let serial = "tty0 -WU (EC p  ) 4:7\nttyS0 -W- (EC  a) 4:64\n";
    for (version, release, consoles, printk, result, text) in [
        (plain, "6.12.1\n", serial, "7\t4\t1\t7\n", Warn, "ttyS0 gets messages up to level 6"),
        (plain, "6.12.1\n", "ttyAMA0 -W- (EC  a) 204:64\n", "7 4 1 7\n", Warn, "ttyAMA0 gets"),
        (plain, "6.12.1\n", serial, "4\t4\t1\t7\n", Pass, "errors alone"),
        (plain, "6.12.1\n", serial, "0\t4\t1\t7\n", Pass, "errors alone"),
        (plain, "6.12.1\n", "tty0 -WU (EC p  ) 4:7\n", "7 4 1 7\n", Pass, "no serial line"),
        (plain, "6.12.1\n", serial, "x\n", Unknown, "is no level"),
        (real_time, "6.12.1-rt\n", serial, "7\t4\t1\t7\n", Pass, "by a thread"),
        (real_time, "6.6.1-rt\n", serial, "7\t4\t1\t7\n", Warn, "with interrupts off"),
        (real_time, "5.15.1-rt\n", "hvc0 -W- (EC  a) 229:0\n", "5 4 1 7\n", Warn, "hvc0"),
        (real_time, "6.6.1-rt\n", serial, "3 4 1 7\n", Pass, "errors alone"),
    ] {
        says(&with(version, release, consoles, printk), Periodic, "kernel-console", result, text);
    }
}

#[test]
fn tells_for_how_long_the_host_polls() {
    let path = "sys/module/kvm/parameters/halt_poll_ns";
    says(&sound_but(&[(path, "200000\n")]), Vm, "virt-halt-poll", Warn, "up to 200 us");
    says(&sound_but(&[(path, "0\n")]), Vm, "virt-halt-poll", Pass, "does not poll");
    says(&sound_but(&[(path, "many\n")]), Vm, "virt-halt-poll", Unknown, "not a number");
    says(&sound_but(&[]), Vm, "virt-halt-poll", NotApplicable, "no /sys/module/kvm");
    says(&sound_but(&[(path, "0\n")]), Periodic, "virt-halt-poll", NotApplicable, "does not apply");
}

fn configured(more: &str, files: &[(&str, &str)]) -> Snapshot {
    let good = "CONFIG_SMP=y\nCONFIG_PREEMPT_RT=y\nCONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y\n\
                CONFIG_EFI_DISABLE_RUNTIME=y\nCONFIG_CPU_IDLE=y\nCONFIG_TRACING=y\nCONFIG_CPU_ISOLATION=y\n";
    let name =
        |line: &str| line.split(['=', ' ']).find(|word| word.starts_with("CONFIG_")).unwrap().to_string();
    let changed: Vec<String> = more.lines().map(name).collect();
    let kept = good.lines().filter(|line| !changed.contains(&name(line)));
    let text = kept.collect::<Vec<_>>().join("\n") + "\n" + more;
    let mut all = vec![("boot/config-6.12.1-rt-amd64", text.as_str())];
    all.extend_from_slice(files);
    sound_but(&all)
}

#[test]
fn compares_options_with_the_kernels_documentation() {
    let id = "kernel-config-expected";
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let governor = |name: &'static str| {
        [
            (format!("{policy}/affected_cpus"), "0-7\n".to_string()),
            (format!("{policy}/scaling_governor"), format!("{name}\n")),
        ]
    };
    let off = "# CONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE is not set\n";
    for (more, profile, result, text) in [
        ("", Periodic, Pass, "as expected"),
        ("# CONFIG_CPU_FREQ is not set\n", Periodic, Warn, "CONFIG_CPU_FREQ is off"),
        (off, Periodic, Warn, "GOV_PERFORMANCE is off"),
        ("CONFIG_CPU_FREQ_GOV_ONDEMAND=y\n", Periodic, Warn, "CONFIG_CPU_FREQ_GOV_ONDEMAND=y"),
        ("CONFIG_IRQSOFF_TRACER=y\n", Periodic, Warn, "CONFIG_IRQSOFF_TRACER=y"),
        ("CONFIG_LOCKUP_DETECTOR=y\n", Periodic, Warn, "CONFIG_LOCKUP_DETECTOR=y"),
        ("CONFIG_PROVE_LOCKING=y\n", Periodic, Warn, "CONFIG_PROVE_LOCKING=y"),
        ("CONFIG_DRM=y\n", Periodic, Pass, "what the use decides: CONFIG_DRM=y"),
        ("# CONFIG_PREEMPT_RT is not set\n", Periodic, Warn, "CONFIG_PREEMPT_RT is off"),
        (
            "# CONFIG_EFI_DISABLE_RUNTIME is not set\nCONFIG_EFI=y\n",
            Periodic,
            Warn,
            "EFI_DISABLE_RUNTIME is off",
        ),
        ("CONFIG_NO_HZ_FULL=y\n", Periodic, Pass, "as expected"),
        ("CONFIG_NO_HZ_FULL=y\n", Poll, Pass, "as expected"),
    ] {
        says(&configured(more, &[]), profile, id, result, text);
    }
    // What the running system makes up for.
    for (more, files) in [
        (off, vec![governor("performance")]),
        ("CONFIG_CPU_FREQ_GOV_ONDEMAND=y\n", vec![governor("performance")]),
    ] {
        let files: Vec<(&str, &str)> =
            files.iter().flatten().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        says(&configured(more, &files), Periodic, id, Pass, "as expected");
    }
    let line = ("proc/cmdline", "root=/dev/sda1 efi=noruntime isolcpus=6-7\n");
    says(
        &configured("# CONFIG_EFI_DISABLE_RUNTIME is not set\n", &[line]),
        Periodic,
        id,
        Pass,
        "as expected",
    );
    let detectors = [("proc/sys/kernel/watchdog", "0\n")];
    says(&configured("CONFIG_LOCKUP_DETECTOR=y\n", &detectors), Periodic, id, Pass, "as expected");
}

/// The sound machine whose eth1 interrupts on this CPU, with a kept plan that gives it to CPU 6.
fn with_device(cpu: &'static str, plan: Option<&str>) -> Snapshot {
    let mut files = vec![
        ("proc/irq/24/smp_affinity_list", cpu),
        ("proc/irq/24/effective_affinity_list", cpu),
        ("sys/kernel/irq/24/actions", "eth1-TxRx-0\n"),
        ("sys/class/net/eth1/device/numa_node", "0\n"),
        ("sys/class/net/eth1/operstate", "up\n"),
        ("sys/class/net/eth1/queues/rx-0/rps_cpus", "0\n"),
    ];
    files.extend(plan.map(|plan| ("var/lib/isolator/tune/plan-0123456789abcdef.json", plan)));
    let mut machine = sound_but(&files);
    machine.devices =
        vec![Device { name: "eth1".into(), kind: "network".into(), irqs: vec![24], ..Device::default() }];
    machine
}

#[test]
fn no_check_contradicts_the_device_of_a_plan() {
    let plan = |device: &str| {
        format!(
            "{{\"actions\": [{{\"kind\": \"device-irqs\", \"target\": \"{device}\", \"value\": \"6\"}}]}}\n"
        )
    };
    let ours = plan("eth1");
    for id in ["net-irq", "irq-on-isolated"] {
        says(&with_device("6\n", Some(&ours)), Periodic, id, Pass, "none but those of eth1");
        says(&with_device("0\n", Some(&ours)), Periodic, id, Pass, "");
        for (cpu, plan) in [("6\n", None), ("7\n", Some(ours.as_str())), ("6\n", Some(plan("eth0").as_str()))]
        {
            let machine = with_device(cpu, plan);
            let found = finding(&machine, Periodic, id);
            assert!(matches!(found.result, Warn | Fail), "{id} {cpu}: {found:?}");
        }
    }
}
