// SPDX-License-Identifier: MIT OR Apache-2.0
//! One watched thread: its stay at hand, and how that ends.

use ftrace::TraceEvent;
use syscalls::Sysno;

use crate::record::{Leaving, Predecessor, Scheduled, Stay, ThreadEvent, ThreadRecord, Waking};

/// The kernel's marks of a thread that leaves its CPU asleep, and of those one that was stopped or is traced.
const ASLEEP: u32 = 0xff;
const STOPPED: u32 = 0x0c;

/// A longer wait for the CPU has a stack, as in the BPF part.
const STACK_OVER_NS: u64 = 20_000;

/// A watched thread.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) on_cpu: Option<u32>,
    /// The CPU that it is runnable on without running there.
    pub(super) waits_on: Option<u32>,
    /// When it left a CPU last.
    pub(super) left_ns: Option<u64>,
    pub(super) stay: Stay,
    /// A wakeup that came before it had left its CPU.
    pub(super) early: Option<(u64, Waking)>,
    /// The stay that ended after such a wakeup: the next event tells whether it was one, or two.
    pub(super) held: Option<ThreadRecord>,
    pub(super) call: Option<(u32, [u64; 4])>,
    /// Whether an event told of a call of it: then it is known when it is in none.
    pub(super) tells_calls: bool,
    pub(super) waking_stack: Vec<u64>,
    /// Of a DEADLINE thread: until its next period.
    pub(super) yields: bool,
}

impl Watched {
    /// The stay until a wakeup that came before the thread slept: its event came first, and the next stay
    /// begins there.
    pub(super) fn cut(&mut self, thread: u32) -> Option<ThreadRecord> {
        let (at_ns, waking) = self.early.take()?;
        let cpu = self.on_cpu?;
        let mut stay = std::mem::take(&mut self.stay);
        let is_own = waking.waker == thread && waking.interrupt.is_none();
        let (call, arguments) = self.call.filter(|_| is_own).unzip();
        stay.out_ns = at_ns.max(stay.in_ns);
        stay.leaving = Leaving {
            is_cut: true,
            is_call_unknown: call.is_none() && !self.tells_calls,
            call,
            arguments: arguments.unwrap_or_default(),
            next: Scheduled { id: thread, name: self.name.clone(), ..Scheduled::default() },
            ..Leaving::default()
        };
        let at_ns = stay.out_ns;
        self.stay = Stay { woken_ns: Some(at_ns), in_ns: at_ns, waking, ..Stay::default() };
        Some(ThreadRecord { thread, cpu, at_ns, kind: ThreadEvent::Stay(Box::new(stay)) })
    }

    /// The stay that is held, in two: a wakeup ended the first.
    pub(super) fn split(&mut self, thread: u32) -> Vec<ThreadRecord> {
        let Some(ThreadRecord { cpu, at_ns, kind: ThreadEvent::Stay(whole), .. }) = self.held.take() else {
            return Vec::new();
        };
        let next = std::mem::replace(&mut self.stay, *whole);
        self.on_cpu = Some(cpu);
        let (out_ns, leaving) = (self.stay.out_ns, self.stay.leaving.clone());
        let (prio, policy) = (self.stay.prio, self.stay.policy);
        let first = self.cut(thread);
        let second = Stay { out_ns, leaving, prio, policy, ..std::mem::replace(&mut self.stay, next) };
        self.on_cpu = None;
        let second = ThreadRecord { thread, cpu, at_ns, kind: ThreadEvent::Stay(Box::new(second)) };
        first.into_iter().chain([second]).collect()
    }

    /// Leaves its CPU; returns the stays that are over.
    pub(super) fn leaves(
        &mut self,
        thread: u32,
        event: &TraceEvent<'_>,
        state: u32,
        from: &Predecessor,
        to: &Scheduled,
    ) -> Vec<ThreadRecord> {
        let (sleeps, is_preempted) = (state & ASLEEP != 0, state & !ASLEEP != 0);
        let mut records = Vec::new();
        if self.on_cpu.is_none() {
            // Its arrival was lost, or was before the trace.
            let earliest = self.stay.woken_ns.or(self.left_ns).unwrap_or(event.ns);
            self.stay.in_ns = earliest.min(event.ns);
            self.stay.is_begin_unseen = true;
        }
        // It had not gone to sleep when it was woken.
        if !sleeps {
            records.extend(self.cut(thread));
        }
        let mut stay = std::mem::take(&mut self.stay);
        let policy = policy_of(from.prio);
        let yields = !sleeps && !is_preempted && from.prio < 0;
        // Nothing else has a DEADLINE thread leave a CPU like that.
        let call = self.call.or(yields.then_some((Sysno::sched_yield as u32, [0; 4])));
        let (call, arguments) = call.filter(|_| !is_preempted).unzip();
        stay.out_ns = event.ns;
        (stay.prio, stay.policy) = (from.prio, policy);
        stay.leaving = Leaving {
            sleeps,
            is_stopped: state & STOPPED != 0,
            is_call_unknown: call.is_none() && !self.tells_calls,
            call,
            arguments: arguments.unwrap_or_default(),
            next: to.clone(),
            ..Leaving::default()
        };
        self.yields = yields;
        self.on_cpu = None;
        self.left_ns = Some(event.ns);
        self.waits_on = (!sleeps && !yields).then_some(event.cpu);
        let kind = ThreadEvent::Stay(Box::new(stay));
        let record = ThreadRecord { thread, cpu: event.cpu, at_ns: event.ns, kind };
        if sleeps && self.early.is_some() {
            self.held = Some(record);
        } else {
            records.push(record);
        }
        records
    }

    /// Gets a CPU; returns the stay that was held, and the kernel's functions at its wakeup, if it waited for
    /// long.
    pub(super) fn arrives(
        &mut self,
        thread: u32,
        event: &TraceEvent<'_>,
        after: Predecessor,
    ) -> Vec<ThreadRecord> {
        let held = self.held.take();
        self.on_cpu = Some(event.cpu);
        (self.waits_on, self.yields) = (None, false);
        self.stay.in_ns = event.ns;
        self.stay.after = after;
        if let Some((at_ns, waking)) = self.early.take()
            && self.stay.woken_ns.is_none()
        {
            (self.stay.woken_ns, self.stay.waking) = (Some(at_ns), waking);
        }
        let stack = std::mem::take(&mut self.waking_stack);
        let is_long = |woken_ns: &u64| event.ns.saturating_sub(*woken_ns) > STACK_OVER_NS;
        let woken_ns = self.stay.woken_ns.filter(|woken_ns| is_long(woken_ns) && !stack.is_empty());
        let stack = woken_ns.map(|at_ns| ThreadRecord {
            thread,
            cpu: event.cpu,
            at_ns,
            kind: ThreadEvent::Stack(stack),
        });
        held.into_iter().chain(stack).collect()
    }
}

/// `SCHED_…` of the kernel's priority: DEADLINE, FIFO or round-robin, ordinary.
pub(super) fn policy_of(prio: i32) -> u32 {
    match prio {
        ..0 => 6,
        0..100 => 1,
        _ => 0,
    }
}
