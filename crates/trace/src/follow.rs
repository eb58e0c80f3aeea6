// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process, followed from outside: which of its threads run loops, and their cycles from there on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use cause::names::Names;
use evidence::cause::Cause;
use machine::inventory::Thread;

use crate::blame::{self, Scene};
use crate::bpf::ThreadWatch;
use crate::cycle::{CycleCutter, LoopCycle};
use crate::record::{ThreadEvent, ThreadRecord};
use crate::search::{self, chosen};
use crate::{Result, process, trial};

pub use crate::search::{FollowedLoop, LoopChoice};

/// What a look brought.
#[derive(Debug, Default)]
pub struct Look {
    /// Cycles that have ended, each with the place of its loop.
    pub cycles: Vec<(usize, LoopCycle)>,
    /// Records that were lost since the look before: cycles about them are left out.
    pub lost: u64,
    /// Whether no loop is left.
    pub is_over: bool,
}

/// A process whose loops are followed.
#[derive(Debug)]
pub struct Follower {
    bpf: ThreadWatch,
    process: u32,
    loops: Vec<FollowedLoop>,
    lost: u64,
    names: Names,
    /// Its threads, by the numbers that it knows them by itself, where those are others.
    numbers: BTreeMap<u32, u32>,
    preemption: String,
    /// The real-time threads that it had when its loops were found.
    known: BTreeSet<u32>,
    /// What was read last, for what a cycle's time went to.
    recent: VecDeque<ThreadRecord>,
}

/// Records that are kept.
const RECENT: usize = 16_384;

impl Follower {
    /// Watches the process until it is known which loops its threads run. `None` where `stop` was set before.
    pub fn attach(
        process: u32,
        choice: &LoopChoice,
        preemption: &str,
        stop: &AtomicBool,
    ) -> Result<Option<Follower>> {
        process::check_numbers(process)?;
        let names = Names::read(Path::new("/"));
        let avoided: Vec<u32> = real_time(process).values().filter_map(|thread| thread.last_cpu).collect();
        let mut bpf = trial::start(&names, &avoided)?;
        let Some(loops) = search::loops(&mut bpf, process, choice, stop)? else { return Ok(None) };
        let numbers = process::inner_numbers(process);
        let lost = bpf.lost();
        let (preemption, recent) = (preemption.to_string(), VecDeque::new());
        let known = real_time(process).into_keys().collect();
        Ok(Some(Follower { bpf, process, loops, lost, names, numbers, preemption, known, recent }))
    }

    /// The loops, in the order of their threads' numbers.
    pub fn loops(&self) -> &[FollowedLoop] {
        &self.loops
    }

    /// The name of the process, where it goes on.
    pub fn goes_on_as(&self) -> Option<String> {
        let name = std::fs::read(format!("/proc/{}/comm", self.process)).ok()?;
        process::lives(self.process).then(|| String::from_utf8_lossy(&name).trim_end().to_string())
    }

    /// Real-time threads that the process has since its loops were found, each with its number.
    pub fn newcomers(&self) -> Vec<String> {
        let now = real_time(self.process).into_iter();
        let new = now.filter(|(id, _)| !self.known.contains(id));
        new.map(|(id, thread)| format!("{} (thread {id})", thread.name)).collect()
    }

    /// What this kernel does not tell, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        self.bpf.could_not_see()
    }

    /// What a cycle of the loop at `place`, which the last look brought, spent its time on beside executing:
    /// until it began, and until it ended.
    pub fn explain(&mut self, place: usize, cycle: &LoopCycle) -> (Vec<Cause>, Vec<Cause>) {
        let Some(found) = self.loops.get(place) else { return (Vec::new(), Vec::new()) };
        let scene = Scene {
            thread: found.thread.id,
            records: self.recent.make_contiguous(),
            names: &self.names,
            numbers: &self.numbers,
            preemption: &self.preemption,
        };
        let wakeup = blame::of_wakeup(cycle, &scene);
        let response = blame::of_response(cycle, &wakeup, &scene);
        (wakeup, response)
    }

    /// The cycles that have ended since this was last asked.
    pub fn look(&mut self) -> Look {
        let mut look = Look::default();
        let records = self.bpf.take();
        let lost = self.bpf.lost();
        look.lost = lost - self.lost;
        self.lost = lost;
        if look.lost > 0 {
            self.loops.iter_mut().for_each(|found| found.cycles = CycleCutter::new(found.model.clone()));
        }
        for record in records {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(record.clone());
            let Some(place) = self.loops.iter().position(|found| found.thread.id == record.thread) else {
                continue;
            };
            let found = &mut self.loops[place];
            match record.kind {
                ThreadEvent::Stay(stay) => {
                    look.cycles.extend(found.cycles.add(record.cpu, *stay).map(|cycle| (place, cycle)));
                }
                ThreadEvent::Expired { due_ns, timer } => found.cycles.expired(due_ns, timer),
                ThreadEvent::Exited => found.is_over = true,
                // All other threads have ended with it.
                ThreadEvent::Executed { .. } => self.loops.iter_mut().for_each(|found| found.is_over = true),
                _ => {}
            }
        }
        // The first thread stays as a zombie, the others vanish.
        let is_alive = process::lives(self.process);
        for found in &mut self.loops {
            let task = format!("/proc/{}/task/{}", self.process, found.thread.id);
            found.is_over |= !is_alive || !Path::new(&task).exists();
        }
        look.is_over = self.loops.iter().all(|found| found.is_over);
        look
    }
}

/// The real-time threads of a process.
fn real_time(process: u32) -> BTreeMap<u32, Thread> {
    let mut threads = chosen(process, &LoopChoice::default()).unwrap_or_default();
    threads.retain(|_, thread| thread.is_real_time());
    threads
}
