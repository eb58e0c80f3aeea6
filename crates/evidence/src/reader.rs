// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a bundle, whole or cut off at any moment; what is missing is said.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::archive::Files;
use crate::error::{Error, Result};
use crate::lab::LabDocument;
use crate::manifest::{Coarse, Manifest, RowEntry, SCHEMA_VERSION, Spike, State};
use crate::series::{JournalLine, Series, read_seconds};
use crate::tail::{self, Tail};
use crate::{clock, damage};

/// The list of spikes, and how what is missing of it is said.
pub(crate) const SPIKES: &str = "spikes.jsonl";

/// A bundle as read.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// Where it was read.
    pub path: PathBuf,
    /// What was asked, granted and noticed.
    pub manifest: Manifest,
    /// The measured series, as the manifest lists them.
    pub rows: Vec<Row>,
    /// Listed spikes.
    pub spikes: Vec<Spike>,
    /// What the lab saw of a guest from outside, where the run was one of the lab.
    pub lab: Option<LabDocument>,
    /// What is missing or damaged, in words; empty for a whole bundle.
    pub missing: Vec<String>,
}

/// One series with what the manifest says of it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The manifest's entry.
    pub entry: RowEntry,
    /// The data.
    pub series: Series,
    tail: OnceLock<Tail>,
}

impl Row {
    /// A row of its parts.
    pub fn new(entry: RowEntry, series: Series) -> Row {
        Row { entry, series, tail: OnceLock::new() }
    }

    /// Periods missed in all: those of the seconds, and those that an imported file states for the whole run.
    pub fn missed(&self) -> u64 {
        let stated = self.entry.coarse.as_ref().map_or(0, |coarse| coarse.missed);
        self.series.missed().saturating_add(stated)
    }

    /// What the tail of its latencies suggests. Fitted at the first call, since that takes long and a verdict, a
    /// document and a page all tell of it: the series is not to change afterwards.
    pub fn tail(&self) -> &Tail {
        self.tail.get_or_init(|| match self.entry.coarse.as_ref().and_then(Coarse::hidden_from_ns) {
            Some(_) => Tail::Refused {
                reason: "the source counts its largest samples without their latencies".into(),
            },
            None => tail::estimate(&self.series.latency),
        })
    }
}

impl Bundle {
    /// Whether the lab counted what there is: nothing in it can be judged against a limit.
    pub fn counts_only(&self) -> bool {
        self.lab.is_some() && self.rows.is_empty()
    }

    /// What the run noticed, and what its dates show to be wrong with its clock: none is held against it.
    pub fn notes(&self) -> Vec<String> {
        // Guests of the lab are measured side by side.
        let rows = if self.lab.is_some() { &[] } else { self.rows.as_slice() };
        let doubts = clock::doubts(&self.manifest, rows, SystemTime::now());
        self.manifest.notes.iter().cloned().chain(doubts).collect()
    }

    /// Whether all that is missing is in the list of spikes: latencies, and all figures of them, are whole then.
    pub fn has_all_latencies(&self) -> bool {
        self.missing.iter().all(|part| part.starts_with(SPIKES))
    }

    /// Opens a bundle: its folder or its `.tar.zst`.
    pub fn open(path: &Path) -> Result<Bundle> {
        Bundle::read(path, &Files::open(path)?)
    }

    /// Reads a bundle whose files, by their names within its folder, are in memory; `path` is for messages.
    pub fn from_files(path: &Path, files: BTreeMap<String, Vec<u8>>) -> Result<Bundle> {
        Bundle::read(path, &Files::Archive(files))
    }

    fn read(path: &Path, files: &Files) -> Result<Bundle> {
        let cure = "give a bundle's folder or its .tar.zst; for another tool's file use isolator import";
        let Some(text) = files.read("manifest.json")? else {
            return Err(Error::new("open the bundle", path.display(), "it has no manifest.json", cure));
        };
        let mut manifest = read_manifest(path, &text)?;
        for taint in &mut manifest.taints {
            // Only what was asked to be accepted is.
            taint.accepted &= manifest.asked.accept.contains(&taint.code);
        }
        let mut missing = Vec::new();
        if manifest.state == State::Running {
            missing.push(
                "the run did not end in order (killed, or still running): its last second may be missing"
                    .into(),
            );
        }
        let is_ours = manifest.written_by.program == "isolator";
        let mut rows = Vec::with_capacity(manifest.rows.len());
        for entry in &manifest.rows {
            let series = read_series(files, entry, is_ours, &mut missing)?;
            rows.push(Row::new(entry.clone(), series));
        }
        let spikes = read_spikes(files.read(SPIKES)?, &mut missing);
        let lab = read_lab(files.read("lab.json")?, &mut missing);
        missing.extend(damage::of_bundle(&manifest, &rows, &spikes, lab.is_some()));
        Ok(Bundle { path: path.to_path_buf(), manifest, rows, spikes, lab, missing })
    }
}

/// What the lab saw; damage is told.
fn read_lab(text: Option<Vec<u8>>, missing: &mut Vec<String>) -> Option<LabDocument> {
    let parsed = serde_json::from_slice(&text?);
    if let Err(why) = &parsed {
        missing.push(format!("lab.json is damaged: {why}"));
    }
    parsed.ok()
}

fn read_manifest(path: &Path, text: &[u8]) -> Result<Manifest> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema_version: u32,
    }
    let on = path.join("manifest.json");
    let broken = |e: serde_json::Error| {
        Error::new("read", on.display(), e, "the bundle is damaged: take it again from where it was written")
    };
    let version: Version = serde_json::from_slice(text).map_err(broken)?;
    if version.schema_version != SCHEMA_VERSION {
        let why =
            format!("its schema version is {}, this program reads {SCHEMA_VERSION}", version.schema_version);
        return Err(Error::new("read", on.display(), why, "use the version of isolator that wrote it"));
    }
    serde_json::from_slice(text).map_err(broken)
}

fn read_series(files: &Files, entry: &RowEntry, is_ours: bool, missing: &mut Vec<String>) -> Result<Series> {
    let known_to_miss = missing.len();
    let mut series = Series::default();
    let stem = format!("series/{}", entry.files);
    let text = |suffix: &str| -> Result<Option<String>> {
        let bytes = files.read(&format!("{stem}.{suffix}"))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let journal = text("journal")?;
    match text("seconds.csv")?.map(|text| read_seconds(&text, &mut series.seconds)) {
        Some(Ok(())) => {}
        Some(Err(why)) => missing.push(format!("{stem}.seconds.csv is damaged: {why}")),
        None => missing.push(format!("{stem}.seconds.csv is missing")),
    }
    let mut through = None;
    match text("histograms.csv")? {
        Some(text) => match series.read_histograms(&text) {
            Ok(second) => through = second,
            Err(why) => missing.push(format!("{stem}.histograms.csv is damaged: {why}")),
        },
        None if journal.is_none() => missing.push(format!("{stem}.histograms.csv is missing")),
        None => {}
    }
    let known = series.seconds.last().map(|row| row.second);
    for line in journal.iter().flat_map(|text| text.lines()) {
        let Some(line) = JournalLine::read(line) else {
            missing.push(format!("{stem}.journal was cut short: its last second is missing"));
            break;
        };
        let second = Some(line.row.second);
        // A kill between two steps of compaction leaves a line here that the files hold already.
        match (second > through, second > known) {
            (true, true) => series.apply(&line),
            (true, false) => {
                let seconds = std::mem::take(&mut series.seconds);
                series.apply(&line);
                series.seconds = seconds;
            }
            (false, _) => {}
        }
    }
    // What was lost with a part of its files is said already.
    if missing.len() == known_to_miss {
        missing.extend(damage::of_row(entry, &series, through, journal.is_some(), is_ours));
    }
    series.take_the_worst();
    Ok(series)
}

fn read_spikes(bytes: Option<Vec<u8>>, missing: &mut Vec<String>) -> Vec<Spike> {
    let Some(bytes) = bytes else {
        missing.push(format!("{SPIKES} is missing"));
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let (mut spikes, mut damaged) = (Vec::new(), 0);
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(spike) => spikes.push(spike),
            Err(_) => damaged += 1,
        }
    }
    if damaged > 0 {
        missing.push(format!("{SPIKES}: lines that were cut short or damaged: {damaged}"));
    }
    spikes
}
