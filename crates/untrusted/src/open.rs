// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one way to open a file that another user may have named, replaced or sized.
//!
//! ```text
//! path ──► O_PATH descriptor ──► regular file? ──► /proc/self/fd/N, opened for reading ──► same inode?
//! ```
//! `O_PATH` opens nothing: a pipe does not block, and a device does not notice. The second step opens the
//! file that the first one looked at, whatever its path leads to by then.
//!
//! A device or a pipe is opened only for a path that the user named (`/dev/stdin`), and only where no other
//! user can have put it there.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;

use crate::place::{Place, PlaceKind, same};

/// The most bytes that [`bytes`] and [`text`] read. The longest file of that kind is a process' `smaps`.
pub const TEXT: u64 = 64 << 20;

/// Opens the file at `path` for reading: a regular one, or a pipe or device that no other user can have put
/// there.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    let found = find(CWD, path)?;
    let seen = fstat(&found)?;
    if is_file(&seen) {
        return reopen(&found, OFlags::NONBLOCK);
    }
    let place = Place::of(path)?;
    if place.look()? != PlaceKind::Ours || !place.is(&seen)? {
        return Err(no_file());
    }
    reopen(&found, OFlags::empty())
}

/// The bytes of the file at `path`, opened as by [`open`]; more than `most` is an error.
pub fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    whole(open(path)?, most)
}

/// The bytes of the file at `path`, opened as by [`open`]; more than [`TEXT`] bytes is an error.
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read(path, TEXT)
}

/// The text of the file at `path`, as by [`bytes`]; a text that is not UTF-8 is an error.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(bytes(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Opens the regular file at `path`; never a pipe or a device, not even one of ours.
pub fn regular(path: impl AsRef<Path>) -> io::Result<File> {
    regular_at(CWD, path)
}

/// Opens the regular file that `name` leads to from `folder`, through links too: for folders in which only
/// the kernel makes links, as `/proc/PID/map_files`.
pub fn regular_at(folder: impl AsFd, name: impl AsRef<Path>) -> io::Result<File> {
    regular_of(&find(folder, name.as_ref())?)
}

/// Opens the regular file that a process with this root folder sees at `path`. No link leads out of the root.
pub fn within_root(root: impl AsFd, path: impl AsRef<Path>) -> io::Result<File> {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    regular_of(&openat2(root, path.as_ref(), flags, Mode::empty(), how)?)
}

/// Whether `path` leads to anything. For files of the kernel, for messages and for hints: a decision about
/// another file belongs to the call that opens or makes it, and to its error.
pub fn is_there(path: impl AsRef<Path>) -> bool {
    statat(CWD, path.as_ref(), AtFlags::empty()).is_ok()
}

/// Opens what an `O_PATH` descriptor leads to, where that is a regular file.
pub(crate) fn regular_of(found: &OwnedFd) -> io::Result<File> {
    if !is_file(&fstat(found)?) {
        return Err(no_file());
    }
    reopen(found, OFlags::NONBLOCK)
}

/// The rest of `file`; more than `most` bytes is an error.
pub(crate) fn whole(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it is longer than {} MiB", most >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

pub(crate) fn no_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

fn find(folder: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(folder, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn reopen(found: &OwnedFd, wait: OFlags) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC | wait;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
        // The file is held open, so it is this name that is absent.
        Errno::NOENT if !is_there("/proc/self") => {
            io::Error::new(ErrorKind::NotFound, "/proc is not mounted, through which files are opened")
        }
        error => error.into(),
    })?;
    match same(&fstat(found)?, &fstat(&file)?) {
        true => Ok(file.into()),
        false => Err(no_file()),
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A folder that every user may write, with a pipe, links to it and to a device, and a socket.
    fn hostile() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let at = openat(CWD, folder.path(), OFlags::PATH, Mode::empty()).unwrap();
        rustix::fs::mknodat(&at, "pipe", FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        symlink("pipe", folder.path().join("to-pipe")).unwrap();
        symlink("/dev/zero", folder.path().join("to-device")).unwrap();
        symlink(".", folder.path().join("to-folder")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap());
        fs::write(folder.path().join("file"), "data").unwrap();
        folder
    }

    #[test]
    fn opens_no_pipe_device_socket_or_folder_of_others() {
        let folder = hostile();
        let root = openat(CWD, folder.path(), OFlags::PATH, Mode::empty()).unwrap();
        for name in ["pipe", "to-pipe", "to-device", "to-folder", "socket", "."] {
            assert!(open(folder.path().join(name)).is_err(), "{name}");
            assert!(regular_at(&root, name).is_err(), "{name}");
            assert!(within_root(&root, name).is_err(), "{name}");
        }
        for file in
            [open(folder.path().join("file")), regular_at(&root, "file"), within_root(&root, "/../file")]
        {
            assert_eq!(whole(file.unwrap(), 4).unwrap(), b"data");
        }
    }

    #[test]
    fn leaves_no_root_through_links() {
        let folder = hostile();
        fs::write(folder.path().join("secret"), "").unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        symlink("../secret", folder.path().join("root/out")).unwrap();
        symlink("/secret", folder.path().join("root/top")).unwrap();
        symlink("/proc/self/fd/0", folder.path().join("root/magic")).unwrap();
        let root = openat(CWD, folder.path().join("root"), OFlags::PATH, Mode::empty()).unwrap();
        for name in ["out", "top", "magic", "../secret"] {
            assert!(within_root(&root, name).is_err(), "{name}");
        }
    }

    #[test]
    fn opens_the_file_that_it_looked_at() {
        let folder = hostile();
        let found = find(CWD, &folder.path().join("file")).unwrap();
        // Replaced by a pipe after the look, as another user would.
        fs::remove_file(folder.path().join("file")).unwrap();
        fs::rename(folder.path().join("pipe"), folder.path().join("file")).unwrap();
        assert_eq!(whole(regular_of(&found).unwrap(), 4).unwrap(), b"data");
    }

    #[test]
    fn reads_no_more_than_the_bound() {
        assert_eq!(read(Path::new("/dev/zero"), 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(Path::new("/dev/null"), 0).unwrap(), b"");
        let sparse = tempfile::tempdir().unwrap().keep().join("sparse");
        File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(text(&sparse).unwrap_err().kind(), ErrorKind::FileTooLarge);
        fs::remove_dir_all(sparse.parent().unwrap()).unwrap();
    }

    #[test]
    fn reads_files_of_the_kernel() {
        assert!(text("/proc/self/stat").unwrap().starts_with(&std::process::id().to_string()));
        assert!(is_there("/proc/self/stat") && !is_there("/proc/self/absent"));
    }
}
