// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of finished guests, kept by the content of all that went into them.

use std::path::PathBuf;

use crate::qemu::{self, Guest, How, Left};
use crate::store::{digest, folder};
use crate::{Error, Result, frame};

/// The file of what a guest left, by the content of all that goes into it.
fn file(guest: &Guest<'_>) -> Result<PathBuf> {
    let scope = guest.scope.as_deref().unwrap_or_default();
    // The plugin's path is followed by commas and arguments; its bytes count, and so do those of its symbols.
    let files = scope.split(',').map(|part| part.trim_start_matches("symbols="));
    let files = files.filter_map(|file| crate::files::bytes(file).ok()).collect::<Vec<_>>();
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

/// The result of a guest: of an earlier run, where everything that goes into it is the same, else of a new
/// one; and whether it is an earlier run's, which its user is to be told.
pub fn kept(guest: &Guest<'_>, fresh: bool) -> Result<(Left, bool)> {
    let file = file(guest)?;
    if !fresh && let Some(left) = crate::files::bytes(&file).ok().and_then(|bytes| parse(&bytes)) {
        return Ok((left, true));
    }
    let left = qemu::run(guest)?;
    let mut bytes = Vec::new();
    let whole = [("console", left.console.as_bytes()), ("scope", left.scope.as_bytes())].into_iter();
    let frames = left.frames.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    for (name, part) in whole.chain(frames) {
        frame::write(&mut bytes, name, part).map_err(|e| Error::io("write", &file, &e))?;
    }
    evidence::writer::replace(&file, &bytes)?;
    Ok((left, false))
}

fn parse(bytes: &[u8]) -> Option<Left> {
    let mut frames = frame::read(bytes).into_iter();
    let text = |frame: Option<(String, Vec<u8>)>| String::from_utf8(frame?.1).ok();
    let (console, scope) = (text(frames.next())?, text(frames.next())?);
    Some(Left { console, scope, frames: frames.collect() })
}
