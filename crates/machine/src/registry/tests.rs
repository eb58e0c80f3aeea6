// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table itself: complete, without doubles, and right about kernels that we know.

use std::collections::BTreeSet;

use super::*;

fn kernel(release: &str) -> Kernel {
    Kernel { release: Some(release.into()), ..Kernel::default() }
}

fn why_not(name: &str, release: &str, architecture: &str, options: &[(&str, bool)]) -> Option<String> {
    let option = |name: &str| options.iter().find(|(known, _)| *known == name).map(|(_, set)| *set);
    boot_parameter(name)
        .unwrap()
        .cannot_act(&kernel(release), Some(architecture), option)
        .map(|why| why.to_string())
}

#[test]
fn every_entry_is_whole_and_stands_once() {
    let mut seen = BTreeSet::new();
    for setting in all() {
        assert!(
            seen.insert((setting.kind == SettingKind::Boot, setting.name)),
            "{} occurs twice",
            setting.name
        );
        assert!(!setting.reason.is_empty() && !setting.source.is_empty(), "{}", setting.name);
        assert!(!setting.needs.iter().any(|option| option.starts_with("CONFIG_")), "{}", setting.name);
        let files = setting
            .effective
            .iter()
            .filter(|file| setting.kind != SettingKind::Cgroup && !file.starts_with("cpuset"));
        assert!(files.clone().all(|file| file.starts_with('/')), "{}", setting.name);
        assert!(!setting.how_to_set("X").is_empty() && !setting.how_to_undo("X").is_empty());
    }
    assert!(boot().count() > 50 && runtime().count() > 50, "{} {}", boot().count(), runtime().count());
}

#[test]
fn finds_by_name_however_it_is_written() {
    assert_eq!(boot_parameter("nohz-full").unwrap().name, "nohz_full");
    assert_eq!(boot_parameter("nohz.full"), None);
    assert_eq!(runtime_setting("kernel.timer_migration").unwrap().takes, ValueKind::Switch);
    assert_eq!(runtime_setting("kernel.timer-migration"), None);
}

#[test]
fn says_why_a_parameter_cannot_act() {
    let no = Some(false);
    assert_eq!(
        why_not("kthread_cpus", "6.12.1", "x86_64", &[]).as_deref(),
        Some("no kernel of kernel.org has it")
    );
    assert_eq!(why_not("idle", "6.12.1", "aarch64", &[]).as_deref(), Some("aarch64 has no such parameter"));
    assert_eq!(why_not("nohlt", "6.12.1", "aarch64", &[]), None);
    assert_eq!(why_not("nohlt", "6.12.1", "x86_64", &[]).as_deref(), Some("x86_64 has no such parameter"));
    assert_eq!(why_not("preempt", "5.10.0", "x86_64", &[]).as_deref(), Some("it is new in Linux 5.12"));
    assert_eq!(
        why_not("nohz_full", "5.15.1-tegra", "aarch64", &[("NO_HZ_FULL", false)]).as_deref(),
        Some("this kernel is built without CONFIG_NO_HZ_FULL")
    );
    let rt = [("IRQ_FORCED_THREADING", true), ("PREEMPT_RT", true)];
    assert_eq!(
        why_not("threadirqs", "6.12.1", "x86_64", &rt).as_deref(),
        Some("with CONFIG_PREEMPT_RT it changes nothing")
    );
    assert_eq!(why_not("preempt", "4.18.0-553.rt7.342.el8_10.x86_64", "x86_64", &[]), None);
    assert_eq!(why_not("preempt", "4.18.0-elk", "x86_64", &[]).as_deref(), Some("it is new in Linux 5.12"));
    // What is unknown speaks neither way.
    assert_eq!(why_not("nohz_full", "next", "riscv64", &[]), None);
    assert_eq!(boot_parameter("idle").unwrap().cannot_act(&Kernel::default(), None, |_| no.and(None)), None);
}

#[test]
fn knows_which_refusals_the_kernel_does_not_name() {
    assert!(boot_parameter("isolcpus").unwrap().refusal_is_named());
    assert!(!boot_parameter("amd_idle.max_cstate").unwrap().refusal_is_named());
}

#[test]
fn says_how_to_set_and_undo() {
    let governor = "/sys/devices/system/cpu/cpuN/cpufreq/scaling_governor";
    let set = |name: &str, value: &str| runtime_setting(name).unwrap().how_to_set(value);
    assert_eq!(boot_parameter("isolcpus").unwrap().how_to_set("3"), "add isolcpus=3 to the boot line");
    assert_eq!(boot_parameter("nosmt").unwrap().how_to_set(""), "add nosmt to the boot line");
    assert_eq!(set("kernel.timer_migration", "0"), "sysctl -w kernel.timer_migration=0");
    assert_eq!(set(governor, "performance"), format!("echo performance > {governor}"));
    assert_eq!(runtime_setting("tuned").unwrap().how_to_undo(""), "systemctl enable --now tuned");
    let printk = runtime_setting("kernel.printk").unwrap();
    assert_eq!(printk.how_to_undo("4 4 1 7"), "sysctl -w kernel.printk=\"4 4 1 7\"");
}
