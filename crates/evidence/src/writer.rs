// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing a bundle while a run goes on, so that a kill or a full disk at any moment loses at most the last
//! second.
//!
//! Small files are replaced whole (written beside, then renamed). A series grows by one journal line a second;
//! every [`COMPACT_EVERY`] lines they move into the series' two files (see [`crate::series`]).

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::manifest::{Manifest, RowKey, Second, Spike};
use crate::series::{JournalLine, LEVELS, SECONDS_HEAD, SWEEP_COLUMNS, Series, second_text};

/// Journal lines kept before they move into the series' files.
const COMPACT_EVERY: usize = 300;

/// A finished file longer than this is compressed: that of some hours, or of a very wide distribution.
const COMPRESS_ABOVE: usize = 256 * 1024;

/// Spikes listed for one series; the rest are only counted.
pub const SPIKES_LISTED: u64 = 10_000;

/// Refuses a folder that holds a bundle already.
pub fn may_write(folder: &Path) -> Result<()> {
    if folder.join("manifest.json").exists() {
        let cure = "choose another folder with -o";
        return Err(Error::new("write a bundle to", folder.display(), "it holds one already", cure));
    }
    Ok(())
}

/// A bundle that is being written.
#[derive(Debug)]
pub struct BundleWriter {
    folder: PathBuf,
    /// Whether the folder was not there before.
    made: bool,
    spikes: File,
}

impl BundleWriter {
    /// Makes the folder, which must not hold a bundle yet, and writes the manifest into it.
    pub fn create(folder: &Path, manifest: &Manifest) -> Result<Self> {
        may_write(folder)?;
        let made = !folder.exists();
        let series = folder.join("series");
        fs::create_dir_all(&series).map_err(|e| Error::io("make the folder", folder, &e))?;
        let path = folder.join("spikes.jsonl");
        let spikes = append_to(&path)?;
        let writer = BundleWriter { folder: folder.to_path_buf(), made, spikes };
        match writer.manifest(manifest) {
            Ok(()) => Ok(writer),
            Err(error) => {
                writer.abandon();
                Err(error)
            }
        }
    }

    /// Removes what [`BundleWriter::create`] made, where nothing was measured; what else is in the folder stays.
    pub fn abandon(self) {
        // A folder that is not empty stays; nothing that fails here does any harm.
        for name in ["manifest.json", "spikes.jsonl"] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        let _ = fs::remove_dir(self.folder.join("series"));
        if self.made {
            let _ = fs::remove_dir(&self.folder);
        }
    }

    /// Where the bundle is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the manifest.
    pub fn manifest(&self, manifest: &Manifest) -> Result<()> {
        self.json("manifest.json", manifest)
    }

    /// Replaces a JSON file of the bundle, `verdict.json` for example.
    pub fn json<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let path = self.folder.join(name);
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Error::new("write", path.display(), e, "report this as a defect"))?;
        replace(&path, format!("{text}\n").as_bytes())
    }

    /// Appends spikes.
    pub fn spikes(&mut self, spikes: &[Spike]) -> Result<()> {
        let mut text = String::new();
        for spike in spikes {
            let line = serde_json::to_string(spike).unwrap_or_default();
            text.push_str(&line);
            text.push('\n');
        }
        self.spikes
            .write_all(text.as_bytes())
            .map_err(|e| Error::io("write", &self.folder.join("spikes.jsonl"), &e))
    }

    /// Begins a series; its name is made from `key`.
    pub fn series(&self, key: &RowKey, half_life_s: f64) -> Result<SeriesWriter> {
        let stem = self.folder.join("series").join(stem(key));
        let mut writer = SeriesWriter {
            journal: append_to(&with(&stem, "journal"))?,
            stem,
            series: Series::default(),
            cells: vec![0; SWEEP_COLUMNS * LEVELS],
            lines: Vec::new(),
        };
        writer.series.persistence.half_life_s = half_life_s;
        replace(&with(&writer.stem, "seconds.csv"), SECONDS_HEAD.as_bytes())?;
        Ok(writer)
    }
}

/// The stem of a series' files: `wakeup-idle-cpu1-1000us`.
pub fn stem(key: &RowKey) -> String {
    let load = key.load.split('=').next().unwrap_or_default();
    let load: String = load.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let period = key.period_ns.map(|ns| format!("-{}us", ns as f64 / 1e3)).unwrap_or_default();
    format!("{}-{load}-cpu{}{period}", key.probe, key.cpu)
}

/// A series that is being written.
#[derive(Debug)]
pub struct SeriesWriter {
    stem: PathBuf,
    journal: File,
    series: Series,
    /// Totals of the persistence cells that were written, by place: looked up too often for a map.
    cells: Vec<u64>,
    lines: Vec<Second>,
}

/// The recorder's running totals at one moment: every non-empty bucket with its count since the row began.
pub struct Totals<L, J, C> {
    /// Latency bucket and total.
    pub latency: L,
    /// Jitter bucket (`-1 - index` where the interval was short) and total.
    pub jitter: J,
    /// Persistence cell (`column * LEVELS + level`) and total.
    pub cells: C,
}

impl SeriesWriter {
    /// Writes what came since the last call: completed seconds, and the difference of the totals.
    pub fn advance<L, J, C>(&mut self, seconds: &[Second], totals: Totals<L, J, C>) -> Result<()>
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
            cells: grown(totals.cells, |key| self.cells[key]),
        };
        line.cells.iter().for_each(|(key, count)| self.cells[*key] += count);
        self.take(line, &mut text);
        self.journal
            .write_all(text.as_bytes())
            .map_err(|e| Error::io("write", &with(&self.stem, "journal"), &e))?;
        if self.lines.len() >= COMPACT_EVERY { self.compact() } else { Ok(()) }
    }

    fn take(&mut self, line: JournalLine, text: &mut String) {
        line.write(text);
        self.lines.push(line.row);
        self.series.apply(&line);
    }

    /// Moves the journal into the series' files. The order makes a kill between any two steps harmless.
    fn compact(&mut self) -> Result<()> {
        let Some(last) = self.lines.last() else { return Ok(()) };
        let through = last.second;
        let text: String = self.lines.iter().map(second_text).collect();
        let path = with(&self.stem, "seconds.csv");
        append_to(&path)?.write_all(text.as_bytes()).map_err(|e| Error::io("write", &path, &e))?;
        replace(&with(&self.stem, "histograms.csv"), self.series.histograms_text(Some(through)).as_bytes())?;
        let path = with(&self.stem, "journal");
        self.journal.set_len(0).map_err(|e| Error::io("write", &path, &e))?;
        self.lines.clear();
        self.series.seconds.clear();
        Ok(())
    }

    /// Removes the series' files: it was never measured.
    pub fn discard(self) -> Result<()> {
        for suffix in ["journal", "seconds.csv"] {
            let path = with(&self.stem, suffix);
            fs::remove_file(&path).map_err(|e| Error::io("remove", &path, &e))?;
        }
        Ok(())
    }

    /// Ends the series and leaves its final files; the last second may be a part of one.
    pub fn finish(mut self) -> Result<()> {
        self.compact()?;
        let path = with(&self.stem, "histograms.csv");
        if !path.exists() {
            replace(&path, self.series.histograms_text(None).as_bytes())?;
        }
        for suffix in ["seconds.csv", "histograms.csv"] {
            compress_if_long(&with(&self.stem, suffix))?;
        }
        let path = with(&self.stem, "journal");
        fs::remove_file(&path).map_err(|e| Error::io("remove", &path, &e))
    }
}

/// Puts `path` as `path.zst` where it is long; a kill in between leaves one of them whole.
fn compress_if_long(path: &Path) -> Result<()> {
    let text = fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    if text.len() <= COMPRESS_ABOVE {
        return Ok(());
    }
    let small =
        ruzstd::encoding::compress_to_vec(text.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
    replace(&with(path, "zst"), &small)?;
    fs::remove_file(path).map_err(|e| Error::io("remove", path, &e))
}

/// Writes a finished series in one go: what importers do.
pub fn write_series(folder: &Path, key: &RowKey, series: &Series) -> Result<()> {
    series_files(key, series)
        .into_iter()
        .try_for_each(|(name, text)| replace(&folder.join(name), text.as_bytes()))
}

/// The files of a finished series, by their names within the bundle.
pub fn series_files(key: &RowKey, series: &Series) -> [(String, String); 2] {
    let stem = format!("series/{}", stem(key));
    let through = series.seconds.last().map(|row| row.second);
    let seconds: String =
        std::iter::once(SECONDS_HEAD.to_string()).chain(series.seconds.iter().map(second_text)).collect();
    [
        (format!("{stem}.seconds.csv"), seconds),
        (format!("{stem}.histograms.csv"), series.histograms_text(through)),
    ]
}

fn grown<K: Copy>(totals: impl Iterator<Item = (K, u64)>, before: impl Fn(K) -> u64) -> Vec<(K, u64)> {
    totals
        .map(|(key, total)| (key, total.saturating_sub(before(key))))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn with(stem: &Path, suffix: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn append_to(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).open(path).map_err(|e| Error::io("write", path, &e))
}

/// Replaces `path` by `bytes`, whole or not at all. What is no plain file (a device, a pipe, a link) is written to
/// as it is, and stays what it is.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return fs::write(path, bytes).map_err(|error| Error::io("write", path, &error));
    }
    let beside = with(path, "new");
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // What is left of the attempt is of no use; that it cannot be removed changes nothing.
        let _ = fs::remove_file(&beside);
        Error::io("write", path, &error)
    })
}
