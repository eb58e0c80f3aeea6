// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loops of Rust's library that stamp their own cycles: `sleeps STYLE PERIOD_US CYCLES FILE`.

use std::fmt::Write as _;
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const WORK_NS: u64 = 50_000;

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [style, period_us, cycles, path] = &words[..] else {
        panic!("usage: sleeps STYLE PERIOD_US CYCLES FILE")
    };
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{word} is not a number"));
    let (period, cycles) = (Duration::from_micros(number(period_us)), number(cycles));
    let time = period - Duration::from_nanos(WORK_NS);
    let (mutex, condition) = (Mutex::new(()), Condvar::new());
    let (_sender, receiver) = mpsc::channel::<()>();
    let wait = || match style.as_str() {
        "sleep" => thread::sleep(time),
        "condition" => drop(condition.wait_timeout(mutex.lock().unwrap(), time).unwrap()),
        "channel" => drop(receiver.recv_timeout(time)),
        _ => panic!("no style {style}"),
    };
    println!("started");
    let mut stamps = Vec::with_capacity(cycles as usize);
    for _ in 0..cycles {
        wait();
        let (begin, cpu) = (ns(ClockId::Monotonic), ns(ClockId::ThreadCPUTime));
        while ns(ClockId::Monotonic) - begin < WORK_NS {}
        let cpu = ns(ClockId::ThreadCPUTime) - cpu;
        stamps.push((begin, ns(ClockId::Monotonic), cpu));
    }
    wait();
    let mut text = format!("thread {} sleeps\n", rustix::thread::gettid().as_raw_nonzero());
    for (begin, end, cpu) in stamps {
        writeln!(text, "cycle 0 {begin} {end} {cpu}").expect("a string has room");
    }
    std::fs::write(path, text)
}
