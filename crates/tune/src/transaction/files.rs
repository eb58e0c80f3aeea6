// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are replaced as a whole: written beside, synced, renamed, their folder synced, read back.

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::system::{self, Stat, System, folder};

/// A file's bytes, bits and owner, kept in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// SHA-256 of the bytes, hexadecimal.
    pub sha256: String,
    /// The bytes, which are text.
    pub text: String,
    /// Permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What a file's new bytes are called until they are in place.
pub const SUFFIX: &str = ".isolator-new";

impl Kept {
    /// New bytes for a file with the bits and owner of the old one, or those of an ordinary file of root.
    pub fn new(text: &str, like: Option<&Kept>) -> Kept {
        let (mode, uid, gid) = like.map_or((0o644, 0, 0), |kept| (kept.mode, kept.uid, kept.gid));
        Kept { sha256: sha256(text.as_bytes()), text: text.to_string(), mode, uid, gid }
    }

    /// What is at `path`; none where nothing is.
    pub fn of(system: &dyn System, path: &str) -> Result<Option<Kept>> {
        let text = match system::text(system, path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", path, &error)),
        };
        let stat = system.stat(path).map_err(|error| Error::io("read", path, &error))?;
        Ok(Some(Kept { mode: stat.mode, uid: stat.uid, gid: stat.gid, ..Kept::new(&text, None) }))
    }

    fn stat(&self) -> Stat {
        Stat { folder: false, mode: self.mode, uid: self.uid, gid: self.gid, changed_s: 0 }
    }
}

/// SHA-256, hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    machine::hexadecimal(&Sha256::digest(bytes))
}

/// Puts `kept` at `path`, or with `None` takes the file away; nobody ever sees half of it.
pub fn replace(system: &mut dyn System, path: &str, kept: Option<&Kept>) -> Result<()> {
    // A link stays a link: the file it leads to is replaced.
    let real = system.real_path(path).unwrap_or_else(|_| path.to_string());
    let fail = |what: &'static str| move |error: io::Error| Error::io(what, path, &error);
    let Some(kept) = kept else {
        match system.remove(&real) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail("remove")(error)),
            _ => {}
        }
        return system.sync_folder(folder(&real)).map_err(fail("remove"));
    };
    let beside = format!("{real}{SUFFIX}");
    let put = |system: &mut dyn System| {
        system.write(&beside, kept.text.as_bytes(), kept.stat())?;
        system.sync(&beside)?;
        system.rename(&beside, &real)?;
        system.sync_folder(folder(&real))
    };
    if let Err(error) = put(system) {
        let _ = system.remove(&beside);
        return Err(fail("write")(error));
    }
    match system.read(&real) {
        Ok(bytes) if bytes == kept.text.as_bytes() => Ok(()),
        Ok(_) => Err(Error::new(
            format!("write {path}"),
            "it reads back other bytes",
            "check the medium and try again",
        )),
        Err(error) => Err(fail("read back")(error)),
    }
}

/// Removes what a process that died left beside `path`.
pub fn tidy(system: &mut dyn System, path: &str) {
    let real = system.real_path(path).unwrap_or_else(|_| path.to_string());
    let beside = format!("{real}{SUFFIX}");
    if system.stat(&beside).is_ok() {
        let _ = system.remove(&beside);
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
    made.map_err(|error| Error::io("make", path, &error))
}

/// The nearest folder of `path` that exists.
pub fn nearest_folder(system: &dyn System, path: &str) -> String {
    let mut at = folder(path);
    while at != "/" && system.stat(at).is_err() {
        at = folder(at);
    }
    at.to_string()
}
