// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether what a plan asks for is so on a machine: configured, running and in effect told apart.
//!
//! *Configured* is what a file says that counts from the next boot on, *running* what the kernel was told,
//! *in effect* what it does with it. They differ more often than people think: a boot line that was edited
//! and never generated, a parameter that the kernel does not know, an interrupt that does not move. The
//! strongest that is known decides.
//!
//! A pure function of plan, snapshot and what refused to be moved. Limits: what no file shows is judged by
//! the boot line alone (`skew_tick`); files that may not be read are unknown, and listed.

use machine::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::{Action, ActionKind};
use crate::plan::Plan;

mod boot;
mod moved;
mod settings;

/// Version of the document.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// Version of this document.
    pub schema_version: u32,
    /// The plan's digest.
    pub plan: String,
    /// Whether all of it is in force.
    pub in_force: bool,
    /// How many actions are in force, are not, or cannot be judged.
    pub summary: CheckCounts,
    /// Each action, in the plan's order.
    pub checks: Vec<ActionCheck>,
}

/// The number of actions by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Summary")]
pub struct CheckCounts {
    /// In force.
    pub in_force: u32,
    /// Not in force.
    pub not: u32,
    /// It cannot be judged with the data that could be read.
    pub unknown: u32,
}

/// One action and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Check")]
pub struct ActionCheck {
    /// The action's kind.
    pub kind: ActionKind,
    /// Its target.
    pub target: String,
    /// The value that it wants.
    pub wanted: String,
    /// The state in the boot files, for the next boot.
    pub configured: Observed,
    /// The state on the running boot line.
    pub running: Observed,
    /// The state in the kernel.
    pub effective: Observed,
    /// The overall state.
    pub result: CheckState,
    /// The reason why it is not in force or unknown, or a remark; may be empty.
    pub why: String,
    /// A command that shows it.
    pub verify: String,
}

/// The overall state of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "State")]
pub enum CheckState {
    /// The action is in force.
    InForce,
    /// The action is not in force.
    Not,
    /// It could not be determined.
    Unknown,
}

/// The state in one of the three places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Seen")]
pub struct Observed {
    /// Whether it has the planned value; absent if unknown, or without such a place.
    pub agrees: Option<bool>,
    /// The value found there.
    pub value: Option<String>,
    /// The file or command it was read from; absent without one.
    pub source: Option<String>,
}

impl Observed {
    fn new(agrees: Option<bool>, value: Option<String>, source: &str) -> Self {
        Observed { agrees, value, source: Some(source.to_string()) }
    }
}

/// The three places and a word on them.
#[derive(Debug, Clone, Default)]
struct ThreePlaces {
    configured: Observed,
    running: Observed,
    effective: Observed,
    why: String,
}

/// Compares `plan` with `machine`, which was read with its inventory. `refused` are interrupts that did not
/// let themselves be moved when the plan was applied, which only shows then.
pub fn verify(plan: &Plan, machine: &Snapshot, refused: &[u32]) -> Verified {
    let session = machine.inventory.as_deref().map(|inventory| &inventory.session);
    // What no program here would read is left out when the plan is applied, too.
    let left_out = |action: &&Action| {
        action.kind == ActionKind::Limits && session.is_some_and(|session| session.without_limits_folder)
    };
    let actions = plan.actions.iter().filter(|action| !left_out(action));
    let checks: Vec<ActionCheck> = actions.map(|action| check(plan, action, machine, refused)).collect();
    let count = |state| checks.iter().filter(|check| check.result == state).count() as u32;
    let summary = CheckCounts {
        in_force: count(CheckState::InForce),
        not: count(CheckState::Not),
        unknown: count(CheckState::Unknown),
    };
    Verified {
        schema_version: SCHEMA_VERSION,
        plan: plan.digest.clone(),
        in_force: summary.not + summary.unknown == 0,
        summary,
        checks,
    }
}

fn check(plan: &Plan, action: &Action, machine: &Snapshot, refused: &[u32]) -> ActionCheck {
    let places = match action.kind {
        ActionKind::BootParameter => boot::places(action, machine),
        kind if kind.writes_one_file() => settings::places(action, machine),
        _ => moved::places(plan, action, machine, refused),
    };
    let strongest =
        [&places.effective, &places.running, &places.configured].into_iter().find_map(|seen| seen.agrees);
    let result = match strongest {
        Some(true) => CheckState::InForce,
        Some(false) => CheckState::Not,
        None => CheckState::Unknown,
    };
    ActionCheck {
        kind: action.kind,
        target: action.target.clone(),
        wanted: action.value.clone(),
        configured: places.configured,
        running: places.running,
        effective: places.effective,
        result,
        why: places.why,
        verify: action.verify.clone(),
    }
}

#[cfg(test)]
mod tests;
