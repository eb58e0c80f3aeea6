// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads from `/proc` whether a followed process lives, and the numbers of its threads.
//!
//! The BPF part knows threads by the numbers of the first PID namespace (pid_namespaces(7)). `/proc` shows
//! those of the namespace that it was mounted for, and a lock's word those of its program's own.

use std::collections::BTreeMap;
use std::fs;

use crate::{Error, Result};

/// The link of a process in the first PID namespace (include/uapi/linux/nsfs.h: PID_NS_INIT_INO).
const FIRST: &str = "pid:[4026531836]";

/// Whether a thread of the process is neither gone nor a zombie.
pub fn lives(process: u32) -> bool {
    living_thread(process).is_some()
}

/// A thread of the process that is neither gone nor a zombie. Its first thread may end before others.
pub fn living_thread(process: u32) -> Option<u32> {
    let is_alive = |thread: &u32| {
        let stat = untrusted::bytes(format!("/proc/{process}/task/{thread}/stat")).unwrap_or_default();
        // The name, which may contain anything, is in parentheses before the state.
        let state = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 2));
        state.is_some_and(|state| !matches!(state, b'Z' | b'X'))
    };
    let tasks = || fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let numbers = || tasks().filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok());
    Some(process).filter(is_alive).or_else(|| numbers().find(is_alive))
}

/// Refuses if `/proc` does not show the numbers by which the BPF part knows threads.
pub fn check_numbers(process: u32) -> Result<()> {
    // The first process shows the namespace of `/proc`, if this user may read it.
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let namespace = namespace("1").or_else(|| namespace("self"));
    match namespace {
        Some(namespace) if namespace.as_os_str() != FIRST => Err(Error::on(
            "follow the process",
            process,
            "this program runs in a PID namespace (a container), and BPF reports the numbers of the first namespace",
            "run isolator outside of the container, with the process number there",
        )),
        _ => Ok(()),
    }
}

/// Threads of a process in another PID namespace, by their numbers there, which name the owner in a lock's
/// word; empty if the numbers are the same.
pub fn inner_numbers(process: u32) -> BTreeMap<u32, u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let inner = |folder: std::path::PathBuf| {
        let status = untrusted::bytes(folder.join("status")).ok()?;
        let status = String::from_utf8_lossy(&status).into_owned();
        // From the number here to that in the innermost namespace.
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let numbers: Vec<u32> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [outer, .., inner] => Some((inner, outer)),
            _ => None,
        }
    };
    tasks.filter_map(|task| inner(task.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_does_not_live() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(lives(child.id()));
        child.kill().unwrap();
        while lives(child.id()) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(std::path::Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().unwrap();
    }

    #[test]
    fn threads_of_the_same_namespace_have_no_other_numbers() {
        assert!(inner_numbers(std::process::id()).is_empty());
    }
}
