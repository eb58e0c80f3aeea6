// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pace of a loop that spins until each of its cycles is due: which one is next, whether it counts yet,
//! and which were missed.

use std::sync::atomic::{AtomicBool, Ordering};

use rt::clock::monotonic_ns;

use crate::samples::{Sample, Samples};
use crate::schedule::{Cycles, missed};

/// Where such a loop stands. The lab's scope sees the recorded part between two markers, the latter as this
/// goes.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    cycles: &'a Cycles,
    due_ns: u64,
    left: u64,
    begun: bool,
    is_marked: bool,
}

impl<'a> Pace<'a> {
    /// Before the first cycle that is due after `now_ns`: one of the warm-up, or the row's first.
    pub fn new(cycles: &'a Cycles, now_ns: u64) -> Pace<'a> {
        let ahead = cycles.start_ns.saturating_sub(now_ns) / cycles.period_ns;
        Pace {
            cycles,
            due_ns: cycles.start_ns - ahead * cycles.period_ns,
            left: cycles.loops,
            begun: false,
            is_marked: true,
        }
    }

    /// The same on a CPU that is not the measured one, which the scope does not watch.
    pub fn unmarked(mut self) -> Pace<'a> {
        self.is_marked = false;
        self
    }

    /// The cycles that it goes by.
    pub fn cycles(&self) -> &'a Cycles {
        self.cycles
    }

    /// When the next cycle is due; `None` where they are over.
    #[inline(always)]
    pub fn due_ns(&self) -> Option<u64> {
        (self.due_ns < self.cycles.end_ns && self.left > 0).then_some(self.due_ns)
    }

    /// Spins until the next cycle is due, and begins it; `None` where they are over, or `stop` is set.
    #[inline(always)]
    pub fn wait(&mut self, stop: &AtomicBool) -> Option<u64> {
        let due_ns = self.due_ns()?;
        while monotonic_ns() < due_ns && !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        // Also where the cycle was due already.
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        self.begin();
        Some(due_ns)
    }

    /// The cycle is due.
    #[inline(always)]
    pub fn begin(&mut self) {
        if self.due_ns >= self.cycles.start_ns && !self.begun {
            self.begun = true;
            if self.is_marked {
                rt::scope::begin();
            }
        }
    }

    /// The cycle is over, and this is what it gave; periods that went by meanwhile are missed.
    #[inline(always)]
    pub fn end(&mut self, sample: Sample, samples: &mut Samples) {
        let Cycles { period_ns, start_ns, end_ns, .. } = *self.cycles;
        let gone_by = missed(self.due_ns, sample.woke_ns, period_ns, end_ns);
        self.due_ns += (1 + gone_by) * period_ns;
        if self.begun {
            samples.send(sample);
            self.left = self.left.saturating_sub(1 + gone_by);
        } else {
            // The row's first cycle is not one that the warm-up missed.
            self.due_ns = self.due_ns.min(start_ns);
        }
    }
}

impl Drop for Pace<'_> {
    fn drop(&mut self) {
        if self.begun && self.is_marked {
            rt::scope::end();
        }
    }
}
