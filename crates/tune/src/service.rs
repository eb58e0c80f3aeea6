// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of systemd that a plan may write: their files, and what a real-time service gets.

use std::str::FromStr;

use machine::CpuSet;

use crate::action::{Action, ActionKind};

/// The slice of the isolated CPUs.
pub const SLICE: &str = "isolator.slice";
/// Where units of the machine lie.
pub(crate) const FOLDER: &str = "/etc/systemd/system";
/// The service manager's own settings.
const MANAGER: &str = "/etc/systemd/system.conf.d";
/// A drop-in of ours.
pub(crate) const DROP_IN: &str = "50-isolator.conf";
/// The settings of a service: a real-time priority, and CPUs where any are isolated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceValue {
    /// The priority of SCHED_FIFO.
    pub priority: u32,
    /// Its CPUs.
    pub cpus: Option<CpuSet>,
}

impl std::fmt::Display for ServiceValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "fifo {}", self.priority)?;
        self.cpus.as_ref().map_or(Ok(()), |cpus| write!(out, " {cpus}"))
    }
}

impl FromStr for ServiceValue {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let words: Vec<&str> = text.split(' ').collect();
        let (priority, cpus) = match words[..] {
            ["fifo", priority] => (priority, None),
            ["fifo", priority, cpus] => (priority, Some(cpus.parse::<CpuSet>().map_err(drop)?)),
            _ => return Err(()),
        };
        let priority = priority.parse().ok().filter(|priority| (1..=98).contains(priority)).ok_or(())?;
        let value = ServiceValue { priority, cpus: cpus.filter(|cpus| !cpus.is_empty()) };
        // One way to write it.
        if value.to_string() == text { Ok(value) } else { Err(()) }
    }
}

/// Whether a name is that of a service; it becomes part of a path.
pub fn is_service(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || ":_.@-".contains(letter);
    name.strip_suffix(".service").is_some_and(|stem| {
        stem.len() <= 200
            && stem.starts_with(|first: char| first.is_ascii_alphanumeric())
            && stem.chars().all(letter)
    })
}

/// The file of an action; none where it writes no unit.
pub fn file(action: &Action) -> Option<String> {
    Some(match action.kind {
        ActionKind::RealTimeSlice => format!("{FOLDER}/{SLICE}"),
        ActionKind::ManagerAffinity => format!("{MANAGER}/{DROP_IN}"),
        ActionKind::Service => format!("{FOLDER}/{}.d/{DROP_IN}", action.target),
        _ => return None,
    })
}

/// Whether a path is that of such a file, or its folder where we may make it.
pub fn is_ours(path: &str) -> bool {
    let service = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let service = service.and_then(|rest| rest.strip_suffix(&format!("/{DROP_IN}")).or(Some(rest)));
    path == format!("{FOLDER}/{SLICE}")
        || [MANAGER.to_string(), format!("{MANAGER}/{DROP_IN}")].contains(&path.to_string())
        || service.and_then(|folder| folder.strip_suffix(".d")).is_some_and(is_service)
}
