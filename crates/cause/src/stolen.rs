// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hypervisor's clock of the time that it took from a CPU, between readings.
//!
//! Two readings say how much was taken between them, and not when. A stretch in which the kernel ran nothing
//! gets all of it. An occupant loses only the part that fits nowhere else.

use std::ops::Range;

/// Readings of one CPU's clock in and around a window.
#[derive(Debug, Default)]
pub struct StealClock {
    last: Option<(u64, u64)>,
    /// The time between two readings, and how much was taken in it that no stretch has yet.
    parts: Vec<(Range<u64>, u64)>,
}

impl StealClock {
    /// The clock said `stolen_ns` at that time.
    pub fn read(&mut self, at_ns: u64, stolen_ns: u64) {
        if let Some((from_ns, before_ns)) = self.last {
            let taken = stolen_ns.saturating_sub(before_ns).min(at_ns.saturating_sub(from_ns));
            self.parts.push((from_ns..at_ns, taken));
        }
        self.last = Some((at_ns, stolen_ns));
    }

    /// Forgets what is not in `window`.
    pub fn keep(&mut self, window: &Range<u64>) {
        self.parts.retain(|(part, _)| overlap(part, window) > 0);
    }

    /// Whether readings surround all of `time`.
    pub fn covers(&self, time: &Range<u64>) -> bool {
        let covered: u64 = self.parts.iter().map(|(part, _)| overlap(part, time)).sum();
        covered == time.end.saturating_sub(time.start)
    }

    /// Takes what may have been stolen in `time`, in which the kernel ran nothing.
    pub fn take(&mut self, time: &Range<u64>) -> u64 {
        let taken = self.parts.iter_mut().map(|(part, left)| {
            let taken = overlap(part, time).min(*left);
            *left -= taken;
            taken
        });
        taken.sum()
    }

    /// Takes what was certainly stolen from `times`, in order: no other time between the readings has room
    /// for it. Each with how much.
    pub fn take_certain(&mut self, times: &[Range<u64>]) -> Vec<u64> {
        let mut taken = vec![0; times.len()];
        for (part, left) in &mut self.parts {
            let ran: u64 = times.iter().map(|time| overlap(part, time)).sum();
            let elsewhere = (part.end - part.start).saturating_sub(ran);
            for (time, taken) in times.iter().zip(&mut taken) {
                let certain = left.saturating_sub(elsewhere).min(overlap(part, time));
                *left -= certain;
                *taken += certain;
            }
        }
        taken
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(readings: &[(u64, u64)]) -> StealClock {
        let mut clock = StealClock::default();
        readings.iter().for_each(|(at_ns, stolen_ns)| clock.read(*at_ns, *stolen_ns));
        clock
    }

    #[test]
    fn stretches_share_what_was_stolen_once() {
        let mut clock = clock(&[(100, 1_000), (200, 1_030), (300, 1_030)]);
        assert!(clock.covers(&(150..250)) && !clock.covers(&(150..301)));
        assert_eq!([clock.take(&(150..170)), clock.take(&(180..250)), clock.take(&(100..110))], [20, 10, 0]);
    }

    #[test]
    fn a_thread_loses_only_what_fits_nowhere_else() {
        // 90 of 100 were stolen; the thread ran for 60 of them.
        let readings = [(100, 0), (200, 90)];
        assert_eq!(clock(&readings).take_certain(&[110..150, 160..180]), [40, 10]);
        assert_eq!(clock(&readings).take_certain(std::slice::from_ref(&(195..200))), [0]);
        // A clock that went back, or runs ahead.
        assert_eq!(clock(&[(100, 50), (200, 0)]).take(&(100..200)), 0);
        assert_eq!(clock(&[(100, 0), (200, 5_000)]).take(&(0..900)), 100);
    }
}
