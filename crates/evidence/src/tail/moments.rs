// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bound of a rare latency that needs no distribution: Markov's inequality for powers of the latency. Of
//! the k-th moment M the latency that is exceeded once in n samples is below (n M)^(1/k), whatever the
//! distribution (Vilardell et al., ECRTS 2022.20). The least over k is taken; a moment that the samples tell
//! too badly is left out, and each has its standard error added.

use crate::histogram::Histogram;

/// The highest power.
const POWERS: i32 = 16;

/// A moment is left out whose standard error is a larger part of it.
const ERROR: f64 = 0.25;

/// Standard errors that are added to a moment: 95 %, one-sided.
const Z: f64 = 1.644_853_6;

/// The bound of the latency that is exceeded once in so many samples, in nanoseconds.
pub(super) fn below(latency: &Histogram, once_in: f64) -> Option<u64> {
    let count = latency.count() as f64;
    let largest = latency.max_ns().max(1) as f64;
    // By parts of the largest, whose powers do not overflow.
    let moment = |power: i32| {
        let part = |to_ns: u64| (to_ns.min(latency.max_ns()) as f64 / largest).powi(power);
        latency.buckets().map(|bucket| part(bucket.to_ns) * bucket.count as f64).sum::<f64>() / count
    };
    let bound = |power: i32| {
        let (mean, square) = (moment(power), moment(2 * power));
        let error = ((square - mean * mean).max(0.0) / count).sqrt();
        let is_known = mean > 0.0 && error <= ERROR * mean;
        is_known.then(|| largest * (once_in * (mean + Z * error)).powf(1.0 / f64::from(power)))
    };
    let least = (1..=POWERS).filter_map(bound).reduce(f64::min)?;
    Some(least.max(largest) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_an_exponential_tail_from_above() {
        let mut latency = Histogram::new();
        // The quantiles of an exponential distribution of 1 us.
        (0..20_000).for_each(|n| latency.record((-1_000.0 * ((f64::from(n) + 0.5) / 20_000.0).ln()) as u64));
        let bound = below(&latency, 1e6).unwrap();
        let truth = 1_000.0 * 1e6_f64.ln();
        assert!(bound as f64 > truth && (bound as f64) < 5.0 * truth, "{bound} for {truth}");
    }

    #[test]
    fn is_never_below_the_largest_sample() {
        let mut latency = Histogram::new();
        latency.record_many(1_000, 1_000_000);
        latency.record(50_000);
        assert!(below(&latency, 10.0).unwrap() >= 50_000);
        assert_eq!(below(&Histogram::new(), 1e6), None);
    }
}
