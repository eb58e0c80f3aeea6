// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state in force: a boot line in its files and in the boot that runs, settings in the kernel.

use inspect::accounts;
use machine::boot::line;

use super::here::Here;
use crate::action::ActionKind;
use crate::plan::Plan;
use crate::record::kept::Kept;
use crate::record::own::OwnPart;
use crate::record::{Record, RecordKind, Step, StepOutcome};
use crate::system::{self, FileAccess, System};
use crate::transaction::step::{reads, started_at};
use crate::transaction::{rights, words};
use crate::verify;
use crate::{Error, Result};

/// The boot that runs is one of the record's line, and the kernel took it.
pub(super) fn in_force(here: &Here<'_>, record: &Record, boot_id: &str) -> Result<()> {
    let refuse = |why: String, cure: &str| Err(Error::new("confirm the boot line", why, cure));
    if record.boot_id == boot_id {
        let start = record.start.as_deref().unwrap_or("reboot");
        return refuse("it has not been booted yet".into(), &format!("run: {start}"));
    }
    let running = here.machine.kernel.command_line.clone().unwrap_or_default();
    let lacks = |raw: &&String| !line::kernel_words(&running).any(|word| word.raw == **raw);
    let missing: Vec<&str> = record.words.iter().filter(lacks).map(String::as_str).collect();
    if !missing.is_empty() {
        return refuse(
            format!("this boot runs without {}: the trial was not booted, or it failed", missing.join(" ")),
            "try again by isolator tune rollback and apply, or look at the boot's log",
        );
    }
    Ok(())
}

/// The findings of `verify` on the plan's boot line, refused where some of it is not in force.
pub(super) fn verified(here: &Here<'_>, plan: &Plan, live: &[Record]) -> Result<()> {
    let refused: Vec<u32> =
        live.iter().flat_map(|record| record.refused_interrupts().collect::<Vec<_>>()).collect();
    let verified = verify::verify(plan, here.machine, &refused);
    let not = verified
        .checks
        .iter()
        .filter(|check| check.kind == ActionKind::BootParameter && check.result == verify::CheckState::Not);
    let not: Vec<String> = not
        .map(|check| {
            let now = check.effective.value.as_deref().or(check.running.value.as_deref());
            let now = now.filter(|now| !now.is_empty()).unwrap_or("none");
            format!("{} = {} is not in force, it is {now}", check.target, check.wanted)
        })
        .collect();
    if not.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        "confirm the boot line",
        not.join("; "),
        "isolator tune verify last says why; remove the obstacle, or run isolator tune rollback",
    ))
}

/// Settings of this boot that were done and are other ones now: the unit would do no better.
pub(super) fn settings_in_force(system: &dyn System, live: &[Record], boot_id: &str) -> Result<()> {
    let here = live.iter().filter(|record| record.part == RecordKind::Runtime && record.boot_id == boot_id);
    let settings = here
        .flat_map(|record| &record.steps)
        .filter(|done| done.outcome == StepOutcome::Done && matches!(done.step, Step::Setting { .. }));
    let lost: Vec<String> = settings.filter_map(|done| now_otherwise(system, &done.step)).collect();
    if lost.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        "confirm the settings",
        lost.join("; "),
        "find which program writes them back and stop it, then isolator tune rollback and apply again",
    ))
}

/// Whether the files of a boot line still have it; why not otherwise.
pub(super) fn in_files(
    system: &dyn System,
    record: &Record,
    boot_id: &str,
) -> std::result::Result<(), String> {
    for done in &record.steps {
        let path = match &done.step {
            Step::File { path, .. } | Step::Generated { path, .. } => path,
            _ => continue,
        };
        let over = record.boot_id != boot_id && ends_with_boot(&done.step);
        if over || now_otherwise(system, &done.step).is_none() {
            continue;
        }
        // Another program may change what is not ours.
        if !words::all_in(system, path, &record.words) {
            return Err(format!("{path} has the words of record {} no more", record.id));
        }
    }
    Ok(())
}

/// Whether it is over with the boot in which it was done: the loader clears, or renames, what armed a trial.
pub(super) fn ends_with_boot(step: &Step) -> bool {
    let armed = matches!(step, Step::File { own: OwnPart::Variable { .. } | OwnPart::Counted, .. });
    let passing = matches!(step, Step::File { path, .. } if path.starts_with("/run/"));
    step.volatile() || armed || passing
}

/// How a step's effect reads now, where it is not in force any more.
pub(super) fn now_otherwise(system: &dyn System, step: &Step) -> Option<String> {
    match step {
        Step::File { path, new, .. } | Step::Generated { path, new, .. } => {
            let now = Kept::of(system, path).ok()?;
            let same = now.map(|kept| kept.sha256) == new.as_ref().map(|kept| kept.sha256.clone());
            (!same).then(|| format!("{path}: changed since"))
        }
        Step::Setting { path, write, compare, .. } => {
            let now = system::text(system, path).unwrap_or_default();
            (!reads(&now, write, *compare)).then(|| format!("{path}: it is {} now", now.trim()))
        }
        Step::Affinity { task, started, old, new, name } if old != new => {
            let alive = started_at(system, *task) == Some(*started);
            let now = system.affinity(*task).ok()?;
            (alive && now != *new).then(|| format!("thread {task} ({name}): CPUs {now} now"))
        }
        Step::Folder { path } => system.stat(path).is_err().then(|| format!("{path}: gone")),
        Step::Members { path, group, users, .. } => {
            let text = system::lossy(system, path).unwrap_or_default();
            let now = rights::line_of(&text, group).map(|[_, _, _, list]| accounts::members(list));
            let lacks = |user: &&String| !now.as_ref().is_some_and(|now| now.contains(&user.as_str()));
            let gone: Vec<&str> = users.iter().filter(lacks).map(String::as_str).collect();
            (!gone.is_empty()).then(|| format!("{path}: {} left {group}", gone.join(", ")))
        }
        Step::Access { path, new, .. } => {
            let now = FileAccess::of(system, path).ok();
            (now != Some(*new)).then(|| format!("{path}: other permissions now"))
        }
        Step::Program { path, sha256, gid, capabilities, .. } => {
            let same = rights::is_placed(system, path, sha256, *gid, capabilities);
            (!same).then(|| format!("{path}: changed since"))
        }
        Step::Affinity { .. } | Step::Command { .. } => None,
    }
}
