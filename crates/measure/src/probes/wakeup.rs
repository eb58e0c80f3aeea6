// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wakeup probe: sleep until an absolute time on CLOCK_MONOTONIC, see how late the thread ran.
//!
//! A cycle is *missed* when the next one was due before it could run; missed cycles are counted, and the
//! first one that is not missed runs at once, late as it is. So a stall of 40.005 ms at 1 kHz is one sample
//! of 40.005 ms, 39 missed cycles and one sample of 5 us: 40 late cycles, none skipped uncounted.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rt::clock::{monotonic_ns, timespec};
use rustix::fd::OwnedFd;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::error::Result;
use crate::probe::{HotLoop, Opened, Opening, Probe};
use crate::samples::{Sample, Samples};
use crate::schedule::{Cycles, Schedule, Window, gone_by};

/// The probe on one CPU.
#[derive(Debug, Clone, Copy)]
pub struct WakeupProbe {
    /// The timer that it sleeps with.
    pub timer: TimerKind,
    /// Its period, in nanoseconds.
    pub period: NonZeroU64,
}

impl Probe for WakeupProbe {
    fn schedule(&self) -> Schedule {
        Schedule::Periodic(self.period)
    }

    fn open(self: Box<Self>, opening: &Opening<'_>) -> Result<Opened> {
        let WakeupProbe { timer, period } = *self;
        opening.of_cycles(period, move |samples| Ok(Sleeper { timer: timer.open()?, period, samples }))
    }
}

/// The armed probe.
struct Sleeper {
    timer: Timer,
    period: NonZeroU64,
    samples: Samples,
}

impl HotLoop for Sleeper {
    fn run(&mut self, window: &Window, stop: &AtomicBool) {
        run(&window.cycles(self.period), &self.timer, &mut self.samples, stop);
    }
}

/// A kind of timer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimerKind {
    /// clock_nanosleep(2) with TIMER_ABSTIME.
    #[default]
    Nanosleep,
    /// A timerfd(2), armed anew for each cycle and read.
    Timerfd,
}

impl TimerKind {
    /// All of them, by name.
    pub const NAMES: [(&str, TimerKind); 2] =
        [("nanosleep", TimerKind::Nanosleep), ("timerfd", TimerKind::Timerfd)];

    /// The one of that name.
    pub fn named(name: &str) -> Option<TimerKind> {
        TimerKind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, timer)| *timer)
    }

    /// A timer of this kind.
    pub fn open(self) -> rt::Result<Timer> {
        match self {
            TimerKind::Nanosleep => Ok(Timer::Nanosleep),
            TimerKind::Timerfd => timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)
                .map(Timer::Timerfd)
                .map_err(|e| rt::Error::os("make a timerfd", &e.into(), "use --timer nanosleep")),
        }
    }
}

/// An open timer.
#[derive(Debug)]
pub enum Timer {
    /// See [`TimerKind::Nanosleep`].
    Nanosleep,
    /// See [`TimerKind::Timerfd`].
    Timerfd(OwnedFd),
}

impl Timer {
    #[inline(always)]
    fn sleep_until(&self, due: &Timespec) {
        match self {
            // A signal may wake it early; the caller looks at the clock and sleeps again.
            Timer::Nanosleep => {
                let _ = clock_nanosleep_absolute(ClockId::Monotonic, due);
            }
            Timer::Timerfd(timer) => {
                let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: *due };
                let _ = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once);
                let _ = rustix::io::read(timer, &mut [0u8; 8]);
            }
        }
    }
}

/// Runs until `cycles` are over or `stop` is set. After the warm-up it makes no system call but its sleep
/// (and the clock's, where the vDSO has none), takes no lock and allocates nothing.
pub fn run(cycles: &Cycles, timer: &Timer, samples: &mut Samples, stop: &AtomicBool) {
    let period_ns = cycles.period_ns;
    let ahead = cycles.start_ns.saturating_sub(monotonic_ns()) / period_ns;
    let mut due_ns = cycles.start_ns - ahead * period_ns;
    while due_ns < cycles.start_ns && !stop.load(Relaxed) {
        let woke_ns = wait_until(timer, due_ns, &timespec(due_ns));
        due_ns = after(due_ns, woke_ns, period_ns).min(cycles.start_ns);
    }
    // Counted on beside due_ns: a division in every cycle would be the loop's dearest part.
    let (mut due, step) = (timespec(due_ns), timespec(period_ns));
    let mut left = cycles.loops;
    rt::scope::begin();
    while due_ns < cycles.end_ns && left > 0 && !stop.load(Relaxed) {
        let woke_ns = wait_until(timer, due_ns, &due);
        samples.send(Sample { due_ns, woke_ns });
        due_ns += period_ns;
        left -= 1;
        (due.tv_sec, due.tv_nsec) = (due.tv_sec + step.tv_sec, due.tv_nsec + step.tv_nsec);
        if due.tv_nsec >= 1_000_000_000 {
            (due.tv_sec, due.tv_nsec) = (due.tv_sec + 1, due.tv_nsec - 1_000_000_000);
        }
        if woke_ns >= due_ns + period_ns {
            let missed = gone_by(due_ns - period_ns, woke_ns, period_ns);
            due_ns += missed * period_ns;
            due = timespec(due_ns);
            left = left.saturating_sub(missed);
        }
    }
    rt::scope::end();
}

/// When the cycle is due that follows one of the warm-up: missed ones are left out, or the warm-up would fall
/// behind where the period is too short for the machine, and its lag become the first latency of the row.
fn after(due_ns: u64, woke_ns: u64, period_ns: u64) -> u64 {
    due_ns + (1 + gone_by(due_ns, woke_ns, period_ns)) * period_ns
}

/// Sleeps until `due_ns`, which `due` says too; returns when the thread ran.
#[inline(always)]
pub(crate) fn wait_until(timer: &Timer, due_ns: u64, due: &Timespec) -> u64 {
    loop {
        timer.sleep_until(due);
        let now_ns = monotonic_ns();
        if now_ns >= due_ns {
            return now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_does_not_fall_behind() {
        assert_eq!(after(0, 5_000, 1_000_000), 1_000_000);
        assert_eq!(after(0, 1_999_999, 1_000_000), 1_000_000);
        assert_eq!(after(0, 40_005_000, 1_000_000), 40_000_000);
    }
}
