// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wakeup probe: sleep until an absolute time on CLOCK_MONOTONIC, see how late the thread ran.
//!
//! A cycle is *missed* when the next one was due before it could run; missed cycles are counted, and the first
//! one that is not missed runs at once, late as it is. So a stall of 40.005 ms at 1 kHz is one sample of
//! 40.005 ms, 39 missed cycles and one sample of 5 us: 40 late cycles, none skipped uncounted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rt::clock::{monotonic_ns, timespec};
use rustix::fd::OwnedFd;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::samples::{Sample, Samples};

/// How the thread sleeps.
#[derive(Debug)]
pub enum Timer {
    /// clock_nanosleep(2) with TIMER_ABSTIME.
    Nanosleep,
    /// A timerfd(2), armed anew for each cycle and read.
    Timerfd(OwnedFd),
}

/// The timers by name.
pub const TIMERS: [&str; 2] = ["nanosleep", "timerfd"];

impl Timer {
    /// The timer called `name`: one of [`TIMERS`].
    pub fn named(name: &str) -> rt::Result<Timer> {
        match name {
            "nanosleep" => Ok(Timer::Nanosleep),
            "timerfd" => timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)
                .map(Timer::Timerfd)
                .map_err(|e| rt::Error::os("make a timerfd", &e.into(), "use --timer nanosleep")),
            _ => Err(rt::Error::new(
                format!("use timer '{name}'"),
                "there is none of that name",
                format!("choose one of {}", TIMERS.join(", ")),
            )),
        }
    }

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

/// One row's cycle times.
#[derive(Debug, Clone, Copy)]
pub struct Cycles {
    /// The period.
    pub period_ns: u64,
    /// When the first recorded cycle is due; cycles before it warm up and are thrown away.
    pub start_ns: u64,
    /// No cycle is due from here on.
    pub end_ns: u64,
    /// Cycles to record at the most.
    pub loops: u64,
}

/// Runs until `cycles` are over or `stop` is set. After the warm-up it makes no system call but its sleep (and
/// the clock's, where the vDSO has none), takes no lock and allocates nothing.
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
            let missed = (woke_ns - due_ns) / period_ns;
            due_ns += missed * period_ns;
            due = timespec(due_ns);
            left = left.saturating_sub(missed);
        }
    }
    rt::scope::end();
}

/// When the cycle is due that follows one of the warm-up: missed ones are left out, or the warm-up would fall behind
/// where the period is too short for the machine, and its lag become the first latency of the row.
fn after(due_ns: u64, woke_ns: u64, period_ns: u64) -> u64 {
    due_ns + (woke_ns.saturating_sub(due_ns) / period_ns).max(1) * period_ns
}

/// Cycles that were missed by a thread that ran at `woke_ns` for one due at `due_ns`, in a row in which none is due
/// from `end_ns` on: a stall that outlasts the row misses nothing after it.
pub fn missed(due_ns: u64, woke_ns: u64, period_ns: u64, end_ns: u64) -> u64 {
    let next_ns = due_ns + period_ns;
    let gone_by = woke_ns.saturating_sub(next_ns) / period_ns;
    gone_by.min(end_ns.saturating_sub(next_ns).div_ceil(period_ns))
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

    #[test]
    fn a_stall_of_forty_periods_misses_thirty_nine_cycles_and_runs_the_fortieth_late() {
        let missed = |woke_ns| missed(0, woke_ns, 1_000_000, u64::MAX);
        assert_eq!([40_005_000, 999_999, 1_999_999, 2_000_000].map(missed), [39, 0, 0, 1]);
    }

    #[test]
    fn a_stall_that_outlasts_the_row_misses_nothing_after_it() {
        let missed = |end_ns| missed(7_000_000, 90_000_000, 1_000_000, end_ns);
        assert_eq!([8_000_000, 8_000_001, 10_000_000, 10_500_000].map(missed), [0, 1, 2, 3]);
        assert_eq!(missed(7_500_000), 0, "the row's last cycle");
    }
}
