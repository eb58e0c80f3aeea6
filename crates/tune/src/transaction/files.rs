// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are replaced as a whole: written beside, synced, renamed, their folder synced, read back.
//!
//! The new file has permissions, owner and attributes of the one that is there. One that has several names,
//! or attributes that no other file can be given, is written over instead: a power cut may then leave it half
//! written, which [`mixed`] tells, and the record has both texts.

use std::io;

use crate::record::kept::Kept;
use crate::system::{SUFFIX, Stat, System, failed, folder};
use crate::{Error, Result};

/// Puts `kept` at `path`, or with `None` takes the file away; another program never sees half of it.
pub fn replace(system: &mut dyn System, path: &str, kept: Option<&Kept>) -> Result<()> {
    match kept {
        Some(kept) => put(system, path, kept.text.as_bytes(), kept.stat(), false),
        None => remove(system, path),
    }
}

/// As [`replace`], on the way back: a full medium does not stop it, and the file's time is the old one again.
pub fn give_back(system: &mut dyn System, path: &str, kept: Option<&Kept>) -> Result<()> {
    let Some(kept) = kept else { return remove(system, path) };
    put(system, path, kept.text.as_bytes(), kept.stat(), true)?;
    if let Some(changed_ns) = kept.changed_ns {
        // A file system that does not keep it is no failure.
        let _ = system.set_changed(&real(system, path), changed_ns);
    }
    Ok(())
}

/// Puts bytes in place of those of a file that is there, also on a full medium.
pub fn put_back(system: &mut dyn System, path: &str, bytes: &[u8]) -> Result<()> {
    put(system, path, bytes, Kept::new("", None).stat(), true)
}

/// Puts bytes in place of those of a file that is there, and never over them: a power cut leaves the old or
/// the new ones.
pub fn put_whole(system: &mut dyn System, path: &str, bytes: &[u8]) -> Result<()> {
    let real = real(system, path);
    match beside(system, &real, bytes, Kept::new("", None).stat()) {
        Ok(true) => read_back(system, path, &real, bytes),
        Ok(false) => Err(Error::new(
            format!("replace {path}"),
            "it has several names, or attributes that another file cannot have",
            "take its other names away, or make the change by hand",
        )),
        Err(error) => Err(failed("write", path, &error)),
    }
}

/// A link stays a link: the file it leads to is replaced.
fn real(system: &dyn System, path: &str) -> String {
    system.real_path(path).unwrap_or_else(|_| path.to_string())
}

fn remove(system: &mut dyn System, path: &str) -> Result<()> {
    let real = real(system, path);
    match system.remove(&real) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", path, &error));
        }
        _ => {}
    }
    system.sync_folder(folder(&real)).map_err(|error| failed("remove", path, &error))
}

fn put(system: &mut dyn System, path: &str, bytes: &[u8], new: Stat, without_space: bool) -> Result<()> {
    let real = real(system, path);
    let mut over = system.stat(&real).is_ok_and(|stat| !stat.folder && stat.names > 1);
    if !over {
        match beside(system, &real, bytes, new) {
            Ok(done) => over = !done,
            Err(error) if without_space && is_full(&error) && system.stat(&real).is_ok() => over = true,
            Err(error) => return Err(failed("write", path, &error)),
        }
    }
    if over {
        let written = system.overwrite(&real, bytes).and_then(|()| system.sync(&real));
        written.map_err(|error| failed("write", path, &error))?;
    }
    read_back(system, path, &real, bytes)
}

fn read_back(system: &dyn System, path: &str, real: &str, bytes: &[u8]) -> Result<()> {
    match system.read(real) {
        Ok(read) if read == bytes => Ok(()),
        Ok(_) => Err(Error::new(
            format!("write {path}"),
            "it reads back other bytes",
            "check the medium and try again",
        )),
        Err(error) => Err(failed("read back", path, &error)),
    }
}

/// Writes a file beside and puts it in place; whether it could be made like the one that is there.
fn beside(system: &mut dyn System, real: &str, bytes: &[u8], new: Stat) -> io::Result<bool> {
    let Some(beside) = system.write_beside(real, bytes, new)? else { return Ok(false) };
    let placed = system.sync(&beside).and_then(|()| system.rename(&beside, real));
    if let Err(error) = placed {
        let _ = system.remove(&beside);
        return Err(error);
    }
    system.sync_folder(folder(real)).map(|()| true)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether `now` is what a power cut leaves of a file in which `new` was written over `old`: each sector is
/// of one of them, or was never written.
pub fn mixed(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    const SECTOR: usize = 512;
    let sector = |bytes: &[u8], at: usize| {
        bytes.get(at..).map_or(Vec::new(), |rest| rest[..rest.len().min(SECTOR)].to_vec())
    };
    let lengths = [old.len(), new.len()];
    lengths.contains(&now.len())
        && (0..now.len()).step_by(SECTOR).all(|at| {
            let here = sector(now, at);
            let of = |bytes: &[u8]| {
                let other = sector(bytes, at);
                let shared = other.len().min(here.len());
                here[..shared] == other[..shared] && here[shared..].iter().all(|byte| *byte == 0)
            };
            of(old) || of(new)
        })
}

/// Removes what a process that died left beside `path`.
pub fn tidy(system: &mut dyn System, path: &str) {
    let real = real(system, path);
    let folder = folder(&real).to_string();
    let Some(name) = real.rsplit('/').next() else { return };
    // An older program put it under a name without a number.
    let ours = |other: &String| {
        let middle = other.strip_prefix(name).and_then(|rest| rest.strip_suffix(SUFFIX));
        middle.is_some_and(|middle| {
            let number = middle.strip_prefix('.').unwrap_or_default();
            middle.is_empty() || (number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
        })
    };
    for left in system.names(&folder).unwrap_or_default().iter().filter(|name| ours(name)) {
        let _ = system.remove(&format!("{}/{left}", folder.trim_end_matches('/')));
    }
}

/// Makes a folder and those above it.
pub fn make_folders(system: &mut dyn System, path: &str) -> Result<()> {
    if path == "/" || system.stat(path).is_ok_and(|stat| stat.folder) {
        return Ok(());
    }
    make_folders(system, folder(path))?;
    let made = match system.make_folder(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => system.sync_folder(folder(path)),
    };
    made.map_err(|error| failed("make", path, &error))
}

/// The nearest folder of `path` that exists.
pub fn nearest_folder(system: &dyn System, path: &str) -> String {
    let mut at = folder(path);
    while at != "/" && system.stat(at).is_err() {
        at = folder(at);
    }
    at.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::memory::{InjectedFault, MemoryMachine, PowerCut};

    fn text(system: &MemoryMachine, path: &str) -> String {
        String::from_utf8(system.read(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_with_two_names_keeps_both() {
        let mut system = MemoryMachine::default();
        system.put("/etc/a", b"old\n");
        system.link("/etc/a", "/etc/b");
        replace(&mut system, "/etc/a", Some(&Kept::new("new\n", None))).unwrap();
        assert_eq!((text(&system, "/etc/a"), text(&system, "/etc/b")), ("new\n".into(), "new\n".into()));
        assert_eq!(text(&system.after_power_cut(PowerCut::Everything), "/etc/b"), "new\n");
    }

    #[test]
    fn giving_back_needs_no_space_and_replacing_does() {
        let mut system = MemoryMachine::default();
        system.put("/etc/a", b"longer\n");
        system.fault = Some((0, InjectedFault::Full));
        let short = Kept { changed_ns: Some(7), ..Kept::new("short\n", None) };
        assert!(replace(&mut system, "/etc/a", Some(&short)).is_err());
        give_back(&mut system, "/etc/a", Some(&short)).unwrap();
        assert_eq!(text(&system, "/etc/a"), "short\n");
        assert_eq!(system.stat("/etc/a").unwrap().changed_ns, 7);
    }

    #[test]
    fn tells_a_file_half_written_over_from_one_changed_by_others() {
        let (old, new) = ("o".repeat(1500), "n".repeat(2000));
        let (old, new) = (old.as_bytes(), new.as_bytes());
        assert!(mixed(old, old, new) && mixed(new, old, new));
        assert!(mixed(&[&new[..512], &old[512..]].concat(), old, new));
        assert!(mixed(&[&old[..1024], &new[1024..]].concat(), old, new));
        assert!(mixed(&[old, &[0; 500]].concat(), old, new));
        assert!(!mixed(&[&new[..512], b"x", &old[513..]].concat(), old, new));
        assert!(!mixed(&old[..1499], old, new));
        assert!(!mixed(b"", old, new));
    }

    #[test]
    fn text_that_is_no_utf_8_comes_back_to_the_byte() {
        let mut system = MemoryMachine::default();
        let bytes = b"caf\xe9 \xff\x80 ours\n";
        system.put("/etc/a", bytes);
        let read = crate::record::kept::Lossless::of(&system, "/etc/a").unwrap().unwrap();
        assert_eq!(read.bytes(&read.text), bytes);
        assert_eq!(read.bytes(&read.text.replace(" ours", "")), b"caf\xe9 \xff\x80\n");
        assert_eq!(crate::record::kept::Lossless::of(&system, "/etc/b").unwrap(), None);
    }

    #[test]
    fn only_what_lies_beside_by_our_name_is_tidied() {
        let mut system = MemoryMachine::default();
        for name in
            ["a", "a.isolator-new", "a.0123456789abcdef.isolator-new", "ab.isolator-new", "a.x.isolator-new"]
        {
            system.put(&format!("/etc/{name}"), b"");
        }
        tidy(&mut system, "/etc/a");
        assert_eq!(system.names("/etc").unwrap(), ["a", "a.x.isolator-new", "ab.isolator-new"]);
    }
}
