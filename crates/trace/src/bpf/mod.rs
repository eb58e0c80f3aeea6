// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel part: `bpf/threads.bpf.c`, loaded for as long as this value lives.
//!
//! Memory: a ring of 4 MiB, a few hundred bytes for each watched thread, and nothing that grows. The programs
//! go with the file descriptors that hold them, however this process ends.

mod record;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::AsFd;

use aya::maps::{Array, HashMap, MapData, MapError, RingBuf};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{PerfEvent, ProgramError, UProbe};
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

/// `struct thread` of the C part, in bytes.
const THREAD_BYTES: usize = 40 + 48 + 208 + 240 + 56;

/// `BPF_NOEXIST`: an entry that is there already stays.
const NO_EXIST: u64 = 1;

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
    threads: HashMap<MapData, u32, [u8; THREAD_BYTES]>,
    processes: HashMap<MapData, u32, u32>,
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
        Ok(ThreadWatch {
            records: part.map("records")?,
            threads: part.map("threads")?,
            processes: part.map("processes")?,
            lost: part.map("lost")?,
            withheld: part.map("withheld")?,
            could_not_see: part.attach(&TAPS)?,
            part,
            has_timed_faults: BTreeSet::new(),
            boundaries: Vec::new(),
        })
    }

    /// Watches a thread from now on.
    pub fn watch(&mut self, process: u32, thread: u32) -> Result<()> {
        let mut value = [0; THREAD_BYTES];
        value[..4].copy_from_slice(&process.to_ne_bytes());
        match self.threads.insert(thread, value, NO_EXIST) {
            // The kernel part saw it start: what it knows of the thread stays.
            Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other.map_err(|error| {
                let why = format!("thread {thread} found no room: {}", whole(&error));
                THREADS.cannot(why, "name fewer threads by --thread")
            }),
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
        let mut records = Vec::new();
        while let Some(bytes) = self.records.next() {
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
