// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupted loop, and the two threads around it: the source of interruptions, and the reader of the
//! collector.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cause::{Depth, Explainer};
use evidence::cause::{Choice, Collector};
use evidence::manifest::{RowKey, Spike};
use measure::samples::{self, Arrivals, Sample, Samples};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rt::clock::{monotonic_ns, timespec};
use rt::setup::Setup;
use rt::{Policy, thread};

use super::outcome::{InterruptionResult, Made};
use super::source::{CPU, Interruption, Method, Repeat};
use crate::bystanders::{self, Places};

/// The interval at which the collector is read.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The most gaps far from any round that are explained at a time: an emulator makes hundreds of thousands.
const OTHERS: usize = 20;

/// Makes rounds of one source under a loop, and judges the collector's causes of its gaps.
pub fn interrupted(
    source: &Interruption,
    choice: Choice,
    rounds: usize,
) -> Result<InterruptionResult, Box<dyn Error>> {
    let machine = inspect::read(Path::new("/"));
    let asked = cause::WatchSpec { cpus: [CPU].into_iter().collect(), depth: Depth::Busy };
    let mut explainer = Explainer::start(choice, &asked, &machine)?;
    has_events(&mut explainer)?;
    // A kernel has only one osnoise tracer.
    let other = if choice == Choice::Osnoise { Choice::Tracefs } else { choice };
    let another = source.is_watched_twice.then(|| cause::start(other, &asked, &machine)).transpose()?;
    let (over, own, made) = (AtomicBool::new(false), AtomicU32::new(0), Made::default());
    // The loop's work on a gap hides other interruptions: it writes only two numbers.
    let (mut send, mut gaps) = samples::sample_ring(THRESHOLD_NS);
    run::control::stay_on(&[0].into_iter().collect())?;
    // Before any program runs on that CPU.
    explainer.calibrate(&asked.cpus);
    // An ordinary loop would have to share its CPU with them.
    let places = Places { measured: (!source.is_other).then_some(CPU), elsewhere: 0 };
    let measured = bystanders::beside(places, || {
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| look(source, rounds, &over, &own, &made, &mut send));
            while own.load(Ordering::SeqCst) == 0 && !looks.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            explainer.arm(&[(CPU, own.load(Ordering::SeqCst))]);
            let makes = match &source.make {
                Method::Inside(_) => None,
                Method::Beside(make) => Some(scope.spawn(|| beside(*make, rounds, &over, &made))),
            };
            let spikes = explained(&mut explainer, &mut gaps, &over, &made);
            // Also after a failure of the collector: the loop has no other end.
            over.store(true, Ordering::SeqCst);
            let inside = looks.join().map_err(|_| "the loop panicked")?;
            let ended = match makes {
                Some(makes) => makes.join().map_err(|_| "the source panicked")?,
                None => inside,
            };
            Ok::<_, Box<dyn Error>>((ended, spikes?))
        })
    });
    let (ended, spikes) = measured?;
    drop(another);
    Ok(match ended {
        Ok(()) => InterruptionResult::of(source, &made.all(), &spikes),
        Err(why) => InterruptionResult { skipped: Some(why), ..InterruptionResult::of(source, &[], &spikes) },
    })
}

/// Refuses an explainer that has no collector of events, or has lost it.
fn has_events(explainer: &mut Explainer) -> Result<(), String> {
    let has = explainer.summary().is_some_and(|causes| causes.collector != Collector::Counters);
    if has { Ok(()) } else { Err(explainer.notes().join("; ")) }
}

/// Explains the gaps of rounds as they come, and some of the others.
fn explained(
    explainer: &mut Explainer,
    gaps: &mut Arrivals,
    over: &AtomicBool,
    made: &Made,
) -> Result<Vec<Spike>, String> {
    let mut spikes = Vec::new();
    loop {
        let was_over = over.load(Ordering::SeqCst);
        // Those that have ended by now; later gaps need another look at the rings.
        let ended = std::iter::from_fn(|| gaps.take()).map(spike).collect::<Vec<_>>();
        let (near, others): (Vec<_>, Vec<_>) = ended.into_iter().partition(|gap| made.is_near(gap));
        explainer.poll();
        for mut gap in near.into_iter().chain(others.into_iter().take(OTHERS)) {
            explainer.explain(&mut gap);
            spikes.push(gap);
        }
        has_events(explainer)?;
        if was_over {
            return Ok(spikes);
        }
        std::thread::sleep(ASK_EVERY);
    }
}

fn spike(gap: Sample) -> Spike {
    Spike {
        monotonic_ns: gap.due_ns,
        ..Spike::new(RowKey::new("loop", "idle", CPU, None), gap.woke_ns - gap.due_ns)
    }
}

/// Reads the clock until the end; a source within the loop interrupts it here.
fn look(
    source: &Interruption,
    rounds: usize,
    over: &AtomicBool,
    own: &AtomicU32,
    made: &Made,
    send: &mut Samples,
) -> Result<(), String> {
    let policy = if source.is_other { Policy::Other } else { Policy::Fifo(80) };
    let set_up = Setup { cpus: vec![CPU], policy, lock_memory: false }.apply();
    own.store(thread::id(), Ordering::SeqCst);
    set_up.map_err(|error| error.to_string())?;
    let mut random = SmallRng::seed_from_u64(7);
    let mut inside = match &source.make {
        Method::Inside(ready) => Some(ready()?),
        Method::Beside(_) => None,
    };
    let mut next_ns = monotonic_ns() + START_NS;
    let mut last_ns = monotonic_ns();
    // The loop's own work on a gap is in no gap.
    while !over.load(Ordering::Relaxed) {
        if let Some(inside) = &mut inside
            && last_ns >= next_ns
        {
            if made.count() == rounds {
                over.store(true, Ordering::SeqCst);
            }
            let round = made.round(inside)?;
            send.send(Sample { due_ns: round.from_ns, woke_ns: round.to_ns });
            next_ns = round.to_ns + pause_ns(&mut random);
            last_ns = monotonic_ns();
        }
        let now_ns = black_box(monotonic_ns());
        if now_ns - last_ns > THRESHOLD_NS {
            send.send(Sample { due_ns: last_ns, woke_ns: now_ns });
            last_ns = monotonic_ns();
        } else {
            last_ns = now_ns;
        }
    }
    Ok(())
}

/// Longer gaps are explained. In an emulator an interrupt takes tens of microseconds.
const THRESHOLD_NS: u64 = 10_000;

const START_NS: u64 = 300_000_000;

fn pause_ns(random: &mut SmallRng) -> u64 {
    1_000 * random.random_range(6_000..16_000u64)
}

/// Makes rounds at random times, on another CPU.
fn beside(
    make: fn(Repeat<'_>) -> Result<(), String>,
    rounds: usize,
    over: &AtomicBool,
    made: &Made,
) -> Result<(), String> {
    let mut random = SmallRng::seed_from_u64(11);
    let outcome = make(&mut |round| {
        let mut next_ns = monotonic_ns() + START_NS;
        for _ in 0..rounds {
            while monotonic_ns() < next_ns {
                let _ = rustix::thread::clock_nanosleep_absolute(
                    rustix::time::ClockId::Monotonic,
                    &timespec(next_ns),
                );
            }
            made.round(&mut *round)?;
            next_ns = monotonic_ns() + pause_ns(&mut random);
        }
        Ok(())
    });
    std::thread::sleep(ASK_EVERY);
    over.store(true, Ordering::SeqCst);
    outcome
}
