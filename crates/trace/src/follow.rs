// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process, followed from outside: which of its threads run loops, and their cycles from there on.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cause::names::Names;
use evidence::cause::Cause;
use machine::inventory::{Thread, live_thread};

use crate::blame::{self, Scene};
use crate::bpf::ThreadWatch;
use crate::cycle::{CycleCutter, LoopCycle};
use crate::model::{Model, infer};
use crate::record::{Stay, ThreadEvent, ThreadRecord};
use crate::{Error, Result};

/// How long threads are watched before their loops are told, at least and at most.
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(5);

/// Releases after which a loop is known well.
const ENOUGH: usize = 64;

/// How often records are taken meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Stays of one thread that are kept for its model.
const KEPT: usize = 1 << 16;

/// Threads of one process that are watched.
const THREADS: usize = 4_096;

/// Which loops of a process are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopChoice {
    /// Threads by name or number; empty: the real-time threads, or all where there is none.
    pub threads: Vec<String>,
    /// The period, where the user knows it.
    pub period: Option<NonZeroU64>,
}

/// A loop that is followed.
#[derive(Debug)]
pub struct FollowedLoop {
    /// Its thread, as it was when the loop was found.
    pub thread: Thread,
    /// What the loop is like.
    pub model: Model,
    /// The time between two cycles, given or inferred.
    pub period: NonZeroU64,
    /// Whether the user gave it.
    pub is_given: bool,
    cycles: CycleCutter,
    is_over: bool,
}

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
    preemption: String,
    /// What was read last, for what a cycle's time went to.
    recent: VecDeque<ThreadRecord>,
}

/// What a thread did while its loop was looked for.
#[derive(Debug, Default)]
struct Past {
    stays: Vec<Stay>,
    last_cpu: Option<u32>,
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
        let threads = chosen(process, choice)?;
        let names = Names::read(Path::new("/"));
        let mut bpf = ThreadWatch::load(&names)?;
        for thread in threads.values() {
            bpf.watch(process, thread.id)?;
        }
        let began = Instant::now();
        let mut pasts: BTreeMap<u32, Past> = BTreeMap::new();
        loop {
            if stop.load(Ordering::SeqCst) {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
            for record in bpf.take() {
                if let ThreadEvent::Stay(stay) = record.kind {
                    let past = pasts.entry(record.thread).or_default();
                    if past.stays.len() < KEPT {
                        past.stays.push(*stay);
                        past.last_cpu = Some(record.cpu);
                    }
                }
            }
            let elapsed = began.elapsed();
            let is_gone = !Path::new("/proc").join(process.to_string()).exists();
            if elapsed < LEAST && !is_gone {
                continue;
            }
            let is_known = |thread: &u32| {
                let model = pasts.get(thread).and_then(|past| infer(&past.stays));
                model.is_some_and(|model| model.releases >= ENOUGH)
            };
            if elapsed >= MOST || is_gone || threads.keys().all(is_known) {
                break;
            }
        }
        let loops = found(&threads, &pasts, choice);
        if loops.is_empty() {
            return Err(none(process, &threads, &pasts));
        }
        let lost = bpf.lost();
        let (preemption, recent) = (preemption.to_string(), VecDeque::new());
        Ok(Some(Follower { bpf, process, loops, lost, names, preemption, recent }))
    }

    /// The loops, in the order of their threads' numbers.
    pub fn loops(&self) -> &[FollowedLoop] {
        &self.loops
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
                _ => {}
            }
        }
        let is_there = |found: &FollowedLoop| {
            Path::new(&format!("/proc/{}/task/{}", self.process, found.thread.id)).exists()
        };
        look.is_over = self.loops.iter().all(|found| found.is_over || !is_there(found));
        look
    }
}

/// The threads of `process` that are meant, by number.
fn chosen(process: u32, choice: &LoopChoice) -> Result<BTreeMap<u32, Thread>> {
    let cannot = |why: String, cure: &str| Error::on("follow the process", process, why, cure);
    let folder = format!("/proc/{process}/task");
    let entries = std::fs::read_dir(&folder)
        .map_err(|_| cannot("there is no such process".into(), "give the number of one that runs"))?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let threads: BTreeMap<u32, Thread> =
        numbers.filter_map(|id| live_thread(Some(process), id)).map(|thread| (thread.id, thread)).collect();
    if threads.len() > THREADS && choice.threads.is_empty() {
        let why = format!("it has {} threads, and {THREADS} can be watched", threads.len());
        return Err(cannot(why, "name some with --thread"));
    }
    let is_named = |thread: &Thread| {
        choice.threads.iter().any(|name| *name == thread.name || *name == thread.id.to_string())
    };
    if !choice.threads.is_empty() {
        let named: BTreeMap<u32, Thread> = threads
            .iter()
            .filter(|(_, thread)| is_named(thread))
            .map(|(id, thread)| (*id, thread.clone()))
            .collect();
        let unknown = choice.threads.iter().find(|name| {
            named.values().all(|thread| **name != thread.name && **name != thread.id.to_string())
        });
        if let Some(unknown) = unknown {
            let names = list(threads.values().map(|thread| thread.name.clone()));
            return Err(cannot(format!("it has no thread {unknown}"), &format!("choose one of {names}")));
        }
        return Ok(named);
    }
    let real_time: BTreeMap<u32, Thread> = threads
        .iter()
        .filter(|(_, thread)| thread.is_real_time())
        .map(|(id, thread)| (*id, thread.clone()))
        .collect();
    Ok(if real_time.is_empty() { threads } else { real_time })
}

/// Names without repetition, the first few.
fn list(names: impl Iterator<Item = String>) -> String {
    const FEW: usize = 8;
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(FEW);
    names.truncate(FEW);
    let text = names.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

fn found(
    threads: &BTreeMap<u32, Thread>,
    pasts: &BTreeMap<u32, Past>,
    choice: &LoopChoice,
) -> Vec<FollowedLoop> {
    let of_thread = |thread: &Thread| {
        let past = pasts.get(&thread.id)?;
        let model = infer(&past.stays)?;
        let period = choice.period.or(model.period_ns.and_then(NonZeroU64::new))?;
        // As it is now: a program may set its threads up while it is watched.
        let thread = live_thread(Some(thread.process), thread.id).unwrap_or_else(|| thread.clone());
        let thread = Thread { last_cpu: past.last_cpu.or(thread.last_cpu), ..thread };
        let cycles = CycleCutter::new(model.clone());
        let is_given = choice.period.is_some();
        Some(FollowedLoop { thread, model, period, is_given, cycles, is_over: false })
    };
    threads.values().filter_map(of_thread).collect()
}

/// Why no loop was found.
fn none(process: u32, threads: &BTreeMap<u32, Thread>, pasts: &BTreeMap<u32, Past>) -> Error {
    let irregular = threads.values().find_map(|thread| {
        let model = infer(&pasts.get(&thread.id)?.stays)?;
        Some(format!("{} waits with {} at no regular time", thread.name, model.wait))
    });
    let why = irregular.unwrap_or_else(|| {
        let count = threads.len();
        format!("none of its {count} threads waited for anything {} times", crate::model::FEWEST)
    });
    Error::on("follow the process", process, why, "give its --period, or name a --thread")
}
