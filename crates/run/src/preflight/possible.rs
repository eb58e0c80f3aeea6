// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether what was asked can be done here, and by this process.

use evidence::kind::RowKind;
use evidence::taint;
use machine::advice::{Manual, SettingId};
use machine::units::exact_us;
use machine::{CpuSet, Snapshot};

use rt::policy::PolicyKind;

use super::FindingEffect::{Note, Refuse, Taint};
use super::{PreflightFinding, PreflightRequest, name, on_measured};

pub(super) fn check(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let mut findings = periods(request);
    findings.extend(cpus(machine, request));
    if request.measures_with_threads() {
        findings.extend(policy(machine, request));
        findings.extend(memory(machine, request));
    } else if request.measures_a_loop() && request.spec.policy.is_ordinary() {
        let reason = "the loop has no real-time policy: every ordinary task may delay it";
        findings.push(PreflightFinding::new(
            Taint,
            taint::NOT_REAL_TIME_POLICY,
            reason,
            "give its thread SCHED_FIFO",
        ));
    }
    findings
}

fn periods(request: &PreflightRequest) -> Vec<PreflightFinding> {
    if !request.any(RowKind::has_period) {
        return Vec::new();
    }
    let resolution = request.clock_resolution_ns;
    let periods = request.spec.periods.iter().map(|period| period.ns.get());
    let too_short = periods.filter(|period| *period < resolution).map(|period| {
        let reason = format!(
            "the period {} is below the clock's resolution of {}",
            exact_us(period),
            exact_us(resolution)
        );
        let cure = "give a longer period, or boot a kernel with high-resolution timers (no highres=off)";
        PreflightFinding::new(Refuse, "period", reason, cure)
    });
    too_short.collect()
}

fn cpus(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let (measured, house_keeping) = (&request.spec.cpus, &request.spec.house_keeping);
    if machine.cpus.is_empty() {
        let named = !measured.is_empty() && !house_keeping.is_empty();
        let reason = "which CPUs are online could not be read";
        let cure = "mount /sys where the program runs, or name CPUs with --cpus and --house-keeping";
        return vec![PreflightFinding::new(if named { Note } else { Refuse }, "cpus-unknown", reason, cure)];
    }
    let online = machine.online();
    if measured.is_empty() {
        let cure = format!("choose from the online cpus {online}");
        return vec![PreflightFinding::new(Refuse, "no-cpu", "no CPU to measure was given", cure)];
    }
    let mut findings = Vec::new();
    for id in measured.or(house_keeping).without(&online).iter() {
        let finding = match machine.cpu(id) {
            None => {
                let cure = format!("choose from the online cpus {online}");
                PreflightFinding::new(Refuse, "unknown-cpu", format!("this machine has no cpu {id}"), cure)
            }
            Some(_) => {
                let switch = format!("echo 1 > {}", SettingId::CpuOnline.file_of(id));
                let cure = format!("choose from the online cpus {online}, or bring it online: {switch}");
                PreflightFinding::new(Refuse, "offline-cpu", format!("cpu {id} is offline"), cure)
            }
        };
        findings.push(finding.on(measured.contains(id).then_some(id)));
    }

    // An empty set is what a reader makes of a file without content: no kernel confines to no CPU.
    let allowed = machine.cgroup.cpus.as_ref().filter(|cpus| !cpus.is_empty()).unwrap_or(&online);
    let outside = measured.and(&online).without(allowed);
    if !outside.is_empty() && !request.measures_a_loop() {
        let group = machine.cgroup.path.as_deref().unwrap_or("of this process");
        let reason = format!("the cgroup {group} may use cpus {allowed} only, not {}", name(&outside));
        let cure =
            "start it in a cgroup whose cpuset.cpus has them (docker: --cpuset-cpus), or measure others";
        findings.push(PreflightFinding::new(Refuse, "outside-cpuset", reason, cure));
    }
    match request.measures_a_loop() {
        true => findings.extend(house_keeping_shared(measured, house_keeping)),
        false => findings.extend(house_keeping_left(&online.and(allowed), measured, house_keeping)),
    }
    findings
}

/// A program may use every CPU: loads and our own control thread then share them with it.
fn house_keeping_shared(measured: &CpuSet, house_keeping: &CpuSet) -> Option<PreflightFinding> {
    let both = measured.and(house_keeping);
    let reason =
        format!("the program's threads run on {} too, where loads and the control thread are", name(&both));
    let cure = "pin the program's threads, and give --house-keeping the CPUs that they leave";
    (!both.is_empty()).then(|| PreflightFinding::new(Note, "housekeeping-measured", reason, cure))
}

/// Loads and our own control thread need a CPU that is not measured.
fn house_keeping_left(
    usable: &CpuSet,
    measured: &CpuSet,
    house_keeping: &CpuSet,
) -> Option<PreflightFinding> {
    let both = measured.and(house_keeping);
    if !both.is_empty() {
        let reason = format!("{} would be measured and do the housekeeping", name(&both));
        let cure = "loads would run on the measured CPU: take it out of --cpus or out of --house-keeping";
        return Some(PreflightFinding::new(Refuse, "housekeeping-measured", reason, cure));
    }
    if usable.without(measured).is_empty() {
        let reason =
            format!("cpus {measured} are all there are: none is left for loads and the control thread");
        return Some(PreflightFinding::new(
            Refuse,
            "no-housekeeping-cpu",
            reason,
            "leave at least one CPU out of --cpus",
        ));
    }
    None
}

fn policy(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    if request.spec.policy.is_ordinary() {
        let reason = "the measuring threads have no real-time policy: every ordinary task may delay them";
        return vec![PreflightFinding::new(
            Taint,
            taint::NOT_REAL_TIME_POLICY,
            reason,
            "measure with --policy fifo",
        )];
    }
    let mut findings = Vec::new();
    if request.spec.policy == PolicyKind::Deadline {
        findings.extend(deadline(machine, request));
    }
    findings.extend(permission(machine, request));
    findings
}

/// Effects of the deadline policy on a probe: its thread has a budget, and often more CPUs than the measured
/// one.
fn deadline(machine: &Snapshot, request: &PreflightRequest) -> Vec<PreflightFinding> {
    let mut findings = Vec::new();
    if request.never_sleeps() {
        let reason = "SCHED_DEADLINE stops a thread that never sleeps as soon as its runtime is used up";
        findings.push(PreflightFinding::new(
            Taint,
            taint::DEADLINE_RUNTIME,
            reason,
            "measure with --policy fifo",
        ));
    }
    let roaming = on_measured(machine, request, |cpu| {
        Some(machine.deadline_cpus(cpu.id)).filter(|allowed| *allowed != CpuSet::from_iter([cpu.id]))
    });
    findings.extend(roaming.into_iter().map(|found| {
        let allowed = name(&found.what);
        let reason = format!("a deadline thread for {} may run on any of {allowed}", found.on);
        let cure = SettingId::RtRuntime
            .advice_to(&request.aim(machine), "-1")
            .then(", with which the kernel lets it be pinned, or isolate that CPU alone");
        PreflightFinding::new(Taint, taint::DEADLINE_NOT_PINNED, reason, cure).on(found.cpu)
    }));
    findings
}

fn permission(machine: &Snapshot, request: &PreflightRequest) -> Option<PreflightFinding> {
    let (may, priority) = (request.privilege, request.spec.priority);
    let has_priority = request.spec.policy.has_priority();
    let by_limit = has_priority && may.rtprio_limit >= u64::from(priority);
    if may.cap_sys_nice || by_limit {
        return None;
    }
    let policy = request.spec.policy.name().to_uppercase();
    let wanted = if has_priority { format!(" {priority}") } else { String::new() };
    let limit = may.rtprio_limit;
    let reason =
        format!("SCHED_{policy}{wanted} is not permitted: no CAP_SYS_NICE, and RLIMIT_RTPRIO is {limit}");
    let cure = match (machine.container.is_some(), has_priority) {
        (true, _) if machine.is_pod() => {
            "add SYS_NICE to securityContext.capabilities of the container".to_string()
        }
        (true, true) => format!("start the container with --cap-add sys_nice or --ulimit rtprio={priority}"),
        (true, false) => "start the container with --cap-add sys_nice".to_string(),
        (false, true) => format!(
            "grant CAP_SYS_NICE (setcap cap_sys_nice,cap_ipc_lock+ep on the program), or {}",
            SettingId::RtPriority.advice_to(&request.aim(machine), &priority.max(98).to_string())
        ),
        (false, false) => {
            "grant CAP_SYS_NICE (setcap cap_sys_nice,cap_ipc_lock+ep on the program)".to_string()
        }
    };
    let cure = format!("{cure}; or measure with --policy other, which taints the result");
    Some(PreflightFinding::new(Refuse, "no-permission", reason, cure))
}

fn memory(machine: &Snapshot, request: &PreflightRequest) -> Option<PreflightFinding> {
    const MIB: u64 = 1 << 20;
    let may = request.privilege;
    let limit =
        may.memlock_limit_bytes.filter(|limit| *limit < may.address_space_bytes && !may.cap_ipc_lock)?;
    let reason = format!(
        "memory cannot be locked: {} MiB are needed, RLIMIT_MEMLOCK is {} KiB; a page fault may delay the measuring \
         threads",
        may.address_space_bytes.div_ceil(MIB),
        limit / 1024
    );
    let cure = match machine.container {
        Some(_) if machine.is_pod() => {
            Manual::Container.advice("add IPC_LOCK to securityContext.capabilities of the container")
        }
        Some(_) => {
            Manual::Container.advice("start the container with --ulimit memlock=-1 or --cap-add ipc_lock")
        }
        None => SettingId::LockedMemory.advice(&request.aim(machine)).then(", or grant CAP_IPC_LOCK"),
    };
    Some(PreflightFinding::new(Taint, taint::MEMORY_NOT_LOCKED, reason, cure))
}
