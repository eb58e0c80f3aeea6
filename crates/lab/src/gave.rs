// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest's result, with its meaning: rows, storms, load, the judged log, the witness and the
//! bundle.

use std::path::PathBuf;
use std::time::Duration;

use evidence::lab::{GuestLog, LabRow, LoadDid, LogVerdict, Mode, StormDid, Witness};
use evidence::manifest::{ENDED_EARLY, Manifest, RunState};
use evidence::taint::{self, Taint};
use evidence::{Bundle, Row};

use crate::guest::storm;
use crate::qemu::Left;
use crate::{Error, Result, edges, log, scope, signal, store, witness};

/// The result of one scenario.
#[derive(Debug)]
pub(crate) struct Gave {
    pub rows: Vec<LabRow>,
    pub storms: Vec<StormDid>,
    pub load: Option<LoadDid>,
    pub log: GuestLog,
    /// Where the kernel complained: its log, and the file for it.
    pub complained: Option<(String, String)>,
    pub witness: Vec<Witness>,
    pub bundle: Bundle,
    /// Whether the guest was not run for this, but an earlier one's result was taken.
    pub is_kept: bool,
}

impl Gave {
    /// Whether storms and load did what they are for, and the kernel did not complain.
    pub fn is_result(&self) -> bool {
        let load = self.load.as_ref().is_none_or(|load| load.took_effect);
        load && self.storms.iter().all(|storm| storm.took_effect) && self.log.verdict == LogVerdict::Clean
    }
}

/// Makes of what a guest left what it means: the guest called `name`, with or without a load, in a window
/// that was asked for. Kernel warnings with a text of `known` do not count.
pub(crate) fn read(
    left: &Left,
    name: &str,
    has_load: bool,
    mode: Mode,
    window: Duration,
    known: &[String],
) -> Result<Gave> {
    let frame = |wanted: &str| left.frames.iter().find(|(name, _)| name == wanted).map(|(_, bytes)| bytes);
    let Some(archive) = frame("bundle.tar.zst") else {
        let console = &left.console;
        let said = log::own_words(console).map_or_else(|| log::without_words(console, known), str::to_string);
        return Err(Error::on("run the scenario", name, said, "try it with isolator lab shell"));
    };
    let mut bundle = unpack(archive)?;
    if let Some(row) = bundle.manifest.not_run.first() {
        return Err(Error::on("run the scenario", name, &row.reason, "leave that load out"));
    }
    let mut rows = if mode == Mode::Count { scope::rows(&left.scope, name)? } else { Vec::new() };
    let outside = frame(signal::FRAME).map(|archive| unpack(archive)).transpose()?;
    // The scope sees no store of an edge that the host gives. Through memory one without an answer is a late
    // sample of the generator's.
    let driven = || serde_json::from_slice::<edges::GeneratorReport>(frame(edges::FRAME)?).ok();
    let missed = driven().map(|driven| driven.missed).or(outside.as_ref().map(|_| 0));
    for row in &mut rows {
        let measured = bundle.manifest.rows.iter().find(|entry| entry.key.cpu == row.cpu);
        row.isolation = measured.and_then(|entry| entry.granted.isolation.clone());
        // An owner alone leaves no bundle of its own.
        let alone = || serde_json::from_slice(frame("isolation")?).ok();
        row.isolation = row.isolation.take().or_else(alone);
        if let Some((responses, missed)) = row.responses.as_mut().zip(missed) {
            responses.edges = responses.answers() + missed;
        }
    }
    let storms = left.frames.iter().filter(|(name, _)| name == "storm").filter_map(|(_, bytes)| {
        let storm::StormOutcome { name: storm, took_effect, did, .. } = serde_json::from_slice(bytes).ok()?;
        Some(StormDid { scenario: name.to_string(), name: storm, took_effect, did })
    });
    let storms = storms.collect::<Vec<_>>();
    let kernel_log = frame("kernel-log").map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let kernel_log = kernel_log.as_deref().unwrap_or(&left.console);
    let mut log = log::judge(kernel_log, known);
    let complained = (log.verdict == LogVerdict::Bad)
        .then(|| (format!("kernel-{}.log", name.replace(' ', "-")), kernel_log.to_string()));
    log.warnings.iter_mut().for_each(|line| *line = format!("{name}: {line}"));
    let witness = left.frames.iter().filter_map(|(frame, bytes)| {
        let cpu = frame.strip_prefix("witness-")?.parse().ok()?;
        Some(witness::compare(name, cpu, &String::from_utf8_lossy(bytes), &left.scope))
    });
    let witness = witness.collect();
    let load = has_load.then(|| load_did(name, &bundle));
    means(mode, name, &mut bundle);
    if let Some(mut outside) = outside {
        if signal::answered(&outside) == 0 {
            let why = "the host saw no answer of the guest";
            return Err(Error::on("run the scenario", name, why, "see its kernel log, or run it for longer"));
        }
        // By the host's clock too the answers of translated code are not those of any machine.
        if mode == Mode::Real {
            means(mode, &signal::label(name), &mut outside);
            join(&mut bundle, outside);
        }
    }
    // Where storms blow, their end is the window's: its time was only a fuse.
    if !storms.is_empty() {
        bundle.manifest.state = RunState::Finished;
        bundle.manifest.notes.retain(|note| note != ENDED_EARLY);
        bundle.manifest.asked.duration_ns = Some(window.as_nanos() as u64);
    }
    Ok(Gave { rows, storms, load, log, complained, witness, bundle, is_kept: false })
}

/// The load's own report in a guest's bundle: one that did nothing taints it.
fn load_did(scenario: &str, bundle: &Bundle) -> LoadDid {
    let taint = bundle.manifest.taints.iter().find(|taint| taint.code == taint::LOAD);
    let words = bundle.manifest.rows.iter().find_map(|row| row.load_did.clone());
    let did = taint.map(|taint| taint.reason.clone()).or(words).unwrap_or_default();
    LoadDid { scenario: scenario.to_string(), took_effect: taint.is_none(), did }
}

/// Keeps the guest's measurements by its own clock only where that clock means something.
fn means(mode: Mode, scenario: &str, bundle: &mut Bundle) {
    bundle.manifest.asked.loads = vec![scenario.to_string()];
    match mode {
        Mode::Count => {
            bundle.manifest.rows.clear();
            bundle.rows.clear();
            if bundle.manifest.causes.is_none() {
                bundle.spikes.clear();
            }
            bundle
                .manifest
                .notes
                .push("the guest's times are not latencies in this mode and were not kept".into());
        }
        Mode::Virtual | Mode::Real => {
            let rename = |Row { entry, .. }: &mut Row| {
                entry.key.load = scenario.to_string();
                entry.files = entry.key.stem();
            };
            bundle.rows.iter_mut().for_each(rename);
            bundle.manifest.rows = bundle.rows.iter().map(|row| row.entry.clone()).collect();
            bundle.spikes.iter_mut().for_each(|spike| spike.key.load = scenario.to_string());
            if mode == Mode::Virtual {
                let reason = "in virtual time a nanosecond is an instruction, not a latency of any machine";
                let cure = "compare such figures with each other only; judge the limit on the machine itself";
                bundle.manifest.taints.push(Taint::new(taint::EMULATED, reason, cure));
            }
        }
    }
}

/// The bundle that a guest sent.
fn unpack(archive: &[u8]) -> Result<Bundle> {
    let folder = store::folder("guests")?;
    let file: PathBuf = folder.join(format!("{}.tar.zst", store::digest(&[archive])));
    evidence::writer::replace(&file, archive)?;
    let bundle = Bundle::open(&file);
    let _ = std::fs::remove_file(&file);
    bundle
}

/// Adds another guest's rows to a bundle; what was asked becomes what was asked of all.
pub(crate) fn join(bundle: &mut Bundle, other: Bundle) {
    let Manifest { rows, asked, taints, notes, .. } = other.manifest;
    bundle.manifest.rows.extend(rows);
    bundle.manifest.asked.loads.extend(asked.loads);
    bundle.rows.extend(other.rows);
    bundle.spikes.extend(other.spikes);
    bundle
        .manifest
        .taints
        .extend(taints.into_iter().filter(|t| !bundle.manifest.taints.contains(t)).collect::<Vec<_>>());
    bundle
        .manifest
        .notes
        .extend(notes.into_iter().filter(|n| !bundle.manifest.notes.contains(n)).collect::<Vec<_>>());
}
