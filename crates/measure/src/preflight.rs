// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks at a machine and at what was asked of it before anything is measured.
//!
//! A pure function: the snapshot and the request go in, [`Finding`]s come out. What a finding does follows
//! one rule:
//!
//! - [`Effect::Refuse`]: it cannot be measured as asked. Nothing is started; the cure says what to change.
//! - [`Effect::Taint`]: a run could look good although the claim made from it does not stand, because what
//!   decides it is not under control (a sibling's neighbour, an idle state that the run may never enter), is
//!   not what was asked (policy), or has no worst case by design (a kernel that is not real-time).
//! - [`Effect::Note`]: it belongs to the configuration that is measured and recorded. It can make latencies
//!   longer, never let them look shorter than they are: a deadline that holds with it holds.
//!
//! Limits: files tell what is configured, not what will happen. Time that a hypervisor steals, page faults
//! and a load that dies are seen while measuring. What the snapshot does not know is not held against the
//! machine, with one exception: a kernel is real-time only where it says so.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use evidence::Taint;
use machine::snapshot::Cpu;
use machine::{CpuSet, Snapshot};

use crate::response;
use evidence::manifest::{Asked, ETHERCAT, LOOP, MESSAGE, RESPONSE};

mod asked;
mod cpus;
mod kernel;
#[cfg(test)]
mod tests;

/// What a finding does to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It is written down.
    Note,
    /// It is held against the verdict, unless accepted.
    Taint,
    /// The run does not start.
    Refuse,
}

/// One thing that was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A fixed word for it; what may taint has it from [`evidence::taint`].
    pub code: &'static str,
    /// What it does to the run.
    pub effect: Effect,
    /// What was found, on what.
    pub reason: String,
    /// What to do about it.
    pub cure: String,
    /// The measured CPU that it concerns; absent: all of them, or the machine.
    pub cpu: Option<u32>,
}

/// What is asked of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What was asked.
    pub asked: &'a Asked,
    /// The limit that goes with each of `asked.periods_ns`, in their order; empty where none is known.
    pub limits_ns: &'a [u64],
    /// Resolution of CLOCK_MONOTONIC (`clock_getres`); 1 with high-resolution timers.
    pub clock_resolution_ns: u64,
    /// What this process may do.
    pub privilege: Privilege,
}

/// What this process may do, as the caller found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Privilege {
    /// Whether it has CAP_SYS_NICE.
    pub cap_sys_nice: bool,
    /// Whether it has CAP_IPC_LOCK.
    pub cap_ipc_lock: bool,
    /// RLIMIT_RTPRIO: the highest real-time priority without CAP_SYS_NICE.
    pub rtprio_limit: u64,
    /// RLIMIT_MEMLOCK in bytes; absent: unlimited.
    pub memlock_limit_bytes: Option<u64>,
    /// What `mlockall` has to lock: the size of the address space (`VmSize`), in bytes.
    pub address_space_bytes: u64,
}

/// Everything worth saying about `request` on `machine`, the gravest first.
pub fn preflight(machine: &Snapshot, request: &Request) -> Vec<Finding> {
    let mut findings = asked::check(machine, request);
    if request.measures_with_threads() {
        findings.extend(kernel::check(machine, request));
    }
    if request.measures_with_threads() || request.measures(LOOP) {
        findings.extend(kernel::of_threads(machine, request));
        findings.extend(cpus::check(machine, request));
    }
    findings.extend(kernel::surroundings(machine));
    findings.sort_by_key(|finding| Reverse(finding.effect));
    findings
}

impl Finding {
    fn new(effect: Effect, code: &'static str, reason: impl fmt::Display, cure: impl fmt::Display) -> Self {
        Finding { code, effect, reason: reason.to_string(), cure: cure.to_string(), cpu: None }
    }

    fn on(self, cpu: Option<u32>) -> Self {
        Finding { cpu, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.reason, self.cure)
    }
}

impl From<Finding> for Taint {
    fn from(finding: Finding) -> Self {
        Taint { cpu: finding.cpu, ..Taint::new(finding.code, finding.reason, finding.cure) }
    }
}

impl Request<'_> {
    fn measures(&self, probe: &str) -> bool {
        self.asked.probes.iter().any(|asked| asked == probe)
    }

    /// Whether what it measures has a period.
    fn is_periodic(&self) -> bool {
        self.measures("wakeup")
            || self.measures("toggle")
            || self.measures(LOOP)
            || self.sends_messages()
            || self.responds()
    }

    /// Whether a measuring thread never leaves its CPU by itself.
    fn never_sleeps(&self) -> bool {
        self.measures("spin") || self.measures("toggle") || self.sends_messages() || self.polls()
    }

    fn responds(&self) -> bool {
        self.asked.probes.iter().any(|probe| probe.starts_with(RESPONSE))
    }

    /// Lines are waited for.
    fn polls(&self) -> bool {
        self.measures(response::SHARED) || self.measures(response::REGISTERS)
    }

    fn sends_messages(&self) -> bool {
        self.asked.probes.iter().any(|probe| probe.starts_with(MESSAGE))
    }

    /// The hardware probe is a tracer of the kernel, a loop is another program's; only the others are threads of ours.
    fn measures_with_threads(&self) -> bool {
        self.measures("wakeup") || self.measures(ETHERCAT) || self.never_sleeps() || self.responds()
    }

    fn policy(&self) -> &str {
        self.asked.policy.as_deref().unwrap_or("fifo")
    }

    /// Whether the measuring threads have a policy with priorities 1 to 99.
    fn has_priority(&self) -> bool {
        matches!(self.policy(), "fifo" | "rr")
    }

    /// Whether every ordinary task may delay them.
    fn is_ordinary(&self) -> bool {
        matches!(self.policy(), "other" | "batch" | "idle")
    }

    /// For what takes the CPU from a thread that never sleeps: the spin, toggle and response probes, not a wakeup every period.
    fn taint_where_spinning(&self) -> Effect {
        if self.never_sleeps() { Effect::Taint } else { Effect::Note }
    }
}

/// Measured CPUs of which the same was found.
struct Found<T> {
    what: T,
    /// `cpu 3`, `cpus 2-3`.
    on: String,
    /// Set where it does not concern every measured CPU.
    cpu: Option<u32>,
}

/// What `look` finds on the measured CPUs: said once where it is the same on all, else CPU by CPU, since a
/// taint without a CPU disturbs every row.
fn on_measured<T: Ord + Clone>(
    machine: &Snapshot,
    request: &Request,
    look: impl Fn(&Cpu) -> Option<T>,
) -> Vec<Found<T>> {
    let measured = &request.asked.cpus;
    let mut same: BTreeMap<T, CpuSet> = BTreeMap::new();
    for cpu in measured.iter().filter_map(|id| machine.cpu(id)) {
        if let Some(what) = look(cpu) {
            same.entry(what).or_default().insert(cpu.id);
        }
    }
    let mut found = Vec::new();
    for (what, cpus) in same {
        if cpus == *measured {
            found.push(Found { what, on: name(&cpus), cpu: None });
        } else {
            let each =
                cpus.iter().map(|cpu| Found { what: what.clone(), on: format!("cpu {cpu}"), cpu: Some(cpu) });
            found.extend(each);
        }
    }
    found
}

/// `cpu 3`, `cpus 2-3`.
fn name(cpus: &CpuSet) -> String {
    if cpus.len() == 1 { format!("cpu {cpus}") } else { format!("cpus {cpus}") }
}

/// Nanoseconds as microseconds, `0.5 us`.
fn us(ns: u64) -> String {
    format!("{} us", ns as f64 / 1000.0)
}
