// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of figures: a line a row, the worst spikes, what the tails suggest.

use evidence::Bundle;
use evidence::Verdict;
use evidence::cause::Cause;
use evidence::manifest::Spike;
use evidence::tail::{Estimate, Level, Tail};
use evidence::verdict::{RowVerdict, VerdictOutcome};
use serde::Serialize;

use crate::chart::LoadStyle;
use crate::runs::{self, ProbePeriod, RowView, Runs, ShownRun};
use crate::{lab, taints, text};

/// Reasons shown without unfolding; where there are more, two fewer are shown, so that none is folded away
/// alone.
const REASONS: usize = 8;

/// Spikes shown for each run.
const SPIKES: usize = 20;

/// The verdict on one run.
#[derive(Debug, Serialize)]
pub(crate) struct VerdictCard {
    pub run: String,
    pub name: String,
    /// `ok`, `late`, `unproven`, or `counted` where nothing is judged.
    pub state: &'static str,
    /// Empty where nothing is judged.
    pub mark: &'static str,
    pub words: String,
    /// Limit, worst maximum, samples, and how much there is to read on.
    pub facts: Vec<(&'static str, String)>,
    pub reasons: Vec<String>,
    /// How many of them are not folded away.
    pub reasons_shown: usize,
}

/// The lines of one probe in the table of all rows.
#[derive(Debug, Serialize)]
pub(crate) struct FigureGroup {
    pub title: String,
    pub rows: Vec<FigureRow>,
}

/// A line of the table of all rows.
#[derive(Debug, Serialize)]
pub(crate) struct FigureRow {
    pub run: String,
    pub load: String,
    pub style: LoadStyle,
    pub cpu: u32,
    /// Whether the row above has the same probe, load and CPU.
    pub same: bool,
    pub cells: Vec<String>,
    pub corrected: Vec<String>,
    pub limit: String,
    pub state: &'static str,
    pub result: String,
}

/// The worst spikes of one run.
#[derive(Debug, Serialize)]
pub(crate) struct SpikeTable {
    pub run: String,
    /// How many there were, and how many of them are listed.
    pub words: String,
    pub rows: Vec<SpikeRow>,
}

/// One spike.
#[derive(Debug, Serialize)]
pub(crate) struct SpikeRow {
    pub latency_us: String,
    pub place: String,
    pub at: String,
    pub wall_time: String,
    pub missed: u64,
    pub causes: Vec<String>,
    pub unexplained_us: String,
}

/// What the tail of some rows suggests, or why it says nothing.
#[derive(Debug, Serialize)]
pub(crate) struct TailRow {
    pub run: String,
    pub rows: Vec<String>,
    pub refused: bool,
    pub words: Vec<(String, String)>,
}

/// The words for an outcome.
pub(crate) struct OutcomeText {
    /// `ok`, `late` or `unproven`.
    pub state: &'static str,
    pub mark: &'static str,
    /// `Does not hold`.
    pub word: &'static str,
    /// ` 100 us`: what follows the word.
    pub rest: String,
}

pub(crate) fn outcome_text(outcome: VerdictOutcome, limit_ns: Option<u64>) -> OutcomeText {
    let (state, mark, word) = match outcome {
        VerdictOutcome::Held => ("ok", "✓", "Holds"),
        VerdictOutcome::Exceeded => ("late", "✗", "Does not hold"),
        VerdictOutcome::Unproven => ("unproven", "?", "Unproven"),
    };
    let rest = match (outcome, limit_ns.map(|ns| text::time(ns as f64))) {
        (VerdictOutcome::Unproven, Some(limit)) => format!(": {limit} was kept, but that is not proven"),
        (_, Some(limit)) => format!(" {limit}"),
        (_, None) => ": no limit was given".to_string(),
    };
    OutcomeText { state, mark, word, rest }
}

/// The words for a verdict; where nothing was measured no limit was kept either.
pub(crate) fn judged(verdict: &Verdict) -> OutcomeText {
    let mut said = outcome_text(verdict.outcome, verdict.limit_ns);
    if verdict.outcome == VerdictOutcome::Unproven && !verdict.rows.iter().any(RowVerdict::measured) {
        said.rest = ": nothing was measured".to_string();
    }
    said
}

/// A verdict in a few words: `Does not hold 100 us`.
pub fn outcome(verdict: &Verdict) -> String {
    let OutcomeText { word, rest, .. } = judged(verdict);
    format!("{word}{rest}")
}

pub(crate) fn verdict(run: &ShownRun, several: bool) -> VerdictCard {
    let verdict = &run.document.verdict;
    let OutcomeText { state, mark, word, rest } = judged(verdict);
    let mut facts = Vec::new();
    if let Some(worst) = run.rows().max_by_key(worst_first) {
        let sum = |of: fn(&RowVerdict) -> u64| untrusted::total(run.rows().map(|row| of(row.verdict)));
        facts.push(("Worst maximum", worst.latency(worst.summary.max_ns)));
        facts.push(("Where", worst.place()));
        facts.push(("Samples", text::count(untrusted::total(run.rows().map(|row| row.summary.count)))));
        facts.push(("Late cycles", range(sum(|row| row.late), sum(|row| row.late_at_most))));
    }
    let reasons = taints::reasons(run.document);
    facts.push(("Caveats", caveats(run)));
    let card = VerdictCard {
        run: run.mark(several),
        name: run.name.clone(),
        state,
        mark,
        words: format!("{word}{rest}"),
        facts,
        reasons_shown: 0,
        reasons,
    };
    let mut card = match &run.bundle.lab {
        Some(lab) => lab::card::of(run, lab, card),
        None => card,
    };
    card.reasons_shown = if card.reasons.len() > REASONS { REASONS - 2 } else { REASONS };
    card
}

/// How much there is to read on disturbances and missing data.
pub(crate) fn caveats(run: &ShownRun) -> String {
    let manifest = &run.bundle.manifest;
    let caveats = [
        (taints::groups(&manifest.taints).len(), "taint", ""),
        (run.document.notes.len(), "note", ""),
        (manifest.not_run.len(), "row", " not run"),
        (run.bundle.missing.len(), "part", " missing"),
    ];
    let caveats = caveats.iter().filter(|(number, ..)| *number > 0);
    let caveats: Vec<_> =
        caveats.map(|(number, one, what)| format!("{}{what}", text::plural(*number, one))).collect();
    if caveats.is_empty() { "none".to_string() } else { caveats.join(", ") }
}

/// Orders rows by how far beyond their limit they went, then by their maximum.
fn worst_first(row: &RowView) -> (u64, u64) {
    let over = row.summary.max_ns.saturating_sub(row.row.entry.limit_ns.unwrap_or(u64::MAX));
    (over, row.summary.max_ns)
}

pub(crate) fn rows(runs: &Runs) -> Vec<FigureGroup> {
    let group = |kind: &ProbePeriod| FigureGroup { title: kind.to_string(), rows: rows_of(runs, kind) };
    runs.kinds.iter().map(group).collect()
}

fn rows_of(runs: &Runs, kind: &ProbePeriod) -> Vec<FigureRow> {
    let mut rows = Vec::new();
    for (place, load) in runs.loads.iter().enumerate() {
        for cpu in runs.cpus(kind) {
            let first = rows.len();
            for run in &runs.all {
                if let Some(row) = run.row(kind, load, cpu) {
                    let mut line = figures(row, place);
                    line.run = run.mark(runs.several());
                    line.same = rows.len() > first;
                    rows.push(line);
                }
            }
        }
    }
    rows
}

/// A number that is known exactly, or between two.
fn range(least: u64, most: u64) -> String {
    match most > least {
        true => format!("{}–{}", text::count(least), text::count(most)),
        false => text::count(least),
    }
}

fn figures(row: RowView, place: usize) -> FigureRow {
    let (key, s) = (&row.row.entry.key, row.summary);
    let us = |ns: u64| text::us(ns as f64);
    let periodic = key.period_ns.is_some();
    let only_if = |shown: bool, text: String| if shown { text } else { "–".to_string() };
    let unless = |known: Option<String>| known.unwrap_or("–".to_string());
    let limited = s.limit_ns.is_some();
    let result = match (row.late(), limited) {
        (true, _) => format!("✗ {} LATE", range(row.verdict.late, row.verdict.late_at_most)),
        (false, _) if !row.verdict.measured() => "no sample".to_string(),
        (false, true) => "✓ ok".to_string(),
        (false, false) => "no limit".to_string(),
    };
    FigureRow {
        run: String::new(),
        load: text::clean(&key.load),
        style: LoadStyle::of(place),
        cpu: key.cpu,
        same: false,
        cells: vec![
            us(s.max_ns),
            only_if(limited, range(s.over_limit, s.over_limit_at_most)),
            only_if(periodic || s.missed > 0, text::count(s.missed)),
            text::count(s.count),
            unless(s.min_ns.map(us)),
            unless(s.mean_ns.map(text::us)),
            unless(s.stddev_ns.map(text::us)),
            unless(s.p50_ns.map(us)),
            unless(s.p99_ns.map(us)),
            unless(s.p99_9_ns.map(us)),
            unless(s.p99_999_ns.map(us)),
        ],
        corrected: vec![
            only_if(periodic, unless(s.p99_9_corrected_ns.map(us))),
            only_if(periodic && limited, unless(s.over_limit_corrected.map(text::count))),
            only_if(key.is_cyclic(), format!("{:.1e}", row.verdict.miss_rate_below)),
        ],
        limit: s.limit_ns.map_or("–".to_string(), us),
        state: if row.late() { "late" } else { "ok" },
        result,
    }
}

pub(crate) fn spikes(run: &ShownRun, several: bool) -> SpikeTable {
    let bundle: &Bundle = run.bundle;
    let mut worst: Vec<&Spike> = bundle.spikes.iter().collect();
    worst.sort_by(|a, b| b.latency_ns.cmp(&a.latency_ns).then(a.monotonic_ns.cmp(&b.monotonic_ns)));
    worst.truncate(SPIKES);
    let seen = untrusted::total(bundle.manifest.rows.iter().map(|row| row.spikes));
    let seen = seen.max(bundle.spikes.len() as u64);
    let above = bundle.manifest.asked.threshold_ns.map(|ns| format!(" above {}", text::time(ns as f64)));
    let above = above.unwrap_or_default();
    let words = match (seen, bundle.spikes.len() as u64) {
        _ if run.counts_only() => "Excursions were counted, and no latency measured.".to_string(),
        (0, _) => format!("No spike{above} was recorded."),
        (seen, listed) if seen == listed && listed <= SPIKES as u64 => {
            format!("All {} spikes{above}.", text::count(seen))
        }
        (seen, listed) => format!(
            "The worst {} of {} spikes{above}; the bundle lists {}.",
            worst.len(),
            text::count(seen),
            text::count(listed)
        ),
    };
    SpikeTable {
        run: run.mark(several),
        words,
        rows: worst.into_iter().map(|one| spike(one, run.virtual_time)).collect(),
    }
}

fn spike(spike: &Spike, virtual_time: bool) -> SpikeRow {
    SpikeRow {
        latency_us: text::us(spike.latency_ns as f64),
        place: runs::place(&spike.key, virtual_time),
        at: format!("{:.3} s", spike.at_ns as f64 / 1e9),
        wall_time: spike.wall_time.clone().unwrap_or_default(),
        missed: spike.missed,
        causes: spike.causes.iter().map(describe).collect(),
        unexplained_us: spike.unexplained_ns.map(|ns| text::us(ns as f64)).unwrap_or_default(),
    }
}

/// A cause in a line: `irq 45 nvme0q3 3.90 us`; a suspect as `softirq NET_RX?`.
fn describe(cause: &Cause) -> String {
    let name = text::clean(&format!("{} {}", cause.kind.label(), cause.name));
    match cause.duration_ns {
        Some(ns) => format!("{name} {} us", text::us(ns as f64)),
        None => format!("{name}?"),
    }
}

/// What the tails suggest; rows with the same text are named together.
pub(crate) fn tails(runs: &Runs) -> Vec<TailRow> {
    let mut rows: Vec<TailRow> = Vec::new();
    for run in &runs.all {
        let letter = run.mark(runs.several());
        for row in run.rows() {
            let (refused, words) = match &row.verdict.tail {
                Tail::Estimate(estimate) => (false, estimated(estimate)),
                Tail::Refused { reason } => (true, vec![("refused".to_string(), text::clean(reason))]),
            };
            let same = |other: &&mut TailRow| other.run == letter && other.words == words;
            match rows.iter_mut().find(same) {
                Some(other) => other.rows.push(row.place()),
                None => {
                    rows.push(TailRow { run: letter.clone(), rows: vec![row.place()], refused, words });
                }
            }
        }
    }
    rows
}

fn estimated(estimate: &Estimate) -> Vec<(String, String)> {
    let level = |level: &Level| {
        let [latency, low, high] =
            [level.latency_ns, level.low_ns, level.high_ns].map(|ns| text::us(ns as f64));
        (format!("once in {}", text::count(level.once_in)), format!("{latency} us ({low}–{high})"))
    };
    let mut words: Vec<_> = estimate.levels.iter().map(level).collect();
    words.extend([
        ("above".to_string(), text::us_unit(estimate.threshold_ns)),
        ("exceedances".to_string(), text::count(estimate.exceedances)),
        ("shape".to_string(), format!("{:.3}", estimate.shape)),
        ("scale".to_string(), format!("{} us", text::us(estimate.scale_ns))),
        ("fit p".to_string(), format!("{:.2}", estimate.fit_p_value)),
    ]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::cause::CauseKind;

    #[test]
    fn a_cause_is_put_in_words_and_a_suspect_is_in_doubt() {
        let cause = Cause::timed(CauseKind::Irq, "45 nvme0q3", 1_100, 8_612);
        assert_eq!(describe(&cause), "irq 45 nvme0q3 8.61 us");
        assert_eq!(describe(&Cause::suspect(CauseKind::Softirq, "NET_RX", 3)), "softirq NET_RX?");
    }

    #[test]
    fn an_estimate_is_stated_with_its_interval_and_its_diagnostics() {
        let level = Level { once_in: 1_000_000, latency_ns: 94_100, low_ns: 80_200, high_ns: 130_000 };
        let words = estimated(&Estimate {
            threshold_ns: 20_000,
            exceedances: 1_000,
            shape: -0.1234,
            scale_ns: 1_500.0,
            fit_p_value: 0.4,
            levels: vec![level],
        });
        let words: Vec<_> = words.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(words[0], "once in 1,000,000 94.1 us (80.2–130)");
        assert_eq!(
            words[1..].join(", "),
            "above 20.0 us, exceedances 1,000, shape -0.123, scale 1.50 us, fit p 0.40"
        );
    }
}
