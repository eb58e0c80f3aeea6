// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate: is a candidate worse than its baseline, by more than chance and by more than matters?
//!
//! A figure of a row is worse where even the lower end of the interval of its change lies beyond what is
//! allowed. The intervals come from a bootstrap (`resample`) and are wide enough that all of them together
//! err in at most [`ALPHA`] of gates between runs of the same machine: each is one of `comparisons`
//! (Bonferroni). With several baselines a figure is worse only where it is worse than in every one of them,
//! which lets what differs from run to run pass as far as the baselines show it. What was measured and is no
//! more, and a verdict that no longer holds, fail too. A limit or claim that the judge gives is asked of the
//! candidate itself: a baseline that does not keep it either is no excuse.
//!
//! **Not judged is not passed**: a figure of which a doubling would not be seen, a row that is too short,
//! that no baseline has or that no limit judges, and a load that ran in no run keep the gate from passing.
//! Each is listed with its reason, and with the length of both runs that would do. So do bundles that are
//! damaged, or whose run still goes on. Where only spikes are lost, latencies are judged all the same, and
//! may be worse.
//!
//! **The judge's options** ([`Judge`]) judge all runs: those of the gate, else of the strictest baseline.
//! The candidate's own, where they differ, are listed.
//!
//! Limits: a bootstrap within two runs knows nothing of what differs from one run to the next; several
//! baselines do.
//!
//! Exit status of `isolator gate`: 0 nothing got worse, 2 something did, 1 it could not be judged.

mod figure;
mod outcome;
mod reason;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::likeness::{self, Difference};
use crate::runs::{self, ComparedRun};
use evidence::manifest::{NotRun, RowKey, SCHEMA_VERSION};
use evidence::reader::Bundle;
use evidence::verdict::VerdictOutcome;
use evidence::{Error, Judge, Result};

use self::figure::{Blind, GatePair};
use self::outcome::length;
pub use self::outcome::{FigureOutcome, GateFigure, GatedRow, Judged, NotJudged};
use self::reason::VerdictFails;
pub use self::reason::{GateError, GateReason};
use crate::resample;

pub use crate::resample::{ALPHA, FEWEST_SECONDS};

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
    /// Whether the judge gave the limit, or late cycles to allow: then the candidate has to keep it.
    pub limit_given: bool,
    /// Whether the judge gave the claim: then the candidate has to support it.
    pub claim_given: bool,
}

impl Default for GateOptions {
    fn default() -> Self {
        GateOptions { tolerance: TOLERANCE, seed: SEED, force: false, limit_given: false, claim_given: false }
    }
}

/// `isolator gate --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Gated {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether it could be judged, and nothing got worse.
    pub held: bool,
    /// The worsened figures, a line each, worst first.
    #[schemars(with = "Vec<String>")]
    pub reasons: Vec<GateReason>,
    /// The reasons why the gate cannot pass, a line each: damaged bundles, and all that could not be judged.
    /// Empty if everything was judged.
    #[schemars(with = "Vec<String>")]
    pub errors: Vec<GateError>,
    /// The runs that the candidate is held against.
    pub baselines: Vec<ComparedRun>,
    /// The run that is judged.
    pub candidate: ComparedRun,
    /// Options of the candidate by which it is not judged: those of the judge count.
    #[serde(default)]
    pub judging: Vec<String>,
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

impl Gated {
    /// Whether nothing got worse, and the candidate does not keep the limit that the judge gave.
    pub fn fails_its_limit_alone(&self) -> bool {
        matches!(&self.reasons[..], [GateReason::Limit(_)])
    }

    /// The reason that is a verdict which does not hold, or no longer.
    pub fn verdict_changed(&self) -> Option<&GateReason> {
        self.reasons.iter().find(|reason| reason.is_verdict())
    }
}

const CAVEATS: [&str; 3] = [
    "intervals draw blocks of neighbouring seconds of the baseline again, and percentiles as many samples as its \
     bursts leave independent: what happens less than once a run is in neither",
    "a bootstrap within runs knows nothing of what differs from one run to the next: give several baselines",
    "a verdict that no longer holds fails by itself, whatever the intervals say",
];

/// Judges `candidate` against every baseline, all by the judge's options.
pub fn gate(
    mut baselines: Vec<Bundle>,
    mut candidate: Bundle,
    by: &Judge,
    choice: &GateOptions,
) -> Result<Gated> {
    for baseline in &mut baselines {
        by.judge(baseline)?;
    }
    let judging = by.judge(&mut candidate)?;
    Ok(Gated { judging, ..judge(&baselines, &candidate, choice)? })
}

/// Judges `candidate` against every baseline, as it was asked. Fails where the same was not asked of all,
/// unless forced. What is damaged, or not judged, does not pass: [`Gated::errors`] says why, and
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
    let is_news = errors.is_empty() || (can_be_judged && after.verdict.outcome == VerdictOutcome::Exceeded);
    let of_baselines = sides.iter().map(|side| &side.verdict);
    match reason::of_verdict(of_baselines, &after.verdict, choice).filter(|_| is_news) {
        Some(VerdictFails::Worse(why)) => reasons.push(why),
        Some(VerdictFails::Open(why)) => errors.push(why),
        None => {}
    }
    reasons.extend(not_measured.iter().cloned().map(GateReason::NotMeasured));
    reasons.extend(worse.into_iter().cloned().map(GateReason::Worse));
    errors.extend(not_judged.iter().cloned().map(GateError::NotJudged));
    // A load that the machine cannot run is not asked of it.
    let needed = not_run.iter().filter(|row| !row.optional);
    errors.extend(needed.cloned().map(GateError::NotRun));
    if errors.is_empty() && figures.is_empty() && reasons.is_empty() {
        errors.push(GateError::NothingInCommon);
    }
    Ok(Gated {
        schema_version: SCHEMA_VERSION,
        held: reasons.is_empty() && errors.is_empty(),
        reasons,
        errors,
        baselines: sides,
        candidate: after,
        judging: Vec::new(),
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
fn damaged(which: &'static str, bundle: &Bundle) -> Vec<GateError> {
    let path = bundle.path.display().to_string();
    let damaged = |why: &String| GateError::Damaged { which, bundle: path.clone(), why: why.clone() };
    bundle.missing.iter().map(damaged).collect()
}

impl Gated {
    /// The errors that are of no row, figure or load.
    pub fn faults(&self) -> impl Iterator<Item = &GateError> {
        self.errors.iter().filter(|why| why.is_fault())
    }

    /// Why it can neither pass nor fail; `None` where it does.
    pub fn refusal(&self) -> Option<Error> {
        let why = self.errors.first().filter(|_| self.reasons.is_empty())?;
        let more = match self.errors.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let is_damaged =
            [&self.candidate].into_iter().chain(&self.baselines).any(|side| !side.missing.is_empty());
        let needs_s = self.not_judged.iter().filter_map(|one| one.needs_s).max();
        let cure = match needs_s {
            _ if is_damaged => {
                "take the bundle again from where it was written, or measure again".to_string()
            }
            Some(seconds) => format!("measure both alike, each row for {} or longer", length(seconds)),
            None if matches!(why, GateError::Unproven(_)) => {
                "measure longer, or judge by another limit or claim".to_string()
            }
            None => "measure both alike, with the same rows".to_string(),
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
    // All that was seen before is looked up: rows may be ten thousand, and must not cost their square.
    let (now, mut before_now) = (runs::by_key(candidate), BTreeSet::new());
    for baseline in baselines {
        for before in runs::measured(baseline) {
            let key = &before.entry.key;
            let is_new = before_now.insert(key);
            match now.get(key) {
                Some(after) => pairs.push((baseline, before, *after)),
                None if is_new => not_measured.push(key.clone()),
                None => {}
            }
        }
    }
    let mut listed = BTreeSet::new();
    pairs.retain(|(_, before, after)| {
        match [before, after].into_iter().find_map(|row| resample::too_short(row)) {
            None => true,
            Some(why) => {
                // Another tool's evidence has no seconds, however long it is.
                let has_seconds = [before, after].iter().all(|row| !row.series.seconds.is_empty());
                let needs_s = has_seconds.then_some(FEWEST_SECONDS as u64);
                // Once: each baseline may have a reason of its own.
                if listed.insert(&before.entry.key) {
                    not_judged.push(NotJudged { needs_s, ..NotJudged::row(&before.entry.key, why) });
                }
                false
            }
        }
    });
    let (mut judged_rows, mut judged): (Vec<GatedRow>, _) = (Vec::new(), BTreeSet::new());
    for (_, _, after) in &pairs {
        if !judged.insert(&after.entry.key) {
            continue;
        }
        let row = GatedRow::of(after);
        if row.limit_ns.is_none() {
            let open = NotJudged::row(&row.key, "the row has no limit; give one with --limit".to_string());
            not_judged.push(NotJudged { figure: Some(GateFigure::LateSeconds), ..open });
        }
        judged_rows.push(row);
    }
    for after in runs::measured(candidate) {
        let key = &after.entry.key;
        if !before_now.contains(key) {
            not_judged.push(NotJudged::row(key, "no baseline has this row".to_string()));
        }
    }
    let pairs =
        pairs.iter().map(|(baseline, before, after)| (*baseline, GatePair::of(before, after), *after));
    let pairs = pairs.collect::<Vec<_>>();
    let mut asked: Vec<(&RowKey, GateFigure)> = Vec::new();
    let mut of_row = BTreeMap::<&RowKey, Vec<_>>::new();
    for (baseline, pair, after) in &pairs {
        let key = &after.entry.key;
        asked.extend(pair.figures().into_iter().map(|figure| (key, figure)));
        of_row.entry(key).or_default().push((*baseline, pair));
    }
    asked.sort_by_key(|(key, figure)| ((*key).clone(), *figure as u8));
    asked.dedup();
    let comparisons = asked.len();
    let level = ALPHA / comparisons.max(1) as f64;
    let mut figures = Vec::new();
    for (key, figure) in asked {
        let of_row = of_row.get(key).into_iter().flatten();
        let tried = of_row.map(|(baseline, pair)| (*baseline, pair.judge(figure, choice, level)));
        let (judged, open) = against_all(key, figure, tried.collect());
        figures.extend(judged);
        not_judged.extend(open);
    }
    Rows { rows: judged_rows, figures, comparisons, not_measured, not_judged }
}

/// A figure by what came of each baseline: worse where it is worse than every one, else judged by the nearest
/// of those that would have shown it doubled, else not judged.
fn against_all(
    key: &RowKey,
    figure: GateFigure,
    tried: Vec<(&Bundle, std::result::Result<figure::GateChange, Blind>)>,
) -> (Option<Judged>, Option<NotJudged>) {
    let (mut changes, mut blind): (Vec<Judged>, Vec<Blind>) = (Vec::new(), Vec::new());
    let all = tried.len();
    for (baseline, tried) in tried {
        let change = match tried {
            Ok(change) => change,
            Err(why) => {
                blind.push(why);
                continue;
            }
        };
        let judged = change.worse || change.blind.is_none();
        blind.extend(change.blind.filter(|_| !change.worse));
        changes.push(Judged {
            key: key.clone(),
            figure,
            baseline: baseline.path.display().to_string(),
            before: change.before,
            after: change.after,
            allowed: change.allowed,
            interval: change.interval,
            worse: change.worse,
            judged,
        });
    }
    changes.sort_by(|a, b| a.excess().total_cmp(&b.excess()));
    if let Some(judged) = changes.iter().find(|one| one.judged && !one.worse) {
        return (Some(judged.clone()), None);
    }
    if changes.len() == all && changes.iter().all(|one| one.worse) {
        return (changes.into_iter().next(), None);
    }
    // The baseline that needs least.
    let least = blind.into_iter().min_by_key(|blind| blind.needs_s.unwrap_or(u64::MAX));
    let open = least.map(|Blind { why, needs_s }| NotJudged {
        key: key.clone(),
        figure: Some(figure),
        why,
        needs_s,
    });
    (changes.into_iter().find(|one| !one.worse), open)
}

/// Rows that were asked for and did not run: of the candidate all, of a baseline those that the candidate did
/// not measure either. A row that is gone fails by itself.
fn not_run(baselines: &[Bundle], candidate: &Bundle, gone: &[RowKey]) -> Vec<NotRun> {
    let of_key = |key: &RowKey| (key.probe.clone(), key.load.clone());
    let of_row = |row: &NotRun| (row.probe.clone(), row.load.clone());
    let mut all = candidate.manifest.rows_not_run();
    let mut known: BTreeSet<_> = runs::measured(candidate).map(|now| of_key(&now.entry.key)).collect();
    known.extend(all.iter().map(of_row));
    let before = baselines.iter().flat_map(|baseline| baseline.manifest.rows_not_run());
    all.extend(before.filter(|row| known.insert(of_row(row))));
    let gone: BTreeSet<_> = gone.iter().map(of_key).collect();
    all.retain(|row| !gone.contains(&of_row(row)));
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
