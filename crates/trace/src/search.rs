// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loops of a process: its threads are watched until it is known what each waits for.
//!
//! A process may change meanwhile. Threads that it makes are watched too, its real-time threads are asked for
//! again and again, and with another program (execve(2)) the search begins anew.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::inventory::{Thread, live_thread};

use crate::bpf::ThreadWatch;
use crate::cycle::CycleCutter;
use crate::model::{FEWEST, Model, infer};
use crate::process;
use crate::record::{Stay, ThreadEvent};
use crate::{Error, Result};

/// How long threads are watched before their loops are told, and how often which threads are meant is asked
/// again; and the longest time for threads that stay the same, and for a process that changes.
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(5);
const CHANGES: Duration = Duration::from_secs(10);

/// Releases after which a loop is known well.
const ENOUGH: usize = 64;

/// How often records are taken meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Stays of one thread that are kept for its model.
const KEPT: usize = 1 << 16;

/// Threads of one process that are watched.
const THREADS: usize = 4_096;

/// Loops of one process that are measured: each has three rows, of about a megabyte each.
const LOOPS: usize = 64;

/// Which loops of a process are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopChoice {
    /// Threads by name or number; empty: the real-time threads, or all where there is none.
    pub threads: Vec<String>,
    /// The period, where the user knows it.
    pub period: Option<NonZeroU64>,
    /// Whether the program was just started, and may not have made its threads yet.
    pub is_starting: bool,
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
    pub(crate) cycles: CycleCutter,
    /// Whether it has ended: its thread has, or runs another program.
    pub is_over: bool,
}

/// What a thread did while its loop was looked for.
#[derive(Debug, Default)]
struct Past {
    stays: Vec<Stay>,
    last_cpu: Option<u32>,
}

/// A search under way.
struct Search<'a> {
    process: u32,
    choice: &'a LoopChoice,
    /// The threads that are meant, by number.
    threads: BTreeMap<u32, Thread>,
    pasts: BTreeMap<u32, Past>,
    /// Since when these are the threads.
    since: Instant,
    asked: Instant,
}

/// Watches the process until its loops are known. `None` where `stop` was set before.
pub(crate) fn loops(
    bpf: &mut ThreadWatch,
    process: u32,
    choice: &LoopChoice,
    stop: &AtomicBool,
) -> Result<Option<Vec<FollowedLoop>>> {
    let began = Instant::now();
    let threads = BTreeMap::new();
    let mut search = Search { process, choice, threads, pasts: BTreeMap::new(), since: began, asked: began };
    search.ask(bpf, began)?;
    loop {
        if stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
        search.take(bpf);
        if !process::lives(process) {
            let why =
                format!("it ended after {:.1} s, before its loops were known", began.elapsed().as_secs_f64());
            return Err(cannot(process, why, "start it so that it runs for longer"));
        }
        if search.asked.elapsed() >= LEAST {
            search.ask(bpf, began)?;
        }
        let watched_for = search.since.elapsed();
        let is_known =
            !search.threads.is_empty() && search.threads.keys().all(|thread| search.knows(*thread));
        if watched_for >= LEAST && (is_known || watched_for >= MOST || began.elapsed() >= CHANGES) {
            break;
        }
    }
    let found = search.found();
    match found.len() {
        0 => Err(search.none()),
        count if count > LOOPS => {
            let why = format!("{count} of its threads run loops, and {LOOPS} can be measured at a time");
            Err(cannot(process, why, "name some with --thread"))
        }
        _ => Ok(Some(found)),
    }
}

impl Search<'_> {
    /// Which threads are meant now.
    fn ask(&mut self, bpf: &mut ThreadWatch, began: Instant) -> Result<()> {
        let threads = match chosen(self.process, self.choice) {
            // It may not have made them yet.
            Err(_) if self.choice.is_starting && began.elapsed() < MOST => BTreeMap::new(),
            threads => threads?,
        };
        for thread in threads.keys().filter(|thread| !self.threads.contains_key(thread)) {
            bpf.watch(self.process, *thread)?;
        }
        if !threads.keys().eq(self.threads.keys()) {
            self.since = Instant::now();
        }
        (self.threads, self.asked) = (threads, Instant::now());
        Ok(())
    }

    fn take(&mut self, bpf: &mut ThreadWatch) {
        for record in bpf.take() {
            match record.kind {
                ThreadEvent::Stay(stay) => {
                    let past = self.pasts.entry(record.thread).or_default();
                    if past.stays.len() < KEPT {
                        past.stays.push(*stay);
                        past.last_cpu = Some(record.cpu);
                    }
                }
                ThreadEvent::Executed { .. } => {
                    self.pasts.clear();
                    self.since = Instant::now();
                }
                _ => {}
            }
        }
    }

    fn model(&self, thread: u32) -> Option<Model> {
        infer(&self.pasts.get(&thread)?.stays)
    }

    fn knows(&self, thread: u32) -> bool {
        self.model(thread).is_some_and(|model| model.releases >= ENOUGH)
    }

    fn found(&self) -> Vec<FollowedLoop> {
        let of_thread = |thread: &Thread| {
            let model = self.model(thread.id)?;
            let period = self.choice.period.or(model.period_ns.and_then(NonZeroU64::new))?;
            // As it is now: a program may set its threads up while it is watched.
            let thread = live_thread(Some(thread.process), thread.id)?;
            let last_cpu = self.pasts.get(&thread.id).and_then(|past| past.last_cpu);
            let thread = Thread { last_cpu: last_cpu.or(thread.last_cpu), ..thread };
            let cycles = CycleCutter::new(model.clone());
            let is_given = self.choice.period.is_some();
            Some(FollowedLoop { thread, model, period, is_given, cycles, is_over: false })
        };
        self.threads.values().filter_map(of_thread).collect()
    }

    /// Why no loop was found.
    fn none(&self) -> Error {
        let irregular = self.threads.values().find_map(|thread| {
            let model = self.model(thread.id)?;
            Some(format!("{} waits with {} at no regular time", thread.name, model.wait))
        });
        let why = irregular.unwrap_or_else(|| {
            let count = self.threads.len();
            format!("none of its {count} threads waited for anything {FEWEST} times")
        });
        cannot(self.process, why, "give its --period, or name a --thread")
    }
}

fn cannot(process: u32, why: String, cure: &str) -> Error {
    Error::on("follow the process", process, why, cure)
}

/// The threads of `process` that are meant, by number.
pub fn chosen(process: u32, choice: &LoopChoice) -> Result<BTreeMap<u32, Thread>> {
    let folder = format!("/proc/{process}/task");
    let entries = std::fs::read_dir(&folder).map_err(|_| {
        cannot(process, "there is no such process".into(), "give the number of one that runs")
    })?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut threads: BTreeMap<u32, Thread> =
        numbers.filter_map(|id| live_thread(Some(process), id)).map(|thread| (thread.id, thread)).collect();
    if !choice.threads.is_empty() {
        let is = |name: &String, thread: &Thread| *name == thread.name || *name == thread.id.to_string();
        let unknown = choice.threads.iter().find(|name| !threads.values().any(|thread| is(name, thread)));
        if let Some(unknown) = unknown {
            let names = list(threads.values().map(|thread| thread.name.clone()));
            return Err(cannot(
                process,
                format!("it has no thread {unknown}"),
                &format!("choose one of {names}"),
            ));
        }
        threads.retain(|_, thread| choice.threads.iter().any(|name| is(name, thread)));
    } else if threads.values().any(Thread::is_real_time) {
        threads.retain(|_, thread| thread.is_real_time());
    }
    if threads.len() > THREADS {
        let why = format!("it has {} threads, and {THREADS} can be watched", threads.len());
        return Err(cannot(process, why, "name some with --thread"));
    }
    Ok(threads)
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
