// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that are one file each: what it says now.

use machine::inventory::Reading;
use machine::{CpuSet, Snapshot};

use super::{Observed, ThreePlaces};
use crate::action::{Action, ActionKind};
use crate::system::chosen;

/// The unit that sets them again after each boot.
const UNIT: &str = "isolator-tune";

pub(super) fn places(action: &Action, machine: &Snapshot) -> ThreePlaces {
    let path = action.target.as_str();
    let configured = match machine.inventory.as_deref() {
        Some(inventory) if inventory.services.enabled.contains(UNIT) => {
            Observed::new(Some(true), None, "isolator-tune.service")
        }
        _ => Observed::default(),
    };
    let (running, why) = match value(path, machine) {
        Now::Is(text) => {
            let same = same(action, &text);
            let why = if same {
                String::new()
            } else {
                format!("it is {text}: apply the plan, or find the program that writes it back")
            };
            (Observed::new(Some(same), Some(text), path), why)
        }
        Now::Absent => {
            (Observed::new(Some(false), None, path), "the machine has no such file any more".to_string())
        }
        Now::Unknown(why) => (Observed::new(None, None, path), why),
    };
    ThreePlaces { configured, running, why, ..ThreePlaces::default() }
}

enum Now {
    Is(String),
    Absent,
    Unknown(String),
}

/// The present value of a file, wherever in the snapshot that stands.
fn value(path: &str, machine: &Snapshot) -> Now {
    if let Some(text) = machine.settings.get(path) {
        return Now::Is(text.clone());
    }
    if let Some(known) = of_cpu(path, machine) {
        return known
            .map_or_else(|| Now::Unknown("it could not be read: do it as root".to_string()), Now::Is);
    }
    match machine.inventory.as_deref().and_then(|inventory| inventory.files.get(path)) {
        Some(Reading::Text(text)) => Now::Is(text.clone()),
        Some(Reading::Unreadable { unreadable }) => {
            Now::Unknown(format!("it could not be read: {unreadable}"))
        }
        Some(Reading::Absent) => Now::Absent,
        None => match machine.inventory.as_deref() {
            Some(inventory) if inventory.whole => Now::Absent,
            _ => Now::Unknown("it was not looked at".to_string()),
        },
    }
}

/// The value of a file of one CPU; the outer `None` where `path` is none.
fn of_cpu(path: &str, machine: &Snapshot) -> Option<Option<String>> {
    let start = ["/sys/devices/system/cpu/cpu", "/sys/kernel/debug/sched/fair_server/cpu"];
    let rest = start.iter().find_map(|start| path.strip_prefix(start))?;
    let (number, file) = rest.split_once('/')?;
    let cpu = machine.cpu(number.parse().ok()?)?;
    let value = match file {
        "cpufreq/scaling_governor" => cpu.governor.clone(),
        "cpufreq/scaling_min_freq" => {
            let policies = machine.inventory.as_deref().map(|inventory| inventory.frequencies.as_slice());
            let policy = policies.unwrap_or_default().iter().find(|policy| policy.cpus.contains(cpu.id));
            policy.and_then(|policy| policy.min_khz).map(|khz| khz.to_string())
        }
        // No limit is 0 in the file.
        "power/pm_qos_resume_latency_us" => match cpu.idle_latency_limit_us {
            Some(0) => Some("n/a".to_string()),
            Some(limit) => Some(limit.to_string()),
            None => Some("0".to_string()),
        },
        "runtime" => cpu.fair_server_runtime_ns.map(|runtime| runtime.to_string()),
        _ => return None,
    };
    Some(value)
}

/// Whether two values are one: masks and lists of CPUs may be written in several ways, a choice stands in
/// brackets.
fn same(action: &Action, now: &str) -> bool {
    let wanted = action.value.as_str();
    match action.kind {
        ActionKind::IrqDefault | ActionKind::Workqueues => {
            let (now, wanted) = (CpuSet::from_mask(now), CpuSet::from_mask(wanted));
            now.is_ok() && now == wanted
        }
        ActionKind::Sysctl if action.target.ends_with("cpumask") => {
            let (now, wanted) = (now.parse::<CpuSet>(), wanted.parse::<CpuSet>());
            now.is_ok() && now == wanted
        }
        _ => chosen(now) == wanted,
    }
}
