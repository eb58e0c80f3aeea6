// SPDX-License-Identifier: MIT OR Apache-2.0
//! The toggle probe: an edge each period, by the processor's counter alone, and how late each came.
//!
//! ```text
//! due      │        │        │        │
//! channel ─┘▔▔▔▔▔▔▔▔▔▔└────────┘▔▔▔▔▔▔▔└──    a word of memory, stored to: what an output register would be
//!           late ►  ◄
//! ```
//! The thread never sleeps: it reads the counter until an edge is due, stores, and reads the counter again.
//! So an edge is as late as what took the CPU, plus the store: no timer, no scheduler, no wakeup in between.
//! Needs a CPU for itself. Periods that pass while it is late are missed, as with the wakeup probe.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, fence};

use evidence::manifest::Granted;

use rt::clock::{Calibration, counter, paired};

use crate::error::Result;
use crate::pace::Pace;
use crate::probe::{HotLoop, Opened, Opening, Probe};
use crate::samples::{Sample, Samples};
use crate::schedule::{Cycles, Schedule, Window};

/// The probe on one CPU.
#[derive(Debug, Clone, Copy)]
pub struct ToggleProbe {
    /// The counter's rate.
    pub clock: Calibration,
    /// Its period, in nanoseconds.
    pub period: NonZeroU64,
}

impl Probe for ToggleProbe {
    fn schedule(&self) -> Schedule {
        Schedule::Periodic(self.period)
    }

    fn open(self: Box<Self>, opening: &Opening<'_>) -> Result<Opened> {
        let ToggleProbe { clock, period } = *self;
        opening.of_cycles(period, move |samples| {
            Ok(Toggler { clock, period, channel: Channel::default(), samples })
        })
    }
}

/// The armed probe.
struct Toggler {
    clock: Calibration,
    period: NonZeroU64,
    channel: Channel,
    samples: Samples,
}

impl HotLoop for Toggler {
    fn add_to(&self, granted: &mut Granted) {
        granted.counter_hz = Some(self.clock.hz);
    }

    fn run(&mut self, window: &Window, stop: &AtomicBool) {
        run(&window.cycles(self.period), &self.clock, &self.channel, &mut self.samples, stop);
    }
}

/// A line of memory of its own, so that nothing else that is stored moves it between caches.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Channel(AtomicU64);

impl Channel {
    #[inline(always)]
    fn toggle(&self) {
        self.0.store(self.0.load(Relaxed) ^ 1, Relaxed);
        // The store does not wait in the processor until the next one is due.
        fence(std::sync::atomic::Ordering::SeqCst);
    }
}

/// How often the counter is set against CLOCK_MONOTONIC.
const LOOK_NS: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC by the counter. A rate that is off by a millionth would be 86 ms off after a day, and a
/// jump would be an edge too early or too late: so the line bends a little, once a second, towards where it
/// should be a second later.
struct MonotonicFit {
    first: (u64, u64),
    from: (u64, u64),
    ticks_per_ns: f64,
}

impl MonotonicFit {
    fn new(clock: &Calibration) -> MonotonicFit {
        let now = paired();
        MonotonicFit { first: now, from: now, ticks_per_ns: clock.hz as f64 / 1e9 }
    }

    #[inline(always)]
    fn ticks(&self, ns: u64) -> u64 {
        self.from.1 + (ns.saturating_sub(self.from.0) as f64 * self.ticks_per_ns) as u64
    }

    #[inline(always)]
    fn ns(&self, ticks: u64) -> u64 {
        self.from.0 + (ticks.saturating_sub(self.from.1) as f64 / self.ticks_per_ns) as u64
    }

    /// Both clocks say `now`.
    fn bend(&mut self, now: (u64, u64)) {
        let rate = (now.1 - self.first.1) as f64 / (now.0 - self.first.0).max(1) as f64;
        let here_ns = self.ns(now.1);
        // From where it is to where it should be, in the ticks of a second; at most 1 % steeper or flatter.
        let way_ns = (now.0 + LOOK_NS).saturating_sub(here_ns) as f64;
        let ticks = LOOK_NS as f64 * rate;
        self.ticks_per_ns = (ticks / way_ns.max(1.0)).clamp(rate * 0.99, rate * 1.01);
        self.from = (here_ns, now.1);
    }
}

/// Runs until `cycles` are over or `stop` is set. After the warm-up it makes no system call, takes no lock
/// and allocates nothing.
pub fn run(
    cycles: &Cycles,
    clock: &Calibration,
    channel: &Channel,
    samples: &mut Samples,
    stop: &AtomicBool,
) {
    let mut line = MonotonicFit::new(clock);
    let mut look_ns = line.from.0 + LOOK_NS;
    let mut pace = Pace::new(cycles, line.from.0);
    while let Some(due_ns) = pace.due_ns() {
        let due = line.ticks(due_ns);
        while counter() < due && !stop.load(Relaxed) {
            std::hint::spin_loop();
        }
        if stop.load(Relaxed) {
            break;
        }
        pace.begin();
        channel.toggle();
        let woke_ns = line.ns(counter()).max(due_ns);
        pace.end(Sample { due_ns, woke_ns }, samples);
        if woke_ns >= look_ns {
            look_ns = woke_ns + LOOK_NS;
            line.bend(paired());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rt::clock::monotonic_ns;

    use super::*;
    use crate::samples::sample_ring;
    use crate::schedule::missed;

    const PERIOD: u64 = 50_000;

    fn measured(ahead_ns: u64, length: u64, loops: u64) -> (Vec<Sample>, u64, u64) {
        let clock = Calibration::measure(Duration::from_millis(5)).unwrap();
        let (mut samples, mut arrivals) = sample_ring(PERIOD);
        let channel = Channel::default();
        let start_ns = monotonic_ns() + ahead_ns;
        let cycles = Cycles { period_ns: PERIOD, start_ns, end_ns: start_ns + length * PERIOD, loops };
        run(&cycles, &clock, &channel, &mut samples, &AtomicBool::new(false));
        (std::iter::from_fn(|| arrivals.take()).collect(), start_ns, channel.0.load(Relaxed))
    }

    #[test]
    fn an_edge_is_due_each_period_and_those_gone_by_are_left_out() {
        let (samples, start_ns, _) = measured(10 * PERIOD + 7, 400, u64::MAX);
        assert_eq!(samples[0].due_ns, start_ns);
        for pair in samples.windows(2) {
            let gone_by = missed(pair[0].due_ns, pair[0].woke_ns, PERIOD, u64::MAX);
            assert_eq!(pair[1].due_ns - pair[0].due_ns, (1 + gone_by) * PERIOD, "{pair:?}");
            assert!(pair[1].woke_ns >= pair[1].due_ns, "{pair:?}");
        }
    }

    #[test]
    fn loops_end_it_and_a_missed_edge_is_one_of_them() {
        let (samples, _, level) = measured(0, 1 << 40, 50);
        let gone_by = samples.iter().map(|sample| missed(sample.due_ns, sample.woke_ns, PERIOD, u64::MAX));
        assert!(samples.len() <= 50 && samples.len() as u64 + gone_by.sum::<u64>() >= 50);
        assert_eq!(level, samples.len() as u64 % 2);
    }

    #[test]
    fn the_line_bends_to_the_clock_and_never_jumps() {
        // A counter of 3 GHz that was taken to run at 2.99.
        let true_ticks = |ns: u64| 1_000_000 + ns * 3;
        let mut line = MonotonicFit { first: (0, 1_000_000), from: (0, 1_000_000), ticks_per_ns: 2.99 };
        let off = |line: &MonotonicFit, ns: u64| line.ns(true_ticks(ns)).abs_diff(ns);
        assert!(off(&line, LOOK_NS) > 1_000_000);
        for second in 1..=5 {
            let (now_ns, now) = (second * LOOK_NS, true_ticks(second * LOOK_NS));
            let before_ns = line.ns(now);
            line.bend((now_ns, now));
            assert_eq!(line.ns(now), before_ns, "a jump at second {second}");
        }
        assert!(off(&line, 6 * LOOK_NS) < 10, "{}", off(&line, 6 * LOOK_NS));
    }
}
