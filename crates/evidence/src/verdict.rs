// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict: does the limit hold, why not, and what the samples can and cannot bound.
//!
//! A run holds only if no sample of any row exceeded its limit, no period was missed, everything asked was
//! measured, nothing tainted it (but for what the user said to accept), and there are enough samples for the
//! claim: no late one of N independent cycles bounds their rate below 3/N at 95 % (the "rule of three",
//! Hanley & Lippman-Hand 1983).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use machine::snapshot::Preemption;

use crate::fact;
use crate::lab::{self, Mode};
use crate::manifest::{Manifest, RowKey, SCHEMA_VERSION};
use crate::reader::Bundle;
use crate::row::Row;
pub use crate::starved::BEGAN_NO_CYCLE;
use crate::starved::starved;
use crate::tail::Tail;
use crate::taint;
use machine::quantity::{Count, Cycles, Say, Sentence, Sign, Time};
use machine::sentence;

/// Miss rate that a held verdict claims to stay below, where none was asked.
pub const DEFAULT_CLAIM: f64 = 1e-3;

/// `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether the limit held, with the bounds in `bounds`.
    pub held: bool,
    /// Why held or not.
    pub outcome: VerdictOutcome,
    /// The limit; the strictest if rows differ; absent if none applies.
    pub limit_ns: Option<u64>,
    /// All reasons against it, worst first; if it held, the claims that the data support.
    pub reasons: Vec<Sentence>,
    /// Per row.
    pub rows: Vec<RowVerdict>,
}

/// The possible verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Outcome")]
pub enum VerdictOutcome {
    /// Every row held, nothing tainted it, the samples suffice.
    Held,
    /// A sample exceeded the limit or a period was missed.
    Exceeded,
    /// The limit was not exceeded, but the evidence does not support the claim.
    Unproven,
}

impl VerdictOutcome {
    /// As documents have it.
    pub fn name(self) -> &'static str {
        match self {
            VerdictOutcome::Held => "held",
            VerdictOutcome::Exceeded => "exceeded",
            VerdictOutcome::Unproven => "unproven",
        }
    }
}

/// The contribution of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowVerdict {
    /// Which row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Whether every sample kept its limit, and no period was missed.
    pub held: bool,
    /// Late cycles: samples above the limit and periods missed.
    pub late: u64,
    /// The same at most: more if an imported file counts samples without their latencies.
    pub late_at_most: u64,
    /// Samples.
    pub count: u64,
    /// At 95 % confidence the rate of late cycles is below this.
    pub miss_rate_below: f64,
    /// The estimate from the tail of the distribution, or the reason why there is none.
    pub tail: Tail,
}

impl RowVerdict {
    /// Whether it says anything.
    pub fn measured(&self) -> bool {
        self.count > 0 || self.key.kind().is_above_threshold_only()
    }

    /// Its late cycles.
    pub fn late_cycles(&self) -> Count<Cycles> {
        Count::between(self.late, self.late_at_most)
    }
}

impl Verdict {
    /// Judges a bundle.
    pub fn of(bundle: &Bundle) -> Verdict {
        Verdict::with(bundle, |row| row.tail().clone())
    }

    /// The same verdict without estimates of tails, which take most of the time and decide nothing.
    pub fn without_tails(bundle: &Bundle) -> Verdict {
        Verdict::with(bundle, |_| Tail::Refused { reason: "it was not asked for".into() })
    }

    fn with(bundle: &Bundle, tail: impl Fn(&Row) -> Tail) -> Verdict {
        let claim = bundle.manifest.asked.claim.unwrap_or(DEFAULT_CLAIM);
        let rows = bundle.rows.iter().map(|row| judge(row, tail(row))).collect::<Vec<_>>();
        let mut exceeded =
            bundle.rows.iter().zip(&rows).filter(|(_, judged)| !judged.held).collect::<Vec<_>>();
        let excess = |row: &Row| max_ns(row) as f64 / row.entry.limit_ns.unwrap_or(1).max(1) as f64;
        exceeded.sort_by(|(a, _), (b, _)| excess(b).total_cmp(&excess(a)));
        let mut reasons = exceeded.into_iter().map(|(row, judged)| over(row, judged)).collect::<Vec<_>>();
        let outcome = if reasons.is_empty() { VerdictOutcome::Held } else { VerdictOutcome::Exceeded };
        reasons.extend(starved(bundle).into_iter().map(Sentence::from));
        reasons.extend(unsupported(bundle, &rows, claim));
        let outcome = if outcome == VerdictOutcome::Held && !reasons.is_empty() {
            VerdictOutcome::Unproven
        } else {
            outcome
        };
        if outcome == VerdictOutcome::Held {
            reasons.push(supported(&rows));
        }
        let limit_ns = bundle.rows.iter().filter_map(|row| row.entry.limit_ns).min();
        Verdict {
            schema_version: SCHEMA_VERSION,
            held: outcome == VerdictOutcome::Held,
            outcome,
            limit_ns,
            reasons,
            rows,
        }
    }
}

fn judge(row: &Row, tail: Tail) -> RowVerdict {
    let (count, missed) = (row.series.latency.count(), row.missed());
    let (at_least, at_most) = row.over_limit();
    let late = at_least.saturating_add(missed);
    let late_at_most = at_most.max(at_least).saturating_add(missed);
    RowVerdict {
        key: row.entry.key.clone(),
        held: late == 0,
        late,
        late_at_most,
        count,
        miss_rate_below: miss_rate_below(late_at_most, row.due().most()),
        tail,
    }
}

/// The largest latency; of a bundle that was cut the histogram may be lost.
fn max_ns(row: &Row) -> u64 {
    row.series.seconds.iter().map(|second| second.max_ns).fold(row.series.latency.max_ns(), u64::max)
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

fn over(row: &Row, judged: &RowVerdict) -> Sentence {
    let (missed, due) = (Count::<Cycles>::exact(row.missed()), row.due());
    let late = judged.late_cycles();
    if judged.late == row.missed() {
        return sentence![judged.key, ": ", missed, " periods of ", due, " missed"];
    }
    let of_them = if row.missed() > 0 { sentence![", ", missed, " of them missed"] } else { sentence![] };
    let limit = row.entry.limit_ns.map(|ns| sentence![Time::measured(ns)]).unwrap_or_default();
    let (key, maximum) = (&judged.key, Time::measured(max_ns(row)));
    sentence![key, ": maximum ", maximum, " exceeds ", limit, " (", late, " late of ", due, of_them, ")"]
}

fn unsupported(bundle: &Bundle, rows: &[RowVerdict], claim: f64) -> Vec<Sentence> {
    let manifest = &bundle.manifest;
    let mut reasons: Vec<Sentence> = Vec::new();
    if let Some(lab) = &bundle.lab {
        reasons.extend(lab.failures().into_iter().map(Sentence::from));
    }
    match &bundle.lab {
        Some(lab) if lab.mode == Mode::Count => reasons.push(lab::NO_VERDICT.into()),
        _ if rows.iter().any(RowVerdict::measured) => {}
        _ => reasons.push("nothing was measured".into()),
    }
    if rows.iter().any(RowVerdict::measured) {
        let without = rows.iter().filter(|row| !row.measured());
        reasons.extend(without.map(|row| sentence![row.key, ": it has no samples"]));
    }
    reasons.extend(
        manifest
            .rows_not_run()
            .iter()
            .filter(|row| !row.optional)
            .map(|row| format!("{} under {} was not run: {}", row.probe, row.load, row.reason).into()),
    );
    reasons.extend(bundle.missing.iter().cloned().map(Sentence::from));
    let unlimited = bundle.rows.iter().filter(|row| row.entry.limit_ns.is_none()).count();
    if unlimited > 0 {
        let rows = rows.len();
        reasons.push(format!("no limit judges {unlimited} of {rows} rows; give one with --limit").into());
    }
    if !(claim > 0.0 && claim < 1.0) {
        reasons.push(format!("the claim {claim} is not a rate between 0 and 1").into());
    }
    let too_few = |row: &&RowVerdict| row.key.is_cyclic() && row.held && row.miss_rate_below > claim;
    for row in rows.iter().filter(|row| row.measured()).filter(too_few) {
        let needed = (3.0 / claim).ceil();
        let had = row.count;
        let why = format!(
            ": {had} samples cannot support a rate of late cycles below {claim}; {needed} without a late one would"
        );
        reasons.push(sentence![row.key, why]);
    }
    for taint in manifest.taints.iter().filter(|taint| !taint.accepted) {
        reasons.push(format!("tainted by {taint}").into());
    }
    // The lab renames rows, and its guests' taints stay as they were.
    if bundle.lab.is_none() {
        reasons.extend(untold(manifest));
    }
    reasons
}

/// Disturbances that the manifest states by the way, without the taint that belongs to them.
fn untold(manifest: &Manifest) -> Vec<Sentence> {
    let mut reasons: Vec<Sentence> = Vec::new();
    let kernel = &manifest.machine.kernel;
    if kernel.preemption != Preemption::Unknown
        && fact::of_kernel(kernel).is_some()
        && !manifest.taints.iter().any(|taint| taint.code == taint::NOT_REAL_TIME_KERNEL)
    {
        reasons.push("the kernel is not PREEMPT_RT, and no taint says so".into());
    }
    for entry in &manifest.rows {
        let facts = fact::untold(manifest, entry);
        reasons
            .extend(facts.map(|fact| sentence![entry.key, ": ", fact.statement(), ", and no taint says so"]));
    }
    reasons
}

fn supported(rows: &[RowVerdict]) -> Sentence {
    let cyclic = rows.iter().filter(|row| row.key.is_cyclic());
    let worst = cyclic.map(|row| row.miss_rate_below).fold(0.0, f64::max);
    match worst {
        0.0 => "no gap above the limit was seen".into(),
        _ => format!(
            "no late cycle in any row: at 95 % confidence their rate is below {worst:.1e} in each, on this machine, under these loads"
        )
        .into(),
    }
}

impl Say for RowKey {
    fn write(&self, sign: Sign) -> String {
        let thread = self.thread_name.as_ref().map(|thread| format!(" of {thread}")).unwrap_or_default();
        let every = self.period_ns.map(|ns| format!(" every {}", Time::exact(ns).write(sign)));
        let every = every.unwrap_or_default();
        format!("{}{thread} under {} on cpu {}{every}", self.probe, self.load, self.cpu)
    }
}

impl std::fmt::Display for RowKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.write(Sign::Plain))
    }
}
