// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the user wants of a machine.

use machine::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the user wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// What the machine is for.
    pub profile: Profile,
    /// Which CPUs.
    pub cpus: Wanted,
    /// The device that the real-time program talks to, `eth1` or a PCI address.
    pub device: Option<String>,
    /// Only what needs no reboot.
    pub no_reboot: bool,
    /// Whether a core may be split between real-time and ordinary work.
    pub split_siblings: bool,
    /// Whether hardware threads are to be switched off for the whole machine (`nosmt`).
    pub nosmt: bool,
}

/// Which CPUs are to be isolated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// One core, or none where the profile wants none.
    Default,
    /// As many physical cores, chosen by the planner.
    Cores(u32),
    /// These CPUs, all hardware threads of a core together.
    Cpus(CpuSet),
}

/// What the machine is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// A loop that sleeps until its next period: control, motion, EtherCAT.
    #[default]
    Periodic,
    /// A loop that never sleeps: packet polling, trading.
    Poll,
    /// Sound: many short periods, a desktop around it.
    Audio,
    /// Virtual CPUs that are pinned.
    Vm,
    /// Throughput for many; no deadline.
    Server,
}

impl Profile {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Periodic => "periodic",
            Profile::Poll => "poll",
            Profile::Audio => "audio",
            Profile::Vm => "vm",
            Profile::Server => "server",
        }
    }
}
