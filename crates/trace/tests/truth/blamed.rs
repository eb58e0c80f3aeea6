// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the causes of a late cycle with the event that the program provoked there.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cause::names::Names;
use evidence::cause::{Cause, CauseKind};
use trace::blame::CycleCauses;
use trace::code::ProgramCode;
use trace::cycle::LoopCycle;
use trace::record::{ThreadEvent, ThreadRecord};
use trace::scene::Scene;

use super::Plant;

/// The kernel's records of a program.
pub struct Seen {
    records: Vec<ThreadRecord>,
    stacks: Vec<ThreadRecord>,
    names: Names,
    code: RefCell<ProgramCode>,
}

impl Seen {
    /// The records, in their order.
    pub fn new(records: Vec<ThreadRecord>, names: Names, code: ProgramCode) -> Seen {
        let is_stack = |record: &ThreadRecord| matches!(record.kind, ThreadEvent::UserStack(_));
        let (stacks, records) = records.into_iter().partition(is_stack);
        Seen { records, stacks, names, code: RefCell::new(code) }
    }

    /// All but the stacks.
    pub fn records(&self) -> &[ThreadRecord] {
        &self.records
    }

    /// The causes of a cycle of a thread.
    pub fn causes(&self, thread: u32, cycle: &LoopCycle) -> Vec<Cause> {
        // A monitor keeps only the last of them; a cycle's first one is from before its due time.
        let from = self.records.partition_point(|record| record.at_ns + 20_000_000 < cycle.due_ns);
        let to = self.records.partition_point(|record| record.at_ns < cycle.ended_ns + 20_000_000);
        let scene = Scene {
            records: &self.records[from..to.max(from)],
            stacks: &self.stacks,
            thread,
            names: &self.names,
            numbers: &BTreeMap::new(),
            preemption: "not used",
            code: &self.code,
        };
        CycleCauses::of(cycle, &scene).response
    }
}

/// Provoked events, and for how many of them each part was found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Blamed {
    /// All.
    pub planted: usize,
    /// The kind of the cause.
    pub cause: usize,
    /// The thread that caused it.
    pub owner: usize,
    /// The function of the program's wait and, for a lock, the one in which its owner released it.
    pub function: usize,
    /// Parts that add up to the response, within a tenth.
    pub whole: usize,
    /// The first event with a missing part.
    pub wrong: Option<String>,
}

impl Blamed {
    /// Counts one.
    pub fn add(&mut self, plant: &Plant, cycle: Option<&LoopCycle>, causes: &[Cause]) {
        self.planted += 1;
        let told: Vec<[bool; 3]> = causes.iter().filter_map(|cause| plant.is_told_by(cause)).collect();
        let has = |part: usize| told.iter().any(|told| told[part]);
        let response_ns = cycle.map_or(0, LoopCycle::response_ns);
        let sum_ns: u64 = causes.iter().filter_map(|cause| cause.duration_ns).sum();
        let is_whole = cycle.is_some() && sum_ns.abs_diff(response_ns) * 10 <= response_ns;
        self.cause += usize::from(has(0));
        self.owner += usize::from(has(1));
        self.function += usize::from(has(2));
        self.whole += usize::from(is_whole);
        if !(has(0) && has(1) && has(2) && is_whole) && self.wrong.is_none() {
            self.wrong = Some(format!("{plant:?} {cycle:#?} {causes:#?}"));
        }
    }
}

impl Plant {
    /// Whether a cause is of the provoked kind, and names the thread and the functions; `None` for another
    /// kind.
    fn is_told_by(&self, cause: &Cause) -> Option<[bool; 3]> {
        let owner = cause.owner.as_ref();
        let is_owner = owner.is_some_and(|owner| owner.tid == self.thread);
        let is_in = |name: &str| cause.function.as_deref() == Some(&format!("loops-c!{name}"));
        Some(match (self.kind.as_str(), cause.kind) {
            ("lock", CauseKind::Lock) => {
                let released = owner.and_then(|owner| owner.function.as_deref());
                // The owner sleeps while it has the lock; on a busy machine it then waits for its CPU.
                let its_own = cause.chain.iter().filter(|link| link.thread.tid == self.thread);
                let waited_ns: u64 = its_own.map(|link| link.duration_ns).sum();
                let waited = waited_ns * 2 > cause.duration_ns.unwrap_or(0);
                let is_named = cause.name.starts_with("loops-c!helper");
                [is_named && waited, is_owner, is_in("take_lock") && released == Some("loops-c!holder")]
            }
            ("fault", CauseKind::Fault) => {
                let is_here = cause.detail.as_deref() == Some(&format!("write at {:#x}", self.address));
                // The page is gone by now, and its name with it. The duration of the first faults is not
                // recorded.
                let is_named = ["heap", "memory"].contains(&cause.name.as_str());
                let is_long = cause.duration_ns.is_some_and(|ns| ns > 0 && ns <= self.ns);
                [is_here && is_named && is_long, true, is_in("touch_page")]
            }
            ("preempt", CauseKind::Thread) if cause.name == "preemptor" => [true, is_owner, true],
            ("pipe", CauseKind::Wait) => {
                let ended =
                    cause.detail.as_deref() == Some(&format!("ended by filler (thread {})", self.thread));
                [cause.name.starts_with("read"), ended, is_in("read_late_pipe")]
            }
            ("overrun", CauseKind::Execution) => {
                let is_long = cause.duration_ns.is_some_and(|ns| ns * 10 > self.ns * 8);
                [is_long, true, true]
            }
            _ => return None,
        })
    }
}
