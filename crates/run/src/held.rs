// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that are in force for as long as this process wants them. They are a record like any other: what
//! a dead process left on is undone by `tune rollback`.

use error::{Error, Result};
use tune::plan::Action;
use tune::runtime;
use tune::system::System;
use tune::transaction::{self, Record, RecordKind, Restoration, StepOutcome as Went, store};

/// The settings in force.
pub struct Held(Record);

impl Held {
    /// Does what `actions` say, under the name `id`; the inner error is why nothing of it could be done, with
    /// the machine as it was.
    pub fn hold(
        system: &mut dyn System,
        id: &str,
        plan: &str,
        actions: &[Action],
    ) -> Result<std::result::Result<Held, String>> {
        let (steps, left) = runtime::steps(system, actions)?;
        if steps.is_empty() {
            return Ok(Err(left
                .first()
                .map_or("there is nothing to set".to_string(), |left| left.reason.clone())));
        }
        let boot_id = store::boot_id(system);
        let mut record = Record::new(id, RecordKind::Runtime, plan, &boot_id, &[], steps);
        transaction::apply(system, &mut record)?;
        let held = Held(record);
        if held.0.steps.iter().any(|step| step.outcome == Went::Done) {
            return Ok(Ok(held));
        }
        let refused = held.refused().map(|(_, why)| why).next();
        // Nothing of it was done.
        held.release(system);
        Ok(Err(refused.unwrap_or_else(|| "it is so already".to_string())))
    }

    /// The settings that the kernel refused, and why.
    pub fn refused(&self) -> impl Iterator<Item = (String, String)> {
        self.0.steps.iter().filter_map(|done| match &done.outcome {
            Went::Refused(why) => Some((done.step.what(), why.clone())),
            _ => None,
        })
    }

    /// Gives back what was there before; what stays otherwise, and why.
    pub fn release(mut self, system: &mut dyn System) -> Vec<String> {
        let undone = transaction::roll_back(system, &mut self.0).into_iter();
        // A thread that ended meanwhile, or an interrupt of a device that is gone, is no loss.
        let left = undone.filter_map(|one| match one.became {
            Restoration::Left(why) | Restoration::Failed(why) => Some(format!("{}: {why}", one.what)),
            _ => None,
        });
        left.collect()
    }
}

/// Refuses where a change is in force already: it would be mixed with this one.
pub fn nothing_else(system: &mut dyn System, what: &str, on: &str) -> Result<()> {
    match store::all(system)?.iter().find(|record| record.is_tuning()) {
        Some(live) => {
            let why = format!("a change is in force (record {})", live.id);
            Err(Error::on(what, on, why, "undo it first: isolator tune rollback"))
        }
        None => Ok(()),
    }
}
