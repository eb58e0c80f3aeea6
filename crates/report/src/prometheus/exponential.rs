// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our histogram as a native histogram of Prometheus: buckets that grow by a constant factor, in seconds
//! (<https://prometheus.io/docs/specs/native_histograms/>).
//!
//! Schema 5: 32 buckets to an octave, as in a fleet's store, so that a bucket is 2.2 % wide. No count is
//! lost, and each goes whole into one bucket: the one that holds the largest value of ours. Ours are narrower
//! than 1/1024 of their values, so where one lies across a bound its smaller values are told too large by
//! less than that, and none too small. That bucket depends on nothing that came later (not on the largest
//! value seen, say), so that no bucket ever shrinks.

use std::collections::BTreeMap;

use evidence::histogram::Histogram;

/// 2 to the power of this many buckets make an octave.
pub(super) const SCHEMA: i32 = 5;

/// A bound of a bucket, below the shortest time that can be told from none: the zero bucket counts 0 ns
/// alone.
pub(super) const ZERO_OCTAVE: i32 = -30;

/// Counts by exponential bucket: bucket `i` holds the seconds above `2^((i - 1) / 32)` up to `2^(i / 32)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exponential {
    pub(super) zero: u64,
    pub(super) buckets: BTreeMap<i32, u64>,
    pub(super) count: u64,
    /// Absent where it is unknown.
    pub(super) sum_s: Option<f64>,
}

impl Exponential {
    /// The counts of `histogram`, whose sum may be unknown.
    pub fn of(histogram: &Histogram, sum_ns: Option<u128>) -> Exponential {
        let sum_s = sum_ns.map(|ns| ns as f64 / 1e9);
        let mut all = Exponential { sum_s, ..Exponential::default() };
        for bucket in histogram.buckets() {
            let place = if bucket.to_ns == 0 {
                &mut all.zero
            } else {
                all.buckets.entry(index(bucket.to_ns)).or_default()
            };
            *place = place.saturating_add(bucket.count);
            all.count = all.count.saturating_add(bucket.count);
        }
        all
    }

    /// How many are at most `2^octave` seconds: a bound of buckets, so nothing is divided.
    pub(super) fn up_to(&self, octave: i32) -> u64 {
        let below = self.buckets.range(..=octave << SCHEMA).map(|(_, count)| count);
        below.fold(self.zero, |sum, count| sum.saturating_add(*count))
    }
}

/// The bucket of a time that is not 0.
fn index(value_ns: u64) -> i32 {
    // Powers of two seconds, the only bounds that a whole number of nanoseconds can meet, have an exact
    // logarithm.
    let octaves = (value_ns as f64 / 1e9).log2();
    (octaves * f64::from(1 << SCHEMA)).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(histogram: &Histogram) -> Exponential {
        Exponential::of(histogram, Some(histogram.sum_ns()))
    }
    use evidence::histogram::RELATIVE_ERROR;
    use proptest::prelude::*;

    fn bound_s(index: i32) -> f64 {
        (f64::from(index) / 32.0).exp2()
    }

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_or_less_than_a_bucket_of_ours_below(value in 1u64..) {
            let all = exponential(&of(&[value]));
            let (index, count) = all.buckets.first_key_value().unwrap();
            let value_s = value as f64 / 1e9;
            let rounding = 1.0 + 1e-12;
            prop_assert_eq!((all.buckets.len(), *count, all.count), (1, 1, 1));
            prop_assert!(value_s <= bound_s(*index) * rounding);
            prop_assert!(value_s * (1.0 + RELATIVE_ERROR) * rounding > bound_s(index - 1));
        }

        #[test]
        fn nothing_is_lost_and_what_is_added_before_or_after_is_the_same(
            a in prop::collection::vec(0u64..100_000_000, 0..200),
            b in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let merged = exponential(&merged);
            let (one, other) = (exponential(&of(&a)), exponential(&of(&b)));
            prop_assert_eq!(merged.count, (a.len() + b.len()) as u64);
            prop_assert_eq!(merged.zero + merged.buckets.values().sum::<u64>(), merged.count);
            prop_assert_eq!(merged.zero, one.zero + other.zero);
            let mut added = one.buckets;
            other.buckets.iter().for_each(|(index, count)| *added.entry(*index).or_default() += count);
            prop_assert_eq!(merged.buckets, added);
        }
    }

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it_and_the_next_value_does_not() {
        // 1/512 s is a whole number of nanoseconds, and 1 ns more is too narrow a bucket of ours to lie
        // across.
        let bounds = [(1_953_125, 1), (1_000_000_000, 512), (64_000_000_000, 512 * 64)];
        for (bound_ns, times) in bounds {
            let octave = 32 * ((f64::from(times) / 512.0).log2() as i32);
            assert_eq!(index(bound_ns), octave, "{bound_ns}");
            assert_eq!(index(bound_ns + 1), octave + 1, "{bound_ns}");
        }
    }

    #[test]
    fn a_bucket_across_a_bound_goes_up_whole() {
        // Ours of 1/512 s begins below it and ends above: 1,952,768 ns to 1,953,791 ns or so.
        let all = exponential(&of(&[1_953_125]));
        assert_eq!(all.buckets, BTreeMap::from([(-9 * 32 + 1, 1)]));
        assert_eq!((all.up_to(-9), all.up_to(-8)), (0, 1));
    }

    #[test]
    fn no_time_at_all_has_a_bucket_of_its_own_and_a_nanosecond_another() {
        let all = exponential(&of(&[0, 0, 1]));
        assert_eq!((all.zero, all.count, all.sum_s), (2, 3, Some(1e-9)));
        assert_eq!(all.buckets.len(), 1);
        assert_eq!((all.up_to(ZERO_OCTAVE), all.up_to(ZERO_OCTAVE + 1)), (2, 3));
    }
}
