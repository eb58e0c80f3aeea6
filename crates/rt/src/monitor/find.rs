// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loops of a process, found by the names of its descriptors.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_link};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, Statx, StatxFlags, memfd_create, open, statx};

use super::{Reader, SLOTS, WORDS};
use crate::message::Shared;
use crate::{Error, Result};

/// The prefix of the name of a loop's memfd.
pub(super) const PREFIX: &str = "isolator-loop:";

/// A loop that can be read.
///
/// ```
/// use std::time::Duration;
///
/// use rt::monitor::{Monitor, Reader, find};
///
/// let _monitor = Monitor::create("example", Duration::from_millis(1))?;
/// for found in find(std::process::id())? {
///     let reader = Reader::open(&found.path)?;
///     println!("{} comes every {} ns", found.name, reader.period());
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Its name.
    pub name: String,
    /// Where it can be opened.
    pub path: PathBuf,
}

/// The loops of a process, by name; those of other users only root sees.
///
/// ```
/// use std::time::Duration;
///
/// use rt::monitor::{Monitor, find};
///
/// let _monitor = Monitor::create("example", Duration::from_millis(1))?;
/// assert_eq!(find(std::process::id())?[0].name, "example");
/// # Ok::<(), rt::Error>(())
/// ```
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
        if let (Ok(()), Ok(Looked { inode: Some(inode), .. })) = (check(&name), Looked::at(&path)) {
            loops.entry(inode).or_insert(Loop { name, path });
        }
    }
    let mut loops: Vec<Loop> = loops.into_values().collect();
    loops.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(loops)
}

/// The name of the loop that a descriptor is of. One that is closed meanwhile is none of a loop that goes on.
///
/// ```
/// use std::time::Duration;
///
/// use rt::monitor::{Monitor, find, name_of};
///
/// let _monitor = Monitor::create("example", Duration::from_millis(1))?;
/// let path = &find(std::process::id())?[0].path;
/// assert_eq!(name_of(path).as_deref(), Some("example"));
/// # Ok::<(), rt::Error>(())
/// ```
pub fn name_of(descriptor: &Path) -> Option<String> {
    let target = read_link(descriptor).ok()?;
    let name = target.to_str()?.strip_prefix("/memfd:")?.strip_prefix(PREFIX)?;
    Some(name.trim_end_matches(" (deleted)").to_string())
}

/// Where the loop `name` of a process can be opened; without a name, its only one.
///
/// ```
/// use std::time::Duration;
///
/// use rt::monitor::{Monitor, choose};
///
/// let _monitor = Monitor::create("example", Duration::from_millis(1))?;
/// assert_eq!(choose(std::process::id(), None)?, choose(std::process::id(), Some("example"))?);
/// assert!(choose(std::process::id(), Some("another")).is_err());
/// # Ok::<(), rt::Error>(())
/// ```
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

/// A path's target, held without being opened: another user may have it lead to a device, where opening
/// alone does something, or to a file system of its own.
struct Looked {
    held: OwnedFd,
    /// Its number, where it is memory: a file of the kernel's own file system, on which every memfd lies.
    inode: Option<u64>,
}

impl Looked {
    fn at(path: &Path) -> io::Result<Looked> {
        let held = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (found, memory) = (look(&held)?, look(&memfd_create("isolator", MemfdFlags::CLOEXEC)?)?);
        let device = |of: &Statx| (of.stx_dev_major, of.stx_dev_minor);
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        let is_memory = is_file && device(&found) == device(&memory);
        Ok(Looked { held, inode: is_memory.then_some(found.stx_ino) })
    }

    /// Opens the very file that was looked at.
    fn open(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        Ok(open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?)
    }
}

/// The kernel's knowledge of a file, without asking the program that serves it.
fn look(file: &OwnedFd) -> io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(statx(file, "", flags, StatxFlags::TYPE | StatxFlags::INO)?)
}

impl Reader {
    /// Reads the loop at `path`: [`Loop::path`], or a descriptor that was passed (`/dev/fd/3`). One reader at
    /// a time.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::{Monitor, Reader, choose};
    ///
    /// let _monitor = Monitor::create("example", Duration::from_millis(1))?;
    /// let reader = Reader::open(&choose(std::process::id(), Some("example"))?)?;
    /// assert_eq!(reader.period().get(), 1_000_000);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn open(path: &Path) -> Result<Reader> {
        let what = || format!("read the loop at {}", path.display());
        let cure = "give a process with a loop, or the path of its descriptor, and be its user or root";
        let refused = |error: io::Error| Error::os(what(), &error, cure);
        let looked = Looked::at(path).map_err(refused)?;
        if looked.inode.is_none() {
            return Err(Error::new(what(), "it is no memory of a program (memfd)", cure));
        }
        let memory = looked.open().map_err(refused)?;
        let in_use = |error: Error| match error.errno {
            libc::EBUSY => {
                let taken = Error::new(what(), "some process reads it already", "end that one first");
                Error { errno: libc::EBUSY, ..taken }
            }
            _ => error,
        };
        let shared = Shared::of_stranger(memory, *SLOTS.end(), 8 * WORDS)?;
        Reader::on(shared.receiver().map_err(in_use)?)
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
