// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own loop, cycle by cycle: the loop stamps, another process reads.
//!
//! ```text
//! the loop: begin ─ mark… ─ end ──► [ring of cycles] ──► Reader: wakeup latency, execution time, jitter,
//!                                                                what was lost
//! ```
//! A cycle is a message of one cache line in a ring of [`crate::message`], whose proofs (every interleaving,
//! killed peers, an end that lies) hold here too. The loop never waits: where the reader does not keep up, is
//! gone or never came, cycles are dropped, and since each has its number, the reader says how many. Times are
//! the processor's counter, which takes no system call; the reader makes nanoseconds of CLOCK_MONOTONIC of
//! them. Where the counter is not to be trusted ([`clock::invariant`]) it is the clock itself.
//!
//! The ring lies in a memfd that `/proc/PID/fd` shows with the loop's name: so a reader finds it, and nothing
//! is left behind.
//!
//! Limits: [`MARKS`] marks a cycle. A reader that is away for longer than [`ROOM`], or 65,536 cycles, loses
//! some.

#[cfg(not(loom))]
mod find;
mod reader;

use std::time::Duration;

#[cfg(not(loom))]
pub use find::{Loop, choose, find, name_of};
pub use reader::{Cycle, Reader, Standing};

use crate::clock;
#[cfg(not(loom))]
use crate::message::Shared;
use crate::message::{Ordering, Sender, Size};
use crate::{Error, Result};

/// Marks of a cycle.
pub const MARKS: usize = 3;

/// How long a reader may be away, of a loop whose cycles in that time are no more than 65,536.
pub const ROOM: Duration = Duration::from_secs(4);

/// Periods that a loop may have.
const PERIODS_NS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;

/// Cycles that are kept for a reader who is away: at the least, and at the most, since it is locked memory (4
/// MiB).
const SLOTS: std::ops::RangeInclusive<u64> = 64..=65_536;

/// The ring's notes: what travels in it, the period, whose times they are, the thread.
const KIND: usize = 0;
const PERIOD_NS: usize = 1;
const CLOCK: usize = 2;
const THREAD: usize = 3;

/// "loop" and the version of a cycle's words.
const THIS_KIND: u64 = 0x6c6f_6f70_0000_0001;

/// Words of a cycle: its number, when it was due (CLOCK_MONOTONIC; 0: not known), began and ended, and its
/// marks (0: none).
const WORDS: usize = 4 + MARKS;
const NUMBER: usize = 0;
const DUE: usize = 1;
const BEGAN: usize = 2;
const ENDED: usize = 3;
const FIRST_MARK: usize = 4;

/// The clock of a cycle's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CycleClock {
    /// Ticks of the processor's counter.
    Counter = 1,
    /// Nanoseconds of CLOCK_MONOTONIC.
    Monotonic = 2,
}

impl CycleClock {
    fn here() -> CycleClock {
        if !cfg!(miri) && clock::invariant().is_ok() { CycleClock::Counter } else { CycleClock::Monotonic }
    }

    #[inline(always)]
    fn now(self) -> u64 {
        match self {
            CycleClock::Counter => clock::counter(),
            CycleClock::Monotonic => clock::monotonic_ns(),
        }
    }
}

/// The end in the loop. One thread at a time.
///
/// ```
/// use std::time::Duration;
///
/// use rt::clock::monotonic_ns;
/// use rt::monitor::Monitor;
///
/// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
/// for _ in 0..3 {
///     monitor.begin(monotonic_ns());
///     // Inputs are read here.
///     monitor.mark();
///     monitor.end();
/// }
/// let mut cycles = Vec::new();
/// reader.poll(|cycle| cycles.push(*cycle))?;
/// assert_eq!(cycles.len(), 3);
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct Monitor {
    sender: Sender,
    clock: CycleClock,
    /// The cycle under way.
    cycle: [u64; WORDS],
    /// Marks that it has.
    marks: usize,
    #[cfg(not(loom))]
    shared: Option<Shared>,
}

impl Monitor {
    /// A monitor of a loop that comes every `period`, called `name`: 1 to 32 letters, digits, `-`, `_` and
    /// `.`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::{Monitor, find};
    ///
    /// let _monitor = Monitor::create("example", Duration::from_millis(1))?;
    /// assert!(find(std::process::id())?.iter().any(|found| found.name == "example"));
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[cfg(not(loom))]
    pub fn create(name: &str, period: Duration) -> Result<Monitor> {
        let size = size(period)?;
        find::check(name)?;
        let shared = Shared::named(size, &format!("{}{name}", find::PREFIX))?;
        let sender = shared.sender()?;
        Ok(Monitor { shared: Some(shared), ..Monitor::on(sender, period, CycleClock::here()) })
    }

    /// A monitor whose reader is in this process.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
    /// monitor.begin(0);
    /// monitor.end();
    /// reader.poll(|cycle| assert_eq!(cycle.number, 1))?;
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn pair(period: Duration) -> Result<(Monitor, Reader)> {
        let (sender, receiver) = crate::message::pair(size(period)?)?;
        let monitor = Monitor::on(sender, period, CycleClock::here());
        Ok((monitor, Reader::on(receiver)?))
    }

    fn on(sender: Sender, period: Duration, clock: CycleClock) -> Monitor {
        sender.note(PERIOD_NS).store(period.as_nanos() as u64, Ordering::Relaxed);
        sender.note(CLOCK).store(clock as u64, Ordering::Relaxed);
        // Pairs with the acquire in `Reader::on`: the description of the loop is written before its mark.
        sender.note(KIND).store(THIS_KIND, Ordering::Release);
        Monitor {
            sender,
            clock,
            cycle: [0; WORDS],
            marks: 0,
            #[cfg(not(loom))]
            shared: None,
        }
    }

    /// A cycle begins that was due at `due_ns` of CLOCK_MONOTONIC; a loop that does not know gives 0, and the
    /// cycle counts as due one period after the one before began. No system call, but for one in the
    /// first cycle, which asks whose loop it is.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
    /// let due_ns = rt::clock::monotonic_ns();
    /// monitor.begin(due_ns);
    /// monitor.end();
    /// reader.poll(|cycle| assert_eq!(cycle.due_ns, due_ns))?;
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline]
    pub fn begin(&mut self, due_ns: u64) {
        let now = self.clock.now();
        self.begin_at(due_ns, now);
    }

    /// A point within the cycle, the next of [`MARKS`]; further ones are not recorded.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
    /// monitor.begin(0);
    /// monitor.mark();
    /// monitor.end();
    /// reader.poll(|cycle| assert!(cycle.marks_ns[0].is_some() && cycle.marks_ns[1].is_none()))?;
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline]
    pub fn mark(&mut self) {
        let now = self.clock.now();
        self.mark_at(now);
    }

    /// The cycle's work is done: hands it to the reader. A cycle that never ends counts as lost, an end
    /// without a begin not at all.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// let (mut monitor, mut reader) = Monitor::pair(Duration::from_millis(1))?;
    /// monitor.begin(0);
    /// monitor.end();
    /// reader.poll(|cycle| assert!(cycle.ended_ns >= cycle.began_ns))?;
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[inline]
    pub fn end(&mut self) {
        let now = self.clock.now();
        self.end_at(now);
    }

    #[inline(always)]
    fn begin_at(&mut self, due_ns: u64, now: u64) {
        if self.cycle[NUMBER] == 0 {
            self.first();
        }
        self.cycle[NUMBER] += 1;
        (self.cycle[DUE], self.cycle[BEGAN]) = (due_ns, now);
        self.cycle[FIRST_MARK..].fill(0);
        self.marks = 0;
    }

    #[inline(always)]
    fn mark_at(&mut self, now: u64) {
        if self.marks < MARKS {
            self.cycle[FIRST_MARK + self.marks] = now;
            self.marks += 1;
        }
    }

    #[inline(always)]
    fn end_at(&mut self, now: u64) {
        if self.cycle[BEGAN] == 0 {
            return;
        }
        self.cycle[ENDED] = now;
        let mut message = [0; 8 * WORDS];
        for (bytes, word) in message.chunks_exact_mut(8).zip(self.cycle) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        // Full, closed or broken: the next cycle that gets through tells by its number that this one is lost.
        let _ = self.sender.post(&message);
        self.cycle[BEGAN] = 0;
    }

    #[cold]
    fn first(&self) {
        #[cfg(not(any(loom, miri)))]
        if self.sender.is_home() {
            self.sender.note(THREAD).store(crate::thread::id().into(), Ordering::Relaxed);
        }
    }

    /// The memory, to be passed to a reader of another user; of a monitor made by [`Monitor::pair`] there is
    /// none.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rt::monitor::Monitor;
    ///
    /// assert!(Monitor::create("example", Duration::from_millis(1))?.shared().is_some());
    /// assert!(Monitor::pair(Duration::from_millis(1))?.0.shared().is_none());
    /// # Ok::<(), rt::Error>(())
    /// ```
    #[cfg(not(loom))]
    pub fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }
}

/// The ring of a loop that comes every `period`.
fn size(period: Duration) -> Result<Size> {
    let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    if !PERIODS_NS.contains(&period_ns) {
        let what = format!("monitor a loop that comes every {period_ns} ns");
        return Err(Error::new(what, "no loop has such a period", "give one from 1 us to 1 h"));
    }
    let cycles = (ROOM.as_nanos() as u64 / period_ns).clamp(*SLOTS.start(), *SLOTS.end());
    Ok(Size { slots: cycles.next_power_of_two() as u32, bytes: 8 * WORDS })
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
