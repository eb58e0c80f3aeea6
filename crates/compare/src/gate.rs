// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate: is a candidate worse than its baseline, by more than chance and by more than matters?
//!
//! A figure of a row is worse where even the lower end of the interval of its change lies beyond what is
//! allowed. The intervals come from a bootstrap (`resample`) and are wide enough that all of them together
//! err in at most [`ALPHA`] of gates between runs of the same machine: each is one of `comparisons`
//! (Bonferroni). With several baselines a figure is worse only where it is worse than in every one of them,
//! which lets what differs from run to run pass as far as the baselines show it. What was measured and is no
//! more, and a verdict that no longer holds, fail too.
//!
//! Limits: a bootstrap within two runs knows nothing of what differs from one run to the next; several
//! baselines do. Rows below [`FEWEST_SECONDS`] seconds and other tools' evidence, which has no seconds, are
//! not judged, nor are percentiles with too few samples beyond them, rows that no baseline has, limits that a
//! row lacks, and loads that did not run; each is listed with its reason. Nothing passes with or against a
//! bundle that is damaged, or whose run still goes on. Where only spikes are lost, latencies are judged all
//! the same, and may be worse.
//!
//! Exit status of `isolator gate`: 0 nothing got worse, 2 something did, 1 it could not be judged.

mod resample;
#[cfg(test)]
mod tests;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::likeness::{self, Difference};
use crate::runs::{self, ComparedRun};
use evidence::manifest::{NotRun, RowKey, SCHEMA_VERSION};
use evidence::reader::Bundle;
use evidence::row::Row;
use evidence::verdict::VerdictOutcome;
use evidence::{Error, Result};
use machine::units::us;

pub use resample::FEWEST_SECONDS;

/// The chance that a gate between runs of the same machine finds anything worse.
pub const ALPHA: f64 = 0.05;

/// By which part of its baseline a figure may grow, where nothing else is asked.
pub const TOLERANCE: f64 = 0.10;

/// Seed of the draws, where none is given.
pub const SEED: u64 = 1;

/// How to judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateOptions {
    /// By which part of its baseline a figure may grow.
    pub tolerance: f64,
    /// Seed of the draws: the same bundles and seed give the same document.
    pub seed: u64,
    /// Whether unlike runs are judged all the same.
    pub force: bool,
}

impl Default for GateOptions {
    fn default() -> Self {
        GateOptions { tolerance: TOLERANCE, seed: SEED, force: false }
    }
}

/// `isolator gate --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gated {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether it could be judged, and nothing got worse.
    pub held: bool,
    /// The worsened figures, a line each, worst first.
    pub reasons: Vec<String>,
    /// The reasons why the gate cannot pass, a line each: damaged bundles, no figure to judge, or a figure
    /// beyond what is allowed that could not be judged. Empty if it was judged.
    pub errors: Vec<String>,
    /// The runs that the candidate is held against.
    pub baselines: Vec<ComparedRun>,
    /// The run that is judged.
    pub candidate: ComparedRun,
    /// Differences of the requests; empty unless the comparison was forced.
    pub differences: Vec<Difference>,
    /// Differences of the machines, for the first baseline.
    pub machine_differences: Vec<Difference>,
    /// The rows that were judged, each with its limit and the margin to it.
    pub rows: Vec<GatedRow>,
    /// Every judged figure; with several baselines, against the nearest.
    pub figures: Vec<Judged>,
    /// Rows of a baseline that the candidate did not measure.
    pub not_measured: Vec<RowKey>,
    /// Rows, and figures of rows, that could not be judged, and why.
    pub not_judged: Vec<NotJudged>,
    /// Probes under loads that were asked for and did not run, and why.
    pub not_run: Vec<NotRun>,
    /// By which part of its baseline a figure may grow.
    pub tolerance: f64,
    /// The chance that a gate between two runs of an unchanged machine finds a figure worse, apart from the
    /// variation between runs.
    pub alpha: f64,
    /// How many figures were judged at once: each at `alpha / comparisons`.
    pub comparisons: usize,
    /// Seed of the draws.
    pub seed: u64,
    /// The limits of the intervals.
    pub caveats: Vec<String>,
}

/// How the reason begins that is a verdict which no longer holds.
const VERDICT: &str = "verdict: ";

impl Gated {
    /// The reason that is a verdict which no longer holds.
    pub fn verdict_changed(&self) -> Option<&str> {
        self.reasons.iter().map(String::as_str).find(|reason| reason.starts_with(VERDICT))
    }
}

/// The reason that is a row which is no longer measured.
pub fn gone(key: &RowKey) -> String {
    format!("{key}: measured before, not now")
}

/// A row of the candidate that was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatedRow {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Its largest latency.
    pub max_ns: u64,
    /// Its limit; the verdict judges by it, whatever the baseline was.
    pub limit_ns: Option<u64>,
    /// The limit less the largest latency; below zero the limit was exceeded.
    pub margin_ns: Option<i64>,
}

impl GatedRow {
    fn of(row: &Row) -> GatedRow {
        let (max_ns, limit_ns) = (row.series.latency.max_ns(), row.entry.limit_ns);
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let margin_ns = limit_ns.map(|limit| signed(limit) - signed(max_ns));
        GatedRow { key: row.entry.key.clone(), max_ns, limit_ns, margin_ns }
    }
}

impl fmt::Display for GatedRow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = us(self.max_ns);
        match (self.limit_ns, self.margin_ns) {
            (Some(limit), Some(margin)) => {
                let side = if margin < 0 { "above" } else { "below" };
                write!(out, "maximum {max}, {} {side} the limit of {}", us(margin.unsigned_abs()), us(limit))
            }
            _ => write!(out, "maximum {max}, no limit"),
        }
    }
}

/// One figure of one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// The figure of the series.
    pub figure: GateFigure,
    /// The baseline's bundle.
    pub baseline: String,
    /// In the baseline.
    pub before: f64,
    /// Now.
    pub after: f64,
    /// The allowed value.
    pub allowed: f64,
    /// Its confidence interval now, with the chance in both runs: [low, high]. Worse if `low` is above
    /// `allowed`.
    pub interval: [f64; 2],
    /// Whether it got worse.
    pub worse: bool,
}

/// The figures that are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Figure")]
pub enum GateFigure {
    /// Median.
    #[serde(rename = "p50_ns")]
    P50,
    /// 99 %.
    #[serde(rename = "p99_ns")]
    P99,
    /// 99.9 %.
    #[serde(rename = "p99_9_ns")]
    P99_9,
    /// The largest latency of a second, the mean of all seconds.
    #[serde(rename = "second_max_ns")]
    SecondMax,
    /// The share of seconds with a late cycle.
    #[serde(rename = "late_seconds")]
    LateSeconds,
    /// The share of periods that were missed.
    #[serde(rename = "missed_rate")]
    MissedRate,
}

impl GateFigure {
    /// All of them, in the order of the document.
    pub const ALL: [GateFigure; 6] = [
        GateFigure::P50,
        GateFigure::P99,
        GateFigure::P99_9,
        GateFigure::SecondMax,
        GateFigure::LateSeconds,
        GateFigure::MissedRate,
    ];

    /// As people read it.
    pub fn label(self) -> &'static str {
        match self {
            GateFigure::P50 => "p50",
            GateFigure::P99 => "p99",
            GateFigure::P99_9 => "p99.9",
            GateFigure::SecondMax => "mean of each second's maximum",
            GateFigure::LateSeconds => "seconds with a late cycle",
            GateFigure::MissedRate => "missed periods",
        }
    }

    /// A value of it with its unit.
    pub fn format(self, value: f64) -> String {
        match self {
            GateFigure::LateSeconds | GateFigure::MissedRate => format!("{:.2} %", 100.0 * value),
            _ => us(value.round() as u64),
        }
    }
}

/// A row, or a figure of one, that could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotJudged {
    /// The row.
    #[serde(flatten)]
    pub key: RowKey,
    /// The figure of the series; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<GateFigure>,
    /// Why.
    pub why: String,
    /// Whether the figure lies beyond what is allowed, so that the gate cannot pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_beyond: bool,
}

impl NotJudged {
    /// A row of which nothing could be judged.
    fn row(key: &RowKey, why: String) -> NotJudged {
        NotJudged { key: key.clone(), figure: None, why, is_beyond: false }
    }
}

impl fmt::Display for NotJudged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.figure {
            Some(figure) => write!(out, "{}: {}: {}", self.key, figure.label(), self.why),
            None => write!(out, "{}: {}", self.key, self.why),
        }
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_unit = |value| self.figure.format(value);
        let [low, high] = self.interval.map(with_unit);
        write!(
            out,
            "{}: {}: {} before, {} now (between {low} and {high}), {} allowed",
            self.key,
            self.figure.label(),
            with_unit(self.before),
            with_unit(self.after),
            with_unit(self.allowed)
        )
    }
}

impl Judged {
    /// By which part of its baseline it changed, and its interval; `None` where the baseline is zero.
    pub fn change(&self) -> Option<[f64; 3]> {
        let [low, high] = self.interval;
        (self.before > 0.0).then(|| [self.after, low, high].map(|value| value / self.before - 1.0))
    }

    /// By how much what is surely there exceeds what is allowed: what is worst stands first.
    pub fn excess(&self) -> f64 {
        self.interval[0] / self.allowed.max(f64::MIN_POSITIVE)
    }
}

const CAVEATS: [&str; 3] = [
    "intervals draw blocks of neighbouring seconds again, and percentiles as many samples as their bursts leave \
     independent: what happens less than once a run is in neither",
    "a bootstrap within runs knows nothing of what differs from one run to the next: give several baselines",
    "a verdict that no longer holds fails by itself, whatever the intervals say",
];

/// Judges `candidate` against every baseline. Fails where the same was not asked of all, unless forced. What
/// is damaged, or has nothing that can be judged, does not pass: [`Gated::errors`] says why, and
/// [`Gated::refusal`] is the line to print.
pub fn judge(baselines: &[Bundle], candidate: &Bundle, choice: &GateOptions) -> Result<Gated> {
    let Some(first) = baselines.first() else {
        let why = "no baseline was given";
        return Err(Error::on("judge", candidate.path.display(), why, "give one with --baseline"));
    };
    let mut differences = Vec::new();
    for baseline in baselines {
        latencies(baseline)?;
        let unlike = likeness::asked(&baseline.manifest, &candidate.manifest);
        let on = format!("{} by {}", candidate.path.display(), baseline.path.display());
        if let Some(refusal) = runs::refusal("judge", &on, &unlike).filter(|_| !choice.force) {
            return Err(refusal);
        }
        differences.extend(unlike.into_iter().filter(|one| !differences.contains(one)).collect::<Vec<_>>());
    }
    latencies(candidate)?;
    let mut errors = damaged("the candidate", candidate);
    errors.extend(baselines.iter().flat_map(|baseline| damaged("the baseline", baseline)));
    let can_be_judged = baselines.iter().chain([candidate]).all(Bundle::has_all_latencies);
    let rows = if can_be_judged { rows(baselines, candidate, choice) } else { Rows::default() };
    let Rows { rows, figures, comparisons, not_measured, not_judged } = rows;
    let not_run = not_run(baselines, candidate, &not_measured);
    let sides = baselines.iter().map(runs::side).collect::<Vec<_>>();
    let after = runs::side(candidate);
    let mut worse = figures.iter().filter(|one| one.worse).collect::<Vec<_>>();
    worse.sort_by(|a, b| b.excess().total_cmp(&a.excess()));
    let mut reasons = Vec::new();
    // That a damaged bundle is unproven is no news of the machine.
    let is_news = errors.is_empty() || (can_be_judged && after.outcome == VerdictOutcome::Exceeded);
    if is_news && sides.iter().all(|side| rank(side.outcome) < rank(after.outcome)) {
        reasons.push(verdict_changed(&sides, &after));
    }
    reasons.extend(not_measured.iter().map(gone));
    reasons.extend(worse.iter().map(ToString::to_string));
    errors.extend(not_judged.iter().filter(|one| one.is_beyond).map(ToString::to_string));
    if errors.is_empty() && figures.is_empty() && reasons.is_empty() {
        errors.push(match not_judged.first() {
            Some(row) => row.to_string(),
            None => "they have no row in common".to_string(),
        });
    }
    Ok(Gated {
        schema_version: SCHEMA_VERSION,
        held: reasons.is_empty() && errors.is_empty(),
        reasons,
        errors,
        baselines: sides,
        candidate: after,
        differences,
        machine_differences: likeness::machine(&first.manifest, &candidate.manifest),
        rows,
        figures,
        not_measured,
        not_judged,
        not_run,
        tolerance: choice.tolerance,
        alpha: ALPHA,
        comparisons,
        seed: choice.seed,
        caveats: CAVEATS.map(String::from).to_vec(),
    })
}

/// Missing or damaged parts of a bundle, which make its figures uncertain.
fn damaged(which: &str, bundle: &Bundle) -> Vec<String> {
    let path = bundle.path.display();
    bundle.missing.iter().map(|why| format!("{which} {path} is damaged: {why}")).collect()
}

impl Gated {
    /// Why it can neither pass nor fail; `None` where it does.
    pub fn refusal(&self) -> Option<Error> {
        let why = self.errors.first().filter(|_| self.reasons.is_empty())?;
        let more = match self.errors.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let is_damaged =
            [&self.candidate].into_iter().chain(&self.baselines).any(|side| !side.missing.is_empty());
        let cure = if is_damaged {
            "take the bundle again from where it was written, or measure again".to_string()
        } else if self.not_judged.iter().any(|one| one.is_beyond) {
            "measure both longer, or see isolator compare for the intervals".to_string()
        } else {
            format!("measure both alike, each row for {FEWEST_SECONDS} s or longer")
        };
        Some(Error::on("judge", &self.candidate.bundle, format!("{why}{more}"), cure))
    }
}

/// The rows of all baselines.
#[derive(Default)]
struct Rows {
    rows: Vec<GatedRow>,
    figures: Vec<Judged>,
    comparisons: usize,
    not_measured: Vec<RowKey>,
    not_judged: Vec<NotJudged>,
}

fn rows(baselines: &[Bundle], candidate: &Bundle, choice: &GateOptions) -> Rows {
    let (mut pairs, mut not_judged) = (Vec::new(), Vec::new());
    let mut not_measured: Vec<RowKey> = Vec::new();
    for baseline in baselines {
        for before in runs::measured(baseline) {
            let key = &before.entry.key;
            match runs::find(candidate, key) {
                Some(after) => pairs.push((baseline, before, after)),
                None if not_measured.contains(key) => {}
                None => not_measured.push(key.clone()),
            }
        }
    }
    pairs.retain(|(_, before, after)| match resample::too_short(before, after) {
        None => true,
        Some(why) => {
            list(&mut not_judged, NotJudged::row(&before.entry.key, why));
            false
        }
    });
    let mut judged_rows: Vec<GatedRow> = Vec::new();
    for (_, _, after) in &pairs {
        let row = GatedRow::of(after);
        if judged_rows.contains(&row) {
            continue;
        }
        if row.limit_ns.is_none() {
            let open = NotJudged::row(&row.key, "the row has no limit".to_string());
            not_judged.push(NotJudged { figure: Some(GateFigure::LateSeconds), ..open });
        }
        judged_rows.push(row);
    }
    for after in runs::measured(candidate) {
        let key = &after.entry.key;
        if !baselines.iter().any(|baseline| runs::find(baseline, key).is_some()) {
            not_judged.push(NotJudged::row(key, "no baseline has this row".to_string()));
        }
    }
    let comparisons = comparisons(&pairs);
    let mut figures: Vec<Judged> = Vec::new();
    for (baseline, before, after) in &pairs {
        for judged in resample::judge(before, after, choice, ALPHA / comparisons.max(1) as f64) {
            let judged = Judged { baseline: baseline.path.display().to_string(), ..judged };
            let same = |one: &&mut Judged| (&one.key, one.figure) == (&judged.key, judged.figure);
            // Worse than every baseline means worse than the one that is closest.
            match figures.iter_mut().find(same) {
                Some(known) if known.excess() <= judged.excess() => {}
                Some(known) => *known = judged,
                None => figures.push(judged),
            }
        }
    }
    for (_, before, after) in &pairs {
        let key = &before.entry.key;
        for resample::Undefined { figure, why, is_beyond } in
            resample::undefined(before, after, choice.tolerance)
        {
            let is_known = |one: &Judged| (&one.key, one.figure) == (key, figure);
            // One baseline may have what another lacks.
            if !figures.iter().any(is_known) {
                let open = NotJudged::row(key, why);
                list(&mut not_judged, NotJudged { figure: Some(figure), is_beyond, ..open });
            }
        }
    }
    Rows { rows: judged_rows, figures, comparisons, not_measured, not_judged }
}

/// Lists a row, or a figure of one, once: each baseline may have a reason of its own. What one of them allows
/// is not beyond.
fn list(not_judged: &mut Vec<NotJudged>, row: NotJudged) {
    match not_judged.iter_mut().find(|one| (&one.key, one.figure) == (&row.key, row.figure)) {
        Some(known) if known.is_beyond && !row.is_beyond => *known = row,
        Some(_) => {}
        None => not_judged.push(row),
    }
}

/// Rows that were asked for and did not run: of the candidate all, of a baseline those that the candidate did
/// not measure either. A row that is gone fails by itself.
fn not_run(baselines: &[Bundle], candidate: &Bundle, gone: &[RowKey]) -> Vec<NotRun> {
    let is = |key: &RowKey, row: &NotRun| (&key.probe, &key.load) == (&row.probe, &row.load);
    let mut all = candidate.manifest.rows_not_run();
    for row in baselines.iter().flat_map(|baseline| baseline.manifest.rows_not_run()) {
        let is_known = all.iter().any(|one| (&one.probe, &one.load) == (&row.probe, &row.load));
        if !is_known && !runs::measured(candidate).any(|now| is(&now.entry.key, &row)) {
            all.push(row);
        }
    }
    all.retain(|row| !gone.iter().any(|key| is(key, row)));
    all
}

/// Refuses counts of the lab, which has its own gate.
fn latencies(bundle: &Bundle) -> Result<()> {
    if !bundle.counts_only() {
        return Ok(());
    }
    let why = "the lab counted, and kept no latencies";
    Err(Error::on("judge", bundle.path.display(), why, "for counts use isolator lab gate"))
}

/// Figures that are judged at once: what more baselines add only makes it harder to fail.
fn comparisons(pairs: &[(&Bundle, &Row, &Row)]) -> usize {
    let mut rows =
        pairs.iter().map(|(_, before, after)| (&before.entry.key, resample::figures(before, after)));
    let mut seen: Vec<(&RowKey, GateFigure)> = Vec::new();
    for (key, figures) in rows.by_ref() {
        seen.extend(figures.into_iter().map(|figure| (key, figure)));
    }
    seen.sort_by_key(|(key, figure)| ((*key).clone(), *figure as u8));
    seen.dedup();
    seen.len()
}

fn rank(outcome: VerdictOutcome) -> u8 {
    match outcome {
        VerdictOutcome::Held => 0,
        VerdictOutcome::Unproven => 1,
        VerdictOutcome::Exceeded => 2,
    }
}

fn verdict_changed(baselines: &[ComparedRun], after: &ComparedRun) -> String {
    let before = baselines.iter().map(|side| side.outcome).max_by_key(|outcome| rank(*outcome));
    let why = after.reasons.first().cloned().unwrap_or_default();
    format!(
        "{VERDICT}{} before, {} now: {why}",
        before.unwrap_or(VerdictOutcome::Held).name(),
        after.outcome.name()
    )
}
