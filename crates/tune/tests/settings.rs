// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings on a running machine, on a real kernel: everything is as before afterwards, also where the
//! process that did it was killed.
//!
//! In a guest of the lab, whose kernel must not complain: `tools/test` does it. On this machine, as root,
//! with ISOLATOR_LIVE=1: interrupts, kernel threads and workqueues leave the last CPU for a moment.
//!
//! Kills in a guest come without the partition: to make one, Linux starts threads for its workqueues, which a
//! SIGKILL of the writer forbids (`kthread_create_on_node()`), and it warns of that (6.12:
//! `update_unbound_workqueue_cpumask()` in kernel/cgroup/cpuset.c). With the partition all values are as
//! before too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use machine::CpuSet;
use tune::plan::{Action, ActionKind};
use tune::runtime;
use tune::system::{self, Real, System};
use tune::transaction::{self, Record, RecordKind, Restoration, StepOutcome, store};

const CHILD: &str = "ISOLATOR_LIVE_CHILD";
const WITHOUT_PARTITION: &str = "without partition";
const GROUP: &str = "/sys/fs/cgroup";

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// Housekeeping CPUs, and the one that is left alone: the last but one in a guest, whose last is isolated at
/// boot.
fn split() -> (CpuSet, CpuSet) {
    let online: CpuSet = read("/sys/devices/system/cpu/online").unwrap().parse().unwrap();
    let apart: CpuSet =
        read("/sys/devices/system/cpu/isolated").unwrap_or_default().parse().unwrap_or_default();
    let free = online.without(&apart);
    let one: CpuSet = free.iter().last().into_iter().collect();
    (free.without(&one), one)
}

fn mask(cpus: &CpuSet) -> String {
    format!("{:x}", cpus.iter().map(|cpu| 1u64 << cpu).sum::<u64>())
}

fn partitions() -> bool {
    read(&format!("{GROUP}/cgroup.controllers"))
        .is_some_and(|names| names.split(' ').any(|name| name == "cpuset"))
}

fn actions() -> Vec<Action> {
    let (house, one) = split();
    let mut actions = Vec::new();
    if partitions() && std::env::var_os(CHILD).is_none_or(|kind| kind != WITHOUT_PARTITION) {
        actions.push(Action::new(ActionKind::Partition, &format!("{GROUP}/isolator"), one.to_string()));
    }
    actions.extend([
        Action::new(ActionKind::IrqDefault, "/proc/irq/default_smp_affinity", mask(&house)),
        Action::new(ActionKind::Irqs, "/proc/irq", house.to_string()),
        Action::new(ActionKind::KernelThreads, "kthreads", house.to_string()),
        Action::new(ActionKind::Workqueues, "/sys/devices/virtual/workqueue/cpumask", mask(&house)),
        Action::new(ActionKind::Workqueues, "/sys/devices/virtual/workqueue/writeback/cpumask", mask(&house)),
        Action::new(ActionKind::Sysctl, "/proc/sys/kernel/watchdog_cpumask", house.to_string()),
    ]);
    actions
}

/// All that could have changed, in full: settings by file, and the CPUs of every kernel thread.
fn state(system: &Real) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    let mut note = |path: String| {
        if let Some(text) = system::word(system, &path) {
            state.insert(path, text);
        }
    };
    for name in system.names("/proc/irq").unwrap_or_default() {
        note(format!("/proc/irq/{name}/smp_affinity_list"));
    }
    note("/proc/irq/default_smp_affinity".into());
    for name in system.names("/sys/devices/virtual/workqueue").unwrap_or_default() {
        note(format!("/sys/devices/virtual/workqueue/{name}/cpumask"));
    }
    note("/sys/devices/virtual/workqueue/cpumask".into());
    note("/proc/sys/kernel/watchdog_cpumask".into());
    for name in ["cgroup.subtree_control", "cpuset.cpus.isolated", "isolator/cpuset.cpus.partition"] {
        note(format!("{GROUP}/{name}"));
    }
    for task in runtime::tasks(system) {
        // Threads that the kernel binds come and go; they cannot be changed.
        if task.parent == 2 && task.flags & 0x0400_0000 == 0 && !task.name.starts_with("kworker") {
            let cpus = system.affinity(task.id).map(|cpus| cpus.to_string()).unwrap_or_default();
            state.insert(format!("thread {} {} {}", task.id, task.started, task.name), cpus);
        }
    }
    state
}

/// Settings that differ; a thread that only one of the two states has came or went.
fn difference(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let keys = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
    let keys = keys
        .filter(|key| !key.starts_with("thread ") || (before.contains_key(*key) && after.contains_key(*key)));
    keys.filter(|key| before.get(*key) != after.get(*key))
        .map(|key| format!("{key}: {:?} -> {:?}", before.get(key), after.get(key)))
        .collect()
}

fn record(system: &mut Real, id: &str) -> Record {
    let (steps, skipped) = runtime::steps(system, &actions()).unwrap();
    skipped.iter().for_each(|skipped| println!("skipped {}: {}", skipped.what, skipped.reason));
    let boot = store::boot_id(system);
    Record::new(id, RecordKind::Runtime, "digest", &boot, &[], steps)
}

fn comes_back() {
    let mut system = Real::new(Path::new("/")).unwrap();
    let before = state(&system);
    let mut done = record(&mut system, "20260101-000000-runtime");
    transaction::apply(&mut system, &mut done).unwrap();
    let changed = difference(&before, &state(&system));
    let count =
        |wanted: fn(&StepOutcome) -> bool| done.steps.iter().filter(|done| wanted(&done.outcome)).count();
    let refused = count(|outcome| matches!(outcome, StepOutcome::Refused(_)));
    println!(
        "{} steps, {} of them done, {refused} refused",
        done.steps.len(),
        count(|o| *o == StepOutcome::Done)
    );
    for step in &done.steps {
        if let StepOutcome::Refused(why) = &step.outcome {
            println!("refused {}: {why}", step.step.what());
        }
    }
    assert!(!changed.is_empty(), "nothing changed");
    if partitions() {
        let (_, one) = split();
        assert_eq!(read(&format!("{GROUP}/isolator/cpuset.cpus.partition")).as_deref(), Some("isolated"));
        if let Some(isolated) = read(&format!("{GROUP}/cpuset.cpus.isolated")) {
            assert!(one.without(&isolated.parse().unwrap()).is_empty(), "{isolated}");
        }
        println!("the partition is valid");
    }
    let undone = transaction::roll_back(&mut system, &mut done);
    let left: Vec<_> = undone.iter().filter(|undone| matches!(undone.became, Restoration::Left(_))).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(difference(&before, &state(&system)), Vec::<String>::new());
    println!("{} values are as before, {} of them had changed", before.len(), changed.len());
}

/// Kills a process that applies and rolls back, again and again, at ever later moments.
fn comes_back_after_a_kill(name: &str, kind: &str) {
    let mut system = Real::new(Path::new("/")).unwrap();
    let before = state(&system);
    let mut interrupted = 0;
    for round in 0..12u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", name])
            .env(CHILD, kind)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Not before it has begun; then at a moment of this round's.
        while store::all(&system).unwrap().iter().all(|record| !record.live()) {
            assert!(child.try_wait().unwrap().is_none(), "the child ended before it was killed");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        let recovered = store::recover(&mut system).unwrap();
        interrupted += recovered.len();
        for mut record in store::all(&system).unwrap().into_iter().filter(Record::live) {
            transaction::roll_back(&mut system, &mut record);
        }
        assert_eq!(difference(&before, &state(&system)), Vec::<String>::new(), "round {round}");
    }
    println!("killed 12 times, {interrupted} times in the middle: all values are as before");
}

/// `isolator run --best-effort` in a guest, whose init is the program: what the command sees, and what is
/// left after it.
fn comes_back_after_a_command() {
    let system = Real::new(Path::new("/")).unwrap();
    let before = state(&system);
    let (house, one) = split();
    let run = |command: &[&str]| {
        let mut run = Command::new("/init");
        run.args(["run", "--cpus", &one.to_string(), "--isolate", "--best-effort", "--"]).args(command);
        run.output().unwrap()
    };
    // This program again, which looks from within.
    let this = std::env::current_exe().unwrap();
    let this = [this.to_str().unwrap(), "--ignored", "--exact", "seen_from_within", "--nocapture"];
    let ran = run(&this);
    let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(ran.status.success(), "{said}");
    for seen in [
        format!("partition of cpus {one}: isolated, and this is in it"),
        format!("interrupts begin on {}", mask(&house)),
        "missing: timers, reschedules and function calls".to_string(),
    ] {
        assert!(said.contains(&seen), "no '{seen}' in: {said}");
    }
    assert_eq!(difference(&before, &state(&system)), Vec::<String>::new());
    // A program that cannot be started changes nothing either.
    assert_eq!(run(&["/no/such/program"]).status.code(), Some(1));
    assert_eq!(difference(&before, &state(&system)), Vec::<String>::new());
    println!("a command had cpus {one} for itself: all values are as before");
}

#[test]
#[ignore = "the command of another test"]
fn seen_from_within() {
    let (group, partition) = (read("/proc/self/cgroup").unwrap(), format!("{GROUP}/isolator"));
    assert!(group.contains("0::/isolator"), "{group}");
    let cpus = read(&format!("{partition}/cpuset.cpus.effective")).unwrap();
    let kind = read(&format!("{partition}/cpuset.cpus.partition")).unwrap();
    println!("partition of cpus {cpus}: {kind}, and this is in it");
    println!("interrupts begin on {}", read("/proc/irq/default_smp_affinity").unwrap());
}

fn forever() -> ! {
    let mut system = Real::new(Path::new("/")).unwrap();
    loop {
        let mut record = record(&mut system, "20260101-000001-runtime");
        transaction::apply(&mut system, &mut record).unwrap();
        transaction::roll_back(&mut system, &mut record);
    }
}

#[test]
#[ignore = "for a guest of the lab"]
fn in_a_guest() {
    if std::env::var_os(CHILD).is_some() {
        forever();
    }
    if !Path::new(&format!("{GROUP}/cgroup.controllers")).exists() {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("cgroup2", GROUP, "cgroup2", flags, None::<&std::ffi::CStr>).unwrap();
    }
    // A guest's console is its standard output.
    std::panic::set_hook(Box::new(|panic| println!("{panic}")));
    assert!(partitions(), "this kernel has no cpuset controller");
    comes_back();
    comes_back_after_a_kill("in_a_guest", WITHOUT_PARTITION);
    comes_back_after_a_command();
}

#[test]
#[ignore = "runs in the namespace that another test makes"]
fn in_a_namespace() {
    if std::env::var_os(CHILD).is_some() {
        forever();
    }
    comes_back();
    comes_back_after_a_kill("in_a_namespace", "whole");
}

#[test]
fn a_running_machine_is_as_it_was_also_after_a_kill() {
    if std::env::var_os("ISOLATOR_LIVE").is_none() {
        return println!(
            "skipped: it moves this machine's interrupts for a moment; set ISOLATOR_LIVE=1 as root"
        );
    }
    // The records lie in a private folder.
    let script = "mkdir -p /var/lib && mount -t tmpfs none /var/lib && exec \"$TEST\" --ignored --exact in_a_namespace --nocapture";
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .env("TEST", std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    println!("{said}");
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}
