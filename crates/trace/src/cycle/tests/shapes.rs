// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads whose waits are no plain loop: several waits in a cycle, bursts, several timers, changes.

use super::*;

/// Of a program's place with this number.
fn at(place: u64, leaving: Leaving) -> Leaving {
    Leaving { place, ..leaving }
}

/// A loop that sleeps twice in each cycle, until `second_ns` after its due time, from two places.
fn two_sleeps(second_ns: u64, places: [u64; 2]) -> Vec<Stay> {
    periodic(100, |story, due_ns| {
        story.runs(timer(due_ns), 2_000, 30_000, at(places[0], sleep(true)));
        let due_ns = due_ns + second_ns;
        story.now_ns = due_ns + 500;
        story.runs(timer(due_ns), 2_000, 30_000, at(places[1], sleep(true)));
    })
}

#[test]
fn places_tell_two_sleeps_of_a_cycle_apart() {
    for (second_ns, at) in [(PERIOD_NS / 4, 2), (PERIOD_NS * 7 / 10, 1)] {
        let stays = two_sleeps(second_ns, [1, 2]);
        let model = infer(&stays, FEWEST, None).unwrap();
        assert_eq!((model.period_ns, model.at, model.places), (Some(PERIOD_NS), Some(at), 2));
        assert_eq!(cycles(&stays).len(), 99);
        assert!(cycles(&stays).iter().all(|cycle| cycle.blocked.len() == 1 && cycle.remainder_ns() == 0));
    }
}

#[test]
fn a_given_period_has_two_even_sleeps() {
    let stays = two_sleeps(PERIOD_NS / 2, [1, 2]);
    let period_ns = |given_ns| infer(&stays, FEWEST, given_ns).unwrap().period_ns;
    assert_eq!([None, Some(PERIOD_NS)].map(period_ns), [Some(PERIOD_NS / 2), Some(PERIOD_NS)]);
}

#[test]
fn two_sleeps_at_one_place_have_no_period() {
    let model = infer(&two_sleeps(PERIOD_NS / 4, [1, 1]), FEWEST, Some(PERIOD_NS)).unwrap();
    assert_eq!((model.period_ns, model.at), (None, None));
    assert!(model.mean_ns.abs_diff(PERIOD_NS / 2) < PERIOD_NS / 10, "{model:?}");
}

#[test]
fn a_loop_with_one_period_needs_no_places() {
    let mut n = 0;
    let stays = periodic(100, |story, due_ns| {
        n += 1;
        story.runs(timer(due_ns), 2_000, 30_000, at(n, sleep(true)));
    });
    let model = infer(&stays, FEWEST, None).unwrap();
    assert_eq!((model.period_ns, model.at), (Some(PERIOD_NS), None));
    assert_eq!(cycles(&stays).len(), 99);
}

/// Of one to `most` events, so far apart, in each tenth period.
fn bursts(most: u64, apart_ns: u64, waking: impl Fn(u64) -> Waking) -> Vec<Stay> {
    let (mut story, mut seed) = (Story::new(), 3u64);
    for n in 1..=60 {
        story.now_ns = OFFSET_NS + 10 * n * PERIOD_NS;
        seed = seed * 48_271 % 2_147_483_647;
        for _ in 0..1 + seed % most {
            let woken_ns = story.now_ns;
            story.runs(waking(woken_ns), 2_000, 20_000, leaving(Sysno::read, [7, 0, 0, 0]));
            story.now_ns = woken_ns + apart_ns;
        }
    }
    story.stays
}

#[test]
fn bursts_have_no_period() {
    for most in [4, 8, 12] {
        let of_events = bursts(most, 220_000, |_| by(5, "producer"));
        let of_timers = bursts(most, 220_000, timer);
        for stays in [of_events, of_timers] {
            let model = infer(&stays, FEWEST, None).unwrap();
            assert_eq!(model.period_ns, None, "{most}: {model:?}");
            assert!(model.least_ns <= 222_000 && model.most_ns > 7_000_000, "{model:?}");
        }
    }
}

#[test]
fn a_loop_that_rests_keeps_its_period() {
    let mut stays = periodic(400, |story, due_ns| story.runs(timer(due_ns), 2_000, 30_000, sleep(true)));
    stays.drain(50..200);
    stays.drain(100..200);
    assert_eq!(infer(&stays, FEWEST, None).unwrap().period_ns, Some(PERIOD_NS));
}

#[test]
fn two_timers_at_one_place_are_two_loops() {
    let [fast_timer, slow_timer] = [0x1000, 0x2000];
    let mut story = Story::new();
    let slow_ns = 10 * PERIOD_NS + PERIOD_NS / 3;
    let fast = (1..300).map(|n| (OFFSET_NS + n * PERIOD_NS, fast_timer));
    let slow = (1..29).map(|n| (OFFSET_NS + n * slow_ns, slow_timer));
    let mut due: Vec<(u64, u64)> = fast.chain(slow).collect();
    due.sort_unstable();
    for (due_ns, own) in due {
        story.now_ns = due_ns + 500;
        let waking = Waking { timer: Some(own), ..timer(due_ns) };
        story.runs(waking, 2_000, 30_000, leaving(Sysno::epoll_wait, [8, 0, 0, 0]));
    }
    let model = infer(&story.stays, FEWEST, None).unwrap();
    assert_eq!(model.shared.as_ref().unwrap().source, Source::Timer(Some(fast_timer)));
    assert_eq!((model.period_ns, model.other_timers), (Some(PERIOD_NS), vec![slow_ns]));
    assert!(cycles(&story.stays).iter().all(|cycle| (cycle.due_ns - OFFSET_NS).is_multiple_of(PERIOD_NS)));
}
