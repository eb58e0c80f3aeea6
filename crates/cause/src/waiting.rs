// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the measured thread of a CPU waits for it, and what may be said to keep it.
//!
//! A thread that has to give way keeps the CPU only in the kernel. Where it was not found there, or where the
//! measured thread is ready and is passed over at a switch, the reason is another one than the thread that
//! runs.

use crate::event::{DelayedWakeup, Task};
use crate::kept::gives_way;
use crate::span::{Occupant, Span, Withheld};

/// The measured thread of a CPU while it does not have it.
#[derive(Debug, Default)]
pub struct Waiting {
    /// How it leaves the CPU with the next switch: its priority, and why it cannot have it then.
    leaves: Option<(Option<i32>, Option<Withheld>)>,
    /// Its priority, where it is known to be ready.
    ready: Option<i32>,
    /// Its priority, as its last wakeup or its last leave showed it.
    prio: Option<i32>,
    /// Why it cannot have the CPU: as an event says, or by what runs instead.
    cannot: Option<Withheld>,
    withheld: Option<Withheld>,
}

impl Waiting {
    /// Why it cannot have the CPU, whatever runs.
    pub fn withheld(&self) -> Option<Withheld> {
        self.cannot.or(self.withheld)
    }

    /// It cannot have the CPU from here on.
    pub fn cannot_run(&mut self, why: Withheld) {
        self.cannot = Some(why);
    }

    /// It leaves the CPU with the next switch, and does not sleep.
    pub fn leaves(&mut self, prio: Option<i32>, why: Option<Withheld>) {
        self.leaves = Some((prio, why));
        self.prio = prio.or(self.prio);
    }

    /// It was woken, and another thread has the CPU.
    pub fn woken(&mut self, kept: &DelayedWakeup) {
        self.ready = kept.priorities.1.or(self.ready);
        self.prio = kept.priorities.1.or(self.prio);
    }

    /// It has the CPU. What was known of it before the window says nothing of a later wakeup.
    pub fn runs(&mut self, is_before_the_window: bool) {
        (self.leaves, self.ready, self.withheld, self.cannot) = (None, None, None, None);
        if is_before_the_window {
            self.prio = None;
        }
    }

    /// Another thread gets the CPU, and it could not: it was stopped, or it is ready and `to` would have to
    /// give way to it.
    pub fn passed_over_for(&mut self, to: &Task) {
        match self.leaves.take() {
            Some((_, Some(why))) => self.cannot_run(why),
            Some((prio, None)) => self.ready = prio,
            None => {}
        }
        self.withheld = self
            .ready
            .and_then(|prio| (to.pid == 0 || yields(to, prio)).then_some(Withheld::Throttled { prio }));
    }

    /// Takes the time of threads that have to give way to it, and were not found in the kernel by its wakeup.
    pub fn acquit(&self, spans: &mut [Span]) {
        let Some(prio) = self.prio else { return };
        for span in spans.iter_mut().filter(|span| span.kept.is_none()) {
            if matches!(&span.occupant, Occupant::Thread(task) if yields(task, prio)) {
                span.occupant = Occupant::Vacant;
            }
        }
    }
}

/// Whether a thread gives way to one of this priority.
fn yields(task: &Task, prio: i32) -> bool {
    task.prio.is_some_and(|other| gives_way(other, prio))
}
