// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a process from outside: finds the threads that run loops, and their cycles.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use cause::names::Names;
use evidence::cause::Collector;
use machine::inventory::Thread;

use crate::blame::CycleCauses;
use crate::code::ProgramCode;
use crate::cycle::{BoundCounts, LoopCycle, lock_owner};
use crate::record::{Boundary, ThreadEvent, ThreadRecord};
use crate::recorded::RecordedSource;
use crate::scene::{Scene, live_name};
use crate::search::{self, FoundLoops, numbered};
use crate::source::RecordSource;
use crate::{Result, own, process, trial};

pub use crate::choice::LoopChoice;
pub use crate::search::{FollowedLoop, chosen};

/// The result of a poll.
#[derive(Debug, Default)]
pub struct Poll {
    /// Cycles that have ended, each with the index of its loop.
    pub cycles: Vec<(usize, LoopCycle)>,
    /// Records that were lost since the previous poll; no cycle is made of the hole.
    pub lost: u64,
    /// Whether no loop is left.
    pub is_over: bool,
    /// Whether more records are waiting: the next poll should come at once.
    pub is_more: bool,
}

/// A process whose loops are followed.
#[derive(Debug)]
pub struct Follower {
    source: RecordSource,
    /// The process; 0 of a trace, which names none.
    process: u32,
    loops: Vec<FollowedLoop>,
    left_out: Option<String>,
    lost: u64,
    names: Names,
    /// Its threads, by the numbers in its own PID namespace, if that is another one.
    numbers: BTreeMap<u32, u32>,
    /// The names of threads that a trace tells.
    threads: BTreeMap<u32, String>,
    preemption: String,
    /// The real-time threads that it had when its loops were found.
    known: BTreeSet<u32>,
    /// The latest records, to explain a cycle's time.
    recent: VecDeque<ThreadRecord>,
    /// The latest copied stacks.
    stacks: VecDeque<ThreadRecord>,
    code: RefCell<ProgramCode>,
    /// Threads that reached BEGIN since the loops were found, if the user named one.
    latecomers: BTreeSet<u32>,
    has_bounds: bool,
    /// Threads that are watched since they held a lock that a loop waited for, or ended a wait.
    owners: BTreeSet<u32>,
}

/// The records that are kept of each loop, and of all: they reach back to the begin of a late cycle.
const RECENT_OF_ONE: usize = 1_024;
const RECENT: std::ops::RangeInclusive<usize> = 4_096..=16_384;

/// The most records of one poll: their cycles are in memory at once. A third of a second of eight loops of
/// 1 kHz fits.
const AT_ONCE: usize = 8_192;

/// Stacks that are kept, of 4 KiB each.
const STACKS: usize = 512;

/// The most threads named that reached BEGIN after the loops were found.
const LATECOMERS: usize = 8;

/// Such a wait is worth to watch the thread that ends it.
const LONG_WAIT_NS: u64 = 50_000;

/// A folder that does not exist.
const NOWHERE: &str = "/nonexistent";

/// The most owners of locks, and threads that end waits, that are watched.
const OWNERS: usize = 32;

impl Follower {
    /// Watches the process until the loops of its threads are known. `None` if `stop` was set before.
    pub fn attach(
        process: u32,
        choice: &LoopChoice,
        preemption: &str,
        stop: &AtomicBool,
    ) -> Result<Option<Follower>> {
        process::check_numbers(process)?;
        let names = Names::read(Path::new("/"));
        let avoided: Vec<u32> = real_time(process).values().filter_map(|thread| thread.last_cpu).collect();
        let mut source = trial::start(choice.source, &names, &avoided)?;
        let Some(found) = search::loops(&mut source, process, choice, stop)? else { return Ok(None) };
        Ok(Some(Follower {
            process,
            names,
            numbers: process::inner_numbers(process),
            known: real_time(process).into_keys().collect(),
            code: RefCell::new(ProgramCode::of(process)),
            has_bounds: choice.bounds.is_some() && choice.threads.is_empty(),
            ..Follower::of(source, found, preemption)
        }))
    }

    /// Follows the threads of a recorded trace, from its begin on.
    pub fn in_trace(mut trace: RecordedSource, choice: &LoopChoice) -> Result<Follower> {
        let found = search::in_trace(&mut trace, choice)?;
        trace.rewind()?;
        found.loops.iter().for_each(|found| trace.watch(found.thread.id));
        let (names, threads) = (trace.names().clone(), trace.threads().clone());
        let source = RecordSource::Recorded(Box::new(trace));
        Ok(Follower { names, threads, ..Follower::of(source, found, "") })
    }

    fn of(source: RecordSource, found: FoundLoops, preemption: &str) -> Follower {
        Follower {
            lost: source.lost(),
            source,
            process: 0,
            loops: found.loops,
            left_out: found.left_out,
            names: Names::default(),
            numbers: BTreeMap::new(),
            threads: BTreeMap::new(),
            preemption: preemption.to_string(),
            known: BTreeSet::new(),
            recent: VecDeque::new(),
            stacks: VecDeque::new(),
            code: RefCell::default(),
            latecomers: BTreeSet::new(),
            has_bounds: false,
            owners: BTreeSet::new(),
        }
    }

    /// The trace that is followed, where it is one.
    pub fn recorded(&self) -> Option<&RecordedSource> {
        self.source.recorded()
    }

    /// The loops, in the order of their threads' numbers.
    pub fn loops(&self) -> &[FollowedLoop] {
        &self.loops
    }

    /// The name of the process, if it goes on.
    pub fn goes_on_as(&self) -> Option<String> {
        let name = untrusted::bytes(format!("/proc/{}/comm", self.process)).ok()?;
        process::lives(self.process).then(|| String::from_utf8_lossy(&name).trim_end().to_string())
    }

    /// A sentence with the threads that are not measured since they came later: real-time threads, or those
    /// that reached BEGIN.
    pub fn newcomers(&self) -> Option<String> {
        let (what, new): (_, Vec<String>) = if self.has_bounds {
            let named = self.latecomers.iter().map(|id| (live_name(*id), *id));
            ("threads that reached the begin of a cycle later", named.map(numbered).collect())
        } else {
            let new = real_time(self.process).into_iter().filter(|(id, _)| !self.known.contains(id));
            (
                "real-time threads that came later",
                new.map(|(id, thread)| numbered((thread.name, id))).collect(),
            )
        };
        (!new.is_empty()).then(|| format!("{what} are not measured: {}", new.join(", ")))
    }

    /// The selected threads that run no loop, in a sentence.
    pub fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// The source of its events, by its name in evidence.
    pub fn collector(&self) -> Collector {
        self.source.collector()
    }

    /// The kinds of events that this kernel does not report, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        self.source.could_not_see()
    }

    /// The causes of a cycle of the loop at `place`. The last poll must have returned the cycle.
    pub fn explain(&mut self, place: usize, cycle: &LoopCycle) -> CycleCauses {
        let Some(found) = self.loops.get(place) else { return CycleCauses::default() };
        let scene = Scene {
            thread: found.thread.id,
            records: self.recent.make_contiguous(),
            stacks: self.stacks.make_contiguous(),
            names: &self.names,
            numbers: &self.numbers,
            threads: &self.threads,
            preemption: &self.preemption,
            code: &self.code,
            // Nothing of this machine is known of a trace.
            root: Path::new(if self.source.recorded().is_some() { NOWHERE } else { "/" }),
        };
        let causes = CycleCauses::of(cycle, &scene);
        if own::is_most(&causes.response) {
            self.source.sample(found.thread.id);
        }
        causes
    }

    /// The parts of the program that could not be named so far, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.code.borrow().notes().to_vec();
        for found in &self.loops {
            let BoundCounts { unended, nested } = found.cycles.bound_counts();
            let name = &found.thread.name;
            notes.extend(found.due.as_ref().map(|due| format!("cycles of {name} are due {due}")));
            notes.extend((unended > 0).then(|| {
                format!("{unended} cycles of {name} did not end before the next one began, and are left out")
            }));
            notes.extend((nested > 0).then(|| {
                format!(
                    "{name} reached the begin of a cycle within a cycle {nested} times: the outermost counts"
                )
            }));
        }
        let withheld = self.source.withheld();
        if withheld > 0 {
            notes.push(format!("{withheld} call stacks were left out: too many waits at once"));
        }
        notes
    }

    /// Watches a thread that held a lock for which a loop waited: its activity while it holds one is a part
    /// of the loop's time. It goes by the number in the lock.
    fn watch_owner(&mut self, inner: u32) {
        let numbers = &self.numbers;
        let thread = if numbers.is_empty() { Some(inner) } else { numbers.get(&inner).copied() };
        // The number is from the program's memory.
        let is_of_process = |thread| untrusted::is_there(format!("/proc/{}/task/{thread}", self.process));
        if let Some(thread) = thread.filter(|thread| is_of_process(*thread)) {
            self.watch_other(thread);
        }
    }

    /// Watches a thread for which a loop waited.
    fn watch_other(&mut self, thread: u32) {
        let is_known =
            self.owners.contains(&thread) || self.loops.iter().any(|found| found.thread.id == thread);
        if !is_known && self.owners.len() < OWNERS && self.source.watch(thread).is_ok() {
            self.owners.insert(thread);
        }
    }

    /// The records that were lost since the last call.
    fn newly_lost(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.lost, self.source.lost());
        self.lost - before
    }

    /// Takes the cycles that have ended since the last call, or the first of many.
    pub fn poll(&mut self) -> Poll {
        let mut poll = Poll::default();
        let (mut owner, mut waker) = (None, None);
        let recent = (RECENT_OF_ONE * self.loops.len()).clamp(*RECENT.start(), *RECENT.end());
        let mut taken = 0;
        while taken < AT_ONCE
            && let Some(record) = self.source.take_one()
        {
            taken += 1;
            if matches!(record.kind, ThreadEvent::UserStack(_)) {
                keep(&mut self.stacks, record, STACKS);
                continue;
            }
            keep(&mut self.recent, record.clone(), recent);
            let Some(place) = self.loops.iter().position(|found| found.thread.id == record.thread) else {
                if is_begin(&record) && self.latecomers.len() < LATECOMERS {
                    self.latecomers.insert(record.thread);
                }
                continue;
            };
            let found = &mut self.loops[place];
            match record.kind {
                ThreadEvent::Stay(stay) => {
                    owner = owner.or(lock_owner(&stay));
                    let cycle = found.cycles.add(record.cpu, *stay);
                    waker = waker.or(cycle.as_ref().and_then(ended_a_wait));
                    poll.cycles.extend(cycle.map(|cycle| (place, cycle)));
                }
                ThreadEvent::Spun(part) => {
                    owner = owner.or(lock_owner(&part));
                    found.cycles.spins(*part);
                }
                // The first fault is not timed, so that a loop without faults is not slowed down.
                ThreadEvent::Fault { .. } => self.source.time_faults_of(record.thread),
                ThreadEvent::Exited => found.is_over = true,
                // All other threads have ended with it.
                ThreadEvent::Executed { .. } => self.loops.iter_mut().for_each(|found| found.is_over = true),
                _ => {}
            }
        }
        poll.is_more = taken == AT_ONCE || self.source.is_more();
        poll.lost = self.newly_lost();
        if let Some(owner) = owner {
            self.watch_owner(owner);
        }
        if let Some(waker) = waker {
            self.watch_other(waker);
        }
        if poll.is_more {
            return poll;
        }
        let is_over = self.source.is_over(self.process);
        for found in &mut self.loops {
            // The first thread stays as a zombie, the others vanish.
            let task = format!("/proc/{}/task/{}", self.process, found.thread.id);
            found.is_over |= is_over || (self.process != 0 && !untrusted::is_there(&task));
        }
        poll.is_over = self.loops.iter().all(|found| found.is_over);
        poll
    }
}

/// The thread that ended a long wait within a cycle: its activity meanwhile is a part of the cycle's time.
fn ended_a_wait(cycle: &LoopCycle) -> Option<u32> {
    let long = cycle.blocked.iter().filter(|part| part.ns >= LONG_WAIT_NS);
    long.filter_map(|part| part.ended_by.as_ref()).map(|(id, _)| *id).next()
}

fn is_begin(record: &ThreadRecord) -> bool {
    let ThreadEvent::Stay(stay) = &record.kind else { return false };
    matches!(stay.leaving.boundary, Some(Boundary::Begin { .. }))
}

/// Keeps a record, and at most so many of all.
fn keep(records: &mut VecDeque<ThreadRecord>, record: ThreadRecord, most: usize) {
    if records.len() == most {
        records.pop_front();
    }
    records.push_back(record);
}

/// The real-time threads of a process.
fn real_time(process: u32) -> BTreeMap<u32, Thread> {
    let mut threads = chosen(process, &LoopChoice::default()).unwrap_or_default();
    threads.retain(|_, thread| thread.is_real_time());
    threads
}
