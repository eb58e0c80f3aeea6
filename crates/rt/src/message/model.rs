// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring in every interleaving of a few messages, and every order that the memory model allows:
//! `make proof-messages`. Loom does not let a load see what is stored later, so it cannot find a missing pair
//! 2.

use std::sync::atomic::AtomicU64;

use loom::thread;

use super::*;

#[test]
fn each_message_beside_its_number_arrives_whole_and_once() {
    two_laps(24);
}

/// From one line into the next.
#[test]
fn each_message_of_a_shared_line_arrives_whole_and_once() {
    two_laps(8);
}

#[test]
fn each_message_apart_from_its_number_arrives_whole_and_once() {
    two_laps(64);
}

/// Two laps of the smallest ring for messages of so many bytes, so that slots are written again.
fn two_laps(bytes: usize) {
    // Across all interleavings.
    let most = std::sync::Arc::new(AtomicU64::new(0));
    let most_posted = std::sync::Arc::clone(&most);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (mut sender, mut receiver) = pair(Size { slots: 4, bytes }).unwrap();
        let posting = thread::spawn(move || {
            let mut posted = 0u64;
            for n in 0..6u64 {
                if sender.post(&n.to_ne_bytes()) != Ok(()) {
                    break;
                }
                posted += 1;
            }
            posted
        });
        let mut taken = 0u64;
        for _ in 0..3 {
            match receiver.take() {
                Ok(Some(message)) => {
                    assert_eq!(message, taken.to_ne_bytes());
                    taken += 1;
                }
                Ok(None) => thread::yield_now(),
                Err(_) => break,
            }
        }
        let posted = posting.join().unwrap();
        most_posted.fetch_max(posted, std::sync::atomic::Ordering::Relaxed);
        while let Ok(Some(message)) = receiver.take() {
            assert_eq!(message, taken.to_ne_bytes());
            taken += 1;
        }
        assert_eq!(taken, posted);
        assert_eq!(receiver.take(), Err(Failure::Closed));
    });
    assert_eq!(most.load(std::sync::atomic::Ordering::Relaxed), 6, "no interleaving wrote a slot again");
}
