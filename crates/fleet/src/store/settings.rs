// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a machine that may differ from its neighbour's: name and value, one each.
//!
//! Names are those of the snapshot, with `boot`, `option`, `service` or `asked` before what came from the
//! boot line, the kernel's configuration, the list of services, or the run. What differs between all machines
//! (disks, names, memory) is left out.

use std::collections::{BTreeMap, BTreeSet};

use evidence::Manifest;
use serde_json::Value;

/// Parameters of the boot line that name a machine's parts and decide no latency.
const OWN: [&str; 9] =
    ["BOOT_IMAGE", "root", "rootfstype", "rootflags", "initrd", "resume", "ro", "rw", "UUID"];

/// Longest value that is kept.
const LONGEST: usize = 200;

/// The settings of a run, by name.
pub(crate) fn of(manifest: &Manifest) -> BTreeMap<String, String> {
    let machine = &manifest.machine;
    let mut out = BTreeMap::new();
    let mut put = |name: String, value: String| {
        if !value.is_empty() && value.len() <= LONGEST {
            out.insert(name, value);
        }
    };
    for word in machine.kernel.command_line.as_deref().unwrap_or_default().split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "given"));
        if !OWN.contains(&name) {
            put(format!("boot {name}"), value.to_string());
        }
    }
    for (name, value) in &machine.kernel.options {
        put(format!("option {name}"), value.clone());
    }
    for (path, value) in &machine.settings {
        put(path.clone(), value.clone());
    }
    for service in &machine.services {
        put(format!("service {service}"), "runs".to_string());
    }
    let plain = |value: Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut json = |name: &str, value: Value| put(name.to_string(), plain(value));
    json("clocksource", machine.clocksource.clone().into());
    json("firmware", machine.firmware.clone().into());
    json("hypervisor", machine.hypervisor.clone().into());
    json("container", machine.container.clone().into());
    json("rt_runtime_us", machine.scheduler.rt_runtime_us.into());
    json("tsc_watched", machine.tsc_watched.into());
    json("isolated", machine.isolation.isolated.to_string().into());
    json("partitions", machine.isolation.partitions.to_string().into());
    json("nohz_full", machine.isolation.nohz_full.to_string().into());
    json("irq_default", machine.isolation.irq_default.to_string().into());
    json("asked policy", manifest.asked.policy.clone().into());
    json("asked priority", manifest.asked.priority.into());
    json("asked dma_latency_us", manifest.asked.dma_latency_us.into());
    json("asked isolate", manifest.asked.isolate.clone().into());
    let measured = machine.cpus.iter().filter(|cpu| manifest.asked.cpus.contains(cpu.id)).collect::<Vec<_>>();
    let mut each = |name: &str, value: &dyn Fn(&machine::snapshot::Cpu) -> Option<String>| {
        let values = measured.iter().filter_map(|cpu| value(cpu)).collect::<BTreeSet<_>>();
        put(name.to_string(), values.into_iter().collect::<Vec<_>>().join(","));
    };
    each("governor", &|cpu| cpu.governor.clone());
    each("idle_latency_limit_us", &|cpu| cpu.idle_latency_limit_us.map(|us| us.to_string()));
    each("fair_server_runtime_ns", &|cpu| cpu.fair_server_runtime_ns.map(|ns| ns.to_string()));
    each("deepest idle state", &|cpu| {
        cpu.idle_states.iter().rev().find(|state| !state.disabled).map(|state| state.name.clone())
    });
    out
}
