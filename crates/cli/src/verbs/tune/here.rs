// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that `tune` changes: this one, or the files below a folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ::tune::change::Here;
use ::tune::system::{Real, failed};
use error::Error;
use machine::Snapshot;

/// A machine, read, and the way to change it.
pub struct LocalMachine {
    /// Held as long as this process changes something: two at once would undo each other.
    _lock: Option<File>,
    system: Real,
    snapshot: Snapshot,
}

impl LocalMachine {
    /// The machine below `root`; to change the one that runs takes root, which `what` needs.
    pub fn open(root: &Path, what: &str, changes: bool) -> Result<LocalMachine, Error> {
        LocalMachine::of(root, what, changes, inspect::read)
    }

    /// As [`LocalMachine::open`], read with all that `tune verify` looks at.
    pub fn open_whole(root: &Path, what: &str) -> Result<LocalMachine, Error> {
        LocalMachine::of(root, what, true, inspect::read_whole)
    }

    fn of(
        root: &Path,
        what: &str,
        changes: bool,
        read: impl FnOnce(&Path) -> Snapshot,
    ) -> Result<LocalMachine, Error> {
        let system = Real::new(root).map_err(|error| failed("open", &root.display().to_string(), &error))?;
        if changes && !system.may_change() {
            return Err(Error::new(what, "only root may change the machine", "run it by sudo"));
        }
        let lock = if changes { Some(lock(root, &system, what)?) } else { None };
        Ok(LocalMachine { _lock: lock, system, snapshot: read(root) })
    }

    /// The arguments of the verbs of `tune`.
    pub fn here<'a>(&'a mut self, root: &'a Path) -> Here<'a> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Here { system: &mut self.system, root, machine: &self.snapshot, stamp: stamp(seconds) }
    }
}

/// Keeps every other `isolator tune` from changing the same machine until the file is closed. Of a machine
/// below a folder the folder itself is locked, so that nothing is left in it.
fn lock(root: &Path, system: &Real, what: &str) -> Result<File, Error> {
    let live = system.live();
    let path = if live { Path::new("/run/isolator-tune.lock") } else { root };
    // Only root may open it, and so hold the lock.
    let create = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = if live { create() } else { system.root_folder() };
    let file = file.map_err(|error| failed("lock", &path.display().to_string(), &error))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(Error::new(what, "another isolator tune is at work", "wait until it has ended"))
        }
        // A file system without locks is no reason to do nothing.
        _ => Ok(file),
    }
}

/// A moment as `20260131-235959`, in UTC.
fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1970 to a date: Howard Hinnant's civil_from_days, for years after 1970.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + next;
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_moment() {
        for (seconds, name) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_767_225_599, "20251231-235959"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(stamp(seconds), name);
        }
    }
}
