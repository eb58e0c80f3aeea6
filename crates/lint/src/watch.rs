// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches a process: finds its real-time threads and their loops, then records the events of their cycles.
//!
//! ```text
//! threads are found ─► loops are known ─► functions are probed ─► settled ─► watched ─► judged
//! ```
//! Events before a thread's loop is known belong to its set-up, and may be any. A program that executes
//! another one is judged by its own events.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cause::names::Names;
use error::{Error, Result};
use inspect::live_thread;
use machine::inventory::Thread;
use symbols::ProcessCode;
use trace::bpf::ThreadWatch;
use trace::follow::{LoopChoice, chosen};
use trace::model::{FEWEST, infer};
use trace::process::{check_numbers, lives};
use trace::record::{Stay, ThreadEvent};

use crate::bpf::EventWatch;
use crate::document::{LintDocument, LintedThread, SCHEMA_VERSION};
use crate::event::{LintEvent, LintEventKind};
use crate::functions;
use crate::judge::{Seen, WatchedThread, deepest, findings, prefer_own_timer};
use crate::memory::MappedMemory;
use crate::place::PlaceFinder;
use crate::still;

/// How long loops are searched, at least and at most, once there is a real-time thread.
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(5);

/// How long a program that was just started may take until it has a real-time thread.
const BEGINS: Duration = Duration::from_secs(10);

/// The number of releases that suffices for a loop.
const ENOUGH: usize = 32;

/// The interval at which records are taken.
const LOOK: Duration = Duration::from_millis(50);

/// How long probes settle, at least and at most: the first call of each faults.
const SETTLES: Duration = Duration::from_millis(250);
const SETTLES_AT_MOST: Duration = Duration::from_secs(2);

/// The most stays of one thread that are kept for its model.
const KEPT: usize = 1 << 14;

/// The most events that are kept, each with a copy of a stack.
const EVENTS: usize = 1 << 13;

/// The selection of a watch.
#[derive(Debug, Clone)]
pub struct LintChoice {
    /// The process.
    pub process: u32,
    /// Threads by name or number; empty: the real-time threads.
    pub threads: Vec<String>,
    /// For how long their cycles are watched.
    pub duration: Duration,
    /// Whether the program was just started, and may have no real-time thread yet.
    pub is_new: bool,
}

/// Watches and judges a process; `None` if `stop` was set before any event.
pub fn lint(choice: &LintChoice, stop: &AtomicBool) -> Result<Option<LintDocument>> {
    let process = choice.process;
    check_numbers(process)?;
    let first = image(process);
    let mut loops = ThreadWatch::load(&Names::read(Path::new("/")))?;
    let mut bpf = EventWatch::load()?;
    bpf.watch_process(process)?;
    if image(process) != first && !choice.is_new {
        return Err(executed_too_early(process));
    }
    let Some(threads) = find(choice, &mut loops, &mut bpf, stop)? else { return Ok(None) };
    drop(loops);
    let program = name(process);
    let mut places = PlaceFinder::open(process).map_err(|error| match lives(process) {
        true => error,
        false => ended(process, "the process ended before its cycles were watched"),
    })?;
    let memory = MappedMemory::read(process).as_ref().and_then(still::memory);
    let mut not_seen = probe(process, places.code(), &mut bpf)?;
    std::thread::sleep(settling(&threads));
    if executed_ns(&bpf.take()).is_some() {
        return Err(executed_too_early(process));
    }
    let mut probes = probe_memory(process);
    let began = Instant::now();
    bpf.watch(process, threads.keys().copied())?;
    let Taken { events, is_other } = take(&mut bpf, choice, stop);
    let watched = began.elapsed();
    if !is_other {
        probes.extend(probe_memory(process));
    }
    let events =
        events.into_iter().map(|event| (bpf.times(&event), event)).map(|(times, event)| (event, times));
    let mut seen = Seen {
        process,
        events: events.collect(),
        shown: memory.map(|shown| (0, shown)).into_iter().collect(),
        probes,
        threads,
    };
    prefer_own_timer(&mut seen);
    show(&mut seen, &bpf, is_other);
    let findings = findings(&seen, &mut places);
    not_seen.extend(bpf.could_not_see().iter().cloned());
    not_seen.extend(places.notes().iter().cloned());
    not_seen.extend(not_watched(&seen, &bpf));
    not_seen.extend(changed(&seen, is_other));
    Ok(Some(LintDocument {
        schema_version: SCHEMA_VERSION,
        process,
        program,
        watched_ns: u64::try_from(watched.as_nanos()).unwrap_or(u64::MAX),
        threads: seen.threads.values().map(linted).collect(),
        findings,
        not_seen,
    }))
}

fn ended(process: u32, why: &str) -> Error {
    Error::on("lint the process", process, why, "choose a program that runs for some seconds")
}

fn executed_too_early(process: u32) -> Error {
    ended(process, &format!("the process executed {} before its cycles were watched", name(process)))
}

/// Identifies the program of a process, to notice execve(): its file, and the address of its stack
/// (proc_pid_stat(5), field 28).
fn image(process: u32) -> Option<(std::path::PathBuf, Option<String>)> {
    let stat = untrusted::bytes(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The first field after the name, which may contain anything, is the third.
    let stack = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(28 - 3));
    let file = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    Some((file, stack.map(str::to_string)))
}

/// When the process executed another program, if it did.
fn executed_ns(events: &[LintEvent]) -> Option<u64> {
    events.iter().find(|event| event.kind == LintEventKind::Executed).map(|event| event.at_ns)
}

/// The name of the program that a process runs.
fn name(process: u32) -> String {
    let name = untrusted::bytes(format!("/proc/{process}/comm")).unwrap_or_default();
    match String::from_utf8_lossy(&name).trim_end() {
        "" => "another program".to_string(),
        name => name.to_string(),
    }
}

/// The selected threads and their loops. A program that was just started may execute another one, which is
/// then the selected one; `events` reports that.
fn find(
    choice: &LintChoice,
    bpf: &mut ThreadWatch,
    events: &mut EventWatch,
    stop: &AtomicBool,
) -> Result<Option<BTreeMap<u32, WatchedThread>>> {
    let process = choice.process;
    let meant = LoopChoice { threads: choice.threads.clone(), ..LoopChoice::default() };
    let mut pasts: BTreeMap<u32, Vec<Stay>> = BTreeMap::new();
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    let began = Instant::now();
    let mut found_at: Option<Instant> = None;
    loop {
        match of_choice(process, &meant) {
            Ok(now) => {
                for thread in now.values() {
                    bpf.watch(thread.id)?;
                }
                threads = now;
                found_at = found_at.or(Some(Instant::now()));
            }
            Err(error) if found_at.is_none() && !(choice.is_new && began.elapsed() < BEGINS) => {
                return Err(error);
            }
            Err(_) if !lives(process) => {
                return Err(ended(process, "the process ended before its loop was known"));
            }
            Err(_) => {}
        }
        if stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
        let is_other = executed_ns(&events.take()).is_some();
        if is_other && !choice.is_new {
            return Err(executed_too_early(process));
        }
        for record in bpf.take() {
            if let ThreadEvent::Stay(stay) = record.kind {
                let past = pasts.entry(record.thread).or_default();
                if past.len() < KEPT {
                    past.push(*stay);
                }
            }
        }
        if is_other {
            pasts.clear();
            found_at = None;
        }
        let Some(found_at) = found_at else { continue };
        let is_known = |thread: &u32| {
            let model = pasts.get(thread).and_then(|past| infer(past, FEWEST, None));
            model.is_some_and(|model| model.releases >= ENOUGH)
        };
        let elapsed = found_at.elapsed();
        if elapsed >= MOST || (elapsed >= LEAST && threads.keys().all(is_known)) {
            break;
        }
    }
    let watched = |(id, thread): (u32, Thread)| {
        let model = pasts.get(&id).and_then(|past| infer(past, FEWEST, None));
        (id, WatchedThread { thread, model })
    };
    Ok(Some(threads.into_iter().map(watched).collect()))
}

/// The selected threads; an error if none is a real-time thread and none is named.
fn of_choice(process: u32, meant: &LoopChoice) -> Result<BTreeMap<u32, Thread>> {
    let threads = chosen(process, meant)?;
    if meant.threads.is_empty() && !threads.values().any(Thread::is_real_time) {
        let why = match threads.len() {
            1 => "its only thread has no real-time policy".to_string(),
            count => format!("none of its {count} threads has a real-time policy"),
        };
        let cure = "start it with isolator run --priority 80, or name a --thread";
        return Err(Error::on("lint the process", process, why, cure));
    }
    Ok(threads)
}

/// Probes functions; returns the kinds of calls that are not seen.
fn probe(process: u32, code: &mut ProcessCode, bpf: &mut EventWatch) -> Result<Vec<String>> {
    let (found, mut not_seen) = functions::of_process(code);
    let mut refused = None;
    for function in &found {
        if let Err(error) = bpf.probe(process, &function.binary.path(), function.offset, function.number) {
            refused = Some(error);
        }
    }
    if !lives(process) {
        return Err(ended(process, "the process ended before its cycles were watched"));
    }
    not_seen.extend(refused.map(|error| format!("calls of some functions: {}", error.why)));
    if found.is_empty() {
        not_seen
            .push("calls of malloc(), printf() and similar functions: no binary has a symbol of them".into());
    }
    Ok(not_seen)
}

fn settling(threads: &BTreeMap<u32, WatchedThread>) -> Duration {
    let periods = threads.values().filter_map(|watched| watched.model.as_ref()?.period_ns);
    let longest = Duration::from_nanos(periods.max().unwrap_or(0));
    (4 * longest).clamp(SETTLES, SETTLES_AT_MOST)
}

/// The events, and whether the process runs another program since.
struct Taken {
    events: Vec<LintEvent>,
    is_other: bool,
}

/// The events until the time is over, the process ends or executes another program, or `stop` is set.
fn take(bpf: &mut EventWatch, choice: &LintChoice, stop: &AtomicBool) -> Taken {
    let began = Instant::now();
    let mut events = Vec::new();
    loop {
        // Before the last look, so that this covers all events until then.
        let is_over = began.elapsed() >= choice.duration || stop.load(Ordering::SeqCst);
        let is_over = is_over || !lives(choice.process);
        let new = bpf.take();
        let executed_ns = executed_ns(&new);
        events.extend(new.into_iter().filter(|event| executed_ns.is_none_or(|ns| event.at_ns < ns)));
        events.truncate(EVENTS);
        if is_over || executed_ns.is_some() {
            return Taken { events, is_other: executed_ns.is_some() };
        }
        std::thread::sleep(LOOK.min(choice.duration.saturating_sub(began.elapsed())));
    }
}

/// Adds the findings about set-ups, unless another program was executed meanwhile.
fn show(seen: &mut Seen, bpf: &EventWatch, is_other: bool) {
    let irqs = still::irq_threads();
    let mapped = if is_other { None } else { MappedMemory::read(seen.process) };
    let mut shown = Vec::new();
    for (id, watched) in &seen.threads {
        let thread = &watched.thread;
        if thread.is_real_time() {
            shown.extend(still::of_thread(thread, &irqs));
        }
        shown.extend(mapped.as_ref().and_then(|mapped| still::stack(mapped, deepest(seen, *id)?)));
        let float_state = bpf.float_state(*id).filter(|_| !is_other);
        shown.extend(float_state.and_then(still::denormals));
        shown.extend(still::frequency(Path::new("/"), &thread.cpus));
        seen.shown.extend(shown.drain(..).map(|shown| (*id, shown)));
    }
}

/// The kernel's mapping for the instructions that probes replace: a thread's first access there faults.
fn probe_memory(process: u32) -> Vec<Range<u64>> {
    let maps = untrusted::text(format!("/proc/{process}/maps")).unwrap_or_default();
    let range = |line: &str| {
        let (begin, end) = line.split(' ').next()?.split_once('-')?;
        Some(u64::from_str_radix(begin, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    maps.lines().filter(|line| line.ends_with("[uprobes]")).filter_map(range).collect()
}

/// The parts of the request that were not watched, in sentences.
fn not_watched(seen: &Seen, bpf: &EventWatch) -> Vec<String> {
    let mut sentences = Vec::new();
    for watched in seen.threads.values().filter(|watched| watched.model.is_none()) {
        let (name, id) = (&watched.thread.name, watched.thread.id);
        sentences.push(format!(
            "sleeps within cycles of {name} (thread {id}): the thread has no loop, or waited too few times"
        ));
    }
    match bpf.lost() {
        0 => {}
        lost => sentences.push(format!("{lost} events, for which there was no room")),
    }
    sentences
}

/// Changes of the program during the watch, in sentences.
fn changed(seen: &Seen, is_other: bool) -> Vec<String> {
    let process = seen.process;
    if is_other {
        let name = name(process);
        return vec![format!(
            "events after execve() of {name}: it is another program; only events before it count"
        )];
    }
    if !lives(process) {
        return vec!["later events of the program: it ended during the watch".into()];
    }
    let of_thread = |watched: &WatchedThread| {
        let then = &watched.thread;
        let Some(now) = live_thread(Some(process), then.id) else {
            return Some(format!(
                "later events of {} (thread {}): it ended during the watch",
                then.name, then.id
            ));
        };
        let (then_has, now_has) = (scheduled(then), scheduled(&now));
        (then_has != now_has).then(|| {
            format!(
                "when {} (thread {}) changed from {then_has} to {now_has}: all its events count",
                then.name, then.id
            )
        })
    };
    seen.threads.values().filter_map(of_thread).collect()
}

/// The policy of a thread, and its priority if it has one.
fn scheduled(thread: &Thread) -> String {
    let policy = format!("SCHED_{}", thread.policy.name().to_uppercase());
    if thread.priority == 0 { policy } else { format!("{policy} {}", thread.priority) }
}

fn linted(watched: &WatchedThread) -> LintedThread {
    let WatchedThread { thread, model } = watched;
    LintedThread {
        tid: thread.id,
        name: thread.name.clone(),
        policy: thread.policy.name().to_string(),
        priority: thread.priority,
        waits_with: model.as_ref().map(|model| model.wait.to_string()),
        period_ns: model.as_ref().and_then(|model| model.period_ns),
    }
}
