// SPDX-License-Identifier: MIT OR Apache-2.0
//! The short form of the bench's ground truth: no injected stall goes unseen.

use bench::ground_truth;
use run::privilege::Privilege;

#[test]
fn both_probes_see_every_stall() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !Privilege::of_this_process().cap_sys_nice || cpus < 2 {
        println!("skipped: SCHED_FIFO 99 and two CPUs are needed");
        return;
    }
    for probe in ["spin", "wakeup"] {
        let outcome = ground_truth::run(probe, 1, 4, 7).unwrap();
        assert!(outcome.due > 20, "{probe}: {outcome:?}");
        assert_eq!(outcome.seen, outcome.due, "{probe}: {outcome:?}");
        // A crowded host may leave the injector alone hardly ever: then no length can be judged.
        assert!(outcome.right > 0 || outcome.clean < 10, "{probe}: {outcome:?}");
    }
}
