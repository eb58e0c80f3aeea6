// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan: the document that `tune plan --json` prints, `tune apply` reads and `tune verify` checks.

use machine::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::intent::Intent;
use crate::action::{Action, BootLine, PlanRefusal, Skipped};
use crate::allowed;

/// Version of the document; 2 took what articles set out of it.
pub const SCHEMA_VERSION: u32 = 2;

/// A plan, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Answer")]
pub enum PlanAnswer {
    /// The changes.
    Plan(Box<Plan>),
    /// Why nothing is planned.
    Refused {
        /// Version of this document.
        schema_version: u32,
        /// The reason, with the cure.
        refused: PlanRefusal,
    },
}

/// The changes of one machine, with reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "PlanDocument", try_from = "PlanDocument")]
pub struct Plan {
    /// Version of this document.
    pub schema_version: u32,
    /// For which machine and boot it was made.
    pub made_for: MadeFor,
    /// The request.
    pub intent: Intent,
    /// CPUs to isolate.
    pub isolated: CpuSet,
    /// The CPUs among them for real-time threads: the first hardware thread of each core. The others stay
    /// idle.
    pub real_time: CpuSet,
    /// The housekeeping CPUs.
    pub housekeeping: CpuSet,
    /// Why these CPUs.
    pub why: String,
    /// The steps, in order.
    pub actions: Vec<Action>,
    /// The omitted actions, with reasons.
    pub skipped: Vec<Skipped>,
    /// A warning before it is done.
    pub warnings: Vec<String>,
    /// SHA-256 of this document without this field, hexadecimal: a plan changed by hand is no longer this
    /// plan.
    pub digest: String,
}

/// The changes of one machine, with reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Plan")]
pub struct PlanDocument {
    /// Version of this document.
    pub(super) schema_version: u32,
    /// For which machine and boot it was made.
    pub(super) made_for: MadeFor,
    /// The request.
    pub(super) intent: Intent,
    /// CPUs to isolate.
    pub(super) isolated: CpuSet,
    /// The CPUs among them for real-time threads: the first hardware thread of each core. The others stay
    /// idle.
    pub(super) real_time: CpuSet,
    /// The housekeeping CPUs.
    pub(super) housekeeping: CpuSet,
    /// The tokens to add to the kernel's boot line, in order, separated by one space; may be empty.
    pub(super) boot_line: String,
    /// Why these CPUs.
    pub(super) why: String,
    /// The steps, in order.
    pub(super) actions: Vec<Action>,
    /// The omitted actions, with reasons.
    pub(super) skipped: Vec<Skipped>,
    /// A warning before it is done.
    pub(super) warnings: Vec<String>,
    /// SHA-256 of this document without this field, hexadecimal: a plan changed by hand is no longer this
    /// plan.
    pub(super) digest: String,
}

impl From<Plan> for PlanDocument {
    fn from(plan: Plan) -> PlanDocument {
        let boot_line = plan.boot_line().to_string();
        let Plan { schema_version, made_for, intent, isolated, real_time, housekeeping, .. } = plan;
        let Plan { why, actions, skipped, warnings, digest, .. } = plan;
        PlanDocument {
            schema_version,
            made_for,
            intent,
            isolated,
            real_time,
            housekeeping,
            boot_line,
            why,
            actions,
            skipped,
            warnings,
            digest,
        }
    }
}

impl TryFrom<PlanDocument> for Plan {
    type Error = PlanRefusal;

    /// The plan of a document: its line is that of its actions, its digest that of its content, and this
    /// program makes all of its actions. There is no other plan.
    fn try_from(document: PlanDocument) -> Result<Plan, PlanRefusal> {
        document.check_unchanged()?;
        if BootLine::of(&document.actions).to_string() != document.boot_line {
            return Err(PlanRefusal {
                reason: "the plan's boot line is not that of its actions".to_string(),
                cure: "plan on this machine, with this program".to_string(),
            });
        }
        allowed::actions(&document.actions)?;
        let PlanDocument { schema_version, made_for, intent, isolated, real_time, housekeeping, .. } =
            document;
        let PlanDocument { why, actions, skipped, warnings, digest, .. } = document;
        Ok(Plan {
            schema_version,
            made_for,
            intent,
            isolated,
            real_time,
            housekeeping,
            why,
            actions,
            skipped,
            warnings,
            digest,
        })
    }
}

impl Plan {
    /// The words that come into the kernel's line.
    pub fn boot_line(&self) -> BootLine {
        BootLine::of(&self.actions)
    }
}

/// The machine and the boot for which a plan was made. Facts that could not be read are absent and not
/// compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MadeFor {
    /// The host's name.
    pub hostname: Option<String>,
    /// SHA-256 of `/etc/machine-id`, which itself is not to leave the machine; hexadecimal.
    pub machine_sha256: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// SHA-256 of `/proc/sys/kernel/random/boot_id`; hexadecimal.
    pub boot_sha256: Option<String>,
}
