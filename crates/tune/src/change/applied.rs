// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a change, or of a dry run: the document of `tune apply` and `tune confirm`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::action::Skipped;
use crate::boot::BootMethod;
use crate::record::kept::Kept;
use crate::record::{Record, RecordKind, Step, StepOutcome};
use crate::system::FileAccess;
use crate::transaction::step::reads;

/// Version of the documents.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of `tune apply` and `tune confirm`, or their preview.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Applied {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The records that were made.
    pub records: Vec<String>,
    /// Each step, and how it went.
    pub steps: Vec<StepLine>,
    /// The actions that were not done, with reasons.
    pub skipped: Vec<Skipped>,
    /// The settings that already had the planned value.
    pub already: Vec<String>,
    /// How the boot line changes.
    pub boot: BootChange,
    /// Incomplete earlier steps, which are undone now.
    pub recovered: Vec<String>,
    /// The next step.
    pub next: Vec<String>,
}

/// One step for people.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StepLine {
    /// What.
    pub what: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
    /// How it went.
    #[serde(flatten)]
    pub outcome: StepOutcome,
}

/// How the boot line changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "way")]
pub enum BootChange {
    /// Not at all.
    #[default]
    Nothing,
    /// An entry is booted once.
    Trial {
        /// The command or the boot that starts it.
        start: String,
    },
    /// Every next boot.
    Lasting {
        /// The entry that still boots if this one does not.
        fallback: String,
    },
    /// A person has to do it.
    Instructions {
        /// Why.
        why: String,
        /// The steps.
        lines: Vec<String>,
    },
}

impl Applied {
    /// Of a change that has done nothing yet.
    pub(crate) fn new(dry_run: bool) -> Applied {
        Applied { schema_version: SCHEMA_VERSION, dry_run, ..Applied::default() }
    }

    /// Says how the boot line changes, and what the user does next.
    pub(super) fn announce(&mut self, method: &BootMethod) {
        match method {
            BootMethod::Trial { start, .. } => {
                self.next.push(format!("{start}: boots the trial once; every later boot is as before"));
                self.next.push("isolator tune confirm: after that boot, makes it last".into());
                self.boot = BootChange::Trial { start: start.clone() };
            }
            BootMethod::Lasting { fallback, .. } => {
                self.boot = BootChange::Lasting { fallback: fallback.clone() };
            }
            BootMethod::Instructions { why, lines } => {
                self.next.extend(lines.clone());
                self.boot = BootChange::Instructions { why: why.clone(), lines: lines.clone() };
            }
        }
    }

    /// Adds steps that are not done.
    pub(super) fn preview(&mut self, steps: &[Step]) {
        self.steps.extend(steps.iter().filter_map(|step| line_of(step, outlook(step))));
    }

    /// Adds records that were carried out.
    pub(super) fn finish(&mut self, records: &[Record]) {
        for record in records {
            self.records.push(record.id.clone());
            let steps = record.steps.iter().filter_map(|done| line_of(&done.step, done.outcome.clone()));
            self.steps.extend(steps);
            if record.part == RecordKind::Boot && !record.id.contains("-kept") {
                self.next.push("reboot, then isolator tune confirm".into());
            }
        }
    }
}

/// How a step would go: whether it would change anything.
fn outlook(step: &Step) -> StepOutcome {
    let is_so = match step {
        Step::File { old, new, .. } => old == new,
        Step::Setting { old, write, compare, .. } => reads(old, write, *compare),
        Step::Affinity { old, new, .. } => old == new,
        Step::Access { old, new, .. } => old == new,
        Step::Generated { .. }
        | Step::Folder { .. }
        | Step::Command { .. }
        | Step::Members { .. }
        | Step::Program { .. } => false,
    };
    if is_so { StepOutcome::AlreadySo } else { StepOutcome::Pending }
}

/// A step for people; none where something is done only when it is undone.
pub(crate) fn line_of(step: &Step, outcome: StepOutcome) -> Option<StepLine> {
    let size = |kept: &Option<Kept>| {
        kept.as_ref().map_or("absent".into(), |kept| format!("{} bytes", kept.text.len()))
    };
    let (before, after) = match step {
        Step::File { old, new, .. } => (size(old), size(new)),
        Step::Generated { old, command, .. } => (size(old), format!("what `{}` prints", command.join(" "))),
        Step::Folder { .. } => ("absent".into(), "there".into()),
        Step::Setting { old, write, .. } => (old.trim().to_string(), write.clone()),
        Step::Affinity { old, new, .. } => (format!("CPUs {old}"), format!("CPUs {new}")),
        Step::Command { run, .. } if run.is_empty() => return None,
        Step::Command { .. } => (String::new(), "run".into()),
        Step::Members { group, line, users, .. } => {
            let before = if line.is_some() { "absent" } else { group.as_str() };
            (before.to_string(), format!("{group} with {}", users.join(", ")))
        }
        Step::Access { old, new, .. } => (access(*old), access(*new)),
        Step::Program { gid, capabilities, .. } => {
            ("absent".into(), format!("this program for group {gid} alone, with {}", capabilities.join(", ")))
        }
    };
    Some(StepLine { what: step.what(), before, after, outcome })
}

fn access(of: FileAccess) -> String {
    format!("{:04o} {}:{}", of.mode, of.uid, of.gid)
}
