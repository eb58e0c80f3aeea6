// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading tasks, finding them, and refusals.

use super::*;
use crate::system::memory::MemoryMachine;

/// Two CPUs, CPU 1 isolated; a program of two threads and a child, and threads of the kernel.
fn machine() -> MemoryMachine {
    let mut system = MemoryMachine::default();
    let mut put = |id: u32, process: u32, parent: u32, name: &str, policy: u32, priority: u32, cpus: &str| {
        let flags = if parent == 2 || id == 2 { 0x0020_8040 } else { 0 };
        let stat = format!(
            "{id} ({name}) S {parent} 0 0 0 0 {flags} {} 0 {} 0 {priority} {policy} 0\n",
            "0 ".repeat(9).trim(),
            "0 ".repeat(19).trim()
        );
        system.put(&format!("/proc/{process}/task/{id}/stat"), stat.as_bytes());
        let status = format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\n");
        system.put(&format!("/proc/{process}/task/{id}/status"), status.as_bytes());
    };
    put(1, 1, 0, "systemd", 0, 0, "0-1");
    put(2, 2, 0, "kthreadd", 0, 0, "0-1");
    put(12, 12, 2, "migration/0", 1, 99, "0");
    put(40, 40, 2, "irq/24-eth1", 1, 50, "0-1");
    put(100, 100, 1, "control (loop)", 0, 0, "1");
    put(101, 100, 1, "logger", 0, 0, "0-1");
    put(110, 110, 100, "child", 0, 0, "0-1");
    put(111, 111, 110, "grandchild", 0, 0, "0-1");
    for (path, text) in [("online", "0-1\n"), ("isolated", "1\n")] {
        system.put(&format!("/sys/devices/system/cpu/{path}"), text.as_bytes());
    }
    system.put("/proc/irq/24/smp_affinity_list", b"0-1\n");
    for id in [100, 101, 110, 111] {
        system.tasks.insert(id, ("0-1".parse().unwrap(), true));
    }
    system.tasks.insert(12, ("0".parse().unwrap(), false));
    system
}

fn found(which: &str, threads: bool, children: bool) -> Vec<u32> {
    let tasks = find(&machine(), &which.parse().unwrap(), threads, children).unwrap();
    tasks.iter().map(|task| task.id).collect()
}

#[test]
fn reads_policy_priority_and_cpus_whatever_the_name() {
    let tasks = all(&machine(), true);
    let get = |id: u32| tasks.iter().find(|task| task.id == id).unwrap();
    assert_eq!((get(100).name.as_str(), get(100).policy.as_str()), ("control (loop)", "other"));
    assert_eq!((get(40).irq, get(40).priority, get(40).kernel), (Some(24), 50, true));
    assert_eq!(get(100).cpus.as_ref().unwrap().to_string(), "1");
    assert_eq!(all(&machine(), false).len(), 7);
}

#[test]
fn lists_a_task_whose_name_is_no_utf8() {
    for (name, shown) in [
        (b"\x9b31mX) R 2 (\xff".as_slice(), "\u{fffd}31mX) R 2 (\u{fffd}"),
        (b"\xff\xfe", "\u{fffd}\u{fffd}"),
        (b"\xc3", "\u{fffd}"),
        (b"caf\xe9", "caf\u{fffd}"),
        (b"\xe2\x82", "\u{fffd}"),
        (b"a\n1 (b) S 2\xff", "a\n1 (b) S 2\u{fffd}"),
        (b")\xff(", ")\u{fffd}("),
        (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xf0\x9f\x98\x80\xff", "\u{1f600}\u{fffd}"),
        (b"", ""),
    ] {
        let mut system = machine();
        let path = "/proc/100/task/100/stat";
        let stat = String::from_utf8(system.read(path).unwrap()).unwrap();
        let (head, tail) = stat.split_once("control (loop)").unwrap();
        system.put(path, &[head.as_bytes(), name, tail.as_bytes()].concat());
        let tasks = find(&system, &Which::Id(100), false, false).unwrap();
        assert_eq!((tasks[0].name.as_str(), tasks[0].parent), (shown, 1));
        let wanted = TaskChange { policy: None, cpus: Some("0".parse().unwrap()), force: false };
        set(&mut system, tasks, &wanted).unwrap();
        assert_eq!(system.tasks[&100].0.to_string(), "0", "{shown}");
    }
}

#[test]
fn finds_a_task_its_threads_its_children_and_the_threads_of_an_interrupt() {
    assert_eq!(found("100", false, false), [100]);
    assert_eq!(found("100", true, false), [100, 101]);
    assert_eq!(found("100", false, true), [100, 110, 111]);
    assert_eq!(found("100", true, true), [100, 101, 110, 111]);
    assert_eq!(found("irq:24", false, false), [40]);
    assert_eq!(found("child", false, false), [110]);
    let missing =
        |which: &str| find(&machine(), &which.parse().unwrap(), false, false).unwrap_err().to_string();
    assert_eq!(
        missing("9999"),
        "cannot find the task: there is no task 9999; `isolator task list` says which there are"
    );
    assert!(missing("irq:7").contains("interrupt 7 has no thread"));
    assert!(
        "irq:x".parse::<Which>().is_err() && "0".parse::<Which>().is_err() && "".parse::<Which>().is_err()
    );
}

fn refused(which: &str, threads: bool, policy: Option<Policy>, cpus: Option<&str>) -> String {
    let mut system = machine();
    let tasks = find(&system, &which.parse().unwrap(), threads, false).unwrap();
    let wanted = TaskChange { policy, cpus: cpus.map(|cpus| cpus.parse().unwrap()), force: false };
    let error = set(&mut system, tasks, &wanted).unwrap_err().to_string();
    assert_eq!(system.changes, Vec::<String>::new(), "{error}");
    error
}

#[test]
fn refuses_what_would_starve_the_machine() {
    let fifo = |priority| Some(Policy::Fifo(priority));
    for (error, expected) in [
        (refused("100", false, fifo(99), None), "set SCHED_FIFO 99: 99 is the kernel's"),
        (refused("1", false, fifo(10), None), "set 1 (systemd): all others are its children"),
        (refused("12", false, fifo(10), None), "set 12 (migration/0): it is a thread of the kernel"),
        (refused("irq:24", false, Some(Policy::Other), None), "would wait behind ordinary tasks"),
        (
            refused("logger", true, fifo(80), None),
            "1 of its threads may take all of CPUs 0 from everything else",
        ),
        (refused("100", false, None, Some("")), "set no CPUs: a task needs one; choose from 0-1"),
        (refused("100", false, None, Some("1-5")), "set CPUs 1-5: CPU 2-5 is not online; choose from 0-1"),
    ] {
        assert!(error.starts_with("cannot ") && error.contains(expected), "{error}");
    }
}

#[test]
fn sets_cpus_of_tasks_and_of_interrupts() {
    let mut system = machine();
    let wanted = TaskChange { policy: None, cpus: Some("1".parse().unwrap()), force: false };
    let tasks = find(&system, &Which::Id(100), true, true).unwrap();
    set(&mut system, tasks, &wanted).unwrap();
    assert!([100, 101, 110, 111].iter().all(|id| system.tasks[id].0.to_string() == "1"));
    let tasks = find(&system, &Which::Irq(24), false, false).unwrap();
    set(&mut system, tasks, &wanted).unwrap();
    assert_eq!(system.settings["/proc/irq/24/smp_affinity_list"], "1\n");
}

#[test]
fn where_one_of_several_refuses_the_others_get_back_what_they_had() {
    let mut system = machine();
    system.tasks.insert(111, ("0-1".parse().unwrap(), false));
    let wanted = TaskChange { policy: None, cpus: Some("1".parse().unwrap()), force: false };
    let tasks: Vec<Task> = find(&system, &Which::Id(110), false, true)
        .unwrap()
        .into_iter()
        .filter(|task| task.id >= 110)
        .collect();
    let error = set(&mut system, tasks, &wanted).unwrap_err().to_string();
    assert!(error.starts_with("cannot set 111 (grandchild): invalid argument"), "{error}");
    let last = system.changes.iter().rev().find(|change| change.starts_with("affinity 110"));
    assert_eq!(last.map(String::as_str), Some("affinity 110 0-1"));
}
