// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict: does the limit hold, why not, and what the samples can and cannot bound.
//!
//! A run holds only if no sample of any row exceeded its limit, no period was missed, everything asked was
//! measured, nothing tainted it (but for what the user said to accept), and there are enough samples for the
//! claim: zero misses in N independent cycles bound the miss rate below 3/N at 95 % (the "rule of three",
//! Hanley & Lippman-Hand 1983).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::{self, Mode};
use crate::manifest::{RowKey, SCHEMA_VERSION};
use crate::reader::{Bundle, Row};
use crate::summary::Summary;
use crate::tail::Tail;

/// Miss rate that a held verdict claims to stay below, where none was asked.
pub const DEFAULT_CLAIM: f64 = 1e-3;

/// `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether the limit is proven to hold, as far as `bounds` says.
    pub held: bool,
    /// Why held or not.
    pub outcome: Outcome,
    /// The limit; the strictest where rows differ; absent where none applies.
    pub limit_ns: Option<u64>,
    /// Everything that speaks against it, worst first; where it held, what the data support.
    pub reasons: Vec<String>,
    /// Per row.
    pub rows: Vec<RowVerdict>,
}

/// How a verdict came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every row held, nothing tainted it, the samples suffice.
    Held,
    /// A sample exceeded the limit or a period was missed.
    Exceeded,
    /// The limit was not exceeded, but the evidence does not support the claim.
    Unproven,
}

impl Outcome {
    /// As documents have it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Held => "held",
            Outcome::Exceeded => "exceeded",
            Outcome::Unproven => "unproven",
        }
    }
}

/// What a row contributes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowVerdict {
    /// Which row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Whether its limit was kept by every sample, and no period missed.
    pub held: bool,
    /// Late cycles: samples above the limit and periods missed.
    pub late: u64,
    /// The same at most: more where an imported file counts samples without telling their latencies.
    pub late_at_most: u64,
    /// Samples.
    pub count: u64,
    /// At 95 % confidence the rate of late cycles is below this.
    pub miss_rate_below: f64,
    /// What the tail of the distribution suggests, or why it says nothing.
    pub tail: Tail,
}

impl RowVerdict {
    /// Whether it says anything. The hardware probe has a sample for each gap only: none is a result.
    pub fn measured(&self) -> bool {
        self.count > 0 || self.key.probe == "hardware"
    }
}

impl Verdict {
    /// Judges a bundle.
    pub fn of(bundle: &Bundle) -> Verdict {
        let claim = bundle.manifest.asked.claim.unwrap_or(DEFAULT_CLAIM);
        let summaries = bundle.rows.iter().map(Summary::of).collect::<Vec<_>>();
        let rows = bundle.rows.iter().zip(&summaries).map(|(row, summary)| judge(row, summary));
        let rows = rows.collect::<Vec<_>>();
        let measured = bundle.rows.iter().zip(&summaries);
        let mut exceeded = measured.zip(&rows).filter(|(_, judged)| !judged.held).collect::<Vec<_>>();
        let excess = |summary: &Summary| summary.max_ns as f64 / summary.limit_ns.unwrap_or(1).max(1) as f64;
        exceeded.sort_by(|((_, a), _), ((_, b), _)| excess(b).total_cmp(&excess(a)));
        let mut reasons =
            exceeded.into_iter().map(|((_, summary), judged)| over(summary, judged)).collect::<Vec<_>>();
        let outcome = if reasons.is_empty() { Outcome::Held } else { Outcome::Exceeded };
        reasons.extend(unsupported(bundle, &rows, claim));
        let outcome =
            if outcome == Outcome::Held && !reasons.is_empty() { Outcome::Unproven } else { outcome };
        if outcome == Outcome::Held {
            reasons.push(supported(&rows));
        }
        let limit_ns = summaries.iter().filter_map(|summary| summary.limit_ns).min();
        Verdict {
            schema_version: SCHEMA_VERSION,
            held: outcome == Outcome::Held,
            outcome,
            limit_ns,
            reasons,
            rows,
        }
    }
}

fn judge(row: &Row, summary: &Summary) -> RowVerdict {
    let late = summary.over_limit.saturating_add(summary.missed);
    let late_at_most = late.saturating_add(summary.over_limit_at_most.saturating_sub(summary.over_limit));
    RowVerdict {
        key: summary.key.clone(),
        held: late == 0,
        late,
        late_at_most,
        count: summary.count,
        miss_rate_below: miss_rate_below(late_at_most, summary.count.saturating_add(summary.missed)),
        tail: row.tail().clone(),
    }
}

/// The upper 95 % bound of a rate of which `late` in `count` were seen: exact for none (1 - 0.05^(1/N), about
/// 3/N), and Wilson's one-sided score bound otherwise.
pub fn miss_rate_below(late: u64, count: u64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    let n = count as f64;
    if late == 0 {
        return (3.0 / n).min(1.0);
    }
    let (p, z) = (late as f64 / n, 1.644_853_6_f64);
    let middle = p + z * z / (2.0 * n);
    let spread = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((middle + spread) / (1.0 + z * z / n)).min(1.0)
}

fn over(summary: &Summary, judged: &RowVerdict) -> String {
    let limit = summary.limit_ns.map(us).unwrap_or_default();
    let missed =
        if summary.missed > 0 { format!(", {} of them missed", summary.missed) } else { String::new() };
    let late = match judged.late_at_most {
        most if most > judged.late => format!("{} to {most}", judged.late),
        _ => judged.late.to_string(),
    };
    let cycles = judged.count.saturating_add(summary.missed);
    // Of a bundle that was cut the histogram may be lost, and with it the maximum.
    if summary.over_limit == 0 {
        return format!("{}: {} periods of {cycles} missed", judged.key, summary.missed);
    }
    format!(
        "{}: maximum {} exceeds {limit} ({late} late of {cycles}{missed})",
        judged.key,
        us(summary.max_ns)
    )
}

fn unsupported(bundle: &Bundle, rows: &[RowVerdict], claim: f64) -> Vec<String> {
    let manifest = &bundle.manifest;
    let mut reasons = Vec::new();
    if let Some(lab) = &bundle.lab {
        reasons.extend(lab.failures());
    }
    match &bundle.lab {
        Some(lab) if lab.mode == Mode::Count => reasons.push(lab::NO_VERDICT.to_string()),
        _ if rows.iter().any(RowVerdict::measured) => {}
        _ => reasons.push("nothing was measured".to_string()),
    }
    reasons.extend(
        manifest
            .not_run
            .iter()
            .map(|row| format!("{} under {} was not run: {}", row.probe, row.load, row.reason)),
    );
    reasons.extend(bundle.missing.iter().cloned());
    let unlimited = bundle.rows.iter().filter(|row| row.entry.limit_ns.is_none()).count();
    if unlimited > 0 {
        reasons.push(format!("no limit judges {unlimited} of {} rows; give one with --limit", rows.len()));
    }
    for row in rows.iter().filter(|row| row.key.is_cyclic() && row.held && row.miss_rate_below > claim) {
        let needed = (3.0 / claim).ceil();
        let had = row.count;
        reasons.push(format!(
            "{}: {had} samples cannot support a miss rate below {claim}; {needed} without a miss would",
            row.key
        ));
    }
    for taint in manifest.taints.iter().filter(|taint| !taint.accepted) {
        reasons.push(format!("tainted by {taint}"));
    }
    reasons
}

fn supported(rows: &[RowVerdict]) -> String {
    let cyclic = rows.iter().filter(|row| row.key.is_cyclic());
    let worst = cyclic.map(|row| row.miss_rate_below).fold(0.0, f64::max);
    match worst {
        0.0 => "no gap above the limit was seen".to_string(),
        _ => format!(
            "no miss in any row: at 95 % confidence the miss rate is below {worst:.1e} in each, on this machine, under these loads"
        ),
    }
}

/// Nanoseconds as microseconds for people.
pub fn us(ns: u64) -> String {
    match ns {
        0..100_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.0} us", ns as f64 / 1e3),
    }
}

impl std::fmt::Display for RowKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} under {} on cpu {}", self.probe, self.load, self.cpu)?;
        match self.period_ns {
            Some(ns) => write!(out, " every {} us", ns as f64 / 1e3),
            None => Ok(()),
        }
    }
}
