// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a collector for an undisturbed wakeup: the wakeup probe in a guest, by turns with the
//! collector and without. Each turn is between two markers, so that the lab's scope counts the instructions
//! of every cycle. The same for the BPF part of `monitor` ([`FOLLOWED`]).
//!
//! A cycle is counted from one return to the program to the next: its own instructions, the system call, the
//! path to idle, the timer's interrupt, the path back. An emulator's times are no latencies; only their ratio
//! is shown, and not judged.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cause::names::Names;
use cause::{Collect, Depth, Started, WatchSpec};
use evidence::cause::Choice;
use lab::scope;
use measure::probes::wakeup::{self, Timer};
use measure::samples;
use measure::schedule::Cycles;
use rt::clock::monotonic_ns;
use rt::setup::Setup;
use rt::{Policy, thread};
use trace::bpf::ThreadWatch;

use super::source::CPU;
use crate::guests;

/// The number of turns with the collector, and without.
const PAIRS: u64 = 5;

/// The cycles of a turn, and their period: an emulator with a scope needs most of a millisecond for one.
const CYCLES: u64 = 300;
const PERIOD_NS: u64 = 2_000_000;

/// The largest allowed growth of a cycle.
const ALLOWED: f64 = 1.1;

/// The name of the BPF part that follows a program's threads.
pub const FOLLOWED: &str = "monitor";

/// A running watch of the loop.
enum Watch {
    Collector(Box<dyn Collect>),
    Threads(Box<ThreadWatch>),
}

impl Watch {
    /// Starts the watch of that name.
    fn start(name: &str) -> Result<Watch, Box<dyn Error>> {
        if name == FOLLOWED {
            return Ok(Watch::Threads(Box::new(ThreadWatch::load(&Names::read(Path::new("/")))?)));
        }
        let choice: Choice = name.parse()?;
        let asked = WatchSpec { cpus: [CPU].into_iter().collect(), depth: Depth::Sleeping };
        match cause::start(choice, &asked, &inspect::read(Path::new("/")))? {
            Started::Events(collector) => Ok(Watch::Collector(collector)),
            _ => Err("this guest has no collector of events".into()),
        }
    }

    /// Starts to watch the loop of this thread.
    fn own(&mut self, thread: u32) -> Result<(), Box<dyn Error>> {
        match self {
            Watch::Collector(collector) => Ok(collector.own(CPU, &[thread])?),
            Watch::Threads(watch) => Ok(watch.watch(thread)?),
        }
    }
}

/// Takes turns, in a guest, and prints the median latency of each.
pub fn in_guest(collector: &str) -> Result<(), Box<dyn Error>> {
    thread::set_affinity(&[0])?;
    for turn in 0..2 * PAIRS {
        let watch = (turn % 2 == 1).then(|| Watch::start(collector)).transpose();
        // Only standard output leaves the guest.
        let watch = watch.inspect_err(|why| println!("cannot: {why}"))?;
        println!("turn {}", a_turn(watch)?);
    }
    Ok(())
}

fn a_turn(mut watch: Option<Watch>) -> Result<u64, Box<dyn Error>> {
    let (mut way, mut arrivals) = samples::sample_ring(PERIOD_NS);
    let (ready, go) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let measures = scope.spawn(|| {
            let setup = Setup { cpus: vec![CPU], policy: Policy::Fifo(80), lock_memory: true };
            let set_up = setup.apply().map_err(|error| error.to_string());
            ready.store(thread::id(), Ordering::SeqCst);
            while !go.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let start_ns = monotonic_ns() + 20 * PERIOD_NS;
            let cycles = Cycles { period_ns: PERIOD_NS, start_ns, end_ns: u64::MAX, loops: CYCLES };
            wakeup::run(&cycles, &Timer::Nanosleep, &mut way, &AtomicBool::new(false));
            set_up.map(drop)
        });
        while ready.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let own = ready.load(Ordering::SeqCst);
        let armed = watch.as_mut().map_or(Ok(()), |watch| watch.own(own));
        // Also after a failure: the thread has no other end.
        go.store(true, Ordering::SeqCst);
        measures.join().map_err(|_| "the loop panicked")??;
        armed
    })?;
    let late = std::iter::from_fn(|| arrivals.take()).map(|one| one.woke_ns.saturating_sub(one.due_ns));
    Ok(median(late.collect()))
}

fn median(values: Vec<u64>) -> u64 {
    crate::middle::middle(values, u64::cmp).unwrap_or(0)
}

/// The result of a guest's turns: instructions of a cycle without and with the collector, and the median
/// latencies.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    instructions: [u64; 2],
    latency_ns: [u64; 2],
}

impl Cost {
    fn of(record: &str, said: &str) -> Result<Cost, String> {
        let mut cycles = [Vec::new(), Vec::new()];
        for one in scope::excursions(record) {
            cycles[usize::from(one.window % 2 == 0)].push(one.user_before + one.instructions);
        }
        let mut late = [Vec::new(), Vec::new()];
        let turns = said.lines().filter_map(|line| line.strip_prefix("turn ")?.parse().ok());
        turns.enumerate().for_each(|(turn, ns)| late[turn % 2].push(ns));
        let enough = |all: &Vec<u64>, least: u64| all.len() as u64 >= least;
        match cycles.iter().all(|all| enough(all, PAIRS * CYCLES / 2))
            && late.iter().all(|all| enough(all, PAIRS))
        {
            true => Ok(Cost { instructions: cycles.map(median), latency_ns: late.map(median) }),
            false => Err(format!("the scope saw {} and {} cycles", cycles[0].len(), cycles[1].len())),
        }
    }
}

/// Runs a guest for each kernel and collector; returns a table, and the costs above the aim.
pub fn run(
    [isolator, guest]: [&Path; 2],
    watched: &[(&str, &str)],
) -> Result<(String, Vec<String>), Box<dyn Error>> {
    let mut text = "| kernel | collector | instructions of a cycle without | with | ratio | ratio of the latencies' medians |\n\
         |---|---|--:|--:|--:|--:|\n"
        .to_string();
    let mut above = Vec::new();
    let scratch = tempfile::tempdir()?;
    let record = scratch.path().join("record.jsonl");
    for (kernel, collector) in watched {
        eprintln!("proof-causes: cost, {kernel}, {collector}");
        let mut command = guests::program(isolator, kernel, guests::architecture()?);
        command.args(["--time-limit", "20m", "--record"]).arg(&record);
        let output = command.arg(guest).args(["causes-cost", collector]).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let Cost { instructions: [without, with], latency_ns } =
            Cost::of(&std::fs::read_to_string(&record)?, &said)?;
        let ratio = |[before, after]: [u64; 2]| after as f64 / before.max(1) as f64;
        let cost = ratio([without, with]);
        writeln!(
            text,
            "| {kernel} | `{collector}` | {without} | {with} | {cost:.3} | {:.2} |",
            ratio(latency_ns)
        )?;
        if cost > ALLOWED {
            above.push(format!("{kernel}, {collector}: a cycle costs {cost:.3} times as much"));
        }
    }
    Ok((text, above))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_have_windows_of_their_own() {
        let line = |window: u64, instructions: u64| {
            format!(
                "{{\"cpu\":1,\"window\":{window},\"n\":1,\"entry\":\"call\",\"offset\":0,\"instructions\":{instructions},\
                 \"user_before\":100,\"at\":1,\"at_ns\":1,\"path\":[],\"beyond\":0}}\n"
            )
        };
        let windows = (1..=2 * PAIRS).flat_map(|window| {
            (0..CYCLES).map(move |cycle| line(window, 5_000 + 400 * u64::from(window % 2 == 0) + cycle % 2))
        });
        let said = (0..2 * PAIRS).map(|turn| format!("turn {}\n", 70 + turn % 2)).collect::<String>();
        let cost = Cost::of(&windows.collect::<String>(), &said).unwrap();
        assert_eq!(cost, Cost { instructions: [5_101, 5_501], latency_ns: [70, 71] });
        assert!(Cost::of(&line(1, 5), &said).unwrap_err().contains("1 and 0 cycles"));
    }
}
