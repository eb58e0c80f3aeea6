// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other end: cycles as nanoseconds of CLOCK_MONOTONIC, what was lost, and a loop that is not believed.
//!
//! Ticks become nanoseconds by what both clocks said at an earlier look and at this one: a straight line
//! between two moments that lie close together, so that neither a calibration nor a clock that is steered
//! adds an error that grows, and yet so far apart that reading two clocks one after the other does not tilt
//! it.

use std::num::NonZeroU64;
use std::time::Duration;

use super::{
    BEGAN, CLOCK, CycleClock, DUE, ENDED, FIRST_MARK, KIND, MARKS, NUMBER, PERIOD_NS, PERIODS_NS, THREAD,
};
use super::{THIS_KIND, WORDS};
use crate::clock::{monotonic_ns, paired};
use crate::message::{Failure, Ordering, Receiver};
use crate::{Error, Result};

/// A cycle that was due longer ago, or is due later, was given another clock's time.
const FAR_NS: u64 = 3_600_000_000_000;

/// A counter may differ that much between CPUs.
const APART_NS: u64 = 100_000;

/// How far two looks at both clocks lie apart at the first, and later at the least.
const FIRST_BASE: Duration = Duration::from_millis(10);
const BASE_NS: u64 = 100_000_000;

/// A cycle, all times on CLOCK_MONOTONIC.
///
/// ```
/// use std::time::Duration;
///
/// use rt::monitor::Monitor;
///
/// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
/// monitor.begin(0);
/// monitor.end();
/// reader.poll(|cycle| {
///     println!("wakeup latency: {} ns", cycle.began_ns.saturating_sub(cycle.due_ns));
///     println!("execution time: {} ns", cycle.ended_ns - cycle.began_ns);
/// })?;
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Its number; the loop's first is 1.
    pub number: u64,
    /// When it was due.
    pub due_ns: u64,
    /// When it began.
    pub began_ns: u64,
    /// When its work was done.
    pub ended_ns: u64,
    /// When it came by its marks.
    pub marks_ns: [Option<u64>; MARKS],
}

/// How the loop stands.
///
/// ```
/// use std::time::Duration;
///
/// use rt::monitor::{Monitor, Standing};
///
/// let (monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
/// assert_eq!(reader.poll(|_| {})?, Standing::Goes);
/// drop(monitor);
/// assert_eq!(reader.poll(|_| {})?, Standing::Closed);
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// More may come.
    Goes,
    /// It was closed in order.
    Closed,
    /// Its process is gone.
    Gone,
}

/// The end that reads. It may come and go as it likes.
///
/// ```
/// use std::time::Duration;
///
/// use rt::monitor::Monitor;
///
/// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
/// (0..10).for_each(|_| {
///     monitor.begin(0);
///     monitor.end();
/// });
/// let mut longest_ns = 0;
/// reader.poll(|cycle| longest_ns = longest_ns.max(cycle.ended_ns - cycle.began_ns))?;
/// println!("longest execution time: {longest_ns} ns, {} cycles lost", reader.lost());
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    receiver: Receiver,
    clock: CycleClock,
    period: NonZeroU64,
    /// Both clocks at two looks that lie apart, the earlier first.
    base: [(u64, u64); 2],
    /// The last cycle; unknown before the first.
    last: Option<Cycle>,
    lost: u64,
}

impl Reader {
    /// Reads what `receiver`'s other end posts, if that is a loop.
    pub(super) fn on(receiver: Receiver) -> Result<Reader> {
        let refuse = |why: &str| Err(Error::new("read a loop", why, "give one that this version monitors"));
        // Pairs with the release in `Monitor::on`.
        if receiver.note(KIND).load(Ordering::Acquire) != THIS_KIND {
            return refuse("the ring holds something else");
        }
        // Each once, and never again: the other side could change it.
        let period_ns = receiver.note(PERIOD_NS).load(Ordering::Relaxed);
        let clock = receiver.note(CLOCK).load(Ordering::Relaxed);
        let clock =
            [CycleClock::Counter, CycleClock::Monotonic].into_iter().find(|known| *known as u64 == clock);
        let period = NonZeroU64::new(period_ns).filter(|_| PERIODS_NS.contains(&period_ns));
        match (clock, period) {
            (Some(clock), Some(period)) => {
                let earlier = look(clock);
                if clock == CycleClock::Counter {
                    std::thread::sleep(FIRST_BASE);
                }
                let base = [earlier, look(clock)];
                Ok(Reader { receiver, clock, period, base, last: None, lost: 0 })
            }
            _ => refuse("what it says of itself cannot be"),
        }
    }

    /// The period that the loop was made with, in nanoseconds.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (_monitor, reader) = rt::monitor::Monitor::pair(Duration::from_millis(1))?;
    /// assert_eq!(reader.period().get(), 1_000_000);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn period(&self) -> NonZeroU64 {
        self.period
    }

    /// How long the reader may be away until cycles are lost.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::{Monitor, ROOM};
    ///
    /// let (_monitor, reader) = Monitor::pair(Duration::from_millis(1))?;
    /// assert!(reader.room() >= ROOM);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn room(&self) -> Duration {
        let period = Duration::from_nanos(self.period.get());
        super::size(period).map_or(Duration::ZERO, |size| period * size.slots)
    }

    /// The loop's thread, as its program says; unknown before its first cycle.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (mut monitor, reader) = rt::monitor::Monitor::pair(Duration::from_millis(1))?;
    /// assert_eq!(reader.thread(), None);
    /// monitor.begin(0);
    /// assert_eq!(reader.thread(), Some(rt::thread::id()));
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn thread(&self) -> Option<u32> {
        let thread = self.receiver.note(THREAD).load(Ordering::Relaxed);
        u32::try_from(thread).ok().filter(|thread| *thread > 0)
    }

    /// Cycles that were lost since [`Reader::start`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
    /// monitor.begin(0);
    /// // The first cycle has no end.
    /// monitor.begin(0);
    /// monitor.end();
    /// reader.poll(|cycle| assert_eq!(cycle.number, 2))?;
    /// println!("{} lost", reader.lost());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Throws away what has come until now, and what was lost of it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
    /// monitor.begin(0);
    /// monitor.end();
    /// reader.start()?;
    /// reader.poll(|_| panic!("no cycle has come since"))?;
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn start(&mut self) -> Result<()> {
        // As many as the ring may hold; a loop without a pause would come again and again.
        for _ in 0..*super::SLOTS.end() {
            match self.receiver.take() {
                Ok(Some(_)) => {}
                Ok(None) | Err(Failure::Closed) => break,
                Err(failure) => return Err(broken(&failure.to_string())),
            }
        }
        (self.last, self.lost) = (None, 0);
        Ok(())
    }

    /// Hands over the cycles that have come, and says how the loop stands. An error where it wrote what
    /// cannot be.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
    /// monitor.begin(0);
    /// monitor.end();
    /// let mut numbers = Vec::new();
    /// reader.poll(|cycle| numbers.push(cycle.number))?;
    /// assert_eq!(numbers, [1]);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn poll(&mut self, mut each: impl FnMut(&Cycle)) -> Result<Standing> {
        // Before the last look into the ring, so that what it posted before its end is not missed.
        let lives = self.lives();
        let now = look(self.clock);
        let line = LinearFit::between(self.base[0], now);
        for _ in 0..*super::SLOTS.end() {
            match self.receiver.take() {
                Ok(Some(message)) => {
                    let words = decode(message).ok_or_else(|| broken("a cycle has another length"))?;
                    let before = self.last.map_or(words[NUMBER].saturating_sub(1), |last| last.number);
                    let lost = words[NUMBER].checked_sub(before).and_then(|step| step.checked_sub(1));
                    let lost = lost.ok_or_else(|| broken("its cycles go back"))?;
                    let due_ns =
                        self.last.filter(|_| lost == 0).map(|last| last.began_ns + self.period.get());
                    let last_ns = self.last.map_or(0, |last| last.ended_ns);
                    let cycle = cycle(&words, due_ns, last_ns, &line, self.period)?;
                    self.lost = self.lost.saturating_add(lost);
                    self.last = Some(cycle);
                    each(&cycle);
                }
                Ok(None) => break,
                Err(Failure::Closed) => return Ok(Standing::Closed),
                Err(failure) => return Err(broken(&failure.to_string())),
            }
        }
        self.base = shifted(self.base, now);
        Ok(if lives { Standing::Goes } else { Standing::Gone })
    }

    #[cfg(not(loom))]
    fn lives(&self) -> bool {
        self.receiver.sender_lives()
    }

    #[cfg(loom)]
    fn lives(&self) -> bool {
        true
    }
}

/// Both clocks, now: nanoseconds of CLOCK_MONOTONIC and the loop's own.
fn look(clock: CycleClock) -> (u64, u64) {
    match clock {
        CycleClock::Counter => paired(),
        CycleClock::Monotonic => {
            let now = monotonic_ns();
            (now, now)
        }
    }
}

/// The base of the next look after one that saw `now`.
fn shifted(base: [(u64, u64); 2], now: (u64, u64)) -> [(u64, u64); 2] {
    if now.0.saturating_sub(base[1].0) >= BASE_NS { [base[1], now] } else { base }
}

/// The way from ticks to nanoseconds between two looks, and a little beyond either.
struct LinearFit {
    to: (u64, u64),
    /// Nanoseconds of a tick.
    rate: f64,
}

impl LinearFit {
    fn between(from: (u64, u64), to: (u64, u64)) -> LinearFit {
        // Where the loop's clock is CLOCK_MONOTONIC both are the same, and between a look and itself there is
        // no line.
        let ticks = to.1.saturating_sub(from.1);
        let rate = if ticks == 0 { 1.0 } else { to.0.saturating_sub(from.0) as f64 / ticks as f64 };
        LinearFit { to, rate }
    }

    fn ns(&self, ticks: u64) -> u64 {
        let ns = |ticks: u64| (ticks as f64 * self.rate) as u64;
        match self.to.1.checked_sub(ticks) {
            Some(before) => self.to.0.saturating_sub(ns(before)),
            None => self.to.0.saturating_add(ns(ticks - self.to.1)),
        }
    }
}

fn decode(message: &[u8]) -> Option<[u64; WORDS]> {
    let mut words = [0; WORDS];
    (message.len() == 8 * WORDS).then(|| {
        for (word, bytes) in words.iter_mut().zip(message.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        words
    })
}

/// A cycle of its words, if they can be: nothing that another process wrote is used before that. Where it
/// does not say when it was due, that is `due_ns`, or when it began; the one before ended at `last_ns`.
fn cycle(
    words: &[u64; WORDS],
    due_ns: Option<u64>,
    last_ns: u64,
    line: &LinearFit,
    period: NonZeroU64,
) -> Result<Cycle> {
    let number = words[NUMBER];
    let [began_ns, ended_ns] = [BEGAN, ENDED].map(|word| line.ns(words[word]));
    let marks_ns =
        std::array::from_fn(|n| Some(words[FIRST_MARK + n]).filter(|at| *at > 0).map(|at| line.ns(at)));
    // It may have been posted after the look that ends the line.
    let latest_ns = monotonic_ns().saturating_add(APART_NS);
    let in_order = |at_ns: u64| began_ns <= at_ns.saturating_add(APART_NS) && at_ns <= latest_ns;
    if number == 0
        || number == u64::MAX
        || last_ns > began_ns.saturating_add(APART_NS)
        || ended_ns.saturating_sub(began_ns) > FAR_NS
        || !in_order(ended_ns)
        || !marks_ns.iter().flatten().all(|at_ns| in_order(*at_ns))
    {
        return Err(broken("its times cannot be"));
    }
    let told = words[DUE] != 0;
    let due_ns = if told { words[DUE] } else { due_ns.unwrap_or(began_ns) };
    if told && due_ns.abs_diff(began_ns) > FAR_NS {
        let what = format!("use cycle {number} of the loop");
        let why = format!("it began {} s from when it was due", due_ns.abs_diff(began_ns) / 1_000_000_000);
        return Err(Error::new(
            what,
            why,
            "give begin the time of CLOCK_MONOTONIC at which the cycle was due, or 0",
        ));
    }
    // A loop waits until its cycle is due. One that begins half a period before was given the next cycle's
    // time, or another clock's: a negative latency says nothing.
    let early_ns = due_ns.saturating_sub(began_ns);
    if told && early_ns > period.get() / 2 + APART_NS {
        let what = format!("use cycle {number} of the loop");
        let why = format!("it began {} us before it was due", early_ns / 1_000);
        let cure =
            "give begin the time of CLOCK_MONOTONIC at which this cycle was due, not the next one, or 0";
        return Err(Error::new(what, why, cure));
    }
    Ok(Cycle { number, due_ns, began_ns, ended_ns: ended_ns.max(began_ns), marks_ns })
}

fn broken(why: &str) -> Error {
    Error::new(
        "read the loop any further",
        why,
        "start the program again, and see what writes into its memory",
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_on_the_line_between_two_looks_and_beyond() {
        let line = LinearFit::between((1_000_000, 500), (2_000_000, 1_500));
        let at = [0, 500, 501, 1_000, 1_500, 1_600].map(|ticks| line.ns(ticks));
        assert_eq!(at, [500_000, 1_000_000, 1_001_000, 1_500_000, 2_000_000, 2_100_000]);
        // Two looks at one time give no slope.
        assert_eq!(LinearFit::between((7, 7), (7, 7)).ns(9), 9);
    }

    #[test]
    fn a_line_is_never_drawn_over_less_than_its_base() {
        let start = [(0, 0), (10_000_000, 10)];
        assert_eq!(shifted(start, (109_999_999, 109)), start);
        let next = shifted(start, (110_000_000, 110));
        assert_eq!(next, [(10_000_000, 10), (110_000_000, 110)]);
        assert_eq!(shifted(next, (120_000_000, 120)), next);
    }
}
