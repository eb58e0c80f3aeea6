// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of systemd instead of settings that end with the boot: which a plan writes, and why.

use machine::CpuSet;

use super::choose::CpuChoice;
use super::facts::PlanFacts;
use super::intent::{Intent, ServiceIntent};
use crate::action::{Action, ActionKind, Disruption, PlanRefusal, Skipped};
use crate::service::{SLICE, ServiceValue, is_service};

/// The priority of a service that names none.
const PRIORITY: u32 = 80;

/// Reads `NAME` or `NAME:PRIORITY` of a service.
pub fn service(text: &str) -> Result<ServiceIntent, PlanRefusal> {
    let (name, priority) = text.split_once(".service:").unwrap_or((text.trim_end_matches(".service"), ""));
    let name = format!("{name}.service");
    let refuse = |reason: String, cure: &str| Err(PlanRefusal { reason, cure: cure.to_string() });
    if !is_service(&name) {
        return refuse(
            format!("'{}' is not a name of a service", untrusted::text::clean(text)),
            "write it as --service robot.service",
        );
    }
    let priority = match priority {
        "" => PRIORITY,
        text => match text.parse() {
            Ok(priority @ 1..=98) => priority,
            _ => {
                return refuse(
                    format!("'{}' is not a priority from 1 to 98", untrusted::text::clean(text)),
                    "write it as --service robot.service:80",
                );
            }
        },
    };
    Ok(ServiceIntent { name, priority })
}

/// The units of a plan.
pub(super) fn actions(
    facts: &PlanFacts,
    intent: &Intent,
    choice: &CpuChoice,
    skipped: &mut Vec<Skipped>,
) -> Vec<Action> {
    let Some(systemd) = &intent.systemd else { return Vec::new() };
    if !facts.machine.services.iter().any(|name| name == "systemd") {
        skipped.push(Skipped { what: "units".into(), reason: "systemd is not seen to run".into() });
        return Vec::new();
    }
    let mut actions = Vec::new();
    if !choice.isolated.is_empty() {
        actions.extend(cpus(facts, choice, skipped));
    }
    for service in &systemd.services {
        let cpus = Some(choice.real_time.clone()).filter(|cpus| !cpus.is_empty());
        let value = ServiceValue { priority: service.priority, cpus };
        actions.push(Action {
            kind: ActionKind::Service,
            target: service.name.clone(),
            value: value.to_string(),
            reason: "the service is real-time, on CPUs of its own, and may lock its memory".into(),
            source: "systemd.exec(5), systemd.resource-control(5)".into(),
            cost: "a loop of it that does not sleep occupies its CPU".into(),
            disruption: Disruption::Brief,
            verify: format!(
                "systemctl show -p CPUAffinity,CPUSchedulingPolicy,CPUSchedulingPriority,Slice {}",
                service.name
            ),
            undo: format!(
                "rm /etc/systemd/system/{}.d/50-isolator.conf; systemctl daemon-reload",
                service.name
            ),
        });
    }
    actions
}

fn cpus(facts: &PlanFacts, choice: &CpuChoice, skipped: &mut Vec<Skipped>) -> Vec<Action> {
    let unit = |kind, target: &str, cpus: &CpuSet, why: [&str; 5]| {
        let [reason, source, cost, verify, undo] = why.map(str::to_string);
        let (target, value) = (target.to_string(), cpus.to_string());
        Action { kind, target, value, reason, source, cost, disruption: Disruption::Brief, verify, undo }
    };
    let manager = unit(
        ActionKind::ManagerAffinity,
        "systemd",
        &choice.housekeeping,
        [
            "services and sessions stay on housekeeping CPUs, at every boot",
            "systemd-system.conf(5)",
            "a program may still give itself other CPUs",
            "systemctl show -p CPUAffinity",
            "rm /etc/systemd/system.conf.d/50-isolator.conf; systemctl daemon-reexec",
        ],
    );
    let controllers = facts.machine.settings.get("/sys/fs/cgroup/cgroup.controllers");
    if !controllers.is_some_and(|names| names.split_whitespace().any(|name| name == "cpuset")) {
        let reason = "no cpuset controller of cgroup version 2".to_string();
        skipped.push(Skipped { what: SLICE.to_string(), reason });
        return vec![manager];
    }
    let slice = unit(
        ActionKind::RealTimeSlice,
        SLICE,
        &choice.isolated,
        [
            "services in this slice run on the isolated CPUs alone, where systemd can in an isolated partition",
            "systemd.resource-control(5)",
            "nothing: it is empty until a service is put into it",
            "systemctl show -p AllowedCPUs,EffectiveCPUs isolator.slice",
            "rm /etc/systemd/system/isolator.slice; systemctl daemon-reload",
        ],
    );
    vec![slice, manager]
}
