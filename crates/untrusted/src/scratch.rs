// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one way to make a folder for files that last as long as a process: random name, for this user alone,
//! held open.
//!
//! A path into a folder where another user may rename leads wherever that user wants by the time it is
//! used. So the folder is made only where no other user can replace it, and it is used by its descriptor:
//! this program by [`Scratch::folder`], and another program by [`Scratch::path`] as its working directory, or
//! by [`Scratch::lend`].
//!
//! Limits: it needs `/proc`. A process that is killed leaves its folder, unless another one was lent it.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::geteuid;

use crate::folder::Folder;
use crate::name::new_name;
use crate::place::{path_of, private_folder, same};

/// Permissions of the folder: this user alone.
const PRIVATE: u32 = 0o700;

/// A folder of our own. It is removed with its content when this is dropped, unless it was lent to this
/// process.
#[derive(Debug)]
pub struct Scratch {
    folder: Folder,
    is_lent: bool,
}

/// While this lives, processes that are started inherit the folder.
#[derive(Debug)]
pub struct Lent<'a>(&'a Scratch);

impl Scratch {
    /// Makes one in `parent`; its name begins with `prefix`. An error where another user could replace it.
    pub fn below(parent: &Path, prefix: &str) -> io::Result<Scratch> {
        let parent = private_folder(parent)?;
        let name = new_name(|random| {
            let name = OsString::from(format!("{prefix}{random:016x}"));
            mkdirat(&parent, &name, Mode::from_raw_mode(PRIVATE)).map(|()| name)
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&parent, &name, flags, Mode::empty())?;
        let scratch = Scratch { is_lent: false, folder: Folder::of(folder, Path::new(&name)) };
        scratch.check()
    }

    /// Makes one in the first of TMPDIR, `/var/tmp` and `/tmp` where that is possible.
    pub fn temporary(prefix: &str) -> io::Result<Scratch> {
        let mut refused = None;
        for parent in temporary_folders() {
            match Scratch::below(&parent, prefix) {
                Ok(scratch) => return Ok(scratch),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        Err(refused.unwrap_or(ErrorKind::NotFound.into()))
    }

    /// The folder that a parent process lent to this one, under its number there.
    pub fn borrowed(number: u32) -> io::Result<Scratch> {
        let path = PathBuf::from(format!("/proc/self/fd/{number}"));
        Scratch { folder: Folder::open(&path)?, is_lent: true }.check()
    }

    fn check(self) -> io::Result<Scratch> {
        let stat = fstat(self.folder.descriptor())?;
        if stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o077 == 0 {
            return Ok(self);
        }
        let why = "it was replaced by a folder of another user";
        Err(io::Error::new(ErrorKind::PermissionDenied, why))
    }

    /// The folder itself.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// A path to the folder by its descriptor: for this process, and as the working directory of a new one.
    pub fn path(&self) -> PathBuf {
        self.folder.by_descriptor()
    }

    /// Its path by names, for a program that a launcher starts which closes descriptors. No other user can
    /// rename a folder on the way.
    pub fn named_path(&self) -> io::Result<PathBuf> {
        path_of(self.folder.descriptor())
    }

    /// Its descriptor's number, which a process has that it was lent to.
    pub fn number(&self) -> u32 {
        self.folder.descriptor().as_raw_fd().unsigned_abs()
    }

    /// Has processes inherit the folder that are started while the returned value lives: they find it under
    /// the path [`Scratch::path`].
    pub fn lend(&self) -> io::Result<Lent<'_>> {
        fcntl_setfd(self.folder.descriptor(), FdFlags::empty())?;
        Ok(Lent(self))
    }

    /// Removes the folder with its content; nothing happens where that was done.
    pub fn remove(&self) -> io::Result<()> {
        let own = fstat(self.folder.descriptor())?;
        match self.folder.clear() {
            // A folder that was removed has no entries, and no parent.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            cleared => cleared?,
        }
        // Both by descriptor: the folder's present parent, and the entry that is this folder.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let parent = match openat(self.folder.descriptor(), "..", flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            parent => parent?,
        };
        let path = path_of(self.folder.descriptor())?;
        let name = path.file_name().unwrap_or(OsStr::new("."));
        match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(entry) if same(&entry, &own) => match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOENT) => Ok(()),
                done => Ok(done?),
            },
            // As the kernel calls a folder that was removed.
            Err(Errno::NOENT) if name.as_bytes().ends_with(b" (deleted)") => Ok(()),
            _ => Err(io::Error::new(ErrorKind::NotFound, "it was moved away")),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_lent {
            // Files that cannot be removed are of no use to others, and of no harm.
            let _ = self.remove();
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // A later program would merely have one descriptor more.
        let _ = fcntl_setfd(self.0.folder.descriptor(), FdFlags::CLOEXEC);
    }
}

/// Where temporary files go, in the order of preference.
pub fn temporary_folders() -> impl Iterator<Item = PathBuf> {
    let asked = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    asked.into_iter().chain(["/var/tmp", "/tmp"].map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::Command;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn is_private_and_removed_with_its_content() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("kept"), "").unwrap();
        let scratch = Scratch::below(outer.path(), "isolator-test-").unwrap();
        let inner = scratch.path();
        assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o7777, 0o700);
        fs::create_dir_all(inner.join("a/b")).unwrap();
        fs::write(inner.join("a/b/c"), "").unwrap();
        symlink(outer.path(), inner.join("link")).unwrap();
        drop(scratch);
        assert_eq!((entries(outer.path()), outer.path().join("kept").exists()), (1, true));
    }

    #[test]
    fn no_two_have_one_name() {
        let outer = tempfile::tempdir().unwrap();
        let all: Vec<_> = (0..100).map(|_| Scratch::below(outer.path(), "x-").unwrap()).collect();
        assert_eq!(entries(outer.path()), all.len());
    }

    #[test]
    fn refuses_folders_in_which_others_may_rename() {
        let outer = tempfile::tempdir().unwrap();
        let below = outer.path().join("middle/inner");
        fs::create_dir_all(&below).unwrap();
        symlink("middle", outer.path().join("link")).unwrap();
        for (mode, is_private) in [(0o777, false), (0o757, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(outer.path().join("middle"), fs::Permissions::from_mode(mode)).unwrap();
            for path in ["middle", "middle/inner", "link/inner", "middle/inner/../inner"] {
                let made = Scratch::below(&outer.path().join(path), "x-");
                assert_eq!(made.is_ok(), is_private, "{mode:o} {path}: {made:?}");
                let said = made.map_or_else(|why| why.to_string(), |_| String::new());
                assert!(is_private || said.ends_with("middle may be changed by other users"), "{said}");
            }
        }
    }

    #[test]
    fn refuses_folders_below_one_of_another_user() {
        let outer = tempfile::tempdir().unwrap();
        let home = outer.path().join("home");
        fs::create_dir_all(home.join("ours/deep")).unwrap();
        if chown(&home, Some(12_345), None).is_err() {
            eprintln!("skipped: it takes root to make a folder of another user");
            return;
        }
        for path in ["home", "home/ours", "home/ours/deep"] {
            let error = Scratch::below(&outer.path().join(path), "x-").unwrap_err().to_string();
            assert!(error.ends_with("home belongs to another user (uid 12345)"), "{path}: {error}");
        }
        assert_eq!(entries(&home.join("ours")), 1);
    }

    #[test]
    fn stays_the_same_folder_where_it_is_moved() {
        let outer = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(outer.path(), "x-").unwrap();
        let name = fs::read_dir(outer.path()).unwrap().next().unwrap().unwrap().file_name();
        // Another folder takes its place, with a link where a file is to be written.
        fs::rename(outer.path().join(&name), outer.path().join("away")).unwrap();
        fs::create_dir(outer.path().join(&name)).unwrap();
        symlink("../secret", outer.path().join(&name).join("file")).unwrap();
        scratch.folder().create("file").unwrap();
        fs::write(scratch.path().join("other"), "").unwrap();
        assert_eq!(entries(&outer.path().join("away")), 2);
        assert!(!outer.path().join("secret").exists());
        scratch.remove().unwrap();
        scratch.remove().unwrap();
        assert!(!outer.path().join("away").exists() && outer.path().join(name).exists());
    }

    #[test]
    fn a_program_writes_there_by_descriptor_alone() {
        let outer = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(outer.path(), "x-").unwrap();
        let touch = |file: &Path| {
            let mut command = Command::new("touch");
            command.arg(file).stderr(std::process::Stdio::null());
            command
        };
        // In it, without having it.
        assert!(touch(Path::new("one")).current_dir(scratch.path()).status().unwrap().success());
        let two = scratch.path().join("two");
        assert!(!touch(&two).status().unwrap().success());
        let lent = scratch.lend().unwrap();
        assert!(touch(&two).status().unwrap().success());
        drop(lent);
        assert!(!touch(&two).status().unwrap().success());
        assert!(scratch.folder().has("one") && scratch.folder().has("two"));
        assert!(scratch.named_path().unwrap().join("two").exists());
    }

    #[test]
    fn one_that_was_lent_outlives_its_borrower() {
        let outer = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(outer.path(), "x-").unwrap();
        drop(Scratch::borrowed(scratch.number()).unwrap());
        assert_eq!(entries(outer.path()), 1);
        Scratch::borrowed(scratch.number()).unwrap().remove().unwrap();
        assert_eq!(entries(outer.path()), 0);
        let public = Folder::open(Path::new("/usr")).unwrap();
        assert!(Scratch::borrowed(public.descriptor().as_raw_fd().unsigned_abs()).is_err());
    }
}
