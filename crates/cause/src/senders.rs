// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who sends IPIs to CPUs, for `isolator watch --senders`: what was asked for in an interval, by IPI and
//! sender. Requests are counted, of which several may share one interrupt.

use std::collections::HashMap;

use evidence::cause::Sender;

use crate::causes::sender;
use crate::event::{Event, EventKind, Sent};
use crate::names::Names;
use crate::rates::SentRate;

/// What was asked of one IPI by one sender.
type Counts = HashMap<(String, Sender), u64>;

/// Requests in `events` of one CPU, which took `interval_ns` to come, the most first.
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
    // The sender's words make the order of equals the same each time.
    rates.sort_by_cached_key(|one| (u64::MAX - one.count, one.name.clone(), format!("{:?}", one.sender)));
    rates
}

/// As a cause would be called; nothing where it is the interrupt for requests that are told of one by one.
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
    fn requests_are_counted_by_ipi_and_sender_and_their_interrupt_is_not_another() {
        let events = [
            sent(7, Some(1), 0xf0),
            // The interrupt for that request.
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
