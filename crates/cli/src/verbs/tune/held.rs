// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that are in force for as long as this process wants them. They are a record like any other: what a dead process
//! left on is undone by `tune rollback`.

use ::tune::plan::Action;
use ::tune::runtime;
use ::tune::system::System;
use ::tune::transaction::{self, Became, Outcome as Went, Part, Record, store};
use evidence::Error;

use crate::output::tell;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What is in force.
pub struct Held(Record);

impl Held {
    /// Does what `actions` say, under the name `id`; the inner error is why nothing of it could be done, with the machine as it
    /// was.
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
        let mut record = Record::new(id, Part::Runtime, plan, &boot_id, &[], steps);
        transaction::apply(system, &mut record)?;
        let held = Held(record);
        if held.0.steps.iter().any(|step| step.outcome == Went::Done) {
            return Ok(Ok(held));
        }
        let refused = held.refused().map(|(_, why)| why).next();
        held.release(system)?;
        Ok(Err(refused.unwrap_or_else(|| "it is so already".to_string())))
    }

    /// What the kernel refused, and why.
    pub fn refused(&self) -> impl Iterator<Item = (String, String)> {
        self.0.steps.iter().filter_map(|done| match &done.outcome {
            Went::Refused(why) => Some((done.step.what(), why.clone())),
            _ => None,
        })
    }

    /// Gives back what was there before, and says what stays otherwise.
    pub fn release(mut self, system: &mut dyn System) -> Result<()> {
        // A thread that ended meanwhile, or an interrupt of a device that is gone, is no loss.
        for one in transaction::roll_back(system, &mut self.0) {
            if let Became::Left(why) | Became::Failed(why) = one.became {
                tell(&format!("isolator: left as it is: {}: {why}", one.what));
            }
        }
        Ok(())
    }
}

/// Refuses where a change is in force already: it would be mixed with this one.
pub fn nothing_else(system: &mut dyn System, what: &str, on: &str) -> Result<()> {
    match store::all(system)?.iter().find(|record| record.live()) {
        Some(live) => {
            let why = format!("a change is in force (record {})", live.id);
            Err(Error::on(what, on, why, "undo it first: isolator tune rollback").into())
        }
        None => Ok(()),
    }
}
