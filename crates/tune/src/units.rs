// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of systemd that a plan writes: a slice for the isolated CPUs, the affinity of the service manager
//! and of all that it starts, and drop-ins of services.
//!
//! They last, so they are a record of their own. Services are not started again: that is the user's to do.
//! `CPUSetPartition=` is new in systemd 261 (systemd.resource-control(5), pull request 42013); the running
//! manager is asked whether it has such a property, since distributions take changes back to older ones.

use crate::action::{Action, ActionKind, Skipped};
use crate::record::Step;
use crate::record::kept::Kept;
use crate::record::own::OwnPart;
use crate::service::{SLICE, ServiceValue, file};
use crate::system::{self, System};
use crate::{Error, Result};

/// The limits that a service needs to run in real time, and to lock its memory.
const LIMITS: &str = "LimitRTPRIO=98\nLimitMEMLOCK=infinity\n";

/// The text of an action's file; with `partition` the slice is an isolated partition.
pub fn text(action: &Action, partition: bool) -> Option<String> {
    let head = "# Made by `isolator tune apply`; `isolator tune rollback` takes it away again.\n";
    let value = action.value.as_str();
    let body = match action.kind {
        ActionKind::RealTimeSlice => {
            let isolated = if partition { "CPUSetPartition=isolated\n" } else { "" };
            format!(
                "[Unit]\nDescription=Real-time programs on CPUs of their own\nBefore=slices.target\n\n\
                 [Slice]\nAllowedCPUs={value}\n{isolated}"
            )
        }
        // An empty assignment takes back what other files give: the others are added up.
        ActionKind::ManagerAffinity => format!("[Manager]\nCPUAffinity=\nCPUAffinity={value}\n"),
        ActionKind::Service => {
            let slice = if value.parse::<ServiceValue>().ok()?.cpus.is_some() {
                format!("Slice={SLICE}\n")
            } else {
                String::new()
            };
            format!("[Service]\n{slice}{}", service_settings(value)?)
        }
        _ => return None,
    };
    Some(format!("{head}{body}"))
}

/// The settings of a real-time service's own section, but for its slice; none where `value` is not that of a
/// service.
pub fn service_settings(value: &str) -> Option<String> {
    let ServiceValue { priority, cpus } = value.parse().ok()?;
    let cpus = cpus.map(|cpus| format!("CPUAffinity=\nCPUAffinity={cpus}\n")).unwrap_or_default();
    Some(format!("{cpus}CPUSchedulingPolicy=fifo\nCPUSchedulingPriority={priority}\n{LIMITS}"))
}

/// The result of a plan's units.
#[derive(Debug, Default)]
pub struct UnitSteps {
    /// The steps.
    pub steps: Vec<Step>,
    /// The actions that are left out.
    pub skipped: Vec<Skipped>,
    /// The commands that bring them into force.
    pub next: Vec<String>,
}

/// The steps of those of `actions` that write units.
pub fn steps(system: &mut dyn System, actions: &[Action]) -> Result<UnitSteps> {
    let mut made = UnitSteps::default();
    let wanted = actions.iter().filter_map(|action| Some((action, file(action)?)));
    let wanted: Vec<(&Action, String)> = wanted.collect();
    if wanted.is_empty() {
        return Ok(made);
    }
    let skip = |what: &str, reason: &str| Skipped { what: what.into(), reason: reason.into() };
    if system.stat("/run/systemd/system").is_err() {
        made.skipped.extend(wanted.iter().map(|(_, path)| skip(path, "no systemd runs here")));
        return Ok(made);
    }
    let partition = shows(system, "CPUSetPartition", "init.scope").is_some();
    let mut files = Vec::new();
    for (action, path) in wanted {
        if action.kind == ActionKind::Service
            && let Some(why) = service_cannot(system, &action.target)
        {
            made.skipped.push(skip(&action.target, &why));
            continue;
        }
        if action.kind == ActionKind::RealTimeSlice && !partition {
            let why = "this systemd does not know it, systemd 261 does: without isolcpus= the scheduler balances these CPUs, too";
            made.skipped.push(skip(&format!("CPUSetPartition= of {SLICE}"), why));
        }
        made.next.extend(next(action));
        let folder = system::folder(&path);
        let there = |step: &Step| matches!(step, Step::Folder { path } if path == folder);
        if system.stat(folder).is_err() && !files.iter().any(there) {
            files.push(Step::Folder { path: folder.to_string() });
        }
        let text = text(action, partition).unwrap_or_default();
        let old = Kept::of(system, &path)?;
        if old.as_ref().is_some_and(|old| old.text != text) {
            let why = "it is there and was not made by this program";
            return Err(Error::new(format!("write {path}"), why, "look at what it is for, and move it away"));
        }
        let new = Some(Kept::new(&text, old.as_ref()));
        files.push(Step::File { path, old, new, own: OwnPart::Lines });
    }
    if files.is_empty() {
        return Ok(made);
    }
    let reload = || ["systemctl", "daemon-reload"].map(String::from).to_vec();
    let command = |run, undo| Step::Command { run, undo, volatile: false, needed: true };
    made.steps.push(command(Vec::new(), reload()));
    made.steps.extend(files);
    made.steps.push(command(reload(), Vec::new()));
    Ok(made)
}

/// The command that brings an action into force.
fn next(action: &Action) -> Option<String> {
    match action.kind {
        ActionKind::Service => {
            Some(format!("systemctl restart {}: it runs as {} then", action.target, action.value))
        }
        ActionKind::ManagerAffinity => Some(format!(
            "the next boot, or systemctl daemon-reexec: services that start then run on CPUs {} alone",
            action.value
        )),
        _ => None,
    }
}

/// A property of a unit, as the running manager shows it; none where it has no such property.
fn shows(system: &mut dyn System, property: &str, unit: &str) -> Option<String> {
    let asked = ["systemctl", "show", &format!("--property={property}"), "--", unit].map(String::from);
    let ran = system.run(&asked).ok().filter(|ran| ran.good)?;
    let text = String::from_utf8_lossy(&ran.output).into_owned();
    text.lines().find_map(|line| line.strip_prefix(property)?.strip_prefix('=')).map(str::to_string)
}

/// Why a service cannot run as planned.
fn service_cannot(system: &mut dyn System, unit: &str) -> Option<String> {
    match shows(system, "LoadState", unit)?.as_str() {
        "loaded" => {}
        state => return Some(format!("systemd has no such service: its state is {state}")),
    }
    let restricted = shows(system, "RestrictRealtime", unit).is_some_and(|value| value == "yes");
    restricted
        .then(|| "RestrictRealtime=yes forbids it a real-time policy: take that out of its unit".to_string())
}

#[cfg(test)]
mod tests;
