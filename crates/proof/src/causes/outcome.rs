// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds of interruptions beside the gaps of the interrupted loop.

use std::fmt::Write;

use evidence::cause::Cause;
use evidence::manifest::Spike;
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
    /// Gaps far from any round with the same cause.
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

impl InterruptionResult {
    pub(super) fn of(source: &Interruption, rounds: &[Round], spikes: &[Spike]) -> InterruptionResult {
        let is_right = |cause: &&Cause| source.is_right(cause);
        let overlaps = |round: &Round, spike: &Spike| {
            spike.monotonic_ns <= round.to_ns + AFTER_NS
                && spike.monotonic_ns + spike.latency_ns >= round.from_ns
        };
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
            let gaps = spikes.iter().filter(|spike| overlaps(round, spike)).collect::<Vec<_>>();
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
        let elsewhere = |spike: &&Spike| !rounds.iter().any(|round| overlaps(round, spike));
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
