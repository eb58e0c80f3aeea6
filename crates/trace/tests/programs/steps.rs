// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loop in Rust whose cycle is the function `steps::servo::step`, which stamps itself: `steps WAY PERIOD_US
//! CYCLES FILE`. WAY is not used here. It ends earlier if its standard input does; see `steps.c`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

static IS_OVER: AtomicBool = AtomicBool::new(false);

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

mod servo {
    use super::{ClockId, ns};

    const WORK_NS: u64 = 50_000;

    /// Begin, end and CPU time of one call.
    #[inline(never)]
    pub fn step() -> (u64, u64, u64) {
        let (begin, cpu) = (ns(ClockId::Monotonic), ns(ClockId::ThreadCPUTime));
        while ns(ClockId::Monotonic) - begin < WORK_NS {}
        let cpu = ns(ClockId::ThreadCPUTime) - cpu;
        (begin, ns(ClockId::Monotonic), cpu)
    }
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [_, period_us, cycles, path] = &words[..] else { panic!("usage: steps WAY PERIOD_US CYCLES FILE") };
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{word} is not a number"));
    let (period, cycles) = (Duration::from_micros(number(period_us)), number(cycles));
    println!("started");
    let mut stamps = Vec::with_capacity(cycles as usize);
    let mut next = Instant::now() + period;
    thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        IS_OVER.store(true, Ordering::Relaxed);
    });
    for _ in 0..cycles {
        if IS_OVER.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += period;
        stamps.push(servo::step());
    }
    let mut text = format!("thread {} steps\n", rustix::thread::gettid().as_raw_nonzero());
    for (begin, end, cpu) in stamps {
        writeln!(text, "cycle 0 {begin} {end} {cpu}").expect("a string has room");
    }
    std::fs::write(path, text)
}
