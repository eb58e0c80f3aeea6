// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel part: `bpf/threads.bpf.c`, loaded for as long as this value lives.
//!
//! Memory of the kernel: a ring of 4 MiB, 8 MiB to find threads in, 3 MiB for those that are watched, and
//! nothing that grows. The programs go with the file descriptors that hold them, however this process ends.

mod record;

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use aya::maps::{Array, HashMap, MapData, RingBuf, Stack};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{PerfEvent, ProgramError, RawTracePoint, RawTracePointRunOptions, TestRun, UProbe};
use cause::bpf::{KernelPart, LoadedPart, whole};
use cause::names::Names;
use rt::uprobe::{Uprobe, UprobePlace};

use crate::boundary::FoundPlaces;
use crate::record::ThreadRecord;
use crate::{Error, Result};

static THREADS: KernelPart = KernelPart {
    what: "watch a program's threads",
    object: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/threads.o")),
    cures: [
        "install clang and build again",
        "boot a kernel with CONFIG_DEBUG_INFO_BTF, or link the program with libisolator",
        "run as root, or with CAP_BPF and CAP_PERFMON",
    ],
};

/// What the program `watch_thread` answers where there is no slot left.
const NO_ROOM: u32 = 0;

/// Threads whose page faults are timed.
const TIMED: usize = 256;

/// The tracepoints, and what is not seen without each; without those that have nothing here, nothing is.
const TAPS: [(&str, &str); 10] = [
    ("sched_switch", ""),
    ("sched_waking", ""),
    ("hrtimer_expire_entry", "when a thread's timer was due"),
    ("hrtimer_expire_exit", "timers that fire while their thread runs"),
    ("sched_migrate_task", "threads that are moved while they wait"),
    ("page_fault_user", "page faults"),
    ("page_fault_kernel", "page faults in the kernel"),
    ("sched_process_fork", "new threads"),
    ("sched_process_exec", "another program in the same process"),
    ("sched_process_exit", "the end of threads"),
];

/// The kernel part, at work.
pub struct ThreadWatch {
    /// Its programs; gone when this is dropped.
    part: LoadedPart,
    records: RingBuf<MapData>,
    processes: HashMap<MapData, u32, u32>,
    /// Held, since programs that are loaded later need it.
    _free_slots: Stack<MapData, u32>,
    lost: Array<MapData, u64>,
    withheld: Array<MapData, u64>,
    could_not_see: Vec<String>,
    has_timed_faults: BTreeSet<u32>,
    /// Where cycles begin and end, as the user says.
    boundaries: Vec<Uprobe>,
}

impl std::fmt::Debug for ThreadWatch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ThreadWatch").finish_non_exhaustive()
    }
}

impl ThreadWatch {
    /// Loads the kernel part, which has not proven itself yet. Nothing is watched.
    pub fn load(names: &Names) -> Result<ThreadWatch> {
        let word = |number: u32| number.to_ne_bytes();
        let hrtimer_wakeup = names.address("hrtimer_wakeup").unwrap_or(0);
        let globals: [(&str, &[u8]); 3] = [
            ("hrtimer_wakeup", &hrtimer_wakeup.to_ne_bytes()),
            ("futex_call", &word(syscalls::Sysno::futex as u32)),
            ("yield_call", &word(syscalls::Sysno::sched_yield as u32)),
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
            processes: part.map("processes")?,
            _free_slots: free_slots,
            lost: part.map("lost")?,
            withheld: part.map("withheld")?,
            could_not_see: part.attach(&TAPS)?,
            part,
            has_timed_faults: BTreeSet::new(),
            boundaries: Vec::new(),
        })
    }

    /// Watches a thread from now on.
    pub fn watch(&mut self, thread: u32) -> Result<()> {
        let program: &RawTracePoint = self.part.program("watch_thread")?;
        let mut options = RawTracePointRunOptions::default();
        options.args[0] = u64::from(thread);
        let answer = program.test_run(options).map_err(|error| THREADS.refused(whole(&error)))?;
        match answer.return_value {
            NO_ROOM => {
                Err(THREADS
                    .cannot(format!("thread {thread} found no room"), "name fewer threads by --thread"))
            }
            _ => Ok(()),
        }
    }

    /// Sees from now on how long a thread's page faults take. Its context switches take a little longer then:
    /// this is for threads that take faults.
    pub fn time_faults_of(&mut self, thread: u32) {
        if self.has_timed_faults.len() >= TIMED || !self.has_timed_faults.insert(thread) {
            return;
        }
        // One that has ended since takes no further fault.
        let has_ended = || !std::path::Path::new(&format!("/proc/{thread}")).exists();
        if let Err(error) = self.attach_fault_over(thread)
            && !has_ended()
        {
            let what = format!("how long page faults took: this kernel refused it ({})", whole(&error));
            if !self.could_not_see.contains(&what) {
                self.could_not_see.push(what);
            }
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

    /// Has threads of the process of `thread` tell when they come to these places, where cycles begin or else
    /// end. Those that come to a beginning are watched from then on.
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
                file: &place.file,
                offset: place.offset,
                counter: counter
                    .map_err(|_| THREADS.cannot("a semaphore lies beyond 4 GiB", "name a function"))?,
                is_return: found.is_return,
            };
            let probe = Uprobe::attach(place, thread, program.as_fd());
            self.boundaries
                .push(probe.map_err(|error| Error { what: format!("probe {}", found.shown), ..error })?);
        }
        Ok(())
    }

    /// Takes the boundaries away.
    pub(crate) fn unbound(&mut self) {
        self.boundaries.clear();
    }

    /// Watches what threads a process makes from now on.
    pub fn watch_new_threads_of(&mut self, process: u32) -> Result<()> {
        self.processes.insert(process, 1, 0).map_err(|error| {
            THREADS.cannot(format!("process {process} found no room: {}", whole(&error)), REPORT)
        })
    }

    /// The records since this was last asked. Those of one CPU are in the order of time.
    pub fn take(&mut self) -> Vec<ThreadRecord> {
        self.take_some(usize::MAX)
    }

    /// As [`ThreadWatch::take`], but of more the first so many.
    pub fn take_some(&mut self, most: usize) -> Vec<ThreadRecord> {
        let mut records = Vec::new();
        while records.len() < most
            && let Some(bytes) = self.records.next()
        {
            records.extend(record::read(&bytes));
        }
        records
    }

    /// How many records found no room until now.
    pub fn lost(&self) -> u64 {
        self.lost.get(&0, 0).unwrap_or(0)
    }

    /// How many stacks were not copied until now: too many of one thread, or too many records at once.
    pub fn withheld(&self) -> u64 {
        self.withheld.get(&0, 0).unwrap_or(0)
    }

    /// Adds to what it could not see.
    pub(crate) fn lacks(&mut self, what: String) {
        self.could_not_see.push(what);
    }

    /// What it could not see, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }
}

const REPORT: &str = "report this as a defect";
