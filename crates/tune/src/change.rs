// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a plan to a changed machine and back: apply, confirm, status, roll back.
//!
//! Apply does what can be done at once and arms a trial of the boot line. After the trial boot, confirm looks
//! whether the line and the isolation are in force, makes them last, and has the settings done again at every
//! boot. What a process that died left half done is undone before anything else.
//!
//! The four stand in one file although it is long: each begins in a state that another one left.

use std::path::Path;

use machine::Snapshot;
use machine::boot::{Boot, line};
use schemars::JsonSchema;
use serde::Serialize;

use crate::boot::{self, BootMethod, BootSpec, TRIAL};
use crate::plan::{ActionKind, MadeFor, Plan, PlanRefusal, Skipped};
use crate::system::{self, FileAccess, System, failed};
use crate::transaction::files::{self, Kept};
use crate::transaction::{self, Record, RecordKind, RecordState, Step, StepOutcome, Undone, store, words};
use crate::units::UnitSteps;
use crate::{Error, Result};

pub use crate::allowed::UNIT;

mod check;
mod unit;

use check::{ends_with_boot, in_files, in_force, now_otherwise, settings_in_force, verified};

/// Version of the documents.
pub const SCHEMA_VERSION: u32 = 1;

/// The machine that is changed.
pub struct Here<'a> {
    /// Its files, settings, tasks and commands.
    pub system: &'a mut dyn System,
    /// The folder in which it lies.
    pub root: &'a Path,
    /// What it is.
    pub machine: &'a Snapshot,
    /// A name for the next record: digits that sort by time.
    pub stamp: String,
}

/// What of a plan is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Nothing of the boot line.
    pub runtime_only: bool,
    /// Nothing at all: only say what would be done.
    pub dry_run: bool,
    /// The unit does it: another boot than that of the plan is as it should be.
    pub at_boot: bool,
}

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

/// Does a plan.
pub fn apply(here: &mut Here<'_>, plan: &Plan, options: Options) -> Result<Applied> {
    let made_for = MadeFor::here(here.root, here.machine);
    let refusal = if options.at_boot {
        plan.made_for.refuses_machine(&made_for)
    } else {
        plan.made_for.refuses(&made_for)
    };
    if let Some(refusal) = refusal.or(plan.check_unchanged().err()).or(crate::allowed::plan(plan).err()) {
        return Err(of_refusal("apply the plan", &refusal));
    }
    boot::guard::host(here.machine)?;
    other_owner(here)?;
    let mut applied =
        Applied { schema_version: SCHEMA_VERSION, dry_run: options.dry_run, ..Applied::default() };
    if !options.dry_run {
        applied.recovered = recovered(here)?;
    }
    let boot_id = store::boot_id(here.system);
    let live: Vec<Record> = store::all(here.system)?.into_iter().filter(Record::is_tuning).collect();
    if let Some(other) = live.iter().find(|record| record.plan != plan.digest) {
        return Err(Error::new(
            "apply the plan",
            format!("another one is in force (record {})", other.id),
            "undo that first: isolator tune rollback",
        ));
    }
    let runtime_there =
        live.iter().any(|record| record.part == RecordKind::Runtime && record.boot_id == boot_id);
    let of_boot = live.iter().find(|record| record.part != RecordKind::Runtime && !record.words.is_empty());
    // Files of an earlier boot's settings are made anew by this one's.
    let stale = |record: &&Record| record.part == RecordKind::Runtime && record.boot_id != boot_id;
    for stale in live.iter().filter(stale).filter(|_| !options.dry_run) {
        let undone = transaction::roll_back(here.system, &mut stale.clone());
        whole("undo the settings of an earlier boot", &undone)?;
    }
    // Everything that may be refused is asked before anything is done.
    let (runtime, skipped) = if runtime_there {
        (Vec::new(), Vec::new())
    } else {
        crate::runtime::steps(here.system, &plan.actions)?
    };
    applied.skipped = skipped;
    let has_units = live.iter().any(|record| record.part == RecordKind::Units);
    let units = match has_units || options.at_boot {
        true => UnitSteps::default(),
        false => crate::units::steps(here.system, &plan.actions)?,
    };
    if has_units {
        applied.already.push("the units of this plan".into());
    }
    applied.skipped.extend(units.skipped);
    applied.next.extend(units.next);
    if runtime_there {
        applied.already.push("the settings of this plan".into());
    }
    let mut words: Vec<String> = line::all_words(&plan.boot_line).map(|word| word.raw.to_string()).collect();
    let mut way = None;
    if options.runtime_only || options.at_boot || words.is_empty() {
    } else if let Some(record) = of_boot {
        in_files(here.system, record, &boot_id).map_err(|why| {
            Error::new("apply the boot line", why, "isolator tune rollback, then plan and apply again")
        })?;
        applied.already.push("the boot line of this plan".into());
    } else {
        let boot = machine::boot::read(here.root);
        words = left_to_do(&boot, words, &mut applied.already);
        if !words.is_empty() {
            way = Some(boot::first(here.system, &asked(here.machine, &boot, &words))?);
        }
    }
    if options.dry_run {
        let steps = runtime.iter().chain(&units.steps);
        applied.steps.extend(steps.filter_map(|step| line_of(step, outlook(step))));
        if let Some(way) = way {
            let steps = describe(way, &mut applied);
            applied.steps.extend(steps.iter().filter_map(|step| line_of(step, outlook(step))));
        }
        return Ok(applied);
    }
    let mut todo = Vec::new();
    if !runtime.is_empty() {
        let id = fresh_id(here, "runtime");
        todo.push(Record::new(&id, RecordKind::Runtime, &plan.digest, &boot_id, &[], runtime));
    }
    if !units.steps.is_empty() {
        let id = fresh_id(here, "units");
        todo.push(Record::new(&id, RecordKind::Units, &plan.digest, &boot_id, &[], units.steps));
    }
    if let Some(way) = way {
        let start = if let BootMethod::Trial { start, .. } = &way { Some(start.clone()) } else { None };
        let part = if start.is_some() { RecordKind::Trial } else { RecordKind::Boot };
        let name = if start.is_some() { "trial" } else { "boot" };
        let steps = describe(way, &mut applied);
        if !steps.is_empty() {
            let id = fresh_id(here, name);
            let mut record = Record::new(&id, part, &plan.digest, &boot_id, &words, steps);
            record.start = start;
            record.theirs = words::found(here.system, &words);
            todo.push(record);
        }
    } else if !options.at_boot && applied.already.is_empty() {
        applied.next.push("isolator tune confirm: have the settings done again at every boot".into());
    }
    keep_plan(here, plan)?;
    let done = carry_out(here.system, todo).inspect_err(|_| {
        // A plan of which nothing was done is not the last one.
        if !live.iter().any(|record| record.plan == plan.digest) && nothing_left(here.system) {
            let _ = here.system.remove(&plan_path(&plan.digest));
        }
    })?;
    finish(&mut applied, &done);
    Ok(applied)
}

/// Does all of the records or none: the space of each is kept before the first changes anything.
fn carry_out(system: &mut dyn System, mut records: Vec<Record>) -> Result<Vec<Record>> {
    for at in 0..records.len() {
        if let Err(error) = transaction::prepare(system, &mut records[at]) {
            records[..at].iter().for_each(|record| store::forget(system, &record.id));
            return Err(error);
        }
    }
    for at in 0..records.len() {
        let Err(error) = transaction::carry_out(system, &mut records[at]) else { continue };
        records[at + 1..].iter().for_each(|record| store::forget(system, &record.id));
        let before = records[..at].iter_mut().rev();
        let undone: Vec<Undone> = before.flat_map(|record| transaction::roll_back(system, record)).collect();
        return Err(transaction::naming_what_stays(error, &undone));
    }
    Ok(records)
}

/// Whether no record is to be undone.
fn nothing_left(system: &dyn System) -> bool {
    store::all(system).is_ok_and(|records| !records.iter().any(Record::is_tuning))
}

/// An error where something is still to be undone.
fn whole(what: &str, undone: &[Undone]) -> Result<()> {
    let left = still_to_undo(undone);
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::new(what, left.join("; "), "take away what is in the way, then run isolator tune rollback"))
}

/// The steps that still have to be undone, with the reasons.
fn still_to_undo(undone: &[Undone]) -> Vec<String> {
    let left = undone.iter().filter_map(|undone| match &undone.became {
        transaction::Restoration::Failed(why) => Some(format!("{}: {why}", undone.what)),
        _ => None,
    });
    left.collect()
}

/// Makes a trial that held last, and has the settings done again at every boot; `program` is what the unit
/// runs.
pub fn confirm(here: &mut Here<'_>, program: &str) -> Result<Applied> {
    let mut applied = Applied { schema_version: SCHEMA_VERSION, ..Applied::default() };
    applied.recovered = recovered(here)?;
    let live: Vec<Record> = store::all(here.system)?.into_iter().filter(Record::is_tuning).collect();
    let Some(first) = live.first() else {
        return Err(Error::new("confirm", "no plan is applied", "apply one first: isolator tune apply PLAN"));
    };
    let with_unit =
        system::stat_is_file(here.system, UNIT) && live.iter().any(|record| touches(record, UNIT));
    let boot_id = store::boot_id(here.system);
    let changed =
        live.iter().rev().find(|record| record.part != RecordKind::Runtime && !record.words.is_empty());
    let written = |system: &dyn System, record| {
        in_files(system, record, &boot_id).map_err(|why| {
            Error::new("confirm the boot line", why, "isolator tune rollback, then plan and apply again")
        })
    };
    if with_unit && !live.iter().any(|record| record.part == RecordKind::Trial) {
        if let Some(record) = changed {
            written(here.system, record)?;
        }
        applied.already.push("this plan is confirmed".into());
        return Ok(applied);
    }
    let digest = first.plan.clone();
    let plan = kept_plan(here, &digest)?;
    let mut steps = Vec::new();
    let mut words = Vec::new();
    settings_in_force(here.system, &live, &boot_id)?;
    if let Some(record) = changed {
        in_force(here, record, &boot_id)?;
    }
    let of_unit = match with_unit {
        true => Vec::new(),
        false => unit::steps(here, program, &plan_path(&digest), &mut applied)?,
    };
    if let Some(record) = changed {
        verified(here, &plan, &live)?;
        if record.part == RecordKind::Boot {
            written(here.system, record)?;
        }
        if record.part == RecordKind::Trial {
            words = record.words.clone();
            let mut boot = machine::boot::read(here.root);
            without_trial(&mut boot);
            let way = boot::lasting(here.system, &asked(here.machine, &boot, &words))?;
            steps = describe(way, &mut applied);
        }
    }
    steps.extend(of_unit);
    let id = fresh_id(here, "kept");
    let mut record = Record::new(&id, RecordKind::Boot, &digest, &boot_id, &words, steps);
    record.theirs = changed.map(|changed| changed.theirs.clone()).unwrap_or_default();
    transaction::apply(here.system, &mut record)?;
    // The trial has done its work; the line that lasts is in place.
    for mut trial in live.into_iter().filter(|record| record.part == RecordKind::Trial) {
        let undone = transaction::roll_back(here.system, &mut trial);
        let left = still_to_undo(&undone).into_iter();
        applied
            .skipped
            .extend(left.map(|reason| Skipped { what: format!("the end of {}", trial.id), reason }));
    }
    if !plan.actions.iter().all(|action| action.kind == ActionKind::BootParameter) {
        applied.next.push(
            "systemctl start isolator-tune.service: do the settings now, without another reboot".into(),
        );
    }
    finish(&mut applied, &[record]);
    Ok(applied)
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

/// A name that no record has: two may be made within a second.
pub(crate) fn fresh_id(here: &Here<'_>, name: &str) -> String {
    let taken = |id: &String| store::read(here.system, id).is_ok();
    let more = (2..).map(|number| format!("{}-{name}-{number}", here.stamp));
    let first = format!("{}-{name}", here.stamp);
    std::iter::once(first.clone()).chain(more).find(|id| !taken(id)).unwrap_or(first)
}

fn of_refusal(what: &str, refusal: &PlanRefusal) -> Error {
    Error::new(what, &refusal.reason, &refusal.cure)
}

/// Another program that writes the same settings back.
fn other_owner(here: &Here<'_>) -> Result<()> {
    if here.machine.services.iter().any(|name| name == "TuneD") {
        let profile = system::word(here.system, "/etc/tuned/active_profile").unwrap_or_default();
        return Err(Error::new(
            "apply the plan",
            format!("TuneD is active (profile '{profile}') and would write its own values back"),
            "give it the plan as its profile by isolator tune export, or stop it: systemctl disable --now tuned",
        ));
    }
    Ok(())
}

pub(crate) fn recovered(here: &mut Here<'_>) -> Result<Vec<String>> {
    let recovered = store::recover(here.system)?;
    for (record, undone) in &recovered {
        whole(&format!("undo {}, which was interrupted", record.id), undone)?;
    }
    Ok(recovered.into_iter().map(|(record, _)| record.id).collect())
}

/// The words that the default entry does not have yet.
fn left_to_do(boot: &Boot, words: Vec<String>, already: &mut Vec<String>) -> Vec<String> {
    let options = boot.default_entry().map(|entry| entry.options.clone()).unwrap_or_default();
    let there = |word: &String| line::kernel_words(&options).any(|other| other.raw == *word);
    let (there, left): (Vec<String>, Vec<String>) = words.into_iter().partition(there);
    already.extend(there.into_iter().map(|word| format!("{word} in the boot line, set by another program")));
    left
}

fn asked<'a>(machine: &'a Snapshot, boot: &'a Boot, words: &'a [String]) -> BootSpec<'a> {
    BootSpec {
        boot,
        words,
        release: machine.kernel.release.as_deref(),
        running: machine.kernel.command_line.as_deref(),
        real_time: machine.kernel.preemption == machine::snapshot::Preemption::RealTime,
    }
}

fn describe(way: BootMethod, applied: &mut Applied) -> Vec<Step> {
    match way {
        BootMethod::Trial { steps, start } => {
            applied.next.push(format!("{start}: boots the trial once; every later boot is as before"));
            applied.next.push("isolator tune confirm: after that boot, makes it last".into());
            applied.boot = BootChange::Trial { start };
            steps
        }
        BootMethod::Lasting { steps, fallback } => {
            applied.boot = BootChange::Lasting { fallback };
            steps
        }
        BootMethod::Instructions { why, lines } => {
            applied.next.extend(lines.clone());
            applied.boot = BootChange::Instructions { why, lines };
            Vec::new()
        }
    }
}

fn finish(applied: &mut Applied, records: &[Record]) {
    for record in records {
        applied.records.push(record.id.clone());
        applied
            .steps
            .extend(record.steps.iter().filter_map(|done| line_of(&done.step, done.outcome.clone())));
        if record.part == RecordKind::Boot && !record.id.contains("-kept") {
            applied.next.push("reboot, then isolator tune confirm".into());
        }
    }
}

/// How a step would go: whether it would change anything.
fn outlook(step: &Step) -> StepOutcome {
    let is_so = match step {
        Step::File { old, new, .. } => old == new,
        Step::Setting { old, write, compare, .. } => crate::transaction::step::reads(old, write, *compare),
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

fn plan_path(digest: &str) -> String {
    format!("{}/plan-{}.json", store::FOLDER, digest.get(..16).unwrap_or(digest))
}

fn keep_plan(here: &mut Here<'_>, plan: &Plan) -> Result<()> {
    files::make_folders(here.system, store::FOLDER)?;
    let text = serde_json::to_string_pretty(plan)
        .map_err(|error| Error::new("keep the plan", error, "report this"))?;
    files::replace(here.system, &plan_path(&plan.digest), Some(&Kept::new(&(text + "\n"), None)))
}

fn kept_plan(here: &Here<'_>, digest: &str) -> Result<Plan> {
    let path = plan_path(digest);
    let text = system::text(here.system, &path).map_err(|error| failed("read", &path, &error))?;
    Plan::read(&text).map_err(|refusal| of_refusal(&format!("read {path}"), &refusal))
}

fn touches(record: &Record, path: &str) -> bool {
    record.steps.iter().any(|done| matches!(&done.step, Step::File { path: own, .. } if own == path))
}

/// The entries as they are without the trial.
fn without_trial(boot: &mut Boot) {
    let default = boot.default_entry().map(|entry| entry.id.clone());
    boot.entries.retain(|entry| !entry.id.ends_with(TRIAL));
    let place = boot.entries.iter().position(|entry| Some(&entry.id) == default.as_ref());
    boot.default = place.or((!boot.entries.is_empty()).then_some(0));
}

#[cfg(test)]
mod tests;
