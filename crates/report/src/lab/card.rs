// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a lab run: its counts, and whether the guest and its storms were what they should be.
//!
//! A count is judged by no limit, so there is no verdict on it. Latencies in virtual time have one in the
//! evidence, which is named, but does not make the headline: it is not of any machine.

use evidence::lab::{LabDocument, LogVerdict, Mode};
use evidence::verdict::VerdictOutcome;

use machine::quantity::{Count, Samples, Share};

use crate::card::VerdictCard;
use crate::lab::words;
use crate::runs::ShownRun;
use crate::{taints, text};

/// The card of `run`, whose verdict is `judged`.
pub(crate) fn of(run: &ShownRun, lab: &LabDocument, judged: VerdictCard) -> VerdictCard {
    let failures = lab.failures();
    let (state, mark, words, figures, mut reasons) = match lab.mode {
        Mode::Real => (judged.state, judged.mark, judged.words, judged.facts, judged.reasons),
        Mode::Virtual => ("counted", "", latencies(run), against(run), judged.reasons),
        Mode::Count => ("counted", "", counted(lab), counts(lab), run.bundle.missing.clone()),
    };
    let (state, mark, words) = if failures.is_empty() {
        (state, mark, words)
    } else {
        ("late", "✗", format!("No result: {}", no_result(lab)))
    };
    reasons.splice(0..0, failures.iter().map(|failure| text::clean(failure)));
    let mut facts = vec![("Kernel", text::clean(&lab.kernel)), ("Boot line", words::boot_line(lab))];
    facts.extend(figures);
    facts.push(("Guest's kernel log", words::log(lab)));
    facts.push(("Storms", storms(lab)));
    facts.extend(witness(lab).map(|words| ("Witness", words)));
    if lab.mode != Mode::Real {
        facts.push(("Caveats", caveats(run)));
    }
    // Only a real processor's latencies are judged.
    let is_judged = lab.mode == Mode::Real && failures.is_empty();
    let claim = if is_judged { judged.claim } else { String::new() };
    let tiles = if lab.mode == Mode::Real { judged.tiles } else { Vec::new() };
    let but = if is_judged { judged.but } else { String::new() };
    // A grade is of a machine.
    let (purpose, grade) = if is_judged { (judged.purpose, judged.grade) } else { (None, None) };
    VerdictCard { state, mark, words, but, purpose, grade, claim, tiles, facts, reasons, ..judged }.folded()
}

/// How much there is to read on disturbances and missing data.
fn caveats(run: &ShownRun) -> String {
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

/// The count, as a headline.
pub(crate) fn counted(lab: &LabDocument) -> String {
    if lab.rows.is_empty() {
        return "Nothing was counted".to_string();
    }
    let excursions = sum(lab.rows.iter().map(|row| row.excursions));
    let noun = if excursions == 1 { "excursion" } else { "excursions" };
    format!("{} {noun} in {}", text::count(excursions), text::plural(scenarios(lab), "scenario"))
}

/// The sum of figures that may come from a damaged file.
fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

fn scenarios(lab: &LabDocument) -> usize {
    lab.rows.iter().map(|row| &row.scenario).collect::<std::collections::BTreeSet<_>>().len()
}

fn counts(lab: &LabDocument) -> Vec<(&'static str, String)> {
    let instructions = sum(lab.rows.iter().map(|row| row.kernel_instructions));
    let Some(longest) = lab.rows.iter().max_by_key(|row| row.max_kernel_instructions) else {
        return Vec::new();
    };
    let place = if scenarios(lab) > 1 {
        format!(" in {}", text::short(&longest.scenario, 24))
    } else {
        String::new()
    };
    vec![
        ("Kernel instructions", text::count(instructions)),
        (
            "Longest excursion",
            format!("{} instructions{place}", text::count(longest.max_kernel_instructions)),
        ),
    ]
}

fn latencies(run: &ShownRun) -> String {
    match run.rows().map(|row| row.summary.max_ns).max() {
        Some(max_ns) => format!("At most {} virtual ns", text::count(max_ns)),
        None => "Nothing was measured".to_string(),
    }
}

/// How the evidence judges latencies that are of no machine.
fn against(run: &ShownRun) -> Vec<(&'static str, String)> {
    let verdict = &run.document.verdict;
    let Some(limit_ns) = verdict.limit_ns else { return Vec::new() };
    let outcome = match verdict.outcome {
        VerdictOutcome::Held => "held",
        VerdictOutcome::Exceeded => "exceeded",
        VerdictOutcome::Unproven => "kept, which proves nothing",
    };
    let late = run.document.parts().cycles.late();
    let samples = run.rows().map(|row| Count::exact(row.summary.count)).sum::<Count<Samples>>();
    vec![
        ("Samples", text::page(samples)),
        ("Limit", format!("{} virtual ns: {outcome}", text::count(limit_ns))),
        ("Late cycles", text::page(late)),
    ]
}

/// Why a run is none, in a headline's length; empty where it is one.
pub(crate) fn no_result(lab: &LabDocument) -> String {
    let idle = lab.storms.iter().filter(|storm| !storm.took_effect).count();
    let mut reasons = Vec::new();
    if idle > 0 {
        reasons.push(format!("{} took no effect", text::plural(idle, "storm")));
    }
    let idle = lab.loads.iter().filter(|load| !load.took_effect).count();
    if idle > 0 {
        reasons.push(format!("{} took no effect", text::plural(idle, "load")));
    }
    if lab.guest_log.verdict == LogVerdict::Bad {
        reasons.push("the guest's kernel complained".to_string());
    }
    reasons.join(", ")
}

fn storms(lab: &LabDocument) -> String {
    let took = lab.storms.iter().filter(|storm| storm.took_effect).count();
    match (took, lab.storms.len()) {
        (_, 0) => "none ran".to_string(),
        (1, 1) => "took effect".to_string(),
        (took, all) if took == all => format!("all {all} took effect"),
        (took, all) => format!("only {took} of {all} took effect"),
    }
}

fn witness(lab: &LabDocument) -> Option<String> {
    let least = |of: fn(&evidence::lab::Witness) -> f64| lab.witness.iter().map(of).min_by(f64::total_cmp);
    let (recall, precision) = (least(|one| one.recall)?, least(|one| one.precision)?);
    let least = if lab.witness.len() > 1 { " at least" } else { "" };
    let stated = |share: f64| Share::stated(share).at_least();
    Some(format!("recall{least} {}, precision{least} {}", stated(recall), stated(precision)))
}
