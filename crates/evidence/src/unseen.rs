// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main cause of a spike, and the chance that the next spike has a cause which none had so far.
//!
//! Of *n* spikes with a named cause, *f* had a cause that only they had: the next one has a new cause with a
//! chance of about *f* / *n* (Good 1953, Biometrika 40, 237; its author names Turing). It needs no list of
//! all causes. It counts spikes as drawn alike and independently, so that bursts of one cause make it too
//! small.

use std::collections::BTreeMap;

use crate::cause::{CauseKind, shares};
use crate::manifest::Spike;

impl Spike {
    /// The part of the latency that no cause explains, as far as one is known.
    pub fn remainder_ns(&self) -> Option<u64> {
        let timed = self.causes.iter().filter(|cause| cause.kind != CauseKind::Unexplained);
        let known: u64 = timed.filter_map(|cause| cause.duration_ns).fold(0, u64::saturating_add);
        match self.unexplained_ns {
            Some(ns) => Some(ns.min(self.latency_ns)),
            None if known > 0 => Some(self.latency_ns.saturating_sub(known)),
            None => None,
        }
    }

    /// The kind and name of the cause that took the most of it, the remainder included.
    pub fn mostly(&self) -> Option<(CauseKind, &str)> {
        let most = shares(&self.causes).first().map(|share| (share.ns, share.longest));
        match (most, self.remainder_ns()) {
            (Some((ns, cause)), rest) if rest.is_none_or(|rest| rest <= ns) => {
                Some((cause.kind, &cause.name))
            }
            (_, rest) => rest.map(|_| (CauseKind::Unexplained, "")),
        }
    }
}

/// The chance that the next spike has a cause which none of these had; `None` where none has a named cause.
pub fn next_cause_unseen<'a>(spikes: impl IntoIterator<Item = &'a Spike>) -> Option<f64> {
    let mut seen = BTreeMap::<(CauseKind, &str), u64>::new();
    for cause in spikes.into_iter().filter_map(Spike::mostly) {
        if cause.0 != CauseKind::Unexplained {
            *seen.entry(cause).or_default() += 1;
        }
    }
    let spikes = seen.values().sum::<u64>();
    let once = seen.values().filter(|times| **times == 1).count();
    (spikes > 0).then(|| once as f64 / spikes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::manifest::RowKey;

    fn spike(name: &str, took_ns: u64) -> Spike {
        Spike {
            causes: vec![Cause::timed(CauseKind::Irq, name, 0, took_ns)],
            unexplained_ns: Some(1_000 - took_ns),
            ..Spike::new(RowKey::new("wakeup", "idle", 0, None), 1_000)
        }
    }

    #[test]
    fn causes_seen_once_are_the_chance_of_a_new_one() {
        let of = |names: &[&str]| {
            next_cause_unseen(&names.iter().map(|name| spike(name, 900)).collect::<Vec<_>>())
        };
        assert_eq!(of(&["a", "b", "a", "a", "c"]), Some(0.4));
        assert_eq!(of(&["a", "a"]), Some(0.0));
        assert_eq!(of(&["a"]), Some(1.0));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn an_unexplained_spike_has_no_named_cause() {
        assert_eq!(spike("a", 100).mostly(), Some((CauseKind::Unexplained, "")));
        assert_eq!(next_cause_unseen(&[spike("a", 100), spike("b", 900), spike("b", 900)]), Some(0.0));
    }
}
