// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring as its users meet it.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::*;

fn small() -> Size {
    Size { slots: 4, bytes: 16 }
}

#[test]
fn messages_come_in_order_and_a_full_ring_refuses() {
    let (mut sender, mut receiver) = pair(small()).unwrap();
    let mut expected = VecDeque::new();
    let mut next = 0u8;
    // Through many laps, with the ring as full as it gets.
    for round in 0..200 {
        while sender.post(&[next; 3]).is_ok() {
            expected.push_back(next);
            next = next.wrapping_add(1);
        }
        assert_eq!(sender.post(&[0]), Err(Failure::Full));
        for _ in 0..=round % 4 {
            let message = receiver.take().unwrap().map(<[u8]>::to_vec);
            assert_eq!(message, expected.pop_front().map(|n| vec![n; 3]));
        }
    }
}

#[test]
fn a_message_of_each_length_arrives_whole_and_a_longer_one_is_refused() {
    // Seven to a line, one, and messages apart from their headers.
    for bytes in [8, 24, 56, 64, 200] {
        let (mut sender, mut receiver) = pair(Size { slots: 4, bytes }).unwrap();
        for length in 0..=bytes {
            let message = (0..length).map(|n| (n * 7 + length) as u8).collect::<Vec<_>>();
            sender.post(&message).unwrap();
            assert_eq!(receiver.take(), Ok(Some(&message[..])));
        }
        assert_eq!(sender.post(&vec![0; bytes + 1]), Err(Failure::TooLarge));
        assert_eq!(receiver.take(), Ok(None));
    }
}

#[test]
fn a_closed_end_is_an_error_after_the_last_message() {
    let (mut sender, mut receiver) = pair(small()).unwrap();
    sender.post(b"last").unwrap();
    drop(sender);
    assert_eq!(receiver.poll(9, |message| assert_eq!(message, b"last")), Ok(1));
    assert_eq!(receiver.poll(9, |_| unreachable!()), Err(Failure::Closed));
    let (mut sender, receiver) = pair(small()).unwrap();
    drop(receiver);
    assert_eq!(sender.post(b"x"), Err(Failure::Closed));
}

#[test]
fn an_impossible_size_names_the_possible_ones() {
    for size in [Size { slots: 3, bytes: 8 }, Size { slots: 2, bytes: 8 }, Size { slots: 4, bytes: 0 }] {
        let error = pair(size).unwrap_err().to_string();
        assert!(error.ends_with("give a power of two from 4 to 1048576, and 1 to 4088 bytes"), "{error}");
    }
}

#[test]
fn two_threads_lose_nothing_and_reorder_nothing() {
    two_threads::<8>();
    two_threads::<56>();
    two_threads::<136>();
}

fn two_threads<const BYTES: usize>() {
    const MESSAGES: u64 = if cfg!(miri) { 150 } else { 200_000 };
    let (mut sender, mut receiver) = pair(Size { slots: 16, bytes: BYTES }).unwrap();
    let post = move || {
        for n in 0..MESSAGES {
            let mut message = [0; BYTES];
            message.chunks_mut(8).for_each(|word| word.copy_from_slice(&n.to_ne_bytes()));
            while sender.post(&message) == Err(Failure::Full) {
                thread::yield_now();
            }
        }
    };
    let posting = thread::spawn(post);
    let mut expected = 0u64;
    loop {
        let polled = receiver.poll(8, |message| {
            assert!(message.chunks(8).all(|word| word == expected.to_ne_bytes()), "torn, or out of order");
            expected += 1;
        });
        match polled {
            Ok(0) => thread::yield_now(),
            Ok(_) => {}
            Err(failure) => break assert_eq!(failure, Failure::Closed),
        }
    }
    assert_eq!(expected, MESSAGES);
    posting.join().unwrap();
}

#[test]
fn an_inbox_takes_from_its_senders_in_turn() {
    let mut inbox = Inbox::default();
    let mut senders = Vec::new();
    for n in 0..3 {
        let (sender, receiver) = pair(small()).unwrap();
        assert_eq!(inbox.add(receiver), n);
        senders.push(sender);
    }
    for _ in 0..2 {
        senders.iter_mut().enumerate().for_each(|(n, sender)| sender.post(&[n as u8]).unwrap());
    }
    let mut from = Vec::new();
    while inbox.poll(|ring, message| from.push((ring, message[0]))) > 0 {}
    assert_eq!(from, [(0, 0), (1, 1), (2, 2), (1, 1), (2, 2), (0, 0)]);
    drop(senders);
    assert_eq!(inbox.ring(1).unwrap().take(), Err(Failure::Closed));
}

#[test]
fn numbers_may_wrap() {
    for size in [small(), Size { slots: 4, bytes: 8 }, Size { slots: 4, bytes: 100 }] {
        let ring = Ring::create(Region::own(Ring::lines(size)), size);
        ring.pretend_taken(u32::MAX - 5);
        let (mut sender, mut receiver) = (Posting::new(ring.clone()).unwrap(), Polling::new(ring));
        for n in 0..12u8 {
            sender.post(&[n]).unwrap();
            assert_eq!(receiver.take(), Ok(Some(&[n][..])));
        }
    }
}

#[test]
fn a_ring_of_short_messages_holds_as_many_as_it_has_slots() {
    const LARGEST: u32 = if cfg!(miri) { 32 } else { 256 };
    for slots in [4, 16, LARGEST] {
        let (mut sender, mut receiver) = pair(Size { slots, bytes: 8 }).unwrap();
        // Whichever word of a line comes first. A receiver keeps less than a quarter to itself.
        for lap in 0..20 {
            let posted = (0..).take_while(|n: &u32| sender.post(&n.to_ne_bytes()).is_ok()).count() as u32;
            let least = if lap == 0 { slots } else { slots - slots / 4 + 1 };
            assert!((least..=slots).contains(&posted), "{posted} of {slots} in lap {lap}");
            (0..posted).for_each(|n| assert_eq!(receiver.take(), Ok(Some(&n.to_ne_bytes()[..]))));
            sender.post(b"one more").unwrap();
            assert_eq!(receiver.poll(9, |message| assert_eq!(message, b"one more")), Ok(1));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "memfd")]
fn a_ring_passed_to_another_process_is_the_same_ring() {
    let (here, there) = UnixStream::pair().unwrap();
    let shared = Shared::create(small()).unwrap();
    let mut sender = shared.sender().unwrap();
    shared.pass(&here).unwrap();
    let mut receiver = Shared::receive(&there).unwrap().receiver().unwrap();
    assert!(sender.receiver_lives() && receiver.sender_lives());
    sender.post(b"hello").unwrap();
    assert_eq!(receiver.take(), Ok(Some(&b"hello"[..])));
    let taken = Shared::from_fd(shared.fd().try_clone_to_owned().unwrap()).unwrap().sender().unwrap_err();
    assert_eq!(
        taken.to_string(),
        "cannot be the sender of a ring: some process has it; make a ring for each sender"
    );
    drop(receiver);
    assert!(!sender.receiver_lives());
}

#[test]
#[cfg_attr(miri, ignore = "memfd")]
fn a_new_end_goes_on_where_the_last_one_stopped() {
    for size in [small(), Size { slots: 4, bytes: 8 }, Size { slots: 4, bytes: 100 }] {
        let shared = Shared::create(size).unwrap();
        let mut receiver = shared.receiver().unwrap();
        for n in 0..50u8 {
            let mut sender = shared.sender().unwrap();
            sender.post(&[n, n]).unwrap();
            sender.post(&[n]).unwrap();
            // Those before it keep their length.
            assert_eq!(receiver.take(), Ok(Some(&[n, n][..])));
            assert_eq!(receiver.take(), Ok(Some(&[n][..])));
            if n % 7 == 0 {
                drop(receiver);
                receiver = shared.receiver().unwrap();
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "memfd")]
fn an_end_is_free_at_once_although_a_child_still_has_its_description() {
    let shared = Shared::create(small()).unwrap();
    let sender = shared.sender().unwrap();
    // As a child has it between its fork and its exec.
    let held = sender.held.as_ref().unwrap().duplicate();
    drop(sender);
    shared.sender().unwrap();
    drop(held);
}

#[test]
#[cfg_attr(miri, ignore = "memfd")]
fn what_is_no_ring_is_refused() {
    use std::io::{Seek, Write};
    use std::os::fd::OwnedFd;

    let refused = |fd: OwnedFd| Shared::from_fd(fd).unwrap_err().to_string();
    assert!(refused(std::fs::File::open("/dev/null").unwrap().into()).contains("it is not sealed memory"));
    for (word, value) in [(0, 7u64), (1, 3), (1, 1 << 40), (2, 0), (2, u64::MAX)] {
        let shared = Shared::create(small()).unwrap();
        let mut file = std::fs::File::from(shared.fd().try_clone_to_owned().unwrap());
        file.seek(std::io::SeekFrom::Start(8 * word)).unwrap();
        file.write_all(&value.to_ne_bytes()).unwrap();
        let said = refused(file.into());
        assert!(said.starts_with("cannot use a ring: it"), "{word} {value}: {said}");
    }
}

/// Its maker may die at any step, or another process look meanwhile (`/proc/PID/fd`).
#[test]
#[cfg_attr(miri, ignore = "memfd")]
fn a_ring_that_is_not_finished_is_refused_at_each_step_of_its_making() {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    let refused = |memory: &OwnedFd| Shared::from_fd(memory.try_clone().unwrap()).unwrap_err().to_string();
    let memory = memfd_create("ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    assert!(refused(&memory).contains("it is not sealed memory"));
    ftruncate(&memory, 64 * Ring::lines(small()) as u64).unwrap();
    assert!(refused(&memory).contains("it is not sealed memory"));

    // A whole one, and back: the version is written last, the number of slots and of bytes before it.
    let whole = Shared::create(small()).unwrap();
    let file = std::fs::File::from(whole.fd().try_clone_to_owned().unwrap());
    let mut version = [0; 8];
    file.read_exact_at(&mut version, 0).unwrap();
    for word in 0..3 {
        file.write_all_at(&[0; 8], 8 * word).unwrap();
        let said = refused(&whole.fd().try_clone_to_owned().unwrap());
        assert!(said.contains("it is not a ring of this version"), "without word {word}: {said}");
        assert!(whole.sender().is_err() && whole.receiver().is_err());
    }
    file.write_all_at(&version, 0).unwrap();
    assert!(refused(&whole.fd().try_clone_to_owned().unwrap()).contains("its size is not what it says"));
}

#[test]
#[cfg_attr(miri, ignore = "futex")]
fn a_sleeping_receiver_is_woken() {
    let (mut sender, mut receiver) = pair(small()).unwrap();
    assert!(!receiver.wait(Duration::from_millis(1)));
    let posting = thread::spawn(move || {
        for n in 0..500u32 {
            while sender.post_and_wake(&n.to_ne_bytes()) == Err(Failure::Full) {
                thread::yield_now();
            }
        }
        sender
    });
    for n in 0..500u32 {
        while !receiver.wait(Duration::from_secs(60)) {}
        assert_eq!(receiver.take(), Ok(Some(&n.to_ne_bytes()[..])));
    }
    drop(posting.join());
}

mod hostile {
    //! The other end may write anything into its lines and its slots, and either may be killed and begin
    //! anew.

    use proptest::prelude::*;

    use super::*;

    fn sizes() -> impl Strategy<Value = Size> {
        let bytes = prop::sample::select(vec![1usize, 8, 16, 56, 100]);
        (prop::sample::select(vec![4, 8, 16]), bytes).prop_map(|(slots, bytes)| Size { slots, bytes })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        #[test]
        fn no_word_of_the_other_end_is_believed(
            size in sizes(),
            writes in prop::collection::vec(
                (any::<prop::sample::Index>(), 0usize..8, any::<u64>(), 0..8u8), 1..40)
        ) {
            let ring = Ring::create(Region::own(Ring::lines(size)), size);
            let mut sender = Posting::new(ring.clone()).unwrap();
            let mut receiver = Polling::new(ring.clone());
            for (line, word, value, renews) in writes {
                // Numbers near those that the ends have, too.
                let value = if value % 2 == 0 { value >> 57 | value << 32 } else { value };
                ring.scribble(line.index(Ring::lines(size)), word, value);
                match renews {
                    // An end that goes closes the ring, so it goes first.
                    0 => {
                        drop(sender);
                        sender = Posting::new(ring.clone()).unwrap();
                    }
                    1 => {
                        drop(receiver);
                        receiver = Polling::new(ring.clone());
                    }
                    _ => {}
                }
                let _ = sender.post(&vec![1; size.bytes]);
                for _ in 0..=size.slots {
                    if let Ok(Some(message)) = receiver.take() {
                        prop_assert!(message.len() <= size.bytes);
                    }
                }
            }
        }

        #[test]
        fn killed_ends_lose_nothing_and_repeat_a_quarter_at_most(
            size in sizes(),
            begin in prop::sample::select(vec![1, 57, u32::MAX - 70, u32::MAX - 6]),
            steps in prop::collection::vec((0..16u8, any::<prop::sample::Index>()), 1..200)
        ) {
            let ring = Ring::create(Region::own(Ring::lines(size)), size);
            ring.pretend_taken(begin);
            let mut sender = Posting::new(ring.clone()).unwrap();
            let mut receiver = Polling::new(ring.clone());
            // Dropped at last: a killed end closes nothing.
            let (mut killed_senders, mut killed_receivers) = (Vec::new(), Vec::new());
            let (mut posted, mut next, quarter) = (Vec::new(), 0, size.slots as usize / 4);
            for (step, length) in steps {
                match step {
                    0 => {
                        let next = Posting::new(ring.clone()).unwrap();
                        killed_senders.push(std::mem::replace(&mut sender, next));
                    }
                    1 => {
                        killed_receivers.push(std::mem::replace(&mut receiver, Polling::new(ring.clone())));
                        if let Some(message) = receiver.take().unwrap() {
                            // Each has another first byte.
                            let again = posted.iter().position(|other| other == message).unwrap();
                            prop_assert!(again <= next && next - again <= quarter, "{again} after {next}");
                            next = again + 1;
                        } else {
                            prop_assert_eq!(next, posted.len());
                        }
                    }
                    2..8 => {
                        let message = receiver.take().unwrap();
                        prop_assert_eq!(message, posted.get(next).map(Vec::as_slice));
                        next += usize::from(message.is_some());
                    }
                    _ => {
                        let message = vec![posted.len() as u8; length.index(size.bytes) + 1];
                        match sender.post(&message) {
                            Ok(()) => posted.push(message),
                            Err(failure) => {
                                prop_assert_eq!(failure, Failure::Full);
                                prop_assert!(posted.len() - next + quarter > size.slots as usize);
                            }
                        }
                    }
                }
            }
        }
    }
}
