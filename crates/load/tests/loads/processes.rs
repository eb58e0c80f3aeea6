// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes as `/proc` shows them, for the tests of loads.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Name and fields from the third on of `/proc/PID/stat`.
pub fn stat(pid: u32) -> Option<(String, Vec<String>)> {
    let text = String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_string();
    Some((name, tail.split_whitespace().map(String::from).collect()))
}

pub fn parent_of(pid: u32) -> Option<u32> {
    stat(pid)?.1[1].parse().ok()
}

pub fn policy_of(pid: u32) -> Option<u32> {
    stat(pid)?.1[38].parse().ok()
}

/// All processes below one, with their names.
pub fn below(root: u32) -> BTreeMap<u32, String> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let is_below = |pid: &u32| {
        std::iter::successors(parent_of(*pid), |pid| parent_of(*pid))
            .take(64)
            .any(|ancestor| ancestor == root)
    };
    pids.filter(is_below).filter_map(|pid: u32| Some((pid, stat(pid)?.0))).collect()
}

pub fn supervisor_of(parent: u32) -> u32 {
    below(parent).into_keys().find(|pid| parent_of(*pid) == Some(parent)).unwrap()
}

pub fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap().success());
}

/// None of these processes runs any more; a zombie without a waiting parent, in a container without an init,
/// is gone too.
pub fn are_gone(family: &BTreeMap<u32, String>) {
    assert!(!family.is_empty());
    is_soon("all processes are gone", || {
        let runs = |pid: u32| stat(pid).is_some_and(|(_, fields)| fields[0] != "Z");
        !family.keys().any(|pid| runs(*pid))
    });
}

pub fn is_soon(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("not so: {what}");
}
