// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file that the user named, wherever it lies.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use crate::name::new_name;
use crate::place::{Place, PlaceKind};

/// Replaces the file at `path` by `bytes`, whole or not at all.
///
/// A link of another user is replaced, never written through. A device, a pipe or a link that no other user
/// can have put there (`/dev/stdout`) is written to and stays what it is.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, false)
}

/// The same, and a regular file is on the disk when this returns: where its loss would be a lie.
pub fn replace_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, true)
}

/// An empty file at `path`, to be written bit by bit; what was there is replaced as by [`replace`].
pub fn create(path: &Path) -> io::Result<File> {
    let place = Place::of(path)?;
    match place.look()? {
        PlaceKind::Ours => through(&place),
        PlaceKind::Nothing | PlaceKind::File | PlaceKind::Theirs => {
            swap(place.folder.as_fd(), &place.name, b"", false)
        }
    }
}

fn put(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let place = Place::of(path)?;
    match place.look()? {
        PlaceKind::Ours => through(&place)?.write_all(bytes),
        PlaceKind::Nothing | PlaceKind::File | PlaceKind::Theirs => {
            swap(place.folder.as_fd(), &place.name, bytes, sync).map(drop)
        }
    }
}

fn through(place: &Place) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(&place.folder, &place.name, flags, Mode::empty())?.into())
}

/// Writes `bytes` beside `name`, under a name that cannot be foreseen, and renames; the file is still open.
pub(crate) fn swap(folder: BorrowedFd, name: &OsStr, bytes: &[u8], sync: bool) -> io::Result<File> {
    let (beside, mut file) = create_new(folder, 0o666, |random| {
        let mut beside = OsString::from(format!(".{random:016x}."));
        beside.push(Path::new(name).extension().unwrap_or(OsStr::new("new")));
        beside
    })?;
    let written = (|| {
        file.write_all(bytes)?;
        if sync {
            file.sync_all()?;
        }
        renameat(folder, &beside, folder, name)?;
        Ok(file)
    })();
    if written.is_err() {
        // What is left of the attempt is of no use; that it cannot be removed changes nothing.
        let _ = unlinkat(folder, &beside, AtFlags::empty());
    }
    written
}

/// Makes a file in `folder` that is not there yet, under a name that cannot be foreseen: `name` makes it of a
/// random number.
pub fn create_new(
    folder: BorrowedFd,
    mode: u32,
    name: impl Fn(u64) -> OsString,
) -> io::Result<(OsString, File)> {
    new_name(|random| {
        let name = name(random);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok((name.clone(), openat(folder, &name, flags, Mode::from_raw_mode(mode))?.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{open, read};
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    #[test]
    fn leaves_nothing_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        replace(&folder.path().join("a.html"), b"one").unwrap();
        replace(&folder.path().join("a.html"), b"two").unwrap();
        assert_eq!(fs::read(folder.path().join("a.html")).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn follows_a_link_of_our_own() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("far")).unwrap();
        symlink("far/b", folder.path().join("a")).unwrap();
        replace(&folder.path().join("a"), b"x").unwrap();
        assert!(folder.path().join("a").is_symlink());
        assert_eq!(fs::read(folder.path().join("far/b")).unwrap(), b"x");
    }

    #[test]
    fn replaces_a_link_where_others_may_write() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(folder.path().join("target"), "kept").unwrap();
        symlink("../target", open.join("a")).unwrap();
        replace(&open.join("a"), b"x").unwrap();
        assert_eq!(fs::read(folder.path().join("target")).unwrap(), b"kept");
        assert_eq!((open.join("a").is_symlink(), fs::read(open.join("a")).unwrap()), (false, b"x".to_vec()));
    }

    #[test]
    fn refuses_a_folder_behind_a_link_of_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir_all(&open).unwrap();
        fs::create_dir(folder.path().join("private")).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        symlink("../private", open.join("bundle")).unwrap();
        let error = replace(&open.join("bundle/report.html"), b"x").unwrap_err();
        assert!(error.to_string().contains("bundle is a link of another user"), "{error}");
        assert_eq!(fs::read_dir(folder.path().join("private")).unwrap().count(), 0);
    }

    #[test]
    fn writes_to_devices_and_to_open_descriptors() {
        replace(Path::new("/dev/null"), b"x").unwrap();
        assert!(!Path::new("/dev/null").is_file());
        let file = tempfile::tempfile().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        replace(Path::new(&path), b"through").unwrap();
        let mut text = String::new();
        File::open(path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn ends_on_a_circle_of_links() {
        for (links, path) in [
            (vec![("a", "a")], "a"),
            (vec![("a", "./a")], "a"),
            (vec![("a", "b"), ("b", "a")], "a"),
            (vec![("a", "b"), ("b", "c"), ("c", "a")], "a"),
            (vec![("a", "a/x")], "a"),
            (vec![("d", "d")], "d/x"),
            (vec![("d", "e"), ("e", "d")], "d/x"),
            (vec![("d", "e/d"), ("e", "d/e")], "d/x"),
            (vec![("f/a", "../f/a")], "f/a"),
            (vec![("f/up", ".."), ("a", "f/up/a")], "a"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("f")).unwrap();
            links.iter().for_each(|(name, target)| symlink(target, folder.path().join(name)).unwrap());
            let path = folder.path().join(path);
            assert!(replace(&path, b"x").is_err(), "{links:?}");
            assert!(read(&path, 9).is_err() && open(&path).is_err(), "{links:?}");
            assert!(crate::Folder::ours(&path).is_err(), "{links:?}");
        }
    }

    #[test]
    fn follows_as_many_links_as_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let at = |number: u32| folder.path().join(number.to_string());
        (0..45).for_each(|number| symlink((number + 1).to_string(), at(number)).unwrap());
        assert!(replace(&at(0), b"x").is_err());
        replace(&at(10), b"x").unwrap();
        assert_eq!((fs::read(at(45)).unwrap(), read(at(10), 9).unwrap()), (b"x".to_vec(), b"x".to_vec()));
    }
}
