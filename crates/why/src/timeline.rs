// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who had the CPU at each moment of a spike, from causes whose durations are exclusive.
//!
//! The context that began last has the CPU until its own time is used up; then what it interrupted goes on.

use evidence::cause::Cause;

/// A part of a timeline: a stretch of a spike in which one cause had the CPU, or none is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelinePart {
    /// From the spike's beginning.
    pub from_ns: u64,
    /// Where it ends.
    pub to_ns: u64,
    /// Which cause, by its place among them; `None` where nothing is known.
    pub cause: Option<usize>,
}

/// The stretches of a spike of `latency_ns`, without a gap; suspects have none.
pub fn timeline(latency_ns: u64, causes: &[Cause]) -> Vec<TimelinePart> {
    let timed = |(place, cause): (usize, &Cause)| Some((cause.begin_ns?, cause.duration_ns?, place));
    let mut coming: Vec<_> = causes.iter().enumerate().filter_map(timed).collect();
    coming.sort_by_key(|(begin_ns, _, place)| (*begin_ns, *place));
    let mut coming = coming.into_iter().peekable();
    let mut begun: Vec<(u64, usize)> = Vec::new();
    let (mut stretches, mut now_ns) = (Vec::<TimelinePart>::new(), 0);
    while now_ns < latency_ns {
        while let Some((_, left_ns, place)) = coming.next_if(|(begin_ns, ..)| *begin_ns <= now_ns) {
            begun.push((left_ns, place));
        }
        while begun.pop_if(|(left_ns, _)| *left_ns == 0).is_some() {}
        let next_ns = coming.peek().map_or(latency_ns, |(begin_ns, ..)| *begin_ns).min(latency_ns);
        let (to_ns, cause) = match begun.last_mut() {
            Some((left_ns, place)) => {
                let ran_ns = (next_ns - now_ns).min(*left_ns);
                *left_ns -= ran_ns;
                (now_ns + ran_ns, Some(*place))
            }
            None => (next_ns, None),
        };
        match stretches.last_mut() {
            Some(last) if last.cause == cause => last.to_ns = to_ns,
            _ => stretches.push(TimelinePart { from_ns: now_ns, to_ns, cause }),
        }
        now_ns = to_ns;
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::cause::CauseKind;
    use proptest::prelude::*;

    fn of(latency_ns: u64, causes: &[(u64, u64)]) -> Vec<(u64, u64, Option<usize>)> {
        let causes: Vec<_> =
            causes.iter().map(|(begin, ns)| Cause::timed(CauseKind::Irq, "x", *begin, *ns)).collect();
        timeline(latency_ns, &causes).iter().map(|one| (one.from_ns, one.to_ns, one.cause)).collect()
    }

    #[test]
    fn what_was_interrupted_goes_on_afterwards() {
        let nested = of(20, &[(2, 10), (5, 3)]);
        let expected = [(0, 2, None), (2, 5, Some(0)), (5, 8, Some(1)), (8, 15, Some(0)), (15, 20, None)];
        assert_eq!(nested, expected);
    }

    #[test]
    fn what_is_longer_than_the_spike_ends_with_it() {
        assert_eq!(of(10, &[(4, u64::MAX)]), [(0, 4, None), (4, 10, Some(0))]);
        assert_eq!(of(0, &[(0, 5)]), []);
        assert_eq!(of(10, &[(10, 5), (0, 0)]), [(0, 10, None)]);
    }

    proptest! {
        #[test]
        fn stretches_give_no_cause_more_than_its_time(
            length in 0u64..1000,
            causes in prop::collection::vec((0u64..1200, 0u64..400), 0..12),
        ) {
            let stretches = of(length, &causes);
            let mut at = 0;
            let mut had = vec![0; causes.len()];
            for (from, to, cause) in stretches {
                prop_assert!(from == at && to > from);
                at = to;
                if let Some(place) = cause {
                    prop_assert!(from >= causes[place].0);
                    had[place] += to - from;
                }
            }
            prop_assert_eq!(at, length);
            prop_assert!(had.iter().zip(&causes).all(|(had, (_, ns))| had <= ns));
        }
    }
}
