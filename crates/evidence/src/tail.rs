// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tail of a distribution beyond the largest sample, and when it says nothing.
//!
//! Peaks over threshold: whatever lies above a high threshold follows a generalised Pareto distribution, if
//! it comes from one continuous distribution at all (Pickands 1975). The fit is by probability-weighted
//! moments (Hosking & Wallis 1987): closed form, sound for shapes below 1/2, which is also where we stop to
//! believe. The threshold begins at the upper tenth (at most a thousand exceedances) and moves up only where
//! the fit is rejected. Goodness of fit (Anderson-Darling) and intervals come from one parametric bootstrap,
//! each resample fitted anew, so that no table of critical values is needed; the seed is fixed, so that the
//! same evidence always says the same.
//!
//! A fit counts samples as independent, and bursts make its interval too narrow. So it is refused where
//! blocks of seconds show that exceedances come together (`tail/dependence.rs`). Beside each estimate stands
//! a bound that needs no distribution (`tail/moments.rs`): wider, and right as far as the moments of the
//! samples are.
//!
//! Limits: the machine counts as unchanging. The tail of what was seen says nothing of a cause that did not
//! occur. `docs/results/claims.md` has the coverage of the intervals.

mod dependence;
mod moments;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::manifest::Second;
use machine::quantity::{Count, Samples, Sentence, Time};
use machine::sentence;
use machine::units::count;

/// Most exceedances that are fitted: bounds the work, and keeps to the tail.
const MOST: u64 = 1_000;

/// Fewest exceedances that are fitted: below, the shape is known no better than to 0.1.
const FEWEST: u64 = 200;

/// One sample in so many, at most, counts as tail.
const TAIL_IS_ONE_IN: u64 = 10;

/// Fewest histogram buckets that the exceedances must fill: with fewer their shape is that of the buckets.
const FEWEST_BUCKETS: usize = 20;

/// Fits with a smaller p value are rejected.
const SIGNIFICANCE: f64 = 0.05;

/// From this shape on the variance is infinite, and neither fit nor interval can be trusted.
const HEAVIEST: f64 = 0.5;

/// Standard deviations by which the shape may change when only the upper half of the exceedances is fitted.
const STEADY_WITHIN: f64 = 3.0;

/// Bootstrap resamples.
const RESAMPLES: usize = 199;

/// Seed of the bootstrap: any number does, as long as it stays.
const SEED: u64 = 0x1507_A70E;

/// The rare latencies that are stated: once in so many samples.
const ONCE_IN: [u64; 2] = [1_000_000, 1_000_000_000];

/// A tail estimate with its fit diagnostics, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Tail {
    /// A generalised Pareto distribution describes the tail.
    Estimate(Estimate),
    /// The data support no estimate.
    Refused {
        /// Why.
        reason: Sentence,
    },
}

/// A generalised Pareto fit of what lies above a threshold. It holds for independent samples of an unchanging
/// machine, and says nothing of causes that did not occur.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The threshold.
    pub threshold_ns: u64,
    /// Samples above it.
    pub exceedances: u64,
    /// Shape: below zero the tail has an end, at zero it falls exponentially, above zero more slowly.
    pub shape: f64,
    /// Scale.
    pub scale_ns: f64,
    /// Anderson-Darling goodness of fit: how often data of the fitted distribution fit it worse than the
    /// samples do.
    pub fit_p_value: f64,
    /// Rare latencies, only beyond the threshold: the percentiles cover more frequent ones.
    pub levels: Vec<Level>,
}

/// A latency that is exceeded once in so many samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Exceeded once in this many samples (cycles, for a periodic probe).
    pub once_in: u64,
    /// The latency.
    pub latency_ns: u64,
    /// Lower end of its 95 % interval.
    pub low_ns: u64,
    /// Upper end of its 95 % interval.
    pub high_ns: u64,
    /// A bound of the latency without a distribution, from the moments of the samples; absent where they tell
    /// too little.
    #[serde(default)]
    pub model_free_ns: Option<u64>,
}

/// Estimates the tail of `latency`, or says why not; `seconds` are the lines of the row, of which another
/// tool's evidence has none.
pub fn estimate(latency: &Histogram, seconds: &[Second]) -> Tail {
    match attempt(latency, seconds) {
        Ok(estimate) => Tail::Estimate(estimate),
        Err(reason) => Tail::Refused { reason },
    }
}

fn attempt(latency: &Histogram, seconds: &[Second]) -> Result<Estimate, Sentence> {
    let needed = FEWEST * TAIL_IS_ONE_IN;
    if latency.count() < needed {
        let [had, needed] = [latency.count(), needed].map(Count::<Samples>::exact);
        return Err(sentence!["too few samples: ", had, ", a tail needs ", needed]);
    }
    let mut wanted = MOST.min(latency.count() / TAIL_IS_ONE_IN);
    let mut best_p_value = 0.0_f64;
    while wanted >= FEWEST {
        let tail = Exceedances::of(latency, wanted)?;
        let bootstrap = Bootstrap::of(&tail.over_ns);
        if bootstrap.p_value >= SIGNIFICANCE {
            dependence::of(seconds, tail.threshold_ns, tail.over_ns.len() as u64).map_or(Ok(()), Err)?;
            return tail.judge(latency, &bootstrap);
        }
        best_p_value = best_p_value.max(bootstrap.p_value);
        wanted /= 2;
    }
    let why = format!(
        "no generalised Pareto tail fits above any threshold tried (Anderson-Darling p = {best_p_value:.3} at \
         best): more than one cause, or bursts"
    );
    Err(why.into())
}

/// The largest samples, as distances above a threshold.
struct Exceedances {
    threshold_ns: u64,
    /// Ascending, all above zero.
    over_ns: Vec<f64>,
}

impl Exceedances {
    /// The whole buckets from the top that hold at most `wanted` samples. Samples of one bucket are laid out
    /// evenly over it: ties would count as a misfit.
    fn of(latency: &Histogram, wanted: u64) -> Result<Self, String> {
        let mut buckets = latency.buckets().collect::<Vec<_>>();
        let mut taken = 0u64;
        let fits = |bucket: &&crate::histogram::Bucket| {
            // A foreign file may state any count.
            taken = taken.saturating_add(bucket.count);
            taken <= wanted
        };
        let distinct = buckets.iter().rev().take_while(fits).count();
        let top = buckets.split_off(buckets.len() - distinct);
        let total = top.iter().map(|bucket| bucket.count).sum::<u64>();
        if distinct < FEWEST_BUCKETS || total < FEWEST {
            return Err(format!(
                "too coarse: the largest {} samples take {distinct} distinct values, a tail needs \
                 {FEWEST_BUCKETS}",
                count(wanted)
            ));
        }
        let threshold_ns = top[0].from_ns;
        let spread = |bucket: &crate::histogram::Bucket| {
            let from = (bucket.from_ns - threshold_ns) as f64;
            let end = (bucket.to_ns.min(latency.max_ns()).max(bucket.from_ns) - threshold_ns) as f64 + 1.0;
            let step = (end - from) / bucket.count as f64;
            (0..bucket.count).map(move |n| from + (n as f64 + 0.5) * step)
        };
        Ok(Exceedances { threshold_ns, over_ns: top.iter().flat_map(spread).collect() })
    }

    /// The estimate from a fit that was not rejected, unless its shape forbids one.
    fn judge(&self, latency: &Histogram, bootstrap: &Bootstrap) -> Result<Estimate, Sentence> {
        let Pareto { shape, scale } = bootstrap.fit;
        let largest = self.over_ns[self.over_ns.len() - 1];
        if shape >= HEAVIEST {
            return Err(format!(
                "too heavy for any bound: the tail's shape is {shape:.2}, at or above {HEAVIEST}"
            )
            .into());
        }
        if shape < 0.0 && -scale / shape <= largest {
            let end_ns = self.threshold_ns as f64 - scale / shape;
            let [end, largest] = [end_ns as u64, latency.max_ns()].map(Time::measured);
            return Err(sentence![
                "the fitted tail would end at ",
                end,
                ", below the largest sample ",
                largest
            ]);
        }
        let half = self.over_ns.len() / 2;
        let (below, above) = self.over_ns.split_at(half);
        let origin = below[half - 1];
        let upper = Pareto::fit(&above.iter().map(|over| over - origin).collect::<Vec<_>>());
        // The spread of the difference between a fit and one of half its data is that of the fit itself.
        if (upper.shape - shape).abs() > STEADY_WITHIN * bootstrap.shape_stddev() {
            return Err(format!(
                "unstable: the tail's shape is {shape:.2} from the largest {} samples, but {:.2} from the largest \
                 {}",
                count(self.over_ns.len() as u64),
                upper.shape,
                count(above.len() as u64)
            ).into());
        }
        let exceedances = self.over_ns.len() as u64;
        let rate = exceedances as f64 / latency.count() as f64;
        let levels = ONCE_IN.iter().filter(|once_in| **once_in as f64 * rate > 1.0);
        let level = |once_in: &u64| {
            let depth = (*once_in as f64 * rate).ln();
            let at_ns = |fit: &Pareto| self.threshold_ns.saturating_add(fit.over(depth) as u64);
            let mut resampled = bootstrap.refits.iter().map(at_ns).collect::<Vec<_>>();
            resampled.sort_unstable();
            let cut = RESAMPLES / 40;
            let (low_ns, high_ns) = (resampled[cut], resampled[RESAMPLES - 1 - cut]);
            Level {
                once_in: *once_in,
                latency_ns: at_ns(&bootstrap.fit),
                low_ns,
                high_ns,
                model_free_ns: moments::below(latency, *once_in as f64),
            }
        };
        Ok(Estimate {
            threshold_ns: self.threshold_ns,
            exceedances,
            shape,
            scale_ns: scale,
            fit_p_value: bootstrap.p_value,
            levels: levels.map(level).collect(),
        })
    }
}

/// A fit, how well it fits, and the fits of resamples drawn from it.
struct Bootstrap {
    fit: Pareto,
    p_value: f64,
    refits: Vec<Pareto>,
}

impl Bootstrap {
    fn of(over_ns: &[f64]) -> Self {
        let fit = Pareto::fit(over_ns);
        let misfit = fit.anderson_darling(over_ns);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut worse = 0;
        let mut resample = vec![0.0; over_ns.len()];
        let refits = (0..RESAMPLES).map(|_| {
            fit.draw_sorted(&mut resample, &mut rng);
            let refit = Pareto::fit(&resample);
            worse += usize::from(refit.anderson_darling(&resample) >= misfit);
            refit
        });
        let refits = refits.collect();
        Bootstrap { fit, p_value: (worse + 1) as f64 / (RESAMPLES + 1) as f64, refits }
    }

    fn shape_stddev(&self) -> f64 {
        let count = self.refits.len() as f64;
        let mean = self.refits.iter().map(|fit| fit.shape).sum::<f64>() / count;
        (self.refits.iter().map(|fit| (fit.shape - mean).powi(2)).sum::<f64>() / count).sqrt()
    }
}

/// A generalised Pareto distribution of distances above a threshold.
#[derive(Debug, Clone, Copy)]
struct Pareto {
    shape: f64,
    scale: f64,
}

impl Pareto {
    /// Shapes closer to zero than this are the exponential distribution.
    const FLAT: f64 = 1e-9;

    /// The fit to `sorted` (ascending) by probability-weighted moments.
    fn fit(sorted: &[f64]) -> Self {
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let weighted = sorted.iter().enumerate().map(|(n, over)| (1.0 - (n as f64 + 0.65) / count) * over);
        let weighted = weighted.sum::<f64>() / count;
        let spread = mean - 2.0 * weighted;
        Pareto { shape: 2.0 - mean / spread, scale: 2.0 * mean * weighted / spread }
    }

    /// The distance that is exceeded with probability exp(-`depth`).
    fn over(&self, depth: f64) -> f64 {
        if self.shape.abs() < Self::FLAT {
            return self.scale * depth;
        }
        self.scale * (self.shape * depth).exp_m1() / self.shape
    }

    /// The inverse of [`Pareto::over`]; beyond the end of a tail it stays finite, but is large.
    fn depth(&self, over: f64) -> f64 {
        if self.shape.abs() < Self::FLAT {
            return over / self.scale;
        }
        (self.shape * over / self.scale).max(-1.0 + 1e-12).ln_1p() / self.shape
    }

    /// Fills `sorted` with an ascending random sample: the gaps between ordered exponential samples are
    /// exponential themselves (Rényi 1953).
    fn draw_sorted(&self, sorted: &mut [f64], rng: &mut Xoshiro256PlusPlus) {
        let (count, mut depth) = (sorted.len(), 0.0);
        for (n, over) in sorted.iter_mut().enumerate() {
            let gap: f64 = Exp1.sample(rng);
            depth += gap / (count - n) as f64;
            *over = self.over(depth);
        }
    }

    /// The Anderson-Darling distance between this distribution and `sorted` (ascending).
    fn anderson_darling(&self, sorted: &[f64]) -> f64 {
        let count = sorted.len() as f64;
        let term = |(n, over): (usize, &f64)| {
            let depth = self.depth(*over).max(f64::MIN_POSITIVE);
            let rank = 2.0 * n as f64 + 1.0;
            rank * (-(-depth).exp_m1()).ln() - (2.0 * count - rank) * depth
        };
        -count - sorted.iter().enumerate().map(term).sum::<f64>() / count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` random latencies of 5 us and more.
    fn drawn(count: usize, shape: f64, scale_ns: f64) -> Histogram {
        let mut over_ns = vec![0.0; count];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        Pareto { shape, scale: scale_ns }.draw_sorted(&mut over_ns, &mut rng);
        let mut latency = Histogram::new();
        over_ns.iter().for_each(|over| latency.record((5_000.0 + over) as u64));
        latency
    }

    fn reason(latency: &Histogram) -> String {
        match estimate(latency, &[]) {
            Tail::Refused { reason } => reason.into(),
            Tail::Estimate(estimate) => panic!("not refused: {estimate:?}"),
        }
    }

    #[test]
    fn recovers_the_shape_and_the_rare_latencies_of_known_tails() {
        for shape in [-0.2, 0.0, 0.2, 0.35] {
            let Tail::Estimate(found) = estimate(&drawn(50_000, shape, 2_000.0), &[]) else {
                panic!("refused a true Pareto tail of shape {shape}");
            };
            assert!((found.shape - shape).abs() < 0.15, "{shape}: {found:?}");
            assert!(found.fit_p_value >= SIGNIFICANCE && found.exceedances <= MOST);
            assert_eq!(found.levels.iter().map(|level| level.once_in).collect::<Vec<_>>(), ONCE_IN);
            for level in &found.levels {
                let over = Pareto { shape, scale: 2_000.0 }.over((level.once_in as f64).ln());
                assert!((level.low_ns..level.high_ns).contains(&(5_000 + over as u64)), "{shape}: {level:?}");
                assert!((level.low_ns..level.high_ns).contains(&level.latency_ns));
            }
        }
    }

    #[test]
    fn the_scale_of_an_exponential_tail_does_not_depend_on_the_threshold() {
        let Tail::Estimate(found) = estimate(&drawn(50_000, 0.0, 2_000.0), &[]) else { panic!("refused") };
        assert!((found.scale_ns / 2_000.0 - 1.0).abs() < 0.15, "{found:?}");
        assert!(found.threshold_ns > 5_000 + 2_000);
    }

    #[test]
    fn few_samples_are_refused() {
        assert!(reason(&drawn(1_999, 0.0, 2_000.0)).starts_with("too few samples: 1,999"));
        assert!(reason(&Histogram::new()).starts_with("too few samples: 0"));
    }

    #[test]
    fn a_constant_and_a_coarse_distribution_are_refused() {
        let mut constant = Histogram::new();
        constant.record_many(7_000, 1_000_000);
        assert!(reason(&constant).starts_with("too coarse"));
        let mut coarse = Histogram::new();
        (1..15_u64).for_each(|us| coarse.record_many(us * 1_000, 1 << (16 - us)));
        assert!(reason(&coarse).starts_with("too coarse"));
    }

    #[test]
    fn a_rare_second_cause_far_away_is_refused() {
        let mut bimodal = drawn(50_000, 0.0, 500.0);
        (0..40_u64).for_each(|n| bimodal.record(200_000 + n * 450));
        assert!(reason(&bimodal).starts_with("no generalised Pareto tail fits"));
    }

    #[test]
    fn a_tail_without_variance_is_refused() {
        assert!(reason(&drawn(50_000, 0.9, 2_000.0)).starts_with("too heavy"));
    }

    #[test]
    fn what_lies_below_the_threshold_is_left_to_the_percentiles() {
        let mut latency = drawn(50_000, 0.0, 2_000.0);
        latency.record_many(1_000, 100_000_000_000);
        let Tail::Estimate(found) = estimate(&latency, &[]) else { panic!("refused") };
        assert_eq!(found.levels.iter().map(|level| level.once_in).collect::<Vec<_>>(), [1_000_000_000]);
    }

    #[test]
    fn the_same_evidence_always_says_the_same() {
        let latency = drawn(20_000, 0.1, 3_000.0);
        assert_eq!(estimate(&latency, &[]), estimate(&latency, &[]));
    }

    #[test]
    fn extremes_that_contradict_the_buckets_do_no_harm() {
        let mut damaged = drawn(20_000, 0.1, 3_000.0);
        damaged.set_extremes(0, 10);
        let _ = estimate(&damaged, &[]);
        damaged.set_extremes(0, u64::MAX);
        damaged.record_many(u64::MAX, 3);
        assert!(matches!(estimate(&damaged, &[]), Tail::Refused { .. }));
    }
}
