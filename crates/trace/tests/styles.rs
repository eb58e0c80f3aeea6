// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each way of waiting, in a program of its own: its wait, release, period, cycles and due times.

use trace::cycle::LoopCycle;
use trace::model::{Model, Release};

use crate::truth::{Case, Language, TrueCycle, Watched, share, watch};

/// The release of a loop.
enum Released {
    OnGrid,
    /// Times that the program computes from a schedule for a relative sleep.
    NearGrid,
    AfterEnd,
    By(&'static str),
}

use Released::{AfterEnd, By, NearGrid, OnGrid};

fn threads(language: Language, style: &'static str, period_us: u64) -> Option<Vec<Watched>> {
    let case = Case { language, style, plant: None, period_us, cycles: 1_000_000 / period_us };
    watch(&case).map_err(|why| println!("skipped: {why}")).ok()
}

/// Of a program whose last thread waits so, at this period.
fn holds(language: Language, style: &'static str, period_us: u64, waits_with: &str, released: Released) {
    let Some(threads) = threads(language, style, period_us) else { return };
    is_as_told(threads.last().expect("the program has a thread"), period_us, waits_with, released);
}

fn is_as_told(thread: &Watched, period_us: u64, waits_with: &str, released: Released) {
    let model = thread.model.as_ref().expect("a loop is found");
    assert!(model.wait.to_string().starts_with(waits_with), "{model:?}");
    is_released(model, &released);
    // A sleep for a time begins at the end of the cycle: it is longer by the cycle and by each lateness.
    let (period_ns, most) = match released {
        AfterEnd => (median_distance_ns(&thread.truth.cycles), 0.05),
        OnGrid | NearGrid | By(_) => (period_us * 1_000, 0.01),
    };
    let found_ns = model.period_ns.unwrap_or(0);
    assert!(found_ns.abs_diff(period_ns) as f64 <= most * period_ns as f64, "{period_ns}: {model:?}");
    assert!(thread.found() >= 0.99, "{} of {} found", thread.pairs.len(), thread.expected.len());
    for (own, found) in thread.both() {
        assert!(found.due_ns <= own.begin_ns && found.due_ns <= found.began_ns, "{own:?} {found:?}");
    }
    match released {
        OnGrid => assert!(thread.due_exact().is_none_or(|share| share >= 0.98), "{:?}", thread.due_exact()),
        // It was triggered after the other thread's clock reading.
        By(_) => {
            let after = |(own, found): &(&TrueCycle, &LoopCycle)| follows(own, found);
            assert!(share(thread.both().filter(after).count(), thread.pairs.len()) >= 0.98);
        }
        NearGrid | AfterEnd => {}
    }
    // The kernel's stay on the CPU encloses the program's own measurement.
    let encloses = |(own, found): &(&TrueCycle, &LoopCycle)| own.cpu_ns <= found.execution_ns + 1_000;
    assert!(share(thread.both_begun().filter(encloses).count(), thread.both_begun().count()) >= 0.95);
    let is_whole = |cycle: &LoopCycle| cycle.remainder_ns() * 10 <= cycle.ended_ns - cycle.began_ns;
    assert!(thread.cycles.iter().all(is_whole), "a cycle has a remainder");
}

fn median_distance_ns(cycles: &[TrueCycle]) -> u64 {
    let mut distances: Vec<u64> = cycles.windows(2).map(|pair| pair[1].begin_ns - pair[0].begin_ns).collect();
    distances.sort_unstable();
    distances[distances.len() / 2]
}

fn follows(own: &TrueCycle, found: &LoopCycle) -> bool {
    own.due_ns.is_some_and(|triggered_ns| triggered_ns <= found.due_ns)
}

fn is_released(model: &Model, released: &Released) {
    let expected = match released {
        OnGrid | NearGrid => Release::Timer { is_absolute: true },
        AfterEnd => Release::Timer { is_absolute: false },
        By(name) => Release::Event { waker: Some((*name).to_string()) },
    };
    assert_eq!(model.release, expected, "{model:?}");
}

/// One test for each line: its name, the program, its wait, its period, its release.
macro_rules! styles {
    ($(
        $name:ident: $language:ident $style:literal every $period_us:literal us:
        $waits_with:literal, $released:expr;
    )*) => {
        $(
            #[test]
            fn $name() {
                holds(Language::$language, $style, $period_us, $waits_with, $released);
            }
        )*
    };
}

styles! {
    finds_an_absolute_sleep: C "absolute" every 1000 us: "clock_nanosleep (absolute, CLOCK_MONOTONIC)", OnGrid;
    finds_an_absolute_sleep_by_real_time: C "realtime" every 2000 us: "clock_nanosleep (absolute, CLOCK_REALTIME)", OnGrid;
    finds_a_relative_sleep: C "relative" every 4000 us: "clock_nanosleep (relative", AfterEnd;
    finds_a_timerfd: C "timerfd" every 2000 us: "read", OnGrid;
    finds_epoll_of_a_timerfd: C "epoll" every 2000 us: "epoll_wait", OnGrid;
    finds_the_signal_of_a_posix_timer: C "signal" every 2000 us: "a signal", OnGrid;
    finds_a_condition_with_a_timeout: C "cond-timed" every 2000 us: "a futex", OnGrid;
    finds_poll_with_a_timeout: C "poll" every 8000 us: "poll", AfterEnd;
    finds_ppoll_with_a_timeout: C "ppoll" every 4000 us: "poll", AfterEnd;
    finds_select_with_a_timeout: C "select" every 4000 us: "select", AfterEnd;
    finds_a_deadline_thread: C "deadline" every 2000 us: "sched_yield", OnGrid;
    finds_the_thread_that_signals_a_condition: C "cond" every 2000 us: "a futex", By("producer");
    finds_the_thread_that_posts_a_semaphore: C "semaphore" every 2000 us: "a futex", By("producer");
    finds_the_thread_that_writes_to_a_pipe: C "pipe" every 2000 us: "read", By("producer");
    finds_the_thread_that_writes_to_an_eventfd: C "eventfd" every 2000 us: "read", By("producer");
    finds_the_thread_that_sends_a_datagram: C "udp" every 2000 us: "recv", By("producer");
    finds_sleep_until_of_cpp: Cpp "sleep-until" every 4000 us: "clock_nanosleep", NearGrid;
    finds_wait_until_of_cpp: Cpp "condition-until" every 4000 us: "a futex", OnGrid;
    finds_sleep_for_of_cpp: Cpp "sleep-for" every 8000 us: "clock_nanosleep", AfterEnd;
    finds_sleep_of_rust: Rust "sleep" every 8000 us: "clock_nanosleep", AfterEnd;
    finds_a_condition_of_rust: Rust "condition" every 8000 us: "a futex", AfterEnd;
    finds_a_channel_of_rust: Rust "channel" every 8000 us: "a futex", AfterEnd;
    finds_sleep_of_python: Python "sleep" every 8000 us: "clock_nanosleep", AfterEnd;
    finds_an_event_of_python: Python "event" every 8000 us: "a futex", AfterEnd;
    finds_a_sleep_of_python_on_a_grid: Python "sleep-until" every 8000 us: "clock_nanosleep", NearGrid;
}

#[test]
fn finds_each_link_of_a_chain() {
    let Some(threads) = threads(Language::C, "chain", 2_000) else { return };
    let [first, second, third] = &threads[..] else { panic!("{} threads", threads.len()) };
    assert_eq!([first, second, third].map(|thread| thread.truth.name.as_str()), ["first", "second", "third"]);
    is_as_told(first, 2_000, "clock_nanosleep (absolute", OnGrid);
    is_as_told(second, 2_000, "a futex", By("first"));
    is_as_told(third, 2_000, "read", By("second"));
}
