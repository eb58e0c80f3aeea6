// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that stamp their own cycles (`tests/programs`), watched by the BPF part, with both compared.
//!
//! The tests assert on the comparison; `examples/agreement.rs` prints it.

mod blamed;
pub mod build;
mod group;
pub mod run;
pub mod stamps;

use std::rc::Rc;

use evidence::cause::{Cause, CauseKind};
use trace::cycle::LoopCycle;
use trace::model::Model;

pub use blamed::{Blamed, Seen, is_by_bpf};
#[allow(unused_imports, reason = "an example compares it")]
pub use run::alone;
pub use run::{Case, Language, watch};
pub use stamps::{Plant, TrueCycle, Truth};

/// A thread, by its own stamps and by the kernel's records.
pub struct Watched {
    /// The thread's own stamps.
    pub truth: Truth,
    /// The inferred loop.
    pub model: Option<Model>,
    /// The cycles from the records.
    pub cycles: Vec<LoopCycle>,
    /// Own cycles between two waits that could be seen, by their index in `truth`.
    pub expected: Vec<usize>,
    /// Own cycles and those found for them, by their indices.
    pub pairs: Vec<(usize, usize)>,
    /// The kernel's records of the whole program.
    pub seen: Rc<Seen>,
}

impl Watched {
    fn new(
        truth: Truth,
        model: Option<Model>,
        cycles: Vec<LoopCycle>,
        attached_ns: u64,
        seen: Rc<Seen>,
    ) -> Watched {
        // The first wait that was seen began after this; the last cycle may end with the program.
        let own = &truth.cycles;
        let waits = |n: &usize| truth.is_wait_seen(*n, attached_ns);
        let expected: Vec<usize> = (1..own.len().saturating_sub(1)).filter(waits).collect();
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for &n in &expected {
            let after = cycles.partition_point(|cycle| cycle.began_ns <= own[n].begin_ns);
            let Some(found) = after.checked_sub(1) else { continue };
            let is_taken = pairs.last().is_some_and(|(_, last)| *last == found);
            if cycles[found].ended_ns >= own[n].end_ns && !is_taken {
                pairs.push((n, found));
            }
        }
        Watched { truth, model, cycles, expected, pairs, seen }
    }

    /// Each own cycle beside the one found for it.
    pub fn both(&self) -> impl Iterator<Item = (&TrueCycle, &LoopCycle)> {
        self.pairs.iter().map(|(own, found)| (&self.truth.cycles[*own], &self.cycles[*found]))
    }

    /// Like [`Watched::both`], for cycles with a known begin.
    pub fn both_begun(&self) -> impl Iterator<Item = (&TrueCycle, &LoopCycle)> {
        self.both().filter(|(_, found)| !found.is_begin_unseen)
    }

    /// The share of own cycles that were found.
    pub fn found(&self) -> f64 {
        share(self.pairs.len(), self.expected.len())
    }

    /// The share of cycles whose due time is known and within a microsecond of the program's own.
    pub fn due_exact(&self) -> Option<f64> {
        let known: Vec<bool> = self
            .both()
            .filter_map(|(own, found)| own.due_ns.map(|due_ns| due_ns.abs_diff(found.due_ns) <= 1_000))
            .collect();
        (!known.is_empty()).then(|| share(known.iter().filter(|is_exact| **is_exact).count(), known.len()))
    }

    /// Provoked events, each with the cycle found for it; `None` if its own cycle should have been found and
    /// was not.
    pub fn planted(&self) -> impl Iterator<Item = (&Plant, Option<&LoopCycle>)> {
        let plants = self.truth.plants.iter().filter(|plant| self.expected.contains(&plant.cycle));
        plants.map(|plant| {
            let pair = self.pairs.iter().find(|(own, _)| *own == plant.cycle);
            (plant, pair.map(|(_, found)| &self.cycles[*found]))
        })
    }

    /// The number of provoked events, and of those with the right kind of cause and thread.
    pub fn planted_and_found(&self) -> (usize, usize) {
        let (mut planted, mut found) = (0, 0);
        for (plant, cycle) in self.planted() {
            planted += 1;
            found += usize::from(cycle.is_some_and(|cycle| plant.is_in(cycle)));
        }
        (planted, found)
    }
}

impl Watched {
    /// The number of provoked events with the right kind of cause, with the right thread, and with both
    /// functions.
    pub fn blamed(&self) -> Blamed {
        let causes = |cycle: Option<&LoopCycle>| {
            cycle.map(|cycle| self.seen.causes(self.truth.id, cycle)).unwrap_or_default()
        };
        let all = self.planted().map(|(plant, cycle)| (plant, cycle, causes(cycle)));
        // BPF times faults once the first ones were seen.
        let is_untimed = |(_, _, causes): &(_, _, Vec<Cause>)| {
            causes.iter().any(|cause| cause.kind == CauseKind::Fault && cause.duration_ns == Some(0))
        };
        let mut sum = Blamed::default();
        for (plant, cycle, causes) in all.skip_while(|one| is_by_bpf() && is_untimed(one)) {
            sum.add(plant, cycle, &causes);
        }
        sum
    }
}

/// A part of a whole; 0 of an empty whole.
pub fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
