// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session for a program that knows nothing of it: libisolator is loaded with the program (LD_PRELOAD, ld.so(8)) and starts the session
//! before main, since only a thread itself can, and exec ends one.
//!
//! So the program must be dynamically linked and without privileges of its own. The session is the main thread's and ends with it; threads
//! and children have none.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf::{FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind};
use rt::isolation::{Isolator, Mask};
use rt::{Error, Result};

/// What tells the library to start a session, and what it is to defer (`crates/libisolator/src/preload.rs`).
const VARIABLE: &str = "ISOLATOR_SESSION";

/// The library, beside the program or where `make install-lib` puts it.
const LIBRARIES: [&str; 2] = ["libisolator.so", "../lib/libisolator.so.0"];

/// Has `command`, which runs `program`, start a session that defers what `names` name; or says why it cannot be.
pub fn prepare(command: &mut Command, program: &OsStr, names: &str) -> Result<()> {
    Mask::named(names)?;
    takes_a_library(&found(program)?)?;
    let library = library()?;
    // Asked here, so that a kernel without an isolator is said in this program's words.
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
    let places = LIBRARIES.map(|place| program.with_file_name(place));
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        Error::new(
            "isolate a program",
            "libisolator.so is not beside this one",
            "make lib, or make install-lib",
        )
    })
}

/// The file that exec would run.
fn found(program: &OsStr) -> Result<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Ok(path.to_path_buf());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let file = env::split_paths(&folders).map(|folder| folder.join(path)).find(|file| file.is_file());
    file.ok_or_else(|| {
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
    let file = std::fs::read(program).map_err(read)?;
    // A script is run by an interpreter, which takes the library.
    if file.starts_with(b"#!") || is_dynamic(&file) {
        return Ok(());
    }
    let why = "it is statically linked, so no library is loaded into it";
    Err(Error::new(what(), why, "link it dynamically, or have it call isolator_start() itself"))
}

/// Whether the kernel starts the file by way of a dynamic linker.
fn is_dynamic(file: &[u8]) -> bool {
    fn asks<T: FileHeader<Endian = Endianness>>(file: &[u8]) -> object::Result<bool> {
        let header = T::parse(file)?;
        let endian = header.endian()?;
        Ok(header.program_headers(endian, file)?.iter().any(|part| part.p_type(endian) == PT_INTERP))
    }
    match FileKind::parse(file) {
        Ok(FileKind::Elf64) => asks::<FileHeader64<Endianness>>(file).unwrap_or(false),
        Ok(FileKind::Elf32) => asks::<FileHeader32<Endianness>>(file).unwrap_or(false),
        _ => false,
    }
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
        assert!(is_dynamic(&std::fs::read(env::current_exe().unwrap()).unwrap()));
        assert!(is_dynamic(&elf(PT_INTERP, 120)));
        for (kind, length) in [(1, 120), (PT_INTERP, 100), (PT_INTERP, 60), (PT_INTERP, 4), (PT_INTERP, 0)] {
            assert!(!is_dynamic(&elf(kind, length)), "{kind} {length}");
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
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        assert_eq!(takes_a_library(&program), Ok(()));
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        assert!(refused().contains("it has privileges of its own"), "{}", refused());
    }
}
