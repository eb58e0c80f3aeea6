// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hot loops: who answers edges, and who gives them. None allocates or locks; with polled ends none makes
//! a system call but the clock's, where the vDSO has none.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use rt::clock::{Calibration, counter, monotonic_ns};
use rt::registers::Register;

use crate::pace::Pace;
use crate::samples::{Sample, Samples};
use crate::schedule::{Cycles, missed};

/// How long a generator waits for its first answer.
pub(super) const PATIENCE_NS: u64 = 5_000_000_000;

/// How often a responder's counter is set against CLOCK_MONOTONIC.
const SET_NS: u64 = 1_000_000_000;

/// The signals that one end reads and drives. A level is any number; an edge is a change of it.
pub(super) trait SignalIo {
    /// The level that is read.
    fn input(&self) -> u32;

    /// Drives that level.
    fn output(&self, level: u32);

    /// Returns once what was driven has left the processor.
    fn arrived(&self);
}

/// A line of memory of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct SignalWord(AtomicU32);

/// Two words of this program: the generator's and the responder's.
pub(super) type SignalMemory = [SignalWord; 2];

/// An end of [`SignalMemory`].
#[derive(Debug)]
pub(super) struct MemoryEnd<'a> {
    pub input: &'a SignalWord,
    pub output: &'a SignalWord,
}

impl SignalIo for MemoryEnd<'_> {
    #[inline(always)]
    fn input(&self) -> u32 {
        self.input.0.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn output(&self, level: u32) {
        self.output.0.store(level, Ordering::Release);
    }

    #[inline(always)]
    fn arrived(&self) {
        fence(Ordering::SeqCst);
    }
}

/// An end of two words that another process, or another machine, has too.
#[derive(Debug)]
pub(super) struct SignalEnd {
    pub input: Register,
    pub output: Register,
}

impl SignalIo for SignalEnd {
    #[inline(always)]
    fn input(&self) -> u32 {
        self.input.read()
    }

    #[inline(always)]
    fn output(&self, level: u32) {
        self.output.write(level);
    }

    #[inline(always)]
    fn arrived(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Makes each edge of the input one of the output, until the generator is `done`. Has it end where `stop` is
/// set.
pub(super) fn answer(ends: &impl SignalIo, done: &AtomicBool, stop: &AtomicBool, end: &AtomicBool) {
    let mut seen = ends.input();
    ends.output(seen);
    rt::scope::begin();
    while !done.load(Ordering::Relaxed) {
        let level = ends.input();
        if level != seen {
            ends.output(level);
            seen = level;
        }
        if stop.load(Ordering::Relaxed) {
            end.store(true, Ordering::Relaxed);
        }
    }
    rt::scope::end();
}

/// As [`answer`], where who gives the edges is not here, and so not asked: a sample is the time from the last
/// poll that saw no edge to the answer that has left, which is the most that this side took. Whether any edge
/// came.
pub(super) fn answer_and_record(
    ends: &impl SignalIo,
    cycles: &Cycles,
    clock: &Calibration,
    samples: &mut Samples,
    stop: &AtomicBool,
) -> bool {
    let mut seen = ends.input();
    ends.output(seen);
    let (mut left, mut begun) = (cycles.loops, false);
    // The kernel's clock is asked once in a while only: its reader waits while a housekeeping CPU updates it.
    let (mut set_ns, mut set) = (monotonic_ns(), counter());
    let ends_at =
        |now_ns: u64, now: u64| now + clock.ticks(cycles.end_ns.saturating_sub(now_ns).min(u64::MAX / 8));
    let mut over = ends_at(set_ns, set);
    let mut came = false;
    let mut polled = counter();
    while polled < over && left > 0 && !stop.load(Ordering::Relaxed) {
        let polls = counter();
        let level = ends.input();
        if level == seen {
            polled = polls;
            continue;
        }
        ends.output(level);
        ends.arrived();
        let answered = counter();
        let woke_ns = set_ns + clock.ns(answered.saturating_sub(set));
        came = true;
        seen = level;
        let due_ns = woke_ns.saturating_sub(clock.ns(answered.saturating_sub(polled)));
        polled = polls;
        if due_ns >= cycles.start_ns && due_ns < cycles.end_ns {
            if !begun {
                begun = true;
                rt::scope::begin();
            }
            samples.send(Sample { due_ns, woke_ns });
            left = left.saturating_sub(1 + missed(due_ns, woke_ns, cycles.period_ns, cycles.end_ns));
        }
        if woke_ns - set_ns >= SET_NS {
            (set_ns, set) = (monotonic_ns(), counter());
            over = ends_at(set_ns, set);
        }
    }
    if begun {
        rt::scope::end();
    }
    came
}

/// The counts of a generator.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct GeneratorCounts {
    /// Edges that were answered.
    pub answers: u64,
    /// Of the row's, those during which the generator itself stood still for longer than it was told to
    /// mind.
    pub stood_still: u64,
    /// The longest of these.
    pub longest_ns: u64,
}

/// Gives an edge each period and waits until the input follows: a sample is the time from before the write to
/// after the poll that saw the answer. Ends early where no answer comes at all. Between two polls it notices
/// where it stood still itself for longer than `mind_ns`, which its samples cannot tell from a late answer.
pub(super) fn generate(
    ends: &impl SignalIo,
    mut pace: Pace<'_>,
    clock: &Calibration,
    mind_ns: u64,
    samples: &mut Samples,
    stop: &AtomicBool,
) -> GeneratorCounts {
    let mut heard = GeneratorCounts::default();
    let mut level = ends.input();
    ends.output(level);
    let cycles = *pace.cycles();
    while pace.wait(stop).is_some() {
        level ^= 1;
        let gave_ns = monotonic_ns();
        let gave = counter();
        ends.output(level);
        let (mut polled, mut longest) = (gave, 0);
        let took_ns = loop {
            let follows = ends.input() == level;
            let now = counter();
            longest = longest.max(now.saturating_sub(polled));
            polled = now;
            let waited_ns = clock.ns(now.saturating_sub(gave));
            if follows {
                heard.answers += 1;
                break Some(waited_ns);
            }
            let gives_up = heard.answers == 0 && waited_ns > PATIENCE_NS;
            if gives_up || stop.load(Ordering::Relaxed) || gave_ns + waited_ns >= cycles.end_ns {
                // As late as that at the least, where that is late at all.
                break Some(waited_ns).filter(|_| waited_ns > cycles.period_ns && !gives_up);
            }
        };
        let Some(took_ns) = took_ns else { break };
        let stood_ns = clock.ns(longest);
        if stood_ns > mind_ns && gave_ns >= cycles.start_ns {
            heard.stood_still += 1;
            heard.longest_ns = heard.longest_ns.max(stood_ns);
        }
        pace.end(Sample { due_ns: gave_ns, woke_ns: gave_ns + took_ns }, samples);
    }
    heard
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rt::thread;

    use super::*;
    use crate::samples::{Arrivals, sample_ring};

    const PERIOD: u64 = 200_000;

    fn cycles(periods: u64) -> Cycles {
        let start_ns = monotonic_ns() + 10 * PERIOD;
        Cycles { period_ns: PERIOD, start_ns, end_ns: start_ns + periods * PERIOD, loops: u64::MAX }
    }

    /// One that ends by itself, however seldom its threads have a CPU.
    fn fifty() -> Cycles {
        Cycles { loops: 50, ..cycles(1 << 40) }
    }

    fn clock() -> Calibration {
        Calibration::measure(Duration::from_millis(5)).unwrap()
    }

    /// The samples of a generator that does not mind how long it stands still.
    fn give(ends: &MemoryEnd<'_>, row: &Cycles, samples: &mut Samples, stop: &AtomicBool) -> GeneratorCounts {
        generate(ends, Pace::new(row, monotonic_ns()), &clock(), u64::MAX, samples, stop)
    }

    fn all(mut arrivals: Arrivals) -> Vec<Sample> {
        std::iter::from_fn(|| arrivals.take()).collect()
    }

    /// Two ends of the same memory, each on a CPU of its own where there are two.
    fn both<R: Send>(
        memory: &SignalMemory,
        respond: impl FnOnce(&MemoryEnd<'_>) -> R + Send,
        generate: impl FnOnce(&MemoryEnd<'_>) + Send,
    ) -> R {
        let [there, back] = memory;
        let cpus = thread::affinity();
        std::thread::scope(|scope| {
            let responder = scope.spawn(|| {
                thread::set_affinity(&cpus[cpus.len() - 1..]).unwrap();
                respond(&MemoryEnd { input: there, output: back })
            });
            let generator = scope.spawn(|| {
                thread::set_affinity(&cpus[..1]).unwrap();
                generate(&MemoryEnd { input: back, output: there });
            });
            generator.join().unwrap();
            responder.join().unwrap()
        })
    }

    #[test]
    fn every_edge_is_answered_before_the_next_one_is_given() {
        let (memory, done, end, never) =
            (SignalMemory::default(), AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let (mut samples, arrivals) = sample_ring(PERIOD);
        let mut heard = GeneratorCounts::default();
        both(
            &memory,
            |ends| answer(ends, &done, &never, &end),
            |ends| {
                heard = give(ends, &fifty(), &mut samples, &never);
                done.store(true, Ordering::Relaxed);
            },
        );
        let seen = all(arrivals);
        assert!(!seen.is_empty() && seen.len() as u64 <= heard.answers, "{heard:?}");
        assert_eq!((heard.stood_still, heard.longest_ns), (0, 0), "it was told to mind nothing");
        for pair in seen.windows(2) {
            assert!(pair[0].due_ns <= pair[0].woke_ns && pair[0].woke_ns <= pair[1].due_ns, "{pair:?}");
        }
        assert!(!end.load(Ordering::Relaxed));
    }

    #[test]
    fn a_responder_records_the_edges_that_it_answers_and_no_more() {
        let (memory, never) = (SignalMemory::default(), AtomicBool::new(false));
        let (mut samples, arrivals) = sample_ring(PERIOD);
        let (mut given, _unread) = sample_ring(PERIOD);
        let stop = AtomicBool::new(false);
        let row = fifty();
        let came = both(
            &memory,
            |ends| {
                let came = answer_and_record(ends, &row, &clock(), &mut samples, &never);
                stop.store(true, Ordering::Relaxed);
                came
            },
            |ends| {
                give(ends, &cycles(1 << 40), &mut given, &stop);
            },
        );
        let seen = all(arrivals);
        assert!(came && !seen.is_empty() && seen.len() <= 50, "{}", seen.len());
        assert!(seen.iter().all(|sample| sample.due_ns >= row.start_ns && sample.woke_ns >= sample.due_ns));
    }

    #[test]
    fn ends_without_answers_and_reports_missing_edges() {
        let memory = SignalMemory::default();
        let [there, back] = &memory;
        let (mut samples, arrivals) = sample_ring(PERIOD);
        let never = AtomicBool::new(false);
        let alone = MemoryEnd { input: back, output: there };
        let heard = give(&alone, &cycles(1 << 40), &mut samples, &never);
        assert_eq!((heard.answers, all(arrivals).len()), (0, 0));
        let (mut samples, arrivals) = sample_ring(PERIOD);
        assert!(!answer_and_record(&alone, &cycles(20), &clock(), &mut samples, &never));
        assert_eq!(all(arrivals), []);
    }

    #[test]
    fn an_answer_that_stays_out_until_the_row_ends_is_as_late_as_that() {
        let memory = SignalMemory::default();
        let [there, back] = &memory;
        let (never, row) = (AtomicBool::new(false), cycles(5000));
        let (mut samples, arrivals) = sample_ring(PERIOD);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Answers while the row warms up, and once more.
                let mut seen = 0;
                while monotonic_ns() < row.start_ns || seen == 0 {
                    seen = there.0.load(Ordering::Acquire);
                    back.0.store(seen, Ordering::Release);
                }
            });
            give(&MemoryEnd { input: back, output: there }, &row, &mut samples, &never);
        });
        let last = *all(arrivals).last().unwrap();
        assert!(last.woke_ns >= row.end_ns && last.woke_ns - last.due_ns > PERIOD, "{last:?} {row:?}");
    }

    #[test]
    fn one_that_is_stopped_ends_the_other() {
        let (memory, done, end) = (SignalMemory::default(), AtomicBool::new(false), AtomicBool::new(false));
        let stop = AtomicBool::new(true);
        let (mut samples, arrivals) = sample_ring(PERIOD);
        both(
            &memory,
            |ends| answer(ends, &done, &stop, &end),
            |ends| {
                give(ends, &cycles(1 << 40), &mut samples, &end);
                done.store(true, Ordering::Relaxed);
            },
        );
        drop(arrivals);
        assert!(end.load(Ordering::Relaxed));
    }
}
