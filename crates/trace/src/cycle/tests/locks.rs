// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks: their owners, and waits for them that no stay ends. Sleeps that no timer ends.

use super::*;

#[test]
fn the_owner_of_a_lock_unlocks_it() {
    let mut blocked = Blocked {
        from_ns: 0,
        ns: 1,
        on: Wait::Lock { address: 0x7000, inherits_priority: false },
        words: [2, 0, 77, 1],
        ended_by: None,
        interrupt: None,
    };
    assert_eq!(blocked.owner(), Some(77));
    blocked.words = [2, 0x7f00_1234, 77, 1];
    assert_eq!(blocked.owner(), None);
    blocked.ended_by = Some((79, "logger".to_string()));
    assert_eq!(blocked.owner(), Some(79));
    blocked.on = Wait::Lock { address: 0x7000, inherits_priority: true };
    blocked.words = [0x8000_0000 | 78, 0, 0, 0];
    assert_eq!(blocked.owner(), Some(78));
    blocked.on = Wait::Read(3);
    assert_eq!(blocked.owner(), None);
}

#[test]
fn a_futex_with_waiters_is_the_lock_of_each_library() {
    const WAIT: u64 = 0;
    const WAIT_PRIVATE_UNTIL: u64 = 128 | 9;
    let on = |command, value: u32| {
        let leaving = leaving(Sysno::futex, [0x7000, command, u64::from(value), 0]);
        Wait::of(&Stay { leaving, ..Stay::default() }).unwrap()
    };
    for (of, value, is_lock) in [
        ("a mutex of glibc or Rust", 2, true),
        ("a read-write lock of glibc", 3, true),
        ("a robust mutex", 1 << 31 | 4_711, true),
        ("a mutex of musl", 1 << 31 | 16, true),
        ("a read-write lock of Rust that readers have", 1 << 31 | 1 << 30 | 3, true),
        ("a parked thread", u32::MAX, false),
        ("a semaphore", 0, false),
        ("a condition variable", 4, false),
    ] {
        for command in [WAIT, WAIT_PRIVATE_UNTIL] {
            assert_eq!(matches!(on(command, value), Wait::Lock { .. }), is_lock, "{of}");
        }
    }
}

#[test]
fn the_owner_of_a_robust_lock_is_in_its_word() {
    let blocked = |word: u32, ended_by: Option<(u32, String)>| Blocked {
        from_ns: 0,
        ns: 1,
        on: Wait::Lock { address: 0x7000, inherits_priority: false },
        words: [word, 0, 0, 0],
        ended_by,
        interrupt: None,
    };
    assert_eq!(blocked(1 << 31 | 4_711, None).owner(), Some(4_711));
    // musl has the number of an error there; and the thread that unlocked it had it.
    assert_eq!(blocked(1 << 31 | 16, None).owner(), None);
    assert_eq!(blocked(1 << 31 | 4_711, Some((12, "log".to_string()))).owner(), Some(12));
}

/// A thread that waits for a lock with priority inheritance leaves its CPU, or keeps it, in this time.
fn waits(in_ns: u64, out_ns: u64) -> Stay {
    let leaving = Leaving { words: [77, 0, 0, 0], ..leaving(Sysno::futex, [0x7000, 6, 0, 0]) };
    Stay { in_ns, out_ns, leaving, ..Stay::default() }
}

/// The cycle whose stays, and parts of stays without leaving the CPU, are these.
fn cycle_of(parts: &[Stay], stays: &[Stay]) -> LoopCycle {
    let usual = periodic(100, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    let mut cycles = CycleCutter::new(infer(&usual, FEWEST, None).unwrap());
    usual.iter().for_each(|stay| drop(cycles.add(1, stay.clone())));
    parts.iter().for_each(|part| cycles.spins(part.clone()));
    stays.iter().find_map(|stay| cycles.add(1, stay.clone())).unwrap()
}

#[test]
fn a_wait_on_its_own_cpu_is_no_execution() {
    let due_ns = OFFSET_NS + 101 * PERIOD_NS;
    let at = |us: u64| due_ns + us * 1_000;
    let stay = Stay { in_ns: at(2), out_ns: at(60), woken_ns: Some(at(1)), ..waits(0, 0) };
    let (waking, leaving) = (timer(due_ns), sleep(true));
    let whole = Stay { waking: waking.clone(), leaving: leaving.clone(), ..stay.clone() };
    let cycle = cycle_of(&[waits(at(10), at(30)), waits(at(40), at(45))], &[whole]);
    assert_eq!((cycle.execution_ns, cycle.remainder_ns()), (33_000, 0));
    let waited: Vec<u64> = cycle.blocked.iter().map(|part| part.ns).collect();
    assert_eq!((waited, cycle.blocked[0].owner()), (vec![20_000, 5_000], Some(77)));
    // The owner left its CPU, and the thread gave up its own.
    let first = Stay { waking, ..stay };
    let last = Stay { woken_ns: Some(at(100)), in_ns: at(101), out_ns: at(110), leaving, ..Stay::default() };
    let cycle = cycle_of(&[waits(at(50), at(60))], &[first, last]);
    let waited: Vec<(u64, u64)> = cycle.blocked.iter().map(|part| (part.from_ns, part.ns)).collect();
    assert_eq!((waited, cycle.execution_ns), (vec![(at(50), 50_000)], 57_000));
    assert_eq!(cycle.remainder_ns(), 0);
}

#[test]
fn a_sleep_in_a_freezer_was_due_on_its_grid() {
    let due_ns = OFFSET_NS + 101 * PERIOD_NS;
    let woken_ns = Some(due_ns + 5_300_000);
    let (in_ns, out_ns) = (due_ns + 5_302_000, due_ns + 5_340_000);
    let of = |waking| {
        let stay = Stay { woken_ns, in_ns, out_ns, waking, leaving: sleep(true), ..Stay::default() };
        cycle_of(&[], &[stay]).due_ns
    };
    assert_eq!([of(by(12, "thaws")), of(timer(due_ns + 5_000_000))], [due_ns, due_ns + 5_000_000]);
}

#[test]
fn a_condition_that_moves_to_a_lock_is_two_waits() {
    let due_ns = OFFSET_NS + 101 * PERIOD_NS;
    let at = |us: u64| due_ns + us * 1_000;
    let usual = periodic(100, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    let mut cycles = CycleCutter::new(infer(&usual, FEWEST, None).unwrap());
    usual.iter().for_each(|stay| drop(cycles.add(1, stay.clone())));
    let requeued = Leaving { sleeps: true, ..leaving(Sysno::futex, [0x6000, 11, 0, 0]) };
    let first = Stay {
        woken_ns: Some(at(1)),
        in_ns: at(2),
        out_ns: at(10),
        waking: timer(due_ns),
        leaving: requeued,
        ..Stay::default()
    };
    cycles.add(1, first);
    cycles.spins(waits(at(30), at(90)));
    let (woken_ns, leaving) = (Some(at(90)), sleep(true));
    let last =
        Stay { woken_ns, in_ns: at(91), out_ns: at(99), waking: by(77, "owner"), leaving, ..Stay::default() };
    let cycle = cycles.add(1, last).unwrap();
    let [condition, lock] = &cycle.blocked[..] else { panic!("{:?}", cycle.blocked) };
    assert_eq!(
        (condition.from_ns, condition.ns, condition.on),
        (at(10), 20_000, Wait::Condition { address: 0x6000 })
    );
    assert_eq!((lock.from_ns, lock.ns, lock.owner()), (at(30), 60_000, Some(77)));
}
