// SPDX-License-Identifier: MIT OR Apache-2.0
//! Present values of what can be set while the machine runs, by path: what a plan may change, and what it is
//! then compared with.
//!
//! A file that is not there is not in the map; one that may not be read is among the unread files.

use crate::tree::Tree;
use machine::Snapshot;

/// The files, without the leading slash.
const FILES: &[&str] = &[
    "proc/irq/default_smp_affinity",
    "proc/sys/kernel/hung_task_timeout_secs",
    "proc/sys/kernel/nmi_watchdog",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/sched_rt_runtime_us",
    "proc/sys/kernel/timer_migration",
    "proc/sys/kernel/watchdog_cpumask",
    "proc/sys/vm/compaction_proactiveness",
    "proc/sys/vm/stat_interval",
    "proc/sys/vm/swappiness",
    "sys/devices/system/cpu/smt/control",
    "sys/devices/system/machinecheck/machinecheck0/check_interval",
    "sys/devices/system/machinecheck/machinecheck0/ignore_ce",
    "sys/devices/virtual/workqueue/cpumask",
    "sys/devices/virtual/workqueue/writeback/cpumask",
    "sys/module/pcie_aspm/parameters/policy",
    "sys/fs/cgroup/cgroup.controllers",
    "sys/fs/cgroup/cpuset.cpus.isolated",
    "sys/fs/cgroup/cpuset.housekeeping.cpus",
    "sys/kernel/mm/ksm/run",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/mm/transparent_hugepage/enabled",
];

/// Folders that say which service keeps house, and what the map says of those that are there.
const SERVICES: &[(&str, &str)] = &[("run/systemd/system", "systemd"), ("run/irqbalance", "irqbalance")];

pub(crate) fn read(tree: &mut Tree, machine: &mut Snapshot) {
    for path in FILES {
        if let Some(text) = tree.text(path) {
            machine.settings.insert(format!("/{path}"), text);
        }
    }
    machine.services = SERVICES
        .iter()
        .filter(|(folder, _)| tree.exists(folder))
        .map(|(_, service)| service.to_string())
        .collect();
    if tuned_runs(tree) {
        machine.services.push("TuneD".to_string());
    }
}

/// Whether TuneD runs: its folder and the number in it stay where it was killed, and the number may be
/// another's since.
fn tuned_runs(tree: &mut Tree) -> bool {
    let groups =
        ["sys/fs/cgroup/system.slice/tuned.service", "sys/fs/cgroup/systemd/system.slice/tuned.service"];
    if groups.iter().any(|group| tree.exists(group)) {
        return true;
    }
    let Some(process) = tree.hint("run/tuned/tuned.pid").and_then(|text| text.trim().parse::<u32>().ok())
    else {
        return false;
    };
    if tree.hint(&format!("proc/{process}/comm")).is_some_and(|name| name.trim() == "tuned") {
        return true;
    }
    // The number may be another program's by now, one that only names TuneD's files among them.
    let line = tree.hint(&format!("proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split('\0').map(|word| word.rsplit('/').next().unwrap_or_default());
    match words.next() {
        Some("tuned") => true,
        Some(program) if program.starts_with("python") => {
            words.find(|word| !word.starts_with('-')) == Some("tuned")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn keeps_what_is_there_and_nothing_else() {
        let (_folder, mut tree) = made_of(&[
            ("proc/sys/kernel/timer_migration", "1\n"),
            ("proc/sys/kernel/secret", "x\n"),
            ("run/systemd/system/unit", ""),
        ]);
        let mut machine = Snapshot::default();
        read(&mut tree, &mut machine);
        let kept: Vec<_> =
            machine.settings.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(kept, [("/proc/sys/kernel/timer_migration", "1")]);
        assert_eq!(machine.services, ["systemd"]);
    }

    #[test]
    fn tuned_runs_where_a_process_or_group_is_its() {
        let pid = ("run/tuned/tuned.pid", "4711\n");
        for (files, runs) in [
            (vec![pid], false),
            (vec![pid, ("proc/4711/comm", "bash\n")], false),
            (vec![("run/tuned/tuned.pid", "x\n")], false),
            (vec![("run/tuned/x", "")], false),
            (vec![pid, ("proc/4711/comm", "tuned\n")], true),
            (
                vec![
                    pid,
                    ("proc/4711/comm", "python3\n"),
                    ("proc/4711/cmdline", "python3\0/usr/sbin/tuned\0"),
                ],
                true,
            ),
            (vec![("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "7\n")], true),
            (vec![pid, ("proc/4711/comm", "tuned-gui\n")], false),
            (vec![("run/tuned/tuned.pid", ""), ("proc/4711/comm", "tuned\n")], false),
            (vec![("run/tuned/tuned.pid", "-4711\n"), ("proc/4711/comm", "tuned\n")], false),
            (vec![pid, ("proc/4711/cmdline", "less\0/var/log/tuned/tuned.log\0")], false),
            (vec![pid, ("proc/4711/cmdline", "journalctl\0-u\0tuned\0")], false),
            (vec![pid, ("proc/4711/cmdline", "python3\0-Es\0/usr/sbin/tuned\0-l\0-P\0")], true),
            (vec![pid, ("proc/4711/cmdline", "/usr/bin/python3.9\0-Es\0/opt/x.py\0tuned\0")], false),
            (vec![pid, ("proc/4711/cmdline", "")], false),
        ] {
            let (_folder, mut tree) = made_of(&files);
            let mut machine = Snapshot::default();
            read(&mut tree, &mut machine);
            assert_eq!(machine.services == ["TuneD"], runs, "{files:?}");
        }
    }
}
