// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes as `/proc` shows them: who descends from whom, what they used, where they may run.
//!
//! `/proc/PID/task/TID/children` would be cheaper, but needs CONFIG_PROC_CHILDREN; `/proc/PID/stat` is always
//! there. Reference: proc_pid_stat(5); field numbers below are those of its table.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use machine::CpuSet;
use rustix::process::{Pid, Signal, kill_process};

/// The state of one process or thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, at most 15 characters.
    pub name: String,
    /// `Z` for one that ended and was not waited for.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Its session.
    pub session: u32,
    /// CPU time of itself and of the children it waited for, in clock ticks.
    pub ticks: u64,
    /// CPU time of the children it waited for alone, in clock ticks.
    pub children_ticks: u64,
    /// Its scheduling policy as sched.h counts them: 0 is SCHED_OTHER.
    pub policy: u32,
}

/// A file of `/proc`. A process may call itself what is no UTF-8.
fn text(path: impl AsRef<Path>) -> Option<String> {
    untrusted::bytes(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_DEADLINE: u32 = 6;

impl Process {
    /// Reads a line of `/proc/PID/stat`.
    fn parse(line: &str) -> Option<Process> {
        // The name stands in parentheses and may hold some itself.
        let (head, tail) = line.rsplit_once(')')?;
        let (pid, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let children_ticks = field(16)? + field(17)?;
        Some(Process {
            pid: pid.trim().parse().ok()?,
            name: name.to_string(),
            state: fields.first()?.chars().next()?,
            parent: field(4)? as u32,
            session: field(6)? as u32,
            ticks: field(14)? + field(15)? + children_ticks,
            children_ticks,
            policy: field(41)? as u32,
        })
    }

    /// The process with number `pid`; `None` where there is none.
    pub fn read(pid: u32) -> Option<Process> {
        Process::parse(&text(format!("/proc/{pid}/stat"))?)
    }

    /// For how long its threads have run, in nanoseconds; where the kernel does not report it
    /// (CONFIG_SCHED_INFO), in whole ticks.
    pub fn ran_ns(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let ran =
            |path: PathBuf| text(path.join("schedstat"))?.split_whitespace().next()?.parse::<u64>().ok();
        let ran =
            threads.map(|thread| ran(thread.path())).try_fold(0u64, |sum, ns| Some(sum.saturating_add(ns?)));
        ran.filter(|ns| *ns > 0).unwrap_or(self.ticks)
    }

    /// Bytes that its calls read, from wherever; `None` where the kernel does not count them
    /// (CONFIG_TASK_XACCT).
    pub fn read_bytes(&self) -> Option<u64> {
        let text = text(format!("/proc/{}/io", self.pid))?;
        text.lines().find_map(|line| line.strip_prefix("rchar:"))?.trim().parse().ok()
    }

    /// The control groups that it is in.
    pub fn groups(&self) -> String {
        text(format!("/proc/{}/cgroup", self.pid)).unwrap_or_default()
    }

    /// Asks the kernel to send it a signal; one that is gone already needs none.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid as i32) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Every process that can be seen.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read).collect()
}

/// All processes below `root`, itself excluded.
pub fn descendants(root: u32) -> Vec<Process> {
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            parents.push(process.pid);
            found.push(process);
        }
    }
    found
}

/// Faults in where and how `process` may run: threads outside `allowed`, real-time policies.
pub fn strays(process: &Process, allowed: &CpuSet) -> BTreeSet<String> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", process.pid)) else { return BTreeSet::new() };
    let paths = threads.flatten().map(|thread| thread.path());
    paths
        .flat_map(|path| {
            let read = |file: &str| text(path.join(file)).unwrap_or_default();
            let policy = Process::parse(&read("stat")).and_then(|thread| real_time(&thread));
            let outside = outside(&read("status"), allowed).map(|cpus| (process.name.clone(), cpus));
            [policy, outside.map(|(name, cpus)| format!("{name} may run on cpus {cpus}, outside {allowed}"))]
        })
        .flatten()
        .collect()
}

fn real_time(thread: &Process) -> Option<String> {
    let policy = match thread.policy {
        SCHED_FIFO => "SCHED_FIFO",
        SCHED_RR => "SCHED_RR",
        SCHED_DEADLINE => "SCHED_DEADLINE",
        _ => return None,
    };
    Some(format!("{} runs at {policy}", thread.name))
}

fn outside(status: &str, allowed: &CpuSet) -> Option<CpuSet> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let cpus: CpuSet = list.trim().parse().ok()?;
    (!cpus.without(allowed).is_empty()).then_some(cpus)
}

/// Clock ticks for which the CPUs of `cpus` did nothing, idle or waiting for a disk (`/proc/stat`).
pub fn idle_ticks(cpus: &CpuSet) -> u64 {
    idle_in(&untrusted::text("/proc/stat").unwrap_or_default(), cpus)
}

fn idle_in(stat: &str, cpus: &CpuSet) -> u64 {
    let of_line = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = fields.next()?.parse().ok()?;
        let idle: u64 = fields.skip(3).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        cpus.contains(cpu).then_some(idle)
    };
    stat.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "42 (a) b (c)) S 7 42 40 0 -1 4194560 1 2 3 4 10 20 300 400 20 0 1 0 5 6 7 8 \
        9 10 11 12 13 14 15 16 17 18 19 20 17 1 50 1 0 0 0";

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let process = Process::parse(LINE).unwrap();
        assert_eq!((process.pid, process.name.as_str(), process.state), (42, "a) b (c)", 'S'));
        assert_eq!((process.parent, process.session), (7, 40));
        assert_eq!((process.ticks, process.children_ticks), (730, 700));
    }

    #[test]
    fn a_real_time_policy_is_noticed() {
        let process = Process::parse(LINE).unwrap();
        assert_eq!(real_time(&process), Some("a) b (c) runs at SCHED_FIFO".to_string()));
        assert_eq!(real_time(&Process { policy: 0, ..process }), None);
    }

    #[test]
    fn a_thread_that_may_leave_its_cpus_is_noticed() {
        let allowed = "0-3".parse().unwrap();
        assert_eq!(outside("Name:\tx\nCpus_allowed_list:\t0-4\n", &allowed), "0-4".parse().ok());
        assert_eq!(outside("Cpus_allowed_list:\t2\n", &allowed), None);
    }

    #[test]
    fn idle_time_is_that_of_the_asked_cpus_alone() {
        let stat =
            "cpu  9 9 9 900 99 9\ncpu0 1 1 1 100 10 1\ncpu1 2 2 2 200 20 2\ncpu10 3 3 3 300 30 3\nintr 5";
        assert_eq!(idle_in(stat, &"0,10".parse().unwrap()), 440);
    }

    #[test]
    fn a_half_written_line_is_no_process() {
        for end in 0..LINE.len() - 12 {
            assert_eq!(Process::parse(&LINE[..end]), None, "{}", &LINE[..end]);
        }
    }

    #[test]
    fn a_name_that_is_no_utf_8_hides_no_process() {
        // The kernel names a process after its program's file.
        use std::os::unix::ffi::OsStrExt;
        let folder = std::env::temp_dir().join(format!("isolator-name-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let program = folder.join(std::ffi::OsStr::from_bytes(b"\x9bfoo) R 1 ("));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("60").spawn().unwrap();
        let found = descendants(std::process::id()).into_iter().find(|process| process.pid == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap().parent, std::process::id());
    }

    #[test]
    fn a_child_is_a_descendant_until_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_below = |pid| descendants(std::process::id()).iter().any(|process| process.pid == pid);
        assert!(is_below(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_below(child.id()));
    }
}
