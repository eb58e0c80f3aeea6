// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a change, step by step, with what was there before: the document from which a change is
//! undone.
//!
//! Types alone; `transaction` does and undoes the steps, `allowed` says which of them are ours.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use machine::CpuSet;

use crate::system::{FileAccess, irq_of_mask};

pub mod kept;
pub mod own;

use kept::Kept;
use own::OwnPart;

/// Version of the record.
pub const SCHEMA_VERSION: u32 = 1;

/// The parts of one change, with what was there before.
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
    /// The command that starts a trial; absent where the change is in force or comes with any next boot.
    pub start: Option<String>,
    /// Its steps, in order.
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
        /// The former file; absent where there was none.
        old: Option<Kept>,
        /// The new file; absent where none is to be there.
        new: Option<Kept>,
        /// The part of it that is ours.
        own: OwnPart,
    },
    /// A file gets what a command prints.
    Generated {
        /// Its path.
        path: String,
        /// The command.
        command: Vec<String>,
        /// The former file.
        old: Option<Kept>,
        /// The output of the command.
        new: Option<Kept>,
        /// The words that every ordinary entry in it must have, and no entry for repair.
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
        /// The value that was read.
        old: String,
        /// The value to write.
        write: String,
        /// The value to write to undo it.
        undo: String,
        /// How what is read compares with what was written.
        compare: Compare,
        /// Whether a refusal ends the whole change.
        needed: bool,
        /// Its name for people, where the path does not say it.
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
        /// The command that does it.
        run: Vec<String>,
        /// The command that undoes it; it must do no harm where nothing was done. Empty where nothing is to
        /// be done.
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
    /// The changed object, for people.
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
