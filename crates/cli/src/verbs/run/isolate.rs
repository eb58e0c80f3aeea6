// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session for a program that knows nothing of it: libisolator is loaded with the program (LD_PRELOAD,
//! ld.so(8)) and starts the session before main, since only a thread itself can, and exec ends one.
//!
//! So the program must be dynamically linked for this machine and without privileges of its own. The session
//! is the main thread's and ends with it, or with another exec; threads and children have none.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use rt::isolation::{Isolator, Mask};
use rt::{Error, Result};

/// Tells the library to start a session, and its mask (`crates/libisolator/src/preload.rs`).
const VARIABLE: &str = "ISOLATOR_SESSION";

/// Folders of the library's file: that of `make install-lib`, and those of packages.
fn folders() -> [String; 3] {
    ["../lib".into(), format!("../lib/{}-linux-gnu", env::consts::ARCH), "../lib64".into()]
}

/// Program headers and the line of a script lie within the first so many bytes.
const HEAD: u64 = 64 << 10;

/// Has `command`, which runs `program`, start a session that defers what `names` name; or says why it cannot
/// be.
pub fn prepare(command: &mut Command, program: &OsStr, names: &str) -> Result<()> {
    Mask::named(names)?;
    takes_a_library(&found(program)?)?;
    let library = library()?;
    // Asked here, so that a kernel without an isolator is reported in this program's words.
    Isolator::open()?;
    let mut preload = OsString::from(library);
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload).env(VARIABLE, names);
    Ok(())
}

fn library() -> Result<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    let installed = folders().map(|folder| format!("{folder}/libisolator.so.1"));
    let beside = "libisolator.so".to_string();
    let refuse = |why: &str, cure| Error::new("isolate a program", why, cure);
    let place = std::iter::once(beside)
        .chain(installed)
        .map(|place| program.with_file_name(place))
        .find(|place| place.is_file())
        .ok_or_else(|| refuse("libisolator.so is not beside this one", "make lib, or make install-lib"))?;
    // The linker's list is divided by them, and what it does not find it leaves out.
    if place.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)) {
        let why = format!("the path {} has a space or a colon", place.display());
        return Err(refuse(&why, "install it elsewhere"));
    }
    Ok(place)
}

/// The file that exec would run.
fn found(program: &OsStr) -> Result<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Ok(path.to_path_buf());
    }
    load::find_program(path).ok_or_else(|| {
        let what = format!("isolate {}", path.display());
        Error::new(what, "no such file or directory", "check the command after --")
    })
}

/// Refuses a program with which no library is loaded.
fn takes_a_library(program: &Path) -> Result<()> {
    let what = || format!("isolate {}", program.display());
    let read = |error| Error::os(what(), &error, "check the command after --");
    let mode = program.metadata().map_err(read)?.permissions().mode();
    let mut capability = [0u8; 64];
    let has_capabilities = rustix::fs::getxattr(program, "security.capability", &mut capability).is_ok();
    if mode & 0o6000 != 0 || has_capabilities {
        let why = "it has privileges of its own, so no library is loaded into it";
        return Err(Error::new(what(), why, "give them to this program's caller instead (setpriv, sudo)"));
    }
    let (file, ours) = (head(program).map_err(read)?, head(Path::new("/proc/self/exe")).map_err(read)?);
    if let Some(line) = file.strip_prefix(b"#!") {
        return interpreted(program, line);
    }
    if is_dynamic(&file, machine(&ours)) {
        return Ok(());
    }
    let why = "it is statically linked, or of another architecture, so no library is loaded into it";
    Err(Error::new(what(), why, "link it dynamically, or have it call isolator_session_start() itself"))
}

/// The interpreter of a script takes the library, unless it only looks for another one.
fn interpreted(script: &Path, line: &[u8]) -> Result<()> {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let interpreter = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let interpreter = Path::new(OsStr::from_bytes(interpreter));
    if interpreter.file_name() == Some(OsStr::new("env"))
        || head(interpreter).is_ok_and(|head| head.starts_with(b"#!"))
    {
        let what = format!("isolate {}", script.display());
        let why =
            format!("{} runs another program in its place, which ends a session", interpreter.display());
        return Err(Error::new(what, why, "name the interpreter yourself: -- python3 SCRIPT"));
    }
    takes_a_library(interpreter)
}

/// The first bytes of a file; none of a pipe or the like.
fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if path.is_file() {
        untrusted::open(path)?.take(HEAD).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// The processor that a program of 64 bits is for.
fn machine(file: &[u8]) -> Option<u16> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    Some(header.e_machine(header.endian().ok()?))
}

/// Whether the kernel starts the file by way of a dynamic linker, of the same processor as this program's
/// library.
fn is_dynamic(file: &[u8], ours: Option<u16>) -> bool {
    let asks = || {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let mut parts = header.program_headers(endian, file).ok()?.iter();
        Some(parts.any(|part| part.p_type(endian) == PT_INTERP))
    };
    machine(file).is_some() && machine(file) == ours && asks() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program file of so many bytes, whose only program header is of this type.
    fn elf(kind: u32, length: usize) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        for (at, value) in [(16, 2u8), (18, 62), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1)] {
            file[at] = value;
        }
        file[64..68].copy_from_slice(&kind.to_le_bytes());
        file.truncate(length);
        file
    }

    #[test]
    fn only_what_a_dynamic_linker_starts_takes_a_library() {
        let own = head(&env::current_exe().unwrap()).unwrap();
        assert!(is_dynamic(&own, machine(&own)));
        let x86 = Some(62);
        assert!(is_dynamic(&elf(PT_INTERP, 120), x86));
        assert!(!is_dynamic(&elf(PT_INTERP, 120), Some(183)));
        for (kind, length) in [(1, 120), (PT_INTERP, 100), (PT_INTERP, 60), (PT_INTERP, 4), (PT_INTERP, 0)] {
            assert!(!is_dynamic(&elf(kind, length), x86), "{kind} {length}");
        }
    }

    #[test]
    fn what_takes_no_library_is_refused_with_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let refused = || takes_a_library(&program).unwrap_err().to_string();
        assert!(
            refused().ends_with("no such file or directory; check the command after --"),
            "{}",
            refused()
        );
        std::fs::write(&program, elf(1, 120)).unwrap();
        assert!(refused().contains("it is statically linked"), "{}", refused());
        std::fs::write(&program, "#!/usr/bin/env python3\n").unwrap();
        assert!(refused().ends_with("name the interpreter yourself: -- python3 SCRIPT"), "{}", refused());
        std::fs::write(&program, "#! /bin/sh -e\n").unwrap();
        assert_eq!(takes_a_library(&program), Ok(()));
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        assert!(refused().contains("it has privileges of its own"), "{}", refused());
    }
}
