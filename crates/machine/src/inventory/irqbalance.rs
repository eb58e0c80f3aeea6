// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the running irqbalance was told to leave alone, and which CPUs that spares.
//!
//! It looks at `IRQBALANCE_BANNED_CPUS`, a mask, first; then at `IRQBALANCE_BANNED_CPULIST`; and only where
//! neither is set does it spare the CPUs of `/sys/devices/system/cpu/isolated` and `nohz_full`. What it
//! cannot read bans what stood before the fault, and switches that detection off as well. Reference:
//! irqbalance, cputree.c (`setup_banned_cpus`), bitmap.c, v1.1.0 to v1.9.5 and what came until March 2026.
//! Limit: a user interface may have told it otherwise since it started.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Services, Thread, units};
use crate::CpuSet;
use crate::boot::shell::Variables;
use crate::snapshot::Isolation;
use crate::tree::Tree;

/// The variable that bans CPUs by a list; it is read since irqbalance 1.8.0.
pub const BANNED: &str = "IRQBALANCE_BANNED_CPULIST";
/// The older variable, a hexadecimal mask, which goes before it.
pub const BANNED_MASK: &str = "IRQBALANCE_BANNED_CPUS";

/// Files that distributions' units and scripts have it read.
const FILES: &[&str] = &["etc/default/irqbalance", "etc/sysconfig/irqbalance", "etc/irqbalance.env"];
const PROGRAMS: &[&str] = &["usr/sbin/irqbalance", "usr/bin/irqbalance", "sbin/irqbalance"];
/// Longest program that is looked through; it is some 100 KiB.
const PROGRAM_LIMIT: u64 = 4 << 20;
/// The highest CPU that it can name (its `NR_CPUS` is 4096).
const MOST: u32 = 4095;

/// The settings of the running irqbalance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Irqbalance {
    /// The source of that: its environment, or the files that its unit names.
    pub source: String,
    /// The reason why it is unknown, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// `IRQBALANCE_BANNED_CPUS`, where it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// `IRQBALANCE_BANNED_CPULIST`, where it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Whether the installed program reads the list; absent where the program could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_list: Option<bool>,
    /// Whether the installed program avoids isolated CPUs by default; absent if the program could not be
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detects: Option<bool>,
}

/// The CPUs that it leaves alone, and what decides that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spares {
    /// The CPUs.
    pub cpus: CpuSet,
    /// What decides.
    pub by: BannedBy,
    /// Whether all of the value that decides could be read as CPUs.
    pub whole: bool,
}

/// What decides which CPUs irqbalance leaves alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BannedBy {
    /// `IRQBALANCE_BANNED_CPUS`.
    Mask,
    /// `IRQBALANCE_BANNED_CPULIST`.
    List,
    /// Its own detection of isolated CPUs.
    Itself,
}

impl Irqbalance {
    /// The CPUs that it leaves alone on a machine with this isolation.
    pub fn spares(&self, isolation: &Isolation) -> Spares {
        let told = |by, (cpus, whole)| Spares { cpus, by, whole };
        match (&self.mask, &self.list) {
            (Some(mask), _) if !mask.is_empty() => told(BannedBy::Mask, mask_of(mask)),
            // An empty list bans nothing since March 2026; a version before that cannot be told from one
            // after it.
            (_, Some(list)) if self.reads_list != Some(false) => told(BannedBy::List, list_of(list)),
            // Up to 1.6.0 an empty mask bans nothing.
            (Some(_), _) if self.reads_list == Some(false) => told(BannedBy::Mask, (CpuSet::new(), true)),
            _ if self.detects == Some(false) => told(BannedBy::Itself, (CpuSet::new(), true)),
            _ => told(BannedBy::Itself, (isolation.isolated.or(&isolation.nohz_full), true)),
        }
    }
}

/// A mask as irqbalance reads it: groups of at most eight significant digits. What a fault leaves is what
/// stood before it.
fn mask_of(text: &str) -> (CpuSet, bool) {
    let mut groups: Vec<u32> = Vec::new();
    let mut whole = true;
    let text = text.trim();
    for group in text.strip_suffix(',').unwrap_or(text).split(',') {
        let digits = group.trim();
        let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u32::from_str_radix(digits, 16) {
            Ok(value) if valid => groups.push(value),
            _ => {
                whole = false;
                break;
            }
        }
    }
    let bits = groups.iter().rev().zip(0u32..).flat_map(|(group, place)| {
        (0..32).filter(move |bit| group & (1 << bit) != 0).map(move |bit| 32 * place + bit)
    });
    (bits.filter(|cpu| *cpu <= MOST).collect(), whole)
}

/// A list as irqbalance reads it: numbers and ranges. An empty item is CPU 0; what follows a fault is not
/// read.
fn list_of(text: &str) -> (CpuSet, bool) {
    let mut cpus = CpuSet::new();
    let text = text.trim();
    let items = text.strip_suffix(',').unwrap_or(text).split(',');
    for item in items.map(str::trim) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let number = |digits: &str| match digits.trim() {
            "" if item.is_empty() => Some(0),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse::<u32>().ok(),
            _ => None,
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last && last <= MOST => {
                cpus = cpus.or(&(first..=last).collect());
            }
            _ => return (cpus, false),
        }
    }
    (cpus, true)
}

/// What the irqbalance that runs was told; `None` where none runs.
pub(super) fn read(tree: &mut Tree, services: &Services, threads: &[Thread]) -> Option<Irqbalance> {
    if !services.runs("irqbalance") {
        return None;
    }
    let processes = processes(tree, threads);
    let told = processes.iter().find_map(|process| of_process(tree, *process));
    let mut told = told.unwrap_or_else(|| of_files(tree, services));
    let own = processes.first().map(|process| format!("proc/{process}/exe"));
    let places = own.iter().map(String::as_str).chain(PROGRAMS.iter().copied());
    if let Some(program) = places.into_iter().find_map(|path| tree.hint_head(path, PROGRAM_LIMIT)) {
        let has = |text: &str| program.windows(text.len()).any(|part| part == text.as_bytes());
        // A script that starts it says nothing.
        if has(BANNED_MASK) {
            told.reads_list = Some(has(BANNED));
            told.detects = Some(has("/sys/devices/system/cpu/isolated"));
        }
    }
    Some(told)
}

/// Processes of its unit, or root's of its name: any program may call itself so.
fn processes(tree: &Tree, threads: &[Thread]) -> Vec<u32> {
    let named = threads
        .iter()
        .filter(|thread| !thread.kernel && thread.id == thread.process && thread.name == "irqbalance");
    let named: Vec<u32> = named.map(|thread| thread.id).collect();
    let of_unit = ["sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/systemd"]
        .iter()
        .find_map(|mount| tree.hint(&format!("{mount}/system.slice/irqbalance.service/cgroup.procs")));
    let of_unit: Vec<u32> =
        of_unit.unwrap_or_default().lines().filter_map(|line| line.trim().parse().ok()).collect();
    let ours: Vec<u32> = named.iter().copied().filter(|id| of_unit.contains(id)).collect();
    if !ours.is_empty() {
        return ours;
    }
    let roots = |id: &u32| {
        let status = tree.hint(&format!("proc/{id}/status")).unwrap_or_default();
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
        uid.is_none_or(|uid| uid == "0")
    };
    named.into_iter().filter(roots).collect()
}

/// Its environment, of which the first of a name counts (`getenv`); one without anything was not captured.
fn of_process(tree: &Tree, process: u32) -> Option<Irqbalance> {
    let path = format!("proc/{process}/environ");
    let environment = tree.hint_bytes(&path).filter(|bytes| !bytes.is_empty())?;
    let value = |name: &str| {
        let mut values = environment
            .split(|byte| *byte == 0)
            .filter_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        values.next().map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let source = format!("/{path}");
    Some(Irqbalance { source, mask: value(BANNED_MASK), list: value(BANNED), ..Irqbalance::default() })
}

/// What the files say that its unit names, or where there is no unit, those that are usual.
fn of_files(tree: &Tree, services: &Services) -> Irqbalance {
    let of = |source: String, mut values: BTreeMap<String, String>| Irqbalance {
        source,
        mask: values.remove(BANNED_MASK),
        list: values.remove(BANNED),
        ..Irqbalance::default()
    };
    let unknown = |source: &str, why: String| Irqbalance {
        source: source.into(),
        unread: Some(why),
        ..Irqbalance::default()
    };
    match units::environment(tree, "irqbalance.service", &[BANNED, BANNED_MASK]) {
        Some(Ok(found)) => return of(found.files.join(", "), found.values),
        Some(Err(why)) => return unknown("irqbalance.service", why),
        None => {}
    }
    let by_systemd = services.active.contains("irqbalance");
    let mut found: Vec<Irqbalance> = Vec::new();
    for path in FILES {
        let Some(text) = tree.hint(path) else { continue };
        let values = if by_systemd { Ok(units::environment_file(&text)) } else { of_shell(&text) };
        match values {
            Ok(values) => found.push(of(format!("/{path}"), values.into_iter().collect())),
            Err(name) => {
                return unknown(&format!("/{path}"), format!("what {name} is only a shell can tell"));
            }
        }
    }
    let said = |one: &Irqbalance| one.mask.is_some() || one.list.is_some();
    match &found[..] {
        [] => unknown("/proc/PID/environ", "neither its environment nor its unit could be read".to_string()),
        [one] => one.clone(),
        several => match several.iter().filter(|one| said(one)).collect::<Vec<_>>()[..] {
            [] => several[0].clone(),
            [one] => one.clone(),
            [one, ..] => unknown(&one.source, "no unit says which of several files it reads".to_string()),
        },
    }
}

/// The assignments of a file that a script reads; an error is the variable that only a shell can tell.
fn of_shell(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut variables = Variables::default();
    variables.read(text);
    let mut values = Vec::new();
    for name in [BANNED, BANNED_MASK] {
        if variables.has(name) {
            values.push((name.to_string(), variables.get(name).ok_or(name)?.to_string()));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn reads_masks_and_lists_as_irqbalance_does() {
        let mask = |text: &str| {
            let (cpus, whole) = mask_of(text);
            format!("{cpus}{}", if whole { "" } else { "!" })
        };
        for (text, expected) in [
            ("00000001", "0"),
            ("0000fff0", "4-15"),
            ("1,00000000", "32"),
            (" ff ", "0-7"),
            ("0000000000000000000f", "0-3"),
            ("fff0,", "4-15"),
            ("0x3", "!"),
            ("fffffffff", "!"),
            ("f,x", "0-3!"),
            ("f,,1", "0-3!"),
            ("4-15", "!"),
        ] {
            assert_eq!(mask(text), expected, "{text}");
        }
        let list = |text: &str| {
            let (cpus, whole) = list_of(text);
            format!("{cpus}{}", if whole { "" } else { "!" })
        };
        for (text, expected) in [
            ("4-15", "4-15"),
            ("1,3-4,", "1,3-4"),
            (" 2 , 3 ", "2-3"),
            // Its parser takes an empty item for CPU 0.
            ("", "0"),
            (",5", "0,5"),
            ("4-3", "!"),
            ("-", "!"),
            ("4-", "!"),
            ("-4", "!"),
            ("1,4-3,7", "1!"),
            ("2-3-4", "!"),
            ("4-15 # cores", "!"),
            ("4-15# cores", "!"),
            ("all", "!"),
            ("0x4", "!"),
            ("4-15:1/2", "!"),
            ("2-4096", "!"),
            ("99999999999", "!"),
        ] {
            assert_eq!(list(text), expected, "{text}");
        }
    }

    fn irqbalance_of(files: &[(&str, &str)]) -> Irqbalance {
        let (_folder, mut tree) = made_of(&[&[("proc/sys/kernel/ostype", "Linux")], files].concat());
        let process = Thread { name: "irqbalance".into(), id: 700, process: 700, ..Thread::default() };
        let mut services = Services::default();
        services.processes.insert("irqbalance".into());
        if tree.exists("sys/fs/cgroup/system.slice/irqbalance.service") {
            services.active.insert("irqbalance".into());
        }
        read(&mut tree, &services, &[process]).unwrap()
    }

    #[test]
    fn the_environment_of_the_process_goes_before_files() {
        let file = ("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=9\n");
        let environ = "LANG=C\0IRQBALANCE_BANNED_CPULIST=2\0IRQBALANCE_BANNED_CPULIST=3\0";
        let seen = irqbalance_of(&[file, ("proc/700/environ", environ)]);
        assert_eq!((seen.list.as_deref(), seen.source.as_str()), (Some("2"), "/proc/700/environ"));
        assert_eq!(irqbalance_of(&[file, ("proc/700/environ", "LANG=C\0")]).list, None);
        // A copy of /proc has empty files.
        assert_eq!(irqbalance_of(&[file, ("proc/700/environ", "")]).list.as_deref(), Some("9"));
        // Another program of that name.
        let others =
            [file, ("proc/700/environ", environ), ("proc/700/status", "Uid:\t1000\t1000\t1000\t1000\n")];
        assert_eq!(irqbalance_of(&others).list.as_deref(), Some("9"));
    }

    #[test]
    fn reads_files_as_the_service_manager_does() {
        let file = |text| ("etc/default/irqbalance", text);
        let systemd = ("sys/fs/cgroup/system.slice/irqbalance.service/cgroup.procs", "700");
        let export = file("export IRQBALANCE_BANNED_CPULIST=2 # cores\n");
        assert_eq!(irqbalance_of(&[export]).list.as_deref(), Some("2"));
        assert_eq!(irqbalance_of(&[export, systemd]).list, None);
        let unit = ("lib/systemd/system/irqbalance.service", "[Service]\nEnvironmentFile=-/etc/irq.env\n");
        assert_eq!(irqbalance_of(&[export, unit]).list, None);
        let named = irqbalance_of(&[export, unit, ("etc/irq.env", "IRQBALANCE_BANNED_CPUS=3\n")]);
        assert_eq!((named.mask.as_deref(), named.list), (Some("3"), None));
        assert!(irqbalance_of(&[]).unread.is_some());
        assert!(irqbalance_of(&[file("IRQBALANCE_BANNED_CPULIST=$(cores)\n")]).unread.is_some());
        let two = [export, ("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPULIST=4\n")];
        assert!(irqbalance_of(&two).unread.is_some());
    }

    #[test]
    fn the_mask_goes_before_the_list_and_the_list_before_detection() {
        let isolation = Isolation {
            isolated: "4-5".parse().unwrap(),
            nohz_full: "6".parse().unwrap(),
            ..Isolation::default()
        };
        let spares = |mask: Option<&str>, list: Option<&str>, reads_list| {
            let told = Irqbalance {
                mask: mask.map(str::to_string),
                list: list.map(str::to_string),
                reads_list,
                ..Irqbalance::default()
            };
            let spares = told.spares(&isolation);
            (spares.by, spares.cpus.to_string())
        };
        assert_eq!(spares(None, None, None), (BannedBy::Itself, "4-6".into()));
        assert_eq!(spares(Some("1"), Some("4-6"), None), (BannedBy::Mask, "0".into()));
        assert_eq!(spares(Some(""), Some("4-6"), None), (BannedBy::List, "4-6".into()));
        assert_eq!(spares(Some(""), None, None), (BannedBy::Itself, "4-6".into()));
        assert_eq!(spares(Some(""), None, Some(false)), (BannedBy::Mask, String::new()));
        assert_eq!(spares(None, Some(""), None), (BannedBy::List, "0".into()));
        assert_eq!(spares(None, Some("9"), Some(false)), (BannedBy::Itself, "4-6".into()));
    }

    #[test]
    fn the_program_itself_says_what_it_reads() {
        let list = ("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=2\n");
        let program = |text| ("usr/sbin/irqbalance", text);
        let old = irqbalance_of(&[
            list,
            program("\x7fELF IRQBALANCE_BANNED_CPUS\0/sys/devices/system/cpu/isolated\0"),
        ]);
        assert_eq!((old.reads_list, old.detects), (Some(false), Some(true)));
        let new = irqbalance_of(&[list, program("IRQBALANCE_BANNED_CPUS\0IRQBALANCE_BANNED_CPULIST\0")]);
        assert_eq!((new.reads_list, new.detects), (Some(true), Some(false)));
        assert_eq!(irqbalance_of(&[list, program("#!/bin/sh\n")]).reads_list, None);
    }
}
