// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of a running program by the kernel's trace events, in an instance of tracefs of ours: where
//! the kernel has no types for the BPF part. The events become the same records ([`crate::stays`]).
//!
//! ```text
//! instance ──► pages of each CPU ──► in the order of time ──► Stays ──► SampledCalls ──► records
//!              filtered to the threads and their CPUs                   ▲ /proc/TID/syscall
//! ```
//! Filters keep the events of others out, so that others pay as little as can be: a switch is written where a
//! watched thread comes or goes, or on a CPU to which all of them are bound. Events of system calls would
//! slow down the calls of every program, so the call in which a thread sleeps is looked up while it sleeps.

mod calls;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cause::names::Names;
use ftrace::instance::{self, Instance};
use ftrace::page::{self, PageLayout};
use ftrace::{ByteOrder, EventName, Format, TraceEvent};
use inspect::live_thread;
use machine::CpuSet;
use rt::clock::monotonic_ns;

use crate::record::{ThreadEvent, ThreadRecord};
use crate::scene::live_name;
use crate::stays::{Functions, Stays};
use crate::{Error, Result};
use calls::SampledCalls;

/// The events, with the parts of the answer that are missing without each; an empty text marks one that is
/// required, and a dash one that adds little.
const EVENTS: &[(&str, Filter, &str)] = &[
    ("sched/sched_switch", Filter::Switches, ""),
    ("sched/sched_waking", Filter::Field("pid"), ""),
    ("timer/hrtimer_start", Filter::Started, "when timers are due, so that a late timer shows nowhere"),
    ("timer/hrtimer_expire_entry", Filter::NoTick, "which wakeups come from timers"),
    ("timer/hrtimer_expire_exit", Filter::Nothing, "which wakeups come from timers"),
    ("irq/irq_handler_entry", Filter::Nothing, INTERRUPTS),
    ("irq/irq_handler_exit", Filter::Nothing, INTERRUPTS),
    ("irq/softirq_entry", Filter::Nothing, INTERRUPTS),
    ("irq/softirq_exit", Filter::Nothing, INTERRUPTS),
    ("irq/softirq_raise", Filter::Nothing, INTERRUPTS),
    ("sched/sched_migrate_task", Filter::Field("pid"), "moves of waiting threads"),
    ("sched/sched_process_exec", Filter::Field("common_pid"), "execve() of a watched process"),
    ("sched/sched_process_exit", Filter::Field("common_pid"), "the end of threads"),
    ("signal/signal_deliver", Filter::Field("common_pid"), "signals that a thread handles"),
    ("exceptions/page_fault_user", Filter::Field("common_pid"), FAULTS),
    ("exceptions/page_fault_kernel", Filter::Field("common_pid"), FAULTS),
];

const INTERRUPTS: &str = "which interrupts wake threads";
const FAULTS: &str = if cfg!(target_arch = "x86_64") { "page faults" } else { "-" };
const WAKING: &str = "sched/sched_waking";

const WHAT: &str = "watch threads by trace events";

/// No event tells these.
const NEVER: &str = "owners of locks, quotas of control groups, the hypervisor's time, the program's own functions, \
    and system calls in which a thread spends its CPU time: no trace event tells them";

/// The timer functions of the tick, by the names of several kernels.
const TICK: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// The timer function of a sleeping call.
const SLEEP: &str = "hrtimer_wakeup";

/// The most threads of a filter: the kernel takes one of a page.
const FILTERED: usize = 100;

/// The buffer of each CPU.
const BUFFER_KIB: &str = "4096";

/// The least time between two looks at the buffers.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The events of others that an event's filter keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    Nothing,
    /// Where this field is none of the threads.
    Field(&'static str),
    /// Switches between others on CPUs of others.
    Switches,
    /// Timers of the tick, and those with which others sleep.
    Started,
    /// Timers of the tick.
    NoTick,
}

/// The events of the threads of a running program.
#[derive(Debug)]
pub struct LiveTrace {
    instance: Instance,
    formats: HashMap<u16, (EventName, Format)>,
    events: Vec<LiveEvent>,
    names: Names,
    stays: Stays,
    calls: SampledCalls,
    watched: BTreeSet<u32>,
    /// Whether the filters are those of the watched threads.
    is_filtered: bool,
    /// Events that were read and are younger than some that were not.
    later: Vec<Read>,
    looked: Option<Instant>,
    could_not_see: Vec<String>,
    wakers: BTreeMap<u32, String>,
}

/// An event of this kernel.
#[derive(Debug)]
struct LiveEvent {
    path: &'static str,
    filter: Filter,
    /// The text of its filter now.
    text: String,
    is_enabled: bool,
}

/// An event that was read, or a loss.
#[derive(Debug)]
struct Read {
    ns: u64,
    cpu: u32,
    /// Its bytes; none where events were lost.
    data: Option<Vec<u8>>,
}

/// The kernel's functions, and its threads.
#[derive(Debug)]
struct OfKernel {
    names: Names,
    threads: Mutex<HashMap<u32, bool>>,
}

impl Functions for OfKernel {
    fn function(&self, address: u64) -> Option<&str> {
        self.names.function(address)
    }

    fn is_kernel(&self, thread: u32, _name: &str) -> bool {
        let Ok(mut threads) = self.threads.lock() else { return false };
        if threads.len() > KNOWN {
            threads.clear();
        }
        *threads.entry(thread).or_insert_with(|| live_thread(None, thread).is_some_and(|of| of.kernel))
    }
}

/// The most threads that are known at once.
const KNOWN: usize = 4_096;

impl LiveTrace {
    /// Makes the instance. It watches no thread yet, and records nothing.
    pub(crate) fn start(root: &Path, names: &Names) -> Result<LiveTrace> {
        let tracing = instance::folder(root)?;
        instance::remove_leftovers(&tracing);
        let instance = Instance::make(&tracing, "threads", |_| Ok(())).map_err(refused)?;
        instance.write("trace_clock", "mono").map_err(refused)?;
        instance.write("buffer_size_kb", BUFFER_KIB).map_err(refused)?;
        let mut formats = HashMap::new();
        let (mut events, mut could_not_see) = (Vec::new(), Vec::new());
        for (event, filter, without) in EVENTS {
            match instance.format(event) {
                Some(format) => {
                    let name = EventName::of(&format.name);
                    formats.extend(name.map(|name| (format.id, (name, format))));
                    let (path, filter, text) = (*event, *filter, String::new());
                    events.push(LiveEvent { path, filter, text, is_enabled: false });
                }
                None if without.is_empty() => {
                    let why = format!("this kernel has no event {event}");
                    return Err(Error::new(WHAT, why, "boot a kernel with CONFIG_FTRACE"));
                }
                None if *without == "-" || could_not_see.iter().any(|known| known == without) => {}
                None => could_not_see.push((*without).to_string()),
            }
        }
        if let Some(format) = instance::format(&tracing, "ftrace/kernel_stack") {
            formats.insert(format.id, (EventName::Stack, format));
        }
        if untrusted::text(root.join("proc/self/syscall")).is_err() {
            let why = "this kernel has no /proc/TID/syscall (CONFIG_HAVE_ARCH_TRACEHOOK)";
            could_not_see.push(format!("the system calls in which threads wait: {why}"));
        }
        could_not_see.push(NEVER.to_string());
        let functions = OfKernel { names: names.clone(), threads: Mutex::default() };
        Ok(LiveTrace {
            instance,
            formats,
            events,
            names: names.clone(),
            stays: Stays::new(Box::new(functions), true),
            calls: SampledCalls::default(),
            watched: BTreeSet::new(),
            is_filtered: true,
            later: Vec::new(),
            looked: None,
            could_not_see,
            wakers: BTreeMap::new(),
        })
    }

    /// Watches a thread, from the next look or [`LiveTrace::arm`] on.
    pub(crate) fn watch(&mut self, thread: u32) {
        if self.watched.insert(thread) {
            self.stays.watch(thread);
            self.is_filtered = false;
        }
    }

    /// The next record; `None` where there is none yet.
    pub(crate) fn take_one(&mut self) -> Option<ThreadRecord> {
        if let Some(record) = self.calls.next_record() {
            return Some(record);
        }
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return None;
        }
        self.look();
        self.looked = Some(Instant::now());
        self.calls.next_record()
    }

    /// Takes the events up to now, and holds no record back.
    pub(crate) fn look_to_the_end(&mut self) {
        self.look();
        self.calls.release(u64::MAX);
    }

    /// How often events were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.stays.lost()
    }

    /// Adds to the list of events that it could not see.
    pub(crate) fn lacks(&mut self, what: String) {
        self.could_not_see.push(what);
    }

    /// The kinds of events that it cannot see, in sentences.
    pub(crate) fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }

    /// Has the kernel write the events of the watched threads from now on. It takes some milliseconds for
    /// each event whose filter changes.
    pub(crate) fn arm(&mut self) -> Result<()> {
        // A filter of no thread would let all events through.
        if self.watched.is_empty() || std::mem::replace(&mut self.is_filtered, true) {
            return Ok(());
        }
        for place in 0..self.events.len() {
            let LiveEvent { path, filter, is_enabled, .. } = self.events[place];
            let text = self.filter(filter).filter(|text| !text.is_empty()).unwrap_or_else(|| "0".into());
            if is_enabled && text == self.events[place].text {
                continue;
            }
            let at = format!("events/{path}");
            let file = format!("{at}/filter");
            // Without its filter an event is written too often, and still right.
            if self.instance.write(&file, &text).is_err() {
                let _ = self.instance.write(&file, "0");
            }
            if !is_enabled {
                self.instance.write(&format!("{at}/enable"), "1").map_err(refused)?;
            }
            (self.events[place].text, self.events[place].is_enabled) = (text, true);
        }
        let all = self.watched.iter().copied().take(FILTERED).collect::<Vec<_>>();
        if self.instance.take_stacks_at(WAKING, "pid", &all).is_err() {
            let line = "kernel functions that delay a wakeup".to_string();
            if !self.could_not_see.contains(&line) {
                self.could_not_see.push(line);
            }
        }
        Ok(())
    }

    /// The text of a filter; `None` where all events are wanted.
    fn filter(&self, filter: Filter) -> Option<String> {
        let is_one = |field: &str| -> Option<String> {
            let each = self.watched.iter().map(|thread| format!("{field}=={thread}")).collect::<Vec<_>>();
            (each.len() <= FILTERED).then(|| each.join("||"))
        };
        let is_none = |functions: &[&str]| {
            let addresses = functions.iter().filter_map(|name| self.names.address(name));
            addresses.map(|address| format!("function!={address:#x}")).collect::<Vec<_>>().join("&&")
        };
        match filter {
            Filter::Nothing => None,
            Filter::Field(field) => is_one(field),
            Filter::Switches => {
                let cpus = self.cpus()?;
                let each = cpus.iter().map(|cpu| format!("CPU=={cpu}"));
                let threads = [is_one("prev_pid")?, is_one("next_pid")?];
                Some(threads.into_iter().chain(each).collect::<Vec<_>>().join("||"))
            }
            Filter::NoTick => Some(is_none(&TICK)),
            Filter::Started => {
                let [all, no_tick] = [is_none(&[&TICK[..], &[SLEEP]].concat()), is_none(&TICK)];
                match is_one("common_pid") {
                    Some(own) if !all.is_empty() => Some(format!("{own}||({all})")),
                    _ => Some(no_tick),
                }
            }
        }
    }

    /// The CPUs of the watched threads; `None` where they may run on more than half of all.
    fn cpus(&self) -> Option<CpuSet> {
        let all = self.instance.cpus().len();
        let mut cpus = CpuSet::default();
        for thread in self.watched.iter().filter_map(|thread| live_thread(None, *thread)) {
            cpus = cpus.iter().chain(thread.cpus.iter()).collect();
            if cpus.len() * 2 > all {
                return None;
            }
        }
        Some(cpus)
    }

    /// Takes the events up to now.
    fn look(&mut self) {
        // An event that is refused now was not refused before.
        let _ = self.arm();
        for thread in &self.watched {
            self.calls.look_at(*thread);
        }
        // What is written from now on is taken the next time: another CPU may write something older
        // meanwhile.
        let horizon_ns = monotonic_ns();
        let mut all = std::mem::take(&mut self.later);
        for cpu in self.instance.cpus() {
            match self.instance.take(cpu) {
                Ok(pages) => pages.iter().for_each(|bytes| add(bytes, cpu, &mut all)),
                Err(_) => all.push(Read { ns: horizon_ns, cpu, data: None }),
            }
        }
        all.sort_by_key(|read| read.ns);
        let first_later = all.partition_point(|read| read.ns <= horizon_ns);
        self.later = all.split_off(first_later);
        for read in &all {
            match &read.data {
                Some(data) => self.add(read, data),
                None => self.stays.lose(),
            }
        }
        while let Some(mut record) = self.stays.next_record() {
            if record.kind == ThreadEvent::Exited {
                self.is_filtered &= !self.watched.remove(&record.thread);
            }
            self.name_waker(&mut record);
            self.calls.add(record);
        }
        self.calls.release(horizon_ns);
    }

    fn add(&mut self, read: &Read, data: &[u8]) {
        let id = data.get(..2).map(|id| ByteOrder::NATIVE.number(id) as u16);
        let Some((name, format)) = id.and_then(|id| self.formats.get(&id)) else { return };
        let event = TraceEvent::raw(read.cpu, read.ns, *name, format, data);
        self.stays.add(&event);
    }

    /// A waker whose own switches are not recorded has a name all the same.
    fn name_waker(&mut self, record: &mut ThreadRecord) {
        let ThreadEvent::Stay(stay) = &mut record.kind else { return };
        let waking = &mut stay.waking;
        if waking.waker_name.is_empty() && waking.by().is_some() {
            if self.wakers.len() > KNOWN {
                self.wakers.clear();
            }
            let name = self.wakers.entry(waking.waker).or_insert_with_key(|waker| live_name(*waker));
            waking.waker_name.clone_from(name);
        }
    }
}

/// The error of an instance, of which nothing else takes the place here.
fn refused(error: Error) -> Error {
    let cure = "run as root, where tracefs is not locked down and has an instance left";
    Error { what: WHAT.into(), cure: cure.into(), ..error }
}

/// The events of a page, and the loss before them.
fn add(bytes: &[u8], cpu: u32, all: &mut Vec<Read>) {
    let page = page::read(bytes, PageLayout::NATIVE);
    all.extend(page.lost.map(|_| Read { ns: page.ns, cpu, data: None }));
    let events = page.events.into_iter();
    all.extend(events.map(|event| Read { ns: event.ns, cpu, data: Some(bytes[event.place].to_vec()) }));
}
