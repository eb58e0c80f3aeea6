// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every test of the library needs.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of this crate.
pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The static library, which lies beside the tests; cargo gives it a hash, and of several the newest was built with them.
pub fn archive() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(tests.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let archives = files.filter(|path| name(path).starts_with("libisolator-") && name(path).ends_with(".a"));
    archives.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap()
}

/// What a command printed, which must succeed; `None`, with a word, where there is no such command.
#[track_caller]
pub fn output(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(output) => {
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(output.status.success(), "{command:?}: {said}");
            Some(said)
        }
        Err(error) => {
            println!("skipped: no {} here: {error}", command.get_program().to_string_lossy());
            None
        }
    }
}

/// The shared library, made in `folder`; `None` where there is no compiler.
pub fn shared(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("libisolator.so.0");
    output(Command::new(here("link")).arg(archive()).arg(&library)).map(|_| library)
}
