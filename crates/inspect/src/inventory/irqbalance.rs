// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs that the running irqbalance leaves alone, and its settings.
//!
//! It looks at `IRQBALANCE_BANNED_CPUS`, a mask, first; then at `IRQBALANCE_BANNED_CPULIST`; and only where
//! neither is set does it spare the CPUs of `/sys/devices/system/cpu/isolated` and `nohz_full`. What it
//! cannot read bans what stood before the fault, and switches that detection off as well. Reference:
//! irqbalance, cputree.c (`setup_banned_cpus`), bitmap.c, v1.1.0 to v1.9.5 and what came until March 2026.
//! Limit: a user interface may have told it otherwise since it started.

use std::collections::BTreeMap;

use super::units;
use crate::boot::shell::Variables;
use crate::tree::Tree;
use machine::inventory::{BANNED, BANNED_MASK, Irqbalance, Services, Thread};

/// Files that distributions' units and scripts have it read.
const FILES: &[&str] = &["etc/default/irqbalance", "etc/sysconfig/irqbalance", "etc/irqbalance.env"];
const PROGRAMS: &[&str] = &["usr/sbin/irqbalance", "usr/bin/irqbalance", "sbin/irqbalance"];
/// Longest program that is looked through; it is some 100 KiB.
const PROGRAM_LIMIT: u64 = 4 << 20;

/// The settings of the irqbalance that runs; `None` where none runs.
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

/// The settings in the files that its unit names, or where there is no unit, in those that are usual.
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
