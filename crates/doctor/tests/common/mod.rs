// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines made of files: captured ones, and ones made up for a test.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use doctor::{Finding, Outcome, Profile, Question, Report};
use machine::Snapshot;
use tempfile::TempDir;

/// Where the captured machines are; `machine`'s tests say what each is.
fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/machines")
}

/// Their names.
pub fn captured() -> Vec<String> {
    let names =
        fs::read_dir(captures()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".txt").map(str::to_string)).collect();
    names.sort();
    assert!(names.len() >= 9, "{names:?}");
    names
}

/// A captured machine's files in a folder.
pub fn lay_out(name: &str) -> TempDir {
    let text = fs::read_to_string(captures().join(format!("{name}.txt"))).unwrap();
    let root = tempfile::tempdir().unwrap();
    let mut folder = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            folder = name;
            continue;
        }
        let (name, content) = line.split_once(':').unwrap();
        let place = root.path().join(folder).join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let before = fs::read_to_string(&place).unwrap_or_default();
        fs::write(place, format!("{before}{}\n", content.strip_prefix(' ').unwrap_or(content))).unwrap();
    }
    root
}

/// A folder with these files.
pub fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let place = root.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }
    root
}

/// What a machine of eight CPUs has on which nothing is wrong that a test is not about; a later file of the same name
/// stands for the earlier one.
pub const SOUND: &[(&str, &str)] = &[
    ("proc/sys/kernel/ostype", "Linux\n"),
    ("proc/sys/kernel/osrelease", "6.12.1-rt-amd64\n"),
    ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.12.1\n"),
    ("proc/sys/kernel/arch", "x86_64\n"),
    (
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\nmodel name\t: A\nflags\t\t: lm constant_tsc nonstop_tsc tsc_adjust\n",
    ),
    (
        "boot/config-6.12.1-rt-amd64",
        "CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_SMP=y\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_X86_INTEL_PSTATE=y\nCONFIG_IRQ_FORCED_THREADING=y\n",
    ),
    ("sys/devices/system/cpu/present", "0-7\n"),
    ("sys/devices/system/cpu/possible", "0-7\n"),
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("sys/devices/system/cpu/isolated", "6-7\n"),
    ("sys/devices/system/cpu/nohz_full", "\n"),
    ("proc/cmdline", "root=/dev/sda1 ro quiet isolcpus=managed_irq,domain,6-7 irqaffinity=0-5\n"),
    ("proc/irq/default_smp_affinity", "3f\n"),
    ("var/log/dmesg", "[    0.000000] Linux version 6.12.1-rt-amd64\n"),
];

/// [`SOUND`] with `files` besides or instead.
pub fn sound_but(files: &[(&str, &str)]) -> Snapshot {
    let mut all: Vec<(&str, &str)> = SOUND.to_vec();
    all.extend_from_slice(files);
    machine::read_whole(tree(&all).path())
}

/// What all checks say for a profile.
pub fn examined(machine: &Snapshot, profile: Profile) -> Report {
    doctor::examine(machine, &Question { profile, ..Question::default() })
}

/// What one check says.
#[track_caller]
pub fn finding(machine: &Snapshot, profile: Profile, id: &str) -> Finding {
    let report = examined(machine, profile);
    report.checks.into_iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("no check {id}"))
}

/// Fails unless a check comes out so and says so.
#[track_caller]
pub fn says(machine: &Snapshot, profile: Profile, id: &str, result: Outcome, words: &str) {
    let found = finding(machine, profile, id);
    assert_eq!(found.result, result, "{found:#?}");
    assert!(found.says.contains(words), "{words} is not in {found:#?}");
}
