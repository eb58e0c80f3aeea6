// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two runs side by side: what changed, by how much, and with which confidence interval.
//!
//! Runs are compared only where the same was asked of them; otherwise the comparison says where they differ
//! and holds no row, unless it was forced, which marks it. What the machine was may differ: that is what a
//! comparison is for, and it is listed apart.
//!
//! Exit status of `isolator compare`: 0 where rows were compared, whatever they say; 1 where the runs are
//! unlike, or one is damaged, and it was not forced ([`Comparison::refusal`] is the line to print).

mod interval;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use evidence::Error;
use evidence::document::{ProveDocument, VerdictParts};
use evidence::manifest::{RowKey, RunState, SCHEMA_VERSION};
use evidence::reader::Bundle;
use evidence::row::{Row, SPIKES};

use crate::likeness::{self, Difference};
use crate::resample::ALPHA;

/// `isolator compare --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether the same was asked of both runs, and the latencies of both are whole.
    pub comparable: bool,
    /// Whether the runs are unlike or damaged and were compared all the same: every row is then to be read
    /// with the differences and the damage in mind.
    pub forced: bool,
    /// The first run.
    pub before: ComparedRun,
    /// The second run.
    pub after: ComparedRun,
    /// Differences of the requests; empty if comparable.
    pub differences: Vec<Difference>,
    /// Differences of the machines, or of the program's versions.
    pub machine_differences: Vec<Difference>,
    /// One figure of one series each; empty if the comparison was refused.
    pub rows: Vec<Change>,
    /// Series that only the first run measured.
    pub only_before: Vec<RowKey>,
    /// Series that only the second run measured.
    pub only_after: Vec<RowKey>,
    /// The limits of the intervals.
    pub caveats: Vec<String>,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Side")]
pub struct ComparedRun {
    /// The bundle's path.
    pub bundle: String,
    /// When the run began, RFC 3339 in UTC.
    pub started_at: Option<String>,
    /// How far it got.
    pub state: RunState,
    /// The verdict on it.
    #[serde(flatten)]
    pub verdict: VerdictParts,
    /// Missing parts of the bundle.
    pub missing: Vec<String>,
}

/// One figure of one series, before and after. The improvement in percent is -`change_percent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The series.
    #[serde(flatten)]
    pub key: RowKey,
    /// The figure of the series.
    pub figure: ComparedFigure,
    /// The figure in the first run, in nanoseconds; absent if the bundle does not have it.
    pub before: Option<f64>,
    /// The figure in the second run, in nanoseconds; absent if the bundle does not have it.
    pub after: Option<f64>,
    /// 100 x (after / before - 1): below zero is better; absent where only `before` is 0, or one of them is
    /// unknown.
    pub change_percent: Option<f64>,
    /// Interval of the change, [low, high], at 95 % for all figures of the comparison together; absent where
    /// the data define none.
    pub interval_percent: Option<[f64; 2]>,
}

/// The figures that are compared, named as in `prove --json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Figure")]
pub enum ComparedFigure {
    /// Median.
    #[serde(rename = "p50_ns")]
    P50,
    /// 99 %.
    #[serde(rename = "p99_ns")]
    P99,
    /// 99.9 %.
    #[serde(rename = "p99_9_ns")]
    P99_9,
    /// 99.999 %.
    #[serde(rename = "p99_999_ns")]
    P99_999,
    /// Largest.
    #[serde(rename = "max_ns")]
    Max,
    /// Mean.
    #[serde(rename = "mean_ns")]
    Mean,
}

impl ComparedFigure {
    /// All of them, in the order of the rows.
    pub const ALL: [ComparedFigure; 6] = [
        ComparedFigure::P50,
        ComparedFigure::P99,
        ComparedFigure::P99_9,
        ComparedFigure::P99_999,
        ComparedFigure::Max,
        ComparedFigure::Mean,
    ];

    /// The fraction of samples that a percentile is not exceeded by; `None` for maximum and mean.
    fn fraction(self) -> Option<f64> {
        match self {
            ComparedFigure::P50 => Some(0.5),
            ComparedFigure::P99 => Some(0.99),
            ComparedFigure::P99_9 => Some(0.999),
            ComparedFigure::P99_999 => Some(0.999_99),
            ComparedFigure::Max | ComparedFigure::Mean => None,
        }
    }

    /// Its value in nanoseconds, where the row tells it.
    fn of(self, row: &Row) -> Option<f64> {
        match (self.fraction(), self) {
            (Some(fraction), _) => row.quantile_ns(fraction).map(|ns| ns as f64),
            (None, ComparedFigure::Max) => row.stated_max_ns().map(|ns| ns as f64),
            (None, _) => row.mean_ns(),
        }
    }
}

/// Caveats of every comparison.
const CAVEATS: [&str; 4] = [
    "intervals speak of chance within these two runs, not of what differs from one run to the next: measure each \
     side more than once to learn that",
    "intervals are 95 % for all figures together, drawn as a gate draws them: seconds in blocks of neighbours, \
     percentiles by as many samples as bursts leave independent; none is given where too few of those lie \
     beyond the percentile, below 8 seconds, and of other tools' evidence, which has no seconds",
    "a change below 0.1 % is the histograms' resolution",
    "the interval of max_ns is by ranks: one side is beyond the other where its largest blocks of seconds all are",
];

/// Compares two runs. Where they are unlike, rows are compared only with `force`.
pub fn compare(before: &Bundle, after: &Bundle, force: bool) -> Comparison {
    let differences = likeness::asked(&before.manifest, &after.manifest);
    let comparable = differences.is_empty() && before.has_all_latencies() && after.has_all_latencies();
    let known = [by_key(before), by_key(after)];
    let pairs = measured(before).filter_map(|row| Some((row, *known[1].get(&row.entry.key)?)));
    let pairs = pairs.collect::<Vec<_>>();
    // Each of two ends of each figure.
    let level = ALPHA / (2 * ComparedFigure::ALL.len() * pairs.len().max(1)) as f64;
    let changes = || pairs.iter().flat_map(|(b, a)| changes(b, a, level));
    let rows = if comparable || force { changes().collect() } else { vec![] };
    let lacks = |bundle: &Bundle, other: &BTreeMap<&RowKey, &Row>| {
        let keys = measured(bundle).map(|row| &row.entry.key);
        keys.filter(|key| !other.contains_key(key)).cloned().collect::<Vec<_>>()
    };
    let mut caveats = CAVEATS.map(String::from).to_vec();
    caveats.extend(likeness::judged(&before.manifest, &after.manifest));
    caveats.extend(likeness::unstated(&before.manifest, &after.manifest));
    caveats.extend(pairs.iter().flat_map(|(b, a)| coarse("before", b).into_iter().chain(coarse("after", a))));
    Comparison {
        schema_version: SCHEMA_VERSION,
        comparable,
        forced: force && !comparable,
        before: side(before),
        after: side(after),
        differences,
        machine_differences: likeness::machine(&before.manifest, &after.manifest),
        rows,
        only_before: lacks(before, &known[1]),
        only_after: lacks(after, &known[0]),
        caveats,
    }
}

impl Comparison {
    /// Why nothing was compared; `None` where it was.
    pub fn refusal(&self) -> Option<Error> {
        if self.comparable || self.forced {
            return None;
        }
        let on = format!("{} with {}", self.before.bundle, self.after.bundle);
        refusal("compare", &on, &self.differences).or_else(|| {
            let damage = |side: &ComparedRun| Some((side.bundle.clone(), lost_latencies(side)?.to_string()));
            let (bundle, why) = damage(&self.before).or_else(|| damage(&self.after))?;
            let why = format!("{bundle} is damaged: {why}");
            Some(Error::on(
                "compare",
                on,
                why,
                "take it again from where it was written, or compare it with --force",
            ))
        })
    }
}

/// The first thing missing that is not of the list of spikes.
fn lost_latencies(side: &ComparedRun) -> Option<&str> {
    side.missing.iter().map(String::as_str).find(|part| !part.starts_with(SPIKES))
}

/// Why unlike runs are not set side by side; `None` where there is no difference.
pub(crate) fn refusal(what: &str, on: &str, differences: &[Difference]) -> Option<Error> {
    let each = differences.iter().map(Difference::to_string).collect::<Vec<_>>();
    let why = format!("not the same was asked: {}", each.join(", "));
    let cure = format!("measure both alike, or {what} unlike runs with --force");
    (!each.is_empty()).then(|| Error::on(what, on, why, cure))
}

/// Series with at least one sample: a row that got nowhere counts as absent.
pub(crate) fn measured(bundle: &Bundle) -> impl Iterator<Item = &Row> {
    bundle.rows.iter().filter(|row| row.series.latency.count() > 0)
}

/// The measured rows of a bundle by their keys: a bundle may have ten thousand.
pub(crate) fn by_key(bundle: &Bundle) -> BTreeMap<&RowKey, &Row> {
    let mut rows = BTreeMap::new();
    // The first counts where a damaged bundle has one twice.
    for row in measured(bundle) {
        rows.entry(&row.entry.key).or_insert(row);
    }
    rows
}

pub(crate) fn side(bundle: &Bundle) -> ComparedRun {
    ComparedRun {
        bundle: bundle.path.display().to_string(),
        started_at: bundle.manifest.started_at.clone(),
        state: bundle.manifest.state,
        verdict: ProveDocument::without_tails(bundle).parts(),
        missing: bundle.missing.clone(),
    }
}

fn changes(before: &Row, after: &Row, level: f64) -> Vec<Change> {
    let mut intervals = interval::Intervals::of(before, after, level);
    let change = |figure: ComparedFigure| {
        let (was, is) = (figure.of(before), figure.of(after));
        Change {
            key: before.entry.key.clone(),
            figure,
            before: was,
            after: is,
            change_percent: was.zip(is).and_then(|(was, is)| percent(was, is)),
            interval_percent: intervals.of_figure(figure),
        }
    };
    ComparedFigure::ALL.map(change).into()
}

/// The change in percent; `None` where something came out of nothing.
fn percent(before: f64, after: f64) -> Option<f64> {
    if before == after {
        return Some(0.0);
    }
    (before > 0.0).then(|| 100.0 * (after / before - 1.0))
}

fn coarse(which: &str, row: &Row) -> Option<String> {
    let coarse = row.entry.coarse.as_ref()?;
    let beyond = coarse.hidden_from_ns();
    let beyond = beyond.map(|ns| {
        format!(
            "; {} samples from {ns} ns on were not told apart, percentiles there are unknown",
            coarse.overflow_count
        )
    });
    Some(format!(
        "{which}, {}: values are known to {} ns only, smaller changes mean nothing{}",
        row.entry.key,
        coarse.resolution_ns,
        beyond.unwrap_or_default()
    ))
}
