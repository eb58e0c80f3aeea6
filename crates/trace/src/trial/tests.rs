// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::record::{Leaving, Waking};

const THREAD: u32 = 71;
const WAKER: u32 = 72;

fn happened() -> Happened {
    let wakeup = Wakeup { from_ns: 9_000, to_ns: 9_100, waited_ns: 300_000 };
    Happened { thread: THREAD, waker: WAKER, due_ns: vec![1_000, 2_000], woken: vec![wakeup] }
}

fn record(at_ns: u64, kind: ThreadEvent) -> ThreadRecord {
    ThreadRecord { thread: THREAD, cpu: 0, at_ns, kind }
}

/// A stay after a sleep until then, which ends with the next one.
fn slept(due_ns: u64) -> ThreadRecord {
    let call = Some(syscalls::Sysno::clock_nanosleep as u32);
    let stay = Stay {
        woken_ns: Some(due_ns + 10),
        waking: Waking { due_ns: Some(due_ns), ..Waking::default() },
        leaving: Leaving { sleeps: true, call, ..Leaving::default() },
        ..Stay::default()
    };
    record(due_ns + 90, ThreadEvent::Stay(Box::new(stay)))
}

fn woken(woken_ns: u64, waker: u32) -> ThreadRecord {
    let waking = Waking { waker, ..Waking::default() };
    let stay = Stay { woken_ns: Some(woken_ns), waking, ..Stay::default() };
    record(400_000, ThreadEvent::Stay(Box::new(stay)))
}

fn stack(at_ns: u64) -> ThreadRecord {
    record(at_ns, ThreadEvent::Stack(vec![0xf0]))
}

#[test]
fn passes_if_all_events_are_reported() {
    let records = [slept(1_000), woken(9_050, WAKER), stack(9_050)];
    assert_eq!(untold(&happened(), &records, true), None);
}

#[test]
fn names_the_first_missing_event() {
    let told = |records: &[ThreadRecord]| untold(&happened(), records, true).unwrap_or("all");
    assert!(told(&[]).starts_with("a thread's stays"));
    assert!(told(&[woken(9_050, WAKER)]).starts_with("a thread's stays"), "it sleeps in no call");
    assert_eq!(told(&[slept(1_001), woken(9_050, WAKER)]), "due times of timers");
    for wrong in [woken(9_050, 5), woken(9_200, WAKER)] {
        assert_eq!(told(&[slept(1_000), wrong]), "the waker of a thread");
    }
    for wrong in [stack(9_051), record(9_050, ThreadEvent::Stack(Vec::new()))] {
        assert_eq!(told(&[slept(1_000), woken(9_050, WAKER), wrong]), "the kernel functions at a wakeup");
    }
}

#[test]
fn an_event_that_did_not_happen_is_not_required() {
    let mut short = happened();
    short.woken[0].waited_ns = WAITED_NS;
    assert_eq!(untold(&short, &[slept(1_000), woken(9_050, WAKER)], true), None);
    short.woken.clear();
    assert_eq!(untold(&short, &[slept(1_000)], true), None);
}

#[test]
fn ignores_records_of_other_threads() {
    let other = |record: ThreadRecord| ThreadRecord { thread: 5, ..record };
    let records = [slept(1_000), woken(9_050, WAKER), stack(9_050)].map(other);
    assert!(untold(&happened(), &records, true).is_some());
}

/// Needs no BPF part: only the threads run.
#[test]
fn a_thread_sleeps_and_is_woken() {
    let Some(cpu) = thread::affinity().into_iter().next() else { return };
    let mut armed = None;
    let happened = provoke(cpu, |thread| {
        armed = Some(thread);
        Ok(())
    });
    match happened.unwrap() {
        Ok(happened) => {
            assert_eq!((Some(happened.thread), happened.due_ns.len()), (armed, SLEEPS));
            assert!(happened.waker != happened.thread && happened.woken.len() <= WAKEUPS);
            assert!(happened.woken.iter().all(|wakeup| wakeup.from_ns <= wakeup.to_ns));
        }
        // A starved machine.
        Err(why) => assert!(why.contains("CPU for"), "{why}"),
    }
}

/// Each source of this build, on this kernel.
#[test]
fn each_source_passes_its_trial_here() {
    if !rustix::process::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("skipped: it needs root and a kernel with BTF");
        return;
    }
    for choice in [SourceChoice::Bpf, SourceChoice::Tracefs] {
        match start(choice, &Names::read(Path::new("/")), &[]) {
            Ok(source) => assert_eq!(source.lost(), 0, "{choice:?}"),
            Err(error) => {
                let known = ["built without clang", "has oopsed", "no tracefs is mounted"];
                assert!(known.iter().any(|why| error.why.contains(why)), "{choice:?}: {error}");
            }
        }
    }
}
