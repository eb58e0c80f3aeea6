// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the programs beside this test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::run::Language;

/// The command of a language's program; else the reason why it cannot be built here.
pub fn program(language: Language) -> Result<Command, String> {
    match language {
        Language::C => compiled("cc", "loops.c").map(Command::new),
        Language::Cpp => compiled("c++", "sleeps.cpp").map(real_time),
        // Cargo builds an example beside the tests.
        Language::Rust => Ok(real_time(folder().join("examples/sleeps"))),
        Language::Python => {
            let is_there = Command::new("python3").arg("--version").output().is_ok();
            let mut command = real_time("python3".into());
            command.arg(source("sleeps.py"));
            if is_there { Ok(command) } else { Err("it needs python3".into()) }
        }
    }
}

/// The command of the program with cycles between two of its places, in C or else in Rust; else the reason
/// why it cannot be built here.
pub fn steps(is_c: bool) -> Result<Command, String> {
    match is_c {
        true => compiled("cc", "steps.c").map(Command::new),
        false => Ok(real_time(folder().join("examples/steps"))),
    }
}

/// The command of a 32-bit program; else the reason why it cannot be built here.
#[allow(dead_code, reason = "an example shares this file")]
pub fn of_32_bits() -> Result<Command, String> {
    let program = folder().join("compat-c");
    let built = Command::new("cc")
        .args(["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-O2", "-o"])
        .args([&program, &source("compat.c")])
        .output()
        .map_err(|error| format!("it needs cc ({error})"))?;
    let why = || format!("cc makes no 32-bit program: {}", String::from_utf8_lossy(&built.stderr));
    built.status.success().then(|| Command::new(&program)).ok_or_else(why)
}

/// The command of a program of Go; else the reason why it cannot be built here.
#[allow(dead_code, reason = "an example shares this file")]
pub fn of_go() -> Result<Command, String> {
    let program = folder().join("sleeps-go");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source("sleeps.go")])
        .env("GOTOOLCHAIN", "local")
        .output()
        .map_err(|error| format!("it needs go ({error})"))?;
    let why = || format!("go builds nothing: {}", String::from_utf8_lossy(&built.stderr));
    built.status.success().then(|| Command::new(&program)).ok_or_else(why)
}

/// A program that does not set a real-time policy itself gets one: else on a busy machine the result would
/// depend on other programs.
fn real_time(program: PathBuf) -> Command {
    if Command::new("chrt").args(["-f", "40", "true"]).status().is_ok_and(|status| status.success()) {
        let mut command = Command::new("chrt");
        command.args(["-f", "40"]).arg(program);
        return command;
    }
    Command::new(program)
}

/// Cargo's folder for what it builds.
fn folder() -> PathBuf {
    let here = std::env::current_exe().expect("this program lies somewhere");
    here.parent().and_then(Path::parent).expect("Cargo puts it into a folder of a folder").into()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The programs that this process has built.
static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Built once by each process, and replaced by a rename: another process may run it.
fn compiled(compiler: &str, name: &str) -> Result<PathBuf, String> {
    let program = folder().join(name.replace('.', "-"));
    let source = source(name);
    // A guest of the lab has the program, and neither its source nor a compiler.
    if !source.exists() && program.exists() {
        return Ok(program);
    }
    let mut all_built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if all_built.contains(&program) {
        return Ok(program);
    }
    let new = program.with_extension(std::process::id().to_string());
    let built = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&new, &source])
        .output()
        .map_err(|error| format!("it needs {compiler} ({error})"))?;
    assert!(built.status.success(), "{compiler} refused {name}: {}", String::from_utf8_lossy(&built.stderr));
    std::fs::rename(&new, &program).expect("a file can be renamed within its folder");
    all_built.insert(program.clone());
    Ok(program)
}
