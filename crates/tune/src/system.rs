// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as what changes it sees it: files, settings of the running kernel, tasks, commands.
//!
//! Every call that changes something is one moment at which power may fail or the medium may refuse; the
//! tests let each of them fail. Paths begin with `/` and are those of the machine, whatever folder it lies
//! in.

use std::io::{self, ErrorKind};

use error::Error;
use machine::CpuSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

#[cfg(test)]
pub(crate) mod memory;
mod real;

pub use real::Real;

/// The end of the name under which a file's new bytes lie until they are in place.
pub const SUFFIX: &str = ".isolator-new";

/// An input or output error on a path of the machine, with the cure that its kind suggests.
pub fn failed(what: &str, path: &str, error: &io::Error) -> Error {
    let cure = match error.kind() {
        ErrorKind::PermissionDenied => "run it as root".to_string(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space there and try again".to_string()
        }
        ErrorKind::ReadOnlyFilesystem => {
            let mounts = ["/boot/firmware", "/boot/efi", "/efi", "/boot"];
            let mount = mounts.into_iter().find(|mount| path.starts_with(mount)).unwrap_or("/");
            format!("make it writable, `mount -o remount,rw {mount}`, and try again")
        }
        ErrorKind::NotFound => "check that it exists".to_string(),
        _ => "look at the kernel's log and try again".to_string(),
    };
    Error::os(format!("{what} {path}"), error, cure)
}

/// A file's state beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Whether it is a folder.
    pub folder: bool,
    /// Permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// How many names it has.
    pub names: u64,
    /// When its bytes last changed, in nanoseconds since 1970.
    pub changed_ns: i64,
}

/// Owner, group and permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileAccess {
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
}

impl FileAccess {
    /// Those of the file at `path`.
    pub fn of(system: &dyn System, path: &str) -> io::Result<FileAccess> {
        let Stat { uid, gid, mode, .. } = system.stat(path)?;
        Ok(FileAccess { uid, gid, mode })
    }
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// Whether it ended with status 0.
    pub good: bool,
    /// Its output.
    pub output: Vec<u8>,
    /// Its complaint.
    pub complaint: String,
}

/// A machine that can be changed.
pub trait System {
    /// The bytes of a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// The names in a folder, sorted.
    fn names(&self, path: &str) -> io::Result<Vec<String>>;
    /// The state of a file; links are followed.
    fn stat(&self, path: &str) -> io::Result<Stat>;
    /// Where a path leads when its links are followed.
    fn real_path(&self, path: &str) -> io::Result<String>;
    /// Bytes that may still be written to the file system of `path`.
    fn free_bytes(&self, path: &str) -> io::Result<u64>;
    /// The CPUs that a task may use.
    fn affinity(&self, task: u32) -> io::Result<CpuSet>;

    /// SHA-256 of a file of any length, hexadecimal.
    fn digest(&self, path: &str) -> io::Result<String>;
    /// SHA-256 of the program that runs, hexadecimal, and its length.
    fn own_program(&self) -> io::Result<(String, u64)>;
    /// The attribute by which a file gives capabilities; empty where it gives none.
    fn file_capabilities(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Makes a file of a new name beside `path` and gives that name. It has these bytes, and permissions,
    /// owner and attributes of the file at `path`, or those of `new` where there is none. `None`: no
    /// other file can have them.
    fn write_beside(&mut self, path: &str, bytes: &[u8], new: Stat) -> io::Result<Option<String>>;
    /// Writes over the bytes of a file that is there. A power cut may leave some of the old ones.
    fn overwrite(&mut self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// Sets when a file's bytes last changed, in nanoseconds since 1970.
    fn set_changed(&mut self, path: &str, changed_ns: i64) -> io::Result<()>;
    /// Waits until a file's bytes are on the medium.
    fn sync(&mut self, path: &str) -> io::Result<()>;
    /// Gives a file another name, in place of one that has it.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Gives each of two files the other's name.
    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &str) -> io::Result<()>;
    /// Waits until a folder's names are on the medium.
    fn sync_folder(&mut self, path: &str) -> io::Result<()>;
    /// Makes a folder.
    fn make_folder(&mut self, path: &str) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&mut self, path: &str) -> io::Result<()>;
    /// Writes to a setting of the running kernel, in one call, without making the file.
    fn set(&mut self, path: &str, text: &str) -> io::Result<()>;
    /// Lets a task use these CPUs only.
    fn set_affinity(&mut self, task: u32, cpus: &CpuSet) -> io::Result<()>;
    /// Makes a copy of the program that runs, of a new name beside `path`, and gives that name. It has this
    /// owner, these permissions, and this attribute by which it gives capabilities.
    fn copy_own_beside(&mut self, path: &str, access: FileAccess, capabilities: &[u8]) -> io::Result<String>;
    /// Gives a file, or a device, another owner, group and permissions.
    fn set_access(&mut self, path: &str, access: FileAccess) -> io::Result<()>;
    /// Runs a command to its end.
    fn run(&mut self, command: &[String]) -> io::Result<CommandResult>;
}

/// A file's text; bytes that are no UTF-8 are an error, since we could not write them back.
pub fn text(system: &dyn System, path: &str) -> io::Result<String> {
    let read = || String::from_utf8(system.read(path)?).map_err(|_| io::Error::other("it is no UTF-8 text"));
    match irq_of_mask(path) {
        Some(irq) => settled(read, || drop(system.read(&format!("/sys/kernel/irq/{irq}/chip_name")))),
        None => read(),
    }
}

/// The interrupt whose CPUs this file sets.
pub fn irq_of_mask(path: &str) -> Option<u32> {
    path.strip_prefix("/proc/irq/")?.strip_suffix("/smp_affinity_list")?.parse().ok()
}

/// An interrupt's mask, read until two looks agree. Linux may set a new mask only when the interrupt comes
/// next, and the file shows the new one until then. At that moment Linux first clears the flag for this and
/// then sets the mask; a reader in between sees the mask before the change, or an empty one, since the file
/// takes no lock (6.12: `show_irq_affinity()`, `irq_move_masked_irq()`). Between two looks, `wait` takes the
/// interrupt's lock (`chip_name_show()`).
fn settled(read: impl Fn() -> io::Result<String>, wait: impl Fn()) -> io::Result<String> {
    let mut last = read()?;
    for _ in 0..8 {
        wait();
        let again = read()?;
        if again == last {
            break;
        }
        last = again;
    }
    Ok(last)
}

/// A file's text, with replacements for bytes that are no UTF-8: for what is shown and never written back,
/// such as names that processes gave themselves.
pub fn lossy(system: &dyn System, path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&system.read(path).ok()?).into_owned())
}

/// A file's text without surrounding space; none where it cannot be read.
pub fn word(system: &dyn System, path: &str) -> Option<String> {
    let text = text(system, path).ok()?;
    Some(text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace()).to_string())
}

/// The choice in brackets, `always [madvise] never`, or the text where there are none.
pub(crate) fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(word, _)| word)
}

/// The paths of a pattern, in which `*` stands for any name.
pub(crate) fn matching(system: &dyn System, pattern: &str) -> Vec<String> {
    let Some((folder, end)) = pattern.split_once('*') else { return vec![pattern.to_string()] };
    let names = system.names(folder.trim_end_matches('/')).unwrap_or_default();
    names.iter().filter(|name| name.ends_with(end)).map(|name| format!("{folder}{name}")).collect()
}

/// Whether a file is there.
pub fn stat_is_file(system: &dyn System, path: &str) -> bool {
    system.stat(path).is_ok_and(|stat| !stat.folder)
}

/// The folder of a path.
pub fn folder(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// SHA-256, hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    machine::hexadecimal(&Sha256::digest(bytes))
}
