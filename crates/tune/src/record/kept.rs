// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file's bytes as a record keeps them, and as text that can be written back to the byte.

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::system::{self, Stat, System, failed, sha256};

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
    /// When its bytes last changed, in nanoseconds since 1970; absent in records of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_ns: Option<i64>,
}

impl Kept {
    /// New bytes for a file with the bits and owner of the old one, or those of an ordinary file of root.
    pub fn new(text: &str, like: Option<&Kept>) -> Kept {
        let (mode, uid, gid) = like.map_or((0o644, 0, 0), |kept| (kept.mode, kept.uid, kept.gid));
        Kept { sha256: sha256(text.as_bytes()), text: text.to_string(), mode, uid, gid, changed_ns: None }
    }

    /// The file at `path`; none where there is none.
    pub fn of(system: &dyn System, path: &str) -> Result<Option<Kept>> {
        let text = match system::text(system, path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", path, &error)),
        };
        let stat = system.stat(path).map_err(|error| failed("read", path, &error))?;
        let changed_ns = Some(stat.changed_ns);
        Ok(Some(Kept { mode: stat.mode, uid: stat.uid, gid: stat.gid, changed_ns, ..Kept::new(&text, None) }))
    }

    pub(crate) fn stat(&self) -> Stat {
        Stat { folder: false, mode: self.mode, uid: self.uid, gid: self.gid, names: 1, changed_ns: 0 }
    }
}

/// A file's bytes as text that can be written back to the byte, whatever they are: what is no UTF-8 is read
/// as Latin-1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lossless {
    /// The text.
    pub text: String,
    latin: bool,
}

impl Lossless {
    /// The file at `path`; none where there is none.
    pub fn of(system: &dyn System, path: &str) -> io::Result<Option<Lossless>> {
        match system.read(path) {
            Ok(bytes) => Ok(Some(match String::from_utf8(bytes) {
                Ok(text) => Lossless { text, latin: false },
                Err(error) => Lossless {
                    text: error.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
                    latin: true,
                },
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of `text`, which was made of this one by taking characters away.
    pub fn bytes(&self, text: &str) -> Vec<u8> {
        match self.latin {
            true => text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect(),
            false => text.as_bytes().to_vec(),
        }
    }
}
