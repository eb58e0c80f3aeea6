// SPDX-License-Identifier: MIT OR Apache-2.0
//! The edges of interruptions: the code between a program and the first event of its interruption, and back.
//!
//! ```text
//!  program |  entry  | handler, as events show |  exit  | program
//!          from      first event      last event        to        of a spike
//! ```
//! In a spike the program did not run. Where no event shows the reason, the CPU still entered the kernel from
//! user mode before the next event, or returned after the last: the processor's own entry, saving registers,
//! accounting, choosing the next thread, the return. Short interruptions consist mostly of that, so this time
//! is theirs: *with its entry and exit*.
//!
//! An interruption gets only as much of it as this code takes on this machine. [`Edges`] are measured before
//! each row by provoked interruptions of a thread ([`crate::calibrate`]). A longer stretch stays unexplained,
//! and may be the firmware's or a hypervisor's. Without a calibration no time is attributed.

use std::ops::Range;

/// The longest time that each edge may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Edges {
    /// From the program to the first event.
    pub entry_ns: u64,
    /// From the last event of an interrupt back to the program.
    pub exit_ns: u64,
    /// From the switch to a thread back to its program.
    pub return_ns: u64,
}

impl Edges {
    /// The longer one of each.
    pub fn longer(&self, other: &Edges) -> Edges {
        Edges {
            entry_ns: self.entry_ns.max(other.entry_ns),
            exit_ns: self.exit_ns.max(other.exit_ns),
            return_ns: self.return_ns.max(other.return_ns),
        }
    }
}

/// A span beside a stretch of the measured thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The span.
    pub span: usize,
    /// The most of the stretch that is its edge.
    pub at_most_ns: u64,
}

/// Divides a stretch between the span that ended before it and the one that began after it. A stretch too
/// short for both edges is divided in their ratio. The middle of a longer one belongs to neither.
pub(crate) fn divide(
    stretch: &Range<u64>,
    before: Option<Beside>,
    after: Option<Beside>,
) -> impl Iterator<Item = (usize, Range<u64>)> {
    let length = stretch.end - stretch.start;
    let bound = |side: Option<Beside>| side.map_or(0, |side| side.at_most_ns);
    let (left, right) = (bound(before), bound(after));
    let left = match u128::from(left) + u128::from(right) {
        both if both <= u128::from(length) => left,
        both => (u128::from(left) * u128::from(length) / both) as u64,
    };
    let right = right.min(length - left);
    let left = before.map(|side| (side.span, stretch.start..stretch.start + left));
    let right = after.map(|side| (side.span, stretch.end - right..stretch.end));
    left.into_iter().chain(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(length: u64, before: Option<u64>, after: Option<u64>) -> Vec<(usize, Range<u64>)> {
        let side = |span, at_most_ns: Option<u64>| at_most_ns.map(|at_most_ns| Beside { span, at_most_ns });
        divide(&(100..100 + length), side(0, before), side(1, after)).collect()
    }

    #[test]
    fn each_side_has_its_edge_and_the_middle_none() {
        assert_eq!(parts(50, Some(10), Some(20)), [(0, 100..110), (1, 130..150)]);
        assert_eq!(parts(50, None, Some(20)), [(1, 130..150)]);
        assert_eq!(parts(50, Some(10), None), [(0, 100..110)]);
        assert_eq!(parts(50, None, None), []);
    }

    #[test]
    fn a_stretch_too_short_for_both_is_divided_as_they_are() {
        assert_eq!(parts(30, Some(40), Some(20)), [(0, 100..120), (1, 120..130)]);
        assert_eq!(parts(5, Some(40), None), [(0, 100..105)]);
    }

    proptest! {
        #[test]
        fn no_side_exceeds_the_stretch_or_its_edge(
            length in 0..1_000_000u64,
            before in proptest::option::of(prop_oneof![0..2_000_000u64, Just(u64::MAX)]),
            after in proptest::option::of(prop_oneof![0..2_000_000u64, Just(u64::MAX)]),
        ) {
            let parts = parts(length, before, after);
            let mut at = 100;
            for (span, part) in parts {
                prop_assert!(part.start >= at && part.end <= 100 + length);
                let bound = if span == 0 { before } else { after };
                prop_assert!(part.end - part.start <= bound.unwrap_or(0));
                at = part.end;
            }
        }
    }
}
