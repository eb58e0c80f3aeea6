// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads: policy, priority, where they may run and where they last ran.
//!
//! From `/proc/PID/stat` and `status`. In a container's process namespace there are no kernel threads to be
//! seen. Ordinary threads of one process with the same affinity are one entry, since a machine may have tens
//! of thousands.

use std::path::Path;

use crate::tree::Tree;
use machine::inventory::{Thread, ThreadPolicy, ThreadSample};

/// Most processes that are looked at.
const PROCESSES: usize = 20_000;
/// Most threads of one process that are looked at.
const THREADS: usize = 2_000;
/// `PF_KTHREAD` and `PF_NO_SETAFFINITY` (include/linux/sched.h).
const KERNEL_THREAD: u32 = 0x0020_0000;
const BOUND: u32 = 0x0400_0000;

/// The live thread of that number in `process`, or in whichever has it; `None` where there is none.
pub fn live_thread(process: Option<u32>, id: u32) -> Option<Thread> {
    member(&Tree::new(Path::new("/")), process, id)
}

fn member(tree: &Tree, process: Option<u32>, id: u32) -> Option<Thread> {
    let leader = || {
        let status = tree.hint(&format!("proc/{id}/status"))?;
        status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
    };
    let process = process.or_else(leader)?;
    thread(tree, &format!("proc/{process}/task/{id}"), id, process).ok().flatten()
}

/// The threads, and why that is not all of them, where it is not.
pub(super) fn read(tree: &mut Tree) -> (Vec<Thread>, Option<String>) {
    let mut threads: Vec<Thread> = Vec::new();
    let mut unread: Vec<String> = Vec::new();
    let processes = tree.numbered("proc", "");
    if processes.len() > PROCESSES {
        unread.push(format!("there are more than {PROCESSES} processes"));
    }
    unread.extend(hidden(tree));
    for process in processes.into_iter().take(PROCESSES) {
        let folder = format!("proc/{process}");
        let main = match thread(tree, &folder, process, process) {
            Ok(Some(main)) => main,
            Ok(None) => continue,
            Err(why) => {
                unread.push(why);
                continue;
            }
        };
        if main.kernel {
            threads.push(main);
            continue;
        }
        let first = threads.len();
        let main_alone = tree.hint(&format!("{folder}/stat")).and_then(|stat| thread_count(&stat)) == Some(1);
        let ids = if main_alone { vec![process] } else { tree.numbered(&format!("{folder}/task"), "") };
        if ids.len() > THREADS {
            unread.push(format!("process {process} has more than {THREADS} threads"));
        }
        for id in ids.into_iter().take(THREADS) {
            let next = if id == process {
                Ok(Some(main.clone()))
            } else {
                thread(tree, &format!("{folder}/task/{id}"), id, process)
            };
            let next = match next {
                Ok(Some(next)) => next,
                Ok(None) => continue,
                Err(why) => {
                    unread.push(why);
                    continue;
                }
            };
            let alike = |known: &&mut Thread| {
                !next.is_real_time()
                    && !known.is_real_time()
                    && known.cpus == next.cpus
                    && known.policy == next.policy
            };
            match threads[first..].iter_mut().find(alike) {
                Some(known) => known.alike = known.alike.max(1) + 1,
                None => threads.push(next),
            }
        }
    }
    let why = unread.first().map(|first| match unread.len() {
        1 => first.clone(),
        more => format!("{first}, and {} more", more - 1),
    });
    (threads, why)
}

/// Why others' processes do not show, where `/proc` is mounted so (proc(5), hidepid) and we are not root.
fn hidden(tree: &Tree) -> Option<String> {
    if !tree.live() || super::live::is_root() {
        return None;
    }
    let mounts = tree.hint("proc/self/mountinfo").unwrap_or_default();
    let proc = mounts.lines().rev().find(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let hides = proc
        .split([' ', ','])
        .any(|word| word.strip_prefix("hidepid=").is_some_and(|how| !["0", "off"].contains(&how)));
    hides.then(|| "/proc hides the processes of others (hidepid)".to_string())
}

/// `Ok(None)` where it has ended.
fn thread(tree: &Tree, folder: &str, id: u32, process: u32) -> Result<Option<Thread>, String> {
    let Some(stat) =
        tree.fleeting(&format!("{folder}/stat")).map_err(|why| format!("/{folder}/stat: {why}"))?
    else {
        return Ok(None);
    };
    let mut thread = from_stat(&stat).ok_or_else(|| format!("/{folder}/stat makes no sense"))?;
    (thread.id, thread.process) = (id, process);
    let status = tree.fleeting(&format!("{folder}/status")).unwrap_or_default();
    if status.is_none() && tree.live() {
        return Ok(None);
    }
    let status = status.unwrap_or_default();
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    // No CPU at all stands for unknown: the kernel lets no thread be without one.
    thread.cpus = field("Cpus_allowed_list").and_then(|list| list.parse().ok()).unwrap_or_default();
    if thread.is_real_time() && !thread.kernel {
        let kib = |name| field(name)?.strip_suffix("kB")?.trim().parse().ok();
        thread.locked_kib = kib("VmLck");
        thread.resident_kib = kib("VmRSS");
        let groups = tree.hint(&format!("{folder}/cgroup")).unwrap_or_default();
        thread.cgroup = groups.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_string);
    }
    Ok(Some(thread))
}

/// proc_pid_stat(5) counts from 1; what follows the name begins with field 3.
fn from_stat(stat: &str) -> Option<Thread> {
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u32>().ok();
    let flags = field(9)?;
    Some(Thread {
        name: name.chars().take(64).map(|c| if c.is_control() { ' ' } else { c }).collect(),
        kernel: flags & KERNEL_THREAD != 0,
        bound: flags & BOUND != 0,
        last_cpu: field(39),
        priority: field(40).unwrap_or(0),
        policy: ThreadPolicy::of(field(41).unwrap_or(0)),
        ..Thread::default()
    })
}

/// The work of a thread so far: time and page faults.
pub(super) fn counts(stat: &str) -> Option<ThreadSample> {
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ThreadSample {
        name: head.split_once('(')?.1.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        minor_faults: field(10)?,
        major_faults: field(12)?,
        ran_ticks: field(14)?.saturating_add(field(15)?),
        ..ThreadSample::default()
    })
}

fn thread_count(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(20 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    /// A `stat` line.
    fn stat(name: &str, flags: u32, threads: u32, cpu: u32, priority: u32, policy: u32) -> String {
        let zeros = |count: usize| ["0"; 40][..count].join(" ");
        format!(
            "7 ({name}) S 2 0 0 0 -1 {flags} {} {threads} {} {cpu} {priority} {policy}",
            zeros(10),
            zeros(18)
        )
    }

    #[test]
    fn a_thread_is_of_the_process_that_has_it_and_of_no_other() {
        let files = [
            ("proc/40/task/42/stat", stat("loop", 0, 3, 3, 80, 1)),
            ("proc/42/status", "Name:\tloop\nTgid:\t40\n".to_string()),
            ("proc/41/task/41/stat", stat("other", 0, 1, 3, 0, 0)),
        ];
        let (_folder, tree) = made_of(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
        let found = |process, id| member(&tree, process, id).map(|thread| (thread.id, thread.process));
        assert_eq!([found(Some(40), 42), found(None, 42)], [Some((42, 40)); 2]);
        assert_eq!([found(Some(41), 42), found(Some(40), 41), found(None, 43)], [None; 3]);
    }

    #[test]
    fn a_name_that_is_no_utf8_is_shown_with_replacements() {
        let (folder, mut tree) = made_of(&[("proc/9/status", "Cpus_allowed_list:\t0\n")]);
        let mut line = b"9 (\x9b31mX) R 1 (\xff) S".to_vec();
        line.extend_from_slice(stat("", 0, 1, 0, 10, 1).split_once(") S").unwrap().1.as_bytes());
        std::fs::write(folder.path().join("proc/9/stat"), line).unwrap();
        let (threads, unread) = read(&mut tree);
        assert_eq!((threads[0].name.as_str(), threads[0].priority), ("\u{fffd}31mX) R 1 (\u{fffd}", 10));
        assert_eq!(unread, None);
    }

    #[test]
    fn tells_kernel_threads_policies_and_what_may_be_moved() {
        let files = [
            ("proc/2/stat".to_string(), stat("kthreadd", 0x0020_8040, 1, 0, 0, 0)),
            ("proc/15/stat".to_string(), stat("migration/0", 0x0420_8040, 1, 0, 99, 1)),
            ("proc/15/status".to_string(), "Name:\tx\nCpus_allowed_list:\t0\n".to_string()),
            ("proc/40/stat".to_string(), stat("a) b", 0, 3, 1, 0, 0)),
            ("proc/40/status".to_string(), "Cpus_allowed_list:\t0-3\n".to_string()),
            ("proc/40/task/40/stat".to_string(), String::new()),
            ("proc/40/task/41/stat".to_string(), stat("a) b", 0, 3, 1, 0, 0)),
            ("proc/40/task/41/status".to_string(), "Cpus_allowed_list:\t0-3\n".to_string()),
            ("proc/40/task/42/stat".to_string(), stat("loop", 0, 3, 3, 80, 1)),
            (
                "proc/40/task/42/status".to_string(),
                "VmLck:\t  10 kB\nVmRSS:\t 30 kB\nCpus_allowed_list:\t3\n".to_string(),
            ),
            ("proc/40/task/42/cgroup".to_string(), "0::/user.slice\n".to_string()),
            ("proc/50/stat".to_string(), "50 (cut".to_string()),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (threads, unread) = read(&mut made_of(&files).1);
        assert_eq!(unread.as_deref(), Some("/proc/50/stat makes no sense"));
        let seen: Vec<_> =
            threads.iter().map(|t| (t.id, t.process, t.name.as_str(), t.kernel, t.alike)).collect();
        assert_eq!(
            seen,
            [
                (2, 2, "kthreadd", true, 0),
                (15, 15, "migration/0", true, 0),
                (40, 40, "a) b", false, 2),
                (42, 40, "loop", false, 0)
            ]
        );
        assert!(threads[1].bound && threads[1].is_real_time() && !threads[0].bound);
        let last = &threads[3];
        assert_eq!(
            (last.priority, last.last_cpu, last.locked_kib, last.resident_kib),
            (80, Some(3), Some(10), Some(30))
        );
        assert_eq!((last.policy, last.cgroup.as_deref()), (ThreadPolicy::Fifo, Some("/user.slice")));
    }
}
