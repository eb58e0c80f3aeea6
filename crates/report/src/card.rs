// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first screen of a page: a card for each run, or for a fleet.

use serde::Serialize;

/// Reasons shown without unfolding.
const REASONS: usize = 4;

/// The verdict on one run.
#[derive(Debug, Serialize)]
pub(crate) struct VerdictCard {
    pub run: String,
    pub name: String,
    /// `ok`, `late`, `unproven`, or `counted` where nothing is judged.
    pub state: &'static str,
    /// Empty where nothing is judged.
    pub mark: &'static str,
    pub words: String,
    /// A text beside the words that narrows them; may be empty.
    pub but: String,
    /// The run's result for its use, and its grade: `good`, `usable` or `unfit`, where the use has a scale.
    pub purpose: Option<String>,
    pub grade: Option<&'static str>,
    /// How much the samples support, in a sentence; empty where nothing is judged.
    pub claim: String,
    /// The figures that matter most.
    pub tiles: Vec<Tile>,
    /// Machine, kernel, date, loads, limit.
    pub facts: Vec<(&'static str, String)>,
    /// Why it does not say more.
    pub reasons: Vec<String>,
    /// How many of them are not folded away.
    pub reasons_shown: usize,
}

impl VerdictCard {
    /// Folds reasons away where there are many; where there are more than fit one fewer is shown, so that
    /// none is folded away alone.
    pub fn folded(self) -> VerdictCard {
        let reasons_shown = if self.reasons.len() > REASONS { REASONS - 1 } else { REASONS };
        VerdictCard { reasons_shown, ..self }
    }
}

/// A large figure with its name.
#[derive(Debug, Serialize)]
pub(crate) struct Tile {
    pub name: &'static str,
    pub value: String,
    /// A note to be seen beside it.
    pub note: String,
}
