// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether exceedances of a threshold come together, by the lines of a row.
//!
//! Two tests, each at about one in a thousand. *Occupancy*: independent exceedances lie in as many lines as
//! balls in boxes do; fewer lines mean bursts. *Neighbours*: the ranks of the maxima of neighbouring lines do
//! not go together (Spearman); where they do, the machine changes slowly. A stationarity test of a whole
//! sample misses a rare mixture in its tail (TailID, ECRTS 2025); these look at the tail alone.

use machine::quantity::{Count, Samples, Sentence};
use machine::sentence;

use crate::manifest::Second;

/// Standard deviations from what is expected of independent samples.
const UNLIKELY: f64 = 3.1;

/// Fewest lines from which either test tells anything.
const FEWEST: usize = 16;

/// Why the exceedances of this threshold are no independent samples; `None` where nothing speaks against it.
pub(super) fn of(seconds: &[Second], threshold_ns: u64, exceedances: u64) -> Option<Sentence> {
    let lines = seconds.iter().filter(|second| second.count > 0).collect::<Vec<_>>();
    if lines.len() < FEWEST {
        return None;
    }
    // A threshold is the begin of a bucket, and all of that is above.
    let with = lines.iter().filter(|second| second.max_ns >= threshold_ns).count();
    if too_few(lines.len() as f64, exceedances as f64, with as f64) {
        let [above, with, of] = [exceedances, with as u64, lines.len() as u64].map(Count::<Samples>::exact);
        let (with, of) = (with.most(), of.most());
        let seconds =
            format!(" came in {with} of {of} lines of the row: bursts, for which a fit is too sure");
        return Some(sentence!["the largest ", above, seconds]);
    }
    let alike = neighbours(&lines.iter().map(|second| second.max_ns).collect::<Vec<_>>());
    (alike > UNLIKELY).then(|| {
        "the maxima of neighbouring seconds are alike: the machine changed slowly, for which a fit is too sure"
            .into()
    })
}

/// Whether so many balls fill fewer of the boxes than chance has them do.
fn too_few(boxes: f64, balls: f64, filled: f64) -> bool {
    let each = balls / boxes;
    let empty = (-each).exp();
    let variance = boxes * empty * (1.0 - (1.0 + each) * empty);
    // Where nearly all are filled there is nothing to see.
    variance > 1.0 && boxes * (1.0 - empty) - filled > UNLIKELY * variance.sqrt()
}

/// The correlation of the ranks of neighbours, in standard deviations of that of independent values.
fn neighbours(values: &[u64]) -> f64 {
    let mut order = (0..values.len()).collect::<Vec<_>>();
    order.sort_by_key(|place| values[*place]);
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        // Equal values have the mean of their ranks.
        let same = order[from..].iter().take_while(|place| values[**place] == values[order[from]]).count();
        let rank = from as f64 + (same as f64 - 1.0) / 2.0;
        order[from..from + same].iter().for_each(|place| ranks[*place] = rank);
        from += same;
    }
    let mean = (values.len() as f64 - 1.0) / 2.0;
    let together = ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    let alone = ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    if alone > 0.0 { together / alone * (values.len() as f64).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(maxima: impl IntoIterator<Item = u64>) -> Vec<Second> {
        let second = |(second, max_ns)| Second { second, count: 1_000, max_ns, ..Second::default() };
        (0..).zip(maxima).map(second).collect()
    }

    /// Numbers below 1,000 in no order.
    fn mixed(count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(|n| n * n * 7_919 % 1_009)
    }

    #[test]
    fn exceedances_in_few_seconds_are_bursts() {
        let few = seconds((0..100).map(|n| if n % 20 == 7 { 9_000 + n } else { 4_000 + n * n % 83 }));
        let why = of(&few, 9_000, 200).unwrap();
        assert!(why.starts_with("the largest 200 came in 5 of 100 lines of the row: bursts"), "{why}");
        assert_eq!(of(&few, 9_000, 5), None);
    }

    #[test]
    fn maxima_that_drift_are_alike() {
        let drifting = seconds((0..100).map(|n| 9_000 + 100 * n));
        assert!(of(&drifting, 9_000, 1_000).unwrap().contains("neighbouring seconds are alike"));
        assert_eq!(of(&seconds(mixed(100).map(|n| 9_000 + n)), 9_000, 1_000), None);
        assert_eq!(of(&seconds(vec![9_000; 100]), 9_000, 1_000), None);
        assert_eq!(of(&drifting[..10], 9_000, 1_000), None);
    }
}
