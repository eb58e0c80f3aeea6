// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune confirm`: a trial that held is made to last, and the settings are done again at every boot.

use machine::Boot;

use super::applied::Applied;
use super::check::{in_files, in_force, settings_in_force, verified};
use super::here::{Here, KeptPlan, still_to_undo};
use super::in_force::InForce;
use super::unit;
use crate::action::{ActionKind, Skipped};
use crate::boot::{self, BootSpec};
use crate::places::TRIAL;
use crate::plan::Plan;
use crate::record::{Record, RecordKind, Step};
use crate::transaction;
use crate::{Error, Result};

/// Makes a trial that held last, and has the settings done again at every boot; `program` is what the unit
/// runs.
pub fn confirm(here: &mut Here<'_>, program: &str) -> Result<Applied> {
    let mut applied = Applied::new(false);
    applied.recovered = here.recover()?;
    let before = InForce::read(here.system)?;
    let Some(digest) = before.records.first().map(|record| record.plan.clone()) else {
        return Err(Error::new("confirm", "no plan is applied", "apply one first: isolator tune apply PLAN"));
    };
    let changed = before.of_boot_line().next_back();
    let with_unit = before.has_boot_unit(here.system);
    if with_unit && !before.has_trial() {
        changed.map_or(Ok(()), |record| written(here, record, &before))?;
        applied.already.push("this plan is confirmed".into());
        return Ok(applied);
    }
    let plan = KeptPlan::read(here.system, &digest)?;
    settings_in_force(here.system, &before.records, &before.boot_id)?;
    changed.map_or(Ok(()), |record| in_force(here, record, &before.boot_id))?;
    let mut has_unit = with_unit;
    let of_unit = match with_unit {
        true => Vec::new(),
        false => unit::steps(here, program, &KeptPlan::path(&digest), &mut applied)?,
    };
    has_unit |= !of_unit.is_empty();
    let (words, mut steps) = match changed {
        Some(record) => lasting_line(here, &plan, record, &before, &mut applied)?,
        None => (Vec::new(), Vec::new()),
    };
    steps.extend(of_unit);
    let id = here.fresh_id("kept");
    let mut record = Record::new(&id, RecordKind::Boot, &digest, &before.boot_id, &words, steps);
    record.theirs = changed.map(|changed| changed.theirs.clone()).unwrap_or_default();
    transaction::apply(here.system, &mut record)?;
    end_trials(here, before, &mut applied);
    let has_settings = plan.actions.iter().any(|action| action.kind != ActionKind::BootParameter);
    if has_unit && has_settings {
        applied.next.push(
            "systemctl start isolator-tune.service: do the settings now, without another reboot".into(),
        );
    }
    applied.finish(&[record]);
    Ok(applied)
}

/// The words and steps that make the line last; none where it lasts already.
fn lasting_line(
    here: &mut Here<'_>,
    plan: &Plan,
    record: &Record,
    before: &InForce,
    applied: &mut Applied,
) -> Result<(Vec<String>, Vec<Step>)> {
    verified(here, plan, &before.records)?;
    if record.part == RecordKind::Boot {
        written(here, record, before)?;
    }
    if record.part != RecordKind::Trial {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut boot = inspect::boot::read(here.root);
    without_trial(&mut boot);
    let method = boot::lasting(here.system, &BootSpec::of(here.machine, &boot, &record.words))?;
    applied.announce(&method);
    Ok((record.words.clone(), method.steps().to_vec()))
}

/// Refuses where the files of a boot line do not have it any more.
fn written(here: &Here<'_>, record: &Record, before: &InForce) -> Result<()> {
    in_files(here.system, record, &before.boot_id).map_err(|why| {
        Error::new("confirm the boot line", why, "isolator tune rollback, then plan and apply again")
    })
}

/// Takes the trials away: they have done their work, and the line that lasts is in place.
fn end_trials(here: &mut Here<'_>, before: InForce, applied: &mut Applied) {
    for mut trial in before.records.into_iter().filter(|record| record.part == RecordKind::Trial) {
        let undone = transaction::roll_back(here.system, &mut trial);
        let left = still_to_undo(&undone).into_iter();
        applied
            .skipped
            .extend(left.map(|reason| Skipped { what: format!("the end of {}", trial.id), reason }));
    }
}

/// The entries as they are without the trial.
fn without_trial(boot: &mut Boot) {
    let default = boot.default_entry().map(|entry| entry.id.clone());
    boot.entries.retain(|entry| !entry.id.ends_with(TRIAL));
    let place = boot.entries.iter().position(|entry| Some(&entry.id) == default.as_ref());
    boot.default = place.or((!boot.entries.is_empty()).then_some(0));
}
