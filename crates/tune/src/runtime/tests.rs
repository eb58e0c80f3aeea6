// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of action on a machine in memory: what is written, what refuses, and that all comes back.

use std::collections::BTreeMap;

use super::*;
use crate::system::CommandResult;
use crate::system::memory::{InjectedFault, MemoryMachine, PowerCut};
use crate::transaction::{self, Record, RecordKind, Restoration, StepOutcome, store};

const EIO: i32 = 5;

/// Four CPUs; CPU 3 is to be isolated.
fn machine() -> MemoryMachine {
    let mut system = MemoryMachine::default();
    for (path, text) in [
        ("/proc/sys/kernel/random/boot_id", "first"),
        ("/proc/sys/kernel/watchdog_cpumask", "0-3"),
        ("/proc/sys/kernel/printk", "4\t4\t1\t7"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
        ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "schedutil"),
        ("/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us", "0"),
        ("/sys/devices/virtual/workqueue/cpumask", "f"),
        ("/proc/irq/default_smp_affinity", "0000000f"),
        ("/proc/irq/1/smp_affinity_list", "0-3"),
        ("/proc/irq/1/i8042/x", ""),
        ("/proc/irq/9/smp_affinity_list", "3"),
        ("/proc/irq/12/smp_affinity_list", "0-1"),
        ("/proc/irq/24/smp_affinity_list", "0-3"),
        ("/proc/irq/24/eth1-rx-0/x", ""),
        ("/proc/irq/30/smp_affinity_list", "3"),
        ("/proc/irq/30/nvme0q4/x", ""),
        ("/sys/fs/cgroup/cgroup.subtree_control", "memory pids"),
        ("/etc/security/limits.d/README", "none"),
        ("/run/systemd/system/x", ""),
    ] {
        system.put(path, format!("{text}\n").as_bytes());
    }
    for (id, name, flags, movable) in [
        (2, "kthreadd", 0, true),
        (11, "rcu_preempt", 0, true),
        (12, "migration/3", BOUND, false),
        (13, "kstubborn", 0, false),
    ] {
        let parent = if id == 2 { 0 } else { 2 };
        let rest =
            "0 0 0 -1".to_string() + &format!(" {flags}") + &" 0".repeat(12) + &format!(" {}", 100 + id);
        system.put(&format!("/proc/{id}/stat"), format!("{id} ({name}) S {parent} {rest} 0\n").as_bytes());
        let cpus = if id == 12 { "3" } else { "0-3" };
        system.tasks.insert(id, (cpus.parse().unwrap(), movable));
    }
    system.refuses.insert("/proc/irq/30/smp_affinity_list".into(), EIO);
    system.answer = Some(|_, command| CommandResult {
        good: true,
        output: if command[1] == "show" { b"0-3\n".to_vec() } else { Vec::new() },
        complaint: String::new(),
    });
    system.power_on();
    system
}

fn actions() -> Vec<Action> {
    vec![
        Action::new(ActionKind::BootParameter, "isolcpus", "3"),
        Action::new(ActionKind::Slice, "system.slice", "0-2"),
        Action::new(ActionKind::Partition, "/sys/fs/cgroup/isolator", "3"),
        Action::new(ActionKind::IrqDefault, "/proc/irq/default_smp_affinity", "7"),
        Action::new(ActionKind::Irqs, "/proc/irq", "0-2"),
        Action::new(ActionKind::DeviceIrqs, "eth1", "3"),
        Action::new(ActionKind::IrqBalance, "irqbalance.service", "3"),
        Action::new(ActionKind::KernelThreads, "kthreads", "0-2"),
        Action::new(ActionKind::Workqueues, "/sys/devices/virtual/workqueue/cpumask", "7"),
        Action::new(ActionKind::Sysctl, "/proc/sys/kernel/watchdog_cpumask", "0-2"),
        Action::new(ActionKind::Sysctl, "/proc/sys/kernel/absent", "1"),
        Action::new(
            ActionKind::Governor,
            "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
            "performance",
        ),
        Action::new(ActionKind::PmQos, "/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us", "n/a"),
        Action::new(ActionKind::Memory, "/sys/kernel/mm/transparent_hugepage/enabled", "never"),
        Action::new(ActionKind::Limits, "/etc/security/limits.d/95-isolator.conf", "@realtime - rtprio 98\n"),
    ]
}

fn record(system: &mut MemoryMachine) -> Record {
    let (steps, _) = steps(system, &actions()).unwrap();
    Record::new("20260101-000000", RecordKind::Runtime, "digest", "first", &[], steps)
}

/// Settings by path, tasks, and the paths of files.
type State = (BTreeMap<String, Vec<String>>, BTreeMap<u32, (CpuSet, bool)>, Vec<String>);

/// Everything that could have changed, without the store and the order of what a folder of cgroups holds.
fn state(system: &MemoryMachine) -> State {
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in &system.settings {
        settings.insert(path.clone(), text.split_whitespace().map(String::from).collect());
    }
    let files = system.files().into_keys().filter(|path| !path.starts_with("/var/lib/")).collect();
    (settings, system.tasks.clone(), files)
}

#[test]
fn does_every_action_and_names_what_refuses() {
    let mut system = machine();
    let (made, skipped) = steps(&mut system, &actions()).unwrap();
    assert_eq!(skipped.iter().map(|s| s.what.as_str()).collect::<Vec<_>>(), ["/proc/sys/kernel/absent"]);
    let mut record = Record::new("1", RecordKind::Runtime, "digest", "first", &[], made);
    transaction::apply(&mut system, &mut record).unwrap();
    let get = |path: &str| system.settings[path].trim().to_string();
    for (path, expected) in [
        ("/proc/irq/default_smp_affinity", "7"),
        ("/proc/irq/1/smp_affinity_list", "0-2"),
        ("/proc/irq/9/smp_affinity_list", "0-2"),
        ("/proc/irq/12/smp_affinity_list", "0-1"),
        ("/proc/irq/24/smp_affinity_list", "3"),
        ("/proc/irq/30/smp_affinity_list", "3"),
        ("/sys/devices/virtual/workqueue/cpumask", "7"),
        ("/proc/sys/kernel/watchdog_cpumask", "0-2"),
        ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance"),
        ("/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us", "n/a"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
        ("/sys/fs/cgroup/cgroup.subtree_control", "memory pids cpuset"),
        ("/sys/fs/cgroup/isolator/cpuset.cpus", "3"),
        ("/sys/fs/cgroup/isolator/cpuset.cpus.partition", "isolated"),
    ] {
        assert_eq!(get(path), expected, "{path}");
    }
    let cpus = |task: u32| system.tasks[&task].0.to_string();
    assert_eq!([11, 12, 13].map(cpus), ["0-2", "3", "0-3"]);
    let refused: Vec<String> = record
        .steps
        .iter()
        .filter_map(|done| match &done.outcome {
            StepOutcome::Refused(why) => Some(format!("{}: {why}", done.step.what())),
            _ => None,
        })
        .collect();
    assert_eq!(
        refused,
        [
            "/proc/irq/30/smp_affinity_list (nvme0q4): the kernel manages it itself",
            "thread 13 (kstubborn): the kernel binds it to its CPU"
        ]
    );
    let ran: Vec<String> = system.commands.iter().map(|command| command[1..].join(" ")).collect();
    assert_eq!(
        ran[1..],
        [
            "set-property --runtime -- system.slice AllowedCPUs=0-2",
            "daemon-reload",
            "try-restart irqbalance.service"
        ]
    );
}

#[test]
fn everything_comes_back_in_reverse_order() {
    let mut system = machine();
    let before = state(&system);
    let mut record = record(&mut system);
    transaction::apply(&mut system, &mut record).unwrap();
    assert_ne!(state(&system), before);
    system.commands.clear();
    let undone = transaction::roll_back(&mut system, &mut record);
    assert_eq!(state(&system), before);
    assert!(
        undone.iter().all(|u| matches!(u.became, Restoration::Restored | Restoration::Untouched)),
        "{undone:?}"
    );
    let ran: Vec<String> = system.commands.iter().map(|command| command[1..].join(" ")).collect();
    assert_eq!(
        ran,
        [
            "daemon-reload",
            "try-restart irqbalance.service",
            "set-property --runtime -- system.slice AllowedCPUs=0-3"
        ]
    );
}

#[test]
fn a_kill_at_every_single_change_is_undone_by_the_next_process_and_a_reboot_leaves_nothing() {
    let system = {
        let mut system = machine();
        system.changes.clear();
        system
    };
    let before = state(&system);
    let record = record(&mut system.clone());
    let mut whole = system.clone();
    transaction::apply(&mut whole, &mut record.clone()).unwrap();
    for at in 0..whole.changes.len() {
        let mut cut = system.clone();
        cut.fault = Some((at, InjectedFault::Kill));
        assert!(transaction::apply(&mut cut, &mut record.clone()).is_err());
        let mut rebooted = cut.after_power_cut(PowerCut::Nothing);
        rebooted.put("/proc/sys/kernel/random/boot_id", b"second\n");
        let mut killed = cut.revived();
        store::recover(&mut killed).unwrap();
        if !store::all(&killed).unwrap().iter().any(Record::live) {
            assert_eq!(state(&killed), before, "{}", whole.changes[at]);
        }
        store::recover(&mut rebooted).unwrap();
        let files = state(&rebooted).2;
        assert!(!files.iter().any(|path| path.ends_with(".isolator-new")), "{files:?}");
    }
    println!("killed at {} points", whole.changes.len());
}

#[test]
fn keeps_and_names_later_changes_of_other_programs() {
    let mut system = machine();
    let mut record = record(&mut system);
    transaction::apply(&mut system, &mut record).unwrap();
    let path = "/proc/sys/kernel/watchdog_cpumask";
    system.settings.insert(path.into(), "1\n".into());
    let undone = transaction::roll_back(&mut system, &mut record);
    let left = undone.iter().find(|undone| undone.what == path).unwrap();
    assert_eq!(left.became, Restoration::Left("another program set it to 1 since".into()));
    assert_eq!(system.settings[path], "1\n");
}

#[test]
fn an_interrupt_that_moves_while_it_is_read_comes_back() {
    let path = "/proc/irq/1/smp_affinity_list";
    for passing in ["3\n", "\n"] {
        let mut system = machine();
        let before = state(&system);
        // An earlier change lands: the mask is still that of before it, or empty.
        system.passing.borrow_mut().insert(path.into(), passing.into());
        let mut record = record(&mut system);
        transaction::apply(&mut system, &mut record).unwrap();
        assert_eq!(system.settings[path].trim(), "0-2");
        // Our own change lands.
        system.passing.borrow_mut().insert(path.into(), "0-3\n".into());
        let undone = transaction::roll_back(&mut system, &mut record);
        let became = &undone.iter().find(|undone| undone.what.starts_with(path)).unwrap().became;
        assert_eq!(*became, Restoration::Restored);
        assert_eq!(state(&system), before);
    }
}

#[test]
fn a_number_given_to_another_task_is_not_that_task() {
    let mut system = machine();
    let mut record = record(&mut system);
    transaction::apply(&mut system, &mut record).unwrap();
    let stat = system.settings["/proc/11/stat"].replace(" 111 ", " 999 ");
    system.settings.insert("/proc/11/stat".into(), stat);
    let undone = transaction::roll_back(&mut system, &mut record);
    assert!(
        undone.iter().any(|u| u.what == "thread 11 (rcu_preempt)" && u.became == Restoration::Gone),
        "{undone:?}"
    );
    assert_eq!(system.tasks[&11].0.to_string(), "0-2");
}

#[test]
fn a_partition_that_is_not_valid_undoes_all_of_it() {
    let mut system = machine();
    let before = state(&system);
    let mut record = record(&mut system);
    system.refuses.insert("/sys/fs/cgroup/isolator/cpuset.cpus.partition".into(), 22);
    let error = transaction::apply(&mut system, &mut record).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot set /sys/fs/cgroup/isolator/cpuset.cpus.partition to isolated:"),
        "{error}"
    );
    assert_eq!(state(&system), before);
}
