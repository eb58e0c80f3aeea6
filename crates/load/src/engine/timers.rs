// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many high-resolution timers: threads that sleep for 50 to 150 us each.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Pauses, report, sharp_timers, spawn};

/// Threads for each housekeeping CPU: up to 160,000 timers a second, or what the CPU bears.
const THREADS: usize = 16;

pub fn run(cpus: usize) -> Result<(), String> {
    let fired = Arc::new(AtomicU64::new(0));
    for number in 0..THREADS * cpus {
        let fired = Arc::clone(&fired);
        spawn("timers", move || {
            sharp_timers();
            let mut pauses = Pauses::between(Duration::from_micros(50), Duration::from_micros(150), number);
            loop {
                pauses.pause();
                fired.fetch_add(1, Ordering::Relaxed);
            }
        })?;
    }
    report(|| BTreeMap::from([("timers_fired", fired.load(Ordering::Relaxed))]))
}
