// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles between two places of the program that the user named.
//!
//! ```text
//! due ─► woken ─► has a CPU ─► comes to BEGIN ───────────► comes to END
//! └ wakeup latency ┘ the program  └ execution, preempted, blocked ┘
//! └──────────────────────── response ─────────────────────────────┘
//! ```
//! The thread's last wait before BEGIN releases the cycle, by its timer or its waker. A cycle without such a
//! wait is due when it begins. If cycles have a grid, or the user gives a period, it is due a period after
//! the previous one, if that is earlier. If waits release cycles, those before the first such wait are left
//! out: their due times are unknown.
//!
//! A BEGIN within a cycle belongs to it if it is deeper in the stack: the function calls itself. Otherwise
//! the previous cycle did not reach its END, and is left out.

use super::{CycleBegin, CycleCutter, LoopCycle, PARTS};

#[cfg(test)]
mod tests;

/// Boundaries that gave no cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BoundCounts {
    /// Cycles that did not end before the next one began.
    pub unended: u64,
    /// The number of times that BEGIN was reached again within a cycle.
    pub nested: u64,
}

/// A thread's position between the boundaries.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// The time between two cycles, if the user gives it and it decides the due time.
    period_ns: Option<u64>,
    /// The current cycle: its stack pointer at BEGIN, and how often BEGIN was reached since.
    within: Option<(u64, u32)>,
    /// Whether the open parts are those after a cycle, and not of one.
    is_resting: bool,
    /// Whether a wait has released a cycle yet.
    has_release: bool,
    /// The previous cycle's due time, and when it reached BEGIN.
    last: Option<(u64, u64)>,
    /// When the last one reached END.
    ended_ns: Option<u64>,
    counts: BoundCounts,
}

impl Bounds {
    pub(super) fn new(period_ns: Option<u64>) -> Bounds {
        Bounds { period_ns, ..Bounds::default() }
    }

    pub(super) fn restarted(self) -> Bounds {
        Bounds { counts: self.counts, ..Bounds::new(self.period_ns) }
    }

    pub(super) fn counts(&self) -> BoundCounts {
        self.counts
    }

    pub(super) fn is_within(&self) -> bool {
        self.within.is_some()
    }

    pub(super) fn released(&mut self) {
        (self.is_resting, self.has_release) = (false, true);
    }
}

impl CycleCutter {
    pub(super) fn on_begin(&mut self, cpu: u32, at_ns: u64, sp: u64) {
        let grid_ns = self.grid_ns();
        let Some(bounds) = &mut self.bounds else { return };
        // It was released before anything was known of its thread: when, nothing tells.
        if self.model.is_some() && !bounds.has_release {
            return;
        }
        match &mut bounds.within {
            Some((first_sp, depth)) if sp < *first_sp => {
                *depth += 1;
                bounds.counts.nested += 1;
                return;
            }
            Some(_) => {
                bounds.counts.unended += 1;
                self.open = None;
            }
            None => {}
        }
        bounds.within = Some((sp, 0));
        let released = self.open.take_if(|_| !bounds.is_resting);
        let cycle = released.map(|cycle| came_from_release(cycle, at_ns)).unwrap_or_else(|| {
            let by_grid = grid_ns.zip(bounds.last).map(|(ns, (due_ns, _))| due_ns + ns);
            let by_period = bounds.period_ns.zip(bounds.last).map(|(ns, (_, began_ns))| began_ns + ns);
            let due_ns = by_grid.or(by_period).unwrap_or(at_ns).min(at_ns);
            let slept_ns = bounds.ended_ns.unwrap_or(at_ns);
            let rest = self.open.take().unwrap_or_else(|| LoopCycle::at(cpu, at_ns));
            came_by_itself(rest, cpu, (due_ns, at_ns), slept_ns)
        });
        bounds.is_resting = false;
        bounds.last = Some((cycle.due_ns, at_ns));
        self.open = Some(cycle);
    }

    /// Whether a cycle is over.
    pub(super) fn on_end(&mut self) -> bool {
        let Some(Bounds { within, .. }) = &mut self.bounds else { return false };
        match within {
            Some((_, depth @ 1..)) => *depth -= 1,
            Some(_) => {
                *within = None;
                return true;
            }
            // It had begun when the thread was first watched.
            None => {}
        }
        false
    }

    /// Parts after a cycle may belong to the next one.
    pub(super) fn begin_rest(&mut self, cpu: u32, at_ns: u64) {
        let grid_ns = self.grid_ns();
        let Some(bounds) = &mut self.bounds else { return };
        bounds.is_resting = true;
        bounds.ended_ns = Some(at_ns);
        let may_be_due = grid_ns.or(bounds.period_ns).is_some();
        self.open = may_be_due.then(|| LoopCycle::at(cpu, at_ns));
    }

    /// A thread may reach BEGIN once an hour, or never reach END.
    pub(super) fn forget_old_parts(&mut self) {
        let (Some(bounds), Some(cycle)) = (&mut self.bounds, &mut self.open) else { return };
        if cycle.preempted.len().max(cycle.blocked.len()) <= PARTS {
            return;
        }
        if bounds.within.take().is_some() {
            bounds.counts.unended += 1;
            self.open = None;
            return;
        }
        cycle.preempted.drain(..cycle.preempted.len() / 2);
        cycle.blocked.drain(..cycle.blocked.len() / 2);
    }
}

/// The cycle that a wait released reaches BEGIN.
fn came_from_release(mut cycle: LoopCycle, at_ns: u64) -> LoopCycle {
    let before_ns = std::mem::take(&mut cycle.execution_ns);
    cycle.begin = Some(CycleBegin { at_ns, before_ns, is_release: false });
    cycle
}

/// A cycle that reaches BEGIN, due then or before; `rest` are the parts after the previous one.
fn came_by_itself(rest: LoopCycle, cpu: u32, (due_ns, at_ns): (u64, u64), slept_ns: u64) -> LoopCycle {
    let LoopCycle { preempted, blocked, .. } = rest.since(due_ns);
    LoopCycle {
        due_ns,
        slept_ns,
        preempted,
        blocked,
        begin: Some(CycleBegin { at_ns, before_ns: 0, is_release: true }),
        ..LoopCycle::at(cpu, at_ns)
    }
}
