// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between two CPUs: our ring, those of other crates and bare words, by turns in short batches, so
//! that whatever disturbs the machine disturbs all alike; of each the median over its batches.

mod ends;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod rings;

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ends::{RawLines, Side};
use rt::clock::Calibration;

/// The CPUs.
const CPUS: [u32; 2] = [0, 1];

/// Batches of each contender.
const ROUNDS: usize = 100;

/// Round trips of a batch, after some that do not count, and messages of a stream.
const TRIPS: usize = 5_000;
const WARM_UP: usize = 200;
const STREAM: u64 = 20_000;

/// Round trips whose middle is looked for together: the counters of some processors step by 10 ns, which is
/// more than what tells one contender from another.
const IN_A_ROW: usize = 8;

/// Pause between rounds, for other tasks of these CPUs.
const REST: Duration = Duration::from_millis(20);

/// What a contender showed: medians of its batches.
#[derive(Debug)]
pub struct ContenderResult {
    /// Its name.
    pub name: &'static str,
    /// Round trips: of each batch the middle one, by `IN_A_ROW` at a time, and the one that one in a
    /// thousand exceeds.
    pub p50_ns: f64,
    /// See above.
    pub p999_ns: f64,
    /// Messages per second, one way.
    pub per_s: f64,
}

/// Makes a side, on the thread that it is to stay on.
type MakeSide = Box<dyn FnOnce() -> Box<dyn Side> + Send>;

struct Contender {
    name: &'static str,
    asks: MakeSide,
    answers: MakeSide,
}

impl Contender {
    fn new<S: Side + 'static>(
        name: &'static str,
        asks: impl FnOnce() -> S + Send + 'static,
        answers: impl FnOnce() -> S + Send + 'static,
    ) -> Contender {
        Contender { name, asks: Box::new(|| Box::new(asks())), answers: Box::new(|| Box::new(answers())) }
    }

    /// Of sides that may move from one thread to another.
    fn of<S: Side + Send + 'static>(name: &'static str, (asks, answers): (S, S)) -> Contender {
        Contender::new(name, || asks, || answers)
    }
}

fn contenders() -> Result<Vec<Contender>, Box<dyn Error>> {
    Ok(vec![
        Contender::of("raw", RawLines::pair(STREAM as usize)),
        Contender::of("isolator", rings::ours()?),
        Contender::of("rtrb", rings::rtrb()),
        Contender::of("crossbeam", rings::crossbeam()),
        Contender::of("ringbuf", rings::ringbuf()),
        Contender::of("heapless", rings::heapless()),
        #[cfg(feature = "iceoryx2")]
        iceoryx::contender()?,
    ])
}

/// All contenders, the raw words first, ours second.
pub fn run() -> Result<Vec<ContenderResult>, Box<dyn Error>> {
    let calibration = Calibration::measure(Duration::from_millis(200))?;
    let (names, (asks, answers)): (Vec<_>, (Vec<_>, Vec<_>)) =
        contenders()?.into_iter().map(|it| (it.name, (it.asks, it.answers))).unzip();
    let meeting = AtomicU64::new(0);
    let (trips, streams) = thread::scope(|scope| {
        let asking = scope.spawn(|| asking(asks, &meeting));
        let answering = scope.spawn(|| answering(answers, &meeting));
        (asking.join(), answering.join())
    });
    let ended = |_| "a side of the messages ended early";
    let (trips, streams) = (trips.map_err(ended)?, streams.map_err(ended)?);
    let shown = names.into_iter().zip(trips).zip(streams).map(|((name, trips), streams)| ContenderResult {
        name,
        p50_ns: median(trips.iter().map(|(p50, _)| calibration.ns(*p50) as f64 / IN_A_ROW as f64)),
        p999_ns: median(trips.iter().map(|(_, p999)| calibration.ns(*p999) as f64)),
        per_s: median(streams.iter().map(|took| STREAM as f64 / took.as_secs_f64())),
    });
    Ok(shown.collect())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    proof::middle(values.collect(), f64::total_cmp).unwrap_or(f64::NAN)
}

/// Asks and pours; of each contender and batch the p50 of [`IN_A_ROW`] round trips and the p99.9 of one, in
/// ticks.
fn asking(sides: Vec<MakeSide>, meeting: &AtomicU64) -> Vec<Vec<(u64, u64)>> {
    let _together = Together;
    let mut sides = made(CPUS[0], sides);
    let mut batches = vec![Vec::with_capacity(ROUNDS); sides.len()];
    let mut ticks = vec![0; WARM_UP + TRIPS];
    rounds(sides.len(), meeting, |contender| {
        let side = &mut sides[contender];
        side.ask(&mut ticks);
        let counted = &mut ticks[WARM_UP..];
        let mut together =
            counted.chunks_exact(IN_A_ROW).map(|ticks| ticks.iter().sum::<u64>()).collect::<Vec<_>>();
        together.sort_unstable();
        counted.sort_unstable();
        batches[contender].push((together[together.len() / 2], counted[TRIPS - TRIPS / 1000]));
        meet(meeting);
        side.pour(STREAM);
    });
    batches
}

/// Answers and drains; of each contender and batch how long the stream took.
fn answering(sides: Vec<MakeSide>, meeting: &AtomicU64) -> Vec<Vec<Duration>> {
    let _together = Together;
    let mut sides = made(CPUS[1], sides);
    let mut batches = vec![Vec::with_capacity(ROUNDS); sides.len()];
    rounds(sides.len(), meeting, |contender| {
        let side = &mut sides[contender];
        side.answer((WARM_UP + TRIPS) as u64);
        meet(meeting);
        let began = Instant::now();
        side.drain(STREAM);
        batches[contender].push(began.elapsed());
    });
    batches
}

/// Takes the CPU, and makes the sides there.
fn made(cpu: u32, sides: Vec<MakeSide>) -> Vec<Box<dyn Side>> {
    let taken = rt::thread::set_affinity(&[cpu]).and_then(|()| rt::Policy::Fifo(80).apply(true));
    taken.unwrap_or_else(|error| panic!("{error}"));
    sides.into_iter().map(|make| make()).collect()
}

/// Ends the program where a side cannot go on, since the other would wait for it for ever.
struct Together;

impl Drop for Together {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// Both sides go through the same contenders in the same order, and begin each together; with another one
/// first each time.
fn rounds(contenders: usize, meeting: &AtomicU64, mut batch: impl FnMut(usize)) {
    for round in 0..ROUNDS {
        for n in 0..contenders {
            meet(meeting);
            batch((round + n) % contenders);
        }
        thread::sleep(REST);
    }
}

/// Waits for the other side.
fn meet(meeting: &AtomicU64) {
    let before = meeting.fetch_add(1, Ordering::AcqRel);
    while meeting.load(Ordering::Acquire) < before / 2 * 2 + 2 {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each side looks at the number of each message that it takes.
    #[test]
    fn each_contender_carries_every_message_in_order() {
        for Contender { name, asks, answers } in contenders().unwrap() {
            let mut ticks = [0; 20];
            thread::scope(|scope| {
                let answering = scope.spawn(move || {
                    let _together = Together;
                    let mut side = answers();
                    side.answer(20);
                    side.drain(600);
                });
                let _together = Together;
                let mut side = asks();
                side.ask(&mut ticks);
                side.pour(600);
                answering.join().unwrap();
            });
            assert!(ticks.iter().all(|ticks| *ticks > 0), "{name}: {ticks:?}");
        }
    }
}
