// SPDX-License-Identifier: MIT OR Apache-2.0
//! Senders of IPIs to CPUs, for `isolator watch --senders`: the requests of an interval, by IPI and sender.
//! Several requests may share one interrupt.

use std::collections::HashMap;

use evidence::cause::Sender;

use crate::causes::sender;
use crate::event::{Event, EventKind, Sent};
use crate::names::Names;
use crate::rates::SentRate;

/// Requests of one sender for one IPI.
type Counts = HashMap<(String, Sender), u64>;

/// The requests in `events` of one CPU, over an interval of `interval_ns`, the most frequent first.
pub fn rates(cpu: u32, events: &[Event], names: &Names, interval_ns: u64) -> Vec<SentRate> {
    let mut counts = Counts::new();
    for event in events {
        if let EventKind::Sent(sent) = &event.kind
            && let Some(name) = name(sent, names)
        {
            *counts.entry((name, sender(sent, names))).or_default() += 1;
        }
    }
    let seconds = interval_ns.max(1) as f64 / 1e9;
    let rate = |((name, sender), count): ((String, Sender), u64)| SentRate {
        cpu,
        name,
        sender,
        count,
        per_second: count as f64 / seconds,
    };
    let mut rates: Vec<_> = counts.into_iter().map(rate).collect();
    // Equal counts are in the order of the sender's text.
    rates.sort_by_cached_key(|one| (u64::MAX - one.count, one.name.clone(), format!("{:?}", one.sender)));
    rates
}

/// The name that a cause would have; `None` for the interrupt of requests that have events of their own.
fn name(sent: &Sent, names: &Names) -> Option<String> {
    match (sent.request, sent.function) {
        (Some(_), function) => Some(format!("call function {}", names.function_or_address(function))),
        (None, 0) => Some("reschedule".to_string()),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ContextKind, Task, Vector};

    fn sent(pid: u32, request: Option<u64>, function: u64) -> Event {
        let by = Task { pid, comm: "echo".into(), ..Task::default() };
        let sent = Sent { by, cpu: 0, request, function, stack: Vec::new() };
        Event { monotonic_ns: 5, cpu: 0, kind: EventKind::Sent(Box::new(sent)) }
    }

    #[test]
    fn counts_requests_by_ipi_and_sender() {
        let events = [
            sent(7, Some(1), 0xf0),
            // The interrupt for that request, which is not counted again.
            sent(7, None, 0xaa),
            sent(8, None, 0),
            sent(7, Some(2), 0xf0),
            sent(9, Some(3), 0xf0),
            Event {
                monotonic_ns: 6,
                cpu: 3,
                kind: EventKind::Enter(ContextKind::Vector(Vector::CallFunction)),
            },
        ];
        let rates = rates(3, &events, &Names::default(), 500_000_000);
        let told: Vec<_> = rates
            .iter()
            .map(|one| (one.cpu, one.name.as_str(), one.sender.pid.unwrap(), one.count, one.per_second))
            .collect();
        assert_eq!(
            told,
            [
                (3, "call function 0xf0", 7, 2, 4.0),
                (3, "call function 0xf0", 9, 1, 2.0),
                (3, "reschedule", 8, 1, 2.0),
            ]
        );
    }
}
