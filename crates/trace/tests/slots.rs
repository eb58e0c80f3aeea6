// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF part's slots for threads.

use std::path::Path;

use cause::names::Names;
use trace::record::ThreadEvent;

use crate::truth::run::{load, one_at_a_time};

/// `THREADS` of the BPF part.
const SLOTS: usize = 4096;

/// Threads that are started between two looks at the records.
const AT_ONCE: usize = 50;

#[test]
fn a_thread_that_ends_leaves_its_slot_to_another() {
    let _turn = one_at_a_time();
    let mut bpf = match load(&Names::read(Path::new("/"))) {
        Ok(bpf) => bpf,
        Err(why) => return println!("skipped: {why}"),
    };
    bpf.watch_new_threads_of(std::process::id()).unwrap();
    let (mut threads, mut started, mut ended) = (0, 0, 0);
    while threads < SLOTS + SLOTS / 4 {
        std::thread::scope(|scope| {
            (0..AT_ONCE).for_each(|_| drop(scope.spawn(|| {})));
        });
        threads += AT_ONCE;
        for record in bpf.take() {
            match record.kind {
                ThreadEvent::Started { .. } => started += 1,
                ThreadEvent::Exited => ended += 1,
                _ => {}
            }
        }
    }
    assert_eq!(bpf.lost(), 0);
    // Other tests have threads too.
    assert!(started >= threads, "{started} of {threads} threads were seen to start");
    assert!(started - ended < SLOTS / 4, "{ended} of {started} threads were seen to end");
}

#[test]
fn refuses_a_thread_without_a_slot() {
    let _turn = one_at_a_time();
    let mut bpf = match load(&Names::read(Path::new("/"))) {
        Ok(bpf) => bpf,
        Err(why) => return println!("skipped: {why}"),
    };
    // Numbers that no thread of this machine has.
    let most = 4 << 20;
    for thread in most - SLOTS as u32..most {
        bpf.watch(thread).unwrap();
        bpf.watch(thread).unwrap();
    }
    let beyond = [1, most].map(|thread| bpf.watch(thread).unwrap_err().to_string());
    assert!(beyond.iter().all(|error| error.contains("there is no room for thread")), "{beyond:?}");
}
