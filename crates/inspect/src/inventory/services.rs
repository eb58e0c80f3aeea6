// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which services run or are to be started, and which control groups have CPUs of their own.
//!
//! A service runs where systemd has a control group for it, or a process has its name; no bus is asked.
//! Limit: one that did its work and left (`tlp`, `cpupower`) is known only as enabled.

use super::irqbalance;
use crate::tree::Tree;
use machine::inventory::{ControlGroup, Services, Thread};

/// Deepest control group that is looked at, and how many at most.
const DEPTH: usize = 4;
const GROUPS: usize = 1_000;

pub(super) fn read(tree: &mut Tree, threads: &[Thread]) -> Services {
    let mut services =
        Services { unified: tree.exists("sys/fs/cgroup/cgroup.controllers"), ..Services::default() };
    let users = threads.iter().filter(|thread| !thread.kernel && thread.id == thread.process);
    services.processes = users.map(|thread| thread.name.clone()).collect();
    for mount in ["sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/systemd"] {
        let names = tree.names(&format!("{mount}/system.slice"));
        services.active.extend(units(names.into_iter()));
    }
    for base in ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"] {
        let pulls = |name: &String| [".wants", ".requires", ".upholds"].iter().any(|end| name.ends_with(end));
        for folder in tree.hint_names(base).into_iter().filter(pulls) {
            let names = tree.hint_names(&format!("{base}/{folder}")).into_iter();
            services.enabled.extend(units(names).filter(|unit| !masked(tree, unit)));
        }
    }
    if services.unified {
        groups(tree, String::new(), 0, &mut services.groups);
    }
    services.irqbalance = irqbalance::read(tree, &services, threads);
    services
}

/// Whether a unit is a link to /dev/null, so that nothing starts it.
fn masked(tree: &Tree, unit: &str) -> bool {
    let file = if unit.ends_with(".timer") { unit.to_string() } else { format!("{unit}.service") };
    let null = |base: &str| tree.link_name(&format!("{base}/{file}")).is_some_and(|name| name == "null");
    null("etc/systemd/system") || null("run/systemd/system")
}

fn units(names: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    names.filter_map(|name| {
        let unit = name.strip_suffix(".service").map(str::to_string);
        unit.or_else(|| name.ends_with(".timer").then_some(name))
    })
}

fn groups(tree: &mut Tree, path: String, depth: usize, found: &mut Vec<ControlGroup>) {
    if depth > DEPTH || found.len() >= GROUPS {
        return;
    }
    let folder = format!("sys/fs/cgroup{path}");
    for name in tree.names(&folder) {
        let below = format!("{path}/{name}");
        let folder = format!("sys/fs/cgroup{below}");
        if !tree.is_folder(&folder) {
            continue;
        }
        let mut cpus = |file: &str| tree.cpus(&format!("{folder}/{file}"));
        let (own, effective) = (cpus("cpuset.cpus"), cpus("cpuset.cpus.effective"));
        let partition = tree.word(&format!("{folder}/cpuset.cpus.partition"));
        let quota = tree.word(&format!("{folder}/cpu.max")).filter(|text| !text.starts_with("max"));
        let apart = partition.as_deref().is_some_and(|word| word != "member");
        let limited = own.as_ref().is_some_and(|cpus| !cpus.is_empty());
        if apart || limited || quota.is_some() || (depth == 0 && effective.is_some()) {
            found.push(ControlGroup { path: below.clone(), partition, cpus: own, effective, quota });
        }
        groups(tree, below, depth + 1, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn finds_what_runs_what_is_enabled_and_which_groups_have_cpus() {
        let (_folder, mut tree) = made_of(&[
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu"),
            ("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "1"),
            ("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1"),
            ("sys/fs/cgroup/system.slice/cpuset.cpus", ""),
            ("sys/fs/cgroup/rt/cpuset.cpus", "2-3"),
            ("sys/fs/cgroup/rt/cpuset.cpus.partition", "isolated invalid (Parent is not a partition root)"),
            ("sys/fs/cgroup/rt/deep/cpu.max", "50000 100000"),
            ("etc/systemd/system/multi-user.target.wants/tlp.service", ""),
            ("etc/systemd/system/timers.target.wants/fstrim.timer", ""),
            ("proc/10/environ", "LANG=C\0IRQBALANCE_BANNED_CPULIST=2-3\0"),
        ]);
        let process = |name: &str, id| Thread { name: name.into(), id, process: id, ..Thread::default() };
        let services = read(&mut tree, &[process("power-profiles-", 9), process("irqbalance", 10)]);
        let told = services.irqbalance.as_ref().unwrap();
        assert_eq!((told.list.as_deref(), told.source.as_str()), (Some("2-3"), "/proc/10/environ"));
        assert_eq!(read(&mut tree, &[process("power-profiles-", 9)]).irqbalance, None);
        assert!(services.runs("tuned") && services.runs("power-profiles-daemon") && !services.runs("tlp"));
        assert_eq!(services.enabled.iter().map(String::as_str).collect::<Vec<_>>(), ["fstrim.timer", "tlp"]);
        let paths: Vec<_> = services.groups.iter().map(|group| group.path.as_str()).collect();
        assert_eq!(paths, ["/rt", "/rt/deep", "/system.slice"]);
        assert!(services.groups[0].partition.as_deref().unwrap().contains("invalid"));
        assert_eq!(services.groups[1].quota.as_deref(), Some("50000 100000"));
    }
}
