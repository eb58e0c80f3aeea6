// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers of every test of the library.
#![allow(dead_code, reason = "every file of tests uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of this crate.
pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The static library, which lies beside the tests; cargo gives it a hash, and of several the newest was
/// built with them.
pub fn archive() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(tests.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let archives = files.filter(|path| name(path).starts_with("libisolator-") && name(path).ends_with(".a"));
    archives.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap()
}

/// The output of a command, which must succeed; `None`, with a word, where there is no such command.
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
    let library = folder.join("libisolator.so.1");
    output(Command::new(here("link")).arg(archive()).arg(&library)).map(|_| library)
}

/// Compiles a program in C or C++ against the static library; `None` where there is no compiler.
pub fn compile(source: &Path, folder: &Path) -> Option<PathBuf> {
    let program = folder.join("program");
    let cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let (compiler, dialect) =
        if cpp { ("c++", ["-std=c++17", "-pedantic"]) } else { ("cc", ["-std=c11", "-D_GNU_SOURCE"]) };
    let mut compile = Command::new(compiler);
    compile.args(dialect).args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(here("include"));
    compile.args([source, &archive()]).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    output(&mut compile).map(|_| program)
}
