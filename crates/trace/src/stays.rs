// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of threads from the kernel's trace events, of tracefs or of a recorded trace: the same as those
//! that `bpf/threads.bpf.c` makes within the kernel, as far as the events tell.
//!
//! | event | tells |
//! |---|---|
//! | `sched_switch` | the stays themselves, and the threads that had the CPU meanwhile |
//! | `sched_waking` | when a thread was woken, and by which thread or interrupt |
//! | `hrtimer_start` | when a timer is due: `hrtimer_expire_entry` does not say it |
//! | `hrtimer_expire_entry`, `_exit` | which wakeups are a timer's |
//! | `irq_handler_…`, `softirq_…` | which interrupt |
//! | `sys_enter`, `sys_exit` | the call in which a thread waits |
//! | `sched_migrate_task`, `page_fault_…`, `signal_deliver` | the event of that name |
//!
//! No event tells the hypervisor's time, quotas of control groups, the program's memory, or the depth of its
//! stack. Where events were lost, the stays at that place are lost, too.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ftrace::event::{HARDIRQ, NMI, SOFTIRQ};
use ftrace::{EventName, TraceEvent};
use syscalls::Sysno;

use crate::record::{Interrupt, Predecessor, Scheduled, ThreadEvent, ThreadRecord, Waking};
use watched::{Watched, policy_of};

#[cfg(test)]
mod tests;
mod watched;

/// Clocks of timers whose offsets to the trace's clock are nearer to each other than this are one.
const ONE_CLOCK_NS: u64 = 1_000_000_000;

/// The most timers and clocks that are known at once.
const TIMERS: usize = 1 << 16;
const CLOCKS: usize = 8;

/// The kernel's functions by their addresses.
pub trait Functions: std::fmt::Debug + Send {
    /// The function that holds an address.
    fn function(&self, address: u64) -> Option<&str>;
    /// Whether a thread is one of the kernel's.
    fn is_kernel(&self, thread: u32, name: &str) -> bool;
}

/// Makes records of threads from events, which come in the order of time.
#[derive(Debug)]
pub struct Stays {
    functions: Box<dyn Functions>,
    cpus: BTreeMap<u32, Here>,
    threads: BTreeMap<u32, Watched>,
    timers: HashMap<u64, Timer>,
    clocks: Vec<Clock>,
    records: VecDeque<ThreadRecord>,
    /// Whether each user thread is watched from its first event on.
    watches_all: bool,
    lost: u64,
}

/// A timer that was started.
#[derive(Debug, Clone)]
struct Timer {
    /// By its own clock.
    due_ns: u64,
    is_on_stack: bool,
    /// Whether it begins a DEADLINE thread's period, and that thread.
    period_of: Option<u32>,
}

/// A clock of timers.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// From it to the clock of the trace: the least that was seen, since an event comes after the clock was
    /// read.
    offset_ns: i64,
}

/// The state of a CPU.
#[derive(Debug, Default)]
struct Here {
    /// The name of the thread that has it, where a switch told it.
    running: Option<(u32, String)>,
    /// At most two: a softirq, or the thread that serves it, may be interrupted within one.
    expired: Vec<Expired>,
    irq: Option<String>,
    softirq: Option<u32>,
    /// By which thread or interrupt each softirq was asked for last.
    raised: BTreeMap<u32, Raiser>,
    /// The wakeup whose stack comes with the next event.
    woke: Option<(u32, u64)>,
}

/// A timer whose function runs.
#[derive(Debug, Clone)]
struct Expired {
    address: u64,
    due_ns: u64,
    is_on_stack: bool,
    /// The thread that it interrupts, or that serves it.
    thread: u32,
    /// [`context_of`] its begin.
    context: u8,
}

#[derive(Debug, Clone)]
enum Raiser {
    Thread(u32),
    Irq(String),
}

impl Stays {
    /// Watches no thread yet. `mono` says that the trace's clock is CLOCK_MONOTONIC.
    pub fn new(functions: Box<dyn Functions>, mono: bool) -> Stays {
        let clocks = if mono { vec![Clock { offset_ns: 0 }] } else { Vec::new() };
        Stays {
            functions,
            cpus: BTreeMap::new(),
            threads: BTreeMap::new(),
            timers: HashMap::new(),
            clocks,
            records: VecDeque::new(),
            watches_all: false,
            lost: 0,
        }
    }

    /// Watches a thread from now on.
    pub fn watch(&mut self, thread: u32) {
        self.threads.entry(thread).or_default();
    }

    /// Watches every thread of a program from its first event on.
    pub fn watch_all(&mut self) {
        self.watches_all = true;
    }

    /// The names of the watched threads, as far as events told them.
    pub fn names(&self) -> impl Iterator<Item = (u32, &str)> {
        self.threads.iter().map(|(id, thread)| (*id, thread.name.as_str()))
    }

    /// The next record.
    pub fn next_record(&mut self) -> Option<ThreadRecord> {
        self.records.pop_front()
    }

    /// How often events were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Events were lost: the threads' state is unknown.
    pub fn lose(&mut self) {
        self.lost += 1;
        self.cpus.clear();
        self.timers.clear();
        for thread in self.threads.values_mut() {
            let Watched { name, stay, .. } = std::mem::take(thread);
            *thread = Watched { name, ..Watched::default() };
            thread.stay.lost = stay.lost + 1;
        }
    }

    /// Takes an event.
    pub fn add(&mut self, event: &TraceEvent<'_>) {
        let fields = &event.fields;
        match event.name {
            EventName::Switch => self.switches(event),
            EventName::Waking => self.wakes(event),
            // Of a trace without the event above. It may come on another CPU, and then names no waker.
            EventName::Wakeup => {
                let woken = fields.small("pid").and_then(|pid| self.threads.get(&pid));
                let is_told = |thread: &Watched| thread.on_cpu.is_some() || thread.stay.woken_ns.is_some();
                if woken.is_some_and(|thread| !is_told(thread)) {
                    self.wakes(event);
                }
            }
            EventName::TimerStart => self.starts_timer(event),
            EventName::TimerExpires => self.timer_expires(event),
            EventName::TimerExpired => {
                let address = event.fields.number("hrtimer");
                let expired = &mut self.here(event.cpu).expired;
                // Without its address it is the last one.
                let ended = expired.iter().rposition(|timer| address.is_none_or(|at| timer.address == at));
                expired.truncate(ended.unwrap_or(expired.len()));
            }
            EventName::IrqEntry => self.here(event.cpu).irq = Some(irq_name(event)),
            EventName::IrqExit => self.here(event.cpu).irq = None,
            EventName::SoftirqEntry => self.here(event.cpu).softirq = fields.small("vec"),
            EventName::SoftirqExit => self.here(event.cpu).softirq = None,
            EventName::SoftirqRaise => self.raises(event),
            EventName::Migrate => self.migrates(event),
            EventName::CallEntry => {
                let arguments = fields.numbers("args");
                let argument = |n: usize| arguments.get(n).copied().unwrap_or(0);
                let call = fields.number("id").and_then(|id| u32::try_from(id).ok());
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.call = call.map(|call| (call, [0, 1, 2, 3].map(argument)));
                    thread.tells_calls = true;
                }
            }
            EventName::CallExit => {
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    (thread.call, thread.tells_calls) = (None, true);
                }
            }
            EventName::UserFault | EventName::KernelFault => {
                let Some(thread) = self.threads.get_mut(&event.thread) else { return };
                thread.stay.faults += 1;
                let number = |field| fields.number(field).unwrap_or(0);
                let (address, code) = (number("address"), number("error_code"));
                self.tell(event, event.thread, ThreadEvent::Fault { address, code });
            }
            EventName::Signal => {
                let handler = fields.number("sa_handler").filter(|handler| *handler > 1);
                let signal = fields.small("sig");
                if let (true, Some(handler), Some(signal)) =
                    (self.threads.contains_key(&event.thread), handler, signal)
                {
                    self.tell(event, event.thread, ThreadEvent::Signalled { signal, handler });
                }
            }
            EventName::Exec if self.threads.contains_key(&event.thread) => {
                let name = fields.dynamic_text("filename").unwrap_or_default();
                let name = name.rsplit('/').next().unwrap_or_default().chars().take(15).collect();
                self.tell(event, event.thread, ThreadEvent::Executed { name });
            }
            EventName::Exit => {
                let ended = fields.small("pid").unwrap_or(event.thread);
                if self.threads.remove(&ended).is_some() {
                    self.tell(event, ended, ThreadEvent::Exited);
                }
            }
            EventName::Stack => self.has_stack(event),
            _ => {}
        }
    }

    fn here(&mut self, cpu: u32) -> &mut Here {
        self.cpus.entry(cpu).or_default()
    }

    fn tell(&mut self, event: &TraceEvent<'_>, thread: u32, kind: ThreadEvent) {
        self.records.push_back(ThreadRecord { thread, cpu: event.cpu, at_ns: event.ns, kind });
    }

    fn switches(&mut self, event: &TraceEvent<'_>) {
        let fields = &event.fields;
        let number = |field| fields.number(field).map(|number| number as u32);
        let (Some(left), Some(came)) = (number("prev_pid"), number("next_pid")) else { return };
        let prio = |field| number(field).map_or(0, |prio| prio as i32);
        let name = |field| fields.text(field).unwrap_or_default();
        let to = Scheduled {
            id: came,
            prio: prio("next_prio"),
            policy: policy_of(prio("next_prio")),
            name: if came == 0 { "idle".into() } else { name("next_comm") },
        };
        let from = Predecessor {
            id: left,
            prio: prio("prev_prio"),
            is_kernel: left != 0 && self.functions.is_kernel(left, &name("prev_comm")),
            name: if left == 0 { String::new() } else { name("prev_comm") },
        };
        let is_kernel = came != 0 && self.functions.is_kernel(came, &to.name);
        if self.watches_all {
            for (id, is_kernel) in [(left, from.is_kernel), (came, is_kernel)] {
                if id != 0 && !is_kernel {
                    self.threads.entry(id).or_default();
                }
            }
        }
        let state = number("prev_state").unwrap_or(0);
        if let Some(thread) = self.threads.get_mut(&left) {
            thread.name.clone_from(&from.name);
            let stays = thread.leaves(left, event, state, &from, &to);
            self.records.extend(stays);
        }
        if let Some(thread) = self.threads.get_mut(&came) {
            thread.name.clone_from(&to.name);
            let told = thread.arrives(came, event, from.clone());
            self.records.extend(told);
        } else if self.threads.values().any(|thread| thread.waits_on == Some(event.cpu)) {
            self.tell(event, came, ThreadEvent::Switched { from, to: to.clone(), is_kernel });
        }
        let here = self.here(event.cpu);
        here.running = Some((came, to.name));
        // What ran on the thread that left is over.
        here.expired.retain(|timer| timer.context == 0);
        here.irq = None;
    }

    /// The end of a wait by this event.
    fn waking(&self, event: &TraceEvent<'_>, woken: u32) -> Waking {
        let unknown = Here::default();
        let here = self.cpus.get(&event.cpu).unwrap_or(&unknown);
        let flags = event.flags.unwrap_or(match here {
            Here { irq: Some(_), .. } => HARDIRQ,
            Here { expired, .. } if !expired.is_empty() => HARDIRQ,
            Here { softirq: Some(_), .. } => SOFTIRQ,
            _ => 0,
        });
        let interrupt = match here.softirq {
            _ if flags & NMI != 0 => Some(Interrupt::Nmi),
            _ if flags & HARDIRQ != 0 => Some(Interrupt::Hard(here.irq.clone().unwrap_or_default())),
            softirq if flags & SOFTIRQ != 0 => match softirq.and_then(|vec| here.raised.get(&vec)) {
                Some(Raiser::Thread(raiser)) if *raiser == event.thread => None,
                Some(Raiser::Irq(name)) => Some(Interrupt::Hard(name.clone())),
                _ => Some(Interrupt::Soft(softirq.unwrap_or(0))),
            },
            _ => None,
        };
        let mut waking = Waking { waker: event.thread, ..Waking::default() };
        waking.waker_name = match &here.running {
            Some((id, name)) if *id == event.thread && *id != 0 => name.clone(),
            _ => String::new(),
        };
        let is_of = |timer: &&Expired| timer.thread == event.thread && timer.context == context_of(flags);
        if let Some(timer) = here.expired.last().filter(is_of) {
            waking.due_ns = Some(timer.due_ns);
            waking.timer = (!timer.is_on_stack).then_some(timer.address);
            return waking;
        }
        let by = self.threads.get(&event.thread).filter(|_| event.thread != woken && interrupt.is_none());
        waking.inherited = by.and_then(|by| {
            let Waking { due_ns, timer, inherited, .. } = &by.stay.waking;
            inherited.or_else(|| due_ns.zip(*timer))
        });
        waking.interrupt = interrupt;
        waking
    }

    fn wakes(&mut self, event: &TraceEvent<'_>) {
        let Some(woken) = event.fields.small("pid") else { return };
        if !self.threads.contains_key(&woken) {
            return;
        }
        let target = event.fields.small("target_cpu");
        let mut waking = self.waking(event, woken);
        waking.is_elsewhere = target.is_some_and(|target| target != event.cpu);
        self.here(event.cpu).woke = Some((woken, event.ns));
        let Some(thread) = self.threads.get_mut(&woken) else { return };
        if thread.on_cpu.is_some() {
            let cut = thread.cut(woken);
            thread.early = Some((event.ns, waking));
            self.records.extend(cut);
            return;
        }
        // The wakeup before was none that waited for this wait.
        let both = thread.split(woken);
        self.records.extend(both);
        thread.stay.woken_ns = Some(event.ns);
        thread.stay.waking = waking;
        thread.waits_on = target;
        thread.waking_stack.clear();
    }

    /// A stack belongs to the event before it on its CPU.
    fn has_stack(&mut self, event: &TraceEvent<'_>) {
        let Some((woken, at_ns)) = self.here(event.cpu).woke.take() else { return };
        if let Some(thread) = self.threads.get_mut(&woken)
            && thread.stay.woken_ns == Some(at_ns)
        {
            thread.waking_stack = event.fields.rest("caller");
        }
    }

    fn starts_timer(&mut self, event: &TraceEvent<'_>) {
        let fields = &event.fields;
        let due_ns = fields.number("softexpires").or_else(|| fields.number("expires"));
        let (Some(address), Some(due_ns)) = (fields.number("hrtimer"), due_ns) else { return };
        if self.timers.len() >= TIMERS {
            self.timers.clear();
        }
        let function = self.function_of(event);
        let is_on_stack = match function.as_deref() {
            Some(function) => function == "hrtimer_wakeup",
            // A call that sleeps has its timer on the stack; one that sets a timer goes on.
            None => is_in_task(event) && !self.sets_timer(event.thread),
        };
        let period_of = (function.as_deref() == Some("dl_task_timer")).then_some(event.thread);
        self.timers.insert(address, Timer { due_ns, is_on_stack, period_of });
    }

    /// Whether a thread is in a call that sets a timer of its own.
    fn sets_timer(&self, thread: u32) -> bool {
        let call = self.threads.get(&thread).and_then(|thread| thread.call);
        let call = call.and_then(|(call, _)| Sysno::new(call as usize));
        matches!(call, Some(Sysno::timerfd_settime | Sysno::timer_settime | Sysno::setitimer))
    }

    fn function_of(&self, event: &TraceEvent<'_>) -> Option<String> {
        let address = event.fields.number("function");
        let named = address.and_then(|address| self.functions.function(address)).map(str::to_string);
        named.or_else(|| event.fields.text("function"))
    }

    /// From a timer's clock to that of the trace, by one more reading of both.
    fn offset_ns(&mut self, now_ns: u64, event_ns: u64) -> i64 {
        let offset_ns = (event_ns as i64).wrapping_sub(now_ns as i64);
        match self.clocks.iter_mut().find(|clock| clock.offset_ns.abs_diff(offset_ns) < ONE_CLOCK_NS) {
            Some(clock) => {
                // The clock of the trace itself is exactly that.
                if clock.offset_ns != 0 {
                    clock.offset_ns = clock.offset_ns.min(offset_ns);
                }
                clock.offset_ns
            }
            None => {
                self.clocks.truncate(CLOCKS - 1);
                self.clocks.push(Clock { offset_ns });
                offset_ns
            }
        }
    }

    fn timer_expires(&mut self, event: &TraceEvent<'_>) {
        let fields = &event.fields;
        let (Some(address), Some(now_ns)) = (fields.number("hrtimer"), fields.number("now")) else { return };
        let offset_ns = self.offset_ns(now_ns, event.ns);
        let known = self.timers.get(&address).cloned();
        let function = self.function_of(event);
        let is_on_stack = function.as_deref() == Some("hrtimer_wakeup");
        // One that was started before the trace, or never in it, is due when it expires.
        let due_ns = known.as_ref().map_or(now_ns, |timer| timer.due_ns.min(now_ns));
        let due_ns = due_ns.saturating_add_signed(offset_ns).min(event.ns);
        let is_on_stack = known.as_ref().map_or(is_on_stack, |timer| timer.is_on_stack);
        let (thread, context) = (event.thread, context_of(event.flags.unwrap_or(HARDIRQ)));
        let here = self.here(event.cpu);
        // The end of an older one was not seen.
        here.expired.truncate(1);
        here.expired.push(Expired { address, due_ns, is_on_stack, thread, context });
        let period_of = known.and_then(|timer| timer.period_of);
        if let Some(thread) = period_of.and_then(|thread| self.threads.get_mut(&thread))
            && thread.yields
        {
            thread.yields = false;
            thread.stay.woken_ns = Some(event.ns);
            thread.stay.waking = Waking { due_ns: Some(due_ns), timer: Some(address), ..Waking::default() };
        }
    }

    fn raises(&mut self, event: &TraceEvent<'_>) {
        let Some(vec) = event.fields.small("vec") else { return };
        let thread = event.thread;
        let here = self.here(event.cpu);
        if is_in_task(event) {
            here.raised.insert(vec, Raiser::Thread(thread));
        } else if let Some(name) = here.irq.clone() {
            here.raised.insert(vec, Raiser::Irq(name));
        } else {
            here.raised.remove(&vec);
        }
    }

    fn migrates(&mut self, event: &TraceEvent<'_>) {
        let (Some(moved), Some(to)) = (event.fields.small("pid"), event.fields.small("dest_cpu")) else {
            return;
        };
        let Some(thread) = self.threads.get_mut(&moved) else { return };
        thread.stay.migrations += 1;
        if thread.waits_on.is_some() {
            thread.waits_on = Some(to);
        }
        self.tell(event, moved, ThreadEvent::Moved { to });
    }
}

fn is_in_task(event: &TraceEvent<'_>) -> bool {
    event.flags.is_some_and(|flags| context_of(flags) == 0)
}

/// The interrupts in which an event happened; 0 in a thread.
fn context_of(flags: u8) -> u8 {
    flags & (NMI | HARDIRQ | SOFTIRQ)
}

fn irq_name(event: &TraceEvent<'_>) -> String {
    event.fields.dynamic_text("name").unwrap_or_default()
}
