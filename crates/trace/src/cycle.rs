// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of a loop: from the release to the wait for the next one, with the parts of that time.
//!
//! ```text
//! due ─► woken ─► begins ──────────────────────────► ends (waits for the next)
//! └ wakeup latency ┘ executes · preempted · blocked
//! └────────────────── response ─────────────────────┘
//! ```
//! Wakeup latency, execution, preemption and blocking add up to the response; lost records leave a remainder.
//! If the user names places of the program, cycles are between them: see `bounds`.

use crate::model::{Model, Release};
use crate::record::{Boundary, Interrupt, Scheduled, Stay, Waking};
use crate::wait::Wait;
use bounds::Bounds;

mod bounds;

pub use bounds::BoundCounts;

#[cfg(test)]
mod tests;

/// A cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopCycle {
    /// Its due time: of its timer, or when it was triggered.
    pub due_ns: u64,
    /// When the thread began to wait for it.
    pub slept_ns: u64,
    /// When the thread was woken for it.
    pub woken_ns: u64,
    /// When the thread began.
    pub began_ns: u64,
    /// Whether no tracepoint showed the thread's begin: see [`Stay::is_begin_unseen`]. The wakeup may be
    /// unseen too: then it counts as woken at its due time.
    pub is_begin_unseen: bool,
    /// When it began to wait for the next cycle.
    pub ended_ns: u64,
    /// Time on a CPU.
    pub execution_ns: u64,
    /// The part of it that the hypervisor took, by its own clock.
    pub stolen_ns: u64,
    /// Times in which it was runnable, and another task had the CPU.
    pub preempted: Vec<Preempted>,
    /// Times in which it waited for something other than its next cycle.
    pub blocked: Vec<Blocked>,
    /// Page faults.
    pub faults: u32,
    /// The number of moves to another CPU.
    pub migrations: u32,
    /// The CPU on which it began.
    pub cpu: u32,
    /// How it was woken.
    pub waking: Waking,
    /// When the program reached BEGIN, if the user named one.
    pub begin: Option<CycleBegin>,
    /// Whether records of the thread were lost between the cycle before and this one.
    pub is_after_loss: bool,
    /// The cycle before, if it was not over when this one was due: its parts since then, and its own times.
    pub before: Option<Box<LoopCycle>>,
}

/// The begin of a cycle between two places of the program. Its execution counts from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleBegin {
    /// When the program reached it.
    pub at_ns: u64,
    /// Time on a CPU from [`LoopCycle::began_ns`] until then.
    pub before_ns: u64,
    /// Whether no wait released the cycle. Then it began when the program reached it, and the parts from
    /// before its begin account for the time since it was due.
    pub is_release: bool,
}

/// A time in which another task had the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempted {
    /// Its begin.
    pub from_ns: u64,
    /// Its duration.
    pub ns: u64,
    /// The first task that came.
    pub by: Scheduled,
    /// Whether the quota of its control group was used up.
    pub is_throttled: bool,
}

/// A time in which the thread waited within a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Its begin.
    pub from_ns: u64,
    /// When it was woken.
    pub ns: u64,
    /// Its object.
    pub on: Wait,
    /// The four words at a futex: the lock's own, and the C library's data beside it.
    pub words: [u32; 4],
    /// The thread that ended it; `None` where a timer or an interrupt did.
    pub ended_by: Option<(u32, String)>,
    /// The interrupt that ended it.
    pub interrupt: Option<Interrupt>,
}

/// The most parts that are kept of a cycle, or between two cycles.
const PARTS: usize = 4_096;

/// The bits of a futex's word with the thread that owns it (include/uapi/linux/futex.h).
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;

/// No thread has a higher number (PID_MAX_LIMIT of the kernel).
const MOST_THREADS: u32 = 1 << 22;

/// glibc counts how often a lock was taken, and by how many; other data beside a lock's word is seldom so
/// low.
const MOST_LOCKS: u32 = 1 << 16;

impl Blocked {
    /// The owner of the lock when this thread began to wait. The word of an inheriting lock names it. Of
    /// another lock it is the thread that unlocked it; if the wait ended otherwise, the number in the word of
    /// a robust lock, or the one that glibc keeps beside the word, if the data look like glibc's.
    pub fn owner(&self) -> Option<u32> {
        let by = self.ended_by.as_ref().map(|(id, _)| *id);
        let Wait::Lock { inherits_priority, .. } = self.on else { return None };
        let named = Some(self.words[0] & FUTEX_TID_MASK).filter(|id| *id != 0);
        if inherits_priority {
            return named;
        }
        // musl's ordinary locks have the number of an error (EBUSY) in its place.
        let named = named.filter(|id| self.words[0] >> 31 != 0 && *id != 16 && *id <= MOST_THREADS);
        let [_, count, owner, users] = self.words;
        let is_glibc =
            count < MOST_LOCKS && (1..MOST_LOCKS).contains(&users) && (1..=MOST_THREADS).contains(&owner);
        by.or(named).or(is_glibc.then_some(owner))
    }
}

/// The owner of the lock for which a stay ends with a wait, if the lock's words show it.
pub fn lock_owner(stay: &Stay) -> Option<u32> {
    let on = Wait::of(stay).filter(|on| matches!(on, Wait::Lock { .. }))?;
    Blocked { from_ns: 0, ns: 0, on, words: stay.leaving.words, ended_by: None, interrupt: None }.owner()
}

impl LoopCycle {
    /// A cycle that begins here and now, without parts.
    pub(crate) fn at(cpu: u32, ns: u64) -> LoopCycle {
        LoopCycle {
            due_ns: ns,
            slept_ns: ns,
            woken_ns: ns,
            began_ns: ns,
            is_begin_unseen: false,
            ended_ns: ns,
            execution_ns: 0,
            stolen_ns: 0,
            preempted: Vec::new(),
            blocked: Vec::new(),
            faults: 0,
            migrations: 0,
            cpu,
            waking: Waking::default(),
            begin: None,
            is_after_loss: false,
            before: None,
        }
    }

    /// Without the parts from before a time.
    fn since(mut self, at_ns: u64) -> LoopCycle {
        let cut = |from_ns: &mut u64, ns: &mut u64| {
            let to_ns = *from_ns + *ns;
            *from_ns = at_ns.max(*from_ns);
            *ns = to_ns.saturating_sub(*from_ns);
        };
        self.preempted.iter_mut().for_each(|part| cut(&mut part.from_ns, &mut part.ns));
        self.blocked.iter_mut().for_each(|part| cut(&mut part.from_ns, &mut part.ns));
        self.preempted.retain(|part| part.ns > 0);
        self.blocked.retain(|part| part.ns > 0);
        self
    }

    /// When the program came to the cycle: at the BEGIN that the user named, else when it had the CPU.
    pub fn from_ns(&self) -> u64 {
        self.begin.map_or(self.began_ns, |begin| begin.at_ns)
    }

    /// From due time to begin.
    pub fn wakeup_ns(&self) -> u64 {
        self.began_ns.saturating_sub(self.due_ns)
    }

    /// From due time to end.
    pub fn response_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.due_ns)
    }

    /// The thread waited. A wait for a lock that began on its CPU, and goes on without that, is one.
    fn block(&mut self, part: Blocked) {
        let is_spun = matches!(part.on, Wait::Lock { inherits_priority: true, .. });
        let goes_on = |before: &&mut Blocked| {
            is_spun && before.on == part.on && before.from_ns + before.ns == part.from_ns
        };
        match self.blocked.last_mut().filter(goes_on) {
            Some(before) => {
                let Blocked { from_ns, ns, words, .. } = *before;
                *before = Blocked { from_ns, ns: ns + part.ns, words, ..part };
            }
            None => self.blocked.push(part),
        }
    }

    /// A part of this stay is a wait and no execution.
    fn waits_on_its_cpu(&mut self, part: &Stay, stay: &Stay) {
        let (from_ns, to_ns) = (part.in_ns.max(stay.in_ns), part.out_ns.min(stay.out_ns));
        let (Some(on), true) = (Wait::of(part), to_ns > from_ns) else { return };
        let ns = to_ns - from_ns;
        self.execution_ns = self.execution_ns.saturating_sub(ns);
        let ended_by = part.waking.by().map(|(id, name)| (id, name.to_string()));
        self.block(Blocked { from_ns, ns, on, words: part.leaving.words, ended_by, interrupt: None });
    }

    /// The part of the cycle that is neither execution nor a wait, because of lost records.
    pub fn remainder_ns(&self) -> u64 {
        let is_within = |from_ns: u64| from_ns >= self.began_ns;
        let preempted = self.preempted.iter().filter(|part| is_within(part.from_ns)).map(|part| part.ns);
        let blocked = self.blocked.iter().filter(|part| is_within(part.from_ns)).map(|part| part.ns);
        let waits = preempted.chain(blocked).sum::<u64>();
        let before_ns = self.begin.map_or(0, |begin| begin.before_ns);
        self.ended_ns.saturating_sub(self.began_ns).saturating_sub(self.execution_ns + before_ns + waits)
    }
}

/// Turns a thread's stays into cycles as they come.
#[derive(Debug)]
pub struct CycleCutter {
    /// The release of cycles; `None` without a regular one.
    model: Option<Model>,
    /// The begin and end that the user named.
    bounds: Option<Bounds>,
    /// The current cycle; `None` until one begins.
    open: Option<LoopCycle>,
    /// The cycle before, with the parts between it and the next one.
    past: Option<LoopCycle>,
    /// The due time of the previous cycle.
    last_due_ns: Option<u64>,
    /// How many waits at the place where cycles end are still a part of the current cycle.
    within: usize,
    last: Option<(u32, Stay)>,
    /// Parts of the next stay in which the thread waited and kept its CPU.
    spun: Vec<Stay>,
    /// Whether stays were lost since the last cycle.
    is_after_loss: bool,
}

impl CycleCutter {
    /// Cuts cycles according to this model.
    pub fn new(model: Model) -> CycleCutter {
        CycleCutter::made(Some(model), None)
    }

    /// Cuts cycles at the boundaries that the user named. Their release is the thread's wait, if it has a
    /// model. Else they are due when they begin or, with a period from the user, at the latest a period after
    /// the previous one.
    pub fn between(model: Option<Model>, period_ns: Option<u64>) -> CycleCutter {
        CycleCutter::made(model, Some(Bounds::new(period_ns)))
    }

    fn made(model: Option<Model>, bounds: Option<Bounds>) -> CycleCutter {
        let (open, last_due_ns, within, last) = (None, None, 0, None);
        let (past, spun) = (None, Vec::new());
        CycleCutter { model, bounds, open, past, last_due_ns, within, last, spun, is_after_loss: false }
    }

    /// Drops the current cycle: stays of it, or of those after it, were lost.
    fn restart(&mut self) {
        let bounds = self.bounds.take().map(Bounds::restarted);
        *self = CycleCutter { is_after_loss: true, ..CycleCutter::made(self.model.take(), bounds) };
    }

    /// Boundaries that gave no cycle.
    pub fn bound_counts(&self) -> BoundCounts {
        self.bounds.as_ref().map_or_else(BoundCounts::default, Bounds::counts)
    }

    /// Takes a part of the thread's next stay, in which it waited for a lock and kept its CPU.
    pub fn spins(&mut self, part: Stay) {
        self.spun.push(part);
    }

    /// Takes the thread's next stay, on this CPU; returns a cycle that it ends. None is made of a hole in the
    /// records.
    pub fn add(&mut self, cpu: u32, stay: Stay) -> Option<LoopCycle> {
        if stay.lost > 0 {
            self.restart();
        }
        let done = self.cut(cpu, stay)?;
        Some(LoopCycle { is_after_loss: std::mem::take(&mut self.is_after_loss), ..done })
    }

    fn cut(&mut self, cpu: u32, stay: Stay) -> Option<LoopCycle> {
        let mut done = None;
        let last = self.last.take().map(|(_, last)| last);
        match last.and_then(|last| Wait::of(&last).map(|wait| (wait, last))) {
            Some((wait, last)) if self.ends_with(wait, &last) && self.is_release(&stay) => {
                let before = self.open.take().filter(|_| self.bounds.is_none());
                // The other wait of most cycles has not come in this one.
                done = before.map(|cycle| self.ends(cycle, last.out_ns));
                let shared = self.model.as_ref().and_then(|model| model.shared.as_ref());
                self.within = shared.map_or(0, |shared| shared.within);
                let cycle = self.begin(cpu, last.out_ns, &stay);
                self.bounds.iter_mut().for_each(Bounds::released);
                self.open = Some(cycle);
            }
            Some((wait, last)) => self.wakes(wait, &last, &stay),
            None if stay.goes_on => {}
            None => self.comes_back(&stay),
        }
        // The first stay: its cycle began before the records.
        self.last_due_ns = self.last_due_ns.or(stay.waking.due_ns);
        let spun = std::mem::take(&mut self.spun);
        if let Some(cycle) = &mut self.open {
            cycle.execution_ns += stay.out_ns.saturating_sub(stay.in_ns);
            cycle.stolen_ns += stay.stolen_within_ns;
            spun.iter().for_each(|part| cycle.waits_on_its_cpu(part, &stay));
            cycle.faults += stay.faults;
            cycle.migrations += stay.migrations;
        }
        self.preempts(&stay);
        let (ended_ns, boundary) = (stay.out_ns, stay.leaving.boundary);
        let is_over = match (&self.bounds, boundary) {
            (None, _) => Wait::of(&stay).is_some_and(|wait| self.ends_with(wait, &stay)),
            (Some(_), Some(Boundary::Begin { sp })) => {
                self.on_begin(cpu, ended_ns, sp);
                false
            }
            (Some(_), Some(Boundary::End)) => self.on_end(),
            (Some(_), None) => {
                self.forget_old_parts();
                false
            }
        };
        self.last = Some((cpu, stay));
        match self.within {
            _ if !is_over => {}
            1.. if self.bounds.is_none() => self.within -= 1,
            _ => {
                let before = self.open.take();
                done = before.map(|cycle| self.ends(cycle, ended_ns));
                self.begin_rest(cpu, ended_ns);
            }
        }
        done
    }

    fn ends(&mut self, cycle: LoopCycle, ended_ns: u64) -> LoopCycle {
        let cycle = LoopCycle { ended_ns, ..cycle };
        self.past = self.bounds.is_none().then(|| LoopCycle { before: None, ..cycle.clone() });
        cycle
    }

    /// The cycle that gets the parts of the thread's time.
    fn current(&mut self) -> Option<&mut LoopCycle> {
        let past = self.past.as_mut().filter(|past| past.preempted.len() + past.blocked.len() < PARTS);
        self.open.as_mut().or(past)
    }

    fn ends_with(&self, wait: Wait, stay: &Stay) -> bool {
        self.model.as_ref().is_some_and(|model| model.ends_at(wait, &stay.leaving))
    }

    /// The distance of due times, if they are on a grid.
    fn grid_ns(&self) -> Option<u64> {
        self.model.as_ref().filter(|model| model.has_grid())?.period_ns
    }

    /// The last time, before `until`, at which the grid makes a cycle due after the previous one.
    fn next_on_grid(&self, until_ns: u64) -> Option<u64> {
        let (period_ns, last_ns) = (self.grid_ns()?, self.last_due_ns?);
        let periods = until_ns.checked_sub(last_ns)? / period_ns;
        (periods > 0).then(|| last_ns + periods * period_ns)
    }

    /// Whether a cycle begins with this stay, which follows a wait at the place where cycles end.
    fn is_release(&self, stay: &Stay) -> bool {
        let is_within = self.bounds.as_ref().is_some_and(Bounds::is_within);
        let begins_with = |model: &Model| model.begins_with(&stay.waking, self.last_due_ns);
        !is_within && self.model.as_ref().is_some_and(begins_with)
    }

    fn begin(&mut self, cpu: u32, slept_ns: u64, stay: &Stay) -> LoopCycle {
        let is_shared = self.model.as_ref().is_some_and(|model| model.shared.is_some());
        let inherited = stay.waking.inherited.filter(|_| is_shared);
        let unseen_ns = if stay.woken_ns.is_none() { self.next_on_grid(stay.in_ns) } else { None };
        let woken_ns = stay.woken_ns.or(unseen_ns).unwrap_or(stay.in_ns);
        // A thread ended its sleep, and not its timer: in a freezer it sleeps on after its due time.
        let sleeps = self.model.as_ref().is_some_and(|model| matches!(model.wait, Wait::Sleep { .. }));
        let thawed = stay.waking.by().filter(|_| sleeps).and_then(|_| self.grid_ns().zip(self.last_due_ns));
        let thawed = thawed.map(|(period_ns, last_ns)| last_ns + period_ns).filter(|ns| *ns < woken_ns);
        let due_ns = match self.model.as_ref().map(|model| &model.release) {
            Some(Release::Timer { .. }) => {
                let by_timer = stay.waking.due_ns.or(inherited.map(|(due_ns, _)| due_ns));
                by_timer.or(thawed).unwrap_or(woken_ns)
            }
            Some(Release::Event { .. }) | None => woken_ns,
        };
        self.last_due_ns = Some(due_ns);
        let before = self.past.take().filter(|_| slept_ns > due_ns);
        LoopCycle {
            before: before.map(|before| Box::new(before.since(due_ns))),
            due_ns,
            slept_ns,
            woken_ns,
            is_begin_unseen: stay.is_begin_unseen,
            waking: stay.waking.clone(),
            ..LoopCycle::at(cpu, stay.in_ns)
        }
    }

    /// A wait within a cycle: it was woken, and has the CPU again.
    fn wakes(&mut self, on: Wait, last: &Stay, stay: &Stay) {
        let woken_ns = stay.woken_ns.unwrap_or(stay.in_ns);
        let waking = &stay.waking;
        let from_ns = last.out_ns;
        // From then on it waited for the lock to which the kernel had moved it from its condition.
        let is_moved = |part: &&Stay| part.in_ns > from_ns && part.out_ns <= woken_ns;
        let moved = self.spun.iter().find(is_moved).and_then(|part| Some((Wait::of(part)?, part.clone())));
        let Some(cycle) = self.current() else { return };
        let until_ns = moved.as_ref().map_or(woken_ns, |(_, part)| part.in_ns);
        let whole = (from_ns, until_ns, on, last.leaving.words);
        let then = moved.map(|(lock, part)| (until_ns, woken_ns, lock, part.leaving.words));
        for (from_ns, to_ns, on, words) in [whole].into_iter().chain(then).filter(|part| part.1 > part.0) {
            let ended_by = waking.by().map(|(id, name)| (id, name.to_string()));
            let interrupt = waking.interrupt.clone();
            cycle.block(Blocked { from_ns, ns: to_ns - from_ns, on, words, ended_by, interrupt });
        }
        if stay.in_ns > woken_ns {
            cycle.preempted.push(Preempted {
                from_ns: woken_ns,
                ns: stay.in_ns - woken_ns,
                by: Scheduled::default(),
                is_throttled: false,
            });
        }
    }

    /// It left without a wait: another task has the CPU.
    fn preempts(&mut self, stay: &Stay) {
        let goes_on = Wait::of(stay).is_none() && stay.leaving.boundary.is_none();
        let is_throttled = stay.leaving.is_throttled;
        if let (Some(cycle), true) = (self.current(), goes_on) {
            let by = stay.leaving.next.clone();
            cycle.preempted.push(Preempted { from_ns: stay.out_ns, ns: 0, by, is_throttled });
        }
    }

    /// The other tasks have left the CPU.
    fn comes_back(&mut self, stay: &Stay) {
        if let Some(part) = self.current().and_then(|cycle| cycle.preempted.last_mut()) {
            part.ns = stay.in_ns.saturating_sub(part.from_ns);
        }
    }
}
