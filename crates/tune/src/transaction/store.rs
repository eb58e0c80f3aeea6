// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where records lie: one file each in `/var/lib/isolator/tune`, readable by root alone.
//!
//! The space for a record is taken before anything changes, twice: [`keep`] writes it with room to grow, and
//! a spare file as long. [`write()`] writes over the spare and exchanges the two, so that a full disk stops
//! no later write and a power cut leaves one whole record.

use std::io;

use super::files;
use crate::allowed;
use crate::places::RECORDS;
use crate::record::kept::Kept;
use crate::record::{Record, RecordState, SCHEMA_VERSION, Step, Undone};
use crate::system::{self, System, failed};
use crate::{Error, Result};

/// Which boot this is; empty where the kernel does not say.
pub fn boot_id(system: &dyn System) -> String {
    system::word(system, "/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn path(id: &str) -> String {
    format!("{RECORDS}/{id}.json")
}

fn spare(id: &str) -> String {
    format!("{RECORDS}/{id}.spare")
}

/// The record's text, with space at its end up to `room` bytes.
fn text(record: &Record, room: usize) -> Result<Kept> {
    let mut text = serde_json::to_string_pretty(record)
        .map_err(|error| Error::new(format!("write {}", path(&record.id)), error, "report this"))?;
    text.extend(std::iter::repeat_n(' ', room.saturating_sub(text.len() + 1)));
    Ok(Kept { mode: 0o600, ..Kept::new(&(text + "\n"), None) })
}

/// The room that a record may grow to: each step says how it went, and a generator's output is not known yet.
fn room(record: &Record) -> Result<usize> {
    const OUTCOME: usize = 512;
    const BLOCK: usize = 4096;
    let generated = record.steps.iter().map(|done| match &done.step {
        Step::Generated { old, .. } => 2 * old.as_ref().map_or(0, |old| old.text.len()) + (64 << 10),
        _ => 0,
    });
    let length = text(record, 0)?.text.len() + record.steps.len() * OUTCOME + generated.sum::<usize>();
    Ok((length + BLOCK).next_multiple_of(BLOCK))
}

/// Writes a new record, so that it is on the medium when this returns, and keeps the space for every later
/// [`write()`].
pub fn keep(system: &mut dyn System, record: &Record) -> Result<()> {
    allowed::record(record)?;
    let kept = text(record, room(record)?)?;
    let written = files::make_folders(system, RECORDS)
        .and_then(|()| files::replace(system, &spare(&record.id), Some(&kept)))
        .and_then(|()| files::replace(system, &path(&record.id), Some(&kept)));
    let Err(error) = written else { return Ok(()) };
    forget(system, &record.id);
    let what =
        format!("keep the space for the record of this change ({} KiB in {RECORDS})", kept.text.len() >> 9);
    Err(Error::new(what, error.why, format!("{}; nothing was changed", error.cure)))
}

/// Writes a record that was kept again.
pub fn write(system: &mut dyn System, record: &Record) -> Result<()> {
    let (path, spare) = (path(&record.id), spare(&record.id));
    let room = system.stat(&spare).ok().and_then(|_| system.read(&spare).ok()).map_or(0, |bytes| bytes.len());
    let kept = text(record, room)?;
    if room > 0 {
        let written = system.overwrite(&spare, kept.text.as_bytes()).and_then(|()| system.sync(&spare));
        if written.is_ok() && system.exchange(&spare, &path).is_ok() {
            return system.sync_folder(RECORDS).map_err(|error| failed("write", &path, &error));
        }
    }
    files::replace(system, &path, Some(&kept))
}

/// Gives back the space that was kept for a record that is not written again.
pub fn finish(system: &mut dyn System, id: &str) {
    if system.stat(&spare(id)).is_ok() {
        let _ = system.remove(&spare(id));
    }
}

/// Takes away a record of a change that was not begun.
pub fn forget(system: &mut dyn System, id: &str) {
    for path in [path(id), spare(id)] {
        files::tidy(system, &path);
        if system.stat(&path).is_ok() {
            let _ = system.remove(&path);
        }
    }
}

/// The record of a name.
pub fn read(system: &dyn System, id: &str) -> Result<Record> {
    let path = path(id);
    trusted(system, RECORDS)?;
    let text = system::text(system, &path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(
            format!("find {id}"),
            format!("{RECORDS} has no such record"),
            "`isolator tune status` lists what there is",
        ),
        _ => failed("read", &path, &error),
    })?;
    trusted(system, &path)?;
    let cure = "restore it from a copy, or undo by hand what it names and move it away";
    // The spare holds the state before, from which all can be undone as well.
    let before = || serde_json::from_str(&spare_text(system, id)?).ok();
    let record: Record = serde_json::from_str(&text)
        .or_else(|error| before().ok_or(error))
        .map_err(|error| Error::new(format!("read {path}"), error, cure))?;
    if record.schema_version != SCHEMA_VERSION {
        let why = format!("it has version {}, this program knows {SCHEMA_VERSION}", record.schema_version);
        return Err(Error::new(format!("read {path}"), why, "use the program that wrote it"));
    }
    if record.id != id {
        let why = format!("it is of the record '{}'", record.id);
        return Err(Error::new(format!("read {path}"), why, cure));
    }
    allowed::record(&record)?;
    Ok(record)
}

fn spare_text(system: &dyn System, id: &str) -> Option<String> {
    let path = spare(id);
    trusted(system, &path).ok()?;
    system::text(system, &path).ok()
}

/// Only the owner of the machine may write what tells us what to undo.
fn trusted(system: &dyn System, path: &str) -> Result<()> {
    for path in [RECORDS.rsplit_once('/').map_or("/", |(above, _)| above), path] {
        let Ok(stat) = system.stat(path) else { continue };
        let own = stat.uid == 0 || stat.uid == rustix::process::geteuid().as_raw();
        if !own || stat.mode & 0o022 != 0 {
            return Err(Error::new(
                format!("use {path}"),
                "another user than root can write it, so what it says may not be ours",
                "look at what is in it; then give it to root: chown root, chmod go-w",
            ));
        }
    }
    Ok(())
}

/// Every record, the oldest first; an error where one of them cannot be read.
pub fn all(system: &dyn System) -> Result<Vec<Record>> {
    let (records, mut unread) = readable(system)?;
    if unread.is_empty() { Ok(records) } else { Err(unread.remove(0)) }
}

/// Every record that can be read, the oldest first, and why the others cannot.
pub fn readable(system: &dyn System) -> Result<(Vec<Record>, Vec<Error>)> {
    let names = match system.names(RECORDS) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(error) => return Err(failed("read", RECORDS, &error)),
    };
    let ids = names.iter().filter_map(|name| name.strip_suffix(".json"));
    let (mut records, mut unread) = (Vec::new(), Vec::new());
    for id in ids.filter(|id| id.starts_with(|first: char| first.is_ascii_digit())) {
        match read(system, id) {
            Ok(record) => records.push(record),
            Err(error) => unread.push(error),
        }
    }
    Ok((records, unread))
}

/// Undoes what a process that died, or a machine that lost power, left half done.
pub fn recover(system: &mut dyn System) -> Result<Vec<(Record, Vec<Undone>)>> {
    let mut recovered = Vec::new();
    let records = all(system)?;
    // Space that was kept for a record which was never written, or is never written again.
    for name in system.names(RECORDS).unwrap_or_default() {
        let id = name.strip_suffix(".spare");
        if id.is_some_and(|id| !records.iter().any(|record| record.id == id && record.live())) {
            let _ = system.remove(&format!("{RECORDS}/{name}"));
        }
    }
    for mut record in records.into_iter().rev() {
        files::tidy(system, &path(&record.id));
        if matches!(record.state, RecordState::Applying | RecordState::RollingBack) {
            let undone = super::roll_back(system, &mut record);
            recovered.push((record, undone));
        }
    }
    Ok(recovered)
}
