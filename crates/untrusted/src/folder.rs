// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder, held open: what lies in it cannot be moved from under us.
//!
//! cap-std would not replace this: it follows links within a folder, and does not ask who owns it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, fsync, mkdirat, openat, openat2, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::open::{is_there, no_file, regular_of, whole};
use crate::place;
use crate::replace::swap;

/// Entries of a folder that are listed; more is an error.
const MOST_ENTRIES: usize = 100_000;

/// A folder that is open. Names are relative to it and lead neither out of it nor through a link.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder of any owner for reading.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder::of(openat(rustix::fs::CWD, path, flags, Mode::empty())?, path))
    }

    /// An open folder; `path` is for messages.
    pub(crate) fn of(fd: OwnedFd, path: &Path) -> Folder {
        Folder { fd, path: path.to_path_buf() }
    }

    /// The open folder.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Opens a folder to write files into, and makes it where it is absent. One that is there must belong to
    /// this user, and not everybody may write it: else others decide which file is written.
    pub fn ours(path: &Path) -> io::Result<Folder> {
        let there = is_there(path);
        let folder = Folder::of(place::folder(path, true)?, path);
        // A medium without owners (a USB stick) shows its folders as another user's.
        if there { folder.check_ours().map(|()| folder) } else { Ok(folder) }
    }

    fn check_ours(&self) -> io::Result<()> {
        let stat = fstat(&self.fd)?;
        let why = if stat.st_uid != geteuid().as_raw() {
            format!("the folder belongs to another user (uid {})", stat.st_uid)
        } else if stat.st_mode & 0o002 != 0 {
            "every user may write to the folder".to_string()
        } else {
            return Ok(());
        };
        Err(io::Error::new(ErrorKind::PermissionDenied, why))
    }

    /// A path to the folder by its descriptor, for this process, and as the working directory of a new one.
    pub fn by_descriptor(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Where the folder was when it was opened: for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the regular file `name` beneath this folder for reading.
    pub fn file(&self, name: impl AsRef<Path>) -> io::Result<File> {
        regular_of(&self.beneath(name.as_ref(), OFlags::PATH)?)
    }

    /// The bytes of the file `name` beneath this folder; more than `most` is an error.
    pub fn read(&self, name: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        whole(self.file(name)?, most)
    }

    /// The folder `name` beneath this one, for reading.
    pub fn folder(&self, name: impl AsRef<Path>) -> io::Result<Folder> {
        let fd = self.beneath(name.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Folder::of(fd, &self.path.join(name)))
    }

    /// The folder `name` in this one, made where it is absent, to write files into.
    pub fn ours_within(&self, name: &str) -> io::Result<Folder> {
        let made = match mkdirat(&self.fd, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => false,
            made => made.map(|()| true)?,
        };
        let folder = self.folder(name)?;
        if made { Ok(folder) } else { folder.check_ours().map(|()| folder) }
    }

    /// Names and types of what is in the folder, in the order of the names. Some file systems do not tell the
    /// type.
    pub fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let kind = match entry.file_type() {
                    FileType::Unknown => self.kind(OsStr::from_bytes(name)).unwrap_or(FileType::Unknown),
                    kind => kind,
                };
                entries.push((OsString::from_vec(name.to_vec()), kind));
            }
            if entries.len() > MOST_ENTRIES {
                return Err(io::Error::new(
                    ErrorKind::FileTooLarge,
                    "the folder has more than 100,000 entries",
                ));
            }
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(entries)
    }

    /// The type of `name` in the folder; a link is a link.
    pub fn kind(&self, name: impl AsRef<Path>) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(statat(&self.fd, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
    }

    /// Whether there is anything of this name in the folder.
    pub fn has(&self, name: impl AsRef<Path>) -> bool {
        self.kind(name).is_ok()
    }

    /// Makes the file `name`, which must not be there.
    pub fn create(&self, name: &str) -> io::Result<File> {
        self.write(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens the file `name` to write at its end, and makes it where it is absent.
    pub fn append(&self, name: &str) -> io::Result<File> {
        self.write(name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)
    }

    fn write(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.fd, one_name(name)?, flags, Mode::from_raw_mode(0o666))?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(no_file());
        }
        Ok(file.into())
    }

    /// Replaces the file `name` by `bytes`, whole or not at all.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        swap(self.fd.as_fd(), one_name(name)?, bytes, false).map(drop)
    }

    /// The same, and it is on the disk when this returns: where the loss of the file would be a lie.
    pub fn replace_synced(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        swap(self.fd.as_fd(), one_name(name)?, bytes, true)?;
        self.sync()
    }

    /// Has all names of the folder on the disk.
    pub fn sync(&self) -> io::Result<()> {
        match fsync(&self.fd) {
            // Some file systems cannot do this for folders.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Renames `from` to `to`, both in this folder.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, one_name(from)?, &self.fd, one_name(to)?)?)
    }

    /// Removes the file or link `name`.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, one_name(name)?, AtFlags::empty())?)
    }

    /// Removes the folder `name`, which must be empty.
    pub fn remove_folder(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, one_name(name)?, AtFlags::REMOVEDIR)?)
    }

    /// Removes all that is in the folder. No link is followed, and others may remove it at the same time.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let removed = match unlinkat(&self.fd, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => self
                    .folder(name)
                    .and_then(|folder| folder.clear())
                    .and_then(|()| Ok(unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)),
                removed => removed.map_err(io::Error::from),
            };
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn beneath(&self, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.fd, name, flags, Mode::empty(), how) {
            // Kernels before 5.6, and sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => self.walk(name, flags).map_err(led_out),
            file => file.map_err(led_out),
        }
    }

    /// As [`Folder::beneath`], component by component.
    fn walk(&self, name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut parts = name.components().filter(|part| *part != Component::CurDir).peekable();
        let mut at = None;
        while let Some(part) = parts.next() {
            let Component::Normal(part) = part else { return Err(Errno::XDEV) };
            let last = parts.peek().is_none();
            let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let flags = OFlags::NOFOLLOW | if last { flags } else { way };
            let from = at.as_ref().unwrap_or(&self.fd);
            at = Some(openat(from, part, flags, Mode::empty())?);
        }
        at.ok_or(Errno::NOENT)
    }
}

/// An error for a name that leads elsewhere.
fn led_out(error: Errno) -> io::Error {
    let why = match error {
        Errno::LOOP => "it is a link, or lies behind one",
        Errno::XDEV => "it lies outside of the folder",
        other => return other.into(),
    };
    io::Error::new(ErrorKind::InvalidInput, why)
}

/// `name`, unless it leads out of the folder.
fn one_name(name: &str) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(one)), None) => Ok(one),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a name of a file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A folder with a file, a link out of it, a pipe and a folder behind a link.
    fn hostile() -> (tempfile::TempDir, Folder) {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("bundle");
        fs::create_dir_all(path.join("series")).unwrap();
        fs::create_dir(outer.path().join("outside")).unwrap();
        fs::write(outer.path().join("outside/x"), "secret").unwrap();
        fs::write(path.join("series/x"), "data").unwrap();
        symlink("../outside/x", path.join("link")).unwrap();
        symlink("../outside", path.join("folder")).unwrap();
        symlink("/proc/self/fd", path.join("magic")).unwrap();
        let fd = openat(rustix::fs::CWD, &path, OFlags::PATH, Mode::empty()).unwrap();
        rustix::fs::mknodat(&fd, "pipe", FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let folder = Folder::open(&path).unwrap();
        (outer, folder)
    }

    #[test]
    fn reads_regular_files_beneath_and_nothing_else() {
        let (outer, folder) = hostile();
        let secret = outer.path().join("outside/x");
        let names = [
            "link",
            "folder/x",
            "../outside/x",
            "series/../../outside/x",
            "pipe",
            "series",
            "magic/0",
            "",
            ".",
        ];
        let names = names.iter().map(Path::new).chain([secret.as_path()]);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        for name in names {
            assert!(folder.file(name).is_err(), "{}", name.display());
            let walked =
                folder.walk(name, flags).map(|fd| FileType::from_raw_mode(fstat(&fd).unwrap().st_mode));
            assert!(walked != Ok(FileType::RegularFile), "{}", name.display());
        }
        assert_eq!(folder.read("series/x", 4).unwrap(), b"data");
        assert_eq!(folder.read("series/x", 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let mut text = String::new();
        File::from(folder.walk(Path::new("./series/x"), OFlags::RDONLY).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "data");
    }

    #[test]
    fn writes_neither_through_links_nor_into_pipes() {
        let (outer, folder) = hostile();
        assert!(folder.append("link").is_err() && folder.append("pipe").is_err());
        assert!(folder.create("link").is_err() && folder.append("../outside/x").is_err());
        fs::hard_link(outer.path().join("outside/x"), outer.path().join("bundle/hard")).unwrap();
        assert!(folder.append("hard").is_err());
        folder.replace("link", b"new").unwrap();
        assert_eq!(fs::read(outer.path().join("outside/x")).unwrap(), b"secret");
        assert_eq!(folder.read("link", 9).unwrap(), b"new");
    }

    #[test]
    fn refuses_a_folder_that_everybody_may_write() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("a/b");
        drop(Folder::ours(&path).unwrap());
        drop(Folder::ours(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).unwrap();
        let error = Folder::ours(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().starts_with("every user may write to the folder"), "{error}");
    }

    #[test]
    fn only_a_folder_that_others_cannot_write_is_ours() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("out");
        fs::create_dir(&path).unwrap();
        let with = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Folder::ours(&path)
        };
        for mode in [0o777, 0o1777, 0o757, 0o703, 0o2777, 0o3777, 0o766] {
            let error = with(mode).unwrap_err().to_string();
            assert!(error.starts_with("every user may write to the folder"), "{mode:o}: {error}");
        }
        for mode in [0o700, 0o755, 0o770, 0o2775, 0o1755] {
            assert!(with(mode).is_ok(), "{mode:o}");
        }
        // What lies in the way within a folder of ours.
        let folder = Folder::ours(&path).unwrap();
        fs::create_dir(path.join("open")).unwrap();
        fs::set_permissions(path.join("open"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(path.join("file"), "").unwrap();
        symlink(outer.path(), path.join("link")).unwrap();
        symlink("absent", path.join("nowhere")).unwrap();
        for name in ["open", "file", "link", "nowhere", "..", ""] {
            assert!(folder.ours_within(name).is_err(), "{name}");
        }
        assert!(folder.ours_within("new").is_ok() && !outer.path().join("absent").exists());
    }

    #[test]
    fn refuses_the_folder_of_another_user() {
        let outer = tempfile::tempdir().unwrap();
        let Ok(()) = std::os::unix::fs::chown(outer.path(), Some(12_345), None) else {
            eprintln!("skipped: it takes root to make a folder of another user");
            return;
        };
        for (uid, mode) in [(12_345, 0o700), (12_345, 0o755), (65_534, 0o770), (1, 0o1777)] {
            std::os::unix::fs::chown(outer.path(), Some(uid), None).unwrap();
            fs::set_permissions(outer.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = Folder::ours(outer.path()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the folder belongs to another user (uid {uid})")), "{error}");
        }
    }
}
