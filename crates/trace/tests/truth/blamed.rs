// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the causes of a late cycle with the event that the program provoked there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::MutexGuard;

use cause::names::Names;
use evidence::cause::{Cause, CauseKind, RESERVATION, RT_LIMIT};
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
    /// No other program runs until these are judged: that takes the time of a CPU.
    _turn: MutexGuard<'static, ()>,
}

impl Seen {
    /// The records, in their order.
    pub fn new(
        records: Vec<ThreadRecord>,
        names: Names,
        code: ProgramCode,
        turn: MutexGuard<'static, ()>,
    ) -> Seen {
        let is_stack = |record: &ThreadRecord| matches!(record.kind, ThreadEvent::UserStack(_));
        let (stacks, records) = records.into_iter().partition(is_stack);
        Seen { records, stacks, names, code: RefCell::new(code), _turn: turn }
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
            threads: &BTreeMap::new(),
            preemption: "not used",
            code: &self.code,
            root: Path::new("/"),
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
    /// Parts that add up to the response, within a tenth, but for waits for the CPU.
    pub whole: usize,
    /// The number of these in whose causes a bystander is named.
    pub innocent: usize,
    /// The first event with a missing part.
    pub wrong: Option<String>,
}

impl Blamed {
    /// Counts one.
    pub fn add(&mut self, plant: &Plant, cycle: Option<&LoopCycle>, causes: &[Cause]) {
        self.planted += 1;
        let response_ns = cycle.map_or(0, LoopCycle::response_ns);
        let sum_ns: u64 = causes.iter().filter_map(|cause| cause.duration_ns).sum();
        let unnamed_ns = response_ns.saturating_sub(sum_ns);
        let told = causes.iter().filter_map(|cause| plant.is_told_by(cause, unnamed_ns));
        let told: Vec<[bool; 3]> = told.collect();
        let has = |part: usize| told.iter().any(|told| told[part]);
        // What it waited for its CPU has no cause where a bystander had that, and had to give way.
        let ready_ns = cycle.map_or(0, |cycle| {
            let preempted_ns: u64 = cycle.preempted.iter().map(|part| part.ns).sum();
            cycle.began_ns.saturating_sub(cycle.woken_ns) + preempted_ns
        });
        let missing_ns = unnamed_ns.saturating_sub(ready_ns);
        let too_much_ns = sum_ns.saturating_sub(response_ns);
        let is_whole = cycle.is_some() && missing_ns.max(too_much_ns) * 10 <= response_ns;
        self.cause += usize::from(has(0));
        self.owner += usize::from(has(1));
        self.function += usize::from(has(2));
        self.whole += usize::from(is_whole);
        let is_innocent = causes.iter().any(names_bystander);
        self.innocent += usize::from(is_innocent);
        let is_right = has(0) && has(1) && has(2) && is_whole && !is_innocent;
        if !is_right && self.wrong.is_none() {
            self.wrong = Some(format!("{plant:?} {cycle:#?} {causes:#?}"));
        }
    }
}

/// Whether a cause names a bystander, and no kernel function in which it kept the CPU.
fn names_bystander(cause: &Cause) -> bool {
    let is_one = |name: &str| name.starts_with("by-");
    let by = cause.owner.iter().chain(cause.chain.iter().filter_map(|link| link.owner.as_ref()));
    let detail = cause.detail.as_deref().unwrap_or_default();
    let is_told = is_one(&cause.name) || detail.contains("by by-") || by.clone().any(|by| is_one(&by.name));
    is_told && cause.function.is_none()
}

/// Whether records tell functions, locks and calls, as those of the BPF part do.
pub fn is_by_bpf() -> bool {
    std::env::var_os("SOURCE").is_none_or(|source| source == "bpf")
}

impl Plant {
    /// The same of trace events, which tell neither functions nor locks: of a wait, the thread that ended it.
    fn is_told_by_events(&self, cause: &Cause) -> Option<[bool; 3]> {
        let detail = cause.detail.as_deref().unwrap_or_default();
        let is_ended =
            detail.starts_with("ended by") && detail.ends_with(&format!("(thread {})", self.thread));
        let is_most = || cause.duration_ns.is_some_and(|ns| ns * 2 > self.ns);
        Some(match (self.kind.as_str(), cause.kind) {
            // Where a look fell into such a wait, all of them have its call.
            ("lock" | "spin", CauseKind::Lock) => {
                [is_most(), cause.owner.as_ref().is_some_and(|owner| owner.tid == self.thread), true]
            }
            ("lock" | "spin" | "pipe", CauseKind::Wait) => [is_most(), is_ended, true],
            // It waits several times.
            ("fsync", CauseKind::Wait) => [true, detail.starts_with("ended by"), true],
            ("fault", CauseKind::Fault) => [detail == format!("write at {:#x}", self.address), true, true],
            ("preempt", CauseKind::Thread) if cause.name == "preemptor" => [true, is_most(), true],
            ("stop", CauseKind::Stopped) => [is_most(), true, true],
            ("exhaust" | "rt-limit", CauseKind::Throttled) => [is_most(), true, true],
            ("signal" | "call" | "overrun", CauseKind::Execution) => [is_most(), true, true],
            _ => return None,
        })
    }

    /// Whether a cause is of the provoked kind, and names the thread and the functions; `None` for another
    /// kind. So much of the response has no name.
    fn is_told_by(&self, cause: &Cause, unnamed_ns: u64) -> Option<[bool; 3]> {
        if !is_by_bpf() {
            return self.is_told_by_events(cause);
        }
        let owner = cause.owner.as_ref();
        let is_owner = owner.is_some_and(|owner| owner.tid == self.thread);
        // A host that takes the CPU meanwhile makes the event longer than its cause.
        let is_long = cause.duration_ns > Some(100_000);
        let is_most = || cause.duration_ns.is_some_and(|ns| ns * 2 > self.ns);
        let is_in = |name: &str| cause.function.as_deref() == Some(&format!("loops-c!{name}"));
        Some(match (self.kind.as_str(), cause.kind) {
            ("lock", CauseKind::Lock) => {
                let released = owner.and_then(|owner| owner.function.as_deref());
                // The owner sleeps while it has the lock. What it waits for its CPU then may have no name.
                let its_own = cause.chain.iter().filter(|link| link.thread.tid == self.thread);
                let waited = its_own.map(|link| link.duration_ns).sum::<u64>() > 100_000;
                let is_named = cause.name.starts_with("loops-c!helper");
                [is_named && waited, is_owner, is_in("take_lock") && released == Some("loops-c!holder")]
            }
            ("spin", CauseKind::Lock) => {
                let released = owner.and_then(|owner| owner.function.as_deref());
                let both = is_in("wait_for_runner") && released == Some("loops-c!runner");
                [cause.name.starts_with("loops-c!helper") && is_long, is_owner, both]
            }
            ("fault", CauseKind::Fault) => {
                let is_here = cause.detail.as_deref() == Some(&format!("write at {:#x}", self.address));
                // The page is gone by now, and its name with it.
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
            // By the disk's interrupt, or by a thread of the kernel.
            ("fsync", CauseKind::Wait) => {
                let ended = cause.detail.as_deref().is_some_and(|detail| detail.starts_with("ended by"));
                [cause.name == "fsync", ended, is_in("sync_file")]
            }
            ("stop", CauseKind::Stopped) => [is_long, true, true],
            // Its own clock goes on while it waits for its CPU after that.
            ("exhaust" | "rt-limit", CauseKind::Throttled) => {
                let name = if self.kind == "exhaust" { RESERVATION } else { RT_LIMIT };
                let ns = self.ns.saturating_sub(unnamed_ns);
                [cause.name == name && is_long && cause.duration_ns > Some(ns / 2), true, true]
            }
            ("call", CauseKind::Syscall) => {
                [cause.name == "read" && is_most(), true, cause.function.is_some()]
            }
            ("signal", CauseKind::Execution) => {
                let handled = "handles signal 10 in loops-c!on_signal";
                [cause.detail.as_deref() == Some(handled) && is_most(), true, true]
            }
            ("overrun", CauseKind::Execution) => {
                let is_long = cause.duration_ns.is_some_and(|ns| ns * 10 > self.ns * 8);
                [is_long, true, true]
            }
            _ => return None,
        })
    }
}
