// SPDX-License-Identifier: MIT OR Apache-2.0
//! The claim of a row beyond its own cycles: how many late episodes are excluded, in which time, and
//! what of a rate per cycle.
//!
//! The one place of the rule. A row of length T without a late cycle excludes 3 late
//! [episodes](crate::episode) in T, at 95 %. The rate per cycle is below 3/N times the cluster factor, at its
//! upper end; where the user says that late cycles are independent, below 3/N.
//!
//! **Joint**: a verdict holds only if no row has a late cycle. If in one of the rows 3 episodes or more are
//! to be expected, that happens in at most 5 % of runs, whatever the other rows do and however they depend on
//! it (the intersection-union test, Berger 1982, Technometrics 24, 295). So the 95 % are those of all rows
//! together. Rows with late cycles share the 5 % (Bonferroni).

use machine::quantity::{Say, Sentence, Sign};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::episode::{self, ClusterFactor, Clustering, NoFactor};
pub use crate::limit::ClaimPer;
use crate::row::Row;

/// The chance of a false claim that is allowed.
pub const ALPHA: f64 = 0.05;

/// Late episodes that none seen exclude.
pub const THREE: f64 = 3.0;

/// The unit that a claim counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimUnit {
    /// Late episodes in a time.
    Episode,
    /// Late cycles among all cycles.
    Cycle,
    /// Boots with a late cycle among all boots.
    Boot,
}

/// The claim of the data at the confidence that is stated: fewer than `below` of the unit in each `per`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The unit that is counted.
    pub unit: ClaimUnit,
    /// Fewer than this: late episodes in the time `per`, or the share of cycles or boots that are late.
    pub below: f64,
    /// A time such as `20s`, or `cycle`, or `boot`, or `run` where the length of the rows is unknown.
    pub per: String,
    /// The same time in nanoseconds; absent for a share, and where the length of the rows is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_ns: Option<u64>,
    /// How often such a claim is true at the least.
    pub confidence: f64,
    /// Whether the confidence is that of all rows together.
    pub joint: bool,
    /// The time without a late cycle that ends an episode.
    pub horizon_ns: u64,
    /// Late cycles in an episode on average, at the most that is plausible; absent where the data do not
    /// tell; 1 where the user says that late cycles are independent.
    pub cluster_factor: Option<f64>,
    /// Its interval: [low, high].
    pub cluster_factor_interval: Option<[f64; 2]>,
    /// The rate of late cycles that the factor excludes; absent without one.
    pub rate_below: Option<f64>,
    /// Boots that it rests on.
    pub boots: u64,
    /// Boots that are still needed for those that were wanted; absent where none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_boots: Option<u64>,
    /// The chance that the next spike has a cause that no listed spike had (Good-Turing); absent without
    /// spikes whose cause is named.
    pub next_cause_unseen: Option<f64>,
}

impl Claim {
    /// The claim of rows of cycles that were judged together; `None` without one.
    pub(crate) fn of(rows: &[RowClaim], per: ClaimPer, next_cause_unseen: Option<f64>) -> Option<Claim> {
        let late = rows.iter().filter(|row| row.episodes > 0).count();
        Claim::among(rows, late, per, next_cause_unseen)
    }

    /// The claim of these rows, where so many rows that were judged together have late cycles.
    pub(crate) fn among(
        rows: &[RowClaim],
        late: usize,
        per: ClaimPer,
        next_cause_unseen: Option<f64>,
    ) -> Option<Claim> {
        let below = |row: &RowClaim| row.episodes_below(late);
        let rate = |row: &RowClaim| below(row) / row.length_ns.max(1) as f64;
        let worst = rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let rates = rows.iter().map(|row| row.rate_below(per)).collect::<Option<Vec<_>>>();
        let rate_below = rates.map(|rates| rates.into_iter().fold(0.0, f64::max));
        let factors = rows.iter().map(|row| row.factor_by(per)).collect::<Option<Vec<_>>>();
        let factor = factors.and_then(|factors| factors.into_iter().max_by(|a, b| a.high.total_cmp(&b.high)));
        let length = std::time::Duration::from_nanos(worst.length_ns / 1_000_000 * 1_000_000);
        let per_ns = (worst.length_ns > 0).then_some(worst.length_ns);
        let whole_run = || "run".to_string();
        let in_time = Claim {
            unit: ClaimUnit::Episode,
            below: below(worst),
            per: per_ns.map_or_else(whole_run, |_| humantime::format_duration(length).to_string()),
            per_ns,
            confidence: 1.0 - ALPHA,
            joint: true,
            horizon_ns: rows.iter().map(|row| row.horizon_ns).max().unwrap_or(0),
            cluster_factor: factor.map(|factor| factor.high),
            cluster_factor_interval: factor.map(|factor| [factor.low, factor.high]),
            rate_below,
            boots: 1,
            more_boots: None,
            next_cause_unseen,
        };
        Some(match rate_below.filter(|_| per != ClaimPer::Episode) {
            None => in_time,
            Some(below) => {
                Claim { unit: ClaimUnit::Cycle, below, per: "cycle".into(), per_ns: None, ..in_time }
            }
        })
    }

    /// The same in words: `fewer than 3 late episodes in 20 s`.
    pub fn sentence(&self) -> Sentence {
        let below = figure(self.below);
        match (self.unit, self.per_ns) {
            (ClaimUnit::Episode, Some(ns)) => {
                format!("fewer than {below} late episodes in {}", spelled(ns)).into()
            }
            (ClaimUnit::Episode, None) => format!("fewer than {below} late episodes in a run").into(),
            (ClaimUnit::Cycle, _) => format!("a rate of late cycles below {:.1e}", self.below).into(),
            (ClaimUnit::Boot, _) => format!(
                "fewer than {:.0} % of boots with a late cycle, from {} boots",
                100.0 * self.below,
                self.boots
            )
            .into(),
        }
    }
}

impl Say for Claim {
    fn write(&self, sign: Sign) -> String {
        self.sentence().write(sign)
    }
}

/// `3`, `4.7`.
fn figure(below: f64) -> String {
    if below.fract() == 0.0 { format!("{below:.0}") } else { format!("{below:.1}") }
}

/// A length of time in its two largest units: `3 h 12 min`, `20 s`, `450 ms`.
pub fn spelled(ns: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let ms = ns.div_ceil(1_000_000);
    let Some(first) = UNITS.iter().position(|(unit, _)| ms >= *unit) else { return "0 s".to_string() };
    let (unit, name) = UNITS[first];
    let whole = format!("{} {name}", ms / unit);
    match UNITS.get(first + 1).map(|(unit, name)| (ms % UNITS[first].0 / unit, name)) {
        Some((part, name)) if part > 0 && *name != "ms" => format!("{whole} {part} {name}"),
        _ => whole,
    }
}

/// The shortest time from `ns` on that is told whole by [`spelled`]: of days in hours, of hours in minutes,
/// else in seconds.
fn enough(ns: u64) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    let unit_ns = SECOND_NS
        * match ns / SECOND_NS {
            ..3_600 => 1,
            3_600..86_400 => 60,
            86_400.. => 3_600,
        };
    ns.div_ceil(unit_ns).saturating_mul(unit_ns)
}

/// How the cycles of one row come together, and what that supports.
#[derive(Debug, Clone, PartialEq)]
pub struct RowClaim {
    /// Length of the row; 0 where it is unknown.
    pub length_ns: u64,
    /// The quiet time that ends an episode.
    pub horizon_ns: u64,
    /// Late episodes.
    pub episodes: u64,
    /// Whether its latencies stay together for too long a part of it.
    pub is_too_short: bool,
    /// Late cycles in an episode, or why that is unknown.
    pub factor: Result<ClusterFactor, NoFactor>,
    /// Cycles that were due; `None` where the source does not state how many samples there were.
    pub due: Option<u64>,
}

impl RowClaim {
    /// The claims that a row supports.
    pub fn of(row: &Row) -> RowClaim {
        let due = row.stated_count().map(|_| row.due().most());
        let seconds = &row.series.seconds;
        let in_seconds = seconds.last().map_or(0, |last| (u64::from(last.second) + 1) * 1_000_000_000);
        let length_ns = due.map_or(0, |due| {
            row.entry.key.period_ns.map_or(in_seconds, |period_ns| due.saturating_mul(period_ns))
        });
        let clustering = Clustering::of(seconds, &row.series.latency, length_ns);
        let seen = clustering.late_episodes(seconds, row.entry.limit_ns);
        let late = row.over_limit().1.saturating_add(row.missed());
        // Another tool's evidence has no seconds: each late cycle may be an episode of its own.
        let most = if seconds.is_empty() { late } else { late.min(1) };
        RowClaim {
            length_ns,
            horizon_ns: clustering.horizon_ns(),
            episodes: seen.max(most),
            is_too_short: clustering.is_too_short(),
            factor: row.entry.limit_ns.map_or(Err(NoFactor::Far), |limit_ns| clustering.factor(limit_ns)),
            due,
        }
    }

    /// Late episodes that are excluded in the row's length, where it is one of `rows` with late cycles.
    pub fn episodes_below(&self, rows: usize) -> f64 {
        match self.episodes {
            0 => THREE,
            seen => episode::fewer_than(seen, ALPHA / rows.max(1) as f64),
        }
    }

    /// Late cycles in an episode, by what the user says.
    pub fn factor_by(&self, per: ClaimPer) -> Option<ClusterFactor> {
        match per {
            ClaimPer::Independent => Some(ClusterFactor { low: 1.0, estimate: 1.0, high: 1.0 }),
            ClaimPer::Episode | ClaimPer::Cycle => self.factor.ok(),
        }
    }

    /// The rate of late cycles that is excluded, by the cluster factor at its upper end; `None` where there
    /// is no factor, or cycles were late.
    pub fn rate_below(&self, per: ClaimPer) -> Option<f64> {
        let factor = self.factor_by(per).filter(|_| self.episodes == 0)?;
        let due = self.due.filter(|due| *due > 0)?;
        Some((THREE * factor.high / due as f64).min(1.0))
    }

    /// Why a row without a late cycle does not support a claim of that rate; `None` where it does.
    pub(crate) fn falls_short(&self, claim: f64, per: ClaimPer) -> Option<String> {
        let what = if per == ClaimPer::Episode { "episodes" } else { "cycles" };
        let Some(had) = self.due else {
            return Some(format!(
                "the file does not state how many samples there were, so that no rate of late {what} can be \
                 claimed; measure with a tool that counts them"
            ));
        };
        let factor = match (per, self.factor) {
            (ClaimPer::Cycle, Err(none)) => {
                return Some(format!(
                    "a rate of late cycles needs a cluster factor, and there is none: {}; claim episodes, or \
                     say that late cycles are independent (--claim-per)",
                    none.why()
                ));
            }
            (ClaimPer::Cycle, Ok(factor)) => factor.high,
            (ClaimPer::Episode | ClaimPer::Independent, _) => 1.0,
        };
        if per != ClaimPer::Independent && self.is_too_short {
            let stay = spelled(self.horizon_ns);
            let needed = spelled(enough(self.horizon_ns.saturating_mul(episode::PARTS)));
            return Some(format!(
                "its largest latencies stay together for {stay}, so that {} has room for few episodes; run \
                 {needed}",
                spelled(self.length_ns)
            ));
        }
        let needed = (THREE * factor / claim).ceil();
        (had > 0 && THREE * factor / had as f64 > claim).then(|| {
            let more = self.more_ns(needed).map(|ns| format!("; run {} more", spelled(ns)));
            format!(
                "{had} samples cannot support a rate of late {what} below {claim}; {needed} without a late one \
                 would{}",
                more.unwrap_or_default()
            )
        })
    }

    /// How much longer it has to run for so many cycles, at the rate at which they came.
    pub fn more_ns(&self, cycles: f64) -> Option<u64> {
        let due = self.due.filter(|due| *due > 0 && self.length_ns > 0)? as f64;
        let more_ns = ((cycles - due) * self.length_ns as f64 / due).ceil();
        (more_ns > 0.0).then(|| enough(more_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(episodes: u64, length_s: u64, factor: Result<ClusterFactor, NoFactor>) -> RowClaim {
        let length_ns = length_s * 1_000_000_000;
        let horizon_ns = length_ns / episode::PARTS;
        let due = Some(length_s * 1_000);
        RowClaim { length_ns, horizon_ns, episodes, is_too_short: false, factor, due }
    }

    const FOUR: ClusterFactor = ClusterFactor { low: 2.0, estimate: 3.0, high: 4.0 };

    #[test]
    fn rows_without_late_cycles_exclude_three_episodes_in_the_shortest() {
        let rows = [row(0, 60, Ok(FOUR)), row(0, 20, Err(NoFactor::Far))];
        let claim = Claim::of(&rows, ClaimPer::Episode, Some(0.1)).unwrap();
        assert_eq!(claim.sentence(), "fewer than 3 late episodes in 20 s");
        assert_eq!((claim.below, claim.per.as_str(), claim.per_ns), (3.0, "20s", Some(20_000_000_000)));
        assert_eq!((claim.cluster_factor, claim.rate_below, claim.boots), (None, None, 1));
        assert_eq!(claim.horizon_ns, 6_000_000_000);
    }

    #[test]
    fn a_rate_of_cycles_needs_a_factor_or_a_user_who_says_independent() {
        let far = [row(0, 20, Err(NoFactor::Far))];
        let unit = |rows: &[RowClaim], per| Claim::of(rows, per, None).map(|claim| (claim.unit, claim.below));
        assert_eq!(unit(&far, ClaimPer::Cycle), Some((ClaimUnit::Episode, 3.0)));
        assert_eq!(unit(&far, ClaimPer::Independent), Some((ClaimUnit::Cycle, 1.5e-4)));
        assert_eq!(unit(&[row(0, 20, Ok(FOUR))], ClaimPer::Cycle), Some((ClaimUnit::Cycle, 6e-4)));
        let short = |row: RowClaim, claim, per| row.falls_short(claim, per);
        assert!(
            short(row(0, 20, Err(NoFactor::Far)), 1e-3, ClaimPer::Cycle).unwrap().contains("cluster factor")
        );
        assert_eq!(short(row(0, 20, Ok(FOUR)), 1e-3, ClaimPer::Cycle), None);
        assert!(
            short(row(0, 20, Ok(FOUR)), 5e-4, ClaimPer::Cycle).unwrap().contains("24000 without a late one")
        );
    }

    #[test]
    fn says_how_much_longer_to_run() {
        let why = row(0, 20, Err(NoFactor::Far)).falls_short(1e-6, ClaimPer::Episode).unwrap();
        assert!(why.ends_with("; run 49 min 40 s more"), "{why}");
        // A run of so much more says enough, however long it is.
        for (length_s, claim) in [(20, 1e-5), (20, 1e-6), (77, 1e-7), (3, 2.9e-8), (86_000, 3e-8), (11, 1e-9)]
        {
            let short = row(0, length_s, Err(NoFactor::Far));
            let more_ns = short.more_ns((THREE / claim).ceil()).unwrap();
            let due = short.due.map(|due| due + more_ns / 1_000_000);
            let told = short.falls_short(claim, ClaimPer::Episode).unwrap();
            assert!(told.ends_with(&format!("; run {} more", spelled(more_ns))), "{told}");
            assert_eq!(enough(more_ns), more_ns);
            assert_eq!(RowClaim { due, ..short }.falls_short(claim, ClaimPer::Episode), None, "{told}");
            let whole = spelled(more_ns).split(' ').map(str::to_string).collect::<Vec<_>>();
            let ns = |unit: &str| humantime::parse_duration(&format!("1{unit}")).unwrap().as_nanos() as u64;
            let parts = whole.chunks(2).map(|part| part[0].parse::<u64>().unwrap() * ns(&part[1]));
            assert_eq!(parts.sum::<u64>(), more_ns, "{told}");
        }
        let lengths = [0, 450_000_000, 20_000_000_000, 11_520_000_000_000, 200_000_000_000_000].map(spelled);
        assert_eq!(lengths, ["0 s", "450 ms", "20 s", "3 h 12 min", "2 d 7 h"]);
    }

    #[test]
    fn late_rows_share_the_five_percent() {
        let [one, two] = [1, 2].map(|rows| row(1, 20, Err(NoFactor::Far)).episodes_below(rows));
        assert!((one - 4.744).abs() < 0.01 && two > 5.5, "{one} {two}");
        let rows = [row(1, 20, Err(NoFactor::Far)), row(0, 20, Err(NoFactor::Far))];
        let claim = Claim::of(&rows, ClaimPer::Episode, None).unwrap();
        assert_eq!(claim.sentence(), "fewer than 4.7 late episodes in 20 s");
    }
}
