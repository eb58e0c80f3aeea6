// SPDX-License-Identifier: MIT OR Apache-2.0
//! Services, and control groups with CPUs of their own.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::irqbalance::Irqbalance;
use crate::CpuSet;

/// Services, and control groups with CPUs of their own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Services {
    /// Units of systemd that have a control group, without `.service`.
    pub active: BTreeSet<String>,
    /// Units that are started at boot or by a timer, without `.service`.
    pub enabled: BTreeSet<String>,
    /// Names of processes.
    pub processes: BTreeSet<String>,
    /// Slices, partitions, and groups with a set of CPUs of their own.
    pub groups: Vec<ControlGroup>,
    /// Whether the tree of control groups of version 2 could be looked at.
    pub unified: bool,
    /// The settings of the running irqbalance; absent if none runs.
    pub irqbalance: Option<Irqbalance>,
}

impl Services {
    /// Whether a service of this name runs, as a unit or as a process; the kernel cuts names after 15
    /// letters.
    pub fn runs(&self, name: &str) -> bool {
        self.active.contains(name) || self.processes.contains(&name.chars().take(15).collect::<String>())
    }
}

/// A control group of version 2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Group")]
pub struct ControlGroup {
    /// Its path below the mount.
    pub path: String,
    /// `cpuset.cpus.partition`: `member`, `root`, `isolated`, with the reason where it is invalid.
    pub partition: Option<String>,
    /// `cpuset.cpus`.
    pub cpus: Option<CpuSet>,
    /// `cpuset.cpus.effective`.
    pub effective: Option<CpuSet>,
    /// `cpu.max`, where it is a limit.
    pub quota: Option<String>,
}
