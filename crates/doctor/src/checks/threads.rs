// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs with a real-time policy: priority, memory, place.

use machine::advice;
use machine::advice::Manual::Program;
use machine::inventory::{Thread, ThreadPolicy};

use super::{Check, GRAVE, MIDDLING, TOLD};
use crate::Profile;
use crate::facts::{AS_ROOT, BY_SAMPLE, CheckFacts, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

const STAT: &str = "/proc/PID/stat";

pub(super) const ALL: &[Check] = &[
    Check {
        id: "thr-rt-inventory",
        question: "Which programs have a real-time policy?",
        weights: TOLD,
        why: "a real-time thread preempts all ordinary threads",
        source: "sched(7)",
        look: inventory,
    },
    Check {
        id: "thr-prio-99",
        question: "Is priority 99 left to the kernel?",
        weights: MIDDLING,
        why: "99 is above every interrupt thread, softirq thread and RCU's helpers; if it spins, they starve. (Threads of the \
              stop class, migration/N, show 99 as well and are above it.)",
        source: "Linux 6.12, kernel/sched/stop_task.c, sched(7)",
        look: priority_99,
    },
    Check {
        id: "thr-spinner",
        question: "Do real-time programs sleep often enough for kernel threads?",
        weights: [
            Some(Severity::Low),
            Some(Severity::High),
            Some(Severity::Low),
            Some(Severity::Medium),
            None,
        ],
        why: "a program that never sleeps starves the kernel threads of its CPU, which can stall the whole machine",
        source: "ni/meta-nilrt pull request 711; stalld",
        look: spinner,
    },
    Check {
        id: "thr-mlock",
        question: "Is the memory of real-time programs locked?",
        weights: [
            Some(Severity::High),
            Some(Severity::Medium),
            Some(Severity::Medium),
            Some(Severity::Medium),
            None,
        ],
        why: "a minor page fault costs tens of microseconds, a major one milliseconds",
        source: "mlockall(2); Jetson AGX Orin PREEMPT_RT validation (tech.wimcorp.dev)",
        look: locked,
    },
    Check {
        id: "thr-faults",
        question: "Do real-time programs run without page faults?",
        weights: GRAVE,
        why: "a minor page fault costs tens of microseconds, a major one milliseconds",
        source: "proc_pid_stat(5), fields 10 and 12, twice",
        look: faults,
    },
    Check {
        id: "thr-affinity",
        question: "Is every real-time thread pinned to one isolated CPU?",
        weights: [Some(Severity::Medium), Some(Severity::High), None, Some(Severity::Medium), None],
        why: "a thread that may use several CPUs migrates; on isolated CPUs there is no load balancing",
        source: "Linux 6.12, Documentation/admin-guide/kernel-parameters.txt (isolcpus)",
        look: affinity,
    },
];

fn describe(thread: &Thread) -> String {
    let policy = match thread.policy {
        ThreadPolicy::Fifo => "fifo",
        ThreadPolicy::RoundRobin => "rr",
        ThreadPolicy::Deadline => "deadline",
        _ => "other",
    };
    match thread.policy {
        ThreadPolicy::Deadline => format!("{} ({}) {policy}", thread.name, thread.id),
        _ => format!("{} ({}) {policy} {}", thread.name, thread.id, thread.priority),
    }
}

fn all_words(threads: &[&Thread]) -> Vec<String> {
    threads.iter().map(|thread| describe(thread)).collect()
}

fn inventory(facts: &CheckFacts) -> CheckResult {
    let threads = facts.real_time_threads()?;
    let names = all_words(&threads);
    let read = read_in(STAT, some(&names, 20));
    if names.is_empty() {
        facts.unseen_host(STAT)?;
        facts.unseen_threads()?;
    }
    Ok(match names.len() {
        0 => Conclusion::pass(read, "no program has a real-time policy"),
        _ => Conclusion::pass(read, format!("{}: {}", names.len(), some(&names, 3))),
    })
}

fn priority_99(facts: &CheckFacts) -> CheckResult {
    let high: Vec<&Thread> = facts
        .real_time_threads()?
        .into_iter()
        .filter(|thread| thread.priority >= 99 && thread.policy != ThreadPolicy::Deadline)
        .collect();
    let names = all_words(&high);
    let read = read_in(STAT, some(&names, 8));
    if high.is_empty() {
        facts.unseen_host(STAT)?;
        facts.unseen_threads()?;
    }
    Ok(match high.first() {
        None => Conclusion::pass(read, "no program has priority 99"),
        Some(first) => {
            let fix = Program.advice(format!("chrt -f -p 90 {}, and in the program", first.id));
            Conclusion::warn(read, some(&names, 3), fix)
        }
    })
}

fn sampled<'a>(facts: &CheckFacts<'a>) -> Result<&'a machine::inventory::MachineSample, Conclusion> {
    facts
        .inventory
        .sample
        .as_ref()
        .ok_or_else(|| Conclusion::unknown("/proc/PID/task/TID/stat", "nothing was sampled", BY_SAMPLE))
}

/// That a real-time thread was not sampled, or not seen at all.
fn all_sampled(facts: &CheckFacts, sample: &machine::inventory::MachineSample) -> Result<(), Conclusion> {
    facts.unseen_threads()?;
    let threads = facts.real_time_threads()?;
    let missing = threads.iter().find(|thread| !sample.threads.iter().any(|seen| seen.id == thread.id));
    match missing {
        Some(thread) => {
            let path = format!("/proc/{}/task/{}/stat", thread.process, thread.id);
            Err(Conclusion::unknown(path, format!("{} was not sampled", thread.name), BY_SAMPLE))
        }
        None => Ok(()),
    }
}

fn spinner(facts: &CheckFacts) -> CheckResult {
    if facts.real_time_threads()?.is_empty() {
        return Err(Conclusion::not_applicable("no program has a real-time policy"));
    }
    let sample = sampled(facts)?;
    let spins: Vec<String> = sample
        .threads
        .iter()
        .filter(|thread| thread.busy_percent(sample.duration_ms) > 95.0)
        .map(|thread| format!("{} ({})", thread.name, thread.id))
        .collect();
    let read = read_in(format!("/proc/PID/task/TID/stat over {} ms", sample.duration_ms), some(&spins, 8));
    let stalled = facts.inventory.log.matching("rcu*stall").next();
    let fix = Program.advice("run it at fifo 1, run stalld, or let it sleep for a moment each second");
    if spins.is_empty() {
        all_sampled(facts, sample)?;
    }
    Ok(match (spins.is_empty(), stalled) {
        (true, _) => Conclusion::pass(read, "every real-time program sleeps now and then"),
        (false, Some(line)) => Conclusion::fail(
            read,
            format!("{} never sleeps, and the kernel says: {line}", some(&spins, 2)),
            fix,
        ),
        (false, None) => Conclusion::warn(read, format!("{} never sleeps", some(&spins, 3)), fix),
    })
}

fn locked(facts: &CheckFacts) -> CheckResult {
    let threads = facts.real_time_threads()?;
    let mut processes: Vec<&Thread> = Vec::new();
    let blind = threads.iter().find(|thread| thread.resident_kib.is_none() || thread.locked_kib.is_none());
    let blind = blind.map(|thread| {
        let path = format!("/proc/{}/status", thread.process);
        Conclusion::unknown(path, format!("it does not say what {} has locked", thread.name), AS_ROOT)
    });
    for thread in threads.into_iter().filter(|thread| thread.resident_kib.is_some_and(|kib| kib > 0)) {
        if !processes.iter().any(|known| known.process == thread.process) {
            processes.push(thread);
        }
    }
    if processes.is_empty() {
        return Err(blind.unwrap_or_else(|| Conclusion::not_applicable("no program has a real-time policy")));
    }
    // What is mapped and shared need not count as locked, so a tenth is let pass.
    let open = |thread: &&&Thread| thread.locked_kib.unwrap_or(0) * 10 < thread.resident_kib.unwrap_or(0) * 9;
    let names: Vec<String> = processes
        .iter()
        .filter(open)
        .map(|thread| {
            let (locked, all) = (thread.locked_kib.unwrap_or(0), thread.resident_kib.unwrap_or(0));
            format!("{} ({}) {locked} of {all} KiB", thread.name, thread.process)
        })
        .collect();
    let read = read_in("VmLck, VmRSS in /proc/PID/status", some(&names, 8));
    if let (true, Some(found)) = (names.is_empty(), blind) {
        return Err(found);
    }
    Ok(if names.is_empty() {
        Conclusion::pass(read, "every real-time program has locked its memory")
    } else {
        let fix = advice::LOCK_MEMORY.then(", with memlock unlimited");
        Conclusion::warn(
            read,
            format!("real-time programs have not locked their memory: {}", some(&names, 3)),
            fix,
        )
    })
}

fn faults(facts: &CheckFacts) -> CheckResult {
    if facts.real_time_threads()?.is_empty() {
        return Err(Conclusion::not_applicable("no program has a real-time policy"));
    }
    let sample = sampled(facts)?;
    let count = |pick: fn(&machine::inventory::ThreadSample) -> u64| -> Vec<String> {
        let hit = sample.threads.iter().filter(|thread| pick(thread) > 0);
        hit.map(|thread| format!("{} ({}) {}", thread.name, thread.id, pick(thread))).collect()
    };
    let (major, minor) = (count(|thread| thread.major_faults), count(|thread| thread.minor_faults));
    if major.is_empty() && minor.is_empty() {
        all_sampled(facts, sample)?;
    }
    let source = format!("/proc/PID/task/TID/stat over {} ms", sample.duration_ms);
    let fix = advice::LOCK_MEMORY.then(", and do not fork meanwhile");
    Ok(match (major.is_empty(), minor.is_empty()) {
        (false, _) => Conclusion::fail(
            read_in(source, some(&major, 8)),
            format!("major page faults: {}", some(&major, 3)),
            fix,
        ),
        (true, false) => Conclusion::warn(
            read_in(source, some(&minor, 8)),
            format!("page faults: {}", some(&minor, 3)),
            fix,
        ),
        _ => Conclusion::pass(read_in(source, "0"), "no page fault came"),
    })
}

fn affinity(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let threads = facts.real_time_threads()?;
    if threads.is_empty() {
        return Err(Conclusion::not_applicable("no program has a real-time policy"));
    }
    let free: Vec<String> = threads
        .iter()
        .filter(|thread| thread.cpus.len() != 1 || thread.cpus.and(isolated).is_empty())
        .map(|thread| format!("{} ({}) on {}", thread.name, thread.id, thread.cpus))
        .collect();
    let read = read_in("Cpus_allowed_list in /proc/PID/task/TID/status", some(&free, 8));
    if free.is_empty() {
        facts.unseen_threads()?;
    }
    // On a machine that polls, every thread has a CPU of its own; elsewhere a helper may roam.
    Ok(if free.is_empty() {
        Conclusion::pass(read, "every real-time thread is pinned to one isolated CPU")
    } else {
        let one = isolated.iter().next().unwrap_or(0);
        let says = if facts.profile == Profile::Poll {
            "not pinned to one CPU"
        } else {
            "not pinned to an isolated CPU"
        };
        Conclusion::warn(
            read,
            format!("{says}: {}", some(&free, 3)),
            Program.advice(format!("taskset -pc {one} TID, for each with a deadline")),
        )
    })
}
