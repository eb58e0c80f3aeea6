// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are absent, unreadable or senseless pass no check: each file of a machine on which
//! much is wrong is taken away, kept from the reader and overwritten, one at a time, and no fault may turn
//! into a PASS.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::*;
use doctor::{FindingOutcome, Profile};

/// Files whose presence is what the check looks for, so that without them there is no fault.
const FACTS: &[(&str, &str, &str)] = &[
    ("ctr-detect", "run/systemd/container", "taken away"),
    // A kernel that is not there, and a process that is not.
    ("boot-initrd-version", "boot/vmlinuz-", "taken away"),
    ("boot-root-driver", "boot/vmlinuz-", "taken away"),
    ("iso-kthreads", "proc/2/stat", "taken away"),
    ("svc-tuner-conflict", "multi-user.target.wants/", "taken away"),
    // Any text is a boot line, a file of assignments, a program's name.
    ("boot-param-noop", "proc/cmdline", "overwritten"),
    ("boot-param-duplicates", "proc/cmdline", "overwritten"),
    ("kernel-config-nohz-full", "proc/cmdline", "overwritten"),
    ("kernel-config-rcu-nocb", "proc/cmdline", "overwritten"),
    ("irq-balance", "etc/default/irqbalance", "overwritten"),
    ("net-irq", "/actions", "overwritten"),
];

/// Each check's outcome for each profile.
fn outcomes(root: &Path) -> BTreeMap<(String, String), (FindingOutcome, String)> {
    let machine = inspect::read_whole(root);
    let mut all = BTreeMap::new();
    for profile in Profile::ALL {
        for found in examined(&machine, profile).checks {
            all.insert((profile.to_string(), found.id.clone()), (found.result, found.says));
        }
    }
    all
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

type Change = (&'static str, fn(&Path));

const CHANGES: &[Change] = &[
    ("taken away", |path| fs::remove_file(path).unwrap()),
    ("kept from us", |path| {
        fs::remove_file(path).unwrap();
        // A link that leads out of a captured tree is there and is not read.
        symlink("/", path).unwrap();
    }),
    ("overwritten", |path| fs::write(path, b"\xff\xfe no sense \x1b[31m\n").unwrap()),
];

/// One file of each kind: `cpu3/online` stands for those of all CPUs.
fn kinds(root: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
    let kind = |path: &PathBuf| {
        let short = path.strip_prefix(root).unwrap().display().to_string();
        let mut kind = short.replace(|letter: char| letter.is_ascii_digit(), "N");
        while kind.contains("NN") {
            kind = kind.replace("NN", "N");
        }
        kind
    };
    let mut seen = std::collections::BTreeSet::new();
    files.into_iter().filter(|path| seen.insert(kind(path))).collect()
}

fn no_fault_passes(name: &str, root: &Path, files: Vec<PathBuf>, changes: &[Change]) {
    let before = outcomes(root);
    let mut wrong = Vec::new();
    for path in files {
        let short = path.strip_prefix(root).unwrap().display().to_string();
        let content = fs::read(&path).unwrap();
        for (how, change) in changes {
            change(&path);
            for (key, (result, says)) in outcomes(root) {
                let (was, said) = &before[&key];
                let fault = matches!(was, FindingOutcome::Fail | FindingOutcome::Warn);
                let is_fact =
                    FACTS.iter().any(|(id, part, what)| key.1 == *id && short.contains(part) && how == what);
                if fault && result == FindingOutcome::Pass && !is_fact {
                    wrong.push(format!("{name}: {short} {how}: {} {}: {was} {said} -> {says}", key.0, key.1));
                }
            }
            fs::remove_file(&path).ok();
            fs::write(&path, &content).unwrap();
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_fault_passes_for_want_of_a_file() {
    let root = tree(WRONG);
    no_fault_passes("wrong", root.path(), files(root.path()), CHANGES);
}

#[test]
fn no_weakness_passes_for_want_of_a_file() {
    let mut all: Vec<(&str, &str)> = SOUND.to_vec();
    all.extend_from_slice(WEAK);
    let root = tree(&all);
    no_fault_passes("weak", root.path(), files(root.path()), CHANGES);
}

#[test]
fn no_captured_machine_passes_for_want_of_a_file() {
    for name in captured() {
        let root = lay_out(&name);
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/ostype"), "Linux\n").unwrap();
        let some = kinds(root.path(), files(root.path()));
        no_fault_passes(&name, root.path(), some, &CHANGES[..1]);
    }
}

#[test]
fn most_checks_find_a_fault_on_these_machines() {
    let weak = [SOUND, WEAK].concat();
    let seen = [outcomes(tree(WRONG).path()), outcomes(tree(&weak).path())];
    let fault = |(_, (result, _)): &(&(String, String), &(FindingOutcome, String))| {
        matches!(result, FindingOutcome::Fail | FindingOutcome::Warn)
    };
    let found: std::collections::BTreeSet<&str> =
        seen.iter().flatten().filter(fault).map(|((_, id), _)| id.as_str()).collect();
    let all: Vec<&str> = doctor::ALL.iter().copied().flatten().map(|check| check.id).collect();
    let silent: Vec<&&str> = all.iter().filter(|id| !found.contains(**id)).collect();
    // The rest needs a sample, or asks what no file of a tree says.
    assert!(found.len() >= 70, "{} of {}; silent: {silent:?}", found.len(), all.len());
}
