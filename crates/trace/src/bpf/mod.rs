// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF part: `bpf/threads.bpf.c`, in the kernel while this value lives.
//!
//! Kernel memory: a ring of 4 MiB, 8 MiB to find threads in, 3 MiB for those that are watched; nothing grows.
//! The programs are unloaded when their file descriptors are closed, however this process ends.

mod record;

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use aya::maps::{Array, HashMap, MapData, RingBuf, Stack};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{PerfEvent, ProgramError, RawTracePoint, RawTracePointRunOptions, TestRun, UProbe};
use cause::bpf::{KernelPart, LoadedPart, whole};
use cause::names::Names;
use cause::policy::{BPF_RIGHTS, WITH_BTF};
use evidence::cause::Collector;
use rt::uprobe::{Uprobe, UprobePlace};
use syscalls::Sysno;

use crate::boundary::FoundPlaces;
use crate::record::{SAMPLED_NS, ThreadRecord};
use crate::{Error, Result};

static THREADS: KernelPart = KernelPart {
    what: "watch a program's threads",
    object: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/threads.o")),
    plain: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/threads-plain.o")),
    cures: ["install clang and build again", WITH_BTF, BPF_RIGHTS],
};

/// The answer of the program `watch_thread` without a free slot.
const NO_ROOM: u32 = 0;

/// The most records that are taken at once: about as many as the ring holds. Where others keep this process
/// from its CPU, records may come as fast as it takes them.
const AT_ONCE: usize = 1 << 16;

/// The most threads whose page faults are timed, or that are sampled.
const TIMED: usize = 256;

/// The tracepoints and functions, and the events that are not seen without each. An empty text marks one that
/// is required.
const TAPS: &[(&str, &str)] = &[
    ("sched_switch", ""),
    ("sched_waking", ""),
    ("hrtimer_expire_entry", "due times of timers"),
    ("hrtimer_expire_exit", "which wakeups come from timers"),
    ("irq_handler_entry", INTERRUPTS),
    ("irq_handler_exit", INTERRUPTS),
    ("softirq_entry", INTERRUPTS),
    ("softirq_exit", INTERRUPTS),
    ("softirq_raise", INTERRUPTS),
    #[cfg(target_arch = "x86_64")]
    ("reschedule_entry", KEPT),
    #[cfg(target_arch = "x86_64")]
    ("call_function_single_entry", KEPT),
    ("sched_migrate_task", "moves of waiting threads"),
    ("page_fault_user", "page faults"),
    ("page_fault_kernel", "page faults in the kernel"),
    ("sched_process_fork", "new threads"),
    ("sched_process_exec", "execve() of a watched process"),
    ("sched_process_exit", "the end of threads"),
    ("signal_deliver", "signals that a thread handles"),
    ("sched_pi_setprio", "waits for a lock with priority inheritance whose owner runs"),
    ("rt_mutex_wait_proxy_lock", SPINNING),
    ("rt_mutex_wait_proxy_lock_exit", SPINNING),
    ("__rt_mutex_futex_unlock_exit", SPINNING),
];

const INTERRUPTS: &str = "which interrupts wake threads";

#[cfg(target_arch = "x86_64")]
const KEPT: &str = "kernel functions that keep a CPU from a thread that another CPU wakes";

const SPINNING: &str =
    "waits for a lock with priority inheritance whose owner runs, if the owner's own priority is no lower";

/// The running BPF part.
pub struct ThreadWatch {
    /// Its programs, unloaded when this is dropped.
    part: LoadedPart,
    records: RingBuf<MapData>,
    reader: record::RecordReader,
    processes: HashMap<MapData, u32, u32>,
    /// Kept for programs that are loaded later.
    _free_slots: Stack<MapData, u32>,
    lost: Array<MapData, u64>,
    withheld: Array<MapData, u64>,
    could_not_see: Vec<String>,
    has_timed_faults: BTreeSet<u32>,
    is_sampled: BTreeSet<u32>,
    /// Begin and end of cycles, as the user named them.
    boundaries: Vec<Uprobe>,
}

impl std::fmt::Debug for ThreadWatch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ThreadWatch").finish_non_exhaustive()
    }
}

impl ThreadWatch {
    /// Loads the BPF part, before its trial. It watches no thread yet.
    pub fn load(names: &Names) -> Result<ThreadWatch> {
        let word = |number: u32| number.to_ne_bytes();
        let hrtimer_wakeup = names.address("hrtimer_wakeup").unwrap_or(0);
        let hrtimer_wakeup = hrtimer_wakeup.to_ne_bytes();
        let calls = [Sysno::futex, Sysno::sched_yield, Sysno::restart_syscall];
        let [futex, yields, restart] = calls.map(|call| word(call as u32));
        let globals: [(&str, &[u8]); 4] = [
            ("hrtimer_wakeup", &hrtimer_wakeup),
            ("futex_call", &futex),
            ("yield_call", &yields),
            ("restart_call", &restart),
        ];
        let mut part = THREADS.load(&globals, &[])?;
        let refused = |error: &dyn std::error::Error| THREADS.refused(whole(error));
        part.program::<RawTracePoint>("watch_thread")?.load().map_err(|error| refused(&error))?;
        let mut free_slots: Stack<MapData, u32> = part.map("free_slots")?;
        for slot in 1..=free_slots.capacity() {
            free_slots.push(slot, 0).map_err(|error| refused(&error))?;
        }
        Ok(ThreadWatch {
            records: part.map("records")?,
            reader: record::RecordReader::default(),
            processes: part.map("processes")?,
            _free_slots: free_slots,
            lost: part.map("lost")?,
            withheld: part.map("withheld")?,
            could_not_see: part.attach(TAPS)?,
            part,
            has_timed_faults: BTreeSet::new(),
            is_sampled: BTreeSet::new(),
            boundaries: Vec::new(),
        })
    }

    /// Watches a thread from now on.
    pub fn watch(&mut self, thread: u32) -> Result<()> {
        self.watch_with(thread, 0, 0)
    }

    /// The same, and copies the stacks of its next waits, so many, wherever they are.
    pub(crate) fn watch_waits_of(&mut self, thread: u32, stacks: u64) -> Result<()> {
        self.watch_with(thread, 0, stacks)
    }

    /// From now on a caller of the thread's waits is a part of their place: the one whose address is so many
    /// bytes above the stack pointer.
    pub(crate) fn tell_callers_apart(&mut self, thread: u32, offset: u64) -> Result<()> {
        self.watch_with(thread, offset + 8, 0)
    }

    fn watch_with(&mut self, thread: u32, caller_at: u64, first_stacks: u64) -> Result<()> {
        let program: &RawTracePoint = self.part.program("watch_thread")?;
        let mut options = RawTracePointRunOptions::default();
        let [first, second, third, ..] = &mut options.args;
        (*first, *second, *third) = (u64::from(thread), caller_at, first_stacks);
        let answer = program.test_run(options).map_err(|error| THREADS.refused(whole(&error)))?;
        match answer.return_value {
            NO_ROOM => Err(THREADS
                .cannot(format!("there is no room for thread {thread}"), "name fewer threads by --thread")),
            _ => Ok(()),
        }
    }

    /// From now on records the durations of a thread's page faults. Its context switches then take a little
    /// longer, so this is only for threads that take faults.
    pub fn time_faults_of(&mut self, thread: u32) {
        if self.has_timed_faults.len() >= TIMED || !self.has_timed_faults.insert(thread) {
            return;
        }
        // A thread that has ended takes no further fault.
        let has_ended = || !untrusted::is_there(format!("/proc/{thread}"));
        if let Err(error) = self.attach_fault_over(thread)
            && !has_ended()
        {
            let what =
                format!("durations of page faults: this kernel refused the program ({})", whole(&error));
            if !self.could_not_see.contains(&what) {
                self.could_not_see.push(what);
            }
        }
    }

    /// From now on samples what a thread does with its CPU time.
    pub fn sample(&mut self, thread: u32) {
        if self.is_sampled.len() >= TIMED || !self.is_sampled.insert(thread) {
            return;
        }
        let attached = self.part.program::<PerfEvent>("own_time").map(|program| {
            match program.load() {
                Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
                Err(error) => return Err(error),
            }
            let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
            let scope = PerfEventScope::OneProcess { pid: thread, cpu: None };
            program.attach(clock, scope, SamplePolicy::Period(SAMPLED_NS), false).map(drop)
        });
        if let Ok(Err(error)) = attached {
            let what = "system calls in which a thread spends its CPU time";
            self.could_not_see.push(format!("{what}: this kernel refused the program ({})", whole(&error)));
        }
    }

    fn attach_fault_over(&mut self, thread: u32) -> std::result::Result<(), ProgramError> {
        let Ok(program) = self.part.program::<PerfEvent>("fault_over") else { return Ok(()) };
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
            Err(error) => return Err(error),
        }
        for event in [SoftwareEvent::PageFaultsMin, SoftwareEvent::PageFaultsMaj] {
            let scope = PerfEventScope::OneProcess { pid: thread, cpu: None };
            program.attach(PerfEventConfig::Software(event), scope, SamplePolicy::Period(1), false)?;
        }
        Ok(())
    }

    /// From now on threads of the process of `thread` report when they reach these places, begins or else
    /// ends of cycles. A thread that reaches a begin is watched from then on.
    pub(crate) fn bound(&mut self, thread: u32, is_begin: bool, found: &FoundPlaces) -> Result<()> {
        let name = match (is_begin, found.is_return) {
            (true, false) => "cycle_begin",
            (true, true) => "cycle_begin_at_return",
            (false, false) => "cycle_end",
            (false, true) => "cycle_end_at_return",
        };
        let program: &mut UProbe = self.part.program(name)?;
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
            Err(error) => {
                return Err(THREADS.refused(format!("the kernel refused {name}: {}", whole(&error))));
            }
        }
        let program = program.fd().map_err(|error| THREADS.cannot(whole(&error), REPORT))?;
        for place in &found.places {
            let counter = place.semaphore.map(u32::try_from).transpose();
            let place = UprobePlace {
                file: &place.file.path(),
                offset: place.offset,
                counter: counter
                    .map_err(|_| THREADS.cannot("a semaphore is beyond 4 GiB", "name a function"))?,
                is_return: found.is_return,
            };
            let probe = Uprobe::attach(place, thread, program.as_fd());
            self.boundaries
                .push(probe.map_err(|error| Error { what: format!("probe {}", found.shown), ..error })?);
        }
        Ok(())
    }

    /// Removes the boundaries.
    pub(crate) fn unbound(&mut self) {
        self.boundaries.clear();
    }

    /// From now on reports new threads of a process.
    pub fn watch_new_threads_of(&mut self, process: u32) -> Result<()> {
        self.processes.insert(process, 1, 0).map_err(|error| {
            THREADS.cannot(format!("there is no room for process {process}: {}", whole(&error)), REPORT)
        })
    }

    /// The records since the last call, at most 65,536. Those of one CPU are in the order of time.
    pub fn take(&mut self) -> Vec<ThreadRecord> {
        std::iter::from_fn(|| self.take_one()).take(AT_ONCE).collect()
    }

    /// The next record.
    pub fn take_one(&mut self) -> Option<ThreadRecord> {
        while let Some(bytes) = self.records.next() {
            if let Some(record) = self.reader.read(&bytes) {
                return Some(record);
            }
        }
        None
    }

    /// The number of records that were lost so far for lack of room.
    pub fn lost(&self) -> u64 {
        self.lost.get(&0, 0).unwrap_or(0)
    }

    /// Its name in evidence.
    pub fn collector(&self) -> Collector {
        self.part.collector()
    }

    /// The number of stacks that were not copied so far: too many of one thread, or too many records at once.
    pub fn withheld(&self) -> u64 {
        self.withheld.get(&0, 0).unwrap_or(0)
    }

    /// Adds to the list of events that it could not see.
    pub(crate) fn lacks(&mut self, what: String) {
        self.could_not_see.push(what);
    }

    /// The kinds of events that it could not see, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }
}

const REPORT: &str = "report this as a defect";
