// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a probe measures: its schedule, how long a row lasts, and the cycles of a row.

use std::num::NonZeroU64;
use std::time::Duration;

/// A row without an end of its own: large, and small enough that a start can be added to it.
const ENDLESS_NS: u64 = u64::MAX / 4;

/// A glow in the persistence picture halves this many times during a row.
const HALF_LIVES: f64 = 4.0;

/// Half-life of a glow where no end is known.
const ENDLESS_HALF_LIFE_S: f64 = 60.0;

/// When a measuring thread takes its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schedule {
    /// Without pause.
    Continuous,
    /// One each period, in nanoseconds.
    Periodic(NonZeroU64),
}

impl Schedule {
    /// The period, for evidence: absent where there is none.
    pub fn period_ns(self) -> Option<u64> {
        match self {
            Schedule::Continuous => None,
            Schedule::Periodic(period) => Some(period.get()),
        }
    }
}

/// How long a row lasts: whichever comes first. Where both are absent the user ends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Length {
    /// In nanoseconds.
    pub duration_ns: Option<u64>,
    /// In cycles.
    pub loops: Option<u64>,
}

impl Length {
    /// The duration, where one is known.
    pub fn duration(&self) -> Option<Duration> {
        self.duration_ns.filter(|ns| *ns < ENDLESS_NS).map(Duration::from_nanos)
    }

    /// How long a row lasts at the most whose longest period is `longest_ns`, in nanoseconds; `None` where
    /// only the user ends it.
    pub fn at_most_ns(&self, longest_ns: u64) -> Option<u64> {
        let loops_ns = self.loops.map(|loops| loops.saturating_mul(longest_ns));
        self.duration_ns.into_iter().chain(loops_ns).min()
    }

    /// Cycles at the most.
    pub fn most_loops(&self) -> u64 {
        self.loops.unwrap_or(u64::MAX)
    }

    /// A row that begins at `start_ns` of CLOCK_MONOTONIC.
    pub fn from(&self, start_ns: u64) -> Window {
        let duration_ns = self.duration_ns.unwrap_or(ENDLESS_NS);
        Window { start_ns, end_ns: start_ns.saturating_add(duration_ns), loops: self.most_loops() }
    }

    /// How soon a glow in the row's persistence picture halves, in seconds.
    pub fn half_life_s(&self) -> f64 {
        self.duration().map_or(ENDLESS_HALF_LIFE_S, |duration| duration.as_secs_f64() / HALF_LIVES)
    }
}

/// The recorded part of a row, on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When recording begins.
    pub start_ns: u64,
    /// No cycle is due from here on.
    pub end_ns: u64,
    /// Cycles to record at the most.
    pub loops: u64,
}

impl Window {
    /// Its cycles, one each `period`.
    pub fn cycles(&self, period: NonZeroU64) -> Cycles {
        let Window { start_ns, end_ns, loops } = *self;
        Cycles { period_ns: period.get(), start_ns, end_ns, loops }
    }
}

/// One row's cycle times.
#[derive(Debug, Clone, Copy)]
pub struct Cycles {
    /// The period; not 0.
    pub period_ns: u64,
    /// When the first recorded cycle is due; cycles before it warm up and are thrown away.
    pub start_ns: u64,
    /// No cycle is due from here on.
    pub end_ns: u64,
    /// Cycles to record at the most.
    pub loops: u64,
}

/// Periods that went by whole after a cycle that was due at `due_ns`, until `now_ns`, but for the one in
/// which that is.
#[inline(always)]
pub(crate) fn gone_by(due_ns: u64, now_ns: u64, period_ns: u64) -> u64 {
    now_ns.saturating_sub(due_ns + period_ns) / period_ns
}

/// Cycles that were missed by a thread that ran at `woke_ns` for one due at `due_ns`, in a row in which none
/// is due from `end_ns` on: a stall that outlasts the row misses nothing after it.
pub fn missed(due_ns: u64, woke_ns: u64, period_ns: u64, end_ns: u64) -> u64 {
    let next_ns = due_ns + period_ns;
    gone_by(due_ns, woke_ns, period_ns).min(end_ns.saturating_sub(next_ns).div_ceil(period_ns))
}

/// The distance of two cycles may stray by this part of the period: clocks drift, and sleeps are rounded.
const STRAYS: i64 = 10;

/// When the loop of another program is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// The time between two cycles.
    pub period: NonZeroU64,
    /// Whether due times do not depend on when cycles end, so that one can be missed.
    pub is_kept: bool,
}

impl Grid {
    /// How many periods fit a time, to the nearest.
    pub(crate) fn steps(self, ns: u64) -> u64 {
        ns.saturating_add(self.period.get() / 2) / self.period
    }

    /// Periods that were missed from one due time to another, `went_by_ns` later, `cycles` further on: seen
    /// or lost ones were run. `behind_ns` is the part of a period by which the loop is behind. A cycle that
    /// is late by less than a tenth does not count, and others miss a period together.
    pub(crate) fn missed(self, went_by_ns: u64, cycles: u64, behind_ns: &mut i64) -> u64 {
        if !self.is_kept {
            return 0;
        }
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        let period_ns = signed(self.period.get());
        let later_ns = signed(went_by_ns) - signed(cycles.saturating_mul(self.period.get()));
        if later_ns.abs() > period_ns / STRAYS {
            *behind_ns += later_ns;
        }
        let missed = (*behind_ns + period_ns / 2).div_euclid(period_ns).max(0);
        *behind_ns = (*behind_ns - missed * period_ns).max(-period_ns / 2);
        missed as u64
    }

    /// Periods that were missed at an edge of the row, in which no cycle was seen for so long. One cycle may
    /// have been under way there, so that it is unknown whether it was missed.
    pub(crate) fn missed_in_silence(self, silent_ns: u64) -> u64 {
        if self.is_kept { (silent_ns / self.period).saturating_sub(1) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_of_forty_periods_misses_thirty_nine_cycles_and_runs_the_fortieth_late() {
        let missed = |woke_ns| missed(0, woke_ns, 1_000_000, u64::MAX);
        assert_eq!([40_005_000, 999_999, 1_999_999, 2_000_000].map(missed), [39, 0, 0, 1]);
    }

    #[test]
    fn a_stall_that_outlasts_the_row_misses_nothing_after_it() {
        let missed = |end_ns| missed(7_000_000, 90_000_000, 1_000_000, end_ns);
        assert_eq!([8_000_000, 8_000_001, 10_000_000, 10_500_000].map(missed), [0, 1, 2, 3]);
        assert_eq!(missed(7_500_000), 0, "the row's last cycle");
    }

    #[test]
    fn a_loop_without_a_grid_misses_nothing() {
        let kept = Grid { period: NonZeroU64::new(1_000).unwrap(), is_kept: true };
        let free = Grid { is_kept: false, ..kept };
        assert_eq!([kept, free].map(|grid| grid.missed(7_000, 1, &mut 0)), [6, 0]);
        assert_eq!([kept, free].map(|grid| grid.missed_in_silence(7_900)), [6, 0]);
    }

    #[test]
    fn lost_cycles_are_not_missed_ones() {
        let grid = Grid { period: NonZeroU64::new(1_000).unwrap(), is_kept: true };
        assert_eq!(
            [(4_000, 1), (4_400, 4), (3_500, 2), (900, 3)].map(|(ns, n)| grid.missed(ns, n, &mut 0)),
            [3, 0, 2, 0]
        );
    }

    #[test]
    fn cycles_that_are_late_by_a_part_miss_periods_together() {
        let grid = Grid { period: NonZeroU64::new(1_000).unwrap(), is_kept: true };
        let missed = |distances: &[u64]| {
            let mut behind_ns = 0;
            distances.iter().map(|ns| grid.missed(*ns, 1, &mut behind_ns)).sum::<u64>()
        };
        assert_eq!(missed(&[1_400; 100]), 40);
        // Within what clocks and rounded sleeps stray, and on both sides of the grid.
        assert_eq!(missed(&[1_090; 100]), 0);
        assert_eq!(missed(&[1_300, 700, 1_300, 700, 1_300, 700]), 0);
        // Short distances are no credit.
        assert_eq!(missed(&[500, 500, 500, 3_000]), 2);
    }

    #[test]
    fn a_row_without_a_length_has_no_end() {
        let window = Length::default().from(7);
        assert!(window.end_ns > u64::MAX / 8 && window.loops == u64::MAX);
        assert_eq!(Length::default().duration(), None);
        let second = Length { duration_ns: Some(1_000_000_000), loops: Some(5) };
        assert_eq!(second.from(7), Window { start_ns: 7, end_ns: 1_000_000_007, loops: 5 });
        assert_eq!(second.half_life_s(), 0.25);
        assert_eq!(
            [1_000, 1_000_000_000].map(|ns| second.at_most_ns(ns)),
            [Some(5_000), Some(1_000_000_000)]
        );
        assert_eq!(Length::default().at_most_ns(1_000), None);
    }
}
