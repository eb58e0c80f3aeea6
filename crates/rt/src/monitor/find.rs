// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loops of a process, found by the names of its descriptors.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, read_dir, read_link};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Reader;
use crate::error::{Error, Result};
use crate::message::Shared;

/// What the name of a loop's memfd begins with.
pub(super) const PREFIX: &str = "isolator-loop:";

/// A loop that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Its name.
    pub name: String,
    /// Where it can be opened.
    pub path: PathBuf,
}

/// The loops of a process, by name; those of other users only root sees.
pub fn find(process: u32) -> Result<Vec<Loop>> {
    let folder = PathBuf::from(format!("/proc/{process}/fd"));
    let failed = |error: &std::io::Error| {
        let what = format!("look for loops of process {process}");
        Error::os(what, error, "give a process that runs, and be its user or root")
    };
    // Several descriptors may be of one memfd.
    let mut loops = BTreeMap::new();
    for entry in read_dir(&folder).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        let Some(name) = name_of(&path) else { continue };
        if let (Ok(()), Ok(file)) = (check(&name), path.metadata()) {
            loops.entry(file.ino()).or_insert(Loop { name, path });
        }
    }
    let mut loops: Vec<Loop> = loops.into_values().collect();
    loops.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(loops)
}

/// The name of the loop that a descriptor is of. One that is closed meanwhile is none of a loop that goes on.
pub fn name_of(descriptor: &Path) -> Option<String> {
    let target = read_link(descriptor).ok()?;
    let name = target.to_str()?.strip_prefix("/memfd:")?.strip_prefix(PREFIX)?;
    Some(name.trim_end_matches(" (deleted)").to_string())
}

/// Where the loop `name` of a process can be opened; without a name, its only one.
pub fn choose(process: u32, name: Option<&str>) -> Result<PathBuf> {
    let loops = find(process)?;
    let names = loops.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let what = format!("monitor process {process}");
    let mut wanted = loops.iter().filter(|one| name.is_none_or(|name| one.name == name));
    match (wanted.next(), wanted.next()) {
        (Some(one), None) => Ok(one.path.clone()),
        (Some(_), Some(_)) => {
            let cure = format!("name one of {names}, and give each a name of its own");
            Err(Error::new(what, "it has several such loops", cure))
        }
        (None, _) => {
            let none = match name {
                Some(name) if !loops.is_empty() => Error::new(
                    what,
                    format!("it has no loop '{}'", name.escape_debug()),
                    format!("name one of {names}"),
                ),
                _ => Error::new(
                    what,
                    "it has no monitored loop",
                    "have it link libisolator and call isolator_monitor_create()",
                ),
            };
            Err(Error { errno: libc::ENOENT, ..none })
        }
    }
}

impl Reader {
    /// Reads the loop at `path`: [`Loop::path`], or a descriptor that was passed (`/dev/fd/3`). One reader at a time.
    pub fn open(path: &Path) -> Result<Reader> {
        let what = || format!("read the loop at {}", path.display());
        let file: File = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
            Error::os(
                what(),
                &error,
                "give a process with a loop, or the path of its descriptor, and be its user or root",
            )
        })?;
        let in_use = |error: Error| match error.errno {
            libc::EBUSY => {
                let taken = Error::new(what(), "some process reads it already", "end that one first");
                Error { errno: libc::EBUSY, ..taken }
            }
            _ => error,
        };
        Reader::on(Shared::from_fd(file.into())?.receiver().map_err(in_use)?)
    }
}

/// Refuses a name that would not come back from the kernel as it was given.
pub(super) fn check(name: &str) -> Result<()> {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=32).contains(&name.len()) && name.chars().all(letters) {
        return Ok(());
    }
    let what = format!("call a loop '{}'", name.escape_debug().take(64).collect::<String>());
    Err(Error::new(what, "it is no such name", "give 1 to 32 letters, digits, '-', '_' and '.'"))
}
