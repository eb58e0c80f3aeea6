// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator doctor` as people and programs call it.

use std::fs;
use std::path::Path;

use crate::common::*;

/// A captured machine of four CPUs, two of them isolated by a line that does not fit.
fn made_up(folder: &Path) -> String {
    let files = [
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT x\n"),
        ("proc/cmdline", "quiet isolcpus=3-4\n"),
        ("sys/devices/system/cpu/present", "0-3\n"),
        ("sys/devices/system/cpu/possible", "0-3\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
    ];
    lay_out(&folder.join("root"), &files);
    "root".to_string()
}

#[test]
fn looks_at_this_machine_and_writes_json_as_published() {
    let folder = folder();
    let document = isolator(folder.path(), &["doctor", "--json", "-"]).ended(0).json();
    conforms(&document, "doctor");
    let checks = document["checks"].as_array().unwrap();
    assert!(checks.len() >= 89, "{}", checks.len());
    for check in checks {
        for name in ["id", "group", "result", "severity", "why", "source"] {
            assert!(check[name].is_string(), "{name} in {check:#}");
        }
        assert!(
            check["evidence"]["source"].is_string() && check["evidence"]["value"].is_string(),
            "{check:#}"
        );
        assert!(check["fix"].is_string() || check["fix"].is_null(), "{check:#}");
        assert!(
            ["PASS", "WARN", "FAIL", "UNKNOWN", "N/A"].contains(&check["result"].as_str().unwrap()),
            "{check:#}"
        );
    }
    let summary = &document["summary"];
    let count = |name: &str| summary[name].as_u64().unwrap();
    let sum = count("pass") + count("warn") + count("fail") + count("unknown") + count("not_applicable");
    assert_eq!(sum, checks.len() as u64);
}

#[test]
fn a_fault_is_no_failure() {
    let folder = folder();
    let root = made_up(folder.path());
    let ran = isolator(folder.path(), &["doctor", "--root", &root]).ended(0);
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("FAIL boot-cpulist-range: isolcpus=3-4: cpu 4 is beyond the last one, 3;"),
        "{ran:#?}"
    );
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{ran:#?}");
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_snapshot_is_as_good_as_the_folder() {
    let folder = folder();
    let root = made_up(folder.path());
    let seen =
        isolator(folder.path(), &["doctor", "--root", &root, "--save", "machine.json", "--json=-", "-q"])
            .ended(0);
    let again = isolator(folder.path(), &["doctor", "--snapshot", "machine.json", "--json=-", "-q"]).ended(0);
    assert_eq!(seen.json(), again.json());
}

#[test]
fn explains_one_check_and_looks_at_one_group() {
    let folder = folder();
    let root = made_up(folder.path());
    let ran =
        isolator(folder.path(), &["doctor", "--root", &root, "--explain", "boot-cpulist-range"]).ended(0);
    for word in [
        "boot-cpulist-range: Do the CPU lists name",
        "FAIL",
        "/proc/cmdline",
        "why",
        "source",
        "server medium",
    ] {
        assert!(ran.stdout.contains(word), "{word}: {ran:#?}");
    }
    let only =
        isolator(folder.path(), &["doctor", "--root", &root, "--only", "memory", "--json=-", "-q"]).ended(0);
    let checks = only.json()["checks"].as_array().unwrap().clone();
    assert!(!checks.is_empty() && checks.iter().all(|check| check["group"] == "memory"), "{checks:#?}");
}

#[test]
fn a_sample_says_who_came_to_which_cpu_and_is_kept() {
    let folder = folder();
    let ran = isolator(folder.path(), &["doctor", "--sample", "300ms", "--save", "machine.json"]).ended(0);
    assert!(ran.stdout.contains("interrupts of each CPU\n  cpu "), "{ran:#?}");
    let document =
        isolator(folder.path(), &["doctor", "--snapshot", "machine.json", "--json=-", "-q"]).ended(0).json();
    conforms(&document, "doctor");
    let sample = &document["sample"];
    assert!(sample["duration_ms"].as_u64().unwrap() >= 300, "{sample:#}");
    // Some CPU did something in that time.
    let cpus = sample["cpus"].as_array().unwrap();
    assert!(cpus.iter().any(|cpu| cpu["timer"] != 0 || cpu["switches"] != 0), "{sample:#}");
}

#[test]
fn profiles_and_uses() {
    let folder = folder();
    let root = made_up(folder.path());
    let server = isolator(folder.path(), &["doctor", "--root", &root, "--profile", "server"]).ended(0);
    let words = server.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("You do not want a real-time kernel here."), "{server:#?}");
    let audio =
        isolator(folder.path(), &["doctor", "--root", &root, "--use", "audio:64@48000", "--json=-", "-q"])
            .ended(0);
    let document = audio.json();
    assert_eq!((&document["profile"], &document["use"]["period_ns"]), (&"audio".into(), &1_333_333.into()));
}

#[test]
fn what_cannot_be_looked_at_is_one_line() {
    let folder = folder();
    let doctor = |args: &[&str]| isolator(folder.path(), &[&["doctor"], args].concat()).line();
    assert_eq!(
        doctor(&["--root", "nowhere"]),
        "cannot look at nowhere: there is no such folder; give the folder that holds proc and sys"
    );
    assert_eq!(doctor(&["--explain", "pwr-gov"]), "there is no check 'pwr-gov'; did you mean pwr-governor?");
    assert!(doctor(&["--explain", "xyz"]).ends_with("isolator doctor --json names them"));
    assert!(doctor(&["--profile", "desktop"]).contains("write periodic, poll, audio, vm or server"));
    assert!(doctor(&["--use", "audio:64"]).contains("it names no rate; write control:1kHz, "));
    assert!(doctor(&["--only", "cpu"]).contains("no group has that name; write one of kernel, boot"));
    assert!(doctor(&["--snapshot", "absent.json"]).starts_with("cannot read the snapshot"));
    fs::write(folder.path().join("empty.json"), "{}").unwrap();
    assert!(doctor(&["--snapshot", "empty.json"]).contains("it holds no inventory"));
    fs::write(folder.path().join("cut.json"), "{\"cpus\": [").unwrap();
    assert!(doctor(&["--snapshot", "cut.json"]).contains("give one of isolator doctor --save"));
    assert!(doctor(&["--sample", "1us"]).contains("give 100ms to 24h"));
    assert!(doctor(&["--sample", "1s", "--root", "/"]).contains("cannot be given together"));
}

#[test]
fn a_user_without_privileges_is_told_what_root_would_know() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let folder = folder();
    let ran = isolator_as_nobody(folder.path(), &["doctor", "--json=-", "-q"]).ended(0);
    let document = ran.json();
    let checks = document["checks"].as_array().unwrap();
    let pick = |id: &str| checks.iter().find(|check| check["id"] == id).unwrap();
    assert_eq!(pick("thr-rt-inventory")["result"], "PASS");
    assert_eq!(pick("kernel-preempt-rt")["evidence"]["source"], "/proc/sys/kernel/version");
    // Whatever is unknown says where, and what would help.
    for check in checks.iter().filter(|check| check["result"] == "UNKNOWN") {
        assert!(check["fix"].is_string() && check["evidence"]["source"] != "", "{check:#}");
    }
}
