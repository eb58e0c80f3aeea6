// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trial of a collector before anything measures: it provokes events of each kind on a watched CPU, and
//! the collector must report them. Versions of kernels do not decide: tracepoints come, go and change their
//! arguments, and a kernel on which all kinds work is as good as one that was tested in a guest.
//!
//! ```text
//! provoke ──► Provoked: counts, from the threads that provoked and the kernel's own counters
//!                │
//! collector ──► Event ──► TrialResult ──► refused · kinds unseen · kinds not tried
//! ```
//! A kind that did not happen does not count against the collector. Without switches and timers an account is
//! worthless, and so is `watch --senders` without senders: there the collector is refused. Any other kind
//! that happened unseen is added to the kinds that the collector cannot see.
//!
//! Not provoked: NMIs, device interrupts, workqueue functions, irq work and frequency changes, since no
//! thread can provoke one on a certain CPU without disturbing others. The trial takes some 100 ms. It is
//! given up after a few attempts, and if a thread does not get its CPU for a long time.

mod kind;
mod provoke;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use evidence::cause::Collector;
use machine::CpuSet;

use crate::collect::Collect;
use crate::depth::Depth;
use crate::event::{ContextKind, Event, EventKind, Vector};
use crate::{Error, Result, policy};
use kind::{Provoked, TrialKind};

/// A slow machine gets another attempt.
const ATTEMPTS: usize = 3;

/// The most CPUs that are tried, one after the other, until a thread can run there.
const CPUS: usize = 2;

/// Whether an event is one of a kind.
type IsOne = fn(&EventKind) -> bool;

/// The kinds that are not provoked.
const UNPROVOKED: [(&str, IsOne); 5] = [
    ("NMIs", |event| matches!(event, EventKind::Nmi { .. })),
    ("device interrupts", |event| matches!(event, EventKind::Enter(ContextKind::Irq(_)))),
    ("workqueue functions", |event| matches!(event, EventKind::Enter(ContextKind::Work(_)))),
    ("irq work", |event| matches!(event, EventKind::Enter(ContextKind::Vector(Vector::IrqWork)))),
    ("frequency changes", |event| matches!(event, EventKind::Frequency { .. })),
];

/// The provoked and the seen events of all attempts together.
#[derive(Debug, Default)]
struct TrialResult {
    provoked: BTreeMap<TrialKind, u64>,
    seen: BTreeSet<TrialKind>,
    /// The kinds of [`UNPROVOKED`] that came by themselves.
    came: BTreeSet<&'static str>,
    /// Whether any switches were reported, of whatever thread.
    has_switches: bool,
}

/// The limits of a collector that passed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shortcomings {
    /// The kinds that happened unseen, in sentences.
    unseen: Vec<String>,
    not_tried: Vec<String>,
}

impl TrialResult {
    fn add(&mut self, made: &Provoked, events: &[Event]) {
        for (kind, count) in &made.counts {
            *self.provoked.entry(*kind).or_default() += count;
        }
        let during = events.iter().filter(|event| event.monotonic_ns >= made.from_ns);
        for event in during.map(|event| &event.kind) {
            self.seen.extend(TrialKind::ALL.into_iter().filter(|kind| kind.is(event, made)));
            self.came.extend(UNPROVOKED.iter().filter(|(_, is)| is(event)).map(|(name, _)| *name));
            self.has_switches |= matches!(event, EventKind::Switch { .. });
        }
    }

    fn happened(&self, kind: TrialKind) -> u64 {
        self.provoked.get(&kind).copied().filter(|count| *count >= kind.fewest()).unwrap_or(0)
    }

    fn is_missing(&self, kind: TrialKind) -> bool {
        self.happened(kind) > 0 && !self.seen.contains(&kind)
    }

    /// The missing kinds without which an account is worthless; all of `kinds` are.
    fn lacks(&self, kinds: &[TrialKind]) -> Option<(u64, TrialKind)> {
        let is_seen = kinds.iter().any(|kind| self.seen.contains(kind));
        let first = kinds.iter().copied().find(|kind| self.is_missing(*kind))?;
        (!is_seen).then(|| (self.happened(first), first))
    }

    /// The reason to refuse the collector, or its limits. `could_not_see` are the limits that it reported
    /// itself.
    fn judge(
        &self,
        depth: Depth,
        has_idle_states: bool,
        could_not_see: &[String],
    ) -> std::result::Result<Shortcomings, String> {
        let needed: &[&[TrialKind]] = match depth {
            Depth::Senders => &[&[TrialKind::CallSenders, TrialKind::RescheduleSenders]],
            Depth::Sleeping | Depth::Busy => {
                &[&[TrialKind::Threads], &[TrialKind::TimerInterrupts, TrialKind::TimerFunctions]]
            }
        };
        if let Some((count, kind)) = needed.iter().find_map(|kinds| self.lacks(kinds)) {
            let why = match (kind, self.has_switches) {
                (TrialKind::Threads, true) => {
                    "it reports this program's threads with other numbers, as in a PID namespace".to_string()
                }
                _ => format!("it did not report {}, of which {count} were provoked", kind.subject()),
            };
            return Err(format!("in its trial {why}"));
        }
        let is_known = |kind: TrialKind| {
            let begins =
                |subject: &str| could_not_see.iter().any(|line| line.starts_with(&format!("{subject}:")));
            begins(kind.subject()) || kind.group().is_some_and(begins)
        };
        let told = |kind: &TrialKind| kind.is_told(depth, has_idle_states) && !is_known(*kind);
        let (mut unseen, mut not_tried) = (Vec::new(), Vec::new());
        for kind in TrialKind::ALL.into_iter().filter(told) {
            match (self.seen.contains(&kind), self.happened(kind)) {
                (true, _) => {}
                (false, 0) => not_tried.push(kind.subject().to_string()),
                (false, count) => unseen.push(format!(
                    "{}: the trial provoked {count}, and the collector reported none",
                    kind.subject()
                )),
            }
        }
        if depth != Depth::Senders {
            let absent = UNPROVOKED.iter().filter(|(name, _)| !self.came.contains(name));
            not_tried.extend(absent.map(|(name, _)| name.to_string()));
        }
        Ok(Shortcomings { unseen, not_tried })
    }

    /// Whether another attempt could show more.
    fn is_short(&self, depth: Depth, has_idle_states: bool) -> bool {
        TrialKind::ALL.into_iter().any(|kind| kind.is_told(depth, has_idle_states) && self.is_missing(kind))
    }
}

/// The subject of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// The machine's root folder.
    pub root: &'a Path,
    /// The watched CPUs, the measured ones first.
    pub cpus: &'a [u32],
    /// CPUs that may interrupt others, besides those of this thread.
    pub online: &'a CpuSet,
    /// How much the collector watches.
    pub depth: Depth,
    /// Whether it watches idle states.
    pub has_idle_states: bool,
    /// Whether the user named the collector: then it is used even if a trial cannot be made.
    pub is_asked: bool,
}

impl Trial<'_> {
    /// Tries a collector that has just started; no event of the trial stays in it.
    pub fn of(self, mut collector: Box<dyn Collect>, taint_before: u64) -> Result<Box<dyn Collect>> {
        let what = match collector.collector() {
            Collector::Bpf | Collector::BpfFoundTypes => "watch with bpf",
            _ => "watch with tracefs",
        };
        let tried = self.attempt(&mut *collector);
        policy::unharmed(self.root, what, taint_before)?;
        let refuse = |why: String| {
            Error::new(what, why, "report this with the kernel's version, and use --causes counters")
        };
        let result = match tried? {
            Ok(result) => result,
            Err(why) if self.is_asked => {
                let untried = vec![format!("the trial of the collector: {why}")];
                return Ok(Box::new(Tried::new(collector, untried, Vec::new())));
            }
            Err(why) => return Err(refuse(format!("it could not be tried: {why}"))),
        };
        let judged = result.judge(self.depth, self.has_idle_states, collector.could_not_see());
        let Shortcomings { unseen, not_tried } = judged.map_err(refuse)?;
        Ok(Box::new(Tried::new(collector, unseen, not_tried)))
    }

    /// The inner error is a reason why the trial cannot be made here.
    fn attempt(&self, collector: &mut dyn Collect) -> Result<std::result::Result<TrialResult, String>> {
        let mut last = Err("no CPU is watched".to_string());
        for cpu in self.cpus.iter().take(CPUS) {
            let tried = self.attempt_on(*cpu, collector);
            // The threads of the trial measure nothing.
            collector.own(*cpu, &[])?;
            for watched in self.cpus {
                collector.take(*watched)?;
            }
            match tried? {
                Ok(result) => return Ok(Ok(result)),
                why => last = why,
            }
        }
        Ok(last)
    }

    fn attempt_on(
        &self,
        cpu: u32,
        collector: &mut dyn Collect,
    ) -> Result<std::result::Result<TrialResult, String>> {
        let peers = peers(cpu, &rt::thread::affinity(), self.online);
        let mut result = TrialResult::default();
        for _ in 0..ATTEMPTS {
            let armed = |thread| collector.own(cpu, &[thread]);
            let made = match provoke::on(self.root, cpu, &peers, armed)? {
                Ok(made) => made,
                Err(why) => return Ok(Err(why)),
            };
            let (events, _) = collector.take(cpu)?;
            result.add(&made, &events);
            if !result.is_short(self.depth, self.has_idle_states) {
                break;
            }
        }
        Ok(Ok(result))
    }
}

/// The CPUs that interrupt `cpu`: those of this thread, else any other one.
fn peers(cpu: u32, own: &[u32], online: &CpuSet) -> Vec<u32> {
    let others: Vec<u32> = own.iter().copied().filter(|one| *one != cpu).collect();
    if others.is_empty() { online.iter().filter(|one| *one != cpu).collect() } else { others }
}

/// A collector that passed, with the limits that its trial showed.
#[derive(Debug)]
struct Tried {
    collector: Box<dyn Collect>,
    could_not_see: Vec<String>,
    not_tried: Vec<String>,
}

impl Tried {
    fn new(collector: Box<dyn Collect>, unseen: Vec<String>, not_tried: Vec<String>) -> Tried {
        let could_not_see = [collector.could_not_see(), &unseen].concat();
        Tried { collector, could_not_see, not_tried }
    }
}

impl Collect for Tried {
    fn collector(&self) -> Collector {
        self.collector.collector()
    }

    fn could_not_see(&self) -> &[String] {
        &self.could_not_see
    }

    fn not_tried(&self) -> &[String] {
        &self.not_tried
    }

    fn own(&mut self, cpu: u32, threads: &[u32]) -> Result<()> {
        self.collector.own(cpu, threads)
    }

    fn take(&mut self, cpu: u32) -> Result<(Vec<Event>, u64)> {
        self.collector.take(cpu)
    }

    fn since(&mut self, cpu: u32, from_ns: u64) -> Result<(Vec<Event>, u64)> {
        self.collector.since(cpu, from_ns)
    }
}

#[cfg(test)]
mod tests;
