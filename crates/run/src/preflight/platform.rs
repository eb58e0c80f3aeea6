// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects of the kernel, its scheduler, and whatever is below or around it, on a real-time thread.

use evidence::taint;
use machine::Snapshot;
use machine::advice::{self, Manual, SettingId};
use machine::units::{exact_us, whole_us};

use super::FindingEffect::{Note, Refuse, Taint};
use super::{PreflightFinding, PreflightRequest, on_measured};

/// Clocks that user space reads by itself in some tens of ns.
const GOOD_CLOCKS: &[&str] = &["tsc", "arch_sys_counter", "riscv_clocksource", "timebase"];
/// Clocks that user space reads by itself too, but that a hypervisor keeps and may correct.
const GUEST_CLOCKS: &[&str] = &["kvm-clock", "hyperv_clocksource_tsc_page", "xen"];

/// Effects of this process' cgroup on threads that it starts.
pub(super) fn check(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    group(machine, request).into_iter().chain(quota(machine, request)).collect()
}

/// Findings that concern a measured thread that another program started as well: that has a cgroup of its
/// own.
pub(super) fn of_threads(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let mut findings = Vec::new();
    findings.extend(real_time(machine));
    findings.extend(throttling(machine, request));
    findings.extend(fair_server(machine, request));
    findings.extend(irq_threads(machine, request));
    findings.extend(clock(machine));
    findings
}

fn real_time(machine: &Snapshot) -> Option<PreflightFinding> {
    let told = evidence::fact::of_kernel(&machine.kernel)?;
    let cure = told.cure.unwrap_or_default();
    Some(PreflightFinding::new(Taint, taint::NOT_REAL_TIME_KERNEL, told.reason, cure))
}

/// A kernel of an unknown version may.
fn throttling(machine: &Snapshot, request: &PreflightRequest) -> Option<PreflightFinding> {
    let limits = &machine.scheduler;
    let throttles = machine.limits_real_time() == Some(true) || machine.kernel.at_least(6, 12).is_none();
    if !throttles || !request.spec.policy.has_priority() {
        return None;
    }
    let period = limits.rt_period_us.unwrap_or(1_000_000);
    let runtime = limits.rt_runtime_us.filter(|runtime| (0..period).contains(runtime))?;
    let reason = format!(
        "real-time throttling (kernel.sched_rt_runtime_us={runtime}): a thread that does not sleep is stopped for {} \
         of every {}",
        whole_us(period - runtime),
        whole_us(period)
    );
    let cure = SettingId::RtRuntime
        .advice_to(&request.aim(machine), "-1")
        .then("; a real-time thread that never sleeps then starves its CPU");
    Some(PreflightFinding::new(request.taint_where_spinning(), taint::RT_THROTTLING, reason, cure))
}

fn fair_server(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    if machine.kernel.at_least(6, 12) != Some(true) || !request.spec.policy.has_priority() {
        return Vec::new();
    }
    let on = on_measured(machine, request, |cpu| match cpu.fair_server_runtime_ns {
        Some(0) => None,
        runtime => Some(runtime),
    });
    let finding = |runtime: Option<u64>| match runtime {
        Some(runtime) => format!("up to {} in each period of that server, 1 s by default", exact_us(runtime)),
        None => "up to 50,000 us a second unless changed (its file in debugfs could not be read)".to_string(),
    };
    on.into_iter()
        .map(|found| {
            let reason = format!(
                "the fair server gives starving ordinary tasks on {} {}, ahead of a real-time thread that does not sleep",
                found.on,
                finding(found.what)
            );
            let cure = SettingId::FairServer.advice_on(&request.aim(machine), &found.cpus);
            let effect = request.taint_where_spinning();
            PreflightFinding::new(effect, taint::FAIR_SERVER, reason, cure).on(found.cpu)
        })
        .collect()
}

/// With RT group scheduling a cgroup without real-time runtime refuses real-time policies even to root.
fn group(machine: &Snapshot, request: &PreflightRequest) -> Option<PreflightFinding> {
    if machine.scheduler.rt_group_scheduling != Some(true) || !request.spec.policy.has_priority() {
        return None;
    }
    let path = machine.cgroup.path.as_deref().unwrap_or("/");
    match machine.cgroup.rt_runtime_us {
        Some(0) => {
            let reason =
                format!("the cgroup {path} has no real-time runtime (cpu.rt_runtime_us=0, RT_GROUP_SCHED)");
            let cure = "write 950000 to cpu.rt_runtime_us of its parents, then of itself (docker: --cpu-rt-runtime; \
                        Kubernetes sets none), or boot a kernel without RT_GROUP_SCHED";
            Some(PreflightFinding::new(Refuse, "rt-group-runtime", reason, cure))
        }
        None if path != "/" => {
            let reason =
                format!("with RT_GROUP_SCHED the kernel may refuse real-time policies in the cgroup {path}");
            let cure = "if it does, start from the root cgroup, or boot a kernel without RT_GROUP_SCHED";
            Some(PreflightFinding::new(Note, "rt-group-runtime", reason, cure))
        }
        _ => None,
    }
}

/// The quota is for ordinary tasks: loads and the control thread, and the probes only without a real-time
/// policy.
fn quota(machine: &Snapshot, request: &PreflightRequest) -> Option<PreflightFinding> {
    let (quota, period) = (machine.cgroup.quota_us?, machine.cgroup.quota_period_us?);
    let effect = if request.spec.policy.is_ordinary() { Taint } else { Note };
    let reason = format!(
        "the cgroup stops ordinary tasks, loads among them, after {} of CPU time in {}",
        whole_us(quota),
        whole_us(period)
    );
    let cure = "write max to its cpu.max (docker: no --cpus, Kubernetes: no resources.limits.cpu, systemd: CPUQuota=)";
    Some(PreflightFinding::new(effect, taint::CPU_QUOTA, reason, cure))
}

/// A note and no taint: which priority a program has beside the interrupt threads is part of its design (one
/// that waits for a device must be below that device's), was asked, and is recorded with the result.
fn irq_threads(machine: &Snapshot, request: &PreflightRequest) -> Option<PreflightFinding> {
    let highest = machine.scheduler.highest_irq_thread_priority?;
    let priority = request.spec.priority;
    if !request.spec.policy.has_priority() || priority > highest {
        return None;
    }
    let reason = format!("priority {priority} is not above that of every interrupt thread, {highest}");
    let cure = format!(
        "if the program needs no interrupt in time, measure with --priority {}",
        (highest + 1).min(99)
    );
    Some(PreflightFinding::new(Note, "irq-thread-priority", reason, cure))
}

fn clock(machine: &Snapshot) -> Option<PreflightFinding> {
    let clock = machine.clocksource.as_deref().filter(|clock| !GOOD_CLOCKS.contains(clock))?;
    if GUEST_CLOCKS.contains(&clock) {
        let reason = format!("the kernel keeps time with {clock}, which the hypervisor may correct");
        return Some(PreflightFinding::new(Note, taint::CLOCKSOURCE, reason, advice::STABLE_CLOCK));
    }
    let reason = format!(
        "the kernel keeps time with {clock}, which is slow to read: readings delay what they measure"
    );
    let cure =
        Manual::Search.advice("find out why the CPU's own counter is not used (dmesg: clocksource, tsc)");
    Some(PreflightFinding::new(Taint, taint::CLOCKSOURCE, reason, cure))
}

/// The surroundings of the machine itself.
pub(super) fn surroundings(machine: &Snapshot) -> Vec<PreflightFinding> {
    let mut findings = Vec::new();
    if let Some(kind) = &machine.hypervisor {
        let reason = format!("this is a virtual machine ({kind}): its host decides when its CPUs run");
        let cure = advice::PIN_GUEST.after("watch for stolen time in the result; ");
        findings.push(PreflightFinding::new(Note, "virtual-machine", reason, cure));
    }
    if let Some(kind) = &machine.container {
        let reason =
            format!("this is a container ({kind}): other programs on the measured CPUs may not be visible");
        findings.push(PreflightFinding::new(
            Note,
            "container",
            reason,
            "measure on the host to see all of it",
        ));
    }
    findings
}
