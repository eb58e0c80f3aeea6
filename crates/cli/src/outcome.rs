// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the work of a verb came out, and the exit status of the program: one function makes the status, and
//! each document says what its content comes to.
//!
//! A verb ends by [`Document::ended`] of the document that it wrote, so that a verdict which it shows and the
//! status that it ends with cannot differ. A document that judges nothing says so by [`done!`], here or
//! beside its type.

use std::error::Error;
use std::process::ExitCode;

use compare::Comparison;
use compare::gate::Gated;
use evidence::Bundle;
use evidence::document::ProveDocument;
use evidence::lab::{GateDocument, LabDocument, MatrixDocument};
use evidence::verdict::VerdictOutcome;
use fleet::ansible::document::FleetRunDocument;
use fleet::document::FleetDocument;
use lint::LintDocument;
use serde::Serialize;
use tune::plan::PlanAnswer;
use why::WhyDocument;

/// A verb's result: how its work came out, or why it could not be done.
pub type VerbResult = Result<Outcome, Box<dyn Error>>;

/// How the work of a verb came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It was done, and judges nothing.
    Done,
    /// It was judged, and holds.
    Held,
    /// The limit was kept, but the evidence does not prove it.
    Unproven,
    /// It was judged, and does not hold.
    Exceeded,
    /// It could not be done; the user was told why.
    CouldNot,
}

impl Outcome {
    /// The exit status of the program.
    pub fn status(self) -> u8 {
        match self {
            Outcome::Done | Outcome::Held => 0,
            Outcome::CouldNot => 1,
            Outcome::Unproven | Outcome::Exceeded => 2,
        }
    }

    /// Of a process that is this program, by its status.
    pub fn of_status(status: i32) -> Outcome {
        match status {
            0 => Outcome::Held,
            2 => Outcome::Exceeded,
            _ => Outcome::CouldNot,
        }
    }

    fn holds(is_so: bool) -> Outcome {
        if is_so { Outcome::Held } else { Outcome::Exceeded }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        outcome.status().into()
    }
}

impl From<VerdictOutcome> for Outcome {
    fn from(outcome: VerdictOutcome) -> Outcome {
        match outcome {
            VerdictOutcome::Held => Outcome::Held,
            VerdictOutcome::Exceeded => Outcome::Exceeded,
            VerdictOutcome::Unproven => Outcome::Unproven,
        }
    }
}

/// A document that a verb writes as JSON.
pub trait Document: Serialize {
    /// How a verb ends that shows it; an error where its content is that the work could not be done.
    fn ended(&self) -> VerbResult;
}

/// Documents that say what was done or found, and judge nothing.
macro_rules! done {
    ($($document:ty),+ $(,)?) => {
        $(impl $crate::outcome::Document for $document {
            fn ended(&self) -> $crate::outcome::VerbResult {
                Ok($crate::outcome::Outcome::Done)
            }
        })+
    };
}
pub(crate) use done;

done!(
    WhyDocument,
    doctor::Report,
    lab::build::Built,
    tune::change::Applied,
    tune::change::RolledBack,
    tune::change::TuneStatus,
    tune::measure::MeasuredPlan,
    tune::task::Set,
    tune::task::TaskList,
);

impl Document for ProveDocument {
    fn ended(&self) -> VerbResult {
        Ok(self.verdict.outcome.into())
    }
}

impl Document for [ProveDocument] {
    fn ended(&self) -> VerbResult {
        worst(self.iter().map(Document::ended))
    }
}

impl Document for Comparison {
    fn ended(&self) -> VerbResult {
        // Compared, whatever the result.
        self.refusal().map_or(Ok(Outcome::Done), |refusal| Err(refusal.into()))
    }
}

impl Document for Gated {
    fn ended(&self) -> VerbResult {
        self.refusal().map_or(Ok(Outcome::holds(self.held)), |refusal| Err(refusal.into()))
    }
}

impl Document for LintDocument {
    fn ended(&self) -> VerbResult {
        Ok(Outcome::holds(self.is_clean()))
    }
}

impl Document for FleetDocument {
    fn ended(&self) -> VerbResult {
        let verdict = |outcome: &str| match outcome {
            "held" => Outcome::Held,
            "exceeded" => Outcome::Exceeded,
            _ => Outcome::Unproven,
        };
        // A store without a machine proves nothing.
        Ok(self.machines.iter().map(|one| verdict(&one.outcome)).max().unwrap_or(Outcome::Unproven))
    }
}

impl Document for FleetRunDocument {
    fn ended(&self) -> VerbResult {
        Ok(match (self.could_not(), self.does_not_hold()) {
            (true, _) => Outcome::CouldNot,
            (false, true) => Outcome::Exceeded,
            (false, false) => Outcome::Held,
        })
    }
}

impl Document for LabDocument {
    fn ended(&self) -> VerbResult {
        // Latencies of a guest, where there are any, are judged by `report`: they are of no machine.
        lab::run::complaint(self).map_or(Ok(Outcome::Done), |why| Err(why.into()))
    }
}

impl Document for MatrixDocument {
    fn ended(&self) -> VerbResult {
        self.complaint.clone().map_or(Ok(Outcome::Done), |why| Err(why.into()))
    }
}

impl Document for GateDocument {
    fn ended(&self) -> VerbResult {
        let has_grown = !self.growth.is_empty() || !self.not_counted.is_empty();
        match self.not_judged.first().filter(|_| !has_grown) {
            // Not judged is not passed.
            Some(why) => Err(format!("cannot judge {}: {why}; make the baseline again", self.bundle).into()),
            None => Ok(Outcome::holds(self.held)),
        }
    }
}

impl Document for tune::verify::Verified {
    fn ended(&self) -> VerbResult {
        Ok(Outcome::holds(self.in_force))
    }
}

impl Document for PlanAnswer {
    fn ended(&self) -> VerbResult {
        match self {
            PlanAnswer::Plan(_) => Ok(Outcome::Done),
            PlanAnswer::Refused { refused, .. } => Err(refused.clone().into()),
        }
    }
}

/// How a bundle came out that is shown with its document: the lab's counts have no verdict, and what made its
/// run no result speaks against them.
pub fn of_bundle(bundle: &Bundle, document: &ProveDocument) -> VerbResult {
    if bundle.lab.as_ref().is_some_and(|lab| !lab.failures().is_empty()) {
        return Ok(Outcome::Unproven);
    }
    if bundle.counts_only() { Ok(Outcome::Done) } else { document.ended() }
}

/// The worst of several.
pub fn worst(all: impl Iterator<Item = VerbResult>) -> VerbResult {
    all.reduce(|one, other| Ok(one?.max(other?))).unwrap_or(Ok(Outcome::Done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_one_status() {
        let all = [Outcome::Done, Outcome::Held, Outcome::Unproven, Outcome::Exceeded, Outcome::CouldNot];
        assert_eq!(all.map(Outcome::status), [0, 0, 2, 2, 1]);
        let several = |outcomes: &[Outcome]| worst(outcomes.iter().map(|one| Ok(*one))).unwrap();
        assert_eq!(several(&[Outcome::Held, Outcome::Unproven, Outcome::Held]), Outcome::Unproven);
        assert_eq!(several(&[Outcome::Exceeded, Outcome::Done, Outcome::Unproven]), Outcome::Exceeded);
        assert_eq!([0, 2, 1, 101].map(Outcome::of_status).map(Outcome::status), [0, 2, 1, 1]);
    }
}
