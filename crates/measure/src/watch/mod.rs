// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grants are checked to the end: each second while a row is measured, and once more at its end.
//!
//! A measuring thread may be moved, lose its policy or priority, or be put into another control group
//! (`seat`). Its CPU may go offline, a quota may stop its group, the kernel may change its clock
//! (`surroundings`), the machine may sleep, a time daemon may slew its clock (`clocks`). Each of these is a
//! taint. The control thread polls; the measuring loop has no part in it, since the kernel counts how often a
//! thread changed its CPU.
//!
//! Limit: a policy, priority or control group that is changed and changed back between two polls is not seen.

mod clocks;
mod seat;
mod surroundings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use evidence::manifest::RowKey;
use evidence::taint::Taint;
use machine::CpuSet;

pub use seat::Seat;
use surroundings::Surroundings;

/// How often the control thread polls.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A difference between what a row was granted and what it had: the code of its taint, what was found, what
/// to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantDifference {
    pub code: &'static str,
    pub found: String,
    pub cure: &'static str,
    /// The CPU that it concerns, where it does not concern all.
    pub cpu: Option<u32>,
}

/// The watch over a row.
#[derive(Debug)]
pub(crate) struct RowWatch {
    load: String,
    seats: Vec<Arc<Seat>>,
    surroundings: Surroundings,
    look_at: Instant,
}

impl RowWatch {
    /// Begins to watch the CPUs of a row, and the machine, under `load`.
    pub fn begin(load: &str, cpus: CpuSet) -> RowWatch {
        RowWatch {
            load: load.to_string(),
            seats: Vec::new(),
            surroundings: Surroundings::now(cpus),
            look_at: Instant::now() + LOOK_EVERY,
        }
    }

    /// Watches a thread too.
    pub fn add(&mut self, seat: Arc<Seat>) {
        self.surroundings.stops_of(seat.groups());
        self.seats.push(seat);
    }

    /// Polls, where a second has passed since the last poll.
    pub fn poll(&mut self) {
        if Instant::now() >= self.look_at {
            self.look_now();
        }
    }

    fn look_now(&mut self) {
        for seat in &self.seats {
            seat.poll();
            self.surroundings.stops_of(seat.groups());
        }
        self.surroundings.poll();
        self.look_at = Instant::now() + LOOK_EVERY;
    }

    /// Looks for the last time: the taints of the row, and its notes.
    pub fn end(mut self, row: &str) -> (Vec<Taint>, Vec<String>) {
        self.look_now();
        let of_threads = self.seats.iter().flat_map(|seat| seat.found());
        let taints = of_threads.chain(self.surroundings.found()).map(|difference| Taint {
            load: Some(self.load.clone()),
            cpu: difference.cpu,
            ..Taint::new(difference.code, difference.found, difference.cure)
        });
        let notes = self.surroundings.wall_clock().map(|words| format!("{row} under {}: {words}", self.load));
        (taints.collect(), notes.into_iter().collect())
    }
}

/// Who a thread is, for people: `the wakeup probe's thread`.
pub(crate) fn measuring(key: &RowKey) -> String {
    format!("the {} probe's thread", key.probe)
}
