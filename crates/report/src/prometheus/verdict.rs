// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict on a bundle as metrics, beside its rows: numbers where it has them, else a sample of 1 whose
//! labels have the words.

use evidence::claim::ClaimUnit;
use evidence::document::VerdictParts;
use evidence::verdict::VerdictOutcome;

use super::{Family, Labels, MetricSamples, label};

/// Every outcome: the one that is so has the value 1.
const OUTCOMES: [VerdictOutcome; 3] =
    [VerdictOutcome::Held, VerdictOutcome::Exceeded, VerdictOutcome::Unproven];

/// The verdict of a bundle.
pub fn verdict(parts: &VerdictParts) -> Vec<Family> {
    let VerdictParts { held: _, outcome, kept, limit_ns, reasons, claim, taints, purpose, cycles } = parts;
    let gauge = |name, help, samples| Family { name, help, samples: MetricSamples::Gauges(samples) };
    let one = |value: f64| vec![(Labels::new(), value)];
    let is_so = |one: VerdictOutcome| f64::from(u8::from(one == *outcome));
    let outcomes = OUTCOMES.map(|one| (vec![label("outcome", one.name())], is_so(one)));
    let limit = limit_ns.map(|ns| one(ns as f64 / 1e9)).unwrap_or_default();
    let reasons = reasons.iter().map(|reason| (vec![label("reason", reason)], 1.0));
    let taint = |taint: &evidence::Taint| {
        let labels = vec![
            label("code", &taint.code),
            label("accepted", &taint.accepted.to_string()),
            label("load", taint.load.as_deref().unwrap_or_default()),
            label("cpu", &taint.cpu.map(|cpu| cpu.to_string()).unwrap_or_default()),
            label("reason", &taint.reason),
        ];
        (labels, 1.0)
    };
    let grade = purpose.as_ref().map(|purpose| {
        let grade = purpose.grade.map_or("none", |grade| grade.name());
        (vec![label("use", &purpose.asked), label("grade", grade)], 1.0)
    });
    let claim = claim.as_ref().map(|claim| {
        let unit = match claim.unit {
            ClaimUnit::Episode => "episode",
            ClaimUnit::Cycle => "cycle",
            ClaimUnit::Boot => "boot",
        };
        (vec![label("unit", unit), label("per", &claim.per)], claim.below)
    });
    let families = vec![
        gauge("isolator_verdict", "Whether the limit held: 1 for the outcome that is so.", outcomes.into()),
        gauge("isolator_verdict_limit_seconds", "The strictest limit of all rows.", limit),
        gauge(
            "isolator_verdict_kept",
            "Whether the limit was kept; absent where that is unknown.",
            kept.map(|kept| one(f64::from(u8::from(kept)))).unwrap_or_default(),
        ),
        gauge(
            "isolator_verdict_late_cycles",
            "Late cycles of all rows, at least: above the limit, or missed.",
            one(cycles.late as f64),
        ),
        gauge(
            "isolator_verdict_late_cycles_at_most",
            "The same at most: more where a source does not report them all.",
            one(cycles.late_at_most as f64),
        ),
        gauge("isolator_verdict_cycles", "Cycles of all rows that were due.", one(cycles.cycles as f64)),
        gauge(
            "isolator_verdict_claim",
            "Fewer late episodes, or a smaller share of cycles or boots, at 95 % confidence.",
            unique(claim.into_iter()),
        ),
        gauge("isolator_verdict_reason", "A reason of the verdict.", unique(reasons)),
        gauge(
            "isolator_taint",
            "A disturbance; an accepted one does not count against the verdict.",
            unique(taints.iter().map(taint)),
        ),
        gauge(
            "isolator_use_grade",
            "The grade of the machine for the requested use.",
            unique(grade.into_iter()),
        ),
    ];
    families.into_iter().filter(Family::has_samples).collect()
}

/// Each set of labels once, as the format demands.
fn unique(samples: impl Iterator<Item = (Labels, f64)>) -> Vec<(Labels, f64)> {
    let mut all: Vec<(Labels, f64)> = Vec::new();
    for (labels, value) in samples {
        if !all.iter().any(|(known, _)| *known == labels) {
            all.push((labels, value));
        }
    }
    all
}
