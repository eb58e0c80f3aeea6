// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs on which a measuring thread waited during a spike. What runs on a CPU that it has left, or has
//! not come to, takes no time from it.

use std::ops::Range;

use crate::event::{Event, EventKind};

/// Where the measuring thread of `cpu` was in each part of `window`, by the events of `cpu`, in the order of
/// time. Of several threads it is not known which one the window is about: they count as pinned.
pub fn path(cpu: u32, events: &[Event], window: Range<u64>, own: &[u32]) -> Vec<(u32, Range<u64>)> {
    let moved = |event: &Event| match event.kind {
        EventKind::Migrate { pid, to } if own == [pid] => Some((event.monotonic_ns, to)),
        _ => None,
    };
    let mut path = vec![(cpu, window.clone())];
    let from = events.partition_point(|event| event.monotonic_ns < window.start);
    let within = events[from..].iter().take_while(|event| event.monotonic_ns < window.end);
    for (at_ns, to) in within.filter_map(moved) {
        let last = path.len() - 1;
        if path[last].0 != to {
            path[last].1.end = at_ns;
            path.push((to, at_ns..window.end));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(monotonic_ns: u64, pid: u32, to: u32) -> Event {
        Event { monotonic_ns, cpu: 9, kind: EventKind::Migrate { pid, to } }
    }

    #[test]
    fn each_part_belongs_to_the_cpu_of_its_time() {
        let events = [moved(5, 7, 2), moved(20, 8, 3), moved(30, 7, 2), moved(50, 7, 1), moved(99, 7, 4)];
        let parts = path(1, &events, 10..90, &[7]);
        assert_eq!(parts, [(1, 10..30), (2, 30..50), (1, 50..90)]);
        assert_eq!(path(1, &events, 10..90, &[7, 8]), [(1, 10..90)], "which of them is not known");
        assert_eq!(path(1, &[moved(10, 7, 2)], 10..90, &[7]), [(1, 10..10), (2, 10..90)]);
    }
}
