// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records that are in force, and what of a plan they hold already.

use super::here::whole;
use crate::Result;
use crate::record::{Record, RecordKind, Step};
use crate::system::{self, System};
use crate::transaction::{self, store};

/// The records that `tune` still has to undo, the oldest first.
pub(super) struct InForce {
    /// Which boot this is.
    pub(super) boot_id: String,
    /// The records.
    pub(super) records: Vec<Record>,
}

impl InForce {
    /// Reads them.
    pub(super) fn read(system: &dyn System) -> Result<InForce> {
        let records = store::all(system)?.into_iter().filter(Record::is_tuning).collect();
        Ok(InForce { boot_id: store::boot_id(system), records })
    }

    /// Whether the settings of this boot are done.
    pub(super) fn has_settings(&self) -> bool {
        self.records.iter().any(|record| record.part == RecordKind::Runtime && record.boot_id == self.boot_id)
    }

    /// Whether units are written.
    pub(super) fn has_units(&self) -> bool {
        self.records.iter().any(|record| record.part == RecordKind::Units)
    }

    /// Whether a boot line is on trial.
    pub(super) fn has_trial(&self) -> bool {
        self.records.iter().any(|record| record.part == RecordKind::Trial)
    }

    /// Whether a record made the file at `path`.
    pub(super) fn made(&self, path: &str) -> bool {
        let steps = self.records.iter().flat_map(|record| &record.steps);
        steps.into_iter().any(|done| matches!(&done.step, Step::File { path: own, .. } if own == path))
    }

    /// The records that changed the boot line.
    pub(super) fn of_boot_line(&self) -> impl DoubleEndedIterator<Item = &Record> {
        let changed = |record: &&Record| record.part != RecordKind::Runtime && !record.words.is_empty();
        self.records.iter().filter(changed)
    }

    /// The parts in force of a plan of which these are the records, for people.
    pub(super) fn already(&self) -> Vec<String> {
        let parts = [
            (self.has_units(), "the units of this plan"),
            (self.has_settings(), "the settings of this plan"),
        ];
        parts.into_iter().filter(|(there, _)| *there).map(|(_, what)| what.to_string()).collect()
    }

    /// Undoes files of an earlier boot's settings, which are made anew by this one's.
    pub(super) fn end_stale_settings(&self, system: &mut dyn System) -> Result<()> {
        let stale = |record: &&Record| record.part == RecordKind::Runtime && record.boot_id != self.boot_id;
        for record in self.records.iter().filter(stale) {
            let undone = transaction::roll_back(system, &mut record.clone());
            whole("undo the settings of an earlier boot", &undone)?;
        }
        Ok(())
    }

    /// Whether the unit that does the settings at every boot is there and ours.
    pub(super) fn has_boot_unit(&self, system: &dyn System) -> bool {
        system::stat_is_file(system, crate::places::UNIT) && self.made(crate::places::UNIT)
    }
}
