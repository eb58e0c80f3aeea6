// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of the wall clock: every CPU with a timer that follows it must look at it again (clock_was_set).

use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use crate::guest::Result;
use crate::guest::storm::{Context, Storm, StormKind};

pub const CLOCK_SETTIME: StormKind = StormKind {
    name: "clock-settime",
    about: "sets the wall clock a millisecond forward and back",
    ready: |_| Ok(Box::new(ClockSteps { largest_ns: 0 })),
    ..StormKind::USUAL
};

const STEP_NS: i64 = 1_000_000;

struct ClockSteps {
    /// The largest step that was seen in the clock itself.
    largest_ns: i64,
}

fn ns(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec as i64
}

/// How far the wall clock is from the monotonic one.
fn distance() -> i64 {
    ns(ClockId::Realtime) - ns(ClockId::Monotonic)
}

fn step(by_ns: i64) -> Result<()> {
    let to = ns(ClockId::Realtime) + by_ns;
    let time = Timespec { tv_sec: to.div_euclid(1_000_000_000), tv_nsec: to.rem_euclid(1_000_000_000) as _ };
    Ok(clock_settime(ClockId::Realtime, time).map_err(|e| format!("clock_settime: {e}"))?)
}

impl Storm for ClockSteps {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        let before = distance();
        step(STEP_NS)?;
        self.largest_ns = self.largest_ns.max(distance() - before);
        step(-STEP_NS)
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        // Time passes between reading the clock and setting it, so a step is a little smaller than asked.
        if self.largest_ns <= 0 {
            return Err(format!("the wall clock was set {} times and did not step", 2 * rounds).into());
        }
        Ok(format!("the wall clock set {} times, and seen to step", 2 * rounds))
    }
}
