// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF collector: `bpf/collector.bpf.c`, in the kernel while this value lives.
//!
//! Memory: 2 MiB in the kernel for each watched CPU; nothing grows. The programs are unloaded when their file
//! descriptors are closed, however this process ends.

mod bytes;
mod load;
mod per_cpu;
mod ring;
mod types;

use std::collections::BTreeMap;

use aya::maps::{Array, MapData};
use aya::programs::RawTracePoint;
use machine::CpuSet;

use crate::depth::Depth;
use crate::policy::{BPF_RIGHTS_OR_COUNTERS, WITH_BTF_OR_OTHERS};
use crate::{Error, Result};

pub use bytes::RecordBytes;
pub use load::{KernelPart, LoadedPart};
pub use ring::{CHUNK_WORDS, CHUNKS};
pub use types::{KernelTypes, use_types};

static COLLECTOR: KernelPart = KernelPart {
    what: "watch with bpf",
    object: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/collector.o")),
    plain: aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/collector-plain.o")),
    cures: [
        "install clang and build again, or use --causes tracefs",
        WITH_BTF_OR_OTHERS,
        BPF_RIGHTS_OR_COUNTERS,
    ],
};

/// The same as in the C part.
const CPUS: usize = 1024;
const SLOTS: usize = 64;
const OWN: usize = 4;
/// Sizes of `struct own` and `struct slot`, in words of 64 bits.
const OWN_WORDS: usize = 25;
const SLOT_WORDS: usize = 8;

/// A tracepoint, and the events that are not seen without it; empty for the other architecture's and for rare
/// ones.
struct Tap {
    name: &'static str,
    without: &'static str,
}

const fn tap(name: &'static str, without: &'static str) -> Tap {
    Tap { name, without }
}

/// The senders of IPIs.
const SENDER_TAPS: &[Tap] = &[
    tap("csd_queue_cpu", "senders of function-call IPIs"),
    tap("ipi_send_cpu", "senders of other IPIs"),
    tap("ipi_send_cpumask", "senders of IPIs to several CPUs"),
];

/// Those that each run needs as well.
const TAPS: &[Tap] = &[
    tap("irq_handler_entry", "device interrupts"),
    tap("irq_handler_exit", "device interrupts"),
    tap("softirq_entry", "softirqs"),
    tap("softirq_exit", "softirqs"),
    tap("csd_function_entry", "functions called by IPIs"),
    tap("csd_function_exit", "functions called by IPIs"),
    tap("nmi_handler", "NMIs"),
    tap("sched_switch", "threads"),
    tap("sched_waking", "wakers of threads"),
    tap("sched_migrate_task", "migrations"),
    tap("task_rename", "new names of running threads"),
    tap("workqueue_execute_start", "workqueue functions"),
    tap("workqueue_execute_end", "workqueue functions"),
    tap("hrtimer_expire_entry", "timer functions"),
    tap("cpu_frequency", "frequency changes"),
];

/// Only on x86.
const X86_TAPS: &[Tap] = &[
    tap("local_timer_exit", "the tick and other timers"),
    tap("reschedule_entry", "reschedule IPIs"),
    tap("reschedule_exit", "reschedule IPIs"),
    tap("call_function_entry", "function-call IPIs"),
    tap("call_function_exit", "function-call IPIs"),
    tap("call_function_single_entry", "function-call IPIs"),
    tap("call_function_single_exit", "function-call IPIs"),
    tap("irq_work_entry", "irq work"),
    tap("irq_work_exit", "irq work"),
    tap("x86_platform_ipi_entry", ""),
    tap("x86_platform_ipi_exit", ""),
    tap("thermal_apic_entry", ""),
    tap("thermal_apic_exit", ""),
    tap("threshold_apic_entry", ""),
    tap("threshold_apic_exit", ""),
    tap("deferred_error_apic_entry", ""),
    tap("deferred_error_apic_exit", ""),
    tap("error_apic_entry", ""),
    tap("error_apic_exit", ""),
    tap("spurious_apic_entry", ""),
    tap("spurious_apic_exit", ""),
    tap("page_fault_user", "page faults of the measured thread"),
    tap("page_fault_kernel", "page faults of the measured thread"),
];

/// Only on arm64.
const ARM_TAPS: &[Tap] = &[tap("ipi_entry", "IPIs"), tap("ipi_exit", "IPIs")];

/// Watched only where the measured loop makes no system call and does not sleep, since each cycle of another
/// loop would pay for them. Elsewhere a timer interrupt begins, for us, where it calls the first function.
const BUSY_TAPS: &[Tap] = &[
    tap("local_timer_entry", ""),
    tap("tick_stop", "dependencies of the tick"),
    tap("sys_enter", "system calls of the measured thread"),
    tap("sys_exit", "system calls of the measured thread"),
];

/// Watched only where an idle CPU has a choice of states.
const IDLE_TAPS: &[Tap] = &[tap("cpu_idle", "idle states")];

/// The running collector.
pub struct Bpf {
    /// The BPF programs, unloaded when this is dropped.
    part: LoadedPart,
    ring: Array<MapData, [u64; CHUNK_WORDS]>,
    /// `slots` and `owns` of the C part, each in one element.
    slots: Array<MapData, [u64; SLOTS * SLOT_WORDS]>,
    owns: Array<MapData, [u64; SLOTS * OWN_WORDS]>,
    slot_of: BTreeMap<u32, u32>,
    /// How far each CPU's ring was read, and how far its losses were counted.
    taken: BTreeMap<u32, u64>,
    told: BTreeMap<u32, u64>,
    could_not_see: Vec<String>,
}

impl std::fmt::Debug for Bpf {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Bpf").field("slot_of", &self.slot_of).finish_non_exhaustive()
    }
}

/// Whether this program contains the BPF part.
pub fn is_built_in() -> bool {
    COLLECTOR.is_built_in()
}

impl Bpf {
    /// Starts to watch `cpus`, and their idle states where they have several.
    pub fn start(cpus: &CpuSet, depth: Depth, has_idle_states: bool) -> Result<Bpf> {
        let watched = cpus.iter().collect::<Vec<_>>();
        if watched.len() > SLOTS || watched.iter().any(|cpu| *cpu as usize >= CPUS) {
            let why = format!("BPF watches at most {SLOTS} CPUs with numbers below {CPUS}, not {cpus}");
            return Err(COLLECTOR.cannot(why, "measure fewer at once"));
        }
        let (mut slot_of, mut cpu_of) = ([u8::MAX; CPUS], [0u16; SLOTS]);
        for (slot, cpu) in watched.iter().enumerate() {
            slot_of[*cpu as usize] = slot as u8;
            cpu_of[slot] = *cpu as u16;
        }
        let used = watched.len() as u32;
        let cpu_of: Vec<u8> = cpu_of.iter().flat_map(|cpu| cpu.to_ne_bytes()).collect();
        let used_bytes = used.to_ne_bytes();
        let globals: [(&str, &[u8]); 3] =
            [("slot_of", &slot_of), ("cpu_of", &cpu_of), ("slots_used", &used_bytes)];
        let mut part = COLLECTOR.load(&globals, &[("ring", used * CHUNKS)])?;
        let mut bpf = Bpf {
            ring: part.map("ring")?,
            slots: part.map(".bss")?,
            owns: part.map(".data.owns")?,
            part,
            slot_of: watched.iter().copied().zip(0..).collect(),
            taken: BTreeMap::new(),
            told: BTreeMap::new(),
            could_not_see: Vec::new(),
        };
        let of_here = if cfg!(target_arch = "aarch64") { ARM_TAPS } else { X86_TAPS };
        let more: [&[Tap]; 3] = match depth {
            Depth::Senders => [&[], &[], &[]],
            Depth::Sleeping => [TAPS, of_here, &[]],
            Depth::Busy => [TAPS, of_here, BUSY_TAPS],
        };
        let idle = if has_idle_states && depth != Depth::Senders { IDLE_TAPS } else { &[] };
        for tap in SENDER_TAPS.iter().chain(more.into_iter().flatten()).chain(idle) {
            bpf.attach(tap)?;
        }
        if depth == Depth::Sleeping {
            let left_out = "system calls of the measured thread and dependencies of the tick: each of its cycles would pay for them";
            bpf.could_not_see.push(left_out.into());
        }
        Ok(bpf)
    }

    fn attach(&mut self, tap: &Tap) -> Result<()> {
        let program: &mut RawTracePoint = self.part.program(tap.name)?;
        // A kernel that refuses the first one refuses all; one without a tracepoint lacks only that.
        let is_first = tap.name == SENDER_TAPS[0].name;
        let loaded = program.load();
        if let (Err(error), true) = (&loaded, is_first) {
            return Err(COLLECTOR.refused(format!("the kernel refused a program: {}", whole(error))));
        }
        if let Err(error) = loaded.and_then(|()| program.attach(tap.name).map(drop)) {
            let line = format!("{}: {} ({})", tap.without, "this kernel does not report them", whole(&error));
            let is_known = |seen: &String| seen.starts_with(&format!("{}:", tap.without));
            if !tap.without.is_empty() && !self.could_not_see.iter().any(is_known) {
                self.could_not_see.push(line);
            }
        }
        Ok(())
    }
}

fn unread(error: &aya::maps::MapError) -> Error {
    Error::new("read what bpf collected", whole(error), "report this as a defect")
}

/// An error with its causes, in one line.
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    // The verifier prints all steps of its check; the refused one comes last.
    let after_it = ["processed ", "verification time ", "stack depth "];
    let is_after_it = |line: &&str| after_it.iter().any(|begin| line.starts_with(begin));
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !is_after_it(line));
    let lines = lines.collect::<Vec<_>>();
    match lines[..] {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first} … {last}"),
    }
}
