// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectors on this machine, started as for a run, with their trial.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cause::event::{Event, EventKind};
use cause::{Collect, Depth, Started, WatchSpec, start};
use evidence::cause::{Choice, Collector};

/// One test after the other: each would see the threads of the others.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason why no collector can run here.
fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("it needs a kernel with BTF");
    }
    (!cause::bpf::is_built_in()).then_some("it was built without clang")
}

fn started(choice: Choice, depth: Depth) -> Option<Box<dyn Collect>> {
    if let Some(why) = obstacle() {
        println!("skipped: {why}");
        return None;
    }
    let cpu = *rt::thread::affinity().last().expect("this thread runs on a CPU");
    let asked = WatchSpec { cpus: [cpu].into_iter().collect(), depth };
    match start(choice, &asked, &inspect::read(Path::new("/"))) {
        Ok(Started::Events(collector)) => Some(collector),
        Ok(Started::Counters { because }) => panic!("no events: {because:?}"),
        Err(error) if error.why.contains("has oopsed") || error.why.contains("no tracefs") => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn untold(collector: &dyn Collect) -> Vec<&String> {
    collector.could_not_see().iter().filter(|line| line.contains("in the trial")).collect()
}

#[test]
fn auto_chooses_bpf_which_reports_all_kinds() {
    let _turn = turn();
    let Some(collector) = started(Choice::Auto, Depth::Busy) else { return };
    assert_eq!((collector.collector(), untold(&*collector)), (Collector::Bpf, Vec::new()));
    assert!(collector.not_tried().iter().any(|kind| kind == "NMIs"), "{collector:?}");
}

#[test]
fn each_depth_of_both_collectors_passes_its_trial() {
    let _turn = turn();
    for choice in [Choice::Bpf, Choice::Tracefs] {
        for depth in [Depth::Sleeping, Depth::Senders] {
            let Some(collector) = started(choice, depth) else { continue };
            assert_eq!(untold(&*collector), Vec::<&String>::new(), "{choice} {depth:?}");
        }
    }
}

#[test]
fn the_trial_leaves_nothing() {
    let _turn = turn();
    let Some(mut collector) = started(Choice::Auto, Depth::Busy) else { return };
    let cpu = *rt::thread::affinity().last().expect("this thread runs on a CPU");
    let (events, _) = collector.take(cpu).unwrap();
    let of_trial = events.iter().filter(|event| matches!(event.kind, cause::event::EventKind::Fault(_)));
    assert_eq!(of_trial.count(), 0, "no thread is measured");
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    assert!(!names.into_iter().any(|name| name.starts_with("trial-")), "its threads have ended");
}

/// Sleeps so often on a CPU, and returns the begin.
fn sleep_on(cpu: u32, times: usize) -> u64 {
    let slept = std::thread::spawn(move || {
        rt::thread::set_affinity(&[cpu]).expect("a CPU of this process");
        let begin_ns = rt::clock::monotonic_ns();
        (0..times).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(100)));
        begin_ns
    });
    slept.join().expect("the thread sleeps")
}

/// The events before a time, without the values of the hypervisor's clock, which have no place in the ring.
fn written_before(events: &[Event], begin_ns: u64) -> usize {
    let is_clock = |event: &&Event| matches!(event.kind, EventKind::Stolen(_));
    events.iter().filter(|event| event.monotonic_ns < begin_ns && !is_clock(event)).count()
}

#[test]
fn the_past_can_be_read_repeatedly() {
    const TIMES: usize = 2_000;
    let _turn = turn();
    for choice in [Choice::Bpf, Choice::Tracefs] {
        let Some(mut collector) = started(choice, Depth::Sleeping) else { continue };
        let cpu = *rt::thread::affinity().last().expect("this thread runs on a CPU");
        let begin_ns = sleep_on(cpu, TIMES);
        let (first, _) = collector.since(cpu, begin_ns).unwrap();
        let before = written_before(&first, begin_ns);
        // A whole chunk of the ring may come first.
        assert!(before < 1_024 && first.len() - before > TIMES, "{choice}: {before} of {}", first.len());
        assert!(first.is_sorted_by_key(|event| event.monotonic_ns));
        let (again, _) = collector.since(cpu, begin_ns).unwrap();
        // New events follow, perhaps late.
        assert_eq!(again[..TIMES], first[..TIMES], "{choice}");
        let later_ns = sleep_on(cpu, TIMES);
        let (later, _) = collector.since(cpu, later_ns).unwrap();
        let before = written_before(&later, later_ns);
        assert!(before < 1_024 && later.len() - before > TIMES, "{choice}: {before} of {}", later.len());
        collector.take(cpu).unwrap();
        let (left, _) = collector.since(cpu, begin_ns).unwrap();
        assert!(left.len() < TIMES, "{choice}: {} were taken", left.len());
    }
}
