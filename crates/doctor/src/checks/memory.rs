// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own work on a program's memory.

use machine::advice::{self, SettingId};
use std::collections::BTreeSet;

use super::kernel::bracketed;
use super::{Check, MIDDLING, SLIGHT};
use crate::facts::{CheckFacts, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "mem-thp",
        question: "Are transparent huge pages made only on request (madvise)?",
        weights: MIDDLING,
        why: "khugepaged moves pages of running programs, with TLB shootdowns to all their CPUs",
        source: "Linux 6.12, Documentation/admin-guide/mm/transhuge.rst; not there on a real-time kernel (mm/Kconfig)",
        look: huge_pages,
    },
    Check {
        id: "mem-numa-balancing",
        question: "Is NUMA balancing off?",
        weights: MIDDLING,
        why: "balancing unmaps pages to find their users: a page fault for each, also in locked memory",
        source: "Linux 6.12, kernel/sched/fair.c; not there on a real-time kernel (init/Kconfig)",
        look: numa_balancing,
    },
    Check {
        id: "mem-swap",
        question: "Are real-time programs safe from swapping?",
        weights: [
            Some(Severity::Medium),
            Some(Severity::Medium),
            Some(Severity::Low),
            Some(Severity::Medium),
            None,
        ],
        why: "a page in swap, also in zram, takes a major fault when it is used",
        source: "mlockall(2); zram is swap as well",
        look: swap,
    },
    Check {
        id: "mem-ksm",
        question: "Is page merging (KSM) off?",
        weights: SLIGHT,
        why: "a merged page takes a fault and a TLB shootdown at its next write; ksmd takes CPU time",
        source: "Linux 6.12, Documentation/admin-guide/mm/ksm.rst",
        look: merging,
    },
];

fn huge_pages(facts: &CheckFacts) -> CheckResult {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = facts.text(path)?;
    let read = read_in(path, text);
    Ok(match bracketed(text) {
        Some("always") => Conclusion::warn(
            read,
            "huge pages are made for every program",
            SettingId::HugePages.advice(&facts.aim()),
        ),
        Some(word) if ["madvise", "never"].contains(&word) => Conclusion::pass(read, word),
        Some(word) => Conclusion::unknown(path, format!("this file has no choice '{word}'"), "look at it"),
        None => Conclusion::unknown(path, format!("'{text}' shows no choice"), "look at it"),
    })
}

fn numa_balancing(facts: &CheckFacts) -> CheckResult {
    let path = "/proc/sys/kernel/numa_balancing";
    let mode = facts.number(path)?;
    let nodes: BTreeSet<u32> = facts.machine.cpus.iter().filter_map(|cpu| cpu.node).collect();
    let unknown = facts.machine.cpus.is_empty() || facts.machine.cpus.iter().any(|cpu| cpu.node.is_none());
    let read = read_in(path, mode);
    Ok(match (mode, nodes.len()) {
        (0, _) => Conclusion::pass(read, "NUMA balancing is off"),
        (_, 0 | 1) if unknown => Conclusion::unknown(
            "/sys/devices/system/node/nodeN/cpulist",
            "the memory node of a CPU is not known",
            "look at the machine itself",
        ),
        (_, 0 | 1) => Conclusion::pass(read, "NUMA balancing is on; with one node it does nothing"),
        (_, nodes) => {
            let fix = SettingId::NumaBalancing.advice(&facts.aim());
            Conclusion::warn(read, format!("NUMA balancing is on, with {nodes} nodes"), fix)
        }
    })
}

fn swap(facts: &CheckFacts) -> CheckResult {
    let path = "/proc/swaps";
    let text = facts.text(path)?;
    if !text.starts_with("Filename") {
        return Err(Conclusion::unknown(path, "it does not begin as a list of swap does", "look at it"));
    }
    let devices: Vec<String> =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect();
    let read = read_in(path, devices.join(", "));
    if devices.is_empty() {
        return Ok(Conclusion::pass(read, "there is no swap"));
    }
    let threads = facts.real_time_threads()?;
    let locked = |thread: &&machine::inventory::Thread| {
        let (locked, all) = (thread.locked_kib.unwrap_or(0), thread.resident_kib.unwrap_or(u64::MAX));
        locked.saturating_mul(10) >= all.saturating_mul(9)
    };
    let all_locked = !threads.is_empty() && threads.iter().all(locked);
    if all_locked {
        facts.unseen_host("/proc/PID/status")?;
        facts.unseen_threads()?;
    }
    Ok(if all_locked {
        Conclusion::pass(
            read,
            format!("swap on {}, and real-time programs have their memory locked", some(&devices, 2)),
        )
    } else {
        Conclusion::warn(
            read,
            format!("swap on {}", some(&devices, 2)),
            advice::LOCK_MEMORY.then(", or swapoff -a"),
        )
    })
}

fn merging(facts: &CheckFacts) -> CheckResult {
    let path = "/sys/kernel/mm/ksm/run";
    let text = facts.word(path, &["0", "1", "2"])?;
    let read = read_in(path, text);
    Ok(match text {
        "1" => {
            let fix = SettingId::PageSharing.advice(&facts.aim());
            Conclusion::warn(read, "KSM is on: equal pages are merged", fix)
        }
        _ => Conclusion::pass(read, "KSM is off"),
    })
}
