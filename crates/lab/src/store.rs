// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab's store between runs, by content: kernels, their symbols, finished guests. All of it can be
//! deleted.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// The folder of `what` (`kernels`, `symbols`, `guests`) in the user's cache; made if it is not there.
pub fn folder(what: &str) -> Result<PathBuf> {
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .unwrap_or_else(std::env::temp_dir);
    let folder = cache.join("isolator/lab").join(what);
    std::fs::create_dir_all(&folder).map_err(|e| Error::io("make the folder", &folder, &e))?;
    Ok(folder)
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // Lengths go in too: ("ab", "c") is not ("a", "bc").
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    machine::hexadecimal(&hash.finalize())
}

/// The SHA-256 of a file.
pub fn digest_of(file: &Path) -> Result<String> {
    Ok(digest(&[&crate::files::bytes(file).map_err(|e| Error::io("read", file, &e))?]))
}

/// The files below a folder, in order; links are left out, and what git keeps.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(&at).map_err(|e| Error::io("read", &at, &e))?.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() != ".git" => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}
