// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest's root: this program as `/init`, its job, the modules that the job needs, for loads also the
//! programs that make them; each program with its libraries. Nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use cpio::NewcBuilder;

use crate::architecture::Architecture;
use crate::job::{GuestJob, JOB, PROGRAM};
use crate::{Error, Result, parts, store};

/// Where modules lie in a guest.
const MODULES: &str = "modules";

const FILE: u32 = 0o100_755;
const FOLDER: u32 = 0o040_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// The program that guests of an architecture run as init: `isolator-ARCHITECTURE`; where there is none this
/// one, if it is static and of that architecture.
pub fn guest_program(architecture: Architecture) -> Result<PathBuf> {
    let name = format!("isolator-{architecture}");
    if let Some(program) = parts::find(&name) {
        return Ok(program);
    }
    let own = std::env::current_exe().map_err(|e| Error::io("find", Path::new("this program"), &e))?;
    if cfg!(target_env = "musl") && architecture == Architecture::of_this_program() {
        return Ok(own);
    }
    let cure = "run make lab, or put the static binary of that architecture there";
    Err(Error::on(
        "run guests",
        format!("of {architecture}"),
        format!("there is no {}", own.with_file_name(name).display()),
        cure,
    ))
}

/// The content of a guest besides its job; all of it files of this machine.
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    /// Its init.
    pub program: &'a Path,
    /// Modules that init loads.
    pub modules: Vec<PathBuf>,
    /// Modules that only lie there.
    pub carried: Vec<PathBuf>,
    /// Other programs and their libraries, which lie where they lie here.
    pub programs: Vec<PathBuf>,
    /// A program to be run, which lies at [`PROGRAM`]: a guest mounts over `/tmp` and others.
    pub run: Option<&'a Path>,
    /// A folder whose files lie in the guest's root as they lie in it.
    pub laid: Option<&'a Path>,
}

/// The bytes of an initramfs; the job in it names the modules as the guest finds them.
pub fn build(parts: &Parts<'_>, job: &GuestJob) -> Result<Vec<u8>> {
    let read = |path: &Path| crate::files::bytes(path).map_err(|e| Error::io("read", path, &e));
    let as_here = |path: &Path| path.display().to_string().trim_start_matches('/').to_string();
    let mut files = vec![("init".to_string(), read(parts.program)?)];
    for module in parts.modules.iter().chain(&parts.carried) {
        let name = format!("{MODULES}/{}", module.file_name().unwrap_or_default().to_string_lossy());
        files.push((name, read(module)?));
    }
    let modules = files[1..=parts.modules.len()].iter().map(|(name, _)| format!("/{name}")).collect();
    let mut programs: BTreeSet<PathBuf> = parts.programs.iter().cloned().collect();
    programs.extend(libraries(parts.program));
    programs.extend(parts.run.map(libraries).unwrap_or_default());
    for path in &programs {
        files.push((as_here(path), read(path)?));
    }
    if let Some(program) = parts.run {
        files.push((PROGRAM.trim_start_matches('/').to_string(), read(program)?));
    }
    for path in parts.laid.map_or_else(|| Ok(Vec::new()), store::files_below)? {
        let name = path.strip_prefix(parts.laid.unwrap_or(&path)).unwrap_or(&path);
        files.push((name.display().to_string(), read(&path)?));
    }
    let job = GuestJob { modules, ..job.clone() };
    let text = serde_json::to_vec(&job).map_err(|e| Error::on("write", JOB, e, "report this"))?;
    files.push((JOB.trim_start_matches('/').to_string(), text));
    let mut folders = ["dev", "run", "tmp"].map(str::to_string).into_iter().collect::<BTreeSet<_>>();
    for (name, _) in &files {
        folders.extend(Path::new(name).ancestors().skip(1).map(|folder| folder.display().to_string()));
    }
    folders.remove("");
    // A folder sorts before what is in it, and must be there first.
    let entries = folders.iter().map(|folder| entry(folder, FOLDER, Vec::new()));
    // A program that finds its standard files closed, since the kernel has no console, opens the second.
    let devices = [("dev/console", 5, 1), ("dev/null", 1, 3)].map(|(name, major, minor)| {
        let device = NewcBuilder::new(name).mode(CHARACTER_DEVICE).rdev_major(major).rdev_minor(minor);
        (device, Cursor::new(Vec::new()))
    });
    let files = files.into_iter().map(|(name, bytes)| entry(&name, FILE, bytes));
    let entries = entries.chain(devices).chain(files);
    cpio::write_cpio(entries, Vec::new()).map_err(|e| Error::on("make", "an initramfs", e, "report this"))
}

/// Those of the programs `names` that this machine has, with the libraries that they need, by their paths
/// here.
pub fn programs(names: &[&str]) -> Vec<PathBuf> {
    let mut files = BTreeSet::new();
    for name in names {
        let places = ["/usr/bin", "/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(name));
        let Some(program) = places.into_iter().find(|path| path.is_file()) else { continue };
        files.extend(libraries(&program));
        files.insert(program);
    }
    files.into_iter().collect()
}

/// The libraries of a program of this machine, and its loader; none where it is static.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Ok(output) = Command::new("ldd").arg(program).output() else { return Vec::new() };
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`, and the loader's own path.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter(|line| line.contains("(0x"))
        .flat_map(|line| line.split_whitespace().filter(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

fn entry(name: &str, mode: u32, bytes: Vec<u8>) -> (NewcBuilder, Cursor<Vec<u8>>) {
    (NewcBuilder::new(name).mode(mode), Cursor::new(bytes))
}

/// The files of those modules that a package has as files, in the order given; the others are built into its
/// kernel. A package carries no list of dependencies (depmod makes that when it is installed): name them too,
/// first.
pub fn modules(folder: Option<&Path>, names: &[&str]) -> Vec<PathBuf> {
    names.iter().filter_map(|name| find(folder?, name)).collect()
}

/// The file of a module below a folder, whichever way it is compressed.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).ok()?.flatten() {
            let path = entry.path();
            let file = entry.file_name().to_string_lossy().replace('-', "_");
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if file.split_once('.').is_some_and(|(stem, end)| stem == name && end.starts_with("ko")) {
                return Some(path);
            }
        }
    }
    None
}
