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

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use machine::CpuSet;

#[cfg(test)]
mod faults;
pub mod files;
pub(crate) mod own;
pub mod rights;
pub(crate) mod step;
pub mod store;
pub(crate) mod words;

pub use own::OwnPart;

use crate::system::{FileAccess, System, irq_of_mask};
use crate::{Error, Result};
use files::Kept;

/// Version of the record.
pub const SCHEMA_VERSION: u32 = 1;

/// What was changed together, and what was there before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of this document.
    pub schema_version: u32,
    /// Its name, which sorts by time.
    pub id: String,
    /// The kind of change.
    pub part: RecordKind,
    /// Its progress.
    pub state: RecordState,
    /// The plan's digest.
    pub plan: String,
    /// The boot in which it was made (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Words of the boot line that are ours.
    pub words: Vec<String>,
    /// Files of boot loaders that had some of these words before, and which: those are not ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub theirs: BTreeMap<String, Vec<String>>,
    /// What starts a trial; absent where the change is in force or comes with any next boot.
    pub start: Option<String>,
    /// What it does, in order.
    pub steps: Vec<DoneStep>,
}

/// Kinds of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Part")]
pub enum RecordKind {
    /// Settings of the running kernel.
    Runtime,
    /// A boot entry that is tried once.
    Trial,
    /// The boot line of every next boot.
    Boot,
    /// Units of systemd.
    Units,
    /// Rights of users, which `setup-user` gives.
    User,
}

/// How far a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "State")]
pub enum RecordState {
    /// Steps are being done, or were when the process or the machine died.
    Applying,
    /// All steps are done.
    Applied,
    /// Steps are being undone, or were when the process or the machine died.
    RollingBack,
    /// All steps are undone.
    RolledBack,
}

/// A step and how it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoneStep {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// How it went.
    pub outcome: StepOutcome,
}

/// How a step went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "went", content = "why")]
#[schemars(rename = "Outcome")]
pub enum StepOutcome {
    /// Not yet known.
    #[default]
    Pending,
    /// Done, and read back.
    Done,
    /// It was so already.
    AlreadySo,
    /// The kernel refuses it; the others go on.
    Refused(String),
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum Step {
    /// A file gets these bytes, or goes.
    File {
        /// Its path.
        path: String,
        /// What was there; absent where nothing was.
        old: Option<Kept>,
        /// What is to be there; absent where nothing is.
        new: Option<Kept>,
        /// What in it is ours.
        own: OwnPart,
    },
    /// A file gets what a command prints.
    Generated {
        /// Its path.
        path: String,
        /// The command.
        command: Vec<String>,
        /// What was there.
        old: Option<Kept>,
        /// What the command printed.
        new: Option<Kept>,
        /// What every ordinary entry in it must have, and no entry for repair.
        words: Vec<String>,
    },
    /// A folder is made.
    Folder {
        /// Its path.
        path: String,
    },
    /// A setting of the running kernel.
    Setting {
        /// Its file.
        path: String,
        /// What it read.
        old: String,
        /// What is written.
        write: String,
        /// What is written to undo it.
        undo: String,
        /// How what is read compares with what was written.
        compare: Compare,
        /// Whether a refusal ends the whole change.
        needed: bool,
        /// What it is, for people, where the path does not say it.
        name: Option<String>,
    },
    /// The CPUs that a task may use.
    Affinity {
        /// Its number.
        task: u32,
        /// When it started, in ticks since boot: a number may be given to another.
        started: u64,
        /// Its name.
        name: String,
        /// The CPUs before.
        old: CpuSet,
        /// The CPUs after.
        new: CpuSet,
    },
    /// A command.
    Command {
        /// What does it.
        run: Vec<String>,
        /// What undoes it; it must do no harm where nothing was done. Empty where nothing is to be done.
        undo: Vec<String>,
        /// Whether its effect ends with the boot.
        volatile: bool,
        /// Whether its failure ends the whole change.
        needed: bool,
    },
    /// Users become members of a group.
    Members {
        /// The file of groups.
        path: String,
        /// The group.
        group: String,
        /// Its line without users, where the group is made.
        line: Option<String>,
        /// The users, who were no members.
        users: Vec<String>,
    },
    /// A device gets another owner, group and permissions.
    Access {
        /// Its path.
        path: String,
        /// Those before.
        old: FileAccess,
        /// Those after.
        new: FileAccess,
    },
    /// A copy of this program gives capabilities to the members of a group.
    Program {
        /// Its path.
        path: String,
        /// SHA-256 of the program, hexadecimal.
        sha256: String,
        /// Its length.
        bytes: u64,
        /// The group.
        gid: u32,
        /// The capabilities.
        capabilities: Vec<String>,
    },
}

/// How a setting's text compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Word by word.
    Text,
    /// As a mask of CPUs, whatever its zeros and commas.
    Mask,
    /// As a list of CPUs.
    Cpus,
    /// As the word in brackets among the choices.
    Choice,
    /// As a word that is there (`+word`) or not (`-word`).
    Member,
}

/// The result of undoing one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Undone {
    /// A path, or another name of it.
    pub what: String,
    /// Its result.
    pub became: Restoration,
}

/// Its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "became", content = "why")]
#[schemars(rename = "Became")]
pub enum Restoration {
    /// It is restored, to the byte.
    Restored,
    /// It was as before already.
    Untouched,
    /// Another program changed it meanwhile; only the parts that isolator added were removed.
    Stripped,
    /// Its generator made it again, since another program had changed it through the generator.
    MadeAnew,
    /// It ended with the boot, or with its process.
    Gone,
    /// It stays, and why.
    Left(String),
    /// It still has to be undone, with the reason for the failure.
    Failed(String),
}

impl Step {
    /// What it changes, for people.
    pub fn what(&self) -> String {
        match self {
            Step::File { path, .. }
            | Step::Generated { path, .. }
            | Step::Folder { path }
            | Step::Members { path, .. }
            | Step::Access { path, .. }
            | Step::Program { path, .. } => path.clone(),
            Step::Setting { path, name, .. } => match name {
                Some(name) => format!("{path} ({name})"),
                None => path.clone(),
            },
            Step::Affinity { task, name, .. } => format!("thread {task} ({name})"),
            Step::Command { run, undo, .. } if run.is_empty() => format!("`{}`", undo.join(" ")),
            Step::Command { run, .. } => format!("`{}`", run.join(" ")),
        }
    }

    /// Whether its effect ends with the boot.
    pub fn volatile(&self) -> bool {
        match self {
            Step::Setting { .. } | Step::Affinity { .. } => true,
            Step::Folder { path } => path.starts_with("/sys/") || path.starts_with("/run/"),
            Step::Command { volatile, .. } => *volatile,
            // udev gives a device its permissions at every boot.
            Step::File { .. }
            | Step::Generated { .. }
            | Step::Members { .. }
            | Step::Access { .. }
            | Step::Program { .. } => false,
        }
    }
}

impl Record {
    /// Interrupts that did not let themselves be moved.
    pub fn refused_interrupts(&self) -> impl Iterator<Item = u32> + '_ {
        let refused = self.steps.iter().filter(|done| matches!(done.outcome, StepOutcome::Refused(_)));
        refused.filter_map(|done| match &done.step {
            Step::Setting { path, .. } => irq_of_mask(path),
            _ => None,
        })
    }

    /// A record of steps that are still to be done.
    pub fn new(
        id: &str,
        part: RecordKind,
        plan: &str,
        boot_id: &str,
        words: &[String],
        steps: Vec<Step>,
    ) -> Self {
        Record {
            schema_version: SCHEMA_VERSION,
            id: id.to_string(),
            part,
            state: RecordState::Applying,
            plan: plan.to_string(),
            boot_id: boot_id.to_string(),
            words: words.to_vec(),
            theirs: BTreeMap::new(),
            start: None,
            steps: steps.into_iter().map(|step| DoneStep { step, outcome: StepOutcome::Pending }).collect(),
        }
    }

    /// Whether what it did is still to be undone.
    pub fn live(&self) -> bool {
        self.state != RecordState::RolledBack
    }

    /// Whether `tune` still has to undo it: rights of users stay until `setup-user` takes them, unless they
    /// are half given.
    pub fn is_tuning(&self) -> bool {
        self.live() && (self.part != RecordKind::User || self.state != RecordState::Applied)
    }
}

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

/// What was not undone.
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
