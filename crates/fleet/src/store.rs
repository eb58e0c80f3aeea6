// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bundles into a store: found, read on every CPU, written as one part.
//!
//! A part is a folder that is renamed when it is whole. A bundle that is in the store, by the digest of its
//! manifest, is not added again, be it a folder or an archive; one that other options would judge otherwise
//! is refused, since a store states one verdict of it. An unreadable bundle is kept as a row of
//! `unread`, since a report must say it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use evidence::{Error, Judge, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
use parquet::schema::parser::parse_message_type;
use untrusted::Folder;

mod entry;
mod settings;
mod table;

use crate::parts::{PART, Stored, number, parts};
use entry::BundleEntry;
use table::{CellValue, ColumnKind, ParquetTable};

/// How deep bundles are looked for below a folder that is none.
const DEPTH: usize = 8;

/// Adds the bundles at `paths` (folders, archives, or folders that hold such) to the store in `folder`, each
/// with the verdict by the judge's options.
pub fn store(folder: &Path, paths: &[PathBuf], judge: &Judge) -> Result<Stored> {
    let (mut found, mut visited) = (Vec::new(), BTreeSet::new());
    for path in paths {
        let before = found.len();
        find(path, folder, 0, &mut visited, &mut found)?;
        if found.len() == before {
            let why = "it holds no bundle";
            return Err(Error::on("store", path.display(), why, "give bundles, or folders that hold some"));
        }
    }
    let store = Folder::ours(folder).map_err(|e| Error::io("write a store to", folder, &e))?;
    let parts = parts(folder)?;
    let (mut known, mut told) = (BTreeMap::new(), BTreeSet::new());
    for part in &parts {
        let texts = |name: &str| column(part, "bundles", name);
        let said = texts("outcome")?.into_iter().zip(texts("reason")?).zip(texts("accepted")?);
        let said = said.map(|((outcome, reason), accepted)| StoredVerdict { outcome, reason, accepted });
        known.extend(texts("digest")?.into_iter().zip(said));
        told.extend(column(part, "unread", "path")?);
    }
    let last = parts.last().and_then(|part| number(part)).unwrap_or(0);
    let (part, hidden) = (format!("{PART}{:04}", last + 1), format!(".{PART}{:04}", last + 1));
    let beside = folder.join(&hidden);
    // Left there by a kill.
    let _ = fs::remove_dir_all(&beside);
    let half = store.ours_within(&hidden).map_err(|e| Error::io("make the folder", &beside, &e))?;
    let stored = write(&half, &found, known, judge).inspect_err(|_| drop(fs::remove_dir_all(&beside)))?;
    if stored.added == 0 && stored.unread.iter().all(|(path, _)| told.contains(&path.display().to_string())) {
        fs::remove_dir_all(&beside).map_err(|e| Error::io("remove", &beside, &e))?;
        return Ok(stored);
    }
    let kept = half.sync().and_then(|()| store.rename(&hidden, &part)).and_then(|()| store.sync());
    kept.map_err(|e| Error::io("write", &folder.join(part), &e))?;
    Ok(stored)
}

/// The verdict that a store states of a bundle.
#[derive(Debug, PartialEq, Eq)]
struct StoredVerdict {
    outcome: String,
    reason: String,
    accepted: String,
}

impl StoredVerdict {
    fn of(entry: &BundleEntry) -> StoredVerdict {
        let accepted = entry.accepted.clone().unwrap_or_default();
        StoredVerdict { outcome: entry.outcome.to_string(), reason: entry.reason.clone(), accepted }
    }
}

/// A column of text of a part's table; what is absent is empty.
fn column(part: &Path, table: &str, name: &str) -> Result<Vec<String>> {
    let path = part.join(format!("{table}.parquet"));
    let file = untrusted::open(&path).map_err(|e| Error::io("read", &path, &e))?;
    let broken = |e: parquet::errors::ParquetError| {
        let cure = "the store is damaged: remove this part and store its bundles again";
        Error::on("read", path.display(), e, cure)
    };
    let reader = SerializedFileReader::new(file).map_err(broken)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let is_optional = fields.iter().any(|field| field.name() == name && field.is_optional());
    let may_be = if is_optional { "OPTIONAL" } else { "REQUIRED" };
    let schema = format!("message {table} {{ {may_be} BYTE_ARRAY {name} (STRING); }}");
    let only = parse_message_type(&schema).map_err(broken)?;
    let rows = reader.get_row_iter(Some(only)).map_err(broken)?;
    let text = |row: Row| Ok(if row.is_null(0)? { String::new() } else { row.get_string(0)?.clone() });
    rows.map(|row| row.and_then(text).map_err(broken)).collect()
}

/// Bundles at or below `path`, in the order of their names. A link to a folder is followed only where the
/// user named it, and each folder is looked into once: links and mounts may go in circles.
fn find(
    path: &Path,
    store: &Path,
    depth: usize,
    visited: &mut BTreeSet<(u64, u64)>,
    found: &mut Vec<PathBuf>,
) -> Result<()> {
    let meta = fs::metadata(path).map_err(|e| Error::io("open", path, &e))?;
    let named = depth == 0;
    if meta.is_file() {
        if named || path.to_string_lossy().ends_with(".tar.zst") {
            found.push(path.to_path_buf());
        }
        return Ok(());
    }
    if !meta.is_dir() || (!named && path.is_symlink()) || path == store {
        return Ok(());
    }
    // A bundle that is named twice is known already the second time.
    if untrusted::is_there(path.join("manifest.json")) {
        found.push(path.to_path_buf());
        return Ok(());
    }
    if depth == DEPTH || !(visited.insert((meta.dev(), meta.ino())) || named) {
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|e| Error::io("open", path, &e))?;
    let mut below = entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    below.sort();
    // A link that leads nowhere is no bundle.
    let there = below.iter().filter(|path| untrusted::is_there(path));
    for path in there {
        find(path, store, depth + 1, visited, found)?;
    }
    Ok(())
}

fn write(
    folder: &Folder,
    found: &[PathBuf],
    mut known: BTreeMap<String, StoredVerdict>,
    judge: &Judge,
) -> Result<Stored> {
    let now = SystemTime::now();
    let mut tables = Tables::create(folder, now)?;
    let mut stored = Stored::default();
    let next = Mutex::new(found.iter());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        // Few at once: what waits here is all the memory that grows with the machines' size.
        let (send, receive) =
            sync_channel::<(PathBuf, std::result::Result<BundleEntry, String>)>(2 * workers);
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let Ok(Some(path)) = next.lock().map(|mut next| next.next()) else { return };
                    if send.send((path.clone(), entry::read(path, now, judge))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (path, read) in receive {
            match read {
                Ok(entry)
                    if known.get(&entry.digest).is_some_and(|said| *said == StoredVerdict::of(&entry)) =>
                {
                    stored.known += 1;
                }
                Ok(entry) if known.contains_key(&entry.digest) => {
                    let why = "the store has another verdict on it, by the options of before";
                    let cure = "judge by the same options, or store it into another folder";
                    return Err(Error::on("store", path.display(), why, cure));
                }
                Ok(entry) => {
                    known.insert(entry.digest.clone(), StoredVerdict::of(&entry));
                    stored.added += 1;
                    tables.add(&entry)?;
                }
                Err(why) => {
                    tables
                        .unread
                        .row([CellValue::from(&path.display().to_string()), CellValue::from(&why)])?;
                    stored.unread.push((path, why));
                }
            }
        }
        Ok(())
    })?;
    stored.unread.sort();
    tables.close()?;
    Ok(stored)
}

struct Tables {
    stored_unix_s: i64,
    bundles: ParquetTable,
    rows: ParquetTable,
    buckets: ParquetTable,
    settings: ParquetTable,
    causes: ParquetTable,
    unread: ParquetTable,
}

impl Tables {
    fn create(folder: &Folder, now: SystemTime) -> Result<Tables> {
        use ColumnKind::{MaybeNumber, MaybeText, Number, Text};
        let table = |name: &str, columns: &[(&str, ColumnKind)]| ParquetTable::create(folder, name, columns);
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Ok(Tables {
            stored_unix_s: i64::try_from(seconds).unwrap_or(i64::MAX),
            bundles: table(
                "bundles",
                &[
                    ("bundle", Number),
                    ("digest", Text),
                    ("path", Text),
                    ("machine", Number),
                    ("hostname", Text),
                    ("hardware", Text),
                    ("kernel", Text),
                    ("kernel_class", Text),
                    ("program", Text),
                    ("started_at", MaybeText),
                    ("started_unix_s", MaybeNumber),
                    ("ended_unix_s", MaybeNumber),
                    ("stored_unix_s", Number),
                    ("clock", MaybeText),
                    ("outcome", Text),
                    ("reason", Text),
                    ("taints", Number),
                    ("set_apart", Number),
                    ("accepted", MaybeText),
                    ("grade", MaybeText),
                ],
            )?,
            rows: table(
                "rows",
                &[
                    ("bundle", Number),
                    ("row", Number),
                    ("cell", Number),
                    ("probe", Text),
                    ("load", Text),
                    ("cpu", Number),
                    ("period_ns", MaybeNumber),
                    ("limit_ns", MaybeNumber),
                    ("cyclic", Number),
                    ("samples", Number),
                    ("late", Number),
                    ("missed", Number),
                    ("sum_ns", MaybeNumber),
                    ("min_ns", MaybeNumber),
                    ("max_ns", MaybeNumber),
                    ("spikes", Number),
                ],
            )?,
            buckets: table(
                "buckets",
                &[
                    ("bundle", Number),
                    ("cell", Number),
                    ("from_ns", Number),
                    ("to_ns", MaybeNumber),
                    ("count", Number),
                ],
            )?,
            settings: table("settings", &[("bundle", Number), ("name", Text), ("value", Text)])?,
            causes: table(
                "causes",
                &[
                    ("bundle", Number),
                    ("row", Number),
                    ("kind", Text),
                    ("name", Text),
                    ("count", Number),
                    ("sum_ns", Number),
                    ("max_ns", Number),
                ],
            )?,
            unread: table("unread", &[("path", Text), ("why", Text)])?,
        })
    }

    fn add(&mut self, entry: &BundleEntry) -> Result<()> {
        let id = CellValue::from(entry.bundle);
        self.bundles.row([
            id.clone(),
            CellValue::from(&entry.digest),
            CellValue::from(&entry.path),
            CellValue::from(entry.machine),
            CellValue::from(&entry.hostname),
            CellValue::from(&entry.hardware),
            CellValue::from(&entry.kernel),
            CellValue::from(&entry.kernel_class),
            CellValue::from(&entry.program),
            CellValue::from(entry.started_at.as_deref()),
            CellValue::from(entry.started_unix_s),
            CellValue::from(entry.ended_unix_s),
            CellValue::from(self.stored_unix_s),
            CellValue::from(entry.clock.as_deref()),
            CellValue::from(entry.outcome),
            CellValue::from(&entry.reason),
            CellValue::from(entry.taints),
            CellValue::from(u64::from(entry.set_apart)),
            CellValue::from(entry.accepted.as_deref()),
            CellValue::from(entry.grade.as_deref()),
        ])?;
        for (place, row) in entry.rows.iter().enumerate() {
            self.rows.row([
                id.clone(),
                CellValue::from(place as u64),
                CellValue::from(row.cell),
                CellValue::from(&row.probe),
                CellValue::from(&row.load),
                CellValue::from(row.cpu),
                CellValue::from(row.period_ns),
                CellValue::from(row.limit_ns),
                CellValue::from(u64::from(row.cyclic)),
                CellValue::from(row.samples),
                CellValue::from(row.late),
                CellValue::from(row.missed),
                CellValue::from(row.sum_ns),
                CellValue::from(row.min_ns),
                CellValue::from(row.max_ns),
                CellValue::from(row.spikes),
            ])?;
        }
        for (cell, from_ns, to_ns, count) in &entry.buckets {
            self.buckets.row([
                id.clone(),
                (*cell).into(),
                (*from_ns).into(),
                (*to_ns).into(),
                (*count).into(),
            ])?;
        }
        for (name, value) in &entry.settings {
            self.settings.row([id.clone(), CellValue::from(name), CellValue::from(value)])?;
        }
        for ((row, kind, name), (count, sum_ns, max_ns)) in &entry.causes {
            self.causes.row([
                id.clone(),
                CellValue::from(*row),
                CellValue::from(*kind),
                CellValue::from(name),
                CellValue::from(*count),
                CellValue::from(*sum_ns),
                CellValue::from(*max_ns),
            ])?;
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        let all = [self.rows, self.buckets, self.settings, self.causes, self.unread, self.bundles];
        all.into_iter().try_for_each(ParquetTable::close)
    }
}
