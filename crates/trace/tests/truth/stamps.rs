// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the files that the programs write: see `tests/programs/stamps.h`.

use trace::cycle::{Blocked, LoopCycle};
use trace::wait::Wait;

use super::is_by_bpf;

/// The stamps of a thread.
#[derive(Debug, Default)]
pub struct Truth {
    /// The thread's number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its cycles.
    pub cycles: Vec<TrueCycle>,
    /// Events that the program made.
    pub plants: Vec<Plant>,
}

impl Truth {
    /// Whether a cycle had to be waited for, after the time `attached_ns`. One that was due before the
    /// previous one ended need not wait at all, and no record shows its begin.
    pub fn is_wait_seen(&self, n: usize, attached_ns: u64) -> bool {
        let last_end_ns = self.cycles[n - 1].end_ns;
        last_end_ns > attached_ns && self.cycles[n].due_ns.is_none_or(|due_ns| due_ns > last_end_ns)
    }

    /// The first of these cycles. One whose wait began earlier, and those that follow it without a wait, have
    /// no release that was seen.
    pub fn first_seen(&self, attached_ns: u64) -> usize {
        let mut cycles = 1..self.cycles.len();
        cycles.find(|n| self.is_wait_seen(*n, attached_ns)).unwrap_or(self.cycles.len())
    }
}

/// A cycle by the program's own clock readings.
#[derive(Debug)]
pub struct TrueCycle {
    /// Its due time, if the thread knows it; of an event-driven loop, just before it was triggered.
    pub due_ns: Option<u64>,
    /// First statement after the wait.
    pub begin_ns: u64,
    /// Last statement before the next wait.
    pub end_ns: u64,
    /// CPU time between the two.
    pub cpu_ns: u64,
}

/// An event that the program provoked.
#[derive(Debug)]
pub struct Plant {
    /// As in `tests/programs/plants.h`; of locks `lock` or `spin`.
    pub kind: String,
    /// Its cycle's index in the thread.
    pub cycle: usize,
    /// Its duration, by the program's own clock readings.
    pub ns: u64,
    /// The thread that caused it.
    pub thread: u32,
    /// For a page fault the address of the access; else 0.
    pub address: u64,
}

impl Plant {
    /// Whether the cycle has it, with the thread that caused it.
    pub fn is_in(&self, cycle: &LoopCycle) -> bool {
        let is_by =
            |thread: &Option<(u32, String)>| thread.as_ref().is_some_and(|(id, _)| *id == self.thread);
        match self.kind.as_str() {
            "lock" | "spin" if !is_by_bpf() => cycle.blocked.iter().any(|blocked| is_by(&blocked.ended_by)),
            "lock" => cycle.blocked.iter().any(|blocked| {
                matches!(blocked.on, Wait::Lock { .. })
                    && is_by(&blocked.ended_by)
                    && blocked.owner() == Some(self.thread)
            }),
            "spin" => {
                let is_it = |blocked: &Blocked| blocked.owner() == Some(self.thread);
                cycle.blocked.iter().any(is_it)
            }
            "pipe" => cycle.blocked.iter().any(|blocked| {
                matches!(blocked.on, Wait::Read(_) | Wait::Unknown) && is_by(&blocked.ended_by)
            }),
            "fault" => cycle.faults > 0,
            "preempt" => {
                cycle.preempted.iter().any(|part| part.by.id == self.thread && part.ns * 2 > self.ns)
            }
            "fsync" => {
                cycle.blocked.iter().any(|blocked| matches!(blocked.on, Wait::Other(_) | Wait::Unknown))
            }
            // After that it may wait for its CPU.
            "stop" => cycle.blocked.iter().any(|part| part.on == Wait::Stopped && part.ns > 100_000),
            "exhaust" | "rt-limit" => cycle.preempted.iter().any(|part| part.ns * 2 > self.ns),
            "call" | "signal" => cycle.execution_ns >= self.ns / 2,
            "overrun" => cycle.ended_ns - cycle.began_ns >= self.ns,
            _ => false,
        }
    }
}

/// The threads of a file.
pub fn read(text: &str) -> Vec<Truth> {
    let mut threads: Vec<Truth> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("a stamp in {line:?}"));
        match (words[0], threads.last_mut()) {
            ("thread", _) => {
                threads.push(Truth { id: number(1) as u32, name: words[2].into(), ..Truth::default() });
            }
            ("cycle", Some(thread)) => thread.cycles.push(TrueCycle {
                due_ns: Some(number(1)).filter(|ns| *ns != 0),
                begin_ns: number(2),
                end_ns: number(3),
                cpu_ns: number(4),
            }),
            ("plant", Some(thread)) => thread.plants.push(Plant {
                kind: words[1].into(),
                cycle: number(2) as usize,
                ns: number(4) - number(3),
                thread: number(5) as u32,
                address: number(6),
            }),
            _ => panic!("a line {line:?}"),
        }
    }
    threads
}
