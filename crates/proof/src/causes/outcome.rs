// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds of interruptions beside the gaps of the interrupted loop.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use evidence::cause::Cause;
use evidence::manifest::Spike;
use rt::clock::monotonic_ns;
use serde::{Deserialize, Serialize};

use super::source::Interruption;
use crate::bystanders;

/// The result of one kind of interruption.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InterruptionResult {
    /// Its name.
    pub name: String,
    /// Its expected cause.
    pub expected: String,
    /// The reason why it could not be made here.
    pub skipped: Option<String>,
    /// The number of rounds.
    pub rounds: usize,
    /// Rounds that interrupted the loop.
    pub seen: usize,
    /// Of those, rounds with the right cause.
    pub named: usize,
    /// Of those, rounds with an expected sender that was right.
    pub sent: Option<usize>,
    /// Median of the unexplained share of a named gap.
    pub remainder: f64,
    /// Of gaps far from any round, those with the same cause.
    pub elsewhere: usize,
    /// Gaps that name a bystander.
    pub bystander: usize,
    /// The causes of the first wrong gaps, and of those that name a bystander.
    pub wrong: Vec<String>,
}

/// A round of interruptions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// The thread that made it.
    pub(super) by: u32,
}

/// A gap of a round may end this long after it: deferred work runs later.
const AFTER_NS: u64 = 3_000_000;

impl Round {
    fn overlaps(&self, spike: &Spike) -> bool {
        spike.monotonic_ns <= self.to_ns.saturating_add(AFTER_NS)
            && spike.monotonic_ns + spike.latency_ns >= self.from_ns
    }
}

/// The rounds so far; [`Made::NONE`] stands for the beginning of one where none goes on.
#[derive(Debug, Default)]
pub(super) struct Made {
    begun_ns: AtomicU64,
    rounds: Mutex<Vec<Round>>,
}

impl Made {
    const NONE: u64 = 0;

    /// Makes a round. Only one thread does.
    pub(super) fn round(&self, work: impl FnOnce() -> Result<(), String>) -> Result<Round, String> {
        let from_ns = monotonic_ns();
        self.begun_ns.store(from_ns, Ordering::SeqCst);
        work()?;
        let round = Round { from_ns, to_ns: monotonic_ns(), by: rt::thread::id() };
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).push(round);
        self.begun_ns.store(Made::NONE, Ordering::SeqCst);
        Ok(round)
    }

    /// Whether a gap, which has ended, belongs to a round that was made or goes on.
    pub(super) fn is_near(&self, gap: &Spike) -> bool {
        // In this order: a round that ends meanwhile is among those that were made.
        let goes_on = match self.begun_ns.load(Ordering::SeqCst) {
            Made::NONE => None,
            from_ns => Some(Round { from_ns, to_ns: u64::MAX, by: 0 }),
        };
        let rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.iter().rev().take(RECENT).chain(&goes_on).any(|round| round.overlaps(gap))
    }

    /// How many were made.
    pub(super) fn count(&self) -> usize {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All that were made.
    pub(super) fn all(self) -> Vec<Round> {
        self.rounds.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// More rounds than are made between two looks.
const RECENT: usize = 100;

impl InterruptionResult {
    pub(super) fn of(source: &Interruption, rounds: &[Round], spikes: &[Spike]) -> InterruptionResult {
        let is_right = |cause: &&Cause| source.is_right(cause);
        let mut outcome = InterruptionResult {
            name: source.name.to_string(),
            expected: source.expected.to_string(),
            skipped: None,
            rounds: rounds.len(),
            seen: 0,
            named: 0,
            sent: source.has_sender.then_some(0),
            remainder: 0.0,
            elsewhere: 0,
            bystander: 0,
            wrong: Vec::new(),
        };
        let mut shares = Vec::new();
        for round in rounds {
            let gaps = spikes.iter().filter(|spike| round.overlaps(spike)).collect::<Vec<_>>();
            let Some(longest) = gaps.iter().max_by_key(|spike| spike.latency_ns) else { continue };
            outcome.seen += 1;
            let mut right = gaps.iter().filter_map(|gap| Some((gap, gap.causes.iter().find(is_right)?)));
            let Some((gap, _)) = right.clone().next() else {
                if outcome.wrong.len() < 5 {
                    outcome.wrong.push(summary(longest));
                }
                continue;
            };
            outcome.named += 1;
            shares.push(gap.unexplained_ns.unwrap_or(0) as f64 / gap.latency_ns.max(1) as f64);
            if let Some(sent) = &mut outcome.sent {
                let sender = |cause: &Cause| cause.sender.as_ref().and_then(|sender| sender.pid);
                *sent += usize::from(right.any(|(_, cause)| sender(cause) == Some(round.by)));
            }
        }
        outcome.remainder = crate::middle::middle(shares, f64::total_cmp).unwrap_or(0.0);
        let elsewhere = |spike: &&Spike| !rounds.iter().any(|round| round.overlaps(spike));
        let given = |spike: &&Spike| spike.causes.iter().any(|cause| is_right(&cause));
        outcome.elsewhere = spikes.iter().filter(elsewhere).filter(given).count();
        let named = spikes.iter().filter(|spike| bystanders::are_named(spike));
        outcome.wrong.extend(named.clone().take(5).map(summary));
        outcome.bystander = named.count();
        outcome
    }
}

fn summary(spike: &Spike) -> String {
    let mut text = format!("{} ns, {} unexplained:", spike.latency_ns, spike.unexplained_ns.unwrap_or(0));
    for cause in &spike.causes {
        let _ = write!(text, " {} {} {};", cause.kind.name(), cause.name, cause.duration_ns.unwrap_or(0));
    }
    text
}
