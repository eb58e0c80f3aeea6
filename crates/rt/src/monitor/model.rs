// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monitor in every interleaving of a few cycles, and every order that the memory model allows: `make
//! proof-messages`.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::*;
use crate::clock::monotonic_ns;

/// A ring of four slots and six cycles, so that slots are written again and some cycles find no room.
#[test]
fn each_cycle_arrives_whole_and_in_order_or_is_counted() {
    let lost_some = std::sync::Arc::new(AtomicBool::new(false));
    let lost = std::sync::Arc::clone(&lost_some);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (sender, receiver) = crate::message::pair(Size { slots: 4, bytes: 8 * WORDS }).unwrap();
        let mut monitor = Monitor::on(sender, Duration::from_millis(1), CycleClock::Monotonic);
        let mut reader = Reader::on(receiver).unwrap();
        let start_ns = monotonic_ns() - 1_000_000;
        let looping = thread::spawn(move || {
            for n in 1..=6 {
                monitor.begin_at(start_ns + n, start_ns + n);
                monitor.mark_at(start_ns + 2 * n);
                monitor.end_at(start_ns + 3 * n);
            }
            monitor
        });
        let mut seen = 0;
        let mut whole = |cycle: &Cycle| {
            let n = cycle.number;
            let ends = [cycle.due_ns, cycle.began_ns, cycle.marks_ns[0].unwrap(), cycle.ended_ns];
            assert_eq!(ends, [n, n, 2 * n, 3 * n].map(|at| start_ns + at));
            assert_eq!(cycle.marks_ns[1..], [None, None]);
            seen += 1;
        };
        reader.poll(&mut whole).unwrap();
        thread::yield_now();
        reader.poll(&mut whole).unwrap();
        let mut monitor = looping.join().unwrap();
        // Room for one that tells how many were lost before it.
        reader.poll(&mut whole).unwrap();
        monitor.begin_at(start_ns + 7, start_ns + 7);
        monitor.mark_at(start_ns + 14);
        monitor.end_at(start_ns + 21);
        reader.poll(&mut whole).unwrap();
        assert_eq!(seen + reader.lost(), 7);
        lost.fetch_or(reader.lost() > 0, Relaxed);
    });
    assert!(lost_some.load(Relaxed), "no interleaving lost a cycle");
}
