// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grants that are taken back while a row is measured: if another program moves, lowers or stops a
//! measuring thread, the row is tainted and the verdict is no longer that the limit holds.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::looping::{Looping, me};
use crate::common::*;
use evidence::kind::RowKind;
use rt::Policy;
use rustix::process::{Pid, Signal, getuid, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;

/// Every probe that has a measuring thread of ours, and how its thread's name begins.
const PROBES: [(&str, &str); 6] = [
    ("wakeup", "wakeup-"),
    ("spin", "spin-"),
    ("toggle", "toggle-"),
    ("message-futex", "message-futex-"),
    ("response", "response-shared"),
    ("ethercat", "ethercat-"),
];

#[test]
fn every_probe_with_threads_is_interfered_with() {
    let own = measure::probes::NAMES.into_iter().filter(|name| *name != RowKind::Hardware.name());
    let missing: Vec<_> =
        own.filter(|name| !PROBES.iter().any(|(probe, _)| probe.starts_with(name))).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// The threads of a process whose name begins so.
fn threads(process: u32, name: &str) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let is_named = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(name))
    };
    tasks.filter(is_named).filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// Measures `probe`, does something to the thread of that name, and ends the run: its taints.
#[track_caller]
fn interfered(folder: &Path, probe: &str, name: &str, interfere: &dyn Fn(u32)) -> Vec<Value> {
    let policy = if may_be_real_time() { "fifo" } else { "other" };
    let args = ["measure", probe, "-o", "run", "--warm-up", "0", "--causes", "off", "--policy", policy];
    let args = [&args[..], &["--priority", "20", "--json", "-"]].concat();
    let going = Going::run(folder, &mut command(folder, &args));
    going.wait_for_seconds(1);
    let threads = threads(going.pid(), name);
    assert!(!threads.is_empty(), "{probe} has no thread {name}");
    interfere(threads[0]);
    going.signal(Signal::INT);
    let document = going.end().ended(2).json();
    fs::remove_dir_all(folder.join("run")).unwrap();
    assert_ne!(document["verdict"]["outcome"], "held", "{document:#}");
    document["taints"].as_array().unwrap().clone()
}

#[track_caller]
fn tainted(taints: &[Value], code: &str, reason: &str) {
    let is_it = |taint: &Value| {
        taint["code"] == code && taint["reason"].as_str().is_some_and(|text| text.contains(reason))
    };
    assert!(taints.iter().any(is_it), "{code}, {reason}: {taints:#?}");
}

fn lower(thread: u32) {
    // Without real-time policies, the one that is left to go down to.
    let lower = match Policy::of(thread).unwrap() {
        Policy::Fifo(priority) => Policy::Fifo(priority - 1),
        _ => Policy::Batch,
    };
    lower.apply_to(thread, false).unwrap();
}

fn move_away(thread: u32) {
    let thread = Pid::from_raw(thread.cast_signed());
    let now = rustix::thread::sched_getaffinity(thread).unwrap();
    let mut others = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| !now.is_set(*cpu)).for_each(|cpu| others.set(cpu));
    sched_setaffinity(thread, &others).unwrap();
}

#[test]
fn a_lowered_thread_of_any_probe_taints() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    for (probe, name) in PROBES {
        if skipped(probe == "ethercat" && !getuid().is_root(), "a wire of one's own needs root") {
            continue;
        }
        let taints = interfered(folder.path(), probe, name, &lower);
        tainted(&taints, "grant-lost", " probe's thread had SCHED_");
    }
}

#[test]
fn a_moved_thread_taints() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let taints = interfered(folder.path(), "wakeup", "wakeup-", &move_away);
    tainted(&taints, "moved", "the wakeup probe's thread was allowed cpus");
    for (probe, name, who) in [
        ("message-eventfd", "answer-", "the thread that answers"),
        ("response", "edges-", "the thread that gives edges"),
    ] {
        tainted(&interfered(folder.path(), probe, name, &move_away), "moved", who);
    }
}

/// A control group of a test, below a hierarchy of this machine.
struct Group(PathBuf);

impl Group {
    /// `None` where there is no such hierarchy, or it may not be written.
    fn make(hierarchy: &str) -> Option<Group> {
        let path = Path::new("/sys/fs/cgroup").join(hierarchy);
        let path = path.join(format!("isolator-test-{}", std::process::id()));
        fs::create_dir(&path).ok().map(|()| Group(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process may just be going.
        wait_for("the end of a control group", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

#[test]
fn a_thread_that_is_put_into_another_control_group_taints() {
    // Of version 1 a thread can be moved alone; of version 2, its process.
    let version_1 = ["pids", "freezer", "cpu"].iter().find_map(|name| Group::make(name));
    let group = version_1.or_else(|| Group::make("unified")).or_else(|| Group::make(""));
    let Some(group) = group.filter(|_| !skipped_for_lack_of_cpus()) else {
        skipped(true, "it needs to make control groups");
        return;
    };
    let folder = folder();
    let taints = interfered(folder.path(), "wakeup", "wakeup-", &|thread| {
        let file = ["tasks", "cgroup.procs"].map(|name| group.0.join(name));
        let file = file.iter().find(|file| file.exists()).unwrap();
        fs::write(file, thread.to_string()).unwrap();
    });
    tainted(&taints, "grant-lost", "was put into the control group of");
}

#[test]
fn a_quota_that_stops_the_run_taints() {
    // Shorter than the scheduler lets a task run at once: it stops this one also on a busy machine, where the
    // share of time is less.
    let set = |group: &Group| {
        let is_written = |name, text| fs::write(group.0.join(name), text).is_ok();
        is_written("cpu.max", "1000 5000")
            || is_written("cpu.cfs_period_us", "5000") && is_written("cpu.cfs_quota_us", "1000")
    };
    let groups = ["cpu", "unified", ""].iter().filter_map(|name| Group::make(name));
    let Some(group) = groups.into_iter().find(set).filter(|_| !skipped_for_lack_of_cpus()) else {
        skipped(true, "it needs a quota of CPU time");
        return;
    };
    let folder = folder();
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec {PROGRAM} measure spin -o run --policy other --duration 2s --warm-up 0 \
         --causes off --accept not-real-time-policy --json -",
        group.0.display()
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.path());
    let document = Ran::from(command.output().unwrap()).ended(2).json();
    let reason = "stopped its ordinary tasks in ";
    tainted(document["taints"].as_array().unwrap(), "cpu-quota", reason);
}

#[test]
fn a_programs_loop_that_is_lowered_taints() {
    let folder = folder();
    let _looping = Looping::start("lowered", u64::MAX);
    let going = Going::run(
        folder.path(),
        &mut command(folder.path(), &["monitor", &me("lowered"), "-o", "run", "--json", "-"]),
    );
    going.wait_for_seconds(1);
    let path = rt::monitor::choose(std::process::id(), Some("lowered")).unwrap();
    assert!(path.exists());
    threads(std::process::id(), "loop-lowered").into_iter().for_each(lower);
    going.signal(Signal::INT);
    let document = going.end().ended(2).json();
    tainted(
        document["taints"].as_array().unwrap(),
        "grant-lost",
        "the loop's thread had SCHED_BATCH instead of",
    );
}

#[test]
fn a_load_that_is_stopped_taints_its_row() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let going = Going::start(folder.path(), &["--loads", "custom=while :; do :; done", "--json", "-"]);
    going.wait_for_seconds(1);
    // Guard, supervisor, shell.
    let load = *going.descendants().last().unwrap();
    kill_process(Pid::from_raw(load.cast_signed()).unwrap(), Signal::STOP).unwrap();
    going.wait_for_seconds(6);
    going.signal(Signal::INT);
    let document = going.end().ended(2).json();
    assert_ne!(document["verdict"]["outcome"], "held", "{document:#}");
    let taints = document["taints"].as_array().unwrap();
    tainted(taints, "load", "it stood still for ");
    tainted(taints, "load", &format!("({load}) was stopped"));
}

#[test]
#[ignore = "takes a CPU of this machine offline for some seconds; as root: cargo test --test all -- --ignored offline"]
fn a_measured_cpu_that_goes_offline_taints() {
    struct Online(PathBuf);
    impl Drop for Online {
        fn drop(&mut self) {
            fs::write(&self.0, "1").unwrap();
        }
    }
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    let cpu = Online(format!("/sys/devices/system/cpu/cpu{last}/online").into());
    let folder = folder();
    let going = Going::start(folder.path(), &["--cpus", &last.to_string(), "--json", "-"]);
    going.wait_for_seconds(1);
    fs::write(&cpu.0, "0").unwrap();
    going.wait_for_seconds(3);
    drop(cpu);
    going.signal(Signal::INT);
    let document = going.end().ended(2).json();
    tainted(document["taints"].as_array().unwrap(), "cpu-offline", "was offline while it was measured");
}
