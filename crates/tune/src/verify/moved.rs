// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moved or confined objects: interrupts, kernel threads, slices, the partition, rights.

use machine::inventory::{ControlGroup, Inventory, Reading, Thread, ThreadPolicy};
use machine::{CpuSet, Snapshot};

use super::{Observed, ThreePlaces};
use crate::action::{Action, ActionKind};
use crate::places::{LIMITS, LIMITS_FILE, PARTITION};
use crate::plan::Plan;
use crate::service::{self, ServiceValue};
use crate::units;

/// How many are named; the rest is counted.
const NAMED: usize = 4;

pub(super) fn places(plan: &Plan, action: &Action, machine: &Snapshot, refused: &[u32]) -> ThreePlaces {
    let Some(inventory) = machine.inventory.as_deref() else {
        return ThreePlaces { why: "the machine was not read whole".to_string(), ..ThreePlaces::default() };
    };
    let cpus: CpuSet = action.value.parse().unwrap_or_default();
    match action.kind {
        ActionKind::Irqs => interrupts(plan, machine, inventory, refused),
        ActionKind::DeviceIrqs => device(action, &cpus, machine, inventory),
        ActionKind::KernelThreads => threads(plan, inventory),
        ActionKind::IrqBalance => balance(&cpus, machine, inventory),
        ActionKind::Slice => slice(action, &cpus, inventory),
        ActionKind::Partition => partition(&cpus, inventory),
        ActionKind::Limits => limits(inventory),
        ActionKind::RealTimeSlice | ActionKind::ManagerAffinity | ActionKind::Service => {
            unit(action, &cpus, inventory)
        }
        _ => ThreePlaces::default(),
    }
}

/// At most some names, and how many more.
fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn interrupts(plan: &Plan, machine: &Snapshot, inventory: &Inventory, refused: &[u32]) -> ThreePlaces {
    if inventory.irqs.is_empty() {
        return ThreePlaces { why: "no interrupt could be looked at".to_string(), ..ThreePlaces::default() };
    }
    let devices = plan.actions.iter().filter(|action| action.kind == ActionKind::DeviceIrqs);
    let devices: Vec<&str> = devices.map(|action| action.target.as_str()).collect();
    let wanted = machine.devices.iter().filter(|device| devices.contains(&device.name.as_str()));
    let wanted: Vec<u32> = wanted.flat_map(|device| device.irqs.clone()).collect();
    let (mut asked, mut fires, mut stuck) = (Vec::new(), Vec::new(), Vec::new());
    for irq in inventory.irqs.iter().filter(|irq| !irq.actions.is_empty() && !wanted.contains(&irq.number)) {
        let on = |cpus: &Option<CpuSet>| {
            cpus.as_ref().map(|cpus| cpus.and(&plan.isolated)).filter(|cpus| !cpus.is_empty())
        };
        let name = |cpus: &CpuSet| format!("{} ({}) on {cpus}", irq.number, irq.actions.join("+"));
        let stays = irq.managed == Some(true) || irq.settable == Some(false) || refused.contains(&irq.number);
        match (on(&irq.effective), on(&irq.affinity)) {
            (Some(cpus), _) if stays => stuck.push(name(&cpus)),
            (Some(cpus), _) => fires.push(name(&cpus)),
            // Not in effect as yet: it moves when it fires next.
            (None, Some(cpus)) if irq.effective.is_none() && !stays => asked.push(name(&cpus)),
            _ => {}
        }
    }
    let why = match () {
        () if !fires.is_empty() => format!("interrupts that could move are there: {}", named(&fires)),
        () if !asked.is_empty() => format!("interrupts may go there: {}", named(&asked)),
        () if !stuck.is_empty() => {
            format!("these do not move, only a boot without them does it: {}", named(&stuck))
        }
        () => String::new(),
    };
    ThreePlaces {
        running: Observed::new(Some(asked.is_empty()), None, "/proc/irq/*/smp_affinity_list"),
        effective: Observed::new(
            Some(fires.is_empty() && asked.is_empty()),
            None,
            "/proc/irq/*/effective_affinity_list",
        ),
        why,
        ..ThreePlaces::default()
    }
}

fn device(action: &Action, cpus: &CpuSet, machine: &Snapshot, inventory: &Inventory) -> ThreePlaces {
    let Some(device) = machine.devices.iter().find(|device| device.name == action.target) else {
        let why = "the device is not there".to_string();
        return ThreePlaces {
            effective: Observed::new(Some(false), None, "/sys/class"),
            why,
            ..ThreePlaces::default()
        };
    };
    let of_device = inventory.irqs.iter().filter(|irq| device.irqs.contains(&irq.number));
    let elsewhere: Vec<String> = of_device
        .filter_map(|irq| {
            let now = irq.effective.as_ref().or(irq.affinity.as_ref())?;
            (!now.without(cpus).is_empty()).then(|| format!("{} on {now}", irq.number))
        })
        .collect();
    let why = if elsewhere.is_empty() { String::new() } else { format!("elsewhere: {}", named(&elsewhere)) };
    let effective = Observed::new(Some(elsewhere.is_empty()), None, "/proc/irq/*/effective_affinity_list");
    ThreePlaces { effective, why, ..ThreePlaces::default() }
}

fn threads(plan: &Plan, inventory: &Inventory) -> ThreePlaces {
    if !inventory.threads.iter().any(|thread| thread.kernel) {
        return ThreePlaces {
            why: "no kernel thread could be looked at".to_string(),
            ..ThreePlaces::default()
        };
    }
    // An interrupt's thread goes where its interrupt goes.
    let free = inventory
        .threads
        .iter()
        .filter(|thread| thread.kernel && !thread.bound && !thread.name.starts_with("irq/"));
    let there = free.filter(|thread| !thread.cpus.and(&plan.isolated).is_empty());
    let there: Vec<String> = there.map(|thread| thread.name.clone()).collect();
    let why =
        if there.is_empty() { String::new() } else { format!("these may run there: {}", named(&there)) };
    ThreePlaces {
        effective: Observed::new(Some(there.is_empty()), None, "/proc/*/status"),
        why,
        ..ThreePlaces::default()
    }
}

fn balance(cpus: &CpuSet, machine: &Snapshot, inventory: &Inventory) -> ThreePlaces {
    if !inventory.services.runs("irqbalance") {
        let effective = Observed::new(Some(true), Some("not running".to_string()), "services");
        return ThreePlaces { effective, ..ThreePlaces::default() };
    }
    let told = inventory.services.irqbalance.as_ref().filter(|told| told.unread.is_none());
    let Some(told) = told else {
        let why = "it runs, and what it was told only root may read: /proc/PID/environ".to_string();
        return ThreePlaces { why, ..ThreePlaces::default() };
    };
    let spares = told.spares(&machine.isolation);
    let spared = cpus.without(&spares.cpus).is_empty();
    let effective = Observed::new(Some(spared), Some(spares.cpus.to_string()), &told.source);
    let why = if spared { String::new() } else { "it may move interrupts there".to_string() };
    ThreePlaces { effective, why, ..ThreePlaces::default() }
}

fn group<'i>(inventory: &'i Inventory, path: &str) -> Option<&'i ControlGroup> {
    inventory.services.groups.iter().find(|group| group.path.trim_matches('/') == path.trim_matches('/'))
}

fn slice(action: &Action, cpus: &CpuSet, inventory: &Inventory) -> ThreePlaces {
    let Some(group) = group(inventory, &action.target) else {
        // A slice without anything in it has no group, and nothing to fence in.
        return ThreePlaces {
            effective: Observed::new(inventory.services.unified.then_some(true), None, "/sys/fs/cgroup"),
            why: "it has no control group at present".to_string(),
            ..ThreePlaces::default()
        };
    };
    let inside = group.effective.as_ref().map(|now| now.without(cpus).is_empty());
    let value = group.effective.as_ref().map(CpuSet::to_string);
    let effective =
        Observed::new(inside, value, &format!("/sys/fs/cgroup/{}/cpuset.cpus.effective", action.target));
    let why = if inside == Some(false) { "it may still use other CPUs".to_string() } else { String::new() };
    ThreePlaces { effective, why, ..ThreePlaces::default() }
}

/// A unit: what its file says, and what runs by it.
fn unit(action: &Action, cpus: &CpuSet, inventory: &Inventory) -> ThreePlaces {
    let path = service::file(action).unwrap_or_default();
    let same = |now: &str| {
        let wanted = [true, false].into_iter().filter_map(|partition| units::text(action, partition));
        wanted.into_iter().any(|wanted| wanted.trim() == now.trim())
    };
    let configured = match inventory.files.get(&path) {
        Some(Reading::Text(now)) => Some(same(now)),
        Some(Reading::Unreadable { .. }) => None,
        _ => inventory.whole.then_some(false),
    };
    let (effective, why) = match action.kind {
        ActionKind::RealTimeSlice => {
            let ThreePlaces { effective, why, .. } = slice(action, cpus, inventory);
            (effective, why)
        }
        ActionKind::ManagerAffinity => {
            let now = inventory.threads.iter().find(|thread| thread.id == 1).map(|thread| &thread.cpus);
            let inside = now.map(|now| now.without(cpus).is_empty());
            let why = if inside == Some(false) { "in force from the next boot on" } else { "" };
            (Observed::new(inside, now.map(CpuSet::to_string), "/proc/1/status"), why.to_string())
        }
        _ => service(action, inventory),
    };
    let source =
        format!("{path}: {}", if configured == Some(true) { "as planned" } else { "absent, or changed" });
    ThreePlaces {
        configured: Observed::new(configured, None, &source),
        effective,
        why,
        ..ThreePlaces::default()
    }
}

/// The real-time threads of a service.
fn service(action: &Action, inventory: &Inventory) -> (Observed, String) {
    let Ok(ServiceValue { priority, cpus }) = action.value.parse() else { return Default::default() };
    let own = |thread: &&Thread| {
        thread.cgroup.as_deref().is_some_and(|group| group.ends_with(&format!("/{}", action.target)))
    };
    let threads: Vec<&Thread> = inventory.threads.iter().filter(own).collect();
    let fits = |thread: &&&Thread| {
        thread.policy == ThreadPolicy::Fifo
            && thread.priority == priority
            && cpus.as_ref().is_none_or(|cpus| thread.cpus.without(cpus).is_empty())
    };
    if threads.is_empty() {
        return (Observed::default(), "no real-time thread of it runs: start it again".to_string());
    }
    let all = threads.iter().filter(fits).count() == threads.len();
    let why = if all { String::new() } else { "a thread of it runs otherwise: start it again".to_string() };
    (Observed::new(Some(all), None, "/proc/*/stat"), why)
}

fn partition(cpus: &CpuSet, inventory: &Inventory) -> ThreePlaces {
    let path = PARTITION.trim_start_matches("/sys/fs/cgroup/");
    let Some(group) = group(inventory, path) else {
        let why = "there is no such partition".to_string();
        let effective = Observed::new(Some(false), None, PARTITION);
        return ThreePlaces { effective, why, ..ThreePlaces::default() };
    };
    let state = group.partition.clone().unwrap_or_default();
    let good = state == "isolated" && group.effective.as_ref().or(group.cpus.as_ref()) == Some(cpus);
    let why = if good { String::new() } else { format!("its state is '{state}'") };
    ThreePlaces {
        effective: Observed::new(Some(good), Some(state), PARTITION),
        why,
        ..ThreePlaces::default()
    }
}

fn limits(inventory: &Inventory) -> ThreePlaces {
    let lines: Vec<&str> = LIMITS.lines().collect();
    let has = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        inventory.session.rules.iter().any(|rule| {
            rule.starts_with(LIMITS_FILE) && rule.split_whitespace().collect::<Vec<_>>().ends_with(&words)
        })
    };
    let all = lines.iter().all(has);
    let why = if all {
        "in force for sessions that start from now on".to_string()
    } else {
        "the file is not there, or says something else".to_string()
    };
    ThreePlaces { configured: Observed::new(Some(all), None, LIMITS_FILE), why, ..ThreePlaces::default() }
}
