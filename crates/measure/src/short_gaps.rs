// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gaps of the spin loop that are too short to be recorded one by one: the loop counts them by their number
//! of ticks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use evidence::histogram::index;
use rt::clock::Calibration;

/// Gaps shorter than this many ticks are counted tick by tick.
pub(crate) const SHORT: usize = 4096;

/// Counts of short gaps by ticks; written by the measuring thread, read by the control thread.
#[derive(Debug, Clone)]
pub struct ShortGaps(Arc<[AtomicU64; SHORT]>);

impl Default for ShortGaps {
    fn default() -> Self {
        ShortGaps(Arc::new([const { AtomicU64::new(0) }; SHORT]))
    }
}

impl ShortGaps {
    /// The counts, for the measuring thread.
    pub(crate) fn counts(&self) -> &[AtomicU64; SHORT] {
        &self.0
    }

    /// The short gaps' totals, and `longer` (totals of the other gaps) with them, by nanosecond bucket.
    pub fn with<'a>(
        &'a self,
        longer: impl Iterator<Item = (usize, u64)> + 'a,
        clock: &Calibration,
    ) -> Vec<(usize, u64)> {
        let mut totals = std::collections::BTreeMap::<usize, u64>::from_iter(longer);
        for (ticks, count) in
            self.0.iter().map(|count| count.load(Relaxed)).enumerate().filter(|(_, count)| *count > 0)
        {
            *totals.entry(index(clock.ns(ticks as u64))).or_default() += count;
        }
        totals.into_iter().collect()
    }
}
