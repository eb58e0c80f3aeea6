// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots: one boot proves one boot. Addresses, routes of interrupts, frequencies and the placement of memory
//! differ from boot to boot, and with them whether a limit holds. Of *B* boots without a late cycle the share
//! of bad ones is below 3/*B* at 95 %; with bad ones the exact Poisson bound stands for the 3.

use std::collections::BTreeMap;

use machine::quantity::Sentence;

use crate::claim::{ALPHA, Claim, ClaimUnit, THREE};
use crate::document::ProveDocument;
use crate::episode;
use crate::reader::Bundle;
use crate::verdict::{Verdict, VerdictOutcome};

/// The outcomes of runs by the boot that they were in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JoinedBoots {
    boots: BTreeMap<String, Vec<VerdictOutcome>>,
    /// Runs that do not say in which boot they were; they count for nothing.
    pub unknown: Vec<String>,
}

impl JoinedBoots {
    /// Adds a run, with its outcome.
    pub fn add(&mut self, bundle: &Bundle, outcome: VerdictOutcome) {
        match &bundle.manifest.machine.boot_id {
            Some(boot_id) => self.boots.entry(boot_id.clone()).or_default().push(outcome),
            None => self.unknown.push(bundle.path.display().to_string()),
        }
    }

    /// Boots with a run that exceeded its limit.
    fn bad(&self) -> u64 {
        self.boots.values().filter(|runs| runs.contains(&VerdictOutcome::Exceeded)).count() as u64
    }

    /// Boots of which every run held.
    fn clean(&self) -> u64 {
        let held = |runs: &&Vec<VerdictOutcome>| runs.iter().all(|run| *run == VerdictOutcome::Held);
        self.boots.values().filter(held).count() as u64
    }

    /// Boots of which no run exceeded its limit and one is unproven: they are neither good nor bad.
    fn open(&self) -> u64 {
        self.boots.len() as u64 - self.bad() - self.clean()
    }

    /// The claim of all boots, beside that of the present run; `None` without one.
    fn claim(&self, own: Option<&Claim>, wanted: u64) -> Option<Claim> {
        let (bad, boots) = (self.bad(), self.bad() + self.clean());
        let most = if bad == 0 { THREE } else { episode::fewer_than(bad, ALPHA) };
        let below = (most / boots.max(1) as f64).min(1.0);
        let more_boots = Some(wanted.saturating_sub(boots));
        own.map(|own| Claim {
            unit: ClaimUnit::Boot,
            below,
            per: "boot".to_string(),
            per_ns: None,
            boots,
            more_boots,
            ..own.clone()
        })
    }
}

impl ProveDocument {
    /// The document of a run whose verdict is that of all these boots, of which so many are wanted: `boots`
    /// has the run itself, too.
    pub fn joined(mut self, boots: &JoinedBoots, wanted: u64) -> ProveDocument {
        let verdict = &mut self.verdict;
        let (bad, counted) = (boots.bad(), boots.bad() + boots.clean());
        let claim = boots.claim(verdict.claim.as_ref(), wanted);
        let unknown = boots.unknown.iter().map(|path| format!("{path} does not say in which boot it was"));
        verdict.reasons.extend(unknown.map(Sentence::from));
        let is_open = boots.open() > 0 || !boots.unknown.is_empty();
        if bad > 0 && verdict.outcome != VerdictOutcome::Exceeded {
            verdict.reasons.insert(0, format!("{bad} of {counted} boots had late cycles").into());
            end(verdict, VerdictOutcome::Exceeded);
        } else if verdict.outcome == VerdictOutcome::Held && counted < wanted {
            let more = wanted - counted;
            let boots = if more == 1 { "boot is" } else { "boots are" };
            let why = format!(
                "{counted} of {wanted} boots held: {more} more {boots} needed; boot again, and run the same"
            );
            verdict.reasons.insert(0, why.into());
            end(verdict, VerdictOutcome::Unproven);
        } else if verdict.outcome == VerdictOutcome::Held && is_open {
            // To leave it out would be to choose the boots that count.
            if boots.open() > 0 {
                let all = counted + boots.open();
                let why =
                    format!("{} of {all} boots unproven: isolator report says why of each run", boots.open());
                verdict.reasons.insert(0, why.into());
            }
            end(verdict, VerdictOutcome::Unproven);
        } else if let (VerdictOutcome::Held, Some(claim)) = (verdict.outcome, &claim) {
            verdict.reasons.insert(0, claim.sentence());
        }
        verdict.claim = claim;
        self
    }
}

fn end(verdict: &mut Verdict, outcome: VerdictOutcome) {
    (verdict.outcome, verdict.held) = (outcome, outcome == VerdictOutcome::Held);
    if outcome == VerdictOutcome::Exceeded {
        verdict.kept = Some(false);
    }
}
