// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distribution, installed kernels, the root file system, the kernel's log, and the user's session.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution, as in `os-release`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Distribution {
    /// `ID` (`debian`, `ubuntu`, `rhel`, …).
    pub id: Option<String>,
    /// `ID_LIKE`, word by word.
    pub like: Vec<String>,
    /// `VERSION_ID`.
    pub version: Option<String>,
    /// `PRETTY_NAME`.
    pub name: Option<String>,
}

/// An installed kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Installed {
    /// Its release.
    pub release: String,
    /// Whether /boot has its image.
    pub image: bool,
    /// Whether /boot has its initrd.
    pub initrd: bool,
    /// Whether that initrd is older than the list of its modules; absent: unknown.
    pub initrd_is_older: Option<bool>,
    /// Whether its modules are there.
    pub modules: bool,
    /// Whether it is configured as a real-time kernel; absent: unknown.
    pub real_time: Option<bool>,
    /// Whether the root file system's driver is a module of it; absent: unknown.
    pub root_driver_is_module: Option<bool>,
}

/// The device of the root file system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RootDevice {
    /// The file system at `/`.
    pub source: Option<String>,
    /// Its file system.
    pub file_system: Option<String>,
    /// Drivers between it and the processor (`nvme`, `virtio_blk`, …).
    pub drivers: Vec<String>,
    /// Those drivers (and the file system) that are modules of the running kernel; absent: unknown.
    pub modules: Option<Vec<String>>,
}

/// Lines of the kernel's log that matter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Log")]
pub struct KernelLog {
    /// The file it was read from; absent: none.
    pub source: Option<String>,
    /// The reason why it could not be read, if it exists.
    pub unread: Option<String>,
    /// Whether it reaches back to the beginning, so that a line that is not here was never written.
    pub from_boot: bool,
    /// The lines, at most 200, without time stamps.
    pub lines: Vec<String>,
}

impl KernelLog {
    /// The lines that `pattern` means; `*` stands for anything.
    pub fn matching<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().map(String::as_str).filter(move |line| line_matches(pattern, line))
    }
}

/// The permissions of the user's session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Session")]
pub struct UserSession {
    /// Its user's number.
    pub uid: Option<u32>,
    /// Its user's name.
    pub user: Option<String>,
    /// Effective capabilities, as bits.
    pub capabilities: Option<u64>,
    /// Whether system calls are filtered (`Seccomp`): 0 no, 1 strict, 2 by a filter.
    pub seccomp: Option<u32>,
    /// Its present groups.
    pub groups: BTreeSet<u32>,
    /// Limits, by the kernel's name (`Max realtime priority`).
    pub limits: BTreeMap<String, SessionLimit>,
    /// Groups of the system that have to do with real time, or that `rules` name: number and members.
    pub known_groups: BTreeMap<String, (u32, Vec<String>)>,
    /// Lines of limits.conf and limits.d that name `rtprio`, `memlock`, `nice` or `rttime`, `file: line`.
    pub rules: Vec<String>,
    /// Whether no PAM reads limits of a folder here; no part of documents.
    #[serde(skip)]
    pub without_limits_folder: bool,
    /// The copy of this program that has capabilities; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<ProgramCopy>,
}

impl UserSession {
    /// Whether it has the capability with this number (capabilities(7)).
    pub fn capable(&self, number: u32) -> Option<bool> {
        self.capabilities.map(|bits| bits & (1 << number) != 0)
    }
}

/// How the copy of this program that has capabilities compares with the installed program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum ProgramCopy {
    /// They are the same.
    Same,
    /// They differ.
    Differs {
        /// The installed program.
        installed: String,
    },
    /// They could not be compared.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// A limit of the session; absent: unlimited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Limit")]
pub struct SessionLimit {
    /// The limit in force.
    pub soft: Option<u64>,
    /// How far it may be raised.
    pub hard: Option<u64>,
}

/// Whether `line` of a log is one that `pattern` means; `*` stands for anything, and both ends are open.
pub fn line_matches(pattern: &str, line: &str) -> bool {
    let mut rest = line;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_lines_of_the_log() {
        let line = "[    0.0] NO_HZ: Full dynticks CPUs: 2-3.";
        assert!(line_matches("NO_HZ: Full dynticks CPUs: *", line));
        assert!(line_matches("NO_HZ:*CPUs", line));
        assert!(!line_matches("CPUs*NO_HZ", line));
        assert!(!line_matches("Housekeeping", line));
    }
}
