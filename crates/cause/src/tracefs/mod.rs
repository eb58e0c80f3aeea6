// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracefs collector: the kernel's own trace events, in two instances of ours. One records the events of
//! the watched CPUs, the other the requests that all CPUs send to them. Other sessions are not touched.
//!
//! Each watched CPU has a buffer of 2 MiB that overwrites its oldest page. It is read, and so emptied, only
//! after a spike. Instances outlive a process that is killed. Their names identify the process, and a later
//! start removes them.
//!
//! Interrupts and NMIs have begin and end events, or the kernel's osnoise tracer reports each with one event
//! when it has ended ([`By::Osnoise`], `osnoise`).

mod numbers;
mod osnoise;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use evidence::cause::{Collector, KernelContext};
use ftrace::Format;
use ftrace::instance::{self, Instance, folder, remove_leftovers};
use ftrace::page::{self, PageLayout};
use machine::CpuSet;

use crate::collect::{BEFORE, Collect};
use crate::depth::Depth;
use crate::event::{ContextKind, DelayedWakeup, Event, EventKind, Sent, Task, Vector};
use crate::{Error, Result};
use numbers::{call, context, texts, vector};

/// The source of interrupts and NMIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Trace events alone.
    Events,
    /// The osnoise tracer.
    Osnoise,
}

/// Events of the watched CPUs, and the kinds that are not seen without them; empty for rare ones and for
/// those of another architecture.
const HERE: &[(&str, &str)] = &[
    ("irq/softirq_entry", "softirqs"),
    ("irq/softirq_exit", "softirqs"),
    ("csd/csd_function_entry", "functions called by IPIs"),
    ("csd/csd_function_exit", "functions called by IPIs"),
    ("sched/sched_switch", "threads"),
    ("task/task_rename", "new names of running threads"),
    ("workqueue/workqueue_execute_start", "workqueue functions"),
    ("workqueue/workqueue_execute_end", "workqueue functions"),
    ("timer/hrtimer_expire_entry", "timer functions"),
    ("timer/tick_stop", "dependencies of the tick"),
    ("power/cpu_frequency", "frequency changes"),
    ("exceptions/page_fault_user", FAULTS),
    ("exceptions/page_fault_kernel", FAULTS),
];

/// Those of interrupts and NMIs.
const INTERRUPTS: &[(&str, &str)] = &[
    ("irq/irq_handler_entry", "device interrupts"),
    ("irq/irq_handler_exit", "device interrupts"),
    ("nmi/nmi_handler", "NMIs"),
    ("irq_vectors/local_timer_exit", VECTORS),
    ("irq_vectors/reschedule_entry", VECTORS),
    ("irq_vectors/reschedule_exit", VECTORS),
    ("irq_vectors/call_function_entry", VECTORS),
    ("irq_vectors/call_function_exit", VECTORS),
    ("irq_vectors/call_function_single_entry", VECTORS),
    ("irq_vectors/call_function_single_exit", VECTORS),
    ("irq_vectors/irq_work_entry", VECTORS),
    ("irq_vectors/irq_work_exit", VECTORS),
    ("irq_vectors/thermal_apic_entry", ""),
    ("irq_vectors/thermal_apic_exit", ""),
    ("irq_vectors/threshold_apic_entry", ""),
    ("irq_vectors/threshold_apic_exit", ""),
    ("irq_vectors/deferred_error_apic_entry", ""),
    ("irq_vectors/deferred_error_apic_exit", ""),
    ("irq_vectors/error_apic_entry", ""),
    ("irq_vectors/error_apic_exit", ""),
    ("irq_vectors/spurious_apic_entry", ""),
    ("irq_vectors/spurious_apic_exit", ""),
];

/// Only on arm64, where an IPI is also an ordinary interrupt.
const ARM_IPIS: &[(&str, &str)] = &[("ipi/ipi_entry", ARM), ("ipi/ipi_exit", ARM)];
const ARM: &str = if cfg!(target_arch = "aarch64") { "IPIs" } else { "" };

const VECTORS: &str = if cfg!(target_arch = "x86_64") { "timers and IPIs" } else { "" };
const FAULTS: &str = if cfg!(target_arch = "x86_64") { "page faults of the measured thread" } else { "" };

/// Only where an idle CPU has a choice of states.
const IDLE: &[(&str, &str)] = &[("power/cpu_idle", "idle states")];

/// Not needed: the timer's function follows at once.
const TIMER_ENTRY: &[(&str, &str)] = &[("irq_vectors/local_timer_entry", "")];

/// Only where the measured loop makes no system call.
const BUSY: &[(&str, &str)] = &[
    ("raw_syscalls/sys_enter", "system calls of the measured thread"),
    ("raw_syscalls/sys_exit", "system calls of the measured thread"),
];

/// Events of all CPUs, and the field with the CPU that they are for.
const SENT: &[(&str, &str, &str)] = &[
    ("csd/csd_queue_cpu", "cpu", "senders of function-call IPIs"),
    ("ipi/ipi_send_cpu", "cpu", "senders of other IPIs"),
    ("sched/sched_waking", "target_cpu", "wakers of threads"),
    // Recorded on the CPU that the thread leaves.
    (MIGRATE, "dest_cpu", "migrations"),
];

/// A migration, an event also for the CPU that the thread leaves.
const MIGRATE: &str = "sched/sched_migrate_task";
const LEAVES: &str = "orig_cpu";

/// Those of IPIs.
const SENDERS: usize = 2;

/// A wakeup. It has a stack if the woken thread measures and another thread has the CPU.
const WAKING: &str = "sched/sched_waking";

/// The states of a thread that leaves its CPU (`TASK_REPORT`; none: it is ready), and those in which it was
/// stopped.
const STATES: u32 = 0x7f;
const STOPPED: u32 = 0x0c;

/// The number of the event that a `stacktrace` trigger writes (TRACE_STACK).
const STACK: u16 = 4;

/// The most events of one CPU that are kept, since reading removes them from the kernel's ring; and the most
/// known threads.
const KEPT: usize = 32_768;
const TASKS: usize = 4_096;

/// The event that the next stack belongs to: the CPU that it is about, and the priority of the thread that it
/// wakes.
#[derive(Debug, Clone, Copy)]
struct Last {
    of: u32,
    monotonic_ns: u64,
    prio: Option<i32>,
}

/// An event of a page.
#[derive(Debug, Clone, Copy)]
struct Raw<'a> {
    monotonic_ns: u64,
    data: &'a [u8],
}

/// The events of a page of this kernel.
fn raw_events(bytes: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    let events = page::read(bytes, PageLayout::NATIVE).events;
    events.into_iter().map(|event| Raw { monotonic_ns: event.ns, data: &bytes[event.place] })
}

/// The running collector.
#[derive(Debug)]
pub struct Tracefs {
    by: By,
    here: Instance,
    sent: Instance,
    formats: HashMap<u16, (String, Format)>,
    stack: Format,
    /// Texts of the kernel that events refer to by address.
    texts: HashMap<u64, String>,
    cpus: CpuSet,
    own: BTreeMap<u32, Vec<u32>>,
    read: BTreeMap<u32, Vec<Event>>,
    overwritten: BTreeMap<u32, u64>,
    tasks: HashMap<u32, (String, bool)>,
    could_not_see: Vec<String>,
}

impl Tracefs {
    /// Starts to watch `cpus`, and their idle states where they have several.
    pub fn start(root: &Path, cpus: &CpuSet, depth: Depth, has_idle_states: bool, by: By) -> Result<Tracefs> {
        let tracing = folder(root)?;
        remove_leftovers(&tracing);
        let here = match by {
            By::Events => Instance::make(&tracing, "here", |_| Ok(()))?,
            By::Osnoise => osnoise::instance(&tracing)?,
        };
        let sent = Instance::make(&tracing, "sent", |_| Ok(()))?;
        let mut tracefs = Tracefs {
            formats: HashMap::new(),
            stack: Format::default(),
            texts: HashMap::new(),
            cpus: cpus.clone(),
            own: BTreeMap::new(),
            read: cpus.iter().map(|cpu| (cpu, Vec::new())).collect(),
            overwritten: BTreeMap::new(),
            tasks: HashMap::new(),
            could_not_see: Vec::new(),
            by,
            here,
            sent,
        };
        for instance in [&tracefs.here, &tracefs.sent] {
            instance.write("trace_clock", "mono")?;
            instance.write("buffer_size_kb", "2048")?;
        }
        tracefs.here.write("tracing_cpumask", &cpus.to_mask(0))?;
        if !ARM.is_empty()
            && let Ok(text) = untrusted::text(tracing.join("printk_formats"))
        {
            tracefs.texts = texts(&text);
        }
        tracefs.stack = instance::format(&tracing, "ftrace/kernel_stack").unwrap_or_default();
        let interrupts = match by {
            By::Events => INTERRUPTS,
            By::Osnoise => osnoise::EVENTS,
        };
        let idle = if has_idle_states { IDLE } else { &[] };
        let entry = if by == By::Events { TIMER_ENTRY } else { &[] };
        let here: &[&[(&str, &str)]] = match depth {
            Depth::Senders => &[],
            Depth::Sleeping => &[HERE, interrupts, ARM_IPIS, idle],
            Depth::Busy => &[HERE, interrupts, ARM_IPIS, idle, entry, BUSY],
        };
        for (event, without) in here.iter().copied().flatten() {
            tracefs.enable(false, event, None, without);
        }
        let sent = match depth {
            Depth::Senders => &SENT[..SENDERS],
            Depth::Sleeping | Depth::Busy => SENT,
        };
        for (place, (event, field, without)) in sent.iter().enumerate() {
            let fields = if *event == MIGRATE { &[*field, LEAVES][..] } else { &[*field] };
            let each = cpus.iter().flat_map(|cpu| fields.iter().map(move |field| format!("{field}=={cpu}")));
            let filter = each.collect::<Vec<_>>().join("||");
            tracefs.enable(true, event, Some(&filter), without);
            if place < SENDERS {
                // If the kernel refuses this, only the immediate caller is known.
                let _ = tracefs.sent.write(&format!("events/{event}/trigger"), "stacktrace");
            } else if *event == WAKING && tracefs.sent.take_stacks_at(WAKING, "pid", &[]).is_err() {
                let line = "kernel functions that delay a wakeup: this kernel does not report them";
                tracefs.could_not_see.push(line.to_string());
            }
        }
        if tracefs.formats.is_empty() {
            let why = "this kernel has none of the events";
            return Err(Error::new("watch with tracefs", why, "use --causes counters"));
        }
        Ok(tracefs)
    }

    fn enable(&mut self, is_sent: bool, event: &str, filter: Option<&str>, without: &str) {
        let instance = if is_sent { &self.sent } else { &self.here };
        let at = format!("events/{event}");
        let enabled = instance.format(event).and_then(|format| {
            if let Some(filter) = filter {
                instance.write(&format!("{at}/filter"), filter).ok()?;
            }
            instance.write(&format!("{at}/enable"), "1").ok()?;
            Some(format)
        });
        match enabled {
            Some(format) => {
                let name = event.rsplit('/').next().unwrap_or(event).to_string();
                self.formats.insert(format.id, (name, format));
            }
            None if without.is_empty() => {}
            None => {
                let line = format!("{without}: this kernel does not report them");
                if !self.could_not_see.contains(&line) {
                    self.could_not_see.push(line);
                }
            }
        }
    }

    /// Takes the events of both instances.
    fn take_all(&mut self) -> Result<()> {
        for cpu in self.cpus.clone().iter() {
            for page in self.here.take(cpu)? {
                let mut last = None;
                for raw in raw_events(&page) {
                    self.keep(cpu, cpu, raw, &mut last);
                }
            }
        }
        for sender in self.sent.cpus() {
            for page in self.sent.take(sender)? {
                let mut last = None;
                for raw in raw_events(&page) {
                    self.keep_sent(sender, raw, &mut last);
                }
            }
        }
        // Forget the events of CPUs that are not asked for, and some threads.
        for events in self.read.values_mut() {
            events.drain(..events.len().saturating_sub(2 * KEPT));
        }
        if self.tasks.len() > TASKS {
            self.tasks.clear();
        }
        Ok(())
    }

    /// The number of a CPU's events that were overwritten unread since the last call.
    fn newly_overwritten(&mut self, cpu: u32) -> u64 {
        let overwritten = self.here.overwritten(cpu);
        overwritten.saturating_sub(self.overwritten.insert(cpu, overwritten).unwrap_or(0))
    }

    fn keep(&mut self, of: u32, cpu: u32, raw: Raw<'_>, last: &mut Option<Last>) {
        let Some(id) = raw.data.get(..2).map(|id| u16::from_ne_bytes([id[0], id[1]])) else { return };
        if id == STACK {
            // The stack of the CPU's last request, or of the thread that it woke.
            let Some(Last { of, monotonic_ns, prio }) = *last else { return };
            let stack = self.stack.to_end(raw.data, "caller").into_iter().filter(|word| *word > 1 << 32);
            let Some(events) = self.read.get_mut(&of) else { return };
            let mut events_then = events.iter_mut().rev();
            match events_then.find(|event| event.monotonic_ns == monotonic_ns && event.cpu == cpu) {
                Some(Event { kind: EventKind::Sent(sent), .. }) => sent.stack.extend(stack),
                // A stack of another CPU is not that of the occupant.
                Some(Event { kind: EventKind::Waking { woken, .. }, .. }) if of == cpu => {
                    let (woken, priorities, stack) = (Some(*woken), (None, prio), stack.collect());
                    let kind = EventKind::Kept(Box::new(DelayedWakeup {
                        woken,
                        priorities,
                        stack,
                        ..DelayedWakeup::default()
                    }));
                    events.push(Event { monotonic_ns, cpu, kind });
                }
                _ => {}
            }
            return;
        }
        let Some(kind) = self.kind(of, cpu, id, raw.data) else { return };
        let has_stack = matches!(kind, EventKind::Sent(_) | EventKind::Waking { .. });
        let prio = self.prio(id, raw.data).filter(|_| matches!(kind, EventKind::Waking { .. }));
        *last = has_stack.then_some(Last { of, monotonic_ns: raw.monotonic_ns, prio });
        let duration_ns = match self.by {
            By::Events => None,
            By::Osnoise => self.duration_ns(id, raw.data),
        };
        let left = self.left(of, id, raw.data);
        if let Some(events) = self.read.get_mut(&of) {
            if let (EventKind::Exit(context), Some(duration_ns)) = (&kind, duration_ns) {
                let monotonic_ns = osnoise::began_ns(events, raw.monotonic_ns, duration_ns);
                events.push(Event { monotonic_ns, cpu, kind: EventKind::Enter(*context) });
            }
            events.extend(left.map(|kind| Event { monotonic_ns: raw.monotonic_ns, cpu, kind }));
            events.push(Event { monotonic_ns: raw.monotonic_ns, cpu, kind });
        }
    }

    /// How a measuring thread leaves its CPU in the event of a switch, where it does not sleep.
    fn left(&self, cpu: u32, id: u16, data: &[u8]) -> Option<EventKind> {
        let (_, format) = self.formats.get(&id)?;
        let number = |field| format.number(data, field).map(|number| number as u32);
        let (pid, prio, state) = (number("prev_pid")?, number("prev_prio")?, number("prev_state")?);
        let is_own = self.own.get(&cpu).is_some_and(|own| own.contains(&pid));
        let is_stopped = state & STOPPED != 0;
        let left = EventKind::Left { pid, prio: Some(prio as i32), is_stopped, is_throttled: false };
        (is_own && (is_stopped || state & STATES == 0)).then_some(left)
    }

    /// The kernel's priority of the thread that an event of a wakeup is about.
    fn prio(&self, id: u16, data: &[u8]) -> Option<i32> {
        self.formats.get(&id)?.1.number(data, "prio").map(|prio| prio as u32 as i32)
    }

    /// The duration in an event of the osnoise tracer.
    fn duration_ns(&self, id: u16, data: &[u8]) -> Option<u64> {
        let (name, format) = self.formats.get(&id)?;
        (name == osnoise::IRQ).then(|| format.number(data, "duration")).flatten()
    }

    fn keep_sent(&mut self, sender: u32, raw: Raw<'_>, last: &mut Option<Last>) {
        let id = raw.data.get(..2).map(|id| u16::from_ne_bytes([id[0], id[1]]));
        let Some(id) = id else { return };
        let leaves = self.formats.get(&id).and_then(|(name, format)| {
            MIGRATE.ends_with(name.as_str()).then(|| format.number(raw.data, LEAVES)).flatten()
        });
        if let Some(leaves) = leaves {
            self.keep(leaves as u32, sender, raw, last);
        }
        let to = self.formats.get(&id).and_then(|(name, format)| {
            let field = SENT.iter().find(|(event, ..)| event.ends_with(name.as_str()))?.1;
            Some(format.number(raw.data, field)? as u32)
        });
        match to {
            Some(to) => self.keep(to, sender, raw, last),
            None if id == STACK => self.keep(sender, sender, raw, last),
            None => {}
        }
    }

    fn kind(&mut self, cpu: u32, cpu_of_sender: u32, id: u16, data: &[u8]) -> Option<EventKind> {
        let (name, format) = self.formats.get(&id)?.clone();
        let number = |field| format.number(data, field);
        let small = |field| number(field).map(|number| number as u32);
        let pid = small("common_pid")?;
        let is_own = || self.own.get(&cpu).is_some_and(|own| own.contains(&pid));
        Some(match name.as_str() {
            "irq_handler_entry" => EventKind::Enter(ContextKind::Irq(small("irq")?)),
            "irq_handler_exit" => EventKind::Exit(ContextKind::Irq(small("irq")?)),
            "softirq_entry" => EventKind::Enter(ContextKind::Softirq(small("vec")?)),
            "softirq_exit" => EventKind::Exit(ContextKind::Softirq(small("vec")?)),
            "csd_function_entry" => EventKind::Enter(call(number("func")?, number("csd")?)),
            "csd_function_exit" => EventKind::Exit(call(number("func")?, number("csd")?)),
            "nmi_handler" => EventKind::Nmi { handler: number("handler")?, duration_ns: number("delta_ns")? },
            "ipi_entry" => {
                EventKind::Enter(ContextKind::Vector(Vector::of_arm(self.texts.get(&number("reason")?)?)))
            }
            "ipi_exit" => {
                EventKind::Exit(ContextKind::Vector(Vector::of_arm(self.texts.get(&number("reason")?)?)))
            }
            osnoise::IRQ => {
                let vector = vector(&format.dynamic_text(data, "desc")?);
                EventKind::Exit(vector.map_or(ContextKind::Irq(small("vector")?), ContextKind::Vector))
            }
            osnoise::NMI => EventKind::Nmi { handler: 0, duration_ns: number("duration")? },
            "sched_switch" => {
                let next = small("next_pid")?;
                let comm = format.text(data, "next_comm")?;
                let (prio, kernel) = (number("next_prio")? as u32 as i32, self.task(next).1);
                let comm = if next == 0 { String::new() } else { comm };
                let to = Task { pid: next, comm, prio: Some(prio), kernel: Some(kernel), context: None };
                EventKind::Switch { from: small("prev_pid")?, to }
            }
            "sched_waking" => {
                let (comm, context) = (self.task(pid).0, number("common_flags").map(context));
                let waker = Task { pid, comm, context, ..Task::default() };
                EventKind::Waking { woken: small("pid")?, waker }
            }
            // Later kernels name the thread that renames, mostly the same.
            "task_rename" => {
                EventKind::Renamed { pid: small("pid").unwrap_or(pid), comm: format.text(data, "newcomm")? }
            }
            "sched_migrate_task" => EventKind::Migrate { pid: small("pid")?, to: small("dest_cpu")? },
            "workqueue_execute_start" => EventKind::Enter(ContextKind::Work(number("function")?)),
            "workqueue_execute_end" => EventKind::Exit(ContextKind::Work(0)),
            "hrtimer_expire_entry" => EventKind::Timer(number("function")?),
            "tick_stop" if small("success")? == 0 => EventKind::TickKept(number("dependency")?),
            "cpu_idle" if small("state")? != u32::MAX => EventKind::Idle(small("state")?),
            "cpu_frequency" => EventKind::Frequency { khz: number("state")? },
            "page_fault_user" | "page_fault_kernel" if is_own() => EventKind::Fault(number("address")?),
            "sys_enter" if is_own() => EventKind::Enter(ContextKind::Syscall(number("id")?)),
            "sys_exit" if is_own() => EventKind::Exit(ContextKind::Syscall(0)),
            "csd_queue_cpu" => EventKind::Sent(Box::new(self.sender(
                cpu_of_sender,
                (pid, number("common_flags").map(context)),
                Some(number("csd")?),
                number("func")?,
                number("callsite")?,
            ))),
            "ipi_send_cpu" => EventKind::Sent(Box::new(self.sender(
                cpu_of_sender,
                (pid, number("common_flags").map(context)),
                None,
                number("callback")?,
                number("callsite")?,
            ))),
            name => {
                let (vector, is_entry) = match name.strip_suffix("_entry") {
                    Some(vector) => (vector, true),
                    None => (name.strip_suffix("_exit")?, false),
                };
                let context = ContextKind::Vector(numbers::vector(vector)?);
                if is_entry { EventKind::Enter(context) } else { EventKind::Exit(context) }
            }
        })
    }

    fn sender(
        &mut self,
        cpu: u32,
        (pid, context): (u32, Option<KernelContext>),
        request: Option<u64>,
        function: u64,
        call_site: u64,
    ) -> Sent {
        let by = Task { pid, comm: self.task(pid).0, context, ..Task::default() };
        Sent { by, cpu, request, function, stack: vec![call_site] }
    }

    /// A thread's name, and whether it is a kernel thread: events do not have that. A thread that has ended
    /// has neither.
    fn task(&mut self, pid: u32) -> (String, bool) {
        let read = || {
            let stat = untrusted::bytes(format!("/proc/{pid}/stat")).unwrap_or_default();
            let stat = String::from_utf8_lossy(&stat);
            let (name, rest) =
                stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).unwrap_or_default();
            let flags = rest.split_whitespace().nth(6).and_then(|flags| flags.parse::<u32>().ok());
            (name.to_string(), flags.is_some_and(|flags| flags & 0x0020_0000 != 0))
        };
        self.tasks.entry(pid).or_insert_with(read).clone()
    }
}

impl Collect for Tracefs {
    fn collector(&self) -> Collector {
        match self.by {
            By::Events => Collector::Tracefs,
            By::Osnoise => Collector::Osnoise,
        }
    }

    fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }

    fn own(&mut self, cpu: u32, threads: &[u32]) -> Result<()> {
        self.own.insert(cpu, threads.to_vec());
        let all = self.own.values().flatten().copied().collect::<Vec<_>>();
        // If the kernel refuses this, it refused it at the start.
        let _ = self.sent.take_stacks_at(WAKING, "pid", &all);
        Ok(())
    }

    fn take(&mut self, cpu: u32) -> Result<(Vec<Event>, u64)> {
        self.take_all()?;
        let overwritten = self.newly_overwritten(cpu);
        let mut events = self.read.insert(cpu, Vec::new()).unwrap_or_default();
        events.sort_by_key(|event| event.monotonic_ns);
        Ok((events, overwritten))
    }

    fn since(&mut self, cpu: u32, from_ns: u64) -> Result<(Vec<Event>, u64)> {
        let before = self.read.get(&cpu).map_or(0, Vec::len);
        self.take_all()?;
        let overwritten = self.newly_overwritten(cpu);
        let events = self.read.entry(cpu).or_default();
        // Events before a hole say nothing about those after it. All new ones may be after it.
        let known = if overwritten > 0 { before } else { 0 };
        events.drain(..known.min(events.len()));
        events.sort_by_key(|event| event.monotonic_ns);
        events.drain(..events.len().saturating_sub(KEPT));
        let first = events.partition_point(|event| event.monotonic_ns < from_ns);
        Ok((events[first.saturating_sub(BEFORE)..].to_vec(), overwritten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn without_tracefs_the_error_has_the_cure() {
        let root = tempfile::tempdir().unwrap();
        let error =
            Tracefs::start(root.path(), &CpuSet::from_iter([1]), Depth::Busy, true, By::Events).unwrap_err();
        assert!(error.to_string().starts_with("cannot watch with tracefs: no tracefs is mounted"), "{error}");
        assert!(error.to_string().contains("mount -t tracefs"), "{error}");
    }

    #[test]
    fn a_failed_instance_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let instances = root.path().join("sys/kernel/tracing/instances");
        fs::create_dir_all(&instances).unwrap();
        // A folder without buffers, as a test has it.
        let error =
            Tracefs::start(root.path(), &CpuSet::from_iter([1]), Depth::Busy, true, By::Events).unwrap_err();
        assert!(error.to_string().ends_with("run as root, or use --causes counters"), "{error}");
        assert_eq!(fs::read_dir(&instances).unwrap().count(), 0);
    }
}
