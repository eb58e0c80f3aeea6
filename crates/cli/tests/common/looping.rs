// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loop to monitor, in a thread of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rt::clock::monotonic_ns;
use rt::monitor::Monitor;

/// The loop's period.
pub const PERIOD_NS: u64 = 2_000_000;

/// A loop with a mark in each cycle and one cycle in a hundred that never ends.
pub struct Looping(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Looping {
    pub fn start(name: &str, cycles: u64) -> Looping {
        Looping::then(name, cycles, u64::MAX, |_| ())
    }

    /// It has twice the period after so many cycles.
    pub fn changes_after(name: &str, cycles: u64) -> Looping {
        Looping::then(name, u64::MAX, cycles, |_| ())
    }

    /// Its monitor stays, but no cycle comes any more.
    pub fn hang_after(name: &str, cycles: u64) -> Looping {
        Looping::then(name, cycles, u64::MAX, |stop| {
            while !stop.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    }

    fn then(name: &str, cycles: u64, fast: u64, then: fn(&AtomicBool)) -> Looping {
        let mut monitor = Monitor::create(name, Duration::from_nanos(PERIOD_NS)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(format!("loop-{name}"));
        let thread = thread.spawn(move || {
            let mut due_ns = monotonic_ns();
            for cycle in 1..=cycles {
                due_ns += if cycle <= fast { PERIOD_NS } else { 2 * PERIOD_NS };
                std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
                monitor.begin(due_ns);
                monitor.mark();
                if cycle % 100 != 0 {
                    monitor.end();
                }
                if flag.load(Relaxed) {
                    break;
                }
            }
            then(&flag);
        });
        let thread = thread.unwrap();
        Looping(stop, Some(thread))
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

/// The loop of that name in this process.
pub fn me(name: &str) -> String {
    format!("{}:{name}", std::process::id())
}
