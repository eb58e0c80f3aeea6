// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle that is being written, copied as it is now: a reader takes the copy as that of a run that was
//! killed at this moment, which loses at most the last second.
//!
//! The writer goes on meanwhile. A series' files are copied in the order journal, histograms, seconds, so
//! that whatever compaction ([`crate::writer`]) does in between, each line of the journal is in the copy or
//! counted in the copied files. Only a row that ends meanwhile takes its journal away: then the copy is made
//! again.

use std::io;
use std::path::Path;
use std::time::Duration;

use untrusted::Folder;

use crate::Bundle;
use crate::manifest::RunState;
use crate::writer::BundleWriter;
use crate::{Error, Result};

/// The longest file of a series that is copied: a day has four megabytes.
const LONGEST: u64 = 256 << 20;

/// How often a copy is begun while a row ends, and how long that may take.
const TRIES: usize = 10;
const AGAIN: Duration = Duration::from_millis(300);

/// Copies the bundle in `from`, which another process writes, into the new folder `to`; `note` goes into its
/// manifest. The folder appears once it is whole.
pub fn snapshot(from: &Path, to: &Path, note: &str) -> Result<()> {
    let cannot = |why: &str| {
        let cure = "give another folder, or wait until the row has ended";
        Error::on("take a snapshot of", from.display(), why, cure)
    };
    if untrusted::is_there(to) {
        return Err(cannot("there is one of that name already"));
    }
    let made = to.with_extension(format!("part-{:016x}", untrusted::random()));
    let mut copied = Ok(false);
    for _ in 0..TRIES {
        copied = copy(from, &made, note);
        if copied.is_err() || matches!(copied, Ok(true)) {
            break;
        }
        // Only what was just made lies there.
        let _ = std::fs::remove_dir_all(&made);
        std::thread::sleep(AGAIN);
    }
    let renamed = match copied {
        Ok(true) => std::fs::rename(&made, to).map_err(|error| Error::io("write", to, &error)),
        Ok(false) => Err(cannot("its rows end faster than they can be copied")),
        Err(error) => Err(error),
    };
    if renamed.is_err() {
        let _ = std::fs::remove_dir_all(&made);
    }
    renamed
}

/// Whether the copy is whole: no row ended meanwhile, which takes its journal away.
fn copy(from: &Path, to: &Path, note: &str) -> Result<bool> {
    // Read first: rows that begin from here on are not in the copy, nor are their spikes.
    let before = Bundle::open(from)?;
    let mut manifest = before.manifest;
    manifest.notes.push(note.to_string());
    for entry in manifest.rows.iter_mut().filter(|entry| entry.state == RunState::Running) {
        // The manifest of a row that goes on counts none yet.
        entry.spikes = before.spikes.iter().filter(|spike| spike.key == entry.key).count() as u64;
    }
    let failed = |error: io::Error| Error::io("read", from, &error);
    let source = Folder::open(from).and_then(|folder| folder.folder("series")).map_err(failed)?;
    let mut writer = BundleWriter::create(to, &manifest)?;
    for entry in &manifest.rows {
        for suffix in ["journal", "histograms.csv", "histograms.csv.zst", "seconds.csv", "seconds.csv.zst"] {
            let name = format!("{}.{suffix}", entry.files);
            match source.read(&name, LONGEST) {
                Ok(bytes) => writer.series_file(&name, &bytes)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read", &source.path().join(name), &error)),
            }
        }
    }
    writer.spikes(&before.spikes)?;
    let running = manifest.rows.iter().filter(|entry| entry.state == RunState::Running);
    Ok(running.map(|entry| format!("{}.journal", entry.files)).all(|journal| source.has(journal)))
}
