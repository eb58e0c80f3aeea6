// SPDX-License-Identifier: MIT OR Apache-2.0
//! The message probe: one CPU signals, another answers, and the first one measures how long that took.
//!
//! ```text
//! cpu A   due ─ signal ───────────────────────► answer seen     a sample: from the signal to there
//! cpu B            └──► seen ─ answer ──────────┘
//! ```
//! By several means, a row each ([`MEANS`]): a word of shared memory that both poll; a futex; an eventfd each
//! way; a signal that a thread waits for; and an interrupt that the kernel of B answers by itself (`ipi`:
//! membarrier(2)), B's program having no part in it. A reads the clock until a question is due, so what wakes
//! it afterwards is the means alone. A question that A could ask only a period late or more counts from when
//! it was due: no period goes by unseen.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use evidence::manifest::Granted;
use rt::clock::{Calibration, counter, monotonic_ns};
use rt::setup::Setup;
use rt::{Policy, signal, thread};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;

use crate::error::Result;
use crate::pace::Pace;
use crate::probe::{HotLoop, LoopOutcome, Opened, Opening, Probe};
use crate::samples::{Sample, Samples};
use crate::schedule::{Cycles, Schedule, Window};
use crate::watch::Seat;

/// The probe that stands for all means.
pub const MESSAGE: &str = "message";

/// The means by the names of their probes.
pub const MEANS: [(&str, Means); 5] = [
    Means::Shared.named(),
    Means::Futex.named(),
    Means::Eventfd.named(),
    Means::Signal.named(),
    Means::Ipi.named(),
];

/// How a signal and its answer travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// A word of memory each way, polled.
    Shared,
    /// The same, waited for by futex(2).
    Futex,
    /// An eventfd(2) each way.
    Eventfd,
    /// A signal each way, waited for.
    Signal,
    /// membarrier(2): the kernel interrupts the other CPU and waits for it.
    Ipi,
}

impl Means {
    /// The one of that probe.
    pub fn of(probe: &str) -> Option<Means> {
        MEANS.iter().find(|(name, _)| *name == probe).map(|(_, means)| *means)
    }

    /// The probe's name.
    pub const fn probe(self) -> &'static str {
        match self {
            Means::Shared => "message-shared",
            Means::Futex => "message-futex",
            Means::Eventfd => "message-eventfd",
            Means::Signal => "message-signal",
            Means::Ipi => "message-ipi",
        }
    }

    const fn named(self) -> (&'static str, Means) {
        (self.probe(), self)
    }
}

/// The probe on one CPU.
#[derive(Debug, Clone, Copy)]
pub struct MessageProbe {
    /// How a signal and its answer travel.
    pub means: Means,
    /// The CPU that answers, and the policy of its thread.
    pub partner: (u32, Policy),
    /// The counter's rate.
    pub clock: Calibration,
    /// Its period, in nanoseconds.
    pub period: NonZeroU64,
}

impl Probe for MessageProbe {
    fn schedule(&self) -> Schedule {
        Schedule::Periodic(self.period)
    }

    fn open(self: Box<Self>, opening: &Opening<'_>) -> Result<Opened> {
        let MessageProbe { means, partner: (answers_on, policy), clock, period } = *self;
        let measured = opening.series.key.cpu;
        opening.of_cycles(period, move |samples| {
            let partner = Partner::start(means, answers_on, policy)?;
            Ok(Asker { partner, answers_on, measured, clock, period, samples, failed: None })
        })
    }
}

/// The armed probe.
struct Asker {
    partner: Partner,
    answers_on: u32,
    measured: u32,
    clock: Calibration,
    period: NonZeroU64,
    samples: Samples,
    failed: Option<rt::Error>,
}

impl HotLoop for Asker {
    fn helpers(&self) -> Vec<Arc<Seat>> {
        let thread = self.partner.number();
        Seat::of("the thread that answers".into(), std::process::id(), thread, self.measured, None)
            .into_iter()
            .collect()
    }

    fn add_to(&self, granted: &mut Granted) {
        granted.counter_hz = Some(self.clock.hz);
        granted.answers_on = Some(self.answers_on);
    }

    fn run(&mut self, window: &Window, stop: &AtomicBool) {
        let cycles = window.cycles(self.period);
        self.failed = run(&cycles, &self.clock, &self.partner, &mut self.samples, stop).err();
    }

    fn ended(self: Box<Self>) -> LoopOutcome {
        LoopOutcome { failed: self.failed, ..LoopOutcome::default() }
    }
}

/// A line of memory of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct MessageWord(AtomicU32);

/// The state that the two threads share.
#[derive(Debug)]
struct MessageLink {
    means: Means,
    there: MessageWord,
    back: MessageWord,
    over: AtomicBool,
    events: [OwnedFd; 2],
    /// Who asks.
    asks: u32,
}

/// The thread that answers.
#[derive(Debug)]
pub struct Partner {
    link: Arc<MessageLink>,
    thread: Option<JoinHandle<io::Result<()>>>,
    number: u32,
}

impl Partner {
    /// Starts it on `cpu` with that policy; the calling thread is to ask.
    pub fn start(means: Means, cpu: u32, policy: Policy) -> rt::Result<Partner> {
        let refuse = |error: &io::Error| {
            rt::Error::os("start the thread that answers", error, "raise the limits on processes and files")
        };
        let event = || eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refuse(&error.into()));
        let link = Arc::new(MessageLink {
            means,
            there: MessageWord::default(),
            back: MessageWord::default(),
            over: AtomicBool::new(false),
            events: [event()?, event()?],
            asks: thread::id(),
        });
        if means == Means::Signal {
            signal::block().map_err(|error| refuse(&error))?;
        }
        if means == Means::Ipi {
            thread::join_own_barriers()?;
        }
        let (say, said) = mpsc::channel();
        let answers = Arc::clone(&link);
        let thread = std::thread::Builder::new().name(format!("answer-{cpu}")).spawn(move || {
            let set_up = Setup { cpus: vec![cpu], policy, lock_memory: false }.apply();
            let ready = set_up.and_then(|_| {
                signal::block().map_err(|error| rt::Error::os("block a signal", &error, "report this"))
            });
            let is_ready = ready.is_ok();
            // Who started it waits for this.
            let _ = say.send(ready.map(|()| thread::id()));
            let answered = if is_ready { answers.answer() } else { Ok(()) };
            if answered.is_err() {
                answers.give_up();
            }
            answered
        });
        let thread = thread.map_err(|error| refuse(&error))?;
        let number = said.recv().unwrap_or_else(|_| {
            Err(rt::Error::new(
                "start the thread that answers",
                "it ended at once",
                "report this as a defect",
            ))
        })?;
        Ok(Partner { link, thread: Some(thread), number })
    }

    /// The number of its thread.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Signals, and comes back with the answer; false where `stop` was set first.
    #[inline(always)]
    fn ask(&self, round: u32, stop: &AtomicBool) -> io::Result<bool> {
        let MessageLink { means, there, back, events, .. } = &*self.link;
        match means {
            Means::Shared => {
                there.0.store(round, Ordering::Release);
                while back.0.load(Ordering::Acquire) != round {
                    if stop.load(Ordering::Relaxed) {
                        return Ok(false);
                    }
                    std::hint::spin_loop();
                }
            }
            Means::Futex => {
                post(there, round)?;
                // One that gave up before it saw this question posted an earlier answer.
                self.refuse_if_over()?;
                wait(back, round)?;
            }
            Means::Eventfd => {
                notify(&events[0])?;
                notified(&events[1])?;
            }
            Means::Signal => {
                signal::send(self.number)?;
                signal::wait()?;
            }
            Means::Ipi => thread::own_barrier().map_err(|error| io::Error::other(error.to_string()))?,
        }
        self.refuse_if_over()?;
        Ok(true)
    }

    /// An error where the other one gave up.
    #[inline(always)]
    fn refuse_if_over(&self) -> io::Result<()> {
        match self.link.over.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(io::Error::other("the thread that answers was refused a system call")),
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.link.over.store(true, Ordering::SeqCst);
        // It waits for one more.
        let _ = match self.link.means {
            Means::Futex => post(&self.link.there, self.link.there.0.load(Ordering::SeqCst).wrapping_add(1)),
            Means::Eventfd => notify(&self.link.events[0]),
            Means::Signal => signal::send(self.number),
            Means::Shared | Means::Ipi => Ok(()),
        };
        if let Some(thread) = self.thread.take() {
            // How it ended says nothing more: every round was answered.
            let _ = thread.join();
        }
    }
}

impl MessageLink {
    /// Answers until it is over.
    fn answer(&self) -> io::Result<()> {
        let mut round = 0u32;
        loop {
            match self.means {
                Means::Shared => {
                    let now = self.there.0.load(Ordering::Acquire);
                    if now != round {
                        round = now;
                        self.back.0.store(round, Ordering::Release);
                    }
                    std::hint::spin_loop();
                }
                Means::Futex => {
                    round = round.wrapping_add(1);
                    wait(&self.there, round)?;
                    post(&self.back, round)?;
                }
                Means::Eventfd => {
                    notified(&self.events[0])?;
                    notify(&self.events[1])?;
                }
                Means::Signal => {
                    signal::wait()?;
                    if !self.over.load(Ordering::SeqCst) {
                        signal::send(self.asks)?;
                    }
                }
                // The kernel answers for the program in user mode here.
                Means::Ipi => std::hint::spin_loop(),
            }
            if self.over.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    /// Has who asks see that no answer will come, by whatever it waits for.
    fn give_up(&self) {
        self.over.store(true, Ordering::SeqCst);
        let asked = self.there.0.load(Ordering::SeqCst);
        // What is refused here too leaves nothing to be done.
        let _ = match self.means {
            Means::Futex => post(&self.back, asked),
            Means::Eventfd => notify(&self.events[1]),
            Means::Signal => signal::send(self.asks),
            Means::Shared | Means::Ipi => Ok(()),
        };
    }
}

fn post(word: &MessageWord, round: u32) -> io::Result<()> {
    word.0.store(round, Ordering::Release);
    futex::wake(&word.0, futex::Flags::PRIVATE, 1)?;
    Ok(())
}

/// Waits until the word has that number.
fn wait(word: &MessageWord, round: u32) -> io::Result<()> {
    loop {
        let now = word.0.load(Ordering::Acquire);
        if now == round {
            return Ok(());
        }
        match futex::wait(&word.0, futex::Flags::PRIVATE, now, None) {
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn notify(event: &OwnedFd) -> io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::io::write(event, &1u64.to_ne_bytes()))?;
    Ok(())
}

fn notified(event: &OwnedFd) -> io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::io::read(event, &mut [0; 8]))?;
    Ok(())
}

/// Asks once a period, until `cycles` are over or `stop` is set.
pub fn run(
    cycles: &Cycles,
    clock: &Calibration,
    partner: &Partner,
    samples: &mut Samples,
    stop: &AtomicBool,
) -> rt::Result<()> {
    let mut pace = Pace::new(cycles, monotonic_ns());
    let mut round = 0u32;
    while let Some(due_ns) = pace.wait(stop) {
        round = round.wrapping_add(1);
        let asked_ns = monotonic_ns();
        let asked = counter();
        let is_answered = partner.ask(round, stop).map_err(|error| {
            rt::Error::os("send a message to the other CPU", &error, "report this as a defect")
        })?;
        if !is_answered {
            break;
        }
        let took_ns = clock.ns(counter().wrapping_sub(asked));
        let due_ns = from_ns(due_ns, asked_ns, cycles.period_ns);
        pace.end(Sample { due_ns, woke_ns: asked_ns + took_ns }, samples);
    }
    Ok(())
}

/// From when a question counts that was due at `due_ns`.
fn from_ns(due_ns: u64, asked_ns: u64, period_ns: u64) -> u64 {
    if asked_ns.saturating_sub(due_ns) < period_ns { asked_ns } else { due_ns }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::samples::sample_ring;

    const PERIOD: u64 = 200_000;

    fn measured(means: Means, stop_at_once: bool) -> Vec<Sample> {
        let clock = Calibration::measure(Duration::from_millis(5)).unwrap();
        let (mut samples, mut arrivals) = sample_ring(PERIOD);
        let (asks, answers) = match thread::affinity()[..] {
            [one] => (one, one),
            [.., before, last] => (last, before),
            [] => panic!("no CPU"),
        };
        // A thread of its own: it goes to a CPU, and may have a signal blocked.
        std::thread::spawn(move || {
            let partner = Partner::start(means, answers, Policy::Other).unwrap();
            thread::set_affinity(&[asks]).unwrap();
            let start_ns = monotonic_ns() + 10 * PERIOD;
            let cycles =
                Cycles { period_ns: PERIOD, start_ns, end_ns: start_ns + 200 * PERIOD, loops: u64::MAX };
            run(&cycles, &clock, &partner, &mut samples, &AtomicBool::new(stop_at_once)).unwrap();
        })
        .join()
        .unwrap();
        std::iter::from_fn(|| arrivals.take()).collect()
    }

    #[test]
    fn by_every_means_each_question_is_answered_before_the_next() {
        for (probe, means) in MEANS {
            let samples = measured(means, false);
            assert!(!samples.is_empty(), "{probe}");
            for pair in samples.windows(2) {
                // One that could be asked only periods late counts from when it was due.
                let is_late = pair[1].woke_ns - pair[1].due_ns >= PERIOD;
                let from_ns = if is_late { pair[1].woke_ns } else { pair[1].due_ns };
                assert!(pair[0].due_ns <= pair[0].woke_ns && pair[0].woke_ns <= from_ns, "{probe} {pair:?}");
            }
        }
    }

    #[test]
    fn a_question_that_could_be_asked_only_periods_late_counts_from_when_it_was_due() {
        let asked = [1_000, 1_999, 2_000, 51_000].map(|asked_ns| from_ns(1_000, asked_ns, 1_000));
        assert_eq!(asked, [1_000, 1_999, 1_000, 1_000]);
    }

    #[test]
    fn leaves_no_thread_if_stopped_before_it_begins() {
        for (probe, means) in MEANS {
            assert_eq!(measured(means, true), [], "{probe}");
        }
    }

    #[test]
    fn one_that_asks_is_told_where_the_other_is_refused_a_system_call() {
        let (_read, unreadable) = std::io::pipe().unwrap();
        let link = Arc::new(MessageLink {
            means: Means::Eventfd,
            there: MessageWord::default(),
            back: MessageWord::default(),
            over: AtomicBool::new(false),
            events: [unreadable.into(), eventfd(0, EventfdFlags::CLOEXEC).unwrap()],
            asks: thread::id(),
        });
        let partner = Partner { link: Arc::clone(&link), thread: None, number: 0 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(link.answer().is_err());
                link.give_up();
            });
            let said = partner.ask(1, &AtomicBool::new(false)).unwrap_err().to_string();
            assert_eq!(said, "the thread that answers was refused a system call");
        });
    }

    #[test]
    fn a_cpu_that_is_not_there_cannot_answer() {
        for (probe, means) in MEANS {
            let said = Partner::start(means, 1023, Policy::Other).unwrap_err().to_string();
            assert!(said.starts_with("cannot run on cpus [1023]"), "{probe}: {said}");
        }
    }

    #[test]
    fn every_means_has_its_name() {
        assert_eq!(Means::of("message-futex"), Some(Means::Futex));
        assert_eq!((Means::of(MESSAGE), Means::of("message-pigeon")), (None, None));
    }
}
