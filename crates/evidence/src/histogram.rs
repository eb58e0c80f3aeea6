// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log-linear histogram of nanoseconds without a cap.
//!
//! Every power of two is cut into 1,024 buckets, so a bucket is never wider than 1/1024 of the values in it;
//! values below 2,048 ns are kept exactly. The idea is that of HdrHistogram (G. Tene); the layout is chosen
//! so that the hot loop finds a bucket with one count of leading zeros and one shift.
//!
//! [`index`] is shared with the hot loop, which counts into a flat array; [`Histogram`] is the same thing at
//! rest: only blocks of buckets that hold a count take memory. Its sums saturate, for a foreign file may
//! state any number.

/// Buckets of one octave, as a power of two: the relative error is at most 1/1024.
const OCTAVE_BITS: u32 = 10;
const OCTAVE: usize = 1 << OCTAVE_BITS;

/// Buckets that take memory together, as a power of two: most values of a long run lie close together, and
/// the others far apart.
const BLOCK_BITS: u32 = 7;
const BLOCK: usize = 1 << BLOCK_BITS;

/// How many buckets cover all of `u64`.
pub const BUCKETS: usize = ((64 - OCTAVE_BITS as usize) + 1) << OCTAVE_BITS;

/// Buckets that [`Histogram::corrected`] walks through: a tenth of a second's work.
const MOST_STEPS: usize = 4_000_000;

/// The stated bound on (bucket width / value).
pub const RELATIVE_ERROR: f64 = 1.0 / OCTAVE as f64;

/// The bucket that counts `value_ns`; always below [`BUCKETS`].
#[inline(always)]
pub const fn index(value_ns: u64) -> usize {
    let shift = (63 - OCTAVE_BITS) - (value_ns | OCTAVE as u64).leading_zeros();
    ((shift as usize) << OCTAVE_BITS) + (value_ns >> shift) as usize
}

/// The smallest value that bucket `index` counts.
pub const fn lowest(index: usize) -> u64 {
    let shift = (index >> OCTAVE_BITS).saturating_sub(1);
    ((index - (shift << OCTAVE_BITS)) as u64) << shift
}

/// The largest value that bucket `index` counts.
pub const fn highest(index: usize) -> u64 {
    let shift = (index >> OCTAVE_BITS).saturating_sub(1);
    lowest(index) + ((1u64 << shift) - 1)
}

/// One non-empty bucket: the values `from_ns..=to_ns` were seen `count` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Where it lies in the layout.
    pub index: usize,
    /// Smallest value that it counts.
    pub from_ns: u64,
    /// Largest value that it counts.
    pub to_ns: u64,
    /// How many values it counted.
    pub count: u64,
}

/// Counts of values in nanoseconds, with their exact number, sum, minimum and maximum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    blocks: Vec<Option<Box<[u64; BLOCK]>>>,
    count: u64,
    sum_ns: u128,
    extremes: Option<(u64, u64)>,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value.
    pub fn record(&mut self, value_ns: u64) {
        self.record_many(value_ns, 1);
    }

    /// Counts `value_ns` as often as `times`.
    pub fn record_many(&mut self, value_ns: u64, times: u64) {
        self.add(index(value_ns), times, u128::from(value_ns) * u128::from(times), value_ns, value_ns);
    }

    /// Counts `times` values of bucket `index`, of which only their sum, smallest and largest are known.
    pub fn add(&mut self, index: usize, times: u64, sum_ns: u128, min_ns: u64, max_ns: u64) {
        if times == 0 {
            return;
        }
        let (block, place) = (index >> BLOCK_BITS, index & (BLOCK - 1));
        if block >= self.blocks.len() {
            self.blocks.resize(block + 1, None);
        }
        let counted = &mut self.blocks[block].get_or_insert_with(|| Box::new([0; BLOCK]))[place];
        *counted = counted.saturating_add(times);
        self.count = self.count.saturating_add(times);
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.widen(min_ns, max_ns);
    }

    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        for bucket in other.buckets() {
            self.add(bucket.index, bucket.count, 0, other.min_ns(), other.max_ns());
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Replaces the sum by one that was kept exactly elsewhere.
    pub fn set_sum(&mut self, sum_ns: u128) {
        self.sum_ns = sum_ns;
    }

    /// Replaces minimum and maximum by ones that were kept exactly elsewhere; a minimum above the maximum is
    /// taken for the maximum.
    pub fn set_extremes(&mut self, min_ns: u64, max_ns: u64) {
        self.extremes = Some((min_ns.min(max_ns), max_ns));
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of memory that the counts take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.blocks.iter().flatten().count() * size_of::<[u64; BLOCK]>()
            + self.blocks.len() * size_of::<usize>()
    }

    /// How many values were counted in bucket `index`.
    pub fn count_at(&self, index: usize) -> u64 {
        self.blocks
            .get(index >> BLOCK_BITS)
            .and_then(Option::as_ref)
            .map_or(0, |block| block[index & (BLOCK - 1)])
    }

    /// Sum of all values.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Smallest value, exact; 0 where nothing was counted.
    pub fn min_ns(&self) -> u64 {
        self.extremes.map_or(0, |(min_ns, _)| min_ns)
    }

    /// Largest value, exact; 0 where nothing was counted.
    pub fn max_ns(&self) -> u64 {
        self.extremes.map_or(0, |(_, max_ns)| max_ns)
    }

    /// Arithmetic mean, from the exact sum.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// Standard deviation of the counted values (population), from the buckets' middles.
    pub fn stddev_ns(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.mean_ns();
        let square = |b: Bucket| {
            let distance = b.from_ns as f64 + (b.to_ns - b.from_ns) as f64 / 2.0 - mean;
            distance * distance * b.count as f64
        };
        (self.buckets().map(square).sum::<f64>() / self.count as f64).sqrt()
    }

    /// The smallest value that at least `fraction` of all values do not exceed, rounded up to its bucket's
    /// end: never too low, and too high by at most [`RELATIVE_ERROR`].
    pub fn quantile_ns(&self, fraction: f64) -> u64 {
        let wanted = ((fraction * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0u64;
        for bucket in self.buckets() {
            seen = seen.saturating_add(bucket.count);
            if seen >= wanted {
                return bucket.to_ns.clamp(self.min_ns(), self.max_ns());
            }
        }
        self.max_ns()
    }

    /// How many values may lie above `limit_ns`: exact but for the one bucket that the limit cuts, which
    /// counts as above unless the exact maximum says otherwise. A maximum above the limit is one such
    /// value at least, even where no bucket holds it.
    pub fn above(&self, limit_ns: u64) -> u64 {
        if self.max_ns() <= limit_ns {
            return 0;
        }
        let above = self.buckets().filter(|b| b.to_ns > limit_ns);
        above.fold(0, |sum: u64, b| sum.saturating_add(b.count)).max(1)
    }

    /// All non-empty buckets, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let blocks = self.blocks.iter().enumerate().filter_map(|(n, block)| Some((n, block.as_ref()?)));
        blocks.flat_map(|(n, block)| {
            block.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(place, count)| {
                let index = (n << BLOCK_BITS) + place;
                Bucket { index, from_ns: lowest(index), to_ns: highest(index), count: *count }
            })
        })
    }

    /// This histogram as it would look had no cycle been omitted while a late one was waited for: a value `v`
    /// stands for the missed cycles that were late by `v - period`, `v - 2 periods`, … down to one period.
    /// The cycle after those ran late itself and was counted.
    pub fn corrected(&self, period_ns: u64) -> Histogram {
        let mut corrected = self.clone();
        if period_ns == 0 {
            return corrected;
        }
        let mut steps_left = MOST_STEPS;
        for bucket in self.buckets().filter(|b| b.to_ns / 2 >= period_ns) {
            // The missed cycles' latencies are an arithmetic series; it is walked bucket by bucket, not term
            // by term.
            let mut value_ns = bucket.to_ns.min(self.max_ns()).saturating_sub(period_ns);
            while value_ns >= period_ns {
                let index = index(value_ns);
                // No machine has so many stalls of so many periods. Those of the rest count as late as the
                // first.
                let from_ns = if steps_left == 0 { 0 } else { lowest(index) };
                steps_left = usize::saturating_sub(steps_left, 1);
                let steps = (value_ns - from_ns.max(period_ns)) / period_ns;
                let last_ns = value_ns - steps * period_ns;
                let times = (steps + 1).saturating_mul(bucket.count);
                let sum_ns =
                    (u128::from(value_ns) + u128::from(last_ns)).saturating_mul(u128::from(times)) / 2;
                corrected.add(index, times, sum_ns, last_ns, value_ns);
                let Some(next_ns) = last_ns.checked_sub(period_ns) else { break };
                value_ns = next_ns;
            }
        }
        corrected
    }

    /// Lets minimum and maximum reach as far as these, at the least.
    pub(crate) fn widen(&mut self, min_ns: u64, max_ns: u64) {
        let (low, high) = self.extremes.unwrap_or((min_ns, max_ns));
        self.extremes = Some((low.min(min_ns), high.max(max_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_and_the_bucket_is_narrow(value in any::<u64>()) {
            let index = index(value);
            prop_assert!(index < BUCKETS);
            prop_assert!(lowest(index) <= value && value <= highest(index));
            prop_assert!((highest(index) - lowest(index)) as f64 <= value as f64 * RELATIVE_ERROR);
        }

        #[test]
        fn quantiles_are_never_below_the_true_ones(
            mut values in prop::collection::vec(0u64..10_000_000, 1..300), q in 0.0f64..1.0
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|v| histogram.record(*v));
            values.sort_unstable();
            let exact = values[((q * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
            let found = histogram.quantile_ns(q);
            prop_assert!(found >= exact && found as f64 <= exact as f64 * (1.0 + RELATIVE_ERROR));
        }
    }

    #[test]
    fn neighbouring_buckets_leave_no_gap() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(highest(index) + 1, lowest(index + 1), "after bucket {index}");
        }
        assert_eq!(highest(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn a_stall_of_forty_periods_counts_as_forty_late_cycles() {
        let mut seen = Histogram::new();
        seen.record_many(5_000, 960);
        seen.record(40_005_000);
        let corrected = seen.corrected(1_000_000);
        assert_eq!(seen.above(100_000), 1);
        assert_eq!(corrected.count() - seen.count(), 39);
        assert_eq!(corrected.above(100_000), 40);
    }

    #[test]
    fn correcting_an_absurd_latency_ends_and_counts_every_missed_cycle() {
        for late_ns in [u64::MAX, 5_000_000_007] {
            let mut seen = Histogram::new();
            seen.record(late_ns);
            assert_eq!(seen.corrected(25_000).count(), late_ns / 25_000);
        }
    }

    #[test]
    fn correcting_ends_where_every_bucket_is_a_stall() {
        let mut seen = Histogram::new();
        (40_000..BUCKETS).step_by(20).for_each(|index| seen.record_many(lowest(index), u64::MAX));
        let corrected = seen.corrected(1);
        assert_eq!((corrected.count(), corrected.max_ns()), (u64::MAX, seen.max_ns()));
    }

    #[test]
    fn merging_keeps_exact_sum_and_extremes() {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        a.record(1_000_003);
        b.record(7);
        a.merge(&b);
        assert_eq!((a.count(), a.sum_ns(), a.min_ns(), a.max_ns()), (2, 1_000_010, 7, 1_000_003));
        let mut empty = Histogram::new();
        b = Histogram::new();
        b.record(1_000_003);
        empty.merge(&b);
        assert_eq!((empty.min_ns(), empty.max_ns()), (1_000_003, 1_000_003));
    }
}
