// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF part: `bpf/events.bpf.c`, in the kernel while this value lives.
//!
//! Memory: a ring of 32 MiB and two tables of 16,384 entries. Probes and programs are removed when their file
//! descriptors are closed, however this process ends.

mod record;

use std::num::NonZeroU32;
use std::path::Path;

use aya::maps::{Array, HashMap, MapData, MapError, RingBuf};
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use cause::bpf::{KernelPart, LoadedPart, whole};
use cause::policy::{BPF_RIGHTS, WITH_BTF};
use error::Result;

use crate::event::{EventTimes, LintEvent};
use crate::functions::FIRST_LOCK;

static EVENTS: KernelPart = KernelPart {
    what: "watch a program's calls",
    object: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/events.o")),
    plain: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/events-plain.o")),
    cures: ["install clang and build again", WITH_BTF, BPF_RIGHTS],
};

/// `struct place` of the C part, in bytes.
const PLACE_BYTES: usize = 32;

/// `struct thread` of the C part: its process, two fields of its own, its MXCSR.
type Watched = [u32; 4];

/// The tracepoints, and the events that are not seen without each. An empty text marks a tracepoint that is
/// required.
const TAPS: [(&str, &str); 6] = [
    ("sys_enter", ""),
    ("sched_switch", ""),
    ("page_fault_user", "page faults"),
    ("page_fault_kernel", "page faults in the kernel"),
    ("signal_deliver", "signal handlers"),
    ("sched_process_exec", "execve() of the process"),
];

/// The running BPF part.
pub struct EventWatch {
    /// Its programs, unloaded when this is dropped.
    part: LoadedPart,
    records: RingBuf<MapData>,
    threads: HashMap<MapData, u32, Watched>,
    processes: HashMap<MapData, u32, u32>,
    places: HashMap<MapData, [u8; PLACE_BYTES], [u64; 2]>,
    lost: Array<MapData, u64>,
    could_not_see: Vec<String>,
}

impl std::fmt::Debug for EventWatch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EventWatch").finish_non_exhaustive()
    }
}

impl EventWatch {
    /// Loads the BPF part. It watches no thread yet.
    pub fn load() -> Result<EventWatch> {
        let globals: [(&str, &[u8]); 2] = [
            ("futex_call", &(syscalls::Sysno::futex as u32).to_ne_bytes()),
            ("first_lock", &u32::from(FIRST_LOCK).to_ne_bytes()),
        ];
        let mut part = EVENTS.load(&globals, &[])?;
        let could_not_see = part.attach(&TAPS)?;
        let probe = part.program::<UProbe>("function")?;
        probe
            .load()
            .map_err(|error| EVENTS.refused(format!("the kernel refused the probe: {}", whole(&error))))?;
        Ok(EventWatch {
            records: part.map("records")?,
            threads: part.map("threads")?,
            processes: part.map("processes")?,
            places: part.map("places")?,
            lost: part.map("lost")?,
            could_not_see,
            part,
        })
    }

    /// Probes the entry of a function of `process`: its offset in the binary, and its number.
    pub fn probe(&mut self, process: u32, binary: &Path, offset: u64, number: u16) -> Result<()> {
        let program: &mut UProbe = self.part.program("function")?;
        let Some(process) = NonZeroU32::new(process) else { return Ok(()) };
        let location = UProbeAttachLocation::AbsoluteOffset(offset);
        let point = UProbeAttachPoint { location, cookie: Some(u64::from(number)) };
        let attached = program.attach(point, binary, UProbeScope::OneProcess(process));
        attached.map(drop).map_err(|error| {
            EVENTS.refused(format!("{} cannot be probed: {}", binary.display(), whole(&error)))
        })
    }

    /// From now on reports execve() of the process.
    pub fn watch_process(&mut self, process: u32) -> Result<()> {
        let room = |error: MapError| {
            EVENTS.cannot(
                format!("there is no room for the process: {}", whole(&error)),
                "report this as a defect",
            )
        };
        self.processes.insert(process, 1, 0).map_err(room)
    }

    /// From now on counts the events of these threads of the process.
    pub fn watch(&mut self, process: u32, threads: impl Iterator<Item = u32>) -> Result<()> {
        let room = |error: MapError| {
            EVENTS
                .cannot(format!("there is no room for a thread: {}", whole(&error)), "name fewer by --thread")
        };
        for thread in threads {
            self.threads.insert(thread, [process, 0, 0, 0], 0).map_err(room)?;
        }
        Ok(())
    }

    /// The events since the last call: the first one at each place.
    pub fn take(&mut self) -> Vec<LintEvent> {
        let mut events = Vec::new();
        while let Some(bytes) = self.records.next() {
            events.extend(record::read(&bytes));
        }
        events
    }

    /// How often the event happened at its place so far.
    pub fn times(&self, event: &LintEvent) -> EventTimes {
        let [count, last_ns] = self.places.get(&record::place(event), 0).unwrap_or([1, event.at_ns]);
        EventTimes { count, last_ns }
    }

    /// MXCSR of a watched thread when it last left a CPU.
    pub fn float_state(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread, 0).ok().map(|watched| watched[2]).filter(|state| *state != 0)
    }

    /// The number of events that were lost so far for lack of room.
    pub fn lost(&self) -> u64 {
        self.lost.get(&0, 0).unwrap_or(0)
    }

    /// The kinds of events that it could not see, in sentences.
    pub fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }
}
