// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator fleet prove`, `plan`, `apply`, `verify` and `rollback`: the outcome of each machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one of these verbs, with `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetRunDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// `prove`, `plan`, `apply`, `verify` or `rollback`.
    pub verb: String,
    /// Whether nothing was to be changed (`--check`).
    pub check: bool,
    /// The inventory.
    pub inventory: String,
    /// The folder of evidence, plans and Ansible's log.
    pub folder: String,
    /// Each machine, in the order of the inventory.
    pub hosts: Vec<HostOutcome>,
}

/// The outcome of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostOutcome {
    /// Its name in the inventory.
    pub host: String,
    /// Its result.
    pub outcome: MachineOutcome,
    /// The reason, or the finding; may be empty.
    pub reason: String,
    /// How many things were changed on it.
    pub changed: u32,
    /// Its bundle, in the folder.
    pub bundle: Option<String>,
}

/// The possible outcomes of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Became")]
pub enum MachineOutcome {
    /// Something could not be done on it.
    Failed,
    /// It could not be reached, or no longer.
    Unreachable,
    /// It failed after tuning, and was restored.
    RolledBack,
    /// Measured: it exceeded its limit.
    Exceeded,
    /// Measured: its limit is unproven.
    Unproven,
    /// Some applied changes are not in force.
    NotInForce,
    /// It was not begun.
    NotReached,
    /// This would be changed.
    WouldChange,
    /// Measured: it held its limit.
    Held,
    /// All that is planned is in force.
    InForce,
    /// Its changes were undone.
    Undone,
}

impl MachineOutcome {
    /// As documents have it.
    pub fn name(self) -> &'static str {
        match self {
            MachineOutcome::Failed => "failed",
            MachineOutcome::Unreachable => "unreachable",
            MachineOutcome::RolledBack => "rolled-back",
            MachineOutcome::Exceeded => "exceeded",
            MachineOutcome::Unproven => "unproven",
            MachineOutcome::NotInForce => "not-in-force",
            MachineOutcome::NotReached => "not-reached",
            MachineOutcome::WouldChange => "would-change",
            MachineOutcome::Held => "held",
            MachineOutcome::InForce => "in-force",
            MachineOutcome::Undone => "undone",
        }
    }

    /// Whether it could not be done on this machine.
    pub fn could_not(self) -> bool {
        matches!(self, MachineOutcome::Failed | MachineOutcome::Unreachable)
    }

    /// Whether this machine does not hold what is asked of it.
    pub fn does_not_hold(self) -> bool {
        matches!(
            self,
            MachineOutcome::RolledBack
                | MachineOutcome::Exceeded
                | MachineOutcome::Unproven
                | MachineOutcome::NotInForce
        )
    }
}

impl FleetRunDocument {
    /// How many machines each outcome has, the worst first.
    pub fn counts(&self) -> BTreeMap<MachineOutcome, usize> {
        let mut counts = BTreeMap::new();
        for host in &self.hosts {
            *counts.entry(host.outcome).or_default() += 1;
        }
        counts
    }

    /// Whether something could not be done. What was not begun since another machine did not hold is no
    /// failure of its own.
    pub fn could_not(&self) -> bool {
        let stopped = self.does_not_hold();
        self.hosts
            .iter()
            .any(|host| host.outcome.could_not() || host.outcome == MachineOutcome::NotReached && !stopped)
    }

    /// Whether some machine does not hold what is asked of it.
    pub fn does_not_hold(&self) -> bool {
        self.hosts.iter().any(|host| host.outcome.does_not_hold())
    }
}
