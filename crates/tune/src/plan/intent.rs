// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user's intent for a machine.

use machine::{CpuSet, Profile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The user's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The purpose of the machine.
    pub profile: Profile,
    /// Which CPUs.
    pub cpus: WantedCpus,
    /// The device that the real-time program talks to, `eth1` or a PCI address.
    pub device: Option<String>,
    /// Only changes without a reboot.
    pub no_reboot: bool,
    /// Whether a core may be split between real-time and ordinary work.
    pub split_siblings: bool,
    /// Whether hardware threads are to be switched off for the whole machine (`nosmt`).
    pub nosmt: bool,
    /// Units of systemd, where they are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub systemd: Option<SystemdIntent>,
}

impl Intent {
    /// This purpose on these CPUs, everything else being as usual.
    pub fn new(profile: Profile, cpus: WantedCpus) -> Intent {
        Intent {
            profile,
            cpus,
            device: None,
            no_reboot: false,
            split_siblings: false,
            nosmt: false,
            systemd: None,
        }
    }
}

/// Units of systemd that are wanted: a slice, the manager's affinity, and drop-ins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemdIntent {
    /// The services that are real-time.
    pub services: Vec<ServiceIntent>,
}

/// A service that is real-time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceIntent {
    /// Its unit.
    pub name: String,
    /// Its priority.
    pub priority: u32,
}

/// Which CPUs are to be isolated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Wanted")]
pub enum WantedCpus {
    /// One core, or none if the profile needs none.
    Default,
    /// As many physical cores, chosen by the planner.
    Cores(u32),
    /// These CPUs, all hardware threads of a core together.
    Cpus(CpuSet),
}
