// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that have the types of a kernel, in whatever form.
//!
//! BTF by itself, or in an archive of BTFHub (github.com/aquasecurity/btfhub-archive); an image of the kernel
//! with BTF, or with debugging symbols (DWARF) where pahole is there to translate them; and the kernel's
//! headers, of which the C compiler that is there makes such an image, as it makes a module.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use machine::sight;
use object::read::{Object, ObjectSection, ReadCache};
use untrusted::Scratch;

/// In the folder of this program.
const BESIDE: [&str; 2] = ["%.btf", "%.btf.tar.xz"];

/// The most bytes of types; a distribution's kernel has some 6 MiB.
const MOST: u64 = 64 << 20;

/// A module's source, whose debugging symbols have the structures that our programs read.
const SOURCE: &str = include_str!("headers.c");

/// The kernel's makefiles choose what the compiler knows: BTF (gcc 12), or else symbols that pahole
/// translates.
const MAKEFILE: &str = "obj-m := types.o\nccflags-y := $(call cc-option,-gbtf,-g)\n";

/// The files and folders that may have the types of a kernel, by its release.
pub fn places(release: &str) -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let beside = program.iter().filter_map(|program| program.parent());
    let beside = beside.flat_map(|folder| BESIDE.map(|name| folder.join(name.replace('%', release))));
    beside.chain(sight::types_elsewhere(release).map(PathBuf::from)).collect()
}

/// The types there, as BTF; otherwise the reason, in a sentence.
pub fn bytes(place: &Path) -> Result<Vec<u8>, String> {
    if place.is_dir() {
        return of_headers(place);
    }
    if place.ends_with("Makefile") {
        return of_headers(place.parent().unwrap_or(place));
    }
    if place.to_string_lossy().ends_with(".tar.xz") {
        return of_archive(place);
    }
    match sections(untrusted::open(place).map_err(text)?) {
        (Some(types), _) => checked(types),
        (None, true) => by_pahole(place),
        (None, false) => checked(untrusted::read(place, MOST).map_err(text)?),
    }
}

fn checked(types: Vec<u8>) -> Result<Vec<u8>, String> {
    match types.get(..2) {
        Some(head) if head == 0xeb9f_u16.to_ne_bytes() => Ok(types),
        Some(b"\x7fE") => Err("this image has neither BTF nor debugging symbols".into()),
        _ => Err("it is no BTF, and no image of a kernel".into()),
    }
}

/// An image's BTF, and whether it has symbols (DWARF).
fn sections(image: File) -> (Option<Vec<u8>>, bool) {
    let cache = ReadCache::new(image);
    let Ok(image) = object::File::parse(&cache) else { return (None, false) };
    let types = image.section_by_name(".BTF").filter(|section| section.size() <= MOST);
    let types = types.and_then(|section| section.data().ok().map(<[u8]>::to_vec));
    (types, image.section_by_name(".debug_info").is_some())
}

/// The types in an archive. A small one may have any number of bytes: tar ends where no reader is left.
fn of_archive(archive: &Path) -> Result<Vec<u8>, String> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--xz", "--to-stdout", "--file"]).arg(archive);
    tar.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error: io::Error| format!("tar: {}", text(error));
    let mut tar = tar.spawn().map_err(failed)?;
    let mut types = Vec::new();
    let read = tar.stdout.take().map(|out| out.take(MOST).read_to_end(&mut types));
    let ended = tar.wait().map_err(failed)?;
    read.transpose().map_err(failed)?;
    if ended.success() { checked(types) } else { Err("tar and xz cannot unpack it".into()) }
}

/// By the debugging symbols of an image.
fn by_pahole(image: &Path) -> Result<Vec<u8>, String> {
    let scratch = Scratch::temporary("isolator-types-").map_err(text)?;
    let mut pahole = Command::new("pahole");
    let types = scratch.named_path().map_err(text)?.join("btf");
    pahole.arg(format!("--btf_encode_detached={}", types.display())).arg("-J").arg(image);
    run(&mut pahole).map_err(|why| format!("its symbols need pahole 1.22 or later to be read: {why}"))?;
    checked(scratch.folder().read("btf", MOST).map_err(|error| format!("pahole wrote nothing: {error}"))?)
}

/// By the kernel's headers in a folder.
fn of_headers(headers: &Path) -> Result<Vec<u8>, String> {
    if !untrusted::is_there(headers.join("Makefile")) {
        return Err("this folder has no headers of a kernel".into());
    }
    // Their makefiles are programs, which run with our rights.
    untrusted::private(headers).map_err(text)?;
    let scratch = Scratch::temporary("isolator-types-").map_err(text)?;
    for (name, content) in [("types.c", SOURCE), ("Makefile", MAKEFILE)] {
        scratch.folder().replace(name, content.as_bytes()).map_err(text)?;
    }
    let folder = scratch.named_path().map_err(text)?;
    let mut make = Command::new("make");
    make.arg("-C").arg(headers).arg(format!("M={}", folder.display())).arg("types.o");
    run(&mut make).map_err(|why| format!("these headers need make and a C compiler: {why}"))?;
    bytes(&folder.join("types.o"))
}

fn text(error: io::Error) -> String {
    error::reason(&error)
}

/// Runs a command that prints nothing of worth; why it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let ran = command.stdin(Stdio::null()).env("LC_ALL", "C").output();
    let ran = ran.map_err(|error| format!("{name}: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(format!("{name}: {}", said.lines().next().unwrap_or("it failed").trim()))
}
