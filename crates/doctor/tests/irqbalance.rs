// SPDX-License-Identifier: MIT OR Apache-2.0
//! irqbalance is judged by what it reads, in the order in which it reads it.

use crate::common::*;
use doctor::FindingOutcome::{self, NotApplicable, Pass, Unknown, Warn};
use doctor::Profile::Periodic;

const STAT: &str = "700 (irqbalance) S 1 700 700 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";
const UNIT: &str = "usr/lib/systemd/system/irqbalance.service";
const DEFAULT: &str = "etc/default/irqbalance";

/// The check where irqbalance runs as a service, CPUs 6 and 7 are isolated, and these files are
/// there.
#[track_caller]
fn judged(files: &[(&str, &str)], result: FindingOutcome, words: &str) {
    let running = [
        ("proc/700/stat", STAT),
        ("proc/700/status", "Name:\tirqbalance\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-7\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
        ("sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs", "700\n"),
    ];
    says(&sound_but(&[&running[..], files].concat()), Periodic, "irq-balance", result, words);
}

#[test]
fn the_mask_goes_before_the_list() {
    let both = "IRQBALANCE_BANNED_CPUS=00000001\nIRQBALANCE_BANNED_CPULIST=6-7\n";
    judged(&[(DEFAULT, both)], Warn, "irqbalance spares cpus 0, and not cpus 6-7");
    let environ = "LANG=C\0IRQBALANCE_BANNED_CPUS=00000001\0IRQBALANCE_BANNED_CPULIST=6-7\0";
    judged(&[("proc/700/environ", environ)], Warn, "which goes before the list");
    judged(
        &[(DEFAULT, "IRQBALANCE_BANNED_CPUS=\nIRQBALANCE_BANNED_CPULIST=6-7\n")],
        Pass,
        "irqbalance spares the isolated CPUs",
    );
    judged(
        &[(DEFAULT, "IRQBALANCE_BANNED_CPUS=c0\n")],
        Warn,
        "irqbalance spares the isolated CPUs; a later irqbalance",
    );
    judged(&[(DEFAULT, "IRQBALANCE_BANNED_CPUS=0xc0\n")], Warn, "is not a mask");
}

#[test]
fn a_list_that_cannot_be_read_switches_detection_off() {
    for list in ["4-3", "-", "\"6-7\" # cores", "6-7:1/2", "all"] {
        let file = format!("ENABLED=1\nIRQBALANCE_BANNED_CPULIST={list}\n");
        judged(
            &[(DEFAULT, &file)],
            Warn,
            "is not a list of CPUs, and switches the detection of isolated CPUs off",
        );
    }
    judged(&[("etc/irqbalance.env", "IRQBALANCE_BANNED_CPULIST=4-3\n")], Warn, "'4-3' is not a list of CPUs");
    judged(
        &[(DEFAULT, "IRQBALANCE_BANNED_CPULIST=6,9-8\n")],
        Warn,
        "irqbalance spares cpus 6, and not cpus 7",
    );
}

#[test]
fn an_empty_list_is_no_detection() {
    judged(&[("proc/700/environ", "LANG=C\0IRQBALANCE_BANNED_CPULIST=\0")], Warn, "the empty list");
}

#[test]
fn the_unit_says_which_files_count() {
    let unit = (UNIT, "[Service]\nEnvironmentFile=-/etc/irqbalance.env\nExecStart=/usr/sbin/irqbalance\n");
    judged(
        &[unit, ("etc/irqbalance.env", "IRQBALANCE_BANNED_CPULIST=4-3\n")],
        Warn,
        "'4-3' is not a list of CPUs",
    );
    judged(&[unit, (DEFAULT, "IRQBALANCE_BANNED_CPULIST=2\n")], Pass, "without being told");
    let drop_in = |text| ("etc/systemd/system/irqbalance.service.d/override.conf", text);
    judged(&[unit, drop_in("[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2\n")], Warn, "not cpus 6-7");
    judged(
        &[
            unit,
            ("etc/irqbalance.env", "IRQBALANCE_BANNED_CPULIST=6-7\n"),
            drop_in("[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2\n"),
        ],
        Pass,
        "irqbalance spares the isolated CPUs",
    );
    judged(&[unit, drop_in("[Service]\nPassEnvironment=IRQBALANCE_BANNED_CPULIST\n")], Unknown, "systemd");
    // Without the `-` the service would not have started, so the file must be somewhere.
    judged(&[(UNIT, "[Service]\nEnvironmentFile=/etc/none\n")], Unknown, "/etc/none");
}

#[test]
fn systemd_takes_no_export() {
    // systemd ignores the line, so that irqbalance finds isolated CPUs by itself.
    judged(&[(DEFAULT, "export IRQBALANCE_BANNED_CPULIST=2\n")], Pass, "without being told");
}

#[test]
fn a_partition_is_not_detected() {
    let partition = ("sys/fs/cgroup/cpuset.cpus.isolated", "5\n");
    judged(&[partition, (DEFAULT, "ENABLED=1\n")], Warn, "the partition with cpus 5");
    judged(
        &[partition, (DEFAULT, "IRQBALANCE_BANNED_CPULIST=5-7\n")],
        Pass,
        "irqbalance spares the isolated CPUs",
    );
}

#[test]
fn what_it_was_told_is_unknown_where_nothing_says_it() {
    judged(&[], Unknown, "neither its environment nor its unit");
    judged(
        &[("sys/devices/system/cpu/isolated", "\n"), ("proc/cmdline", "quiet\n")],
        NotApplicable,
        "isolated",
    );
}
