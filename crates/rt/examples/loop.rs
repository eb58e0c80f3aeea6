// SPDX-License-Identifier: MIT OR Apache-2.0
//! A control loop at 1 kHz: set up, isolated where the kernel can, a message a cycle for a logger,
//! and a monitor.
//!
//! `cargo run --release --example loop [CYCLES] & isolator monitor $!`

use std::time::Duration;

use rt::clock::{monotonic_ns, timespec};
use rt::isolation::{self, Mask, Session, Tick};
use rt::message::{Receiver, Size, pair};
use rt::monitor::Monitor;
use rt::setup::Setup;
use rt::{Policy, thread};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::ClockId;

const PERIOD: Duration = Duration::from_millis(1);

fn main() -> rt::Result<()> {
    let cycles = std::env::args().nth(1).and_then(|cycles| cycles.parse().ok()).unwrap_or(1000);
    let (mut sender, receiver) = pair(Size { slots: 1024, bytes: 8 })?;
    let logger = std::thread::spawn(move || log(receiver));
    let mut monitor = Monitor::create("loop", PERIOD)?;
    let session = set_up();
    let faults = thread::page_faults();
    let mut due_ns = monotonic_ns();
    for cycle in 0..cycles {
        due_ns += PERIOD.as_nanos() as u64;
        // A signal may wake it early.
        while clock_nanosleep_absolute(ClockId::Monotonic, &timespec(due_ns)).is_err() {}
        monitor.begin(due_ns);
        let position = (cycle as f64 / 100.0).sin();
        // Full: the logger is late, and the loop does not wait for it.
        let _ = sender.post(&position.to_ne_bytes());
        monitor.end();
        if let Some(session) = session.as_ref().filter(|session| session.page().waits()) {
            session.tick(Tick::SCHED)?;
        }
    }
    println!("{} page faults in the loop", thread::page_faults() - faults);
    drop((session, sender));
    println!("{} positions logged", logger.join().unwrap_or(0));
    Ok(())
}

/// As much as this process may have; says what it may not.
fn set_up() -> Option<Session> {
    let setup = Setup { cpus: Vec::new(), policy: Policy::Fifo(80), lock_memory: true };
    match setup.apply() {
        Ok(granted) => {
            println!(
                "{}, memory {}",
                granted.policy,
                if granted.memory.is_ok() { "locked" } else { "not locked" }
            )
        }
        Err(error) => eprintln!("loop: going on: {error}"),
    }
    isolation::start(Mask::DEFAULT).inspect_err(|error| eprintln!("loop: going on: {error}")).ok()
}

/// Takes what the loop posts, until it ends; says how much that was.
fn log(mut positions: Receiver) -> usize {
    let mut logged = 0;
    while let Ok(taken) = positions.poll(64, |_| ()) {
        logged += taken;
        std::thread::sleep(5 * PERIOD);
    }
    logged
}
