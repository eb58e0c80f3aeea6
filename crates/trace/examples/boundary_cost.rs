// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the cost of BEGIN and END for the thread that reaches them: `cargo run --package isolator-trace
//! --example boundary_cost`.
//!
//! A thread of this program calls an empty function each millisecond and reads the clock before and after it:
//! first without probes, then with probes at the function's entry and return, then with probes at the entry
//! of two functions. Each figure is the median.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rt::clock::monotonic_ns;
use trace::boundary::{CycleBounds, PlaceName};
use trace::follow::{Follower, LoopChoice};

/// The duration of each measurement.
const TIME: Duration = Duration::from_secs(2);
const PERIOD: Duration = Duration::from_millis(1);

#[inline(never)]
fn work() {
    black_box(());
}

#[inline(never)]
fn begin_work() {
    black_box(1);
}

#[inline(never)]
fn end_work() {
    black_box(2);
}

/// The functions that the thread calls.
const ONE: u64 = 1;
const TWO: u64 = 2;
const OVER: u64 = 0;

/// The thread: it records the duration of the calls, in nanoseconds.
fn call(which: &AtomicU64, times: &std::sync::Mutex<Vec<u64>>) {
    loop {
        thread::sleep(PERIOD);
        let from_ns = monotonic_ns();
        match which.load(Ordering::Relaxed) {
            OVER => return,
            ONE => work(),
            _ => {
                begin_work();
                end_work();
            }
        }
        let took_ns = monotonic_ns() - from_ns;
        times.lock().expect("no thread panics").push(took_ns);
    }
}

fn place(text: &str) -> Result<PlaceName, Box<dyn std::error::Error>> {
    Ok(text.parse::<PlaceName>()?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let which = Arc::new(AtomicU64::new(ONE));
    let times = Arc::new(std::sync::Mutex::new(Vec::new()));
    let called = {
        let (which, times) = (which.clone(), times.clone());
        thread::Builder::new().name("caller".into()).spawn(move || call(&which, &times))?
    };
    let median = |follower: Option<&mut Follower>| {
        let mut follower = follower;
        times.lock().expect("no thread panics").clear();
        let began = Instant::now();
        while began.elapsed() < TIME {
            thread::sleep(Duration::from_millis(50));
            follower.as_deref_mut().map(Follower::poll);
        }
        let mut took = times.lock().expect("no thread panics").clone();
        took.sort_unstable();
        took[took.len() / 2]
    };
    println!("| probed | the calls take, ns | without probes, ns |\n|---|---|---|");
    let row = |shown: &str, functions: u64, begin: &str, end: Option<&str>| {
        which.store(functions, Ordering::Relaxed);
        let without_ns = median(None);
        let end = end.map(place).transpose()?;
        let bounds = Some(CycleBounds::new(place(begin)?, end)?);
        let choice = LoopChoice { bounds, ..LoopChoice::default() };
        let follower = Follower::attach(std::process::id(), &choice, "unknown", &AtomicBool::new(false))?;
        let with_ns = median(follower.into_iter().next().as_mut());
        println!("| {shown} | {with_ns} | {without_ns} |");
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    row("a function and its return", ONE, "boundary_cost::work", None)?;
    row("two functions", TWO, "boundary_cost::begin_work", Some("boundary_cost::end_work"))?;
    which.store(OVER, Ordering::Relaxed);
    called.join().map_err(|_| "the caller panicked")?;
    Ok(())
}
