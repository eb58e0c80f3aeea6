// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules loaded and unloaded: pages become code and are freed, and both are told to every CPU.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use rustix::system::{delete_module, finit_module};

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{COMPRESSED, Result};

pub const MODULE_LOAD: StormKind = StormKind {
    name: "module-load",
    about: "loads a small kernel module and unloads it",
    rounds: 8,
    pace: Duration::from_millis(300),
    carried: &[NAME],
    ready: |_| Ok(Box::new(Module(file()?))),
    ..StormKind::USUAL
};

/// A checksum: it needs no other module, and nothing uses it.
const NAME: &str = "crc7";

struct Module(PathBuf);

fn file() -> Result<PathBuf> {
    let files = fs::read_dir("/modules")?.flatten().map(|entry| entry.path());
    let mut files = files.filter(|path| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{NAME}.ko")))
    });
    Ok(files.next().ok_or_else(|| format!("the kernel's package has no module {NAME}"))?)
}

/// Whether it is loaded.
fn there() -> Result<bool> {
    Ok(fs::read_to_string("/proc/modules")?.lines().any(|line| line.starts_with(&format!("{NAME} "))))
}

impl Storm for Module {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        let flags = if self.0.extension().is_some_and(|end| end == "ko") { 0 } else { COMPRESSED };
        finit_module(File::open(&self.0)?, c"", flags).map_err(|e| format!("loading {NAME}: {e}"))?;
        if !there()? {
            return Err(format!("{NAME} is not there after loading").into());
        }
        delete_module(c"crc7", libc::O_NONBLOCK).map_err(|e| format!("unloading {NAME}: {e}"))?;
        Ok(())
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        if there()? {
            return Err(format!("{NAME} is still there").into());
        }
        Ok(format!("{NAME} loaded, seen and unloaded {rounds} times"))
    }
}
