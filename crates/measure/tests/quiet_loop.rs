// SPDX-License-Identifier: MIT OR Apache-2.0
//! After arming, the hot loops take no page fault and allocate nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use measure::probes::ethercat::{EthercatSinks, ReadySegment, Wire};
use measure::probes::spin::{self, ShortGaps, Spell};
use measure::probes::wakeup::{self, TimerKind};
use measure::recorder::recorder;
use measure::samples::{Arrivals, sample_ring};
use measure::schedule::{Cycles, Schedule, missed};
use rt::clock::{Calibration, monotonic_ns};
use rt::setup::Setup;
use rt::{Policy, thread};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system allocator unchanged; counting touches a thread-local that needs no
// allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Sets this thread up as a measuring thread that may not be real-time; says whether memory is locked.
fn set_up() -> bool {
    let setup = Setup { cpus: Vec::new(), policy: Policy::Other, lock_memory: true };
    setup.apply().unwrap().memory.is_ok()
}

/// The effects of the loop on its thread: page faults and allocations.
fn quietly(body: impl FnOnce()) -> (u64, u64) {
    let (faults, allocations) = (thread::page_faults(), ALLOCATIONS.get());
    body();
    (thread::page_faults() - faults, ALLOCATIONS.get() - allocations)
}

#[test]
fn the_counting_allocator_counts() {
    let (_, allocations) = quietly(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!(allocations, 1);
}

#[test]
fn the_wakeup_loop_faults_and_allocates_nothing() {
    if !set_up() {
        println!("skipped: memory cannot be locked here; run as root or raise RLIMIT_MEMLOCK");
        return;
    }
    for (_, timer) in TimerKind::NAMES {
        let timer = timer.open().unwrap();
        let (mut samples, mut arrivals) = sample_ring(200_000);
        let start_ns = monotonic_ns() + 20_000_000;
        let cycles = Cycles { period_ns: 200_000, start_ns, end_ns: u64::MAX, loops: 6_000 };
        let stop = AtomicBool::new(false);
        let seen = quietly(|| wakeup::run(&cycles, &timer, &mut samples, &stop));
        assert_eq!(seen, (0, 0), "page faults and allocations with {timer:?}");
        let mut due_ns = start_ns;
        while let Some(sample) = arrivals.take() {
            assert_eq!(sample.due_ns, due_ns, "no cycle is skipped uncounted");
            assert!(sample.woke_ns >= sample.due_ns);
            due_ns += 200_000 * (1 + missed(sample.due_ns, sample.woke_ns, 200_000, cycles.end_ns));
        }
        assert!(due_ns >= start_ns + 6_000 * 200_000, "all cycles came");
        assert_eq!(arrivals.lost(), 0);
    }
}

#[test]
fn the_ethercat_loop_faults_and_allocates_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped (77): a wire of one's own needs root");
        return;
    }
    const PERIOD_NS: u64 = 4_000_000;
    let ((cycles, mut arrivals), (sync0, mut passes), (drift, mut apart)) =
        (sample_ring(PERIOD_NS), sample_ring(PERIOD_NS), sample_ring(PERIOD_NS));
    let mut sinks = EthercatSinks { cycles, sync0, drift };
    let mut ready = ReadySegment::new(&Wire::default(), PERIOD_NS).unwrap();
    if !set_up() {
        println!("skipped: memory cannot be locked here; run as root or raise RLIMIT_MEMLOCK");
        return;
    }
    ready.keep_alive();
    let start_ns = monotonic_ns() + 20 * PERIOD_NS;
    let cycles = Cycles { period_ns: PERIOD_NS, start_ns, end_ns: u64::MAX, loops: 200 };
    let stop = AtomicBool::new(false);
    let mut failed = None;
    let seen = quietly(|| failed = ready.run(&cycles, &mut sinks, &stop));
    let told = ready.exchanged();
    assert_eq!(failed, None);
    assert_eq!(seen, (0, 0), "page faults and allocations");
    let samples: Vec<_> = std::iter::from_fn(|| arrivals.take()).collect();
    assert_eq!(samples.len() as u64, told.cycles);
    let count = |arrivals: &mut Arrivals| std::iter::from_fn(|| arrivals.take()).count() as u64;
    assert_eq!(count(&mut passes), told.cycles - told.not_back, "each frame that came back passed");
    assert!(count(&mut apart) > 0, "the clocks were asked");
    assert!(told.cycles > 0 && told.sub_devices == 3 && told.wrong_counters == 0, "{told:?}");
    assert!(samples.windows(2).all(|pair| pair[0].due_ns < pair[1].due_ns), "{samples:?}");
}

#[test]
fn the_spin_loop_faults_and_allocates_nothing_and_leaves_no_hole() {
    if !set_up() {
        println!("skipped: memory cannot be locked here; run as root or raise RLIMIT_MEMLOCK");
        return;
    }
    let clock = Calibration::measure(Duration::from_millis(50)).unwrap();
    let (mut recorder, mut live) = recorder(5_000, Schedule::Continuous);
    let start_ns = monotonic_ns() + 1_000_000;
    let spell =
        Spell { start_ns, end_ns: start_ns + 2_200_000_000, threshold_ns: 5_000, column_ns: 1_000_000 };
    let (stop, short) = (AtomicBool::new(false), ShortGaps::default());
    let mut drift = None;
    let seen = quietly(|| drift = Some(spin::run(&spell, &clock, &short, &mut recorder, &stop)));
    assert_eq!(seen, (0, 0), "page faults and allocations");
    recorder.finish();
    let seconds = live.take_seconds();
    let iterations: u64 = seconds.iter().map(|second| second.count).sum();
    let counted: u64 = short.with(live.counts.latency.totals(), &clock).iter().map(|(_, count)| count).sum();
    assert_eq!(counted, iterations, "every iteration is in the histogram");
    assert!(seconds.len() >= 2, "{seconds:?}");
}
