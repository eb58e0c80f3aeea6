// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes that are made together, survive a power cut as the old or the new state, and can be undone.
//!
//! Before anything changes, a record of every step with the value before it lies in the store. A step whose
//! old and new value are both known can be undone at any moment: what is there is either of the two, or
//! another program's. So a record that says `applying` or `rolling-back` is all that a later process needs.
//!
//! The way back goes on where a step fails, needs no new space, and can be gone again when the obstacle is
//! away.
//!
//! Limits: a command's effects are its own; what it leaves when power fails while it runs is not known here.

#[cfg(test)]
mod faults;
pub mod files;
pub mod rights;
pub(crate) mod step;
pub mod store;
pub(crate) mod words;

pub use crate::record::own::OwnPart;
pub use crate::record::{
    Compare, DoneStep, Record, RecordKind, RecordState, Restoration, SCHEMA_VERSION, Step, StepOutcome,
    Undone,
};

use crate::system::System;
use crate::{Error, Result};

/// Does every step, or none: where one fails, those before it are undone.
pub fn apply(system: &mut dyn System, record: &mut Record) -> Result<()> {
    prepare(system, record)?;
    carry_out(system, record)
}

/// Asks whether there is room for everything, and keeps the record and its space; nothing else changes.
pub fn prepare(system: &mut dyn System, record: &mut Record) -> Result<()> {
    enough_room(system, record)?;
    if record.theirs.is_empty() {
        record.theirs = words::found(system, &record.words);
    }
    record.state = RecordState::Applying;
    store::keep(system, record)
}

/// Does every step of a record that is kept, or none.
pub fn carry_out(system: &mut dyn System, record: &mut Record) -> Result<()> {
    let done = all_steps(system, record).and_then(|()| {
        record.state = RecordState::Applied;
        store::write(system, record)
    });
    let Err(error) = done else { return Ok(()) };
    Err(naming_what_stays(error, &roll_back(system, record)))
}

/// The error of a change that was undone, with what of it could not be.
pub fn naming_what_stays(error: Error, undone: &[Undone]) -> Error {
    let left: Vec<&str> = still_changed(undone).collect();
    if left.is_empty() {
        return error;
    }
    Error {
        why: format!("{}; this stays changed: {}", error.why, left.join(", ")),
        cure: format!("{}; then run isolator tune rollback", error.cure),
        ..error
    }
}

/// The parts that were not undone.
pub fn still_changed(undone: &[Undone]) -> impl Iterator<Item = &str> {
    let failed = undone.iter().filter(|undone| matches!(undone.became, Restoration::Failed(_)));
    failed.map(|undone| undone.what.as_str())
}

fn all_steps(system: &mut dyn System, record: &mut Record) -> Result<()> {
    for at in 0..record.steps.len() {
        if let Step::Generated { .. } = record.steps[at].step {
            // What it will be must be known before it is there.
            step::generate(system, &mut record.steps[at].step)?;
            store::write(system, record)?;
        }
        let done = &mut record.steps[at];
        done.outcome = step::make(system, &done.step)?;
    }
    Ok(())
}

/// Undoes every step, in reverse order; returns the result of each.
pub fn roll_back(system: &mut dyn System, record: &mut Record) -> Vec<Undone> {
    roll_back_everywhere(system, record, &[])
}

/// As [`roll_back`], and takes `gone`, words of ours, out of every file of the boot loaders: a kernel that
/// was installed since has them too.
pub fn roll_back_everywhere(system: &mut dyn System, record: &mut Record, gone: &[String]) -> Vec<Undone> {
    record.state = RecordState::RollingBack;
    // Where this cannot be written, what is on the medium says as well that all is to be undone.
    let _ = store::write(system, record);
    let boot_id = store::boot_id(system);
    let same_boot = record.boot_id == boot_id;
    let mut undone = Vec::new();
    // A generated file comes last: should it have to be made anew, its sources must be back.
    let generated = |done: &&DoneStep| matches!(done.step, Step::Generated { .. });
    for done in record.steps.iter().rev().filter(|done| !generated(done)) {
        undone.push(undo(system, done, same_boot));
    }
    take_out(system, record, gone, words::sources, &mut undone);
    for done in record.steps.iter().rev().filter(generated) {
        undone.push(undo(system, done, same_boot));
    }
    take_out(system, record, gone, words::entries, &mut undone);
    let whole = still_changed(&undone).next().is_none();
    record.state = if whole { RecordState::RolledBack } else { RecordState::RollingBack };
    match store::write(system, record) {
        Ok(()) if whole => store::finish(system, &record.id),
        Ok(()) => {}
        Err(error) if whole => {
            let why = format!("all is undone, and this cannot be noted: {}; {}", error.why, error.cure);
            undone
                .push(Undone { what: format!("the record {}", record.id), became: Restoration::Failed(why) });
        }
        Err(_) => {}
    }
    undone
}

/// Takes words out of the files that are there, but for those whose step failed: a later rollback must find
/// them as they are.
fn take_out(
    system: &mut dyn System,
    record: &Record,
    gone: &[String],
    there: fn(&dyn System) -> Vec<String>,
    undone: &mut Vec<Undone>,
) {
    let mut paths = there(system);
    paths.retain(|path| !still_changed(undone).any(|failed| failed == path));
    undone.extend(words::take_out(system, record, gone, paths));
}

fn undo(system: &mut dyn System, done: &DoneStep, same_boot: bool) -> Undone {
    let became = match &done.outcome {
        StepOutcome::Refused(_) | StepOutcome::AlreadySo => Restoration::Untouched,
        _ if done.step.volatile() && !same_boot => Restoration::Gone,
        _ => step::undo(system, &done.step).unwrap_or_else(|error| Restoration::Failed(error.why)),
    };
    Undone { what: done.step.what(), became }
}

/// Room for every file and its copy in the record, before anything is written.
fn enough_room(system: &dyn System, record: &Record) -> Result<()> {
    for done in &record.steps {
        let (path, length) = match &done.step {
            Step::File { path, new: Some(new), .. } => (path, new.text.len() as u64),
            Step::Program { path, bytes, .. } => (path, *bytes),
            _ => continue,
        };
        let folder = files::nearest_folder(system, path);
        let need = length + (256 << 10);
        match system.free_bytes(&folder) {
            Ok(free) if free < need => {
                let why = format!("{folder} has {} KiB left and {} are needed", free >> 10, need >> 10);
                return Err(Error::new(format!("write {path}"), why, "free some space there and try again"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
