// SPDX-License-Identifier: MIT OR Apache-2.0
//! The short form of the bench's ground truth: no injected stall goes unseen, and no bystander is named.

use proof::bench::ground_truth;
use run::privilege::Privilege;

#[test]
fn both_probes_see_every_stall() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !Privilege::of_this_process().cap_sys_nice || cpus < 2 {
        println!("skipped: SCHED_FIFO 99 and two CPUs are needed");
        return;
    }
    for probe in ["spin", "wakeup"] {
        // A crowded host seldom leaves the injector alone: it goes on until lengths can be judged.
        let (mut clean, mut right) = (0, 0);
        for seed in 7..12 {
            let outcome = ground_truth::run(probe, 1, 4, seed).unwrap();
            assert!(outcome.due > 20, "{probe}: {outcome:?}");
            assert_eq!(outcome.seen, outcome.due, "{probe}: {outcome:?}");
            assert_eq!(outcome.bystander, 0, "{probe}: {outcome:?}");
            (clean, right) = (clean + outcome.clean, right + outcome.right);
            if clean >= 10 {
                break;
            }
        }
        assert!(right > 0 || clean < 10, "{probe}: {right} of {clean} right");
    }
}
