// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of one measuring thread, and how the control thread reads them without stopping it.
//!
//! The measuring side ([`Recorder`]) adds to flat arrays of counts and pushes finished seconds and spikes
//! into two rings; it never allocates, locks, waits or calls the kernel. The control side ([`LiveSeries`])
//! reads the same arrays whenever it likes. Each counter has one writer, so a relaxed load and store suffice;
//! a reader may see a sample in one array before it sees it in another, which the next reading mends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use evidence::histogram::{BUCKETS, index};
use evidence::manifest::Second;
use evidence::series::{LEVEL_SHIFT, LEVELS, SWEEP_COLUMNS};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::schedule::Schedule;
use crate::tally::Tally;

/// Seconds that the control thread may be late before rows are joined: over a quarter of an hour.
const SECONDS_RING: usize = 1024;

/// The same where the control thread records itself, and hands on at each poll.
pub(crate) const FEW_SECONDS: usize = 64;

/// Spikes that may wait for the control thread: those of two seconds in which every cycle is one.
const SPIKES_RING: std::ops::RangeInclusive<u64> = 1_024..=8_192;

fn spikes_ring(period_ns: u64) -> usize {
    let cycles = (2 * SECOND_NS).checked_div(period_ns).unwrap_or(u64::MAX);
    cycles.clamp(*SPIKES_RING.start(), *SPIKES_RING.end()) as usize
}

const SECOND_NS: u64 = 1_000_000_000;

/// A spike as the measuring thread saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawSpike {
    /// When the timer was due, or the gap opened: CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// How late, or how long.
    pub latency_ns: u64,
    /// Periods missed because of it.
    pub missed: u64,
}

/// The counts that both sides share.
#[derive(Debug)]
pub struct SharedCounts {
    /// Latencies by bucket.
    pub latency: Tally,
    /// Intervals shorter than the period, by bucket of the difference.
    pub early: Tally,
    /// Other intervals, by bucket of the difference.
    pub late: Tally,
    /// Persistence cells, `level * SWEEP_COLUMNS + column`: the few levels of a series lie on few pages.
    cells: Tally,
    /// The latest sample.
    last_ns: AtomicU64,
    /// Spikes above the threshold, those that found the ring full included.
    spikes: AtomicU64,
    /// Spikes that found the ring full.
    spikes_lost: AtomicU64,
}

impl SharedCounts {
    fn new(period_ns: u64) -> Self {
        SharedCounts {
            latency: Tally::new(BUCKETS),
            // No interval is shorter by more than the period, and most of the layout, in locked memory, lies
            // above.
            early: Tally::new(index(period_ns) + 1),
            late: Tally::new(BUCKETS),
            cells: Tally::new(SWEEP_COLUMNS * LEVELS),
            last_ns: AtomicU64::new(0),
            spikes: AtomicU64::new(0),
            spikes_lost: AtomicU64::new(0),
        }
    }

    /// Non-empty jitter buckets with their totals; `-1 - index` where the interval was short.
    pub fn jitter(&self) -> impl Iterator<Item = (isize, u64)> + '_ {
        let early = self.early.totals().map(|(index, count)| (-1 - index as isize, count));
        early.chain(self.late.totals().map(|(index, count)| (index as isize, count)))
    }

    /// Persistence cells with their totals, as a bundle numbers them: `column * LEVELS + level`.
    pub fn cells(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let numbered = |cell: usize| cell % SWEEP_COLUMNS * LEVELS + cell / SWEEP_COLUMNS;
        self.cells.totals().map(move |(cell, count)| (numbered(cell), count))
    }

    /// The latest sample.
    pub fn last_ns(&self) -> u64 {
        self.last_ns.load(Relaxed)
    }

    /// Spikes above the threshold so far, and how many of them were lost because the ring was full.
    pub fn spikes(&self) -> (u64, u64) {
        (self.spikes.load(Relaxed), self.spikes_lost.load(Relaxed))
    }
}

/// The control thread's side of one series.
#[derive(Debug)]
pub struct LiveSeries {
    /// The shared counts.
    pub counts: Arc<SharedCounts>,
    seconds: Consumer<Second>,
    spikes: Consumer<RawSpike>,
}

impl LiveSeries {
    /// Touches the memory of all counts: the measuring thread takes no page fault for them.
    pub fn touch(&self) {
        let SharedCounts { latency, early, late, cells, .. } = &*self.counts;
        [latency, early, late, cells].into_iter().for_each(Tally::touch);
    }

    /// Seconds that were finished since the last call.
    pub fn take_seconds(&mut self) -> Vec<Second> {
        std::iter::from_fn(|| self.seconds.pop().ok()).collect()
    }

    /// Spikes since the last call.
    pub fn take_spikes(&mut self) -> Vec<RawSpike> {
        std::iter::from_fn(|| self.spikes.pop().ok()).collect()
    }
}

/// The measuring thread's side of one series.
#[derive(Debug)]
pub struct Recorder {
    counts: Arc<SharedCounts>,
    seconds: Producer<Second>,
    spikes: Producer<RawSpike>,
    threshold_ns: u64,
    period_ns: u64,
    start_ns: u64,
    second_end_ns: u64,
    second: Second,
    /// Recorded samples, and periods missed, in all.
    samples: u64,
    missed: u64,
    column: usize,
}

/// Makes both sides of a series; `threshold_ns` is the latency above which a sample is a spike. Only one with
/// a period counts wakeups.
pub fn recorder(threshold_ns: u64, schedule: Schedule) -> (Recorder, LiveSeries) {
    with_room(threshold_ns, schedule, SECONDS_RING)
}

/// The same with room for so many seconds.
pub(crate) fn with_room(threshold_ns: u64, schedule: Schedule, seconds: usize) -> (Recorder, LiveSeries) {
    let period_ns = match schedule {
        Schedule::Periodic(period) => period.get(),
        Schedule::Continuous => 0,
    };
    let counts = Arc::new(SharedCounts::new(period_ns));
    let (seconds, seconds_out) = RingBuffer::new(seconds);
    let (spikes, spikes_out) = RingBuffer::new(spikes_ring(period_ns));
    let recorder = Recorder {
        counts: Arc::clone(&counts),
        seconds,
        spikes,
        threshold_ns,
        period_ns,
        start_ns: 0,
        second_end_ns: 0,
        second: EMPTY,
        samples: 0,
        missed: 0,
        column: 0,
    };
    (recorder, LiveSeries { counts, seconds: seconds_out, spikes: spikes_out })
}

const EMPTY: Second = Second { second: 0, count: 0, min_ns: u64::MAX, sum_ns: 0, max_ns: 0, missed: 0 };

impl Recorder {
    /// Starts the row's clock: second 0 begins at `start_ns` of CLOCK_MONOTONIC.
    pub fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.second_end_ns = start_ns + SECOND_NS;
    }

    /// Records a wakeup: the timer was due at `due_ns`, the thread ran at `woke_ns`, `interval_ns` after it
    /// ran the last time, and `missed` further periods went by meanwhile.
    #[inline(always)]
    pub fn wakeup(&mut self, due_ns: u64, woke_ns: u64, interval_ns: u64, missed: u64) {
        if woke_ns >= self.second_end_ns {
            self.roll(woke_ns);
        }
        let latency_ns = woke_ns.saturating_sub(due_ns);
        let bucket = self.sample(latency_ns);
        let (side, jitter_ns) = match interval_ns.checked_sub(self.period_ns) {
            Some(longer_ns) => (&self.counts.late, longer_ns),
            None => (&self.counts.early, self.period_ns - interval_ns),
        };
        side.bump(index(jitter_ns));
        self.sweep(bucket);
        if latency_ns > self.threshold_ns || missed > 0 {
            self.spike(due_ns, latency_ns, missed);
        }
    }

    /// Records that no cycle came for so long from `monotonic_ns` on, in which `missed` periods went by.
    pub fn silence(&mut self, monotonic_ns: u64, latency_ns: u64, missed: u64) {
        if missed > 0 {
            self.spike(monotonic_ns, latency_ns, missed);
        }
    }

    /// Records what a cycle took from `monotonic_ns` on, one for each cycle.
    pub fn span(&mut self, monotonic_ns: u64, latency_ns: u64) {
        if monotonic_ns >= self.second_end_ns {
            self.roll(monotonic_ns);
        }
        let bucket = self.report(monotonic_ns, latency_ns);
        self.sweep(bucket);
    }

    /// Records a sample in the present second, whenever it was; returns its bucket.
    pub fn report(&mut self, monotonic_ns: u64, latency_ns: u64) -> usize {
        let bucket = self.sample(latency_ns);
        if latency_ns > self.threshold_ns {
            self.spike(monotonic_ns, latency_ns, 0);
        }
        bucket
    }

    /// Hands on every second that ended until `now_ns`, those without a sample too.
    pub fn pass(&mut self, now_ns: u64) {
        while now_ns >= self.second_end_ns && self.seconds.push(self.second()).is_ok() {
            self.second = Second { second: self.second.second.saturating_add(1), ..EMPTY };
            self.second_end_ns += SECOND_NS;
        }
    }

    /// Lights the persistence picture's next column.
    #[inline(always)]
    fn sweep(&mut self, bucket: usize) {
        self.counts.cells.bump((bucket >> LEVEL_SHIFT) * SWEEP_COLUMNS + self.column);
        self.column = if self.column + 1 == SWEEP_COLUMNS { 0 } else { self.column + 1 };
    }

    /// Records a gap of the spin loop that opened at `monotonic_ns`; `column` is its place in the sweep.
    #[inline(always)]
    pub fn gap(&mut self, monotonic_ns: u64, latency_ns: u64, column: usize) {
        let bucket = index(latency_ns);
        self.counts.latency.bump(bucket);
        self.counts.cells.bump((bucket >> LEVEL_SHIFT) * SWEEP_COLUMNS + column.min(SWEEP_COLUMNS - 1));
        if latency_ns > self.threshold_ns {
            self.spike(monotonic_ns, latency_ns, 0);
        }
    }

    /// Counts one latency in histogram, second and totals; returns its bucket.
    #[inline(always)]
    fn sample(&mut self, latency_ns: u64) -> usize {
        let bucket = index(latency_ns);
        self.counts.latency.bump(bucket);
        self.counts.last_ns.store(latency_ns, Relaxed);
        self.samples += 1;
        self.second.count += 1;
        // A monitored loop's times are what its program says.
        self.second.sum_ns = self.second.sum_ns.saturating_add(latency_ns);
        self.second.min_ns = self.second.min_ns.min(latency_ns);
        self.second.max_ns = self.second.max_ns.max(latency_ns);
        bucket
    }

    #[cold]
    #[inline(never)]
    fn spike(&mut self, monotonic_ns: u64, latency_ns: u64, missed: u64) {
        self.missed += missed;
        self.second.missed += missed;
        self.column = (self.column + missed as usize) % SWEEP_COLUMNS;
        bump(&self.counts.spikes);
        if self.spikes.push(RawSpike { monotonic_ns, latency_ns, missed }).is_err() {
            bump(&self.counts.spikes_lost);
        }
    }

    #[cold]
    #[inline(never)]
    fn roll(&mut self, now_ns: u64) {
        self.push_second();
        let second = (now_ns - self.start_ns) / SECOND_NS;
        self.second.second = second as u32;
        self.second_end_ns = self.start_ns + (second + 1) * SECOND_NS;
    }

    /// Hands on what the present second has; where the ring is full the second simply goes on.
    fn push_second(&mut self) {
        let something = self.second.count > 0 || self.second.missed > 0;
        if something && self.seconds.push(self.second()).is_ok() {
            self.second = Second { second: self.second.second, ..EMPTY };
        }
    }

    /// Hands on a second that the spin loop counted itself.
    pub fn push_counted(&mut self, second: Second) {
        self.samples += second.count;
        if self.second.count > 0 {
            let waiting = self.second;
            self.second = Second {
                second: second.second,
                count: waiting.count + second.count,
                min_ns: waiting.min_ns.min(second.min_ns),
                sum_ns: waiting.sum_ns + second.sum_ns,
                max_ns: waiting.max_ns.max(second.max_ns),
                missed: 0,
            };
        } else {
            self.second = second;
        }
        self.counts.last_ns.store(second.max_ns, Relaxed);
        self.push_second();
    }

    /// Samples recorded and periods missed so far: cycles of the row.
    #[inline(always)]
    pub fn cycles(&self) -> u64 {
        self.samples + self.missed
    }

    /// The part of the present second that was not handed on.
    pub fn second(&self) -> Second {
        Second { min_ns: if self.second.count > 0 { self.second.min_ns } else { 0 }, ..self.second }
    }

    /// Hands on the last, unfinished second.
    pub fn finish(&mut self) {
        self.push_second();
    }
}

#[inline(always)]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 1_000_000;
    const EACH_PERIOD: Schedule = Schedule::Periodic(std::num::NonZeroU64::new(PERIOD).unwrap());

    #[test]
    fn a_second_is_handed_on_when_the_next_one_begins_and_the_last_one_at_the_end() {
        let (mut recorder, mut live) = recorder(u64::MAX, EACH_PERIOD);
        recorder.start(5_000);
        for cycle in 0..1500u64 {
            let due = 5_000 + cycle * PERIOD;
            recorder.wakeup(due, due + 700, PERIOD, 0);
        }
        let row = Second { second: 0, count: 1000, min_ns: 700, sum_ns: 700_000, max_ns: 700, missed: 0 };
        assert_eq!(live.take_seconds(), [row]);
        recorder.finish();
        assert_eq!(live.take_seconds(), [Second { second: 1, count: 500, sum_ns: 350_000, ..row }]);
        assert_eq!(live.counts.latency.totals().collect::<Vec<_>>(), [(700, 1500)]);
        // Fifteen sweeps, at one level.
        let level = index(700) >> LEVEL_SHIFT;
        let cells = (0..SWEEP_COLUMNS).map(|column| (column * LEVELS + level, 15)).collect::<Vec<_>>();
        assert_eq!(live.counts.cells().collect::<Vec<_>>(), cells);
    }

    #[test]
    fn jitter_keeps_its_sign() {
        let (mut recorder, live) = recorder(u64::MAX, EACH_PERIOD);
        recorder.start(0);
        recorder.wakeup(PERIOD, PERIOD, PERIOD - 30, 0);
        recorder.wakeup(2 * PERIOD, 2 * PERIOD, PERIOD + 20, 0);
        assert_eq!(live.counts.jitter().collect::<Vec<_>>(), [(-31, 1), (20, 1)]);
    }

    #[test]
    fn a_spike_that_finds_the_ring_full_is_still_counted() {
        let (mut recorder, mut live) = recorder(10, EACH_PERIOD);
        recorder.start(0);
        let room = spikes_ring(PERIOD);
        for cycle in 0..room as u64 + 3 {
            recorder.wakeup(cycle * PERIOD, cycle * PERIOD + 11, PERIOD, 0);
        }
        assert_eq!(live.counts.spikes(), (room as u64 + 3, 3));
        assert_eq!(live.take_spikes().len(), room);
        assert_eq!([0, 1_000, 1_000_000_000].map(spikes_ring), [8_192, 8_192, 1_024]);
    }
}
