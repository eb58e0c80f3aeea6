// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing a bundle while a run goes on, so that a kill or a full disk at any moment loses at most the last
//! second.
//!
//! Small files are replaced whole (written beside, then renamed). A series grows by one journal line a
//! second; every `COMPACT_EVERY` lines, or sooner where they are long, they move into the series' two files
//! (see [`crate::series`]).
//!
//! The folder is ours alone and is held open, so that no link of another user can lead a file elsewhere. What
//! says how a run ended (manifest, finished series, verdict) is on the disk before the run goes on. The
//! compaction in between is not waited for: a slow disk would have the control thread lose samples, and a run
//! that is still `running` claims nothing.
//!
//! - **Size** grows with the spread of the values, and by a line per second (long run: per minute); not with
//!   the number of samples.
//! - **In a long run** (`--flight`) `spikes.jsonl` is written anew now and then with the longest and the
//!   latest spikes of each series alone.
//! - **A power failure.** Manifest, finished series and verdict are on the disk before the program goes on.
//!   The move of a series' journal into its two files is not waited for, since a slow disk would have the
//!   control thread lose samples; the manifest says `running` until the end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;
use untrusted::Folder;

use crate::kept::KeptSpikes;
use crate::manifest::{Manifest, RowKey, Second, Spike};
use crate::series::{JournalLine, LEVELS, SECONDS_HEAD, Series, second_text};
use crate::{Error, Result};

/// Journal lines kept before they move into the series' files, and their bytes: a second of a thousand
/// latencies, each different, is a line of 30 KB.
const COMPACT_EVERY: usize = 300;
const COMPACT_BYTES: usize = 256 * 1024;

/// A finished file longer than this is compressed: that of some hours, or of a very wide distribution.
const COMPRESS_ABOVE: usize = 256 * 1024;

/// Spikes listed for one series; the rest are only counted.
pub const SPIKES_LISTED: u64 = 10_000;

/// In a long run, spikes of one series that are read at a time, the longest of a quarter of a second; and
/// how many seconds a line of the finished file has.
const SPIKES_AT_ONCE: usize = 8;
const LONG_RUN_LINE_S: u32 = 60;

/// The list of spikes.
const SPIKES: &str = "spikes.jsonl";

/// In a long run, lines of the list of spikes beyond those that are kept before it is written anew.
const SPIKES_BEYOND: usize = 2_000;

/// Refuses a folder that holds a bundle already.
pub fn may_write(folder: &Path) -> Result<()> {
    if untrusted::is_there(folder.join("manifest.json")) {
        let cure = "choose another folder with -o";
        return Err(Error::on("write a bundle to", folder.display(), "it holds one already", cure));
    }
    Ok(())
}

/// A bundle that is being written.
#[derive(Debug)]
pub struct BundleWriter {
    folder: Folder,
    series: Arc<Folder>,
    /// Whether the folder was not there before.
    made: bool,
    spikes: File,
    /// How many are listed of each series; in a long run, those that are kept.
    listed: BTreeMap<RowKey, u64>,
    long_run: Option<LongRun>,
}

/// The spikes of a run that goes on for days.
#[derive(Debug)]
struct LongRun {
    kept: KeptSpikes,
    /// The list, to read it.
    list: File,
    /// Its bytes and, since it was last written anew, its lines.
    bytes: u64,
    lines: usize,
}

impl LongRun {
    fn begin(folder: &Folder) -> io::Result<LongRun> {
        let list = folder.file(SPIKES)?;
        Ok(LongRun { kept: KeptSpikes::default(), bytes: list.metadata()?.len(), list, lines: 0 })
    }

    /// Writes the list anew with the spikes that are kept. Returns it, to append to it.
    fn settle(&mut self, folder: &Folder) -> io::Result<File> {
        let new = "spikes.jsonl.new";
        if folder.has(new) {
            folder.remove(new)?;
        }
        let mut file = folder.append(new)?;
        // Megabytes, which are not in memory at once.
        let mut line = Vec::new();
        let mut kept = self.kept.all();
        for spike in &kept {
            line.resize(spike.length, 0);
            self.list.read_exact_at(&mut line, spike.at)?;
            file.write_all(&line)?;
        }
        folder.rename(new, SPIKES)?;
        (self.bytes, self.lines) = (0, kept.len());
        for spike in &mut kept {
            spike.at = self.bytes;
            self.bytes += spike.length as u64;
        }
        self.list = folder.file(SPIKES)?;
        Ok(file)
    }
}

impl BundleWriter {
    /// Makes the folder, which must not hold a bundle yet, and writes the manifest into it. A folder that is
    /// there already must be this user's, and not everybody may write it.
    pub fn create(path: &Path, manifest: &Manifest) -> Result<Self> {
        may_write(path)?;
        let made = !untrusted::is_there(path);
        let failed = |e: io::Error| Error::io("write a bundle to", path, &e);
        let folder = Folder::ours(path).map_err(failed)?;
        let series = Arc::new(folder.ours_within("series").map_err(failed)?);
        let spikes = append_to(&folder, SPIKES)?;
        let long_run = manifest.asked.flight.then(|| LongRun::begin(&folder)).transpose();
        let long_run = long_run.map_err(|e| self::failed(&folder, SPIKES, &e))?;
        let writer = BundleWriter { folder, series, made, spikes, listed: BTreeMap::new(), long_run };
        match writer.manifest(manifest) {
            Ok(()) => Ok(writer),
            Err(error) => {
                writer.abandon();
                Err(error)
            }
        }
    }

    /// Removes what [`BundleWriter::create`] made, where nothing was measured; other files in the folder
    /// stays.
    pub fn abandon(self) {
        // A folder that is not empty stays; nothing that fails here does any harm.
        for name in ["manifest.json", SPIKES] {
            let _ = self.folder.remove(name);
        }
        let _ = self.folder.remove_folder("series");
        if self.made {
            let _ = std::fs::remove_dir(self.folder.path());
        }
    }

    /// Where the bundle is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces the manifest.
    pub fn manifest(&self, manifest: &Manifest) -> Result<()> {
        self.json("manifest.json", manifest)
    }

    /// Replaces a JSON file of the bundle, `verdict.json` for example.
    pub fn json<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Error::on("write", at(&self.folder, name), e, "report this as a defect"))?;
        let written = self.folder.replace_synced(name, format!("{text}\n").as_bytes());
        written.map_err(|e| failed(&self.folder, name, &e))
    }

    /// Replaces another file of the bundle.
    pub fn file(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.folder.replace(name, bytes).map_err(|e| failed(&self.folder, name, &e))
    }

    /// Writes a file of a series as it is.
    pub fn series_file(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.series.replace(name, bytes).map_err(|e| failed(&self.series, name, &e))
    }

    /// Writes a finished series in one go: what importers do.
    pub fn whole_series(&self, key: &RowKey, series: &Series) -> Result<()> {
        for (name, text) in series_files(key, series) {
            self.series_file(name.strip_prefix("series/").unwrap_or(&name), text.as_bytes())?;
        }
        Ok(())
    }

    /// Whether the run may go on for days.
    pub fn is_long_run(&self) -> bool {
        self.long_run.is_some()
    }

    /// Number of further spikes of a series that may be listed at once; in a long run the longest count, else
    /// the first.
    pub fn room_for_spikes(&self, key: &RowKey) -> usize {
        match self.long_run {
            Some(_) => SPIKES_AT_ONCE,
            None => SPIKES_LISTED.saturating_sub(self.listed(key)) as usize,
        }
    }

    /// How many spikes are listed of a series.
    pub fn listed(&self, key: &RowKey) -> u64 {
        match &self.long_run {
            Some(long_run) => long_run.kept.count(key),
            None => self.listed.get(key).copied().unwrap_or(0),
        }
    }

    /// Appends spikes.
    pub fn spikes(&mut self, spikes: &[Spike]) -> Result<()> {
        let mut text = String::new();
        for spike in spikes {
            let begin = text.len();
            spike_line(spike, &mut text);
            match &mut self.long_run {
                Some(long_run) => {
                    long_run.kept.add(spike, long_run.bytes + begin as u64, text.len() - begin);
                }
                None => *self.listed.entry(spike.key.clone()).or_default() += 1,
            }
        }
        self.spikes.write_all(text.as_bytes()).map_err(|e| failed(&self.folder, SPIKES, &e))?;
        let Some(long_run) = &mut self.long_run else { return Ok(()) };
        long_run.lines += spikes.len();
        long_run.bytes += text.len() as u64;
        if long_run.lines > long_run.kept.len() + SPIKES_BEYOND { self.settle_spikes() } else { Ok(()) }
    }

    /// In a long run, leaves in the list the spikes that are kept, and no others: before a row ends.
    pub fn settle_spikes(&mut self) -> Result<()> {
        let Some(long_run) = &mut self.long_run else { return Ok(()) };
        self.spikes = long_run.settle(&self.folder).map_err(|e| failed(&self.folder, SPIKES, &e))?;
        Ok(())
    }

    /// Begins a series; its name is made from `key`.
    pub fn series(&self, key: &RowKey, half_life_s: f64) -> Result<SeriesWriter> {
        let stem = key.stem();
        let mut writer = SeriesWriter {
            journal: append_to(&self.series, &format!("{stem}.journal"))?,
            folder: Arc::clone(&self.series),
            stem,
            series: Series::default(),
            lines: Vec::new(),
            journal_bytes: 0,
            line_s: if self.is_long_run() { LONG_RUN_LINE_S } else { 1 },
        };
        writer.series.persistence.half_life_s = half_life_s;
        writer.replace("seconds.csv", SECONDS_HEAD.as_bytes(), false)?;
        Ok(writer)
    }
}

/// A series that is being written.
#[derive(Debug)]
pub struct SeriesWriter {
    folder: Arc<Folder>,
    stem: String,
    journal: File,
    series: Series,
    /// Seconds that the journal has, and its length.
    lines: Vec<Second>,
    journal_bytes: usize,
    /// Seconds of a line of the finished file.
    line_s: u32,
}

/// The recorder's running totals at one moment: every non-empty bucket with its count since the row began.
pub struct RunningTotals<L, J, C> {
    /// Latency bucket and total.
    pub latency: L,
    /// Jitter bucket (`-1 - index` where the interval was short) and total.
    pub jitter: J,
    /// Persistence cell (`column * LEVELS + level`) and total.
    pub cells: C,
}

impl SeriesWriter {
    /// Writes what came since the last call: completed seconds, and the difference of the totals.
    pub fn advance<L, J, C>(&mut self, seconds: &[Second], totals: RunningTotals<L, J, C>) -> Result<()>
    where
        L: Iterator<Item = (usize, u64)>,
        J: Iterator<Item = (isize, u64)>,
        C: Iterator<Item = (usize, u64)>,
    {
        let Some((last, before)) = seconds.split_last() else { return Ok(()) };
        let mut text = String::new();
        for row in before {
            self.take(JournalLine { row: *row, ..JournalLine::default() }, &mut text);
        }
        let series = &self.series;
        let jitter = |key: isize| match key {
            ..0 => series.early.count_at((-1 - key) as usize),
            _ => series.late.count_at(key as usize),
        };
        let line = JournalLine {
            row: *last,
            latency: grown(totals.latency, |key| series.latency.count_at(key)),
            jitter: grown(totals.jitter, jitter),
            cells: grown(totals.cells, |key| series.persistence.cells.count_at(key / LEVELS, key % LEVELS)),
        };
        self.take(line, &mut text);
        self.journal.write_all(text.as_bytes()).map_err(|e| self.failed("journal", &e))?;
        self.journal_bytes += text.len();
        let is_long = self.lines.len() >= COMPACT_EVERY || self.journal_bytes >= COMPACT_BYTES;
        if is_long { self.compact(false) } else { Ok(()) }
    }

    fn take(&mut self, line: JournalLine, text: &mut String) {
        line.write(text);
        self.lines.push(line.row);
        self.series.apply(&line);
    }

    /// Moves the journal into the series' files. The order makes a kill between any two steps harmless. The
    /// seconds of a line that is not over yet stay in the journal, without their counts.
    fn compact(&mut self, is_last: bool) -> Result<()> {
        let Some(through) = self.lines.last().map(|last| last.second) else { return Ok(()) };
        let is_open = |row: &Second| row.second / self.line_s == through / self.line_s;
        let kept = if is_last || self.line_s == 1 { None } else { self.lines.iter().position(is_open) };
        let open = self.lines.split_off(kept.unwrap_or(self.lines.len()));
        let text: String = joined(&self.lines, self.line_s).iter().map(second_text).collect();
        append_to(&self.folder, &self.name("seconds.csv"))?
            .write_all(text.as_bytes())
            .map_err(|e| self.failed("seconds.csv", &e))?;
        self.replace("histograms.csv", self.series.histograms_text(Some(through)).as_bytes(), false)?;
        let mut journal = String::new();
        open.iter().for_each(|row| JournalLine { row: *row, ..JournalLine::default() }.write(&mut journal));
        match journal.is_empty() {
            true => self.journal.set_len(0).map_err(|e| self.failed("journal", &e))?,
            false => {
                self.replace("journal", journal.as_bytes(), false)?;
                self.journal = append_to(&self.folder, &self.name("journal"))?;
            }
        }
        (self.lines, self.journal_bytes) = (open, journal.len());
        self.series.seconds.clear();
        Ok(())
    }

    /// Removes the series' files: it was never measured.
    pub fn discard(self) -> Result<()> {
        ["journal", "seconds.csv"].into_iter().try_for_each(|suffix| self.remove(suffix))
    }

    /// Ends the series and leaves its final files, on the disk; the last second may be a part of one.
    pub fn finish(mut self) -> Result<()> {
        self.compact(true)?;
        if !self.folder.has(self.name("histograms.csv")) {
            self.replace("histograms.csv", self.series.histograms_text(None).as_bytes(), false)?;
        }
        ["seconds.csv", "histograms.csv"].into_iter().try_for_each(|suffix| self.settle(suffix))?;
        self.folder.sync().map_err(|e| self.failed("journal", &e))?;
        self.remove("journal")
    }

    /// Has a finished file on the disk, as `.zst` where it is long; a kill in between leaves one of them
    /// whole.
    fn settle(&self, suffix: &str) -> Result<()> {
        let (name, mut text) = (self.name(suffix), Vec::new());
        let read = self.folder.file(&name).and_then(|mut file| {
            file.read_to_end(&mut text)?;
            if text.len() > COMPRESS_ABOVE { Ok(()) } else { file.sync_all() }
        });
        read.map_err(|e| self.failed(suffix, &e))?;
        if text.len() <= COMPRESS_ABOVE {
            return Ok(());
        }
        let small = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
        self.replace(&format!("{suffix}.zst"), &small, true)?;
        self.remove(suffix)
    }

    fn replace(&self, suffix: &str, bytes: &[u8], sync: bool) -> Result<()> {
        let name = self.name(suffix);
        let written =
            if sync { self.folder.replace_synced(&name, bytes) } else { self.folder.replace(&name, bytes) };
        written.map_err(|e| self.failed(suffix, &e))
    }

    fn remove(&self, suffix: &str) -> Result<()> {
        let name = self.name(suffix);
        self.folder.remove(&name).map_err(|e| Error::io("remove", &self.folder.path().join(name), &e))
    }

    fn name(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.stem)
    }

    fn failed(&self, suffix: &str, error: &io::Error) -> Error {
        failed(&self.folder, &self.name(suffix), error)
    }
}

/// The files of a finished series, by their names within the bundle.
pub fn series_files(key: &RowKey, series: &Series) -> [(String, String); 2] {
    let stem = format!("series/{}", key.stem());
    let through = series.seconds.last().map(|row| row.second);
    let seconds: String =
        std::iter::once(SECONDS_HEAD.to_string()).chain(series.seconds.iter().map(second_text)).collect();
    [
        (format!("{stem}.seconds.csv"), seconds),
        (format!("{stem}.histograms.csv"), series.histograms_text(through)),
    ]
}

/// Seconds as one for each `line_s` of them, under the number of the last.
fn joined(seconds: &[Second], line_s: u32) -> Vec<Second> {
    let same = |a: &Second, b: &Second| a.second / line_s == b.second / line_s;
    let join = |part: &[Second]| part.iter().copied().reduce(|all, second| second.joined(&all));
    seconds.chunk_by(same).filter_map(join).collect()
}

/// A line of the list of spikes.
fn spike_line(spike: &Spike, out: &mut String) {
    out.push_str(&serde_json::to_string(spike).unwrap_or_default());
    out.push('\n');
}

fn grown<K: Copy>(totals: impl Iterator<Item = (K, u64)>, before: impl Fn(K) -> u64) -> Vec<(K, u64)> {
    totals
        .map(|(key, total)| (key, total.saturating_sub(before(key))))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn at(folder: &Folder, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn failed(folder: &Folder, name: &str, error: &io::Error) -> Error {
    Error::io("write", &folder.path().join(name), error)
}

fn append_to(folder: &Folder, name: &str) -> Result<File> {
    folder.append(name).map_err(|e| failed(folder, name, &e))
}

/// Replaces the file at `path` by `bytes`, whole or not at all, as [`untrusted::replace`] says.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    untrusted::replace(path, bytes).map_err(|error| Error::io("write", path, &error))
}

/// The same, and the file is on the disk when this returns.
pub fn replace_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    untrusted::replace_synced(path, bytes).map_err(|error| Error::io("write", path, &error))
}
