// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator why`: the spikes of a bundle by their causes, the worst first. Pure: evidence in, a document
//! out. [`timeline()`]: the course of one spike. The module `advice` says how to mend each cause; a new cause
//! gets its advice there.
#![forbid(unsafe_code)]

mod advice;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeMap;

use machine::CpuSet;
use machine::units::exact_us;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use evidence::cause::{Cause, CauseKind, Collector, OnSibling, shares};
use evidence::document::{ProveDocument, VerdictParts};
use evidence::manifest::{Manifest, SCHEMA_VERSION, Spike};
use evidence::reader::Bundle;

use advice::KeptIn;
pub use timeline::{TimelinePart, timeline};

/// Spikes listed where the user does not say how many.
pub const TOP: usize = 20;

/// A remainder above this share of a spike is reported.
pub const MUCH_UNEXPLAINED: f64 = 0.1;

/// A part of a spike below this share gives no advice.
const WORTH_ADVICE: f64 = 0.1;

/// Which spikes are asked about.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// How many to show; [`TOP`] fits a screen.
    pub top: usize,
    /// Only those of these CPUs.
    pub cpus: Option<CpuSet>,
    /// Only those under this load.
    pub load: Option<String>,
}

impl Question {
    /// Whether it is about `load`; one with a command goes by its name alone.
    pub fn is_load(&self, load: &str) -> bool {
        self.load.as_ref().is_none_or(|asked| asked == load || load.split('=').next() == Some(asked))
    }

    fn asks_for(&self, cpu: u32, load: &str) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu)) && self.is_load(load)
    }
}

/// `isolator why --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyDocument {
    /// Version of this document.
    pub schema_version: u32,
    /// The bundle's path.
    pub bundle: String,
    /// The verdict on the run; absent of counts of the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictParts>,
    /// The collector of the causes; absent without one.
    pub collector: Option<Collector>,
    /// Events that were lost because a buffer was full.
    pub lost_events: u64,
    /// The events that the collector could not see, and how to see them.
    pub could_not_see: Vec<String>,
    /// Kinds of events that the collector's trial at the start could not provoke.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_tried: Vec<String>,
    /// The reason for few or no data, with the cure.
    pub notes: Vec<String>,
    /// The selected spikes, with those that the bundle does not list.
    pub spikes_seen: u64,
    /// The spikes that the bundle lists; `by_cause` counts these.
    pub spikes_listed: u64,
    /// The worst spikes, the longest first.
    pub spikes: Vec<ExplainedSpike>,
    /// The causes of all listed spikes together, by total time, the largest first.
    pub by_cause: Vec<CauseTotal>,
    /// The chance that the next spike has a cause that none of the listed ones had: causes of a single spike,
    /// divided by spikes with a named cause (Good-Turing); absent without such spikes.
    #[serde(default)]
    pub next_cause_unseen: Option<f64>,
    /// Missing parts of the bundle.
    pub missing: Vec<String>,
}

/// One spike with its causes, its main cause, and advice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedSpike {
    /// When it began (the timer was due, or the gap opened), CLOCK_MONOTONIC.
    #[serde(rename = "time_ns")]
    pub monotonic_ns: u64,
    /// The same moment since the row began.
    pub at_ns: u64,
    /// The same moment as wall time, RFC 3339 in UTC.
    pub wall_time: Option<String>,
    /// The measured CPU.
    pub cpu: u32,
    /// The load it was measured under.
    pub load: String,
    /// The probe.
    pub probe: String,
    /// The period, for a periodic probe.
    pub period_ns: Option<u64>,
    /// How late, or how long.
    #[serde(rename = "length_ns")]
    pub latency_ns: u64,
    /// Periods missed because of it.
    pub missed: u64,
    /// The part that no cause explains; absent without causes with times.
    pub unexplained_ns: Option<u64>,
    /// Whether that is more than a tenth of the row.
    pub much_unexplained: bool,
    /// The evidence about that part: it names no thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_detail: Option<String>,
    /// The causes, in the order of their begin; suspects last.
    pub causes: Vec<Cause>,
    /// Activity of the CPU's siblings meanwhile.
    pub siblings: Vec<OnSibling>,
    /// The main cause; absent without causes with times.
    pub mostly: Option<CauseName>,
    /// Advice about its main causes.
    pub advice: Vec<String>,
}

/// The kind and name by which causes are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CauseName {
    /// Its kind.
    pub kind: CauseKind,
    /// Which one.
    pub name: String,
}

/// The sum of all occurrences of one cause in the listed spikes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseTotal {
    /// Its kind.
    pub kind: CauseKind,
    /// Which one.
    pub name: String,
    /// How often it occurred; for a suspect, in the seconds around the spikes.
    pub count: u64,
    /// Spikes in which it occurred.
    pub spikes: u64,
    /// Spikes with it as the main cause.
    pub mostly: u64,
    /// Its total time in all of them.
    pub total_ns: u64,
    /// The longest occurrence.
    pub max_ns: u64,
    /// Whether it is a suspect, known only to have happened in the same seconds.
    pub suspect: bool,
    /// The cure.
    pub advice: Option<String>,
}

impl WhyDocument {
    /// The answer that a bundle gives.
    pub fn of(bundle: &Bundle, question: &Question) -> WhyDocument {
        let rows = bundle.manifest.rows.iter();
        let asked_for = rows.filter(|row| question.asks_for(row.key.cpu, &row.key.load));
        let seen = untrusted::total(asked_for.map(|row| row.spikes));
        let spikes = bundle.spikes.iter().filter(|spike| question.asks_for(spike.key.cpu, &spike.key.load));
        let mut spikes: Vec<_> = spikes.collect();
        spikes.sort_by_key(|spike| (u64::MAX - spike.latency_ns, spike.monotonic_ns));
        let listed = spikes.len() as u64;
        let collected = bundle.manifest.causes.as_ref();
        WhyDocument {
            schema_version: SCHEMA_VERSION,
            bundle: bundle.path.display().to_string(),
            // The lab's counts are no latencies, which a limit could judge.
            verdict: (!bundle.counts_only()).then(|| ProveDocument::without_tails(bundle).parts()),
            collector: collected.map(|causes| causes.collector),
            lost_events: collected.map_or(0, |causes| causes.lost_events),
            could_not_see: collected.map(|causes| causes.could_not_see.clone()).unwrap_or_default(),
            not_tried: collected.map(|causes| causes.not_tried.clone()).unwrap_or_default(),
            notes: notes(bundle, question, &spikes),
            spikes_seen: listed.max(seen),
            spikes_listed: listed,
            by_cause: by_cause(&spikes, &bundle.manifest),
            spikes: explained_all(&spikes[..spikes.len().min(question.top)], &bundle.manifest),
            next_cause_unseen: evidence::next_cause_unseen(spikes.iter().copied()),
            missing: bundle.missing.clone(),
        }
    }
}

/// Why there is little to tell.
fn notes(bundle: &Bundle, question: &Question, spikes: &[&Spike]) -> Vec<String> {
    let manifest = &bundle.manifest;
    let program = &manifest.written_by.program;
    let mut notes = Vec::new();
    if bundle.counts_only() {
        notes.push(
            "the lab counted excursions and measured no latency, so there are no spikes; see isolator report"
                .to_string(),
        );
    } else if program != "isolator" {
        notes.push(format!(
            "{program} measured this and keeps no causes; for spikes with causes measure with isolator prove"
        ));
    } else if spikes.is_empty() && bundle.spikes.is_empty() {
        let above = manifest.asked.threshold_ns.map(|ns| format!(" above {}", exact_us(ns)));
        let above = above.unwrap_or_else(|| " above the limit".to_string());
        notes.push(format!(
            "no spike{above} was recorded: there is nothing to explain; --threshold lists smaller ones"
        ));
    } else if spikes.is_empty() {
        let rows = manifest.rows.iter().map(|row| (row.key.cpu, row.key.load.as_str()));
        let cpus: CpuSet = rows.clone().map(|(cpu, _)| cpu).collect();
        let mut loads: Vec<_> = rows.map(|(_, load)| load).collect();
        loads.dedup();
        let asked = match (&question.cpus, &question.load) {
            (Some(cpus), Some(load)) => format!("cpus {cpus} under {load}"),
            (Some(cpus), None) => format!("cpus {cpus}"),
            (None, load) => format!("load {}", load.as_deref().unwrap_or_default()),
        };
        notes.push(format!(
            "no spike of {asked} is listed; the bundle has cpus {cpus} under {}",
            loads.join(", ")
        ));
    } else if manifest.causes.is_none() && spikes.iter().all(|spike| spike.causes.is_empty()) {
        notes.push(
            "no causes were collected: spikes are listed without; measure again with --causes auto, as root"
                .to_string(),
        );
    }
    notes
}

/// The cause that took the most of a spike, the remainder included.
fn mostly(spike: &Spike) -> Option<CauseName> {
    let (kind, name) = spike.mostly()?;
    Some(CauseName { kind, name: name.to_string() })
}

fn explained_all(spikes: &[&Spike], manifest: &Manifest) -> Vec<ExplainedSpike> {
    // Advice is the same for all spikes that have the same cause, whatever their CPU and kernel function.
    let mut cpus = BTreeMap::<_, CpuSet>::new();
    for spike in spikes {
        cpus.entry(mostly(spike)).or_default().insert(spike.key.cpu);
    }
    let kept = advice::kept_in(spikes);
    spikes.iter().map(|spike| explained(spike, &cpus[&mostly(spike)], &kept, manifest)).collect()
}

fn explained(spike: &Spike, alike: &CpuSet, kept: &KeptIn<'_>, manifest: &Manifest) -> ExplainedSpike {
    let mut causes: Vec<_> =
        spike.causes.iter().filter(|cause| cause.kind != CauseKind::Unexplained).cloned().collect();
    // Stable: what began at once stays as the collector put it, the outer before the inner.
    causes.sort_by_key(|cause| (cause.is_suspect(), cause.begin_ns.unwrap_or(u64::MAX)));
    let unexplained_ns = spike.remainder_ns();
    let much = |ns: u64| ns as f64 > MUCH_UNEXPLAINED * spike.latency_ns as f64;
    ExplainedSpike {
        monotonic_ns: spike.monotonic_ns,
        at_ns: spike.at_ns,
        wall_time: spike.wall_time.clone(),
        cpu: spike.key.cpu,
        load: spike.key.load.clone(),
        probe: spike.key.probe.clone(),
        period_ns: spike.key.period_ns,
        latency_ns: spike.latency_ns,
        missed: spike.missed,
        much_unexplained: unexplained_ns.is_some_and(much),
        unexplained_detail: spike.unexplained_detail.clone(),
        unexplained_ns,
        advice: advised(spike, alike, kept, manifest),
        mostly: mostly(spike),
        siblings: spike.siblings.clone(),
        causes,
    }
}

/// Advice on what took much of a spike, the most first, for all CPUs where it does.
fn advised(spike: &Spike, cpus: &CpuSet, kept: &KeptIn<'_>, manifest: &Manifest) -> Vec<String> {
    let much = shares(&spike.causes)
        .into_iter()
        .take_while(|share| share.ns as f64 >= WORTH_ADVICE * spike.latency_ns as f64);
    let mut advice = Vec::new();
    for cause in much.map(|share| share.longest) {
        advice.extend(advice::on(cause, cpus, kept, manifest));
        advice.extend(advice::on_waker(cause, cpus, manifest));
    }
    if spike.remainder_ns().is_some_and(|ns| ns as f64 > MUCH_UNEXPLAINED * spike.latency_ns as f64) {
        advice.extend(advice::on(&unexplained(spike), cpus, kept, manifest));
    }
    let mut seen = Vec::new();
    advice.retain(|line| {
        !seen.contains(line) && {
            seen.push(line.clone());
            true
        }
    });
    advice
}

/// The remainder of a spike as a cause. It never has a name.
fn unexplained(spike: &Spike) -> Cause {
    Cause { detail: spike.unexplained_detail.clone(), ..Cause::timed(CauseKind::Unexplained, "", 0, 0) }
}

/// A sum over spikes, with the longest of its causes to take advice from.
struct Sum<'a> {
    total: CauseTotal,
    one: &'a Cause,
    cpus: CpuSet,
    last: usize,
    /// How likely a suspect is: the collector put the likeliest of each spike first.
    weight: u64,
}

fn by_cause(spikes: &[&Spike], manifest: &Manifest) -> Vec<CauseTotal> {
    let rests: Vec<Cause> = spikes.iter().map(|spike| unexplained(spike)).collect();
    let mut sums = BTreeMap::<(bool, CauseKind, &str), Sum>::new();
    for (place, spike) in spikes.iter().enumerate() {
        let mostly = mostly(spike);
        let causes = spike.causes.iter().filter(|cause| cause.kind != CauseKind::Unexplained);
        let causes = causes.map(|cause| (cause, cause.duration_ns.unwrap_or(0), cause.count.unwrap_or(1)));
        let remainder = spike.remainder_ns().filter(|ns| *ns > 0).map(|ns| (&rests[place], ns, 1));
        for (rank, (cause, ns, count)) in (1..).zip(causes.chain(remainder)) {
            let key = (cause.is_suspect(), cause.kind, cause.name.as_str());
            let sum = sums.entry(key).or_insert_with(|| Sum::of(cause));
            if ns > sum.total.max_ns {
                sum.one = cause;
            }
            let total = &mut sum.total;
            total.count = total.count.saturating_add(count);
            total.total_ns = total.total_ns.saturating_add(ns);
            total.max_ns = total.max_ns.max(ns);
            if sum.last != place {
                sum.last = place;
                total.spikes += 1;
                sum.weight += 1_000 / rank;
                let named = |most: &CauseName| most.kind == cause.kind && most.name == cause.name;
                total.mostly += u64::from(!total.suspect && mostly.as_ref().is_some_and(named));
            }
            sum.cpus.insert(spike.key.cpu);
        }
    }
    let mut all: Vec<_> = sums.into_values().collect();
    all.sort_by_key(|sum| {
        let total = &sum.total;
        (total.suspect, u64::MAX - total.total_ns, u64::MAX - sum.weight, u64::MAX - total.count)
    });
    let kept = advice::kept_in(spikes);
    let advised = |mut sum: Sum| {
        sum.total.advice = advice::on(sum.one, &sum.cpus, &kept, manifest);
        sum.total
    };
    all.into_iter().map(advised).collect()
}

impl Sum<'_> {
    fn of(one: &Cause) -> Sum<'_> {
        let total = CauseTotal {
            kind: one.kind,
            name: one.name.clone(),
            count: 0,
            spikes: 0,
            mostly: 0,
            total_ns: 0,
            max_ns: 0,
            suspect: one.is_suspect(),
            advice: None,
        };
        Sum { total, one, cpus: CpuSet::new(), last: usize::MAX, weight: 0 }
    }
}
