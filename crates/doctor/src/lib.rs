// SPDX-License-Identifier: MIT OR Apache-2.0
//! Obstacles on this machine between a program and its deadline.
//!
//! Checks are pure functions over a [`machine::Snapshot`] that was read whole: what they say of a snapshot is
//! what they say of the machine. Each says what it found and where, why it matters, and how to change it.
//! A fact that could not be read is [`FindingOutcome::Unknown`], never a fault; a captured tree that lacks a
//! file is no machine that lacks it.
//!
//! How much a finding weighs depends on what the machine is for ([`Profile`]): the tick that a program which
//! polls must be rid of is no matter to one that sleeps each period. There is no score.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err, reason = "both sides are results, and a run makes a hundred of them")]

mod checks;
mod facts;
mod finding;
pub mod obtain;
mod report;

pub use checks::{ALL, Check, CheckGroup};
pub use facts::CheckFacts;
pub use finding::{Evidence, Finding, FindingOutcome, FindingState, Severity};
pub use machine::{Profile, Use};
pub use report::{FindingCounts, Report};

use machine::Snapshot;

/// A question to the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DoctorQuestion {
    /// The purpose of the machine.
    pub profile: Profile,
    /// The use from which period and limit come.
    pub purpose: Option<Use>,
    /// Only checks of this group.
    pub only: Option<CheckGroup>,
}

/// Looks at `machine`, which was read whole (`inspect::read_whole`).
pub fn examine(machine: &Snapshot, question: &DoctorQuestion) -> Report {
    let facts = CheckFacts::new(machine, question);
    let asked = ALL
        .iter()
        .copied()
        .flatten()
        .filter(|check| question.only.is_none_or(|group| check.group() == group));
    let mut checks: Vec<Finding> = asked.map(|check| check.run(&facts)).collect();
    // Worst first; within one weight in the order of the table.
    checks.sort_by_key(|finding| (finding.result.rank(), finding.severity.rank()));
    Report::new(&facts, question, checks)
}

/// The check with this name.
pub fn check(id: &str) -> Option<&'static Check> {
    ALL.iter().copied().flatten().find(|check| check.id == id)
}
