// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of figures: a line a row, the worst spikes, what the tails suggest.

use evidence::document::VerdictParts;
use evidence::fitness::UseVerdict;
use evidence::kind::RowKind;
use evidence::manifest::PeriodSource;
use evidence::tail::{Estimate, Level, Tail};
use machine::purpose::Grade;
use machine::quantity::{Count, Cycles, Samples, Share, Sign, Time};
use serde::Serialize;

use crate::card::{Tile, VerdictCard};
use crate::chart::LoadStyle;
use crate::outcome::{OutcomeText, judged};
use crate::runs::{ProbePeriod, RowView, Runs, ShownRun};
use crate::{claim, facts, text};

/// The lines of one probe in the table of all rows.
#[derive(Debug, Serialize)]
pub(crate) struct FigureGroup {
    pub title: String,
    /// The meaning of the samples, where it is known.
    pub gloss: String,
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

/// The suggestion of the tail of some rows, or why there is none.
#[derive(Debug, Serialize)]
pub(crate) struct TailRow {
    pub run: String,
    pub rows: Vec<String>,
    pub refused: bool,
    pub words: Vec<(String, String)>,
}

/// The verdict of a run; a lab run's is narrowed by [`lab::card`](crate::lab::card).
pub(crate) fn verdict(run: &ShownRun, several: bool) -> VerdictCard {
    // The reasons, with the accepted taints among them, and the claim are those of `claim`; outcome and limit
    // those of `judged`.
    let parts = run.document.parts();
    let OutcomeText { state, mark, word, rest } = judged(&parts, Sign::Page);
    let VerdictParts {
        held: _,
        outcome: _,
        kept: _,
        limit_ns: _,
        reasons: _,
        claim: _,
        taints: _,
        purpose,
        cycles,
    } = parts;
    let card = VerdictCard {
        run: run.mark(several),
        name: run.name.clone(),
        state,
        mark,
        words: format!("{word}{rest}"),
        but: claim::but(run),
        purpose: purpose.as_ref().and_then(UseVerdict::sentence).map(|said| text::clean(said.page())),
        grade: purpose.and_then(|purpose| purpose.grade).map(Grade::name),
        claim: claim::supported(run),
        tiles: tiles(run, cycles.late(), cycles.due()),
        facts: facts::card(run),
        reasons_shown: 0,
        reasons: claim::short_of(run),
    };
    card.folded()
}

/// The figures that matter most; none where nothing was measured.
fn tiles(run: &ShownRun, late: Count<Cycles>, due: Option<Count<Cycles>>) -> Vec<Tile> {
    let Some(worst) = run.rows().max_by_key(worst_first) else { return Vec::new() };
    let samples = run.rows().map(|row| Count::<Samples>::exact(row.verdict.count)).sum::<Count<Samples>>();
    let samples = due.map_or("unknown".to_string(), |_| text::page(samples));
    let max_ns = worst.summary.max_ns;
    let maximum = worst.summary.stated_max_ns().map_or("unknown".to_string(), |ns| worst.latency(ns));
    let most_ns = worst.summary.max_at_most_ns.unwrap_or(max_ns);
    let against = match worst.row.entry.limit_ns {
        _ if !worst.summary.max_known && max_ns > 0 => format!("at least {}", worst.latency(max_ns)),
        _ if !worst.summary.max_known => "no gap above the threshold".to_string(),
        Some(limit_ns) if max_ns <= limit_ns && most_ns > limit_ns => {
            format!("up to {}: whether it exceeds its limit is unknown", worst.latency(most_ns))
        }
        Some(limit_ns) if limit_ns > 0 && max_ns > limit_ns => {
            format!("{} times its limit", times(max_ns as f64 / limit_ns as f64))
        }
        Some(limit_ns) if limit_ns > 0 => match Share::of_time(max_ns, limit_ns).percent() {
            share @ ..10.0 => format!("{share:.1} % of its limit"),
            share => format!("{share:.0} % of its limit"),
        },
        _ => "no limit".to_string(),
    };
    let mut limits: Vec<_> = run.rows().filter_map(|row| row.row.entry.limit_ns).collect();
    limits.sort_unstable();
    limits.dedup();
    let limit = match limits[..] {
        [] => ("none".to_string(), "latencies are judged by --limit".to_string()),
        [only] => (worst.latency(only), String::new()),
        [least, .., most] => (worst.latency(least), format!("up to {}, by row", worst.latency(most))),
    };
    let asked = run.bundle.manifest.asked.limit.as_ref().filter(|asked| asked.ends_with('%'));
    let limit_note = match (limit.1.is_empty(), asked) {
        (true, Some(share)) => format!("{} % of the period", text::clean(share.trim_end_matches('%'))),
        _ => limit.1,
    };
    let rows = text::plural(run.bundle.rows.len(), "row");
    let share = due.map_or("of an unknown number".to_string(), |due| Share::from_to(late, due));
    vec![
        Tile { name: "Worst maximum", value: maximum, note: against },
        Tile { name: "Limit", value: limit.0, note: limit_note },
        Tile { name: "Late", value: text::page(late), note: share },
        Tile { name: "Samples", value: samples, note: format!("in {rows}") },
    ]
}

/// `1.4`, `26`, `1,200`.
fn times(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { text::count(ratio.round() as u64) }
}

/// Orders rows by how far beyond their limit they went, then by their maximum.
fn worst_first(row: &RowView) -> (u64, u64) {
    let over = row.summary.max_ns.saturating_sub(row.row.entry.limit_ns.unwrap_or(u64::MAX));
    (over, row.summary.max_ns)
}

pub(crate) fn rows(runs: &Runs) -> Vec<FigureGroup> {
    let group = |kind: &ProbePeriod| FigureGroup {
        title: kind.to_string(),
        gloss: gloss(runs, kind),
        rows: rows_of(runs, kind),
    };
    runs.kinds.iter().map(group).collect()
}

/// The meaning of a probe's samples; of a loop that was followed from outside also how it waits.
fn gloss(runs: &Runs, kind: &ProbePeriod) -> String {
    let mut parts = vec![kind.row_kind().sentence().to_string()];
    let mut followed = runs.rows_of(kind).filter_map(|row| row.row.entry.followed.as_ref());
    if let Some(followed) = followed.next().filter(|_| kind.row_kind() == RowKind::Loop) {
        let period = match followed.period_from {
            PeriodSource::Inferred => "period inferred from when it was due",
            PeriodSource::Given => "period as given",
        };
        let thread = &followed.thread;
        parts.push(format!("waits with {}", text::clean(&followed.waits_with)));
        parts.push(format!("thread {}, {} {}", thread.tid, text::clean(&thread.policy), thread.priority));
        parts.push(period.to_string());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
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

fn figures(row: RowView, place: usize) -> FigureRow {
    let (key, s) = (&row.row.entry.key, row.summary);
    let us = |ns: u64| text::figure(ns as f64);
    let periodic = key.period_ns.is_some();
    let only_if = |shown: bool, text: String| if shown { text } else { "–".to_string() };
    let unless = |known: Option<String>| known.unwrap_or("–".to_string());
    let limited = s.limit_ns.is_some();
    let (state, result) = match (s.is_late(), limited) {
        (Some(true), _) => ("late", format!("✗ {} LATE", text::page(row.verdict.late_cycles()))),
        _ if !row.verdict.measured() => ("unproven", "no sample".to_string()),
        (None, _) => ("unproven", "? unknown".to_string()),
        (Some(false), true) => ("ok", "✓ ok".to_string()),
        (Some(false), false) => ("unproven", "no limit".to_string()),
    };
    FigureRow {
        run: String::new(),
        load: text::clean(&key.load),
        style: LoadStyle::of(place),
        cpu: key.cpu,
        same: false,
        cells: vec![
            unless(s.stated_max_ns().map(us)),
            only_if(limited, text::page(Count::<Samples>::between(s.over_limit, s.over_limit_at_most))),
            unless(s.stated_missed().map(text::count)),
            unless(s.stated_count().map(text::count)),
            unless(s.min_ns.map(us)),
            unless(s.mean_ns.map(text::figure)),
            unless(s.stddev_ns.map(text::figure)),
            unless(s.p50_ns.map(us)),
            unless(s.p99_ns.map(us)),
            unless(s.p99_9_ns.map(us)),
            unless(s.p99_999_ns.map(us)),
        ],
        corrected: vec![
            only_if(periodic, unless(s.p99_9_corrected_ns.map(us))),
            only_if(periodic && limited, unless(s.over_limit_corrected.map(text::count))),
            unless(row.verdict.claim.as_ref().map(claim::of_row)),
        ],
        limit: s.limit_ns.map_or("–".to_string(), us),
        state,
        result,
    }
}

/// The suggestions of the tails; rows with the same text are named together.
pub(crate) fn tails(runs: &Runs) -> Vec<TailRow> {
    let mut rows: Vec<TailRow> = Vec::new();
    for run in &runs.all {
        let letter = run.mark(runs.several());
        for row in run.rows() {
            let (refused, words) = match &row.verdict.tail {
                Tail::Estimate(estimate) => (false, estimated(estimate)),
                Tail::Refused { reason } => (true, vec![("refused".to_string(), text::clean(reason.page()))]),
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
        let [low, high] = [level.low_ns, level.high_ns].map(|ns| text::figure(ns as f64));
        let model_free =
            level.model_free_ns.map(|ns| format!("; below {} by moments", text::figure(ns as f64)));
        let interval = format!("{low}–{high}{}", model_free.unwrap_or_default());
        (
            format!("once in {}", text::count(level.once_in)),
            format!("{} ({interval})", text::page(Time::measured(level.latency_ns))),
        )
    };
    let mut words: Vec<_> = estimate.levels.iter().map(level).collect();
    words.extend([
        ("above".to_string(), text::page(Time::measured(estimate.threshold_ns))),
        ("exceedances".to_string(), text::count(estimate.exceedances)),
        ("shape".to_string(), format!("{:.3}", estimate.shape)),
        ("scale".to_string(), text::page(Time::measured(estimate.scale_ns.round() as u64))),
        ("fit p".to_string(), format!("{:.2}", estimate.fit_p_value)),
    ]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_stated_with_its_interval_and_its_diagnostics() {
        let level = Level {
            once_in: 1_000_000,
            latency_ns: 94_100,
            low_ns: 80_200,
            high_ns: 130_000,
            model_free_ns: Some(310_000),
        };
        let words = estimated(&Estimate {
            threshold_ns: 20_000,
            exceedances: 1_000,
            shape: -0.1234,
            scale_ns: 1_500.0,
            fit_p_value: 0.4,
            levels: vec![level],
        });
        let words: Vec<_> = words.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(words[0], "once in 1,000,000 94.1 µs (80.2–130; below 310 by moments)");
        assert_eq!(
            words[1..].join(", "),
            "above 20.0 µs, exceedances 1,000, shape -0.123, scale 1.50 µs, fit p 0.40"
        );
    }
}
