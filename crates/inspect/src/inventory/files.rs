// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that hold one setting each.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;
use machine::Snapshot;
use machine::inventory::Reading;
use machine::registry;
use machine::sight::{
    BTF, EVENT_OF_CALL_SENDERS, EVENT_OF_SENDERS, EVENTS_OF_CALLS, EVENTS_OF_SCHEDULER, LOCKDOWN, TAINTED,
    TRACEFS, TRACEFS_BELOW_DEBUGFS, TRACER, types_elsewhere,
};

/// Files besides those in which the table of settings has an effective state.
const MORE: &[&str] = &[
    "/boot/firmware/cmdline.txt",
    "/boot/firmware/config.txt",
    "/etc/default/irqbalance",
    "/etc/fw_env.config",
    "/etc/nv_tegra_release",
    "/etc/nvpmodel.conf",
    "/etc/sysconfig/irqbalance",
    "/etc/tuned/active_profile",
    "/etc/tuned/bootcmdline",
    "/etc/default/grub.d/60_rt-conf.cfg",
    "/proc/consoles",
    "/proc/sys/kernel/dmesg_restrict",
    "/proc/sys/kernel/sched_rr_timeslice_ms",
    TAINTED,
    "/proc/swaps",
    "/run/ostree-booted",
    "/sys/devices/platform/soc/soc:firmware/get_throttled",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    "/sys/devices/system/cpu/amd_pstate/status",
    "/sys/devices/system/cpu/cpuidle/current_driver",
    "/sys/devices/system/cpu/cpuidle/current_governor",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/modalias",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/devices/system/cpu/smt/active",
    "/sys/devices/system/cpu/vulnerabilities",
    "/sys/devices/virtual/workqueue/cpumask_isolated",
    "/sys/devices/virtual/workqueue/cpumask_requested",
    "/sys/bus/event_source/devices/msr/events/smi",
    "/sys/fs/cgroup/cgroup.controllers",
    "/sys/fs/cgroup/cpuset.cpus.isolated",
    "/sys/fs/cgroup/cpuset.housekeeping.cpus",
    "/sys/fs/resctrl",
    "/sys/firmware/efi",
    "/sys/kernel/debug/sched/fair_server",
    "/sys/module/i915/parameters/enable_dc",
    "/sys/module/xe/parameters/enable_dc",
    "/sys/kernel/realtime",
    "/sys/kernel/sched_ext/state",
    LOCKDOWN,
    TRACEFS,
    TRACER,
    EVENTS_OF_SCHEDULER,
    EVENTS_OF_CALLS,
    EVENT_OF_CALL_SENDERS,
    EVENT_OF_SENDERS,
    "/sys/kernel/tracing/kprobe_events",
    "/sys/kernel/tracing/set_event",
    "/var/lib/nvpmodel/status",
    "/dev/cpu/0/msr",
    "/dev/kvm",
];

/// Files that are looked at, each once.
pub(super) fn read(tree: &Tree, machine: &Snapshot) -> BTreeMap<String, Reading> {
    let named = registry::all().flat_map(|setting| setting.effective).copied();
    // One per CPU or interrupt are read elsewhere; the rest is long, or another process's.
    let single = |path: &&str| {
        path.starts_with('/')
            && !["/cpuN/", "/irq/N/", "/IF/", "/proc/1/", "/proc/self/", "timer_list"]
                .iter()
                .any(|part| path.contains(part))
    };
    let paths: BTreeSet<&str> = named.filter(single).chain(MORE.iter().copied()).collect();
    let found = paths
        .into_iter()
        .filter_map(|path| Some((path.to_string(), tree.reading(path.trim_start_matches('/'))?)));
    let mut files: BTreeMap<String, Reading> = found.collect();
    if let Some(timers) = timer_list(tree) {
        files.insert("/proc/timer_list".to_string(), timers);
    }
    files.extend(units(tree));
    files.extend(sight(tree, machine.kernel.release.as_deref()));
    let limit = format!(
        "/sys/devices/system/cpu/cpu{}/power/pm_qos_resume_latency_us",
        machine.online().iter().next().unwrap_or(0)
    );
    if let Some(reading) = tree.reading(limit.trim_start_matches('/')) {
        files.insert(limit, reading);
    }
    files
}

/// Units of systemd that this program writes, where they are.
fn units(tree: &Tree) -> Vec<(String, Reading)> {
    let services =
        tree.hint_names("etc/systemd/system").into_iter().filter(|name| name.ends_with(".service.d"));
    let drop_ins = services.map(|name| format!("/etc/systemd/system/{name}/50-isolator.conf"));
    let ours = ["/etc/systemd/system/isolator.slice", "/etc/systemd/system.conf.d/50-isolator.conf"];
    let all = ours.into_iter().map(String::from).chain(drop_ins);
    let there = all.filter_map(|path| {
        let reading = tree.reading(path.trim_start_matches('/'))?;
        matches!(reading, Reading::Text(_)).then_some((path, reading))
    });
    there.collect()
}

/// The kernel's types, some MB of which only the presence counts, and those that lie elsewhere; and tracefs
/// below debugfs, which is found by its name there, since to look into it would mount it.
fn sight(tree: &Tree, release: Option<&str>) -> Vec<(String, Reading)> {
    let types = tree.reading(BTF.trim_start_matches('/')).map(|reading| match reading {
        Reading::Text(_) => Reading::Text(String::new()),
        other => other,
    });
    let elsewhere = release.map(types_elsewhere);
    let by_name = elsewhere.into_iter().flatten().chain([TRACEFS_BELOW_DEBUGFS.to_string()]);
    let is_there = |path: &String| {
        let (folder, name) = path.trim_start_matches('/').rsplit_once('/').unwrap_or_default();
        tree.hint_names(folder).iter().any(|one| one == name)
    };
    let there = by_name.filter(is_there).map(|path| (path, Reading::Text(String::new())));
    types.map(|types| (BTF.to_string(), types)).into_iter().chain(there).collect()
}

/// Of the list of all timers only how they tick; root alone may read it.
fn timer_list(tree: &Tree) -> Option<Reading> {
    let path = "proc/timer_list";
    match tree.reading(path)? {
        Reading::Text(_) => {
            let text = tree.hint(path)?;
            let kept = text.lines().map(str::trim).filter(|line| {
                ["resolution:", ".hres_active", ".nohz_mode"].iter().any(|start| line.starts_with(start))
            });
            Some(Reading::Text(kept.take(8).collect::<Vec<_>>().join("\n")))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn what_is_absent_is_known_to_be_only_where_all_was_captured() {
        let timer = ("proc/sys/kernel/timer_migration", "1\n");
        let machine = Snapshot::default();
        let part = read(&made_of(&[timer]).1, &machine);
        assert_eq!(part.get("/proc/sys/kernel/timer_migration"), Some(&Reading::Text("1".into())));
        assert_eq!(part.get("/sys/devices/system/cpu/nohz_full"), None);
        let whole = read(&made_of(&[timer, ("proc/sys/kernel/ostype", "Linux\n")]).1, &machine);
        assert_eq!(whole.get("/sys/devices/system/cpu/nohz_full"), Some(&Reading::Absent));
    }

    #[test]
    fn keeps_of_the_timers_only_how_they_tick() {
        let text = "Timer List Version: v0.10\ncpu: 0\n clock 0:\n  .resolution: 1 nsecs\n  .hres_active    : 1\n #0: <x>\n";
        let (_folder, tree) = made_of(&[("proc/timer_list", text)]);
        assert_eq!(timer_list(&tree), Some(Reading::Text(".hres_active    : 1".into())));
    }

    #[test]
    fn readings_survive_json() {
        let readings = [
            Reading::Text("1".into()),
            Reading::Unreadable { unreadable: "permission denied".into() },
            Reading::Absent,
        ];
        let json = serde_json::to_string(&readings).unwrap();
        assert_eq!(json, r#"["1",{"unreadable":"permission denied"},null]"#);
        assert_eq!(serde_json::from_str::<[Reading; 3]>(&json).unwrap(), readings);
    }
}
