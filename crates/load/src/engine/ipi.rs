// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts from CPU to CPU, provoked from a housekeeping CPU, and counted where they arrive.
//!
//! Once every 0.1 to 1.9 ms, each of these, where allowed:
//! - **text patching** without a module: the first UDP socket with encapsulation on a machine switches a
//!   static key on, closing it switches it off. Each patch calls every CPU (x86: three times; arm64: once).
//!   No privilege; where IPsec or L2TP is in use, the key stays on and nothing is patched.
//! - **perf event reads** on each measured CPU: one function call each. For root, or perf_event_paranoid <=
//!   0. The event counts nothing.
//! - **membarrier**, global expedited: reaches CPUs that run a program which registered for it, as some
//!   runtimes do.
//! - **shootdowns**: a page's protection changes under a thread that spins on another housekeeping CPU, where
//!   there is one. They arrive at that CPU alone, since no thread of ours ever runs on a measured one.
//!
//! Figures: `rounds`; the successful calls of each kind; and, on the measured CPUs, `function_calls`,
//! `shootdowns` and `reschedules` that arrived since the start (`/proc/interrupts`; of any origin), with
//! `fewest_function_calls` for the CPU that got the fewest.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use machine::CpuSet;
use rustix::thread::{MembarrierCommand, membarrier};

use super::{Pauses, report, sharp_timers, spawn};
use crate::{sys, why};

pub fn run(house_keeping: &CpuSet, measured: &CpuSet) -> Result<(), String> {
    let sent = Arc::new(SentCalls::default());
    let page = Arc::new(sys::ProtectedPage::map().map_err(|e| format!("no page: {}", why(e)))?);
    if house_keeping.len() > 1 {
        let page = Arc::clone(&page);
        spawn("ipi-victim", move || {
            loop {
                page.touch();
                std::hint::spin_loop();
            }
        })?;
    }
    let before = arrived(&interrupts(), measured);
    let events: Vec<OwnedFd> = measured.iter().filter_map(|cpu| sys::dummy_event(cpu).ok()).collect();
    let counted = Arc::clone(&sent);
    spawn("ipi", move || {
        sharp_timers();
        let mut pauses = Pauses::between(Duration::from_micros(100), Duration::from_micros(1900), 0);
        loop {
            counted.round(&events, &page);
            pauses.pause();
        }
    })?;
    report(|| {
        let mut counts = sent.counts();
        counts.extend(arrived(&interrupts(), measured).since(&before));
        counts
    })
}

/// Successful calls by kind.
#[derive(Default)]
struct SentCalls {
    rounds: AtomicU64,
    key_switches: AtomicU64,
    event_reads: AtomicU64,
    membarriers: AtomicU64,
    protections: AtomicU64,
}

impl SentCalls {
    fn round(&self, events: &[OwnedFd], page: &sys::ProtectedPage) {
        let add = |count: &AtomicU64, done: bool| count.fetch_add(done.into(), Ordering::Relaxed);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| sys::encapsulate(&socket));
        add(&self.key_switches, socket.is_ok());
        for event in events {
            add(&self.event_reads, rustix::io::read(event, &mut [0; 8]).is_ok());
        }
        add(&self.membarriers, membarrier(MembarrierCommand::GlobalExpedited).is_ok());
        page.toggle();
        add(&self.protections, true);
        add(&self.rounds, true);
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = [
            ("rounds", &self.rounds),
            ("key_switches", &self.key_switches),
            ("event_reads", &self.event_reads),
            ("membarriers", &self.membarriers),
            ("protection_changes", &self.protections),
        ];
        counts.into_iter().map(|(name, count)| (name, count.load(Ordering::Relaxed))).collect()
    }
}

fn interrupts() -> String {
    untrusted::text("/proc/interrupts").unwrap_or_default()
}

/// Interrupts at the measured CPUs since the machine started, one number for each of them.
#[derive(Debug, Default, PartialEq)]
struct Arrived {
    function_calls: Vec<u64>,
    shootdowns: Vec<u64>,
    reschedules: Vec<u64>,
}

impl Arrived {
    fn since(&self, before: &Arrived) -> [(&'static str, u64); 4] {
        let grown = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect()
        };
        let sum = |now: &[u64], then: &[u64]| grown(now, then).iter().sum();
        let calls = grown(&self.function_calls, &before.function_calls);
        [
            ("function_calls", calls.iter().sum()),
            ("fewest_function_calls", calls.into_iter().min().unwrap_or(0)),
            ("shootdowns", sum(&self.shootdowns, &before.shootdowns)),
            ("reschedules", sum(&self.reschedules, &before.reschedules)),
        ]
    }
}

/// Reads `/proc/interrupts`. Lines are known by their description: the labels differ (x86 `CAL`, arm64
/// `IPI1`).
fn arrived(text: &str, measured: &CpuSet) -> Arrived {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<u32> =
        head.split_whitespace().filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
    let mut arrived = Arrived::default();
    for line in lines {
        let fields = || line.split_whitespace().skip(1).take(cpus.len());
        let wanted = || {
            let both = cpus.iter().zip(fields()).filter(|(cpu, _)| measured.contains(**cpu));
            both.filter_map(|(_, count)| count.parse().ok()).collect()
        };
        if line.ends_with("Function call interrupts") {
            arrived.function_calls = wanted();
        } else if line.ends_with("TLB shootdowns") {
            arrived.shootdowns = wanted();
        } else if line.ends_with("Rescheduling interrupts") {
            arrived.reschedules = wanted();
        }
    }
    arrived
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "           CPU0       CPU2       CPU3
 24:          1          0          5   IO-APIC   5-edge      ACPI:Ged
RES:      15575      11395          7   Rescheduling interrupts
CAL:      90644      41336        100   Function call interrupts
TLB:       7001       6373          9   TLB shootdowns
ERR:          0
";
    const ARM: &str = "           CPU0       CPU1
IPI0:        10         20       Rescheduling interrupts
IPI1:        30         40       Function call interrupts
IPI2:         0          0       CPU stop interrupts
";

    #[test]
    fn interrupts_are_read_for_the_measured_cpus_on_both_architectures() {
        let x86 = arrived(X86, &"2-3".parse().unwrap());
        assert_eq!(x86.function_calls, [41336, 100]);
        assert_eq!((x86.shootdowns, x86.reschedules), (vec![6373, 9], vec![11395, 7]));
        let arm = arrived(ARM, &"1".parse().unwrap());
        assert_eq!((arm.function_calls, arm.shootdowns, arm.reschedules), (vec![40], vec![], vec![20]));
    }

    #[test]
    fn the_cpu_that_got_the_fewest_calls_is_the_one_that_counts() {
        let before = arrived(X86, &"2-3".parse().unwrap());
        let text = X86.replace("41336        100", "41346        102");
        let counts = BTreeMap::from(arrived(&text, &"2-3".parse().unwrap()).since(&before));
        assert_eq!((counts["function_calls"], counts["fewest_function_calls"]), (12, 2));
    }

    #[test]
    fn nothing_readable_is_nothing_arrived() {
        let nothing = arrived("", &"0".parse().unwrap());
        assert_eq!(nothing, Arrived::default());
        assert_eq!(nothing.since(&nothing).map(|(_, count)| count), [0; 4]);
    }
}
