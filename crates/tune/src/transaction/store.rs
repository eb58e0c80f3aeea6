// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where records lie: one file each in `/var/lib/isolator/tune`, readable by root alone.

use std::io;

use super::files::{self, Kept};
use super::{Record, SCHEMA_VERSION, State, Undone};
use crate::error::{Error, Result};
use crate::system::{self, System};

/// The folder of records.
pub const FOLDER: &str = "/var/lib/isolator/tune";

/// Which boot this is; empty where the kernel does not say.
pub fn boot_id(system: &dyn System) -> String {
    system::word(system, "/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn path(id: &str) -> String {
    format!("{FOLDER}/{id}.json")
}

/// Writes a record, so that it is on the medium when this returns.
pub fn write(system: &mut dyn System, record: &Record) -> Result<()> {
    files::make_folders(system, FOLDER)?;
    let text = serde_json::to_string_pretty(record)
        .map_err(|error| Error::new(format!("write {}", path(&record.id)), error, "report this"))?;
    let kept = Kept { mode: 0o600, ..Kept::new(&(text + "\n"), None) };
    files::replace(system, &path(&record.id), Some(&kept))
}

/// The record of a name.
pub fn read(system: &dyn System, id: &str) -> Result<Record> {
    let path = path(id);
    let text = system::text(system, &path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(
            format!("find {id}"),
            format!("{FOLDER} has no such record"),
            "`isolator tune status` lists what there is",
        ),
        _ => Error::io("read", &path, &error),
    })?;
    let record: Record = serde_json::from_str(&text).map_err(|error| {
        Error::new(format!("read {path}"), error, "restore it from a copy, or undo by hand what it names")
    })?;
    if record.schema_version != SCHEMA_VERSION {
        let why = format!("it has version {}, this program knows {SCHEMA_VERSION}", record.schema_version);
        return Err(Error::new(format!("read {path}"), why, "use the program that wrote it"));
    }
    Ok(record)
}

/// Every record, the oldest first.
pub fn all(system: &dyn System) -> Result<Vec<Record>> {
    let names = match system.names(FOLDER) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", FOLDER, &error)),
    };
    let ids = names.iter().filter_map(|name| name.strip_suffix(".json"));
    let records = ids.filter(|id| id.starts_with(|first: char| first.is_ascii_digit()));
    records.map(|id| read(system, id)).collect()
}

/// Undoes what a process that died, or a machine that lost power, left half done.
pub fn recover(system: &mut dyn System) -> Result<Vec<(Record, Vec<Undone>)>> {
    let mut recovered = Vec::new();
    for mut record in all(system)?.into_iter().rev() {
        files::tidy(system, &path(&record.id));
        if matches!(record.state, State::Applying | State::RollingBack) {
            let undone = super::roll_back(system, &mut record)?;
            recovered.push((record, undone));
        }
    }
    Ok(recovered)
}
