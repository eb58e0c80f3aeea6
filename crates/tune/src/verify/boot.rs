// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot parameters: the default entry, the line that was booted, and what the kernel made of it.

use machine::boot::line::{self, same_name};
use machine::inventory::Inventory;
use machine::{CpuSet, Snapshot};

use super::{Observed, ThreePlaces};
use crate::action::Action;

pub(super) fn places(action: &Action, machine: &Snapshot) -> ThreePlaces {
    let (name, value) = (action.target.as_str(), action.value.as_str());
    let line = machine.kernel.command_line.as_deref();
    let running = line.map_or_else(Observed::default, |line| on_line(line, name, value, "/proc/cmdline"));
    let configured = configured(name, value, machine.inventory.as_deref());
    let mut effective = effective(name, value, machine);
    let mut why = String::new();
    if running.agrees == Some(true) && refused(name, machine.inventory.as_deref()) {
        effective = Observed::new(Some(false), None, "the kernel's log");
        why = "the kernel did not know it: it handed it to init".to_string();
    } else if running.agrees == Some(true) && effective.agrees == Some(false) {
        why = "the parameter is set, but not in effect: the kernel dropped the list, or its configuration lacks this"
            .to_string();
    } else if running.agrees == Some(false) {
        why = match configured.agrees {
            Some(true) => "it is configured: boot again, and choose that entry",
            Some(false) => "it is not on the boot line, and no entry has it: apply the plan",
            None => "it is not on the boot line",
        }
        .to_string();
    }
    ThreePlaces { configured, running, effective, why }
}

fn configured(name: &str, value: &str, inventory: Option<&Inventory>) -> Observed {
    let Some(entry) = inventory.and_then(|inventory| inventory.boot.default_entry()) else {
        return Observed::default();
    };
    on_line(&entry.options, name, value, &entry.file)
}

/// Whether `line` has the parameter with that value; the last of several counts.
fn on_line(line: &str, name: &str, value: &str, source: &str) -> Observed {
    match line::value(line, name) {
        Some(set) => Observed::new(Some(same_value(set, value)), Some(set.to_string()), source),
        None => Observed::new(Some(false), None, source),
    }
}

/// Whether two values are one; flags and lists of CPUs may be written in several ways.
fn same_value(one: &str, other: &str) -> bool {
    one == other || (!one.is_empty() && flags_and_cpus(one) == flags_and_cpus(other))
}

fn flags_and_cpus(value: &str) -> (Vec<&str>, Option<CpuSet>) {
    let numbers = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let mut flags: Vec<&str> = value.split(',').filter(|word| !numbers(word)).collect();
    flags.sort_unstable();
    let list: Vec<&str> = value.split(',').filter(numbers).collect();
    (flags, list.join(",").parse().ok())
}

/// The CPUs that a value names.
fn cpus_of(value: &str) -> CpuSet {
    flags_and_cpus(value).1.unwrap_or_default()
}

fn effective(name: &str, value: &str, machine: &Snapshot) -> Observed {
    let cpus =
        |seen: &CpuSet, source| Observed::new(Some(*seen == cpus_of(value)), Some(seen.to_string()), source);
    let isolation = &machine.isolation;
    match name {
        "isolcpus" => cpus(&isolation.isolated, "/sys/devices/system/cpu/isolated"),
        "nohz_full" => cpus(&isolation.nohz_full, "/sys/devices/system/cpu/nohz_full"),
        "irqaffinity" if !isolation.irq_default.is_empty() => {
            cpus(&isolation.irq_default.and(&machine.online()), "/proc/irq/default_smp_affinity")
        }
        "rcu_nocbs" => offloaded(value, machine),
        "nosmt" => match machine.settings.get("/sys/devices/system/cpu/smt/control") {
            Some(control) => Observed::new(
                Some(control != "on"),
                Some(control.clone()),
                "/sys/devices/system/cpu/smt/control",
            ),
            None => Observed::default(),
        },
        "threadirqs" => match machine.inventory.as_deref() {
            Some(inventory) if sees_kernel_threads(inventory) => {
                let any =
                    inventory.threads.iter().any(|thread| thread.kernel && thread.name.starts_with("irq/"));
                Observed::new(Some(any), None, "threads named irq/")
            }
            _ => Observed::default(),
        },
        _ => parameter(name, value, machine.inventory.as_deref()),
    }
}

/// A module's parameter shows itself in sysfs.
fn parameter(name: &str, value: &str, inventory: Option<&Inventory>) -> Observed {
    let (Some((module, parameter)), Some(inventory)) = (name.split_once('.'), inventory) else {
        return Observed::default();
    };
    let path = format!("/sys/module/{module}/parameters/{parameter}");
    match inventory.text(&path) {
        Some(text) => Observed::new(Some(text == value), Some(text.to_string()), &path),
        None => Observed::default(),
    }
}

/// A container has process numbers of its own, and no thread of the kernel among them.
fn sees_kernel_threads(inventory: &Inventory) -> bool {
    inventory.threads.iter().any(|thread| thread.kernel)
}

/// Callbacks of an offloaded CPU have a thread with its number.
fn offloaded(value: &str, machine: &Snapshot) -> Observed {
    let Some(inventory) = machine.inventory.as_deref().filter(|inventory| sees_kernel_threads(inventory))
    else {
        return Observed::default();
    };
    let threads = inventory.threads.iter().filter(|thread| thread.kernel).filter_map(|thread| {
        let (start, number) = thread.name.split_once('/')?;
        // rcuop, rcuos or rcuob; rcuog is a group's, and has the number of its first CPU.
        (start.starts_with("rcuo") && start != "rcuog").then(|| number.parse::<u32>().ok())?
    });
    let seen: CpuSet = threads.collect();
    let missing = cpus_of(value).without(&seen);
    Observed::new(Some(missing.is_empty()), Some(seen.to_string()), "threads named rcuo")
}

/// Whether the kernel named it among the parameters that it does not know.
fn refused(name: &str, inventory: Option<&Inventory>) -> bool {
    let lines = inventory.map(|inventory| inventory.log.lines.as_slice()).unwrap_or_default();
    lines.iter().filter(|line| line.contains("Unknown kernel command line parameters")).any(|line| {
        line.split(['"', ' ']).any(|word| same_name(word.split('=').next().unwrap_or_default(), name))
    })
}
