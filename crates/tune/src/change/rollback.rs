// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune rollback`: records are undone, the newest first.

use schemars::JsonSchema;
use serde::Serialize;

use super::applied::SCHEMA_VERSION;
use super::here::{Here, still_to_undo};
use crate::record::{Record, Undone};
use crate::transaction::{self, store};
use crate::{Error, Result};

/// The result of `tune rollback`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RolledBack {
    /// Version of this document.
    pub schema_version: u32,
    /// Each record, with the results of its steps.
    pub records: Vec<RecordUndone>,
    /// The steps that still have to be undone, with the reasons.
    pub left: Vec<String>,
}

/// The result of one record.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RecordUndone {
    /// Its name.
    pub id: String,
    /// The result of each step, in the order in which they were undone.
    pub undone: Vec<Undone>,
}

/// Undoes one record, or all that are in force, the newest first.
pub fn roll_back(here: &mut Here<'_>, id: Option<&str>) -> Result<RolledBack> {
    let Some(id) = id else { return roll_back_all(here, Record::is_tuning) };
    let (records, _) = store::readable(here.system)?;
    if !records.iter().any(|record| record.id == id) {
        store::read(here.system, id)?;
    }
    undo_of(here, records, |record| record.id == id, Vec::new())
}

/// Undoes every record that is `wanted`, the newest first.
pub(crate) fn roll_back_all(here: &mut Here<'_>, wanted: impl Fn(&Record) -> bool) -> Result<RolledBack> {
    let (records, unread) = store::readable(here.system)?;
    undo_of(here, records, wanted, unread.iter().map(Error::to_string).collect())
}

fn undo_of(
    here: &mut Here<'_>,
    mut records: Vec<Record>,
    wanted: impl Fn(&Record) -> bool,
    mut left: Vec<String>,
) -> Result<RolledBack> {
    records.retain(Record::live);
    let mut undone = Vec::new();
    for at in (0..records.len()).rev().filter(|at| wanted(&records[*at])).collect::<Vec<_>>() {
        // Words that another change wants too are taken out with the last of them.
        let wanted = |raw: &String| {
            let mut others = records.iter().enumerate().filter(|(other, _)| *other != at);
            others.any(|(_, other)| other.live() && other.words.contains(raw))
        };
        let gone: Vec<String> = records[at].words.iter().filter(|raw| !wanted(raw)).cloned().collect();
        let record = &mut records[at];
        let became = transaction::roll_back_everywhere(here.system, record, &gone);
        left.extend(still_to_undo(&became));
        undone.push(RecordUndone { id: record.id.clone(), undone: became });
    }
    Ok(RolledBack { schema_version: SCHEMA_VERSION, records: undone, left })
}
