// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lab keeps between runs, by content: kernels, their symbols, finished guests. All of it can be deleted.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::qemu::{self, Guest, How, Left};
use crate::{Error, Result, frame};

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
    Ok(digest(&[&std::fs::read(file).map_err(|e| Error::io("read", file, &e))?]))
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

/// The file of what a guest left, by the content of all that goes into it.
fn file(guest: &Guest<'_>) -> Result<PathBuf> {
    let scope = guest.scope.as_deref().unwrap_or_default();
    // The plugin's path is followed by commas and arguments; its bytes count, and so do those of its symbols.
    let files = scope.split(',').map(|part| part.trim_start_matches("symbols="));
    let files = files.filter_map(|file| std::fs::read(file).ok()).collect::<Vec<_>>();
    let (version, how) = (qemu::version(guest.kernel.architecture)?, guest.how);
    let how = if how == How::default() { String::new() } else { format!(" {how:?}") };
    let mode = format!("{:?} {} {version}{how}", guest.mode, guest.cpus);
    let mut parts: Vec<&[u8]> =
        vec![guest.initramfs, guest.boot_line.as_bytes(), guest.kernel.digest.as_bytes(), mode.as_bytes()];
    parts.extend(files.iter().map(Vec::as_slice));
    Ok(folder("guests")?.join(digest(&parts)))
}

/// Has a guest run again where it is asked for again.
pub fn forget(guest: &Guest<'_>) -> Result<()> {
    let file = file(guest)?;
    std::fs::remove_file(&file).map_err(|e| Error::io("remove", &file, &e))
}

/// What a guest left: of the run before, where everything that goes into it is the same, else of a new one.
pub fn kept(guest: &Guest<'_>, fresh: bool) -> Result<Left> {
    let file = file(guest)?;
    if !fresh && let Some(left) = std::fs::read(&file).ok().and_then(|bytes| parse(&bytes)) {
        return Ok(left);
    }
    let left = qemu::run(guest)?;
    let mut bytes = Vec::new();
    let whole = [("console", left.console.as_bytes()), ("scope", left.scope.as_bytes())].into_iter();
    let frames = left.frames.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    for (name, part) in whole.chain(frames) {
        frame::write(&mut bytes, name, part).map_err(|e| Error::io("write", &file, &e))?;
    }
    evidence::writer::replace(&file, &bytes)?;
    Ok(left)
}

fn parse(bytes: &[u8]) -> Option<Left> {
    let mut frames = frame::read(bytes).into_iter();
    let text = |frame: Option<(String, Vec<u8>)>| String::from_utf8(frame?.1).ok();
    let (console, scope) = (text(frames.next())?, text(frames.next())?);
    Some(Left { console, scope, frames: frames.collect() })
}
