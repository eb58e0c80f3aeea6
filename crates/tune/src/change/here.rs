// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that is changed, and what every change of it begins with.

use std::path::Path;

use machine::Snapshot;

use crate::action::PlanRefusal;
use crate::places::RECORDS;
use crate::plan::Plan;
use crate::record::kept::Kept;
use crate::record::{Restoration, Undone};
use crate::system::{self, System, failed};
use crate::transaction::{files, store};
use crate::{Error, Result};

/// The machine that is changed.
pub struct Here<'a> {
    /// Its files, settings, tasks and commands.
    pub system: &'a mut dyn System,
    /// The folder in which it lies.
    pub root: &'a Path,
    /// The machine.
    pub machine: &'a Snapshot,
    /// A name for the next record: digits that sort by time.
    pub stamp: String,
}

impl Here<'_> {
    /// A name that no record has: two may be made within a second.
    pub(crate) fn fresh_id(&self, name: &str) -> String {
        let taken = |id: &String| store::read(self.system, id).is_ok();
        let more = (2..).map(|number| format!("{}-{name}-{number}", self.stamp));
        let first = format!("{}-{name}", self.stamp);
        std::iter::once(first.clone()).chain(more).find(|id| !taken(id)).unwrap_or(first)
    }

    /// Undoes what was left half done; the names of these records.
    pub(crate) fn recover(&mut self) -> Result<Vec<String>> {
        let recovered = store::recover(self.system)?;
        for (record, undone) in &recovered {
            whole(&format!("undo {}, which was interrupted", record.id), undone)?;
        }
        Ok(recovered.into_iter().map(|(record, _)| record.id).collect())
    }
}

/// A plan as it is kept beside the records, for confirm and for the unit.
pub(super) struct KeptPlan {
    /// Its file.
    pub(super) path: String,
    text: String,
}

impl KeptPlan {
    /// Where the plan of that digest is kept.
    pub(super) fn path(digest: &str) -> String {
        format!("{RECORDS}/plan-{}.json", digest.get(..16).unwrap_or(digest))
    }

    /// Keeps it.
    pub(super) fn write(&self, system: &mut dyn System) -> Result<()> {
        files::make_folders(system, RECORDS)?;
        files::replace(system, &self.path, Some(&Kept::new(&self.text, None)))
    }

    /// The plan of that digest, which was kept.
    pub(super) fn read(system: &dyn System, digest: &str) -> Result<Plan> {
        let path = KeptPlan::path(digest);
        let text = system::text(system, &path).map_err(|error| failed("read", &path, &error))?;
        Plan::read(&text).map_err(|refusal| of_refusal(&format!("read {path}"), &refusal))
    }
}

impl Plan {
    /// It, to be kept.
    pub(super) fn kept(&self) -> Result<KeptPlan> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::new("keep the plan", error, "report this"))?;
        Ok(KeptPlan { path: KeptPlan::path(&self.digest), text: text + "\n" })
    }
}

/// A refusal of a plan as an error of what was to be done with it.
pub(super) fn of_refusal(what: &str, refusal: &PlanRefusal) -> Error {
    Error::new(what, &refusal.reason, &refusal.cure)
}

/// An error where something is still to be undone.
pub(super) fn whole(what: &str, undone: &[Undone]) -> Result<()> {
    let left = still_to_undo(undone);
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::new(what, left.join("; "), "take away what is in the way, then run isolator tune rollback"))
}

/// The steps that still have to be undone, with the reasons.
pub(super) fn still_to_undo(undone: &[Undone]) -> Vec<String> {
    let left = undone.iter().filter_map(|undone| match &undone.became {
        Restoration::Failed(why) => Some(format!("{}: {why}", undone.what)),
        _ => None,
    });
    left.collect()
}
