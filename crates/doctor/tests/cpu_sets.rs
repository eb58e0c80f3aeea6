// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of CPUs: that differ from each other, that name CPUs which are not there or are offline, and managed
//! interrupts on them.

use crate::common::*;
use doctor::FindingOutcome::{self, Fail, Pass, Unknown, Warn};
use doctor::Profile::Periodic;
use machine::Snapshot;

const ISOLATED: &str = "sys/devices/system/cpu/isolated";
const NOHZ_FULL: &str = "sys/devices/system/cpu/nohz_full";
const IRQ_DEFAULT: &str = "proc/irq/default_smp_affinity";

/// The sound machine with this line, and what its files say of isolated CPUs, those without a tick and new
/// interrupts.
fn with(line: &str, isolated: &str, nohz_full: &str, irq_default: &str) -> Snapshot {
    sound_but(&[
        ("proc/cmdline", line),
        (ISOLATED, isolated),
        (NOHZ_FULL, nohz_full),
        (IRQ_DEFAULT, irq_default),
    ])
}

#[test]
fn sets_that_differ_are_named() {
    for (line, isolated, nohz_full, irq_default, outcome, words) in [
        (
            "isolcpus=5-7 nohz_full=5-7 rcu_nocbs=5-6",
            "5-7",
            "5-7",
            "1f",
            Warn,
            "the sets differ: isolated 5-7, nohz_full 5-7, rcu_nocbs 5-6",
        ),
        ("isolcpus=5-6 nohz_full=5-7 rcu_nocbs=5-7", "5-6", "5-7", "1f", Warn, "isolated 5-6, nohz_full 5-7"),
        ("isolcpus=6-7 rcu_nocbs=5-7", "6-7", "", "3f", Warn, "isolated 6-7, rcu_nocbs 5-7"),
        ("isolcpus=6-7 rcu-nocbs=6", "6-7", "", "3f", Warn, "isolated 6-7, rcu_nocbs 6"),
        ("isolcpus=4-7 rcu_nocbs=4-7:1/2", "4-7", "", "f", Warn, "isolated 4-7, rcu_nocbs 4,6"),
        ("nohz_full=6-7 rcu_nocbs=6", "", "6-7", "3f", Warn, "nohz_full 6-7, rcu_nocbs 6"),
        ("isolcpus=6-7 rcu_nocbs=6,7", "6-7", "", "3f", Pass, "the parameters agree"),
        ("isolcpus=6-N rcu_nocbs=6-7", "6-7", "", "3f", Pass, "the parameters agree"),
        // Offloading all CPUs spares the isolated ones too, however it is written.
        ("isolcpus=6-7 rcu_nocbs", "6-7", "", "3f", Pass, "the parameters agree"),
        ("isolcpus=6-7 rcu_nocbs=all", "6-7", "", "3f", Pass, "the parameters agree"),
        ("isolcpus=6-7 rcu_nocbs=0-N", "6-7", "", "3f", Pass, "the parameters agree"),
        ("isolcpus=6-7 rcu_nocbs=0-7", "6-7", "", "3f", Pass, "the parameters agree"),
        (
            "isolcpus=nohz,domain,6-7 nohz_full=5-7",
            "6-7",
            "5-7",
            "1f",
            Fail,
            "isolcpus=nohz and nohz_full name different CPUs",
        ),
        ("isolcpus=nohz,domain,6-7 nohz_full=6-7", "6-7", "6-7", "3f", Pass, "the parameters agree"),
        ("isolcpus=6-7 irqaffinity=0-6", "6-7", "", "7f", Fail, "irqaffinity leaves interrupts on cpus 6"),
        ("isolcpus=6-7 irqaffinity=1-5", "6-7", "", "3f", Pass, "the parameters agree"),
        ("isolcpus=4-7 rcu_nocbs=0-3", "4-7", "", "f", Fail, "rcu_nocbs=0-3 names none of the isolated CPUs"),
    ] {
        let found = finding(&with(line, isolated, nohz_full, irq_default), Periodic, "iso-consistent");
        assert_eq!(found.result, outcome, "{line}: {found:#?}");
        assert!(found.says.contains(words), "{line}: {found:#?}");
    }
}

/// The sound machine with this line, these CPUs that could be there, and these that are.
fn sparse(line: &str, possible: &str, present: &str) -> Snapshot {
    sound_but(&[
        ("proc/cmdline", line),
        (ISOLATED, ""),
        ("sys/devices/system/cpu/possible", possible),
        ("sys/devices/system/cpu/present", present),
        ("sys/devices/system/cpu/online", present),
    ])
}

#[test]
fn lists_may_name_present_cpus_alone() {
    for (line, possible, present, outcome, words) in [
        ("isolcpus=3", "0-8191", "0-3", Pass, "existing CPUs"),
        ("isolcpus=3-8191", "0-8191", "0-3", Fail, "cpus 4-8191 do not exist"),
        ("isolcpus=3-N", "0-8191", "0-3", Fail, "cpus 4-8191 do not exist"),
        ("isolcpus=8192", "0-8191", "0-3", Fail, "cpu 8192 is beyond the last one, 8191"),
        ("nohz_full=2-4", "0-239", "0-3", Fail, "cpus 4 do not exist"),
        ("rcu_nocbs=1-239", "0-239", "0-1", Fail, "cpus 2-239 do not exist"),
        ("rcu_nocbs", "0-239", "0-1", Pass, "existing CPUs"),
        ("irqaffinity=0-1", "0-127", "0-3", Pass, "existing CPUs"),
        ("isolcpus=managed_irq,domain,4", "0-7", "0-3", Fail, "cpus 4 do not exist"),
        ("isolcpus=2-8:1/3", "0-15", "0-3", Fail, "cpus 5,8 do not exist"),
        ("isolcpus=4", "0,2,4,6", "0,2,4", Pass, "existing CPUs"),
        ("isolcpus=3", "0,2,4,6", "0,2,4", Fail, "cpus 3 do not exist"),
    ] {
        let found = finding(&sparse(line, possible, present), Periodic, "boot-cpulist-range");
        assert_eq!(found.result, outcome, "{line}: {found:#?}");
        assert!(found.says.contains(words), "{line}: {found:#?}");
    }
}

/// The sound machine with `online` CPUs, on which these files say more.
fn offline(online: &str, isolated: &str, files: &[(&str, &str)]) -> Snapshot {
    let line = format!("isolcpus={isolated}\n");
    let own =
        [("sys/devices/system/cpu/online", online), (ISOLATED, isolated), ("proc/cmdline", line.as_str())];
    sound_but(&[&own[..], files].concat())
}

#[test]
fn isolated_cpus_that_are_offline_get_the_cure_of_their_board() {
    let tegra = ("etc/nv_tegra_release", "# R36 (release), REVISION: 4.0\n");
    let orin = ("etc/nvpmodel.conf", "< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n");
    let xavier =
        ("etc/nvpmodel.conf", "< POWER_MODEL ID=0 NAME=15W_2CORE >\n< POWER_MODEL ID=2 NAME=15W_6CORE >\n");
    let mode = |text: &'static str| ("var/lib/nvpmodel/status", text);
    for (files, outcome, words, cure) in [
        (vec![tegra, orin, mode("pmode:0003")], Fail, "mode 3 takes cpus 4-7 offline", "nvpmodel -m 0,"),
        (
            vec![tegra, orin, mode("pmode:0000")],
            Fail,
            "mode 0, MAXN takes cpus 4-7 offline",
            "nvpmodel -m 0,",
        ),
        (
            vec![tegra, xavier, mode("pmode:0000")],
            Fail,
            "mode 0, 15W_2CORE takes cpus 4-7 offline",
            "nvpmodel -m the mode named MAXN",
        ),
        (vec![tegra, orin, mode("pmode:0003 fmode:quiet")], Fail, "mode 3 takes cpus 4-7", "nvpmodel -m 0,"),
        (vec![tegra, orin, mode("pmode:")], Unknown, "names no mode", "nvpmodel -q"),
        (vec![tegra, mode("pmode:0003")], Unknown, "there is no such file", "nvpmodel -q"),
        (
            vec![tegra, ("etc/nvpmodel.conf", "# empty\n"), mode("pmode:0003")],
            Unknown,
            "it names no power mode",
            "nvpmodel -q",
        ),
    ] {
        let machine = offline("0-3", "4-7", &files);
        says(&machine, Periodic, "iso-cpus-online", Fail, "cpus 4-7 are isolated and not online");
        let fix = finding(&machine, Periodic, "iso-cpus-online").fix.unwrap();
        assert!(fix.starts_with("nvpmodel -m") && fix.contains("see pwr-nvpmodel"), "{fix}");
        let found = finding(&machine, Periodic, "pwr-nvpmodel");
        assert_eq!(found.result, outcome, "{found:#?}");
        assert!(found.says.contains(words), "{found:#?}");
        assert!(found.fix.as_deref().unwrap_or_default().starts_with(cure), "{found:#?}");
    }
    // No Jetson: what took them offline is another matter.
    let smt = |text: &'static str| vec![("sys/devices/system/cpu/smt/control", text)];
    for (online, isolated, files, missing, cure) in [
        ("0-6", "6-7", vec![], "cpus 7", "echo 1 > /sys/devices/system/cpu/cpu7/online"),
        ("0-3", "4-7", smt("on\n"), "cpus 4-7", "echo 1 > /sys/devices/system/cpu/cpu4/online"),
        ("0-5,7", "6-7", smt("notsupported\n"), "cpus 6", "echo 1 > /sys/devices/system/cpu/cpu6/online"),
        (
            "0-3",
            "2-3,6-7",
            smt("off\n"),
            "cpus 6-7",
            "echo on > /sys/devices/system/cpu/smt/control, then echo 1",
        ),
        ("0-3", "2-3,6-7", smt("forceoff\n"), "cpus 6-7", "take nosmt=force off the boot line"),
    ] {
        let machine = offline(online, isolated, &files);
        says(&machine, Periodic, "iso-cpus-online", Fail, missing);
        let fix = finding(&machine, Periodic, "iso-cpus-online").fix.unwrap();
        assert!(fix.starts_with(cure), "{fix}");
    }
}

#[test]
fn managed_interrupts_are_told_by_their_cpus() {
    let shown = Some("dstate: 0x37608200\n  IRQD_AFFINITY_MANAGED\n");
    let moves = Some("dstate: 0x37400200\n  IRQD_ACTIVATED\n");
    type Said = (FindingOutcome, &'static str);
    type Case = (&'static str, Option<&'static str>, Option<&'static str>, Said, Said);
    let cases: &[Case] = &[
        (
            "5-7",
            Some("5"),
            shown,
            (Pass, "no interrupt"),
            (Pass, "no managed interrupt is for these CPUs alone"),
        ),
        (
            "5-7",
            Some("7"),
            shown,
            (Warn, "managed interrupts are delivered to cpus 6-7: 80"),
            (Pass, "alone"),
        ),
        ("6-7", Some("6"), shown, (Warn, "80 (nvme0q6)"), (Warn, "80 (nvme0q6) are for cpus 6-7 alone")),
        ("7", Some("7"), shown, (Warn, "80 (nvme0q6)"), (Warn, "80 (nvme0q6) are for cpus 6-7 alone")),
        ("6", Some("6"), moves, (Warn, "on cpus 6-7: 80 (nvme0q6)"), (Pass, "alone")),
        ("0-7", Some("7"), None, (Warn, "on cpus 6-7: 80 (nvme0q6)"), (Pass, "alone")),
        ("6-7", None, shown, (Unknown, "80 (nvme0q6)"), (Warn, "80 (nvme0q6) are for cpus 6-7 alone")),
        ("0-5", None, shown, (Pass, "no interrupt"), (Pass, "alone")),
    ];
    for (asked, effective, debugfs, delivered, managed) in cases {
        let mut files = vec![
            ("proc/irq/80/smp_affinity_list", *asked),
            ("proc/interrupts", "  CPU0 CPU1\n 80: 0 0  PCI-MSI 2-edge      nvme0q6\n"),
        ];
        files.extend(effective.map(|list| ("proc/irq/80/effective_affinity_list", list)));
        files.extend(debugfs.map(|text| ("sys/kernel/debug/irq/irqs/80", text)));
        let machine = sound_but(&files);
        for (id, (outcome, words)) in [("irq-on-isolated", delivered), ("irq-managed", managed)] {
            let found = finding(&machine, Periodic, id);
            assert_eq!(found.result, *outcome, "{asked}: {found:#?}");
            assert!(found.says.contains(words), "{asked}: {found:#?}");
        }
    }
}
