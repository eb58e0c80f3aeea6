// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune apply`: each kind of change that a plan asks for becomes a record, and all records are carried out,
//! or none.

use super::applied::Applied;
use super::check::in_files;
use super::here::{Here, of_refusal};
use super::in_force::InForce;
use crate::action::BootLine;
use crate::boot::{self, BootMethod, BootSpec};
use crate::plan::{MadeFor, Plan};
use crate::record::{Record, RecordKind, Step, Undone};
use crate::system::{self, System};
use crate::transaction::{self, store, words};
use crate::{Error, Result, runtime, units};

/// The wanted parts of a plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Nothing of the boot line.
    pub runtime_only: bool,
    /// Nothing at all: only say what would be done.
    pub dry_run: bool,
    /// The unit does it: another boot than that of the plan is as it should be.
    pub at_boot: bool,
}

/// One kind of change.
enum Change {
    /// Settings of the running kernel, which end with this boot.
    Runtime(Vec<Step>),
    /// Units of systemd.
    Units(Vec<Step>),
    /// Words of the boot line.
    Boot { words: BootLine, method: BootMethod },
}

impl Change {
    fn steps(&self) -> &[Step] {
        match self {
            Change::Runtime(steps) | Change::Units(steps) => steps,
            Change::Boot { method, .. } => method.steps(),
        }
    }

    /// The record that does it; none where nothing is to be done.
    fn record(self, here: &Here<'_>, digest: &str, boot_id: &str) -> Option<Record> {
        let (part, name, start) = match &self {
            Change::Runtime(_) => (RecordKind::Runtime, "runtime", None),
            Change::Units(_) => (RecordKind::Units, "units", None),
            Change::Boot { method: BootMethod::Trial { start, .. }, .. } => {
                (RecordKind::Trial, "trial", Some(start.clone()))
            }
            Change::Boot { .. } => (RecordKind::Boot, "boot", None),
        };
        let steps = self.steps().to_vec();
        let words = if let Change::Boot { words, .. } = self { words } else { BootLine::default() };
        let id = here.fresh_id(name);
        let record = Record::new(&id, part, digest, boot_id, &words, steps);
        let theirs = words::found(here.system, &words);
        (!record.steps.is_empty()).then_some(Record { start, theirs, ..record })
    }
}

/// Does a plan.
pub fn apply(here: &mut Here<'_>, plan: &Plan, options: Options) -> Result<Applied> {
    admit(here, &plan.made_for, options)?;
    let mut applied = Applied::new(options.dry_run);
    if !options.dry_run {
        applied.recovered = here.recover()?;
    }
    let before = InForce::read(here.system)?;
    refuse_another_plan(&before, &plan.digest)?;
    if !options.dry_run {
        before.end_stale_settings(here.system)?;
    }
    applied.already = before.already();
    // Everything that may be refused is asked before anything is done.
    let kept = plan.kept()?;
    let changes = changes(here, plan, options, &before, &mut applied)?;
    if options.dry_run {
        changes.iter().for_each(|change| applied.preview(change.steps()));
        return Ok(applied);
    }
    kept.write(here.system)?;
    let records =
        changes.into_iter().filter_map(|change| change.record(here, &plan.digest, &before.boot_id)).collect();
    let done = carry_out(here.system, records).inspect_err(|_| {
        // A plan of which nothing was done is not the last one.
        if before.records.is_empty() && nothing_left(here.system) {
            let _ = here.system.remove(&kept.path);
        }
    })?;
    applied.finish(&done);
    Ok(applied)
}

/// Refuses a plan that is not of this machine and boot, and a machine that is not ours to change.
fn admit(here: &Here<'_>, planned: &MadeFor, options: Options) -> Result<()> {
    let made_for = MadeFor::here(here.root, here.machine);
    let refusal = match options.at_boot {
        true => planned.refuses_machine(&made_for),
        false => planned.refuses(&made_for),
    };
    if let Some(refusal) = refusal {
        return Err(of_refusal("apply the plan", &refusal));
    }
    boot::guard::host(here.machine)?;
    other_owner(here)
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

fn refuse_another_plan(before: &InForce, digest: &str) -> Result<()> {
    match before.records.iter().find(|record| record.plan != digest) {
        None => Ok(()),
        Some(other) => Err(Error::new(
            "apply the plan",
            format!("another one is in force (record {})", other.id),
            "undo that first: isolator tune rollback",
        )),
    }
}

/// The changes that the plan asks for and that no record has made yet.
fn changes(
    here: &mut Here<'_>,
    plan: &Plan,
    options: Options,
    before: &InForce,
    applied: &mut Applied,
) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    if !before.has_settings() {
        let (steps, skipped) = runtime::steps(here.system, &plan.actions)?;
        applied.skipped.extend(skipped);
        changes.push(Change::Runtime(steps));
    }
    if options.at_boot {
        return Ok(changes);
    }
    if !before.has_units() {
        let units = units::steps(here.system, &plan.actions)?;
        applied.skipped.extend(units.skipped);
        applied.next.extend(units.next);
        changes.push(Change::Units(units.steps));
    }
    let words = plan.boot_line();
    changes.extend(boot_change(here, words, options, before, applied)?);
    Ok(changes)
}

/// How the words that no file has yet come into the boot line.
fn boot_change(
    here: &mut Here<'_>,
    words: BootLine,
    options: Options,
    before: &InForce,
    applied: &mut Applied,
) -> Result<Option<Change>> {
    if options.runtime_only || words.is_empty() {
        if !options.dry_run && !before.has_settings() && !before.has_units() {
            applied.next.push("isolator tune confirm: have the settings done again at every boot".into());
        }
        return Ok(None);
    }
    if let Some(record) = before.of_boot_line().next() {
        in_files(here.system, record, &before.boot_id).map_err(|why| {
            Error::new("apply the boot line", why, "isolator tune rollback, then plan and apply again")
        })?;
        applied.already.push("the boot line of this plan".into());
        return Ok(None);
    }
    boot::guard::line_counts(here.machine)?;
    let boot = inspect::boot::read(here.root);
    let (words, there) = words.without(|word| boot.default_has(word));
    let by_others = there.iter().map(|word| format!("{word} in the boot line, set by another program"));
    applied.already.extend(by_others);
    if words.is_empty() {
        return Ok(None);
    }
    let asked = BootSpec { there: &there, ..BootSpec::of(here.machine, &boot, &words) };
    let method = boot::first(here.system, &asked)?;
    applied.announce(&method);
    Ok(Some(Change::Boot { words, method }))
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
