// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wakeups on their way from the measuring thread to the control thread: two times each, nothing computed.
//!
//! The measuring thread touches one line of memory that moves on; all else is done on a housekeeping CPU.
//! Where the control thread is kept away for longer than `ROOM_NS`, samples are lost, and counted as lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rtrb::{Consumer, Producer, RingBuffer};

/// How long the control thread may be away: it comes four times a second.
const ROOM_NS: u64 = 4_000_000_000;

/// Room for samples at the least and, since it is locked memory, at the most.
const ROOM: std::ops::RangeInclusive<u64> = 16_384..=262_144;

/// One wakeup, on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When the timer was due.
    pub due_ns: u64,
    /// When the thread ran.
    pub woke_ns: u64,
}

/// The measuring thread's end.
#[derive(Debug)]
pub struct Samples {
    ring: Producer<Sample>,
    lost: Arc<AtomicU64>,
}

/// The control thread's end.
#[derive(Debug)]
pub struct Arrivals {
    ring: Consumer<Sample>,
    lost: Arc<AtomicU64>,
}

/// A ring for samples that come every `period_ns`; all of its memory is touched.
pub fn sample_ring(period_ns: u64) -> (Samples, Arrivals) {
    let room = (ROOM_NS / period_ns.max(1)).clamp(*ROOM.start(), *ROOM.end());
    let (mut ring, mut end) = RingBuffer::new(room as usize);
    while ring.push(Sample { due_ns: 0, woke_ns: 0 }).is_ok() {}
    while end.pop().is_ok() {}
    let lost = Arc::new(AtomicU64::new(0));
    (Samples { ring, lost: Arc::clone(&lost) }, Arrivals { ring: end, lost })
}

impl Samples {
    /// Sends a sample; never waits.
    #[inline(always)]
    pub fn send(&mut self, sample: Sample) {
        if self.ring.push(sample).is_err() {
            self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
        }
    }
}

impl Arrivals {
    /// The next sample, if one has come.
    pub fn take(&mut self) -> Option<Sample> {
        self.ring.pop().ok()
    }

    /// Samples that found no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_arrive_in_order_and_those_without_room_are_counted() {
        let (mut samples, mut arrivals) = sample_ring(1_000_000);
        let sent = *ROOM.start() + 5;
        (0..sent).for_each(|n| samples.send(Sample { due_ns: n, woke_ns: n + 1 }));
        let mut come = 0;
        while let Some(sample) = arrivals.take() {
            assert_eq!(sample, Sample { due_ns: come, woke_ns: come + 1 });
            come += 1;
        }
        assert_eq!((come, arrivals.lost()), (*ROOM.start(), 5));
    }
}
