// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of several sizes between two CPUs: our ring, those of others and bare words, by turns in short
//! batches, so that whatever disturbs the machine disturbs all alike; of each the median over its batches.

mod batch;
mod contender;
mod cpp;
mod ends;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod rings;

use std::error::Error;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use batch::Pair;
use batch::{Batch, IN_A_ROW, STREAM, TRIPS, WARM_UP};
use contender::{Contender, MakeSide};
use ends::{BareLines, LineMessage, Message, RawLines, Side, WordMessage};
use rt::clock::Calibration;

use crate::middle::median;

/// Two pairs of CPUs are alike whose round trips differ by less.
const ALIKE: f64 = 1.5;

/// The policy of both threads.
const FIFO: rt::Policy = rt::Policy::Fifo(80);

/// Batches of each contender.
const ROUNDS: usize = 100;

/// Pause after the batches of a size, for other tasks of these CPUs.
const REST: Duration = Duration::from_millis(20);

/// Bare words, in each row of the table; and ours.
pub const RAW: &str = "bare words";
/// Lines without a ring, in the row of the messages that one holds.
pub const LINES: &str = "bare lines";
/// See [`RAW`].
pub const OURS: &str = "isolator";

/// A contender's result with messages of one size: medians of its batches.
#[derive(Debug)]
pub struct ContenderResult {
    /// Its name.
    pub name: String,
    /// Bytes of a message.
    pub bytes: usize,
    /// Round trips: of each batch the middle one, by `IN_A_ROW` at a time, and the one that one in a
    /// thousand exceeds.
    pub p50_ns: f64,
    /// See above.
    pub p999_ns: f64,
    /// Messages per second, one way.
    pub per_s: f64,
    /// The least and the most `p50_ns` of nine in ten batches.
    pub between_ns: [f64; 2],
}

fn contenders<M: Message>() -> Result<Vec<Contender>, Box<dyn Error>> {
    Ok(vec![
        Contender::of::<M, _>(RAW, RawLines::pair(STREAM as usize)),
        Contender::of::<M, _>(OURS, rings::ours::<M>()?),
        Contender::of::<M, _>("rtrb", rings::rtrb::<M>()),
        Contender::of::<M, _>("crossbeam", rings::crossbeam::<M>()),
        Contender::of::<M, _>("ringbuf", rings::ringbuf::<M>()),
        Contender::of::<M, _>("heapless", rings::heapless::<M>()),
        #[cfg(feature = "iceoryx2")]
        iceoryx::contender::<M>()?,
    ])
}

fn with_bare_lines(mut contenders: Vec<Contender>) -> Vec<Contender> {
    let bare = Contender::of::<LineMessage<56>, _>(LINES, BareLines::pair(STREAM as usize));
    contenders.insert(1, bare);
    contenders
}

/// The contenders with messages of each size.
fn sizes() -> Result<Vec<Vec<Contender>>, Box<dyn Error>> {
    Ok(vec![
        contenders::<WordMessage>()?,
        with_bare_lines(contenders::<LineMessage<56>>()?),
        contenders::<LineMessage<64>>()?,
        contenders::<LineMessage<256>>()?,
        contenders::<LineMessage<1024>>()?,
    ])
}

/// Of all pairs with the first CPU the nearest and the farthest by the round trip of bare words, or one where
/// all are alike.
fn pairs() -> Result<Vec<Pair>, Box<dyn Error>> {
    let cpus = rt::thread::affinity();
    let (first, others) = cpus.split_first().ok_or("no CPU may be used")?;
    let mut pairs =
        others.iter().map(|other| ([*first, *other], bare_trip([*first, *other]))).collect::<Vec<_>>();
    pairs.sort_by_key(|(_, ticks)| *ticks);
    let [(nearest, least), .., (farthest, most)] = pairs[..] else {
        let (only, _) = pairs.first().ok_or("messages need two CPUs")?;
        return Ok(vec![*only]);
    };
    Ok(if (most as f64) < least as f64 * ALIKE { vec![nearest] } else { vec![nearest, farthest] })
}

/// Ticks of the middle of round trips of bare words.
fn bare_trip(cpus: Pair) -> u64 {
    let (mut asks, mut answers) = RawLines::pair(STREAM as usize);
    let mut ticks = vec![0; WARM_UP + TRIPS];
    thread::scope(|scope| {
        scope.spawn(|| {
            let _together = Together;
            take(cpus[1]);
            answers.answer((WARM_UP + TRIPS) as u64);
        });
        scope.spawn(|| {
            let _together = Together;
            take(cpus[0]);
            asks.ask(&mut ticks);
        });
    });
    middle_and_p999(&mut ticks[WARM_UP..]).0
}

/// Messages between two CPUs.
#[derive(Debug)]
pub struct PairResult {
    /// The CPUs.
    pub cpus: Pair,
    /// Whether the threads had SCHED_FIFO. Without it other tasks may take part of their time.
    pub is_fifo: bool,
    /// All contenders by size, bare words first and ours second.
    pub contenders: Vec<ContenderResult>,
}

/// Measures on each of the pairs of CPUs.
pub fn run(scratch: &Path) -> Result<Vec<PairResult>, Box<dyn Error>> {
    let is_fifo = thread::spawn(|| FIFO.apply(true).is_ok()).join().unwrap_or(false);
    let on = |cpus| Ok(PairResult { cpus, is_fifo, contenders: run_on(cpus, scratch)? });
    pairs()?.into_iter().map(on).collect()
}

fn run_on(cpus: Pair, scratch: &Path) -> Result<Vec<ContenderResult>, Box<dyn Error>> {
    let calibration = Calibration::measure(Duration::from_millis(200))?;
    let mut peers = cpp::Peers::start(cpus, scratch)?;
    let mut names = Vec::new();
    let (mut asks, mut answers) = (Vec::new(), Vec::new());
    for contenders in sizes()? {
        names.extend(contenders.iter().map(|it| (it.bytes, it.name.to_string())));
        let (asking, answering) =
            contenders.into_iter().map(|it| (it.asks, it.answers)).unzip::<_, _, Vec<_>, Vec<_>>();
        asks.push(asking);
        answers.push(answering);
    }
    names.extend(peers.contenders().iter().cloned());
    let (meeting, round_is_over) = (AtomicU64::new(0), Barrier::new(2));
    let (trips, streams) = thread::scope(|scope| {
        let asking = scope.spawn(|| asking(cpus[0], asks, &mut peers, &meeting, &round_is_over));
        let answering = scope.spawn(|| answering(cpus[1], answers, &meeting, &round_is_over));
        (asking.join(), answering.join())
    });
    let ended = |_| "a side of the messages ended early";
    let ((trips, of_peers), streams) = (trips.map_err(ended)?, streams.map_err(ended)?);
    let ours = trips.into_iter().zip(streams).map(|(trips, streams)| {
        let batch = |((in_a_row, p999), stream)| Batch { in_a_row, p999, stream };
        trips.into_iter().zip(streams).map(batch).collect::<Vec<_>>()
    });
    let mut shown = names
        .into_iter()
        .zip(ours.chain(of_peers))
        .map(|((bytes, name), batches)| {
            let p50_ns = |batch: &Batch| calibration.ns(batch.in_a_row) as f64 / IN_A_ROW as f64;
            let mut p50s = batches.iter().map(p50_ns).collect::<Vec<_>>();
            p50s.sort_by(f64::total_cmp);
            ContenderResult {
                name,
                bytes,
                p50_ns: median(p50s.iter().copied()),
                p999_ns: median(batches.iter().map(|batch| calibration.ns(batch.p999) as f64)),
                per_s: median(batches.iter().map(|batch| STREAM as f64 / batch.stream.as_secs_f64())),
                between_ns: [p50s[p50s.len() / 20], p50s[p50s.len() - 1 - p50s.len() / 20]],
            }
        })
        .collect::<Vec<_>>();
    // In the order of the sizes; within each as they stand.
    shown.sort_by_key(|it| it.bytes);
    Ok(shown)
}

/// The ticks of a contender's batches: of [`IN_A_ROW`] round trips the middle one, and p99.9 of single ones.
type Trips = Vec<Vec<(u64, u64)>>;

/// Asks and pours, and has the peers in C++ do it after each size.
fn asking(
    cpu: u32,
    sides: Vec<Vec<MakeSide>>,
    peers: &mut cpp::Peers,
    meeting: &AtomicU64,
    round_is_over: &Barrier,
) -> (Trips, Vec<Vec<Batch>>) {
    let _together = Together;
    let mut sides = made(cpu, sides);
    let mut batches = vec![Vec::with_capacity(ROUNDS); sides.iter().map(Vec::len).sum()];
    let mut of_peers = vec![Vec::with_capacity(ROUNDS); peers.contenders().len()];
    let mut ticks = vec![0; WARM_UP + TRIPS];
    for round in 0..ROUNDS {
        for turns in turns(round, &sides) {
            for (size, n, contender) in turns {
                meet(meeting);
                sides[size][n].ask(&mut ticks);
                batches[contender].push(middle_and_p999(&mut ticks[WARM_UP..]));
                meet(meeting);
                sides[size][n].pour(STREAM);
            }
            thread::sleep(REST);
        }
        for (n, batches) in of_peers.iter_mut().enumerate() {
            batches.push(peers.batch(n).unwrap_or_else(|error| panic!("{error}")));
        }
        round_is_over.wait();
        thread::sleep(REST);
    }
    (batches, of_peers)
}

fn middle_and_p999(ticks: &mut [u64]) -> (u64, u64) {
    let mut together = ticks.chunks_exact(IN_A_ROW).map(|ticks| ticks.iter().sum()).collect::<Vec<u64>>();
    together.sort_unstable();
    ticks.sort_unstable();
    (together[together.len() / 2], ticks[ticks.len() - ticks.len() / 1000])
}

/// Answers and drains; of each contender and batch how long the stream took.
fn answering(
    cpu: u32,
    sides: Vec<Vec<MakeSide>>,
    meeting: &AtomicU64,
    round_is_over: &Barrier,
) -> Vec<Vec<Duration>> {
    let _together = Together;
    let mut sides = made(cpu, sides);
    let mut batches = vec![Vec::with_capacity(ROUNDS); sides.iter().map(Vec::len).sum()];
    for round in 0..ROUNDS {
        for (size, n, contender) in turns(round, &sides).into_iter().flatten() {
            meet(meeting);
            sides[size][n].answer((WARM_UP + TRIPS) as u64);
            meet(meeting);
            let began = Instant::now();
            sides[size][n].drain(STREAM);
            batches[contender].push(began.elapsed());
        }
        // Asleep: the peers in C++ need this CPU now.
        round_is_over.wait();
    }
    batches
}

/// The turns of a round by size, with another contender first each time: the size, the contender among those
/// of its size, and among all.
fn turns(round: usize, sides: &[Vec<Box<dyn Side>>]) -> Vec<Vec<(usize, usize, usize)>> {
    let mut first = 0;
    let of_size = |(size, sides): (usize, &Vec<_>)| {
        let count = sides.len();
        first += count;
        let turns = (0..count).map(|n| (round + n) % count);
        turns.map(|n| (size, n, first - count + n)).collect::<Vec<_>>()
    };
    sides.iter().enumerate().map(of_size).collect()
}

/// Takes the CPU, and makes the sides there.
fn made(cpu: u32, sides: Vec<Vec<MakeSide>>) -> Vec<Vec<Box<dyn Side>>> {
    take(cpu);
    sides.into_iter().map(|sides| sides.into_iter().map(|make| make()).collect()).collect()
}

/// Has the CPU for this thread; in real time where that is allowed.
fn take(cpu: u32) {
    rt::thread::set_affinity(&[cpu]).unwrap_or_else(|error| panic!("{error}"));
    let _ = FIFO.apply(true);
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
        for Contender { name, bytes, asks, answers } in sizes().unwrap().into_iter().flatten() {
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
            assert!(ticks.iter().all(|ticks| *ticks > 0), "{name}, {bytes} bytes: {ticks:?}");
        }
    }
}
