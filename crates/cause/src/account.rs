// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accounting: it divides the time of a window among the occupants of a CPU, to the nanosecond.
//!
//! Each moment of the window belongs to one occupant: the innermost that ran. Hard interrupts are on a stack
//! of their own, above the running thread. Softirqs, work functions and system calls belong to their thread
//! and wait when it waits (on PREEMPT_RT softirqs can be preempted).
//!
//! While the measured thread has the CPU and nothing runs above it, but its program does not run, the CPU is
//! on its way into the kernel or back. The span beside such a stretch gets that time as its entry or exit
//! ([`crate::edges`]), up to the time that such code takes on this machine. The rest is unexplained. A thread
//! that slept returns from the kernel between the switch to it and its program.
//!
//! An occupant that could not keep the CPU gets none of the time: where the interrupt of the wakeup found a
//! thread of lower priority in user mode, the interrupt itself was late. The hypervisor's clock says how much
//! of that it took ([`crate::stolen`]).
//!
//! ```text
//! a gap      own | ipi .. ipi | own            a wakeup   idle | timer | idle | switch | own
//!            entry             exit                       due                         return
//! ```
//! A pure function: the same events and window give the same spans. Missing events make spans wrong, but
//! their sum stays the window.

use std::collections::HashMap;
use std::ops::Range;

use syscalls::Sysno;

use crate::collect::BEFORE;
use crate::edges::{Beside, Edges, divide};
use crate::event::{ContextKind, DelayedWakeup, Event, EventKind, Sent, Task, Vector};
pub use crate::span::{Account, KeptCpu, Occupant, Point, Span, Withheld, Woken};
use crate::stolen::StealClock;
use crate::waiting::Waiting;

/// System calls without an exit event: the thread ends, and later events are not its own.
const ENDS: [u64; 2] = [Sysno::exit as u64, Sysno::exit_group as u64];

/// The number of other CPUs' requests that are kept until they are served.
const REQUESTS: usize = 256;

/// Accounts for `window` of one CPU. `events` are in the order of time and may begin long before the window.
/// `own` are the measured threads of the CPU, `edges` its longest entry and exit.
pub fn account(cpu: u32, events: &[Event], window: Range<u64>, own: &[u32], edges: &Edges) -> Account {
    let (book, is_whole) = booked(cpu, events, window, own);
    book.close(edges, is_whole)
}

/// How long the measured thread had the CPU before and after the only interruption in the window. The first
/// is `None` where it slept before. A calibration measures these. `None` if there were several interruptions.
pub fn around(cpu: u32, events: &[Event], window: Range<u64>, own: &[u32]) -> Option<(Option<u64>, u64)> {
    booked(cpu, events, window, own).0.around()
}

fn booked<'a>(cpu: u32, events: &[Event], window: Range<u64>, own: &'a [u32]) -> (Book<'a>, bool) {
    let first_in = events.partition_point(|event| event.monotonic_ns < window.start);
    let events = &events[first_in.saturating_sub(BEFORE)..];
    let mut book = Book::new(cpu, window.clone(), own);
    if let Some(first) = events.first() {
        book.begin(first.monotonic_ns, events);
    }
    for event in events {
        if event.monotonic_ns >= window.end {
            break;
        }
        book.take(event);
    }
    book.advance(window.end);
    (book, events.first().is_some_and(|first| first.monotonic_ns <= window.start))
}

struct Book<'a> {
    cpu: u32,
    window: Range<u64>,
    own: &'a [u32],
    spans: Vec<Span>,
    /// The occupants of the CPU in the window, in the order of time, even those without time.
    log: Vec<(usize, Range<u64>)>,
    /// The thread that has the CPU, and its span.
    current: Option<u32>,
    base: usize,
    /// Spans of hard interrupts, innermost last; and of the contexts within each thread.
    hard: Vec<usize>,
    within: HashMap<u32, Vec<usize>>,
    last_ns: u64,
    woken: HashMap<u32, Woken>,
    requests: Vec<Sent>,
    points: Vec<(u64, Point)>,
    tick_kept: Option<u64>,
    steal: StealClock,
    waiting: Waiting,
    /// The time until a wakeup's interrupt that came late to user mode.
    late: Option<usize>,
}

impl<'a> Book<'a> {
    fn new(cpu: u32, window: Range<u64>, own: &'a [u32]) -> Book<'a> {
        let mut book = Book {
            cpu,
            window,
            own,
            spans: Vec::new(),
            log: Vec::new(),
            current: None,
            base: 0,
            hard: Vec::new(),
            within: HashMap::new(),
            last_ns: 0,
            woken: HashMap::new(),
            requests: Vec::new(),
            points: Vec::new(),
            tick_kept: None,
            steal: StealClock::default(),
            waiting: Waiting::default(),
            late: None,
        };
        book.base = book.span(Occupant::Unknown);
        book
    }

    /// Starts at the first event. In a window longer than the ring the earlier occupant is unknown. From the
    /// first event on it is the first thread that a switch leaves. Without a switch it is the measured
    /// thread, which has the CPU when its window ends.
    fn begin(&mut self, monotonic_ns: u64, events: &[Event]) {
        self.advance(monotonic_ns);
        let until_ns = self.window.end;
        let leaves = events.iter().take_while(|event| event.monotonic_ns < until_ns).find_map(|event| {
            match &event.kind {
                EventKind::Switch { from, .. } => Some(*from),
                _ => None,
            }
        });
        self.current = leaves.or(self.own.first().copied());
        let occupant = match self.current {
            Some(0) => Occupant::Idle(None),
            Some(pid) if self.own.contains(&pid) => Occupant::Own,
            Some(pid) => Occupant::Thread(Task { pid, ..Task::default() }),
            None => return,
        };
        self.base = self.span(occupant);
    }

    fn span(&mut self, occupant: Occupant) -> usize {
        self.spans.push(Span::of(occupant));
        self.spans.len() - 1
    }

    fn within_current(&mut self) -> &mut Vec<usize> {
        self.within.entry(self.current.unwrap_or(0)).or_default()
    }

    /// The innermost.
    fn top(&self) -> usize {
        let within = || self.within.get(&self.current.unwrap_or(0))?.last();
        *self.hard.last().or_else(within).unwrap_or(&self.base)
    }

    /// The part of `from..to` that is in the window.
    fn inside(&self, from_ns: u64, to_ns: u64) -> Range<u64> {
        let from = from_ns.clamp(self.window.start, self.window.end);
        from..to_ns.clamp(from, self.window.end)
    }

    /// Gives the time up to `to_ns` to the innermost.
    fn advance(&mut self, to_ns: u64) {
        let inside = self.inside(self.last_ns, to_ns);
        if !inside.is_empty() {
            let top = self.top();
            self.give(top, &inside);
            self.log.push((top, inside));
        }
        self.last_ns = self.last_ns.max(to_ns);
    }

    fn give(&mut self, span: usize, time: &Range<u64>) {
        let span = &mut self.spans[span];
        if time.is_empty() {
            return;
        }
        span.begin_ns = if span.duration_ns == 0 { time.start } else { span.begin_ns.min(time.start) };
        span.duration_ns += time.end - time.start;
    }

    /// Records that a span began, which may end at once.
    fn begins(&mut self, span: usize) {
        if (self.window.start..self.window.end).contains(&self.last_ns) {
            self.log.push((span, self.last_ns..self.last_ns));
        }
    }

    fn take(&mut self, event: &Event) {
        self.advance(event.monotonic_ns);
        let here = event.cpu == self.cpu;
        match &event.kind {
            EventKind::Enter(context) => self.enter(*context),
            EventKind::Exit(context) => self.exit(*context),
            EventKind::Nmi { handler, duration_ns } => self.nmi(*handler, event.monotonic_ns, *duration_ns),
            EventKind::Switch { to, .. } => self.switch(to),
            EventKind::Waking { woken, waker } => {
                let by = match here {
                    true => Woken::Here(self.spans[self.top()].occupant.clone()),
                    false => Woken::There(event.cpu, waker.clone()),
                };
                self.woken.insert(*woken, by);
            }
            EventKind::Timer(function) => {
                let top = self.timer_occupant();
                self.spans[top].timers.push(*function);
            }
            EventKind::Fault(address) => self.fault(*address, event.monotonic_ns),
            EventKind::Idle(state) if self.waiting.withheld().is_none() => {
                if self.current.is_none_or(|pid| pid == 0) {
                    self.current = Some(0);
                    self.base = self.span(Occupant::Idle(Some(*state)));
                }
            }
            EventKind::Idle(_) => {}
            EventKind::Frequency { khz } => self.point(event.monotonic_ns, Point::Frequency(*khz)),
            EventKind::Migrate { pid, to } if self.own.contains(pid) => {
                self.point(event.monotonic_ns, Point::Migrated(*to));
            }
            EventKind::Migrate { .. } => {}
            EventKind::TickKept(dependency) => self.tick_kept = Some(*dependency),
            EventKind::Sent(sent) => {
                if self.requests.len() == REQUESTS {
                    self.requests.remove(0);
                }
                self.requests.push((**sent).clone());
            }
            EventKind::Kept(kept) => self.keeps(kept),
            EventKind::Left { prio, is_stopped, is_throttled, .. } => {
                let throttled = prio.filter(|_| *is_throttled).map(|prio| Withheld::Throttled { prio });
                self.waiting.leaves(*prio, is_stopped.then_some(Withheld::Stopped).or(throttled));
            }
            EventKind::Throttled { prio, .. } => self.is_throttled(*prio),
            EventKind::Stolen(stolen_ns) => self.steal.read(event.monotonic_ns, *stolen_ns),
            EventKind::Renamed { pid, comm } => self.renamed(*pid, comm),
        }
    }

    /// A measuring thread was woken, and may not have the CPU, whatever does.
    fn is_throttled(&mut self, prio: i32) {
        if self.current.is_none_or(|pid| !self.own.contains(&pid)) {
            let why = Withheld::Throttled { prio };
            self.waiting.cannot_run(why);
            self.base = self.span(Occupant::Withheld(why));
            self.begins(self.base);
        }
    }

    /// A measuring thread was woken, and has to wait for the context that the interrupt of the wakeup found.
    fn keeps(&mut self, kept: &DelayedWakeup) {
        let thread = match &self.spans[self.base].occupant {
            Occupant::Thread(task) => Some(task.prio),
            _ => None,
        };
        let priorities = (kept.priorities.0.or(thread.flatten()), kept.priorities.1);
        let kept = DelayedWakeup { priorities, ..kept.clone() };
        self.waiting.woken(&kept);
        if kept.is_late() && thread.is_some() {
            return self.takes_back(kept.yields());
        }
        let within = self.within.get(&self.current.unwrap_or(0)).and_then(|pile| pile.last());
        let (within, base) = (within.copied(), self.base);
        if within.is_some() && !kept.outer.is_empty() && thread.is_some() {
            let stack = kept.outer.clone();
            self.spans[base].kept = Some(KeptCpu { woken: kept.woken, prio: priorities.0, stack });
        }
        let is_in_user_mode = kept.in_user_mode || (kept.at_edge && within.is_none());
        let span = &mut self.spans[within.unwrap_or(base)];
        let is_own = matches!(span.occupant, Occupant::Own | Occupant::Idle(_));
        // It may have waited since before the window: the span ends as soon as it has the CPU.
        if !is_own && !is_in_user_mode {
            span.kept = Some(KeptCpu { woken: kept.woken, prio: priorities.0, stack: kept.stack });
        }
    }

    /// The thread that has the CPU was in user mode, and kept it from no interrupt: its time until here is
    /// not its own. Where it `yields`, nor is what follows, in which the kernel switches.
    fn takes_back(&mut self, yields: bool) {
        let (base, vacant) = (self.base, self.span(Occupant::Vacant));
        self.log.iter_mut().filter(|(span, _)| *span == base).for_each(|(span, _)| *span = vacant);
        let Span { begin_ns, duration_ns, .. } = self.spans[base];
        (self.spans[vacant].begin_ns, self.spans[vacant].duration_ns) = (begin_ns, duration_ns);
        self.spans[base].duration_ns = 0;
        self.late = Some(vacant);
        if yields {
            self.base = self.span(Occupant::Vacant);
        }
    }

    /// The thread that has the CPU has another name from here on.
    fn renamed(&mut self, pid: u32, comm: &str) {
        let Occupant::Thread(task) = &self.spans[self.base].occupant else { return };
        if task.pid != pid {
            return;
        }
        let occupant = Occupant::Thread(Task { comm: comm.to_string(), ..task.clone() });
        if self.spans[self.base].duration_ns == 0 {
            self.spans[self.base].occupant = occupant;
        } else {
            self.base = self.span(occupant);
            self.begins(self.base);
        }
    }

    /// The caller of a timer's function: a softirq or an interrupt. Without an event of either the timer
    /// interrupt has just begun: a collector leaves that event out where it must be cheap.
    fn timer_occupant(&mut self) -> usize {
        let top = self.top();
        let has_timers = matches!(
            self.spans[top].occupant,
            Occupant::Context(ContextKind::Irq(_) | ContextKind::Vector(_) | ContextKind::Softirq(_))
        );
        if !has_timers {
            self.enter(ContextKind::Vector(Vector::LocalTimer));
        }
        self.top()
    }

    fn point(&mut self, monotonic_ns: u64, point: Point) {
        if self.window.contains(&monotonic_ns) {
            self.points.push((monotonic_ns, point));
        }
    }

    fn enter(&mut self, context: ContextKind) {
        if let ContextKind::Syscall(number) = context
            && ENDS.contains(&number)
        {
            return;
        }
        if matches!(context, ContextKind::Work(_)) && self.waiting.withheld().is_some() {
            return;
        }
        let span = self.span(Occupant::Context(context));
        self.spans[span].sent = self.sender(context);
        if let ContextKind::Syscall(_) = context {
            // A system call shows that its thread has left the page fault.
            self.leave_faults();
        }
        if context.is_hard() {
            self.hard.push(span)
        } else {
            self.within_current().push(span)
        }
        self.begins(span);
    }

    /// Removes the request that `context` serves from the list.
    fn sender(&mut self, context: ContextKind) -> Option<Sent> {
        let serves = |sent: &Sent| match context {
            ContextKind::Call { request, .. } => sent.request == Some(request),
            ContextKind::Vector(Vector::Reschedule) => sent.request.is_none() && sent.function == 0,
            _ => false,
        };
        let place = self.requests.iter().rposition(serves)?;
        let sent = self.requests.remove(place);
        if let ContextKind::Vector(_) = context {
            // One interrupt serves all requests before it.
            self.requests.retain(|sent| !serves(sent));
        }
        Some(sent)
    }

    fn exit(&mut self, context: ContextKind) {
        let ends = |spans: &[Span], span: &usize| match spans[*span].occupant {
            Occupant::Context(mine) => mine.is_ended_by(context),
            _ => false,
        };
        let current = self.current.unwrap_or(0);
        let pile = match context.is_hard() {
            true => &mut self.hard,
            false => self.within.entry(current).or_default(),
        };
        let Some(place) = pile.iter().rposition(|span| ends(&self.spans, span)) else { return };
        let span = pile[place];
        pile.truncate(place);
        if context == ContextKind::Vector(Vector::CallFunction) && !self.calls(span) {
            // It served a request of another kind: a thread to wake.
            let place = self.requests.iter().rposition(|sent| sent.request.is_some());
            self.spans[span].sent = place.map(|place| self.requests.remove(place));
        }
    }

    /// Whether an interrupt for calls called a function.
    fn calls(&self, vector: usize) -> bool {
        let is_call = |span: &Span| matches!(span.occupant, Occupant::Context(ContextKind::Call { .. }));
        self.spans.get(vector + 1).is_some_and(is_call)
    }

    /// Its length is known only at its end; use it if no other event came meanwhile.
    fn nmi(&mut self, handler: u64, monotonic_ns: u64, duration_ns: u64) {
        let inside = self.inside(monotonic_ns.saturating_sub(duration_ns), monotonic_ns);
        let span = self.span(Occupant::Nmi(handler));
        let Some((top, last)) = self.log.last_mut().filter(|(_, last)| last.end == inside.end) else {
            return;
        };
        let taken = (inside.end - inside.start).min(last.end - last.start);
        last.end -= taken;
        self.spans[*top].duration_ns -= taken;
        let taken = last.end..inside.end;
        self.give(span, &taken);
        self.log.push((span, taken));
    }

    fn switch(&mut self, to: &Task) {
        self.hard.clear();
        self.current = Some(to.pid);
        match self.own.contains(&to.pid) {
            true => self.waiting.runs(self.last_ns < self.window.start),
            false => self.waiting.passed_over_for(to),
        }
        let occupant = match (to.pid, self.waiting.withheld()) {
            (pid, _) if self.own.contains(&pid) => Occupant::Own,
            (_, Some(why)) => Occupant::Withheld(why),
            (0, None) => Occupant::Idle(None),
            _ => Occupant::Thread(to.clone()),
        };
        self.base = self.span(occupant);
        let woken = self.woken.remove(&to.pid);
        let begins = match self.spans[self.base].occupant {
            Occupant::Own if self.log.iter().any(|(span, _)| self.spans[*span].occupant == Occupant::Own) => {
                return;
            }
            Occupant::Own => self.span(Occupant::Return),
            _ => self.base,
        };
        self.spans[begins].woken = woken;
        self.begins(begins);
    }

    /// It has no end event: it lasts until the thread shows that it goes on. One from before the window is
    /// over, since its thread has set its timer or read the clock since then.
    fn fault(&mut self, address: u64, monotonic_ns: u64) {
        self.leave_faults();
        if monotonic_ns >= self.window.start {
            let span = self.span(Occupant::Fault(address));
            self.within_current().push(span);
            self.begins(span);
        }
    }

    fn leave_faults(&mut self) {
        let current = self.current.unwrap_or(0);
        if let Some(pile) = self.within.get_mut(&current) {
            pile.retain(|span| !matches!(self.spans[*span].occupant, Occupant::Fault(_)));
        }
    }

    /// Stretches in which the CPU was the measured thread's or vacant, with the spans before and after each.
    fn stretches(&self) -> Vec<(Range<u64>, Option<usize>, Option<usize>)> {
        let mut stretches: Vec<(Range<u64>, Option<usize>, Option<usize>)> = Vec::new();
        let (mut before, mut is_open) = (None, false);
        for (span, time) in &self.log {
            let is_free = matches!(self.spans[*span].occupant, Occupant::Own | Occupant::Vacant);
            match (is_free, is_open, stretches.last_mut()) {
                (true, true, Some((stretch, ..))) => stretch.end = time.end,
                (true, ..) => {
                    stretches.push((time.clone(), before, None));
                    is_open = true;
                }
                (false, true, Some((_, _, after))) => (*after, is_open) = (Some(*span), false),
                (false, ..) => {}
            }
            if !is_open {
                before = Some(*span);
            }
        }
        stretches
    }

    /// Gives the spans beside such stretches their edges, and returns the
    /// stretches that remain, the longest first.
    fn give_edges(&mut self, edges: &Edges) -> Vec<Range<u64>> {
        let unknown = self.log.iter().filter(|(span, _)| self.spans[*span].occupant == Occupant::Unknown);
        let mut left: Vec<Range<u64>> = unknown.map(|(_, time)| time.clone()).collect();
        for (stretch, before, after) in self.stretches() {
            let explained = |span: &usize| self.spans[*span].is_explained();
            let before = before.filter(explained).map(|span| {
                let at_most_ns = match self.spans[span].occupant {
                    Occupant::Return | Occupant::Thread(_) | Occupant::Idle(_) => edges.return_ns,
                    _ => edges.exit_ns,
                };
                Beside { span, at_most_ns }
            });
            let after = after.filter(explained).map(|span| Beside { span, at_most_ns: edges.entry_ns });
            let mut rest = stretch.clone();
            for (span, part) in divide(&stretch, before, after) {
                self.give(span, &part);
                self.spans[span].entry_exit_ns += part.end - part.start;
                if part.start == rest.start { rest.start = part.end } else { rest.end = part.start }
            }
            left.push(rest);
        }
        left.sort_by_key(|time| u64::MAX - (time.end - time.start));
        left
    }

    /// Gives the hypervisor what its clock counted: of `left`, in which nothing ran, and of occupants.
    fn give_stolen(&mut self, left: &mut [Range<u64>]) {
        self.steal.keep(&self.window);
        for stretch in left {
            let taken = self.steal.take(stretch);
            self.stolen(stretch.start, taken);
            stretch.start += taken;
        }
        let mut ran = vec![Vec::new(); self.spans.len()];
        for (span, time) in self.log.iter().filter(|(span, _)| self.spans[*span].is_explained()) {
            ran[*span].push(time.clone());
        }
        for (span, times) in ran.into_iter().enumerate() {
            for (time, taken) in times.iter().zip(self.steal.take_certain(&times)) {
                self.spans[span].duration_ns -= taken;
                self.stolen(time.start, taken);
            }
        }
    }

    fn stolen(&mut self, begin_ns: u64, duration_ns: u64) {
        if duration_ns > 0 {
            let span = self.span(Occupant::Hypervisor);
            (self.spans[span].begin_ns, self.spans[span].duration_ns) = (begin_ns, duration_ns);
        }
    }

    /// The time of `stretch` for which the wakeup's interrupt was late.
    fn late_ns(&self, stretch: &Range<u64>) -> u64 {
        let late = self.log.iter().filter(|(span, _)| Some(*span) == self.late);
        late.map(|(_, time)| time.end.min(stretch.end).saturating_sub(time.start.max(stretch.start))).sum()
    }

    fn around(&self) -> Option<(Option<u64>, u64)> {
        let long = |stretch: &Range<u64>| stretch.end - stretch.start;
        match &self.stretches()[..] {
            [(entry, None, Some(_)), (exit, Some(_), None)] => Some((Some(long(entry)), long(exit))),
            [(exit, Some(before), None)] if self.spans[*before].occupant == Occupant::Return => {
                Some((None, long(exit)))
            }
            _ => None,
        }
    }

    fn close(mut self, edges: &Edges, is_whole: bool) -> Account {
        self.waiting.acquit(&mut self.spans);
        let mut left = self.give_edges(edges);
        let has_steal_clock = left.first().is_some_and(|longest| self.steal.covers(longest));
        self.give_stolen(&mut left);
        let longest_unexplained =
            left.into_iter().max_by_key(|time| time.end - time.start).unwrap_or_default();
        let late_ns = self.late_ns(&longest_unexplained);
        self.join_calls();
        let mut spans = self.spans;
        spans.retain(|span| span.duration_ns > 0 && span.is_explained());
        spans.sort_by_key(|span| span.begin_ns);
        let explained: u64 = spans.iter().map(|span| span.duration_ns).sum();
        let unexplained_ns = self.window.end.saturating_sub(self.window.start).saturating_sub(explained);
        Account {
            spans,
            points: self.points,
            tick_kept: self.tick_kept,
            unexplained_ns,
            longest_unexplained,
            late_ns,
            has_steal_clock,
            is_whole,
        }
    }

    /// The interrupt that calls functions belongs to them: its own time goes to the first of them.
    fn join_calls(&mut self) {
        for vector in 0..self.spans.len() {
            let Span { begin_ns, duration_ns, entry_exit_ns, .. } = self.spans[vector];
            let is_vector =
                self.spans[vector].occupant == Occupant::Context(ContextKind::Vector(Vector::CallFunction));
            if is_vector && duration_ns > 0 && self.calls(vector) {
                let call = &mut self.spans[vector + 1];
                call.begin_ns = if call.duration_ns == 0 { begin_ns } else { begin_ns.min(call.begin_ns) };
                call.duration_ns += duration_ns;
                call.entry_exit_ns += entry_exit_ns;
                self.spans[vector].duration_ns = 0;
            }
        }
    }
}
