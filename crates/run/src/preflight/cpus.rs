// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other users of the measured CPUs, and the depth of their idle states.

use evidence::kind::RowKind;
use evidence::taint;
use machine::advice::SettingId;
use machine::snapshot::{Cpu, IdleState};
use machine::units::{exact_us, whole_us};
use machine::{CpuSet, Snapshot};

use super::FindingEffect::{Note, Taint};
use super::{PreflightFinding, PreflightRequest, name, on_measured};

/// An idle state that takes longer to leave is worth saying; shallow ones (C1, WFI) take a few microseconds.
const DEEP_IDLE_US: u64 = 10;

pub(super) fn check(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let mut findings = Vec::new();
    findings.extend(siblings(machine, request));
    if request.any(RowKind::sleeps) {
        findings.extend(idle(machine, request));
    }
    findings.extend(governor(machine, request));
    findings.extend(isolation(machine, request));
    findings.extend(interrupts(machine, request));
    findings
}

/// A sibling is quiet by arrangement where it is isolated and has no housekeeping to do.
fn siblings(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let (measured, house_keeping) = (&request.spec.cpus, &request.spec.house_keeping);
    let online = machine.online();
    let quiet = machine.isolation.set_apart().without(house_keeping);
    let siblings = |cpu: &Cpu| cpu.siblings.without(&CpuSet::from_iter([cpu.id])).and(&online);
    let some = |cpus: CpuSet| Some(cpus).filter(|cpus| !cpus.is_empty());

    let busy = on_measured(machine, request, |cpu| some(siblings(cpu).without(measured).without(&quiet)));
    let mut findings: Vec<PreflightFinding> = busy
        .into_iter()
        .map(|found| {
            let neighbour = name(&found.what);
            let reason =
                format!("{} shares its core with {neighbour}, on which other work may run", found.on);
            let cure = format!(
                "take {neighbour} offline (echo 0 > {}), or isolate it and keep it out of --house-keeping",
                SettingId::CpuOnline.name()
            );
            let cure = SettingId::CpuOnline.advice_in(&request.aim(machine), cure);
            PreflightFinding::new(Taint, taint::SMT_SIBLING, reason, cure).on(found.cpu)
        })
        .collect();

    let mut seen = CpuSet::new();
    for cpu in measured.iter().filter_map(|id| machine.cpu(id)) {
        let together = siblings(cpu).and(measured);
        if !together.is_empty() && !seen.contains(cpu.id) {
            let core = together.or(&CpuSet::from_iter([cpu.id]));
            let reason = format!("{} are threads of one core and are measured together", name(&core));
            let cure = "each slows the other: measure one of them with the other offline";
            findings.push(PreflightFinding::new(Note, taint::SMT_SIBLING, reason, cure));
            seen = seen.or(&core);
        }
    }
    findings
}

/// Longer to leave than the limit taints: the run may by chance never enter the state, the program later
/// will. Within the limit it is a note, since every wakeup that paid for it is in the result.
fn idle(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let limit_ns = request.spec.periods.iter().map(|period| period.limit_ns).min();
    let deepest = on_measured(machine, request, |cpu| {
        let bound = [request.spec.dma_latency_us.map(u64::from), cpu.idle_latency_limit_us];
        let bound = bound.into_iter().flatten().min().unwrap_or(u64::MAX);
        let used = |state: &&IdleState| !state.disabled && state.exit_latency_us <= bound;
        let state = cpu.idle_states.iter().filter(used).max_by_key(|state| state.exit_latency_us)?;
        Some((state.exit_latency_us, state.name.clone()))
    });
    let mut findings = Vec::new();
    for found in deepest {
        let (exit_us, state) = found.what;
        let exit_ns = exit_us.saturating_mul(1000);
        let beyond = limit_ns.filter(|limit| exit_ns > *limit);
        if beyond.is_none() && exit_us <= DEEP_IDLE_US {
            continue;
        }
        let limit =
            beyond.map_or(String::new(), |limit| format!(", longer than the limit of {}", exact_us(limit)));
        let reason = format!(
            "{} may enter idle state {state}, which takes {} to leave{limit}",
            found.on,
            whole_us(exit_us)
        );
        let cure = SettingId::ResumeLatency
            .advice_on(&request.aim(machine), &found.cpus)
            .then(", or measure with that as --dma-latency and let the program hold /dev/cpu_dma_latency open at it");
        let effect = if beyond.is_some() { Taint } else { Note };
        findings.push(PreflightFinding::new(effect, taint::DEEP_IDLE, reason, cure).on(found.cpu));
    }
    findings
}

/// A note: a low frequency makes every latency longer, and is in the result as it is in production.
fn governor(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    on_measured(machine, request, |cpu| cpu.governor.clone().filter(|governor| governor != "performance"))
        .into_iter()
        .map(|found| {
            let reason = format!("{} has the frequency governor {}", found.on, found.what);
            let cure = SettingId::Governor.advice_on(&request.aim(machine), &found.cpus);
            PreflightFinding::new(Note, "governor", reason, cure).on(found.cpu)
        })
        .collect()
}

fn isolation(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let set_apart = machine.isolation.set_apart();
    on_measured(machine, request, |cpu| (!set_apart.contains(cpu.id)).then_some(()))
        .into_iter()
        .map(|found| {
            let reason = format!("{} is not isolated: the scheduler may place any task there", found.on);
            let cure = SettingId::Isolcpus
                .advice(&request.aim(machine))
                .then(", or make it an isolated cgroup partition");
            PreflightFinding::new(Note, "not-isolated", reason, cure).on(found.cpu)
        })
        .collect()
}

fn interrupts(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let allowed = &machine.isolation.irq_default;
    on_measured(machine, request, |cpu| allowed.contains(cpu.id).then_some(()))
        .into_iter()
        .map(|found| {
            let reason = format!("device interrupts may be delivered to {} by default", found.on);
            let cure = SettingId::Irqaffinity.advice(&request.aim(machine));
            PreflightFinding::new(Note, "irq-affinity", reason, cure).on(found.cpu)
        })
        .collect()
}
