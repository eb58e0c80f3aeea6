// SPDX-License-Identifier: MIT OR Apache-2.0
//! irqbalance is judged by what it reads, in the order in which it reads it.

use crate::common::*;
use doctor::FindingOutcome::{self, NotApplicable, Pass, Unknown, Warn};
use doctor::Profile::Periodic;

const STAT: &str = "700 (irqbalance) S 1 700 700 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";
const UNIT: &str = "usr/lib/systemd/system/irqbalance.service";
const DEFAULT: &str = "etc/default/irqbalance";

const ENV: &str = "etc/irqbalance.env";
const DROP_IN: &str = "etc/systemd/system/irqbalance.service.d/override.conf";
const SPARED: &str = "irqbalance spares the isolated CPUs";
const WITH_ENV: (&str, &str) =
    (UNIT, "[Service]\nEnvironmentFile=-/etc/irqbalance.env\nExecStart=/usr/sbin/irqbalance\n");

/// A file of the machine.
type File<'a> = (&'a str, &'a str);

/// Cases in which irqbalance runs as a service and CPUs 6 and 7 are isolated: the files that are there,
/// and the check's outcome and words.
fn judged(cases: &[(&[File], FindingOutcome, &str)]) {
    for (files, result, words) in cases {
        let running = [
            ("proc/700/stat", STAT),
            ("proc/700/status", "Name:\tirqbalance\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-7\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
            ("sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs", "700\n"),
        ];
        let machine = sound_but(&[&running[..], files].concat());
        let found = finding(&machine, Periodic, "irq-balance");
        assert_eq!(found.result, *result, "{files:?}: {found:#?}");
        assert!(found.says.contains(words), "{files:?}: {found:#?}");
    }
}

#[test]
fn the_mask_goes_before_the_list() {
    let both = "IRQBALANCE_BANNED_CPUS=00000001\nIRQBALANCE_BANNED_CPULIST=6-7\n";
    let environ = "LANG=C\0IRQBALANCE_BANNED_CPUS=00000001\0IRQBALANCE_BANNED_CPULIST=6-7\0";
    let empty = "IRQBALANCE_BANNED_CPUS=\nIRQBALANCE_BANNED_CPULIST=6-7\n";
    judged(&[
        (&[(DEFAULT, both)], Warn, "irqbalance spares cpus 0, and not cpus 6-7"),
        (&[("proc/700/environ", environ)], Warn, "which goes before the list"),
        (&[(DEFAULT, empty)], Pass, SPARED),
        (&[(DEFAULT, "IRQBALANCE_BANNED_CPUS=c0\n")], Warn, &format!("{SPARED}; a later irqbalance")),
        (&[(DEFAULT, "IRQBALANCE_BANNED_CPUS=0xc0\n")], Warn, "is not a mask"),
    ]);
}

#[test]
fn a_list_that_cannot_be_read_switches_detection_off() {
    let words = "is not a list of CPUs, and switches the detection of isolated CPUs off";
    for list in ["4-3", "-", "\"6-7\" # cores", "6-7:1/2", "all"] {
        let file = format!("ENABLED=1\nIRQBALANCE_BANNED_CPULIST={list}\n");
        judged(&[(&[(DEFAULT, &file)], Warn, words)]);
    }
    let partly = "irqbalance spares cpus 6, and not cpus 7";
    judged(&[
        (&[(ENV, "IRQBALANCE_BANNED_CPULIST=4-3\n")], Warn, "'4-3' is not a list of CPUs"),
        (&[(DEFAULT, "IRQBALANCE_BANNED_CPULIST=6,9-8\n")], Warn, partly),
        // An empty list is no detection.
        (&[("proc/700/environ", "LANG=C\0IRQBALANCE_BANNED_CPULIST=\0")], Warn, "the empty list"),
    ]);
}

#[test]
fn the_unit_says_which_files_count() {
    let set_anew = (DROP_IN, "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2\n");
    let passed = (DROP_IN, "[Service]\nPassEnvironment=IRQBALANCE_BANNED_CPULIST\n");
    let isolated = (ENV, "IRQBALANCE_BANNED_CPULIST=6-7\n");
    let senseless = (ENV, "IRQBALANCE_BANNED_CPULIST=4-3\n");
    judged(&[
        (&[WITH_ENV, senseless], Warn, "'4-3' is not a list of CPUs"),
        (&[WITH_ENV, (DEFAULT, "IRQBALANCE_BANNED_CPULIST=2\n")], Pass, "without being told"),
        (&[WITH_ENV, set_anew], Warn, "not cpus 6-7"),
        (&[WITH_ENV, isolated, set_anew], Pass, SPARED),
        (&[WITH_ENV, passed], Unknown, "systemd"),
        // Without the `-` the service would not have started, so the file must be somewhere.
        (&[(UNIT, "[Service]\nEnvironmentFile=/etc/none\n")], Unknown, "/etc/none"),
        // systemd takes no export: it ignores the line, so that irqbalance finds isolated CPUs by itself.
        (&[(DEFAULT, "export IRQBALANCE_BANNED_CPULIST=2\n")], Pass, "without being told"),
    ]);
}

#[test]
fn detects_no_partition_and_knows_nothing_untold() {
    let partition = ("sys/fs/cgroup/cpuset.cpus.isolated", "5\n");
    let none = [("sys/devices/system/cpu/isolated", "\n"), ("proc/cmdline", "quiet\n")];
    judged(&[
        (&[partition, (DEFAULT, "ENABLED=1\n")], Warn, "the partition with cpus 5"),
        (&[partition, (DEFAULT, "IRQBALANCE_BANNED_CPULIST=5-7\n")], Pass, SPARED),
        (&[], Unknown, "neither its environment nor its unit"),
        (&none, NotApplicable, "isolated"),
    ]);
}
