// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks at a machine and at what was asked of it before anything is measured.
//!
//! A pure function: the snapshot and the request go in, [`PreflightFinding`]s come out. What a finding does
//! follows one rule:
//!
//! - [`FindingEffect::Refuse`]: it cannot be measured as asked. Nothing is started; the cure says what to
//!   change.
//! - [`FindingEffect::Taint`]: a run could look good although the claim made from it does not stand, because
//!   what decides it is not under control (a sibling's neighbour, an idle state that the run may never
//!   enter), is not what was asked (policy), or has no worst case by design (a kernel that is not real-time).
//! - [`FindingEffect::Note`]: it belongs to the configuration that is measured and recorded. It can make
//!   latencies longer, never let them look shorter than they are: a deadline that holds with it holds.
//!
//! Limits: files tell what is configured, not what will happen. Time that a hypervisor steals, page faults
//! and a load that dies are seen while measuring. What the snapshot does not know is not held against the
//! machine, with one exception: a kernel is real-time only where it says so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use evidence::kind::RowKind;
use machine::advice::Aim;
use machine::purpose::is_same_period;
use machine::snapshot::Cpu;
use machine::units::exact_us;
use machine::{CpuSet, Snapshot, Use};
use measure::probes::ProbeKind;

use crate::finding::{FindingEffect, PreflightFinding};
use crate::privilege::Privilege;
use crate::spec::RunSpec;

mod cpus;
mod platform;
mod possible;
#[cfg(test)]
mod tests;

/// A request to the machine.
#[derive(Debug, Clone, Copy)]
pub struct PreflightRequest<'a> {
    /// The run.
    pub spec: &'a RunSpec,
    /// Resolution of CLOCK_MONOTONIC (`clock_getres`); 1 with high-resolution timers.
    pub clock_resolution_ns: u64,
    /// The rights of this process.
    pub privilege: Privilege,
}

/// Everything worth saying about `request` on `machine`, the gravest first.
pub fn preflight(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let mut findings = possible::check(machine, request);
    if request.measures_with_threads() {
        findings.extend(platform::check(machine, request));
    }
    if request.measures_with_threads() || request.measures_a_loop() {
        findings.extend(platform::of_threads(machine, request));
        findings.extend(cpus::check(machine, request));
    }
    if request.measures_a_loop() {
        findings.extend(of_the_use(request));
    }
    findings.extend(platform::surroundings(machine));
    findings.sort_by_key(|finding| Reverse(finding.effect));
    findings
}

/// Loops of a program whose period is not one of the use that judges them.
fn of_the_use(request: &PreflightRequest) -> Vec<PreflightFinding> {
    let Some(Ok(purpose)) = request.spec.asked.purpose.as_deref().map(str::parse::<Use>) else {
        return Vec::new();
    };
    let periods: BTreeSet<u64> = request.spec.periods.iter().map(|period| period.ns.get()).collect();
    periods.into_iter().filter_map(|period_ns| of_another_period(&purpose, period_ns)).collect()
}

/// The note on a loop whose period is not one of the use that judges it.
pub fn of_another_period(purpose: &Use, period_ns: u64) -> Option<PreflightFinding> {
    let of_use_ns = purpose.thread_of(period_ns)?.period_ns;
    let (found, of_use) = (exact_us(period_ns), exact_us(of_use_ns));
    (!is_same_period(period_ns, of_use_ns)).then(|| {
        let reason =
            format!("a loop begins every {found}; {purpose}, which judges it, has a period of {of_use}");
        PreflightFinding::new(FindingEffect::Note, "use-period", reason, "give the --use of the program")
    })
}

impl PreflightRequest<'_> {
    /// The CPUs of the table of advice: the measured CPUs are to be isolated.
    fn aim<'m>(&self, machine: &'m Snapshot) -> Aim<'m> {
        Aim {
            machine,
            profile: evidence::kind::profile(self.spec.probes.iter().map(ProbeKind::row_kind)),
            isolated: self.spec.cpus.clone(),
            housekeeping: self.spec.house_keeping.clone(),
        }
    }

    fn any(&self, is: fn(RowKind) -> bool) -> bool {
        self.spec.has_kind(is)
    }

    /// Whether a program's own loop is measured.
    fn measures_a_loop(&self) -> bool {
        self.any(|kind| kind == RowKind::Loop)
    }

    /// Whether a measuring thread never leaves its CPU by itself.
    fn never_sleeps(&self) -> bool {
        self.any(|kind| kind.has_own_threads() && kind.polls())
    }

    /// Whether threads of ours measure.
    fn measures_with_threads(&self) -> bool {
        self.any(RowKind::has_own_threads)
    }

    /// For what takes the CPU from a thread that never sleeps, and hardly from one that wakes up every
    /// period.
    fn taint_where_spinning(&self) -> FindingEffect {
        if self.never_sleeps() { FindingEffect::Taint } else { FindingEffect::Note }
    }
}

/// Measured CPUs of which the same was found.
struct FoundOn<T> {
    what: T,
    /// `cpu 3`, `cpus 2-3`.
    on: String,
    /// Set where it does not concern every measured CPU.
    cpu: Option<u32>,
    /// These CPUs.
    cpus: CpuSet,
}

/// The findings of `look` on the measured CPUs: said once where it is the same on all, else CPU by CPU, since
/// a taint without a CPU disturbs every row.
fn on_measured<T: Ord + Clone>(
    machine: &Snapshot,
    request: &PreflightRequest,
    look: impl Fn(&Cpu) -> Option<T>,
) -> Vec<FoundOn<T>> {
    let measured = &request.spec.cpus;
    let mut same: BTreeMap<T, CpuSet> = BTreeMap::new();
    for cpu in measured.iter().filter_map(|id| machine.cpu(id)) {
        if let Some(what) = look(cpu) {
            same.entry(what).or_default().insert(cpu.id);
        }
    }
    let mut found = Vec::new();
    for (what, cpus) in same {
        if cpus == *measured {
            found.push(FoundOn { what, on: name(&cpus), cpu: None, cpus });
        } else {
            let each = cpus.iter().map(|cpu| FoundOn {
                what: what.clone(),
                on: format!("cpu {cpu}"),
                cpu: Some(cpu),
                cpus: CpuSet::from_iter([cpu]),
            });
            found.extend(each);
        }
    }
    found
}

/// `cpu 3`, `cpus 2-3`.
fn name(cpus: &CpuSet) -> String {
    if cpus.len() == 1 { format!("cpu {cpus}") } else { format!("cpus {cpus}") }
}
