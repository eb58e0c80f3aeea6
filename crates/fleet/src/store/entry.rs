// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store's record of one bundle.
//!
//! Buckets are of a *cell*: all measured CPUs of one probe, load and period together. They are 32 to an
//! octave (about 3 % wide, 32 ns where that is more), so that 10,000 machines fit a laptop; counts, sums and
//! extremes stay exact.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evidence::document::{ProveDocument, VerdictParts};
use evidence::histogram::{highest, index, lowest};
use evidence::manifest::RunState;
use evidence::verdict::Verdict;
use evidence::{Bundle, Judge, Manifest};
use sha2::{Digest, Sha256};

use super::settings;

/// Buckets of a histogram that become one here, as a power of two: 1,024 to an octave become 32.
const SHIFT: u32 = 5;

/// How far ahead a clock may be before its times are not believed.
const AHEAD: Duration = Duration::from_secs(300);

/// Nothing was measured with this program before 2025: a clock that says so was never set.
const BEFORE: &str = "2025-01-01T00:00:00Z";

/// A bundle, as it becomes rows of the tables.
#[derive(Debug)]
pub(crate) struct BundleEntry {
    pub bundle: i64,
    pub digest: String,
    pub path: String,
    pub machine: i64,
    pub hostname: String,
    pub hardware: String,
    pub kernel: String,
    pub kernel_class: String,
    pub program: String,
    pub started_at: Option<String>,
    pub started_unix_s: Option<i64>,
    pub ended_unix_s: Option<i64>,
    /// Why its times are not believed.
    pub clock: Option<String>,
    pub outcome: &'static str,
    pub reason: String,
    pub taints: u64,
    pub set_apart: bool,
    /// Codes of the taints that the user accepted.
    pub accepted: Option<String>,
    /// The grade for the run's use, with the use.
    pub grade: Option<String>,
    pub rows: Vec<EntryRow>,
    /// Cell, from, to where it is known, count.
    pub buckets: Buckets,
    pub settings: BTreeMap<String, String>,
    /// Row's place, kind, name to count, sum and maximum of durations.
    pub causes: BTreeMap<(u64, &'static str, String), (u64, u64, u64)>,
}

/// A row of a bundle.
#[derive(Debug)]
pub(crate) struct EntryRow {
    pub cell: u64,
    pub probe: String,
    pub load: String,
    pub cpu: u64,
    pub period_ns: Option<u64>,
    pub limit_ns: Option<u64>,
    pub cyclic: bool,
    pub samples: u64,
    pub late: u64,
    pub missed: u64,
    /// Absent where the source does not report the mean.
    pub sum_ns: Option<u64>,
    /// Absent without samples, and where the source does not state it.
    pub min_ns: Option<u64>,
    /// The same.
    pub max_ns: Option<u64>,
    pub spikes: u64,
}

/// Reads a bundle and judges it; why it cannot be stored, where it cannot.
pub(crate) fn read(path: &Path, now: SystemTime, judge: &Judge) -> Result<BundleEntry, String> {
    let mut bundle = Bundle::open(path).map_err(|e| e.why)?;
    if bundle.manifest.state == RunState::Running {
        return Err("its run did not end in order, or still goes on".to_string());
    }
    if bundle.rows.is_empty() {
        return Err("it has no latencies".to_string());
    }
    if let Some(why) = bundle.missing.first().filter(|_| !bundle.has_all_latencies()) {
        return Err(format!("it is damaged: {why}"));
    }
    let Some(hostname) = bundle.manifest.machine.hostname.clone().filter(|name| !name.is_empty()) else {
        return Err("it does not say on which machine it was measured".to_string());
    };
    // Judging changes the manifest, and the run stays the same.
    let text = serde_json::to_vec(&bundle.manifest).unwrap_or_default();
    judge.judge(&mut bundle).map_err(|e| e.to_string())?;
    Ok(of(&bundle, &Sha256::digest(&text), hostname, path, now))
}

fn of(bundle: &Bundle, digest: &[u8], hostname: String, path: &Path, now: SystemTime) -> BundleEntry {
    let manifest = &bundle.manifest;
    let machine = &manifest.machine;
    let document = ProveDocument::without_tails(bundle);
    // Late cycles are kept by row, and with each its limit; a claim that holds is the reason.
    let VerdictParts {
        held: _,
        outcome,
        kept: _,
        limit_ns: _,
        reasons,
        claim: _,
        taints,
        purpose,
        cycles: _,
    } = document.parts();
    let accepted = taints.iter().filter(|taint| taint.accepted).map(|taint| taint.code.as_str());
    let accepted = accepted.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",");
    let grade = purpose.and_then(|purpose| Some(format!("{} for {}", purpose.grade?.name(), purpose.asked)));
    let cpus = machine.cpus.len();
    let said =
        |text: &Option<String>| text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(String::from);
    let names = [said(&machine.product), said(&machine.cpu_model)].into_iter().flatten().collect::<Vec<_>>();
    let names = if names.is_empty() { "unknown hardware".to_string() } else { names.join(", ") };
    let hardware = format!("{names}, {cpus} CPUs");
    let started = manifest.started_at.as_deref().and_then(unix);
    let ended = manifest.ended_at.as_deref().and_then(unix);
    let (rows, buckets, places) = series(bundle, &document.verdict);
    BundleEntry {
        bundle: number(digest),
        digest: machine::hexadecimal(digest),
        path: absolute(path),
        machine: number(&Sha256::digest(format!("{hostname}\n{hardware}"))),
        hostname,
        hardware,
        kernel: machine.kernel.release.clone().unwrap_or_else(|| "unknown".to_string()),
        kernel_class: kernel_class(manifest),
        program: manifest.written_by.version.clone().unwrap_or_default(),
        started_at: manifest.started_at.clone(),
        started_unix_s: started.map(|(s, _)| s),
        ended_unix_s: ended.map(|(s, _)| s),
        clock: disbelief(started, ended, now),
        outcome: outcome.name(),
        reason: reasons.first().cloned().unwrap_or_default().into(),
        taints: taints.iter().filter(|taint| !taint.accepted).count() as u64,
        accepted: Some(accepted).filter(|codes| !codes.is_empty()),
        grade,
        set_apart: !manifest.asked.cpus.is_empty()
            && manifest.asked.cpus.without(&machine.isolation.set_apart()).is_empty(),
        rows,
        buckets,
        settings: settings::of(manifest),
        causes: causes(bundle, &places),
    }
}

/// Probe, load and period.
type CellKey<'a> = (&'a str, &'a str, Option<u64>);

type Buckets = Vec<(u64, u64, Option<u64>, u64)>;
/// Samples by bucket.
type BucketCounts = BTreeMap<(usize, bool), u64>;
type RowPlaces = BTreeMap<evidence::manifest::RowKey, u64>;

fn series(bundle: &Bundle, verdict: &Verdict) -> (Vec<EntryRow>, Buckets, RowPlaces) {
    let (mut rows, mut places) = (Vec::new(), RowPlaces::new());
    let mut cells: Vec<(CellKey, BucketCounts)> = Vec::new();
    for (place, (row, judged)) in bundle.rows.iter().zip(&verdict.rows).enumerate() {
        let key = &row.entry.key;
        let same = (key.probe.as_str(), key.load.as_str(), key.period_ns);
        let cell = cells.iter().position(|(known, _)| *known == same).unwrap_or_else(|| {
            cells.push((same, BTreeMap::new()));
            cells.len() - 1
        });
        let latency = &row.series.latency;
        for bucket in row.known_buckets() {
            let value_ns = bucket.to_ns.unwrap_or(bucket.from_ns);
            let count = cells[cell].1.entry((index(value_ns) >> SHIFT, bucket.to_ns.is_some())).or_default();
            *count = count.saturating_add(bucket.count);
        }
        places.insert(key.clone(), place as u64);
        rows.push(EntryRow {
            cell: cell as u64,
            probe: key.probe.clone(),
            load: key.load.clone(),
            cpu: key.cpu.into(),
            period_ns: key.period_ns,
            limit_ns: row.entry.limit_ns,
            cyclic: key.is_cyclic(),
            samples: latency.count(),
            late: judged.late,
            missed: row.missed(),
            sum_ns: row.mean_ns().map(|_| u64::try_from(latency.sum_ns()).unwrap_or(u64::MAX)),
            min_ns: row.min_ns(),
            max_ns: row.stated_max_ns(),
            spikes: row.entry.spikes,
        });
    }
    let bucket = |cell: usize, (index, is_known): (usize, bool), count: u64| {
        let (from_ns, to_ns) = (lowest(index << SHIFT), highest((index << SHIFT) + (1 << SHIFT) - 1));
        (cell as u64, from_ns, is_known.then_some(to_ns), count)
    };
    let buckets = cells.iter().enumerate().flat_map(|(cell, (_, counts))| {
        counts.iter().map(move |(index, count)| bucket(cell, *index, *count))
    });
    (rows, buckets.collect(), places)
}

fn causes(bundle: &Bundle, places: &RowPlaces) -> BTreeMap<(u64, &'static str, String), (u64, u64, u64)> {
    let mut out = BTreeMap::new();
    for spike in &bundle.spikes {
        let Some(place) = places.get(&spike.key) else { continue };
        for cause in spike.causes.iter().filter(|cause| !cause.is_suspect()) {
            let duration_ns = cause.duration_ns.unwrap_or(0);
            let (count, sum, max): &mut (u64, u64, u64) =
                out.entry((*place, cause.kind.name(), cause.name.clone())).or_default();
            (*count, *sum, *max) = (*count + 1, sum.saturating_add(duration_ns), (*max).max(duration_ns));
        }
    }
    out
}

/// `6.12 real-time`: version and preemption, since both decide what a machine can hold.
fn kernel_class(manifest: &Manifest) -> String {
    let kernel = &manifest.machine.kernel;
    let version = kernel.release.as_deref().map_or("unknown version".to_string(), |release| {
        release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
    });
    let preemption = serde_json::to_value(kernel.preemption).unwrap_or_default();
    format!("{version} {}", preemption.as_str().unwrap_or("unknown"))
}

/// Why a bundle's times are not believed. A clock that is merely a little off cannot be told.
fn disbelief(
    started: Option<(i64, SystemTime)>,
    ended: Option<(i64, SystemTime)>,
    now: SystemTime,
) -> Option<String> {
    let Some((_, start)) = started else { return Some("it does not say when it began".to_string()) };
    let before = humantime::parse_rfc3339(BEFORE).unwrap_or(UNIX_EPOCH);
    match start.duration_since(now) {
        Ok(ahead) if ahead > AHEAD => {
            let ahead = humantime::format_duration(Duration::from_secs(ahead.as_secs()));
            Some(format!("it began {ahead} after it was stored"))
        }
        _ if start < before => Some("its clock was never set".to_string()),
        _ if ended.is_some_and(|(_, end)| end < start) => Some("it ended before it began".to_string()),
        _ => None,
    }
}

fn unix(text: &str) -> Option<(i64, SystemTime)> {
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some((i64::try_from(seconds).ok()?, time))
}

/// The first 63 bits of a digest.
fn number(digest: &[u8]) -> i64 {
    let first = digest.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    (first >> 1).cast_signed()
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)).display().to_string()
}
