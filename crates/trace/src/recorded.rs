// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded trace as the source of a program's threads: its events become the same records as those that
//! the BPF part writes ([`crate::stays`]).
//!
//! The kinds of events that it never holds were not recorded, and are listed for all of it. It knows
//! no processes: threads are chosen by their names and numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cause::names::Names;
use ftrace::EventName;
use ftrace::recorded::{AboutTrace, Trace, TracePart};
use machine::inventory::{Thread, ThreadPolicy};

use crate::choice::LoopChoice;
use crate::record::{Stay, ThreadRecord};
use crate::stays::{Functions, Stays};
use crate::{Error, Result};

/// The kernel's priority of ordinary threads begins here; below it are real-time threads, and DEADLINE below
/// zero.
const ORDINARY: i32 = 100;

/// The events that a trace should hold, with their systems.
pub const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_migrate_task",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "timer:hrtimer_start",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq:softirq_raise",
];

/// Those of system calls, which slow down the calls of all programs.
pub const CALLS: &[&str] = &["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

/// Events without which a part of the answer is missing.
const NEEDED: &[(EventName, &str)] = &[
    (EventName::Waking, "when threads are woken, and by which thread: sched_waking"),
    (EventName::TimerExpires, "which wakeups come from timers: hrtimer_expire_entry"),
    (EventName::TimerStart, "when timers are due, so that a late timer shows nowhere: hrtimer_start"),
    (EventName::IrqEntry, "which interrupts wake threads: irq_handler_entry"),
    (EventName::SoftirqEntry, "which softirqs wake threads: softirq_entry"),
    (EventName::CallEntry, "the system calls in which threads wait: sys_enter"),
    (EventName::Migrate, "moves of waiting threads: sched_migrate_task"),
];

/// The time of the trace whose records are in memory at once.
const AT_ONCE_NS: u64 = 500_000_000;

/// No trace holds these.
const NEVER: &str =
    "the hypervisor's time, quotas of control groups, and owners of locks: no trace event tells them";

/// Names of threads of the kernel end so, or begin so with a number behind a slash.
const KERNEL: [&str; 14] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu",
    "irq/",
    "cpuhp/",
    "idle_inject/",
    "watchdog",
    "kcompactd",
    "kswapd",
    "jbd2/",
    "ktimers/",
    "backlog_napi/",
    "napi/",
];

/// The first threads of the kernel.
const KTHREADD: u32 = 2;

/// A trace that is read.
#[derive(Debug)]
pub struct RecordedSource {
    path: PathBuf,
    trace: Trace,
    stays: Stays,
    names: Names,
    seen: BTreeSet<EventName>,
    /// The threads that it names.
    threads: BTreeMap<u32, String>,
    could_not_see: Vec<String>,
    first_ns: u64,
    last_ns: u64,
    /// When the reader is to see to what it has.
    pause_ns: u64,
    is_over: bool,
    failed: Option<Error>,
}

/// The kernel's functions, as the trace names them.
#[derive(Debug)]
struct OfTrace {
    names: Names,
    threads: Arc<BTreeMap<u32, String>>,
}

impl Functions for OfTrace {
    fn function(&self, address: u64) -> Option<&str> {
        self.names.function(address)
    }

    fn is_kernel(&self, thread: u32, name: &str) -> bool {
        let name = if name.is_empty() { self.threads.get(&thread).map_or("", String::as_str) } else { name };
        thread == KTHREADD || KERNEL.iter().any(|begin| name.starts_with(begin))
    }
}

impl RecordedSource {
    /// Opens a trace.
    pub fn open(path: &Path) -> Result<RecordedSource> {
        let trace = Trace::open(path)?;
        let names = Names::of_symbols(&trace.about.functions);
        let mut source = RecordedSource {
            path: path.to_path_buf(),
            stays: stays(&trace.about, &names),
            threads: trace.about.threads.clone(),
            trace,
            names,
            seen: BTreeSet::new(),
            could_not_see: Vec::new(),
            first_ns: 0,
            last_ns: 0,
            pause_ns: 0,
            is_over: false,
            failed: None,
        };
        source.trace.about.functions = String::new();
        Ok(source)
    }

    /// From the begin again.
    pub(crate) fn rewind(&mut self) -> Result<()> {
        self.threads.extend(self.stays.names().map(|(id, name)| (id, name.to_string())));
        self.could_not_see = self.unseen();
        self.trace = Trace::open(&self.path)?;
        self.stays = stays(&self.trace.about, &self.names);
        self.trace.about.functions = String::new();
        (self.is_over, self.last_ns, self.pause_ns) = (false, 0, 0);
        Ok(())
    }

    /// The trace's words about itself.
    pub fn about(&self) -> &AboutTrace {
        &self.trace.about
    }

    /// The kernel's functions in it.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The names of its threads.
    pub fn threads(&self) -> &BTreeMap<u32, String> {
        &self.threads
    }

    pub(crate) fn subject(&self) -> String {
        format!("the threads in {}", self.path.display())
    }

    pub(crate) fn watch(&mut self, thread: u32) {
        self.stays.watch(thread);
    }

    pub(crate) fn watch_all(&mut self) {
        self.stays.watch_all();
    }

    /// The next record; `None` after each half second of the trace, and at its end.
    pub(crate) fn take_one(&mut self) -> Option<ThreadRecord> {
        if self.last_ns >= self.pause_ns && self.pause_ns > 0 {
            self.pause_ns = 0;
            return None;
        }
        let record = self.read_one();
        if self.pause_ns == 0 {
            self.pause_ns = self.last_ns + AT_ONCE_NS;
        }
        record
    }

    /// The next record; `None` at the end of the trace.
    pub(crate) fn read_one(&mut self) -> Option<ThreadRecord> {
        loop {
            if let Some(record) = self.stays.next_record() {
                return Some(record);
            }
            match self.trace.next_part() {
                Ok(Some(TracePart::Event(event))) => {
                    self.seen.insert(event.name);
                    if self.first_ns == 0 {
                        self.first_ns = event.ns;
                    }
                    self.last_ns = self.last_ns.max(event.ns);
                    self.stays.add(&event);
                }
                Ok(Some(TracePart::Lost { .. })) => self.stays.lose(),
                Ok(None) => {
                    self.is_over = true;
                    return None;
                }
                Err(error) => {
                    (self.is_over, self.failed) = (true, Some(error));
                    return None;
                }
            }
        }
    }

    /// The time of its first event, by its clock.
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// The time of the last event that was read.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Whether all of it was read.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// How often it has lost events.
    pub fn lost(&self) -> u64 {
        self.stays.lost()
    }

    /// Why it ended early, in a sentence.
    pub fn missing(&self) -> Option<String> {
        self.failed.as_ref().map(ToString::to_string).or(self.trace.missing().map(str::to_string))
    }

    /// The kinds of events that it does not hold, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }

    fn unseen(&self) -> Vec<String> {
        let lacks = NEEDED.iter().filter(|(name, _)| !self.seen.contains(name)).map(|(_, what)| *what);
        lacks.chain([NEVER]).map(str::to_string).collect()
    }

    /// The threads of the choice, as they were last seen: without one, the real-time threads, or all.
    pub(crate) fn chosen(
        &self,
        choice: &LoopChoice,
        seen: &BTreeMap<u32, (u32, &Stay)>,
    ) -> BTreeMap<u32, Thread> {
        let names: BTreeMap<u32, &str> = self.stays.names().collect();
        let thread = |(id, (cpu, stay)): (&u32, &(u32, &Stay))| {
            let name = names.get(id).copied().unwrap_or_default().to_string();
            let policy = ThreadPolicy::of(stay.policy);
            let priority = match policy {
                ThreadPolicy::Fifo | ThreadPolicy::RoundRobin => (ORDINARY - 1 - stay.prio).max(0) as u32,
                _ => 0,
            };
            (
                *id,
                Thread {
                    id: *id,
                    process: *id,
                    name,
                    policy,
                    priority,
                    last_cpu: Some(*cpu),
                    ..Thread::default()
                },
            )
        };
        let mut threads: BTreeMap<u32, Thread> = seen.iter().map(thread).collect();
        let is_named = |thread: &Thread| {
            choice.threads.iter().any(|name| *name == thread.name || *name == thread.id.to_string())
        };
        if !choice.threads.is_empty() {
            threads.retain(|_, thread| is_named(thread));
        } else if threads.values().any(Thread::is_real_time) {
            threads.retain(|_, thread| thread.is_real_time());
        }
        threads
    }

    /// Why no thread of the choice is in it.
    pub(crate) fn no_thread(&self, choice: &LoopChoice) -> Error {
        const FEW: usize = 8;
        let mut names: Vec<&str> =
            self.stays.names().map(|(_, name)| name).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        let (what, named) = (format!("follow {}", self.subject()), choice.threads.first());
        if let Some(name) = named.filter(|name| names.contains(&name.as_str())) {
            let cure = "record all CPUs, and for longer: see isolator record";
            return Error::new(what, format!("it holds no wait of {name} from its begin to its end"), cure);
        }
        let more = names.len().saturating_sub(FEW);
        let shown = names.into_iter().take(FEW).collect::<Vec<_>>().join(", ");
        let shown = if more > 0 { format!("{shown} and {more} more") } else { shown };
        match (named, shown.is_empty()) {
            (_, true) => Error::new(what, "it has no thread of a program", "record the event sched_switch"),
            (Some(name), false) => {
                Error::new(what, format!("it has no thread {name}"), format!("choose one of {shown}"))
            }
            (None, false) => Error::new(what, "none of its threads ran", format!("name a --thread: {shown}")),
        }
    }
}

fn stays(about: &AboutTrace, names: &Names) -> Stays {
    let functions = OfTrace { names: names.clone(), threads: Arc::new(about.threads.clone()) };
    Stays::new(Box::new(functions), about.clock.as_deref() == Some("mono"))
}
