// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a loop still has its period: from each cycle's distance to the one before, and its sleep.
//!
//! ```text
//! every 1 ms            1 ms            2 ms            2 ms         … 2 ms
//! keeps                 keeps           held            held           changed, from the first that was held
//! ```
//! A loop that changes its period sleeps for longer, or shorter, by about as much. One whose cycles only take
//! longer is late. Neither is decided by a single cycle: those that are off by the same time are held until
//! there are enough. A loop that catches up has not become faster.

use std::num::NonZeroU64;

use machine::purpose::is_same_period;

/// Cycles, and their time, that decide; and the most that are held.
const FEWEST: u64 = 8;
const LEAST_NS: u64 = 50_000_000;
const MOST: u64 = 4_096;

/// The part of a delay that is forgotten with each cycle that keeps the period: relative sleeps never make
/// up for one.
const FORGOTTEN: i64 = 64;

/// The weight of a new sleep in the usual one.
const WEIGHT: i64 = 16;

/// The decision on a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// It has the period, or is off alone: it belongs to the period's series, and those that are held too.
    Keeps,
    /// It is off: later ones decide.
    Held,
    /// It is off, and unlike those that are held, which keep the period.
    HeldAnew,
    /// The loop has had this period since the first one that is held.
    Changed(NonZeroU64),
}

/// Cycles in a row that are off by about the same time.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    cycles: u64,
    ns: u64,
    /// Those whose sleep differed likewise.
    chosen: u64,
}

/// A loop's period so far.
#[derive(Debug)]
pub(crate) struct Rhythm {
    period: NonZeroU64,
    /// Whether it may change: not where the user gave it.
    may_change: bool,
    usual_sleep_ns: Option<i64>,
    /// How far it is behind, until it catches up.
    behind_ns: i64,
    run: Run,
    is_slow: bool,
}

impl Rhythm {
    pub(crate) fn new(period: NonZeroU64, may_change: bool) -> Rhythm {
        let run = Run::default();
        Rhythm { period, may_change, usual_sleep_ns: None, behind_ns: 0, run, is_slow: false }
    }

    /// Whether its cycles take longer than they did, so that they come later than the period.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Whether it may change its period.
    pub(crate) fn may_change(&self) -> bool {
        self.may_change
    }

    /// Nothing is known of the time before the next cycle.
    pub(crate) fn restart(&mut self) {
        self.run = Run::default();
    }

    /// A cycle that was due `interval_ns` after the one before, and `slept_ns` after the end of that.
    pub(crate) fn next(&mut self, interval_ns: u64, slept_ns: i64) -> Beat {
        let period_ns = self.period.get();
        let longer_ns = signed(interval_ns) - signed(period_ns);
        let was_behind_ns = self.behind_ns;
        self.behind_ns = was_behind_ns.saturating_add(longer_ns).max(0);
        if is_same_period(interval_ns, period_ns) {
            self.behind_ns -= self.behind_ns / FORGOTTEN;
            let usual_ns = self.usual_sleep_ns.unwrap_or(slept_ns);
            self.usual_sleep_ns = Some(usual_ns + (slept_ns - usual_ns) / WEIGHT);
            (self.run, self.is_slow) = (Run::default(), false);
            return Beat::Keeps;
        }
        let catches_up = longer_ns < 0 && was_behind_ns > 0;
        if catches_up || (self.is_slow && longer_ns > 0) {
            self.run = Run::default();
            return Beat::Keeps;
        }
        let is_chosen = self.usual_sleep_ns.is_none_or(|usual_ns| {
            let more_ns = slept_ns - usual_ns;
            more_ns.signum() == longer_ns.signum() && 2 * more_ns.abs() >= longer_ns.abs()
        });
        let is_alike = self.run.cycles == 0 || is_same_period(interval_ns, self.run.ns / self.run.cycles);
        if !is_alike {
            self.run = Run::default();
        }
        self.run.cycles += 1;
        self.run.ns = self.run.ns.saturating_add(interval_ns);
        self.run.chosen += u64::from(is_chosen);
        let Run { cycles, ns, chosen } = self.run;
        if cycles < FEWEST || (ns < LEAST_NS && cycles < MOST) {
            return if is_alike { Beat::Held } else { Beat::HeldAnew };
        }
        self.run = Run::default();
        match NonZeroU64::new(ns / cycles) {
            Some(period) if self.may_change && 2 * chosen > cycles => {
                *self = Rhythm::new(period, true);
                Beat::Changed(period)
            }
            _ => {
                self.is_slow = longer_ns > 0;
                Beat::Keeps
            }
        }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rhythm(may_change: bool) -> Rhythm {
        Rhythm::new(NonZeroU64::new(50 * MS).unwrap(), may_change)
    }

    /// The decisions on cycles at these distances, in ms, of which each works for so many.
    fn beats(rhythm: &mut Rhythm, cycles: &[(u64, u64)]) -> Vec<Beat> {
        cycles.iter().map(|(ms, works)| rhythm.next(ms * MS, signed(ms * MS) - signed(works * MS))).collect()
    }

    fn changes(beats: &[Beat]) -> Vec<u64> {
        let changed = |beat: &Beat| match beat {
            Beat::Changed(period) => Some(period.get() / MS),
            _ => None,
        };
        beats.iter().filter_map(changed).collect()
    }

    #[test]
    fn a_loop_that_sleeps_for_longer_has_changed_its_period() {
        let mut loop_of = rhythm(true);
        let cycles = [[(50, 5); 20], [(70, 5); 20], [(50, 5); 20], [(20, 5); 20]].concat();
        let beats = beats(&mut loop_of, &cycles);
        assert_eq!(changes(&beats), [70, 50, 20]);
        assert!(!loop_of.is_slow());
        let held = beats[20..].iter().take_while(|beat| **beat == Beat::Held).count();
        assert_eq!(held as u64, FEWEST - 1);
    }

    #[test]
    fn a_loop_that_works_for_longer_is_slow() {
        let mut loop_of = rhythm(true);
        let slow = [[(50, 5); 20], [(70, 25); 20]].concat();
        assert!(changes(&beats(&mut loop_of, &slow)).is_empty());
        assert!(loop_of.is_slow());
        beats(&mut loop_of, &[(50, 5)]);
        assert!(!loop_of.is_slow());
    }

    #[test]
    fn a_loop_that_skips_every_second_period_is_slow() {
        let mut loop_of = rhythm(true);
        let cycles = [[(50, 5); 20], [(100, 65); 20]].concat();
        assert!(changes(&beats(&mut loop_of, &cycles)).is_empty());
        assert!(loop_of.is_slow());
    }

    #[test]
    fn a_given_period_does_not_change() {
        let mut loop_of = rhythm(false);
        assert!(changes(&beats(&mut loop_of, &[[(50, 5); 20], [(70, 5); 20]].concat())).is_empty());
        assert!(loop_of.is_slow());
    }

    #[test]
    fn few_cycles_decide_nothing() {
        let mut loop_of = rhythm(true);
        let odd = [(50, 5), (70, 5), (70, 5), (50, 5), (90, 5), (30, 5), (200, 5), (50, 5)];
        let expected = [
            Beat::Keeps,
            Beat::Held,
            Beat::Held,
            Beat::Keeps,
            Beat::Held,
            Beat::Keeps,
            Beat::Held,
            Beat::Keeps,
        ];
        assert_eq!(beats(&mut loop_of, &odd), expected);
        assert!(!loop_of.is_slow());
    }

    #[test]
    fn a_loop_that_catches_up_is_not_faster() {
        let mut loop_of = rhythm(true);
        let cycles = [vec![(50, 5); 20], vec![(2_050, 5)], vec![(5, 0); 40], vec![(50, 5); 20]].concat();
        assert!(changes(&beats(&mut loop_of, &cycles)).is_empty());
    }
}
