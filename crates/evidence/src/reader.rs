// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a bundle, whole or cut off at any moment; missing parts are listed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use untrusted::{Allowance, Lines};

use crate::archive::Files;
use crate::lab::LabDocument;
use crate::manifest::{Manifest, RowEntry, RunState, SCHEMA_VERSION, Second, Spike};
use crate::row::{Row, SPIKES};
use crate::series::{JournalLine, MOST_LINES, MOST_SECONDS, Series, read_seconds};
use crate::weakly_hard::WeaklyHard;
use crate::{Error, Result};
use crate::{clock, damage};

/// Rows of one bundle.
pub const MOST_ROWS: usize = Allowance::ROWS as usize;

/// Fails where a reader would refuse the bundle of a run of so many rows, each of so many seconds.
pub fn fits(rows: usize, seconds: u64) -> Result<()> {
    let held = u64::saturating_mul(rows as u64, seconds).saturating_mul(size_of::<Second>() as u64);
    let on = format!("{rows} {} of {seconds} s", if rows == 1 { "row" } else { "rows" });
    let why = if rows > MOST_ROWS {
        format!("a bundle has at most {MOST_ROWS} rows")
    } else if seconds > MOST_SECONDS as u64 {
        format!("a row has at most {MOST_SECONDS} s")
    } else if held > Allowance::HELD {
        format!(
            "a bundle has at most {} seconds in all its rows",
            Allowance::HELD / size_of::<Second>() as u64
        )
    } else {
        return Ok(());
    };
    Err(Error::on("measure", on, why, "measure fewer rows or less time in one run"))
}

/// A bundle as read.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// Where it was read.
    pub path: PathBuf,
    /// The request, the grants and the notes.
    pub manifest: Manifest,
    /// The measured series, as the manifest lists them.
    pub rows: Vec<Row>,
    /// Listed spikes.
    pub spikes: Vec<Spike>,
    /// The lab's record of a guest from outside, where the run was one of the lab.
    pub lab: Option<LabDocument>,
    /// Missing and damaged parts, in words; empty for a whole bundle.
    pub missing: Vec<String>,
}

impl Bundle {
    /// A whole bundle with this manifest, at `path`, without series, spikes or a lab.
    pub fn new(path: impl Into<PathBuf>, manifest: Manifest) -> Bundle {
        Bundle {
            path: path.into(),
            manifest,
            rows: Vec::new(),
            spikes: Vec::new(),
            lab: None,
            missing: Vec::new(),
        }
    }

    /// Whether the lab counted what there is: nothing in it can be judged against a limit.
    pub fn counts_only(&self) -> bool {
        self.lab.is_some() && self.rows.is_empty()
    }

    /// How a row of cycles kept the limit that allows some late cycles; `None` without one.
    pub fn weakly_hard(&self, row: &Row) -> Option<WeaklyHard> {
        let allowed = self.manifest.allowed().filter(|_| row.entry.key.is_cyclic())?;
        Some(WeaklyHard::of(row, &self.spikes, allowed))
    }

    /// The run's notes, and faults of its clock by its dates: none is held against it.
    pub fn notes(&self) -> Vec<String> {
        // Guests of the lab are measured side by side.
        let rows = if self.lab.is_some() { &[] } else { self.rows.as_slice() };
        let doubts = clock::doubts(&self.manifest, rows, SystemTime::now());
        self.manifest.notes.iter().cloned().chain(doubts).collect()
    }

    /// Whether all that is missing is in the list of spikes: latencies, and all figures of them, are whole
    /// then.
    pub fn has_all_latencies(&self) -> bool {
        self.missing.iter().all(|part| part.starts_with(SPIKES))
    }

    /// Opens a bundle: its folder or its `.tar.zst`.
    pub fn open(path: &Path) -> Result<Bundle> {
        Bundle::read(path, &Files::open(path)?)
    }

    /// Reads a bundle whose files, by their names within its folder, are in memory; `path` is for messages.
    pub fn from_files(path: &Path, files: BTreeMap<String, Vec<u8>>) -> Result<Bundle> {
        Bundle::read(path, &Files::of(path, files))
    }

    fn read(path: &Path, files: &Files) -> Result<Bundle> {
        let cure = "give a bundle's folder or its .tar.zst; for another tool's file use isolator import";
        let Some(text) = files.document("manifest.json")? else {
            return Err(Error::on("open the bundle", path.display(), "it has no manifest.json", cure));
        };
        let mut manifest = read_manifest(path, &text)?;
        files.hold(text.len())?;
        let lists = [
            ("rows", manifest.rows.len()),
            ("rows that were not run", manifest.not_run.len()),
            ("notes", manifest.notes.len()),
            ("taints", manifest.taints.len()),
        ];
        if let Some((what, count)) = lists.into_iter().find(|(_, count)| *count > MOST_ROWS) {
            let why = format!("it has {count} {what}, a bundle has at most {MOST_ROWS}");
            return Err(Error::on("open the bundle", path.display(), why, "measure fewer rows in one run"));
        }
        for taint in &mut manifest.taints {
            // Only what was asked to be accepted is.
            taint.accepted &= manifest.asked.accept.contains(&taint.code);
        }
        let mut missing = Vec::new();
        if manifest.state == RunState::Running {
            missing.push(
                "the run did not end in order (killed, or still running): its last second may be missing"
                    .into(),
            );
        }
        let is_ours = manifest.written_by.program == "isolator";
        let mut rows = Vec::with_capacity(manifest.rows.len());
        for entry in &manifest.rows {
            let series = read_series(files, entry, is_ours, &mut missing)?;
            files.hold(series.held_bytes())?;
            rows.push(Row::new(entry.clone(), series));
        }
        let spikes = read_spikes(files, &mut missing)?;
        let lab = read_lab(files.document("lab.json")?, &mut missing);
        files.check()?;
        missing.extend(damage::of_bundle(&manifest, &rows, &spikes, lab.is_some()));
        Ok(Bundle { path: path.to_path_buf(), manifest, rows, spikes, lab, missing })
    }
}

/// The record of the lab; damage is reported.
fn read_lab(text: Option<Vec<u8>>, missing: &mut Vec<String>) -> Option<LabDocument> {
    let parsed = serde_json::from_slice(&text?);
    if let Err(why) = &parsed {
        missing.push(format!("lab.json is damaged: {why}"));
    }
    parsed.ok()
}

fn read_manifest(path: &Path, text: &[u8]) -> Result<Manifest> {
    #[derive(serde::Deserialize)]
    struct SchemaVersion {
        schema_version: u32,
        asked: Option<serde::de::IgnoredAny>,
    }
    let on = path.join("manifest.json");
    let broken = |e: serde_json::Error| {
        Error::on("read", on.display(), e, "the bundle is damaged: take it again from where it was written")
    };
    let version: SchemaVersion = serde_json::from_slice(text).map_err(broken)?;
    if version.schema_version != SCHEMA_VERSION {
        if version.asked.is_none() {
            let cure = "take the bundle again from where it was written";
            return Err(Error::on("read", on.display(), "it is not the manifest of a run", cure));
        }
        let why =
            format!("its schema version is {}, this program reads {SCHEMA_VERSION}", version.schema_version);
        return Err(Error::on("read", on.display(), why, "use the version of isolator that wrote it"));
    }
    serde_json::from_slice(text).map_err(broken)
}

fn read_series(files: &Files, entry: &RowEntry, is_ours: bool, missing: &mut Vec<String>) -> Result<Series> {
    let known_to_miss = missing.len();
    let mut series = Series::default();
    let stem = format!("series/{}", entry.files);
    let lines = |suffix: &str| files.lines(&format!("{stem}.{suffix}"));
    let journal = lines("journal")?;
    let is_open = journal.is_some();
    match lines("seconds.csv")?.map(|lines| read_seconds(lines, &mut series.seconds)) {
        Some(Ok(())) => {}
        Some(Err(why)) => missing.push(format!("{stem}.seconds.csv is damaged: {why}")),
        None => missing.push(format!("{stem}.seconds.csv is missing")),
    }
    let mut through = None;
    match lines("histograms.csv")? {
        Some(lines) => match series.read_histograms(lines) {
            Ok(second) => through = second,
            Err(why) => missing.push(format!("{stem}.histograms.csv is damaged: {why}")),
        },
        None if !is_open => missing.push(format!("{stem}.histograms.csv is missing")),
        None => {}
    }
    if let Some(journal) = journal
        && let Err(why) = read_journal(journal, through, &mut series)
    {
        missing.push(format!("{stem}.journal {why}"));
    }
    // Losses with a part of its files are reported already.
    if missing.len() == known_to_miss {
        missing.extend(damage::of_row(entry, &series, through, is_open, is_ours));
    }
    series.take_the_worst();
    Ok(series)
}

/// Data since the two files were written, which speak through second `through`.
fn read_journal(
    mut journal: Lines<impl Read>,
    through: Option<u32>,
    series: &mut Series,
) -> std::result::Result<(), String> {
    let known = series.seconds.last().map(|row| row.second);
    for _ in 0..MOST_LINES {
        let line = journal.next_line().map_err(|why| format!("cannot be read: {why}"))?;
        let Some(line) = line else { return Ok(()) };
        let line = JournalLine::read(line.trim_end_matches(['\n', '\r']));
        let line = line.ok_or("was cut short: its last second is missing")?;
        let second = Some(line.row.second);
        // A kill between two steps of compaction leaves a line here that the files hold already, or one of
        // them. In a long run the rows of the last minute stand here alone.
        match (second > through, second > known) {
            (true, true) => series.apply(&line),
            (true, false) => {
                let seconds = std::mem::take(&mut series.seconds);
                series.apply(&line);
                series.seconds = seconds;
            }
            (false, true) => series.push_second(line.row),
            (false, false) => {}
        }
    }
    Err("has more lines than a run leaves".to_string())
}

fn read_spikes(files: &Files, missing: &mut Vec<String>) -> Result<Vec<Spike>> {
    let Some(mut lines) = files.lines(SPIKES)? else {
        missing.push(format!("{SPIKES} is missing"));
        return Ok(Vec::new());
    };
    let (mut spikes, mut damaged) = (Vec::new(), 0);
    loop {
        let line = match lines.next_line() {
            Ok(None) => break,
            Ok(Some(line)) => line,
            Err(why) => {
                missing.push(format!("{SPIKES} cannot be read to its end: {why}"));
                break;
            }
        };
        match serde_json::from_str(&line) {
            Ok(spike) => {
                // A spike and its causes take about as much memory as text.
                files.hold(size_of::<Spike>() + line.len())?;
                spikes.push(spike);
            }
            Err(_) => damaged += 1,
        }
    }
    if damaged > 0 {
        missing.push(format!("{SPIKES}: lines that were cut short or damaged: {damaged}"));
    }
    Ok(spikes)
}
