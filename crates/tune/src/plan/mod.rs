// SPDX-License-Identifier: MIT OR Apache-2.0
//! The changes to a machine, and why: a pure function of facts and intent.
//!
//! `docs/howto/tune.md` has the rules for users: which cores, the boot line, the settings of the running
//! kernel. A plan never depends on what was set before. Unknown facts are listed, not guessed; settings that
//! a kernel does not support are left out and listed.

mod choose;
mod document;
mod facts;
mod identity;
mod intent;
pub mod line;
pub mod list;
pub mod runtime;
pub mod units;

use machine::Snapshot;
use machine::snapshot::{Device, Preemption};

use choose::CpuChoice;
use facts::PlanFacts;

pub use crate::action::{Action, ActionKind, BootLine, Disruption, PlanRefusal, Skipped};
pub use document::{MadeFor, Plan, PlanAnswer, SCHEMA_VERSION};
pub use intent::{Intent, ServiceIntent, SystemdIntent, WantedCpus};
pub use machine::Profile;

/// The changes to `machine`, which `made_for` names, so that it serves `intent`; or why nothing is to be
/// changed.
pub fn plan(machine: &Snapshot, made_for: &MadeFor, intent: &Intent) -> Result<Plan, PlanRefusal> {
    if intent.profile == Profile::Server {
        return choose::refuse(
            "a server without deadlines loses by a plan: isolated CPUs and a real-time kernel cost throughput",
            "leave the machine as it is, or choose the profile of what has a deadline (--profile periodic)",
        );
    }
    let facts = PlanFacts::of(machine);
    let device = intent.device.as_deref().map(|name| find(machine, name)).transpose()?;
    let choice = match intent.cpus {
        // Sound shares its machine with a desktop, and its programs have many threads.
        WantedCpus::Default if intent.profile == Profile::Audio => nothing_isolated(&facts),
        _ => choose::choose(&facts, intent, device.and_then(|device| device.node))?,
    };
    let mut skipped = Vec::new();
    let mut actions = line::line(&facts, intent, &choice, &mut skipped)?;
    let mut warnings = choice.warnings.clone();
    warnings.extend(line::foreign(&facts, &actions));
    warnings.extend(about(&facts, intent, &choice, device));
    actions.extend(runtime::actions(&facts, intent, &choice, device, &mut skipped));
    actions.extend(units::actions(&facts, intent, &choice, &mut skipped));
    Ok(Plan {
        schema_version: SCHEMA_VERSION,
        made_for: made_for.clone(),
        intent: intent.clone(),
        isolated: choice.isolated,
        real_time: choice.real_time,
        housekeeping: choice.housekeeping,
        why: choice.why,
        actions,
        skipped,
        warnings,
        digest: String::new(),
    }
    .sealed())
}

fn nothing_isolated(facts: &PlanFacts) -> CpuChoice {
    CpuChoice {
        housekeeping: facts.online(),
        why: "none is isolated: sound's programs have many threads, which one isolated CPU each would not balance; ask \
              for some with --cores"
            .to_string(),
        ..CpuChoice::default()
    }
}

fn find<'m>(machine: &'m Snapshot, name: &str) -> Result<&'m Device, PlanRefusal> {
    let found =
        machine.devices.iter().find(|device| device.name == name || device.address.as_deref() == Some(name));
    found.ok_or_else(|| {
        let names = machine.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ");
        PlanRefusal {
            reason: format!("there is no device '{name}' here, or it has no driver"),
            cure: if names.is_empty() {
                "leave --device out: no network or sound device was found".to_string()
            } else {
                format!("choose from {names}")
            },
        }
    })
}

/// Warnings about the machine as a whole.
fn about(facts: &PlanFacts, intent: &Intent, choice: &CpuChoice, device: Option<&Device>) -> Vec<String> {
    let machine = facts.machine;
    let mut said = Vec::new();
    if machine.kernel.release.is_none() {
        said.push("the kernel's version is not known: the boot line is for Linux 5.6 and newer".to_string());
    }
    if machine.kernel.options.is_empty() {
        said.push(
            "the kernel's configuration is not known: what depends on it is left out, and isolcpus itself is not sure to act"
                .to_string(),
        );
    }
    if let Some(hypervisor) = &machine.hypervisor {
        said.push(format!(
            "a virtual machine ({hypervisor}): its CPUs wait for the host's, and idle states and firmware are the \
             host's; have them pinned there"
        ));
    }
    if let Some(container) = &machine.container {
        said.push(format!("a container ({container}): the machine's settings are its host's to change"));
    }
    if let Some(owner) = machine.services.iter().find(|name| *name == "TuneD") {
        said.push(format!(
            "{owner} is active and would write its own values back: stop it, or give it the plan as its profile (isolator \
             tune export)"
        ));
    }
    if intent.profile == Profile::Periodic {
        match machine.kernel.preemption {
            Preemption::RealTime => {}
            Preemption::Unknown => said.push("whether the kernel is PREEMPT_RT is not known".to_string()),
            _ => said.push(
                "the kernel is not PREEMPT_RT: isolation makes peaks rarer, and bounds nothing; a periodic loop wants such a \
                 kernel"
                    .to_string(),
            ),
        }
    }
    if intent.profile == Profile::Poll && machine.limits_real_time() == Some(true) {
        said.push(
            "this kernel stops real-time threads for 50 ms of each second (kernel.sched_rt_runtime_us): run the polling loop \
             under SCHED_OTHER on its own CPU, or set -1 and keep two CPUs for housekeeping"
                .to_string(),
        );
    }
    if let Some(device) = device.filter(|device| device.node.is_none() && facts.nodes().len() > 1) {
        said.push(format!("which memory node {} is near to is not known", device.name));
    }
    if machine.settings.contains_key("/sys/fs/cgroup/cpuset.housekeeping.cpus") {
        said.push(
            "the kernel has cpuset.housekeeping.cpus, which is not in Linux as it is released: the plan does not rely on it"
                .to_string(),
        );
    }
    if intent.no_reboot && !choice.isolated.is_empty() {
        said.push(
            "without a reboot, interrupts that drivers manage, RCU's callbacks and the tick stay on the isolated CPUs"
                .to_string(),
        );
    }
    said
}
