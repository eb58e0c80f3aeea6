// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a path leads, when a folder on the way may belong to another user.
//!
//! A link is followed only where no other user can have put it: link and folder belong to root or to us, and
//! others may not write the folder (or may not rename in it: `/tmp`). Links of others are how root is made to
//! write elsewhere.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, fstatfs, mkdirat, openat, readlinkat, statat,
};
use rustix::process::{getegid, geteuid};

/// Links on one path, as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The type that `fstatfs` reports for `/proc`, whose links the kernel makes.
const PROC: i64 = 0x9fa0;

/// A folder, and a name in it, which may not be there.
#[derive(Debug)]
pub(crate) struct Place {
    pub folder: OwnedFd,
    pub name: OsString,
}

/// The kind of object at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    Nothing,
    /// A regular file.
    File,
    /// A device, a pipe or a socket that no other user can have put there, or one of the kernel's links below
    /// `/proc`.
    Ours,
    /// A link, a device, a pipe or a socket of another user.
    Theirs,
}

/// The folder `path`, opened; missing folders are made where `make` says so.
pub(crate) fn folder(path: &Path, make: bool) -> io::Result<OwnedFd> {
    let (mut at, mut rest) = begin(path)?;
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        at = step(at, part, make, &mut rest, &mut links)?;
    }
    readable(&at)
}

/// The folder at `path`, opened, and its path: no link of another user leads there.
pub fn unlinked_folder(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let found = folder(path, false)?;
    let real = path_of(&found)?;
    Ok((found, real))
}

/// The folder `path`, opened, where no other user can put another one into its place: each folder on the way,
/// and itself, belongs to root or to us, and others cannot rename in it.
pub(crate) fn private_folder(path: &Path) -> io::Result<OwnedFd> {
    // From the root on: a relative path says nothing of the folders above.
    let (mut at, mut rest) = begin(&std::path::absolute(path)?)?;
    let mut links = 0;
    loop {
        if let Some(why) = open_to_others(&fstat(&at)?) {
            let why = format!("{} {why}", path_of(&at).unwrap_or_default().display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
        let Some(part) = rest.pop_front() else { return readable(&at) };
        at = step(at, part, false, &mut rest, &mut links)?;
    }
}

/// An error where another user may change the regular file or the folder at `path`, or put another into its
/// place: for a path that another program is given.
pub fn private(path: &Path) -> io::Result<()> {
    let path = path.canonicalize()?;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let entry = statat(private_folder(above)?, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(entry.st_mode) {
        FileType::RegularFile | FileType::Directory => {}
        _ => return Err(io::Error::other("it is neither a file nor a folder")),
    }
    match open_to_others(&entry) {
        None => Ok(()),
        Some(why) => Err(io::Error::new(ErrorKind::PermissionDenied, format!("it {why}"))),
    }
}

/// The present path of an open folder.
pub(crate) fn path_of(folder: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn readable(folder: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

impl Place {
    /// Where `path` leads, through links of ours.
    pub fn of(path: &Path) -> io::Result<Place> {
        let (mut at, mut rest) = begin(path)?;
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            if rest.is_empty() && part != ".." && part != "." && !leads_on(&at, &part)? {
                return Ok(Place { folder: at, name: part });
            }
            at = step(at, part, false, &mut rest, &mut links)?;
        }
        Err(rustix::io::Errno::ISDIR.into())
    }

    pub fn look(&self) -> io::Result<PlaceKind> {
        let entry = match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(PlaceKind::Nothing),
            entry => entry?,
        };
        match FileType::from_raw_mode(entry.st_mode) {
            FileType::RegularFile => Ok(PlaceKind::File),
            FileType::Directory => Err(rustix::io::Errno::ISDIR.into()),
            _ if ours(&fstat(&self.folder)?, &entry) => Ok(PlaceKind::Ours),
            _ => Ok(PlaceKind::Theirs),
        }
    }

    /// Whether this is the file of `seen`, or one of the kernel's links to it.
    pub fn is(&self, seen: &Stat) -> io::Result<bool> {
        let entry = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(entry.st_mode) == FileType::Symlink || same(&entry, seen))
    }
}

/// Whether the last part of a path is a link that is to be followed by its text.
fn leads_on(at: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let Ok(entry) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
    let link = FileType::from_raw_mode(entry.st_mode) == FileType::Symlink;
    // The text of a link in /proc/PID/fd may be no path at all: `pipe:[4711]`.
    Ok(link && ours(&fstat(at)?, &entry) && !kernels(at)?)
}

fn kernels(folder: &OwnedFd) -> io::Result<bool> {
    #[allow(clippy::unnecessary_cast, reason = "the type differs between architectures")]
    Ok(fstatfs(folder)?.f_type as i64 == PROC)
}

fn begin(path: &Path) -> io::Result<(OwnedFd, VecDeque<OsString>)> {
    let start = if path.is_absolute() { "/" } else { "." };
    let rest = parts(path);
    if path.as_os_str().is_empty() {
        return Err(io::Error::new(ErrorKind::NotFound, "the path is empty"));
    }
    Ok((openat(CWD, start, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?, rest))
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component| match part {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

fn step(
    at: OwnedFd,
    part: OsString,
    make: bool,
    rest: &mut VecDeque<OsString>,
    links: &mut usize,
) -> io::Result<OwnedFd> {
    let look = || openat(&at, &part, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let next = match look() {
        Err(rustix::io::Errno::NOENT) if make => {
            mkdirat(&at, &part, Mode::from_raw_mode(0o755))?;
            look()?
        }
        next => next?,
    };
    let entry = fstat(&next)?;
    match FileType::from_raw_mode(entry.st_mode) {
        FileType::Symlink => {
            *links += 1;
            if *links > MOST_LINKS {
                return Err(rustix::io::Errno::LOOP.into());
            }
            if !ours(&fstat(&at)?, &entry) {
                let name = Path::new(&part).display();
                let why = format!("{name} is a link of another user, which is not followed");
                return Err(io::Error::new(ErrorKind::PermissionDenied, why));
            }
            if kernels(&at)? {
                // By the descriptor that it stands for, not by its text.
                return Ok(openat(
                    &at,
                    &part,
                    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?);
            }
            let text = OsString::from_vec(readlinkat(&next, "", Vec::new())?.into_bytes());
            let target = Path::new(&text);
            for part in parts(target).into_iter().rev() {
                rest.push_front(part);
            }
            if target.is_absolute() { Ok(begin(Path::new("/"))?.0) } else { Ok(at) }
        }
        FileType::Directory => Ok(next),
        _ => Err(io::Error::new(
            ErrorKind::NotADirectory,
            format!("{} is no folder", Path::new(OsStr::from_bytes(part.as_bytes())).display()),
        )),
    }
}

/// Whether both are of the same file.
pub(crate) fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Whether no other user can have put `entry` into `folder`.
fn ours(folder: &Stat, entry: &Stat) -> bool {
    is_ours(entry) && open_to_others(folder).is_none()
}

fn is_ours(entry: &Stat) -> bool {
    entry.st_uid == 0 || entry.st_uid == geteuid().as_raw()
}

/// Why another user can put something into `folder` in place of our own, as the end of a sentence about it. A
/// group of ours is one of our own, as most distributions make one for each user.
fn open_to_others(folder: &Stat) -> Option<String> {
    let sticky = folder.st_mode & 0o1000 != 0;
    let world = folder.st_mode & 0o002 != 0;
    let group = folder.st_mode & 0o020 != 0 && folder.st_gid != getegid().as_raw();
    if !is_ours(folder) {
        return Some(format!("belongs to another user (uid {})", folder.st_uid));
    }
    (!sticky && (world || group)).then(|| "may be changed by other users".to_string())
}
