// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune status`: every record, and what of it is still in force.

use schemars::JsonSchema;
use serde::Serialize;

use super::applied::SCHEMA_VERSION;
use super::check::{ends_with_boot, in_force, now_otherwise};
use super::here::Here;
use crate::Result;
use crate::record::{RecordKind, RecordState, StepOutcome};
use crate::transaction::store;

/// The output of `tune status`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct TuneStatus {
    /// Version of this document.
    pub schema_version: u32,
    /// Every record, the oldest first.
    pub records: Vec<RecordStatus>,
    /// The next step.
    pub next: Vec<String>,
}

/// One record, and whether it is still in force.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RecordStatus {
    /// Its name.
    pub id: String,
    /// The kind of change.
    pub part: RecordKind,
    /// Its progress.
    pub state: RecordState,
    /// The plan's digest.
    pub plan: String,
    /// Words of the boot line.
    pub words: Vec<String>,
    /// How many steps it has.
    pub steps: usize,
    /// The number of them that ended with their boot.
    pub ended: usize,
    /// Steps that are no longer in force for another reason, with their present state.
    pub lost: Vec<String>,
    /// Steps that were refused, and why.
    pub refused: Vec<String>,
}

/// Every record, and what of it is still in force.
pub fn status(here: &mut Here<'_>) -> Result<TuneStatus> {
    let boot_id = store::boot_id(here.system);
    let mut status = TuneStatus { schema_version: SCHEMA_VERSION, records: Vec::new(), next: Vec::new() };
    let (records, unread) = store::readable(here.system)?;
    status.next.extend(unread.iter().map(|error| format!("a record does not count: {error}")));
    for record in records {
        let same_boot = record.boot_id == boot_id;
        let (mut ended, mut lost, mut refused) = (0, Vec::new(), Vec::new());
        for done in &record.steps {
            match &done.outcome {
                StepOutcome::Refused(why) => refused.push(format!("{}: {why}", done.step.what())),
                StepOutcome::Done if record.state == RecordState::Applied => {
                    if !same_boot && ends_with_boot(&done.step) {
                        ended += 1;
                    } else {
                        lost.extend(now_otherwise(here.system, &done.step));
                    }
                }
                _ => {}
            }
        }
        match (record.state, record.part) {
            (RecordState::Applying | RecordState::RollingBack, _) => {
                status.next.push(format!("isolator tune rollback: {} is not wholly undone", record.id));
            }
            (RecordState::Applied, RecordKind::Trial) if same_boot => {
                let start = record.start.as_deref().unwrap_or("reboot");
                status.next.push(format!("{start}: boots the trial once; then isolator tune confirm"));
            }
            (RecordState::Applied, RecordKind::Trial) => {
                status.next.push(match in_force(here, &record, &boot_id) {
                    Ok(()) => "isolator tune confirm: makes what was tried last".into(),
                    Err(error) => format!("isolator tune rollback, then plan and apply again: {}", error.why),
                })
            }
            _ => {}
        }
        status.records.push(RecordStatus {
            id: record.id,
            part: record.part,
            state: record.state,
            plan: record.plan,
            words: record.words,
            steps: record.steps.len(),
            ended,
            lost,
            refused,
        });
    }
    Ok(status)
}
