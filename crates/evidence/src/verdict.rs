// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict: does the limit hold, why not, and what the samples can and cannot bound.
//!
//! A run holds only if no sample of any row exceeded its limit, no period was missed, everything asked was
//! measured, nothing tainted it (but for what the user said to accept), and there are enough samples for the
//! [claim](crate::claim). Where the user allows some late cycles, no window may have more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use machine::snapshot::Preemption;

use crate::claim::{Claim, RowClaim};
use crate::fact;
use crate::lab::{self, Mode};
use crate::manifest::{Manifest, RowKey, SCHEMA_VERSION};
use crate::reader::Bundle;
use crate::row::Row;
pub use crate::starved::BEGAN_NO_CYCLE;
use crate::starved::starved;
use crate::tail::Tail;
use crate::taint::{self, Taint};
use crate::unseen::next_cause_unseen;
use crate::weakly_hard::{LateAllowance, WeaklyHard};
use machine::quantity::{Count, Cycles, Say, Sentence, Sign, Time};
use machine::sentence;

/// Rate of late episodes that a held verdict claims to stay below, where none was asked.
pub const DEFAULT_CLAIM: f64 = 1e-3;

/// The reason where no row says anything.
pub const NOTHING_MEASURED: &str = "nothing was measured";

/// `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Version of this document.
    pub schema_version: u32,
    /// Whether the limit held, with the bounds in `bounds`.
    pub held: bool,
    /// Why held or not.
    pub outcome: VerdictOutcome,
    /// Whether the limit was kept, as far as it was measured; absent where a source does not report it, and
    /// where nothing was measured.
    #[serde(default)]
    pub kept: Option<bool>,
    /// The limit; the strictest if rows differ; absent if none applies.
    pub limit_ns: Option<u64>,
    /// All reasons against it, worst first; if it held, the claims that the data support.
    pub reasons: Vec<Sentence>,
    /// The claim of the rows of cycles, whatever the outcome; absent without such rows.
    #[serde(default)]
    pub claim: Option<Claim>,
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
    /// Whether every sample kept its limit, and no period was missed; with a limit that allows some late
    /// cycles, whether every window kept it. False where the source lacks it.
    pub held: bool,
    /// Late cycles: samples above the limit and periods missed.
    pub late: u64,
    /// The same at most: more if an imported file counts samples without their latencies, or cuts latencies
    /// to whole units.
    pub late_at_most: u64,
    /// Samples.
    pub count: u64,
    /// At 95 % confidence the rate of late cycles is below this, if they are independent.
    pub miss_rate_below: f64,
    /// Late episodes: late cycles without a quiet time of `horizon_ns` between them count once. At most so
    /// many where the source does not say when cycles were late.
    #[serde(default)]
    pub late_episodes: u64,
    /// Why it is not known whether the limit was kept, and what would tell; absent where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Sentence>,
    /// The quiet time that ends an episode.
    #[serde(default)]
    pub horizon_ns: u64,
    /// The claim of the row alone; absent of a row of gaps, and without samples.
    #[serde(default)]
    pub claim: Option<Claim>,
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
        let judged = bundle.rows.iter().map(|row| JudgedRow::of(row, bundle, tail(row)));
        let judged = each_claimed(bundle, judged.collect());
        let rows = judged.iter().map(|one| one.verdict.clone()).collect::<Vec<_>>();
        let exceeded = bundle.rows.iter().zip(&judged).filter(|(_, judged)| judged.is_exceeded());
        let mut exceeded = exceeded.collect::<Vec<_>>();
        let excess = |row: &Row| row.largest_ns() as f64 / row.entry.limit_ns.unwrap_or(1).max(1) as f64;
        exceeded.sort_by(|(a, _), (b, _)| excess(b).total_cmp(&excess(a)));
        let mut reasons = exceeded.into_iter().map(|(row, judged)| over(row, judged)).collect::<Vec<_>>();
        let claim = claimed(bundle, &judged);
        let outcome = if reasons.is_empty() { VerdictOutcome::Held } else { VerdictOutcome::Exceeded };
        reasons.extend(starved(bundle).into_iter().map(Sentence::from));
        reasons.extend(unsupported(bundle, &judged));
        let outcome = if outcome == VerdictOutcome::Held && !reasons.is_empty() {
            VerdictOutcome::Unproven
        } else {
            outcome
        };
        if outcome == VerdictOutcome::Held {
            reasons.push(supported(claim.as_ref(), bundle.manifest.allowed()));
        }
        let limit_ns = bundle.rows.iter().filter_map(|row| row.entry.limit_ns).min();
        let is_known = rows.iter().any(RowVerdict::measured) && rows.iter().all(|row| row.unknown.is_none());
        let is_known = is_known && bundle.rows.iter().all(|row| row.entry.limit_ns.is_some());
        let is_exceeded = outcome == VerdictOutcome::Exceeded;
        Verdict {
            schema_version: SCHEMA_VERSION,
            held: outcome == VerdictOutcome::Held,
            outcome,
            kept: (is_known || is_exceeded).then_some(!is_exceeded),
            limit_ns,
            reasons,
            claim,
            rows,
        }
    }
}

/// A row as it was judged.
struct JudgedRow {
    verdict: RowVerdict,
    claim: RowClaim,
    weakly_hard: Option<WeaklyHard>,
}

impl JudgedRow {
    fn of(row: &Row, bundle: &Bundle, tail: Tail) -> JudgedRow {
        let (at_least, at_most) = row.over_limit();
        let late = at_least.saturating_add(row.missed());
        let late_at_most = at_most.max(at_least).saturating_add(row.missed());
        let weakly_hard = bundle.weakly_hard(row);
        let unseen = unseen(row, bundle);
        let held = weakly_hard.as_ref().map_or(late_at_most == 0, |limit| limit.violations == Some(0));
        let held = held && unseen.is_none();
        let mut claim = RowClaim::of(row);
        let late_episodes = claim.episodes;
        if held {
            // Late cycles that are allowed stand against no claim.
            claim.episodes = 0;
        }
        let verdict = RowVerdict {
            key: row.entry.key.clone(),
            held,
            late,
            late_at_most,
            count: row.series.latency.count(),
            miss_rate_below: claim.due.map_or(1.0, |due| miss_rate_below(late_at_most, due)),
            late_episodes,
            unknown: None,
            horizon_ns: claim.horizon_ns,
            claim: None,
            tail,
        };
        let mut judged = JudgedRow { verdict, claim, weakly_hard };
        let seen = judged.unknown(row).filter(|_| late_at_most > late || unseen.is_none());
        judged.verdict.unknown = seen.or(unseen.filter(|_| !judged.is_exceeded()));
        judged
    }

    /// Whether it claims anything of late cycles: a row of gaps does not.
    fn makes_claim(&self) -> bool {
        self.verdict.key.is_cyclic() && self.verdict.measured()
    }

    /// Whether it is beyond its limit, and not only unknown.
    fn is_exceeded(&self) -> bool {
        self.weakly_hard.as_ref().map_or(self.verdict.late > 0, |limit| limit.violations > Some(0))
    }

    /// Why it is not known whether the row kept its limit; `None` where that is known.
    fn unknown(&self, row: &Row) -> Option<Sentence> {
        if self.verdict.held || self.is_exceeded() {
            return None;
        }
        let (key, late) = (&self.verdict.key, self.verdict.late_cycles());
        if self.weakly_hard.is_some() {
            let why = "the bundle does not have the places of all late cycles (";
            let cure =
                "), so that the allowance cannot be judged; judge without it, or measure with isolator";
            return Some(sentence![key, ": ", why, late, cure]);
        }
        let [least, most] = row.max_ns().map(Time::exact);
        let limit = Time::exact(row.entry.limit_ns.unwrap_or(0));
        if row.stated_max_ns().is_none() {
            let at_least = sentence![key, ": its maximum is at least ", least, ", and not stated, so that "];
            return Some(sentence![at_least, limit, " is undecided; take the whole output of the tool"]);
        }
        let between = sentence![key, ": its maximum lies between ", least, " and ", most];
        Some(sentence![between, ", and ", limit, " is undecided; take finer figures, or a limit of ", most])
    }
}

/// Late cycles or gaps that the source does not report, however good the rest is.
fn unseen(row: &Row, bundle: &Bundle) -> Option<Sentence> {
    let limit_ns = row.entry.limit_ns?;
    let (key, limit) = (&row.entry.key, Time::exact(limit_ns));
    if !row.states(|coarse| coarse.missed_known) {
        let why = ": a sample was later than a period, and missed periods are not counted, so that ";
        return Some(sentence![key, why, limit, " is undecided"]);
    }
    let counts = |taint: &Taint| taint.code == taint::THRESHOLD_ABOVE_LIMIT && !taint.accepted;
    let is_blind = key.kind().is_above_threshold_only() && bundle.manifest.taints.iter().any(counts);
    let why = ": gaps below the tool's threshold were not recorded, so that ";
    is_blind.then(|| sentence![key, why, limit, " is undecided"])
}

/// The rows, each of cycles with its own claim.
fn each_claimed(bundle: &Bundle, mut judged: Vec<JudgedRow>) -> Vec<JudgedRow> {
    let per = bundle.manifest.asked.claim_per.unwrap_or_default();
    let late = judged.iter().filter(|row| row.makes_claim() && row.claim.episodes > 0).count();
    for row in judged.iter_mut().filter(|row| row.makes_claim()) {
        row.verdict.claim = Claim::among(std::slice::from_ref(&row.claim), late, per, None);
    }
    judged
}

/// The claim of the rows of cycles together.
fn claimed(bundle: &Bundle, judged: &[JudgedRow]) -> Option<Claim> {
    let rows = judged.iter().filter(|row| row.makes_claim()).map(|row| row.claim.clone()).collect::<Vec<_>>();
    let per = bundle.manifest.asked.claim_per.unwrap_or_default();
    Claim::of(&rows, per, next_cause_unseen(&bundle.spikes))
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

fn over(row: &Row, JudgedRow { verdict: judged, weakly_hard, .. }: &JudgedRow) -> Sentence {
    let (missed, due) = (Count::<Cycles>::exact(row.missed()), row.due());
    let late = judged.late_cycles();
    if let Some(WeaklyHard { m, k, violations }) = &weakly_hard {
        let windows = violations.unwrap_or(0);
        let allowed = format!("{windows} windows of {k} cycles have more than {m} late (");
        return sentence![judged.key, ": ", allowed, late, " late of ", due, ")"];
    }
    if judged.late == row.missed() {
        return sentence![judged.key, ": ", missed, " periods of ", due, " missed"];
    }
    let of_due = row.stated_count().map(|_| sentence![" of ", due]).unwrap_or_default();
    let of_them = if row.missed() > 0 { sentence![", ", missed, " of them missed"] } else { sentence![] };
    let limit = row.entry.limit_ns.map(|ns| sentence![Time::measured(ns)]).unwrap_or_default();
    let (key, largest) = (&judged.key, Time::measured(row.largest_ns()));
    let maximum = if row.stated_max_ns().is_some() { ": maximum " } else { ": maximum of at least " };
    sentence![key, maximum, largest, " exceeds ", limit, " (", late, " late", of_due, of_them, ")"]
}

fn unsupported(bundle: &Bundle, judged: &[JudgedRow]) -> Vec<Sentence> {
    let manifest = &bundle.manifest;
    let claim = manifest.asked.claim.unwrap_or(DEFAULT_CLAIM);
    let rows = || judged.iter().map(|row| &row.verdict);
    let mut reasons: Vec<Sentence> = Vec::new();
    if let Some(lab) = &bundle.lab {
        reasons.extend(lab.failures().into_iter().map(Sentence::from));
    }
    match &bundle.lab {
        Some(lab) if lab.mode == Mode::Count => reasons.push(lab::NO_VERDICT.into()),
        _ if rows().any(RowVerdict::measured) => {}
        _ => reasons.push(NOTHING_MEASURED.into()),
    }
    if rows().any(RowVerdict::measured) {
        let without = rows().filter(|row| !row.measured());
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
        let rows = judged.len();
        reasons.push(format!("no limit judges {unlimited} of {rows} rows; give one with --limit").into());
    }
    if !(claim > 0.0 && claim < 1.0) {
        reasons.push(format!("the claim {claim} is not a rate between 0 and 1").into());
    }
    let per = manifest.asked.claim_per.unwrap_or_default();
    reasons.extend(rows().filter_map(|row| row.unknown.clone()));
    for row in judged.iter().filter(|row| row.makes_claim()) {
        let short = row.claim.falls_short(claim, per).filter(|_| row.verdict.held);
        reasons.extend(short.map(|why| sentence![row.verdict.key, ": ", why]));
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
    let is_told = |code: &str| manifest.taints.iter().any(|taint| taint.code == code);
    // Of a kernel that is not known another taint says that it is not PREEMPT_RT.
    let is_open = |code: &str| code != taint::KERNEL_UNKNOWN || !is_told(taint::NOT_REAL_TIME_KERNEL);
    let unknown = fact::unknown(manifest).into_iter();
    let unknown = unknown.filter(|taint| !is_told(&taint.code) && is_open(&taint.code));
    reasons.extend(unknown.map(|taint| format!("{}, and no taint says so", taint.reason).into()));
    for entry in &manifest.rows {
        let facts = fact::untold(manifest, entry);
        reasons
            .extend(facts.map(|fact| sentence![entry.key, ": ", fact.statement(), ", and no taint says so"]));
    }
    reasons
}

fn supported(claim: Option<&Claim>, allowed: Option<LateAllowance>) -> Sentence {
    let Some(claim) = claim else { return "no gap above the limit was seen".into() };
    let seen = match allowed {
        None => "no late cycle in any row".to_string(),
        Some(LateAllowance { m, k }) => format!("no {k} cycles with more than {m} late in any row"),
    };
    sentence![
        seen,
        ": ",
        claim,
        " in each, at 95 % confidence for all rows together, on this machine, under these loads"
    ]
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
