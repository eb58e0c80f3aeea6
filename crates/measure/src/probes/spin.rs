// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spin probe: read the processor's counter without pause; whatever lies between two readings is a gap.
//!
//! The loop reads `BATCH` times and then accounts for those gaps together: a processor may let nothing
//! overtake a reading of its counter (AMD's do), so that what follows each reading is paid for in full. An
//! ordinary gap is one load and one store: those below `SHORT` ticks are counted by their number of ticks and
//! become nanoseconds when the control thread reads them. The loop's own bookkeeping (gaps accounted for, a
//! second handed on, a spike listed) is not cut out: it shows as a short gap, so that the record has no hole.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use evidence::manifest::{Granted, Second};
use evidence::series::SWEEP_COLUMNS;
use rt::clock::{Calibration, counter, monotonic_ns, paired};

use crate::drain::Drain;
use crate::error::Result;
use crate::probe::{HotLoop, LoopOutcome, Opened, Opening, Probe};
use crate::recorder::Recorder;
use crate::schedule::{Schedule, Window};
use crate::short_gaps::SHORT;
pub use crate::short_gaps::ShortGaps;

/// Readings that are accounted for together.
const BATCH: usize = 16;

/// How often in a second the loop looks whether it shall stop.
const LOOKS: u64 = 32;

/// A column of the persistence picture: a sweep of 100 is as long as a wakeup sweep at 1 kHz.
const COLUMN_NS: u64 = 1_000_000;

/// The probe on one CPU.
#[derive(Debug, Clone, Copy)]
pub struct SpinProbe {
    /// The counter's rate.
    pub clock: Calibration,
}

impl Probe for SpinProbe {
    fn schedule(&self) -> Schedule {
        Schedule::Continuous
    }

    fn open(self: Box<Self>, opening: &Opening<'_>) -> Result<Opened> {
        let SpinProbe { clock } = *self;
        let (recorder, short, drain) =
            Drain::gaps(opening.series, clock, opening.bundle, opening.half_life_s)?;
        let threshold_ns = opening.series.threshold_ns;
        let arm = move || -> rt::Result<Box<dyn HotLoop>> {
            Ok(Box::new(Spinner { clock, threshold_ns, recorder, short, drift: None }))
        };
        Ok(Opened { arm: Box::new(arm), drained: vec![(opening.series.clone(), drain)] })
    }
}

/// The armed probe.
struct Spinner {
    clock: Calibration,
    threshold_ns: u64,
    recorder: Recorder,
    short: ShortGaps,
    drift: Option<f64>,
}

impl HotLoop for Spinner {
    fn add_to(&self, granted: &mut Granted) {
        granted.counter_hz = Some(self.clock.hz);
    }

    fn run(&mut self, window: &Window, stop: &AtomicBool) {
        let Window { start_ns, end_ns, .. } = *window;
        let spell = Spell { start_ns, end_ns, threshold_ns: self.threshold_ns, column_ns: COLUMN_NS };
        self.drift = Some(run(&spell, &self.clock, &self.short, &mut self.recorder, stop));
    }

    fn ended(mut self: Box<Self>) -> LoopOutcome {
        self.recorder.finish();
        LoopOutcome { drift: self.drift, ..LoopOutcome::default() }
    }
}

/// One row's times.
#[derive(Debug, Clone, Copy)]
pub struct Spell {
    /// When recording begins, CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ends.
    pub end_ns: u64,
    /// The threshold above which a gap is a spike.
    pub threshold_ns: u64,
    /// Length of one column of the persistence sweep.
    pub column_ns: u64,
}

/// Runs until the spell is over or `stop` is set. Returns how far the counter was off: (its length of the row
/// / CLOCK_MONOTONIC's) - 1.
pub fn run(
    spell: &Spell,
    clock: &Calibration,
    short: &ShortGaps,
    recorder: &mut Recorder,
    stop: &AtomicBool,
) -> f64 {
    while monotonic_ns() < spell.start_ns && !stop.load(Relaxed) {
        std::hint::spin_loop();
    }
    let short = short.counts();
    let short_below = clock.ticks(spell.threshold_ns).min(SHORT as u64);
    let (base_ns, base) = paired();
    let start_ns = base_ns;
    recorder.start(start_ns);
    let look_ticks = clock.hz / LOOKS;
    let end = base + clock.ticks(spell.end_ns.saturating_sub(start_ns));
    let (mut second, mut looks) = (0u32, 0u64);
    let mut tally = SpinSecond::new(base);
    let mut next_look = base + look_ticks;
    rt::scope::begin();
    let mut last = counter();
    loop {
        // Read first, all of them: see the file's head.
        let readings: [u64; BATCH] = std::array::from_fn(|_| counter());
        for now in readings {
            let gap = now.saturating_sub(last);
            if gap < short_below {
                let slot = &short[gap as usize & (SHORT - 1)];
                slot.store(slot.load(Relaxed) + 1, Relaxed);
            } else {
                // Asked of the clock itself: a rate that is off by a millionth would be 86 ms off after a
                // day.
                let opened_ns = monotonic_ns().saturating_sub(clock.ns(counter().saturating_sub(last)));
                let column = (opened_ns.saturating_sub(start_ns) / spell.column_ns) as usize % SWEEP_COLUMNS;
                recorder.gap(opened_ns, clock.ns(gap), column);
            }
            tally.shortest = tally.shortest.min(gap);
            tally.longest = tally.longest.max(gap);
            last = now;
        }
        tally.iterations += BATCH as u64;
        let now = last;
        if now < next_look {
            continue;
        }
        next_look = now + look_ticks;
        looks += 1;
        let over = now >= end || stop.load(Relaxed);
        if looks.is_multiple_of(LOOKS) || over {
            recorder.push_counted(tally.second(second, now, clock));
            tally = SpinSecond::new(now);
            second = (clock.ns(now.saturating_sub(base)) / 1_000_000_000) as u32;
        }
        if over {
            break;
        }
    }
    rt::scope::end();
    let (last_ns, last) = paired();
    clock.ns(last.saturating_sub(base)) as f64 / last_ns.saturating_sub(base_ns).max(1) as f64 - 1.0
}

/// One second of the loop, in ticks.
struct SpinSecond {
    since: u64,
    iterations: u64,
    shortest: u64,
    longest: u64,
}

impl SpinSecond {
    fn new(since: u64) -> Self {
        SpinSecond { since, iterations: 0, shortest: u64::MAX, longest: 0 }
    }

    fn second(&self, second: u32, now: u64, clock: &Calibration) -> Second {
        Second {
            second,
            count: self.iterations,
            min_ns: clock.ns(self.shortest),
            sum_ns: clock.ns(now.saturating_sub(self.since)),
            max_ns: clock.ns(self.longest),
            missed: 0,
        }
    }
}
