// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that is left on isolated CPUs: RCU, deferred work, kernel threads, programs; and what a
//! sample saw.

use std::collections::BTreeMap;

use machine::CpuSet;
use machine::advice::{Manual, SettingId};
use machine::inventory::{CpuSample, Thread};

use super::{APART, APART_LESS, Check};
use crate::Profile;
use crate::facts::{CheckFacts, some};
use crate::finding::{CheckResult, Conclusion, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "iso-rcu-offload",
        question: "Are RCU callbacks offloaded from isolated CPUs?",
        weights: APART_LESS,
        why: "otherwise they run in the softirq, or in rcuc, of the isolated CPU",
        source: "Linux 6.12, kernel/rcu/tree_nocb.h",
        look: rcu_offload,
    },
    Check {
        id: "iso-rcuo-placement",
        question: "Are RCU callback threads (rcuo) kept off isolated CPUs?",
        weights: APART_LESS,
        why: "the threads that run offloaded callbacks may run on isolated CPUs unless they are moved",
        source: "Linux 6.12, Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
        look: rcuo_placement,
    },
    Check {
        id: "iso-wq-unbound",
        question: "Are unbound workqueues kept off isolated CPUs?",
        weights: APART_LESS,
        why: "unbound workers run on every CPU of their mask",
        source: "Linux 6.12, kernel/workqueue.c: isolcpus=domain and nohz_full take their CPUs out",
        look: workqueues,
    },
    Check {
        id: "iso-kthreads",
        question: "Are movable kernel threads kept off isolated CPUs?",
        weights: APART_LESS,
        why: "nohz_full= moves them, isolcpus= alone does not before Linux 7.0, and kthread_cpus= is in no kernel",
        source: "Linux 6.12, kernel/kthread.c; Linux 7.0, kernel/sched/isolation.c",
        look: kernel_threads,
    },
    Check {
        id: "iso-user-tasks",
        question: "Are other programs kept off isolated CPUs?",
        weights: APART,
        why: "a program that pins itself to an isolated CPU runs there, and the scheduler never moves it off",
        source: "canonical/real-time-ubuntu-docs; systemd.resource-control(5)",
        look: programs,
    },
    Check {
        id: "iso-noise-sample",
        question: "Was an isolated CPU interrupted during the sample?",
        weights: APART,
        why: "counters show whether the settings work",
        source: "/proc/interrupts and /proc/softirqs, twice",
        look: sample,
    },
];

/// The CPUs that have a callback thread: `rcuop/N`, or `rcuos/N` where the kernel is not preemptible.
fn offloaded(threads: &[&Thread]) -> CpuSet {
    let number = |thread: &&Thread| {
        let rest = thread.name.strip_prefix("rcuop/").or_else(|| thread.name.strip_prefix("rcuos/"))?;
        rest.parse().ok()
    };
    threads.iter().filter_map(number).collect()
}

fn rcu_offload(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let offloaded = offloaded(&facts.kernel_threads()?);
    let missing = isolated.without(&offloaded);
    let read = read_in("rcuop/N in /proc/PID/stat", &offloaded);
    if !missing.is_empty() {
        facts.unseen_threads()?;
    }
    let fix = SettingId::RcuNocbs.advice(&facts.aim());
    Ok(if missing.is_empty() {
        Conclusion::pass(read, "callbacks are offloaded from all isolated CPUs")
    } else {
        Conclusion::warn(read, format!("callbacks of cpus {missing} are not offloaded"), fix)
    })
}

fn rcuo_placement(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let threads = facts.kernel_threads()?;
    let ours: Vec<&&Thread> = threads.iter().filter(|thread| thread.name.starts_with("rcuo")).collect();
    if ours.is_empty() {
        facts.unseen_threads()?;
        return Err(Conclusion::not_applicable("no callbacks are offloaded"));
    }
    let here: Vec<String> = ours
        .iter()
        .filter(|thread| !thread.cpus.and(isolated).is_empty())
        .map(|thread| thread.name.clone())
        .collect();
    let read = read_in("Cpus_allowed_list in /proc/PID/status", some(&here, 8));
    if here.is_empty() {
        facts.unseen_threads()?;
    }
    Ok(if here.is_empty() {
        Conclusion::pass(read, "callback threads run on other CPUs")
    } else {
        let fix = format!("for p in $(pgrep ^rcuo); do taskset -pc {} $p; done", facts.housekeeping);
        let fix = SettingId::KernelThreads.advice_in(&facts.aim(), fix);
        Conclusion::warn(read, format!("{} may run on cpus {isolated}", some(&here, 4)), fix)
    })
}

fn workqueues(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let path = "/sys/devices/virtual/workqueue/cpumask";
    let text = facts.text(path)?;
    let Ok(all) = CpuSet::from_mask(text) else {
        return Err(Conclusion::unknown(path, format!("'{text}' is not a mask"), "look at it"));
    };
    let overlap = all.and(isolated);
    if !overlap.is_empty() {
        return Ok(Conclusion::warn(
            read_in(path, text),
            format!("unbound work may run on cpus {overlap}"),
            SettingId::Workqueues.advice(&facts.aim()),
        ));
    }
    let own: Vec<String> = facts
        .inventory
        .workqueues
        .iter()
        .filter(|(_, cpus)| !cpus.and(isolated).is_empty())
        .map(|(name, _)| name.clone())
        .collect();
    // The mask for all limits each queue's own.
    let says = match own.len() {
        0 => "unbound work runs on other CPUs".to_string(),
        _ => format!(
            "unbound work runs on other CPUs; the masks of {} are wider, and limited by the global mask",
            some(&own, 3)
        ),
    };
    Ok(Conclusion::pass(read_in(path, text), says))
}

fn kernel_threads(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let threads = facts.kernel_threads()?;
    // Interrupt threads follow their interrupt, RCU's callback threads have a check of their own.
    let movable = |thread: &&&Thread| {
        !thread.bound
            && !thread.name.starts_with("irq/")
            && !thread.name.starts_with("rcuo")
            && !thread.cpus.and(isolated).is_empty()
    };
    let here: Vec<String> =
        threads.iter().filter(movable).map(|thread| format!("{} ({})", thread.name, thread.id)).collect();
    let read = read_in("Cpus_allowed_list in /proc/PID/status", some(&here, 12));
    if here.is_empty() {
        facts.unseen_threads()?;
    }
    Ok(if here.is_empty() {
        Conclusion::pass(read, "movable kernel threads run on other CPUs")
    } else {
        let says =
            format!("{} that could be moved may run on cpus {isolated}: {}", here.len(), some(&here, 3));
        Conclusion::warn(read, says, SettingId::KernelThreads.advice(&facts.aim()))
    })
}

fn programs(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    // What may run on isolated CPUs alone was put there.
    let stray =
        |thread: &&Thread| !thread.cpus.and(isolated).is_empty() && !thread.cpus.without(isolated).is_empty();
    let here: Vec<String> = facts
        .user_threads()?
        .into_iter()
        .filter(stray)
        .map(|thread| format!("{} ({})", thread.name, thread.id))
        .collect();
    let read = read_in("Cpus_allowed_list in /proc/PID/status", some(&here, 12));
    if here.is_empty() {
        facts.unseen_host("/proc/PID/status")?;
        facts.unseen_threads()?;
    }
    Ok(if here.is_empty() {
        Conclusion::pass(read, "other programs may not run on isolated CPUs")
    } else {
        let fix = SettingId::Slices.advice(&facts.aim());
        Conclusion::warn(
            read,
            format!("{} may also run on cpus {isolated}: {}", here.len(), some(&here, 3)),
            fix,
        )
    })
}

fn sample(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let sample = facts.sampled("/proc/interrupts")?;
    let ours = || sample.cpus.iter().filter(|cpu| isolated.contains(cpu.cpu));
    let lines: Vec<String> =
        ours().map(|cpu| format!("cpu {}: {}", cpu.cpu, some(&cpu.describe(), 6))).collect();
    let read = read_in(format!("/proc/interrupts over {} ms", sample.duration_ms), lines.join("; "));
    let named = |pick: fn(&CpuSample) -> &BTreeMap<String, u64>| -> Vec<String> {
        ours()
            .flat_map(|cpu| {
                pick(cpu).iter().map(move |(name, count)| format!("{count} {name} on cpu {}", cpu.cpu))
            })
            .collect()
    };
    let (devices, nmis) = (named(|cpu| &cpu.devices), named(|cpu| &cpu.nmis));
    // What a tick of the kernel's fastest configuration would give.
    let busy_timer = ours().any(|cpu| sample.per_second(cpu.timer) > 1_000.0);
    Ok(if !devices.is_empty() {
        let fix = SettingId::IrqAffinity.advice_in(&facts.aim(), "move their interrupts away");
        Conclusion::warn(read, format!("devices: {}", some(&devices, 3)), fix)
    } else if !nmis.is_empty() {
        Conclusion::warn(
            read,
            format!("not maskable: {}", some(&nmis, 3)),
            SettingId::NmiWatchdog.advice(&facts.aim()).then(", and end perf"),
        )
    } else if busy_timer && facts.profile == Profile::Poll {
        Conclusion::warn(
            read,
            "a timer fires more than a thousand times a second",
            Manual::Search.advice("isolator why, for what started it"),
        )
    } else {
        facts.unsampled("/proc/interrupts", isolated)?;
        Conclusion::pass(read, format!("no device; {}", some(&lines, 1)))
    })
}
