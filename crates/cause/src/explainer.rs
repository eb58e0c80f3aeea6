// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a run's spikes their causes, from the requested collector or the best that this machine allows. The
//! control thread calls it, on a housekeeping CPU; only a calibration runs on measured CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use evidence::cause::{self, Cause, CauseKind, Causes, Choice, Collector, OnSibling, QUOTA, WENT_OFFLINE};
use evidence::manifest::{RowKey, Spike};
use machine::{CpuSet, Snapshot};

use crate::Result;
use crate::account::{Account, account};
use crate::calibrate::{Windows, calibrated};
use crate::causes::{KernelFacts, causes};
use crate::collect::Collect;
use crate::edges::Edges;
use crate::event::{Event, EventKind, ORDINARY};
use crate::kept::{is_at_edge, is_in_user_mode, outer, priority};
use crate::names::Names;
use crate::path::path;
use crate::quota::Quotas;
use crate::start::{Started, WatchSpec, start};
use crate::suspects::Suspects;
use crate::unseen::Unseen;

/// The collector of a run, and its state. [`Explainer::default`] has none, and explains nothing.
#[derive(Debug, Default)]
pub struct Explainer {
    events: Option<Events>,
    /// The counters, used where there are no events.
    suspects: Option<Suspects>,
    cpus: CpuSet,
    /// Causes that the probe itself knows, by spike.
    known: BTreeMap<SpikeName, Vec<Cause>>,
    has_known: bool,
    /// The threads whose causes come from there alone.
    followed: BTreeSet<Option<String>>,
    /// Notes for the reader of the evidence.
    notes: Vec<String>,
}

/// Why a part of a spike has no cause, where the events of it were lost.
const OVERWRITTEN: &str = "the kernel overwrote its events before they were read";

/// Identifies a spike: probe and thread of its row, and its moment.
type SpikeName = (String, Option<String>, u64);

/// The most spikes with known causes that are kept, and for how long: a spike that is never listed must not
/// stay.
const KNOWN: usize = 10_000;
const WAITED_FOR_NS: u64 = 10_000_000_000;

/// A collector of events, and the state of its CPUs.
#[derive(Debug)]
struct Events {
    collector: Box<dyn Collect>,
    unseen: Unseen,
    facts: KernelFacts,
    siblings: BTreeMap<u32, CpuSet>,
    own: BTreeMap<u32, Vec<u32>>,
    quotas: Quotas,
    /// The last measured edges of each CPU, and the longest of all rows.
    edges: BTreeMap<u32, Edges>,
    longest: BTreeMap<u32, Edges>,
    /// The events that were read of each CPU since the last poll, since spikes come together.
    seen: BTreeMap<u32, Seen>,
    /// Overwritten events of each CPU that are not yet counted as lost.
    overwritten: BTreeMap<u32, u64>,
    could_not_see: Vec<String>,
    lost_events: u64,
}

/// Events that were read of a CPU.
#[derive(Debug)]
struct Seen {
    /// All events from about this time on.
    from_ns: u64,
    events: Vec<Event>,
}

/// The most events that are held while another CPU is read; more are read again where needed.
const HELD: usize = 8_192;

impl Explainer {
    /// Starts the collector of `choice`. An error if the user named a collector that this machine does not
    /// have.
    pub fn start(choice: Choice, spec: &WatchSpec, machine: &Snapshot) -> Result<Explainer> {
        if choice == Choice::Off {
            return Ok(Explainer::default());
        }
        let mut explainer = Explainer { cpus: spec.cpus.clone(), ..Explainer::default() };
        match start(choice, spec, machine)? {
            Started::Events(collector) => explainer.events = Some(Events::of(collector, spec, machine)),
            Started::Counters { because } => {
                let note = |why| format!("no timelines of spikes, only suspects: {why}");
                explainer.notes = because.into_iter().map(note).collect();
                explainer.suspects = Some(Suspects::on(Path::new("/"), &spec.cpus));
            }
        }
        Ok(explainer)
    }

    /// New notes since the last call.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// How causes were collected so far; `None` without causes.
    pub fn summary(&self) -> Option<Causes> {
        let suspects = self.suspects.as_ref().map(Suspects::summary);
        let known = self.has_known.then(|| Causes {
            collector: Collector::Bpf,
            could_not_see: vec![
                "interrupts within the program's own execution: they count as its own".into(),
            ],
            not_tried: Vec::new(),
            lost_events: 0,
            edges: Vec::new(),
        });
        self.events.as_ref().map(Events::summary).or(known).or(suspects)
    }

    /// Measures entry and exit on each of `cpus`, by interrupting a thread of its own there. Call it from
    /// another CPU, while the measuring threads sleep.
    pub fn calibrate(&mut self, cpus: &CpuSet) {
        self.with_events(|events| events.calibrate(cpus));
    }

    /// Begins a row: each of these threads will measure on its CPU, (CPU, thread).
    pub fn arm(&mut self, threads: &[(u32, u32)]) {
        self.with_events(|events| events.arm(threads));
        if let Some(suspects) = &mut self.suspects {
            suspects.restart();
        }
    }

    /// Called four times a second while a row is measured, before its spikes are taken.
    pub fn poll(&mut self) {
        if !self.known.is_empty() {
            let oldest_ns = rt::clock::monotonic_ns().saturating_sub(WAITED_FOR_NS);
            self.known.retain(|(.., monotonic_ns), _| *monotonic_ns >= oldest_ns);
        }
        if let Some(events) = &mut self.events {
            events.look_again();
        }
        if let Some(suspects) = &mut self.suspects {
            suspects.poll();
        }
    }

    /// The rows of this thread are of a loop that is followed: who follows it tells its causes. No events are
    /// read for it, which do not tell whether the thread sleeps by its own will.
    pub fn follows(&mut self, key: &RowKey) {
        self.followed.insert(key.thread_name.clone());
    }

    /// Sets the causes of the spike of this row that begins at this time; no events are read for it.
    pub fn knows(&mut self, key: &RowKey, monotonic_ns: u64, causes: Vec<Cause>) {
        self.has_known = true;
        if self.known.len() < KNOWN {
            self.known.insert((key.probe.clone(), key.thread_name.clone(), monotonic_ns), causes);
        }
    }

    /// Forgets the causes of spikes before this time: they were explained, or are not listed.
    pub fn forget_before(&mut self, monotonic_ns: u64) {
        self.known.retain(|(.., begin_ns), _| *begin_ns >= monotonic_ns);
    }

    /// Adds causes to `spike`, which ended at most some hundred milliseconds ago.
    pub fn explain(&mut self, spike: &mut Spike) {
        let name = (spike.key.probe.clone(), spike.key.thread_name.clone(), spike.monotonic_ns);
        if let Some(causes) = self.known.remove(&name) {
            let explained: u64 = causes.iter().filter_map(|cause| cause.duration_ns).sum();
            spike.unexplained_ns = Some(spike.latency_ns.saturating_sub(explained));
            spike.causes = causes;
            return;
        }
        if self.followed.contains(&spike.key.thread_name) {
            spike.unexplained_ns = Some(spike.latency_ns);
            return;
        }
        self.with_events(|events| events.explain(spike));
        if let Some(suspects) = &mut self.suspects {
            suspects.explain(spike);
        }
    }

    /// Calls the collector. If that fails, drops the collector; the run continues with the counters.
    fn with_events(&mut self, act: impl FnOnce(&mut Events) -> Result<()>) {
        if let Some(events) = &mut self.events
            && let Err(error) = act(events)
        {
            self.notes.push(format!("no timelines of spikes from here on, only suspects: {error}"));
            self.events = None;
            self.suspects = Some(Suspects::on(Path::new("/"), &self.cpus));
        }
    }
}

impl Events {
    fn of(collector: Box<dyn Collect>, spec: &WatchSpec, machine: &Snapshot) -> Events {
        let names = Names::read(Path::new("/"));
        let mut could_not_see = collector.could_not_see().to_vec();
        could_not_see.extend(names.could_not_see());
        let preemption = machine.kernel.preemption;
        Events {
            collector,
            unseen: Unseen::of(Path::new("/"), machine.hypervisor.is_some()),
            facts: KernelFacts { names, preemption, priorities: BTreeMap::new() },
            siblings: spec.siblings(machine),
            own: BTreeMap::new(),
            quotas: Quotas::default(),
            edges: BTreeMap::new(),
            longest: BTreeMap::new(),
            seen: BTreeMap::new(),
            overwritten: BTreeMap::new(),
            could_not_see,
            lost_events: 0,
        }
    }

    /// Measures entry and exit on each of `cpus`, by interrupting a thread of its own there. The caller runs
    /// on another CPU, and the measuring threads sleep.
    fn calibrate(&mut self, cpus: &CpuSet) -> Result<()> {
        for cpu in cpus.iter() {
            let edges = match Windows::on(cpu, |thread| self.arm(&[(cpu, thread)]))? {
                Ok(windows) => {
                    self.look_again();
                    self.read_events(cpu, windows.begin_ns())?;
                    let events = self.seen.get(&cpu).map_or(&[][..], |seen| &seen.events);
                    calibrated(cpu, events, &windows)
                }
                Err(why) => Err(why),
            };
            let edges = edges.unwrap_or_else(|why| {
                let line = format!("entry and exit of interruptions on cpu {cpu}: {why}");
                if !self.could_not_see.contains(&line) {
                    self.could_not_see.push(line);
                }
                Edges::default()
            });
            self.edges.insert(cpu, edges);
            let longest = self.longest.entry(cpu).or_default();
            *longest = longest.longer(&edges);
        }
        Ok(())
    }

    /// Sets the measuring threads of each CPU.
    fn arm(&mut self, threads: &[(u32, u32)]) -> Result<()> {
        self.own.clear();
        for (cpu, thread) in threads {
            self.own.entry(*cpu).or_default().push(*thread);
        }
        let prio = |(_, thread): &(u32, u32)| Some((*thread, priority(Path::new("/"), *thread)?));
        self.facts.priorities = threads.iter().filter_map(prio).collect();
        for (cpu, threads) in &self.own {
            self.collector.own(*cpu, threads)?;
        }
        let priorities = self.facts.priorities.iter();
        let ordinary = priorities.filter(|(_, prio)| **prio >= ORDINARY).map(|(thread, _)| *thread);
        self.quotas = Quotas::of(&ordinary.collect::<Vec<_>>());
        self.unseen.begin(self.own.keys().copied().collect());
        Ok(())
    }

    /// Forgets the events that were read: the next spike reads again.
    fn look_again(&mut self) {
        self.unseen.poll();
        self.quotas.poll();
        self.seen.clear();
    }

    /// Adds the causes of a spike, on its CPU and the siblings.
    fn explain(&mut self, spike: &mut Spike) -> Result<()> {
        let cpu = spike.key.cpu;
        let window = spike.monotonic_ns..spike.monotonic_ns + spike.latency_ns;
        self.read_events(cpu, window.start)?;
        let own = self.own.get(&cpu).cloned().unwrap_or_default();
        let events = self.seen.get(&cpu).map_or(&[][..], |seen| &seen.events);
        let path = path(cpu, events, window.clone(), &own);
        spike.unexplained_ns = Some(0);
        let mut is_whole = true;
        for (place, (on, part)) in path.iter().enumerate() {
            is_whole &= self.explain_part(spike, *on, part, &own)?;
            if place > 0 {
                let begin_ns = part.start - window.start;
                let mut moved = Cause::timed(CauseKind::Migration, format!("to cpu {on}"), begin_ns, 0);
                let left = path[place - 1].0;
                moved.detail =
                    inspect::is_offline(Path::new("/"), left).then(|| format!("cpu {left} {WENT_OFFLINE}"));
                spike.causes.push(moved);
            }
        }
        spike.causes.sort_by_key(|cause| cause.begin_ns.unwrap_or(u64::MAX));
        if !is_whole {
            // At most the number of this spike.
            let lost = self.overwritten.remove(&cpu).unwrap_or(0);
            self.lost_events += lost;
            if lost > 0 {
                spike.unexplained_detail.get_or_insert(OVERWRITTEN.to_string());
            }
        }
        for sibling in self.siblings.get(&cpu).cloned().unwrap_or_default().iter() {
            let own = self.own.get(&sibling).cloned().unwrap_or_default();
            let of_sibling = self.account(sibling, &window, &own, &Edges::default())?;
            let causes = causes(&of_sibling, window.start, &self.facts);
            spike.siblings.extend(causes.into_iter().map(|cause| OnSibling { cpu: sibling, cause }));
        }
        Ok(())
    }

    /// Adds the causes of a part of a spike, in which the measuring thread was on `cpu`. Returns whether the
    /// events reach back to its beginning.
    fn explain_part(&mut self, spike: &mut Spike, cpu: u32, part: &Range<u64>, own: &[u32]) -> Result<bool> {
        let edges = self.edges.get(&cpu).copied().unwrap_or_default();
        let of_cpu = self.account(cpu, part, own, &edges)?;
        let unseen = self.unseen.explain(cpu, part, &of_cpu);
        let explained: u64 = unseen.iter().filter_map(|cause| cause.duration_ns).sum();
        let detail = self.unseen.why_late(part, &of_cpu).filter(|_| explained == 0);
        spike.unexplained_detail = spike.unexplained_detail.take().or(detail);
        spike.unexplained_ns = spike.unexplained_ns.map(|ns| ns + of_cpu.unexplained_ns - explained);
        let mut causes = causes(&of_cpu, part.start, &self.facts);
        // The path has those.
        causes.retain(|cause| cause.kind != CauseKind::Migration);
        causes.extend(unseen);
        for cause in &mut causes {
            if cause.kind == CauseKind::Throttled && cause.name == QUOTA {
                let group = self.quotas.stopped_since(part.start);
                cause.name.extend(group.map(|group| format!(" {group}")));
            }
            cause.begin_ns = cause.begin_ns.map(|begin_ns| begin_ns + part.start - spike.monotonic_ns);
        }
        spike.causes.extend(causes);
        Ok(of_cpu.is_whole)
    }

    /// The occupants of a CPU in a window, in which `own` measure there.
    fn account(&mut self, cpu: u32, window: &Range<u64>, own: &[u32], edges: &Edges) -> Result<Account> {
        self.read_events(cpu, window.start)?;
        let events = self.seen.get(&cpu).map_or(&[][..], |seen| &seen.events);
        Ok(account(cpu, events, window.clone(), own, edges))
    }

    /// Reads the events of a CPU from about `from_ns` on, unless they were read since the last poll. Only
    /// events that a spike of this poll needs are kept; the collector's ring has the others.
    fn read_events(&mut self, cpu: u32, from_ns: u64) -> Result<()> {
        if self.seen.get(&cpu).is_some_and(|seen| seen.from_ns <= from_ns) {
            return Ok(());
        }
        if self.seen.values().map(|seen| seen.events.len()).sum::<usize>() > HELD {
            self.seen.clear();
        }
        // A wakeup from another CPU lacks the priority: of several threads, that of the one that preempts
        // least.
        let of_cpu = self.own.get(&cpu).into_iter().flatten();
        let prio = of_cpu.filter_map(|thread| self.facts.priorities.get(thread)).max().copied();
        let (mut events, overwritten) = self.collector.since(cpu, from_ns)?;
        for event in &mut events {
            if let EventKind::Kept(kept) = &mut event.kind {
                kept.in_user_mode |= is_in_user_mode(&kept.stack, &self.facts.names);
                kept.at_edge = is_at_edge(&kept.stack, &self.facts.names);
                kept.outer = outer(&kept.stack, &self.facts.names).to_vec();
                kept.priorities.1 = kept.priorities.1.or(prio);
            }
        }
        *self.overwritten.entry(cpu).or_default() += overwritten;
        self.seen.insert(cpu, Seen { from_ns, events });
        Ok(())
    }

    fn summary(&self) -> Causes {
        Causes {
            collector: self.collector.collector(),
            could_not_see: self.could_not_see.clone(),
            not_tried: self.collector.not_tried().to_vec(),
            lost_events: self.lost_events,
            edges: self.longest.iter().map(|(cpu, edges)| edges_of(*cpu, edges)).collect(),
        }
    }
}

fn edges_of(cpu: u32, edges: &Edges) -> cause::Edges {
    let Edges { entry_ns, exit_ns, return_ns } = *edges;
    cause::Edges { cpu, entry_ns, exit_ns, return_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Depth;
    use crate::event::{ContextKind, Task, Vector};
    use evidence::cause::Collector;
    use evidence::manifest::RowKey;
    use std::collections::VecDeque;

    const TIMER: ContextKind = ContextKind::Vector(Vector::LocalTimer);

    fn at(monotonic_ns: u64, kind: EventKind) -> Event {
        Event { monotonic_ns, cpu: 1, kind }
    }

    /// A thread measures from the first event on, and a timer interrupts it for 2 us.
    fn story(from_ns: u64) -> Vec<Event> {
        let to = Task { pid: 7, ..Task::default() };
        vec![
            at(from_ns, EventKind::Switch { from: 0, to }),
            at(from_ns + 10_000, EventKind::Enter(TIMER)),
            at(from_ns + 12_000, EventKind::Exit(TIMER)),
        ]
    }

    /// The events of the collector, by poll.
    #[derive(Debug)]
    struct Script(VecDeque<(Vec<Event>, u64)>);

    impl Collect for Script {
        fn collector(&self) -> Collector {
            Collector::Bpf
        }

        fn could_not_see(&self) -> &[String] {
            &[]
        }

        fn own(&mut self, _: u32, _: &[u32]) -> Result<()> {
            Ok(())
        }

        fn take(&mut self, _: u32) -> Result<(Vec<Event>, u64)> {
            unreachable!("events stay in the ring")
        }

        fn since(&mut self, _: u32, _: u64) -> Result<(Vec<Event>, u64)> {
            Ok(self.0.pop_front().unwrap_or_default())
        }
    }

    fn explainer(polls: impl IntoIterator<Item = (Vec<Event>, u64)>) -> Explainer {
        let spec = WatchSpec { cpus: CpuSet::from_iter([1]), depth: Depth::Busy };
        let script = Box::new(Script(polls.into_iter().collect()));
        let events = Some(Events::of(script, &spec, &Snapshot::default()));
        let mut explainer = Explainer { events, cpus: spec.cpus, ..Explainer::default() };
        explainer.arm(&[(1, 7)]);
        explainer
    }

    fn explained(explainer: &mut Explainer, monotonic_ns: u64, latency_ns: u64) -> Spike {
        let mut spike =
            Spike { monotonic_ns, ..Spike::new(RowKey::new("spin", "idle", 1, None), latency_ns) };
        explainer.poll();
        explainer.explain(&mut spike);
        spike
    }

    fn durations(spike: &Spike) -> (Vec<(CauseKind, Option<u64>)>, Option<u64>) {
        let causes = spike.causes.iter().map(|cause| (cause.kind, cause.duration_ns));
        (causes.collect(), spike.unexplained_ns)
    }

    #[test]
    fn a_spike_has_the_causes_of_its_events() {
        let mut explainer = explainer([(story(1_000), 0)]);
        let spike = explained(&mut explainer, 10_500, 3_000);
        assert_eq!(durations(&spike), (vec![(CauseKind::Timer, Some(2_000))], Some(1_000)));
        assert_eq!(explainer.summary().unwrap().lost_events, 0);
    }

    #[test]
    fn a_moved_thread_has_the_causes_of_both_cpus() {
        let other = |pid| Task { pid, comm: format!("task-{pid}"), ..Task::default() };
        let to_other = |monotonic_ns, pid| at(monotonic_ns, EventKind::Switch { from: 7, to: other(pid) });
        let moved = |monotonic_ns| at(monotonic_ns, EventKind::Migrate { pid: 7, to: 2 });
        // What comes to the first CPU afterwards, and was on the second one before, is innocent.
        let first = vec![to_other(1_000, 20), moved(4_000), to_other(4_500, 21)];
        let second = vec![to_other(1_000, 30), moved(4_000), to_other(5_000, 31)];
        let mut explainer = explainer([(first, 0), (second, 0)]);
        let spike = explained(&mut explainer, 2_000, 6_000);
        let told = spike.causes.iter().map(|cause| (cause.name.as_str(), cause.begin_ns, cause.duration_ns));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                ("task-20", Some(0), Some(2_000)),
                ("task-30", Some(2_000), Some(1_000)),
                ("to cpu 2", Some(2_000), Some(0)),
                ("task-31", Some(3_000), Some(3_000))
            ]
        );
        assert_eq!(spike.unexplained_ns, Some(0));
    }

    #[test]
    fn a_followed_loop_is_not_explained_by_events() {
        let mut explainer = explainer([(story(1_000), 0)]);
        explainer.follows(&RowKey::new("spin", "idle", 1, None));
        let spike = explained(&mut explainer, 10_500, 3_000);
        assert_eq!(durations(&spike), (vec![], Some(3_000)));
    }

    #[test]
    fn counts_overwritten_events_that_a_spike_needed() {
        let hole = || story(2_000_000);
        let mut explainer = explainer([(story(1_000), 0), (hole(), 500), (hole(), 0), (hole(), 0)]);
        explained(&mut explainer, 10_500, 3_000);
        // All events that this spike needs come after the hole.
        let whole = explained(&mut explainer, 2_009_500, 3_000);
        assert_eq!((durations(&whole).1, explainer.summary().unwrap().lost_events), (Some(1_000), 0));
        let cut = explained(&mut explainer, 1_999_000, 5_000);
        assert_eq!(
            (durations(&cut), explainer.summary().unwrap().lost_events),
            ((Vec::new(), Some(5_000)), 500)
        );
        assert_eq!(cut.unexplained_detail.as_deref(), Some(OVERWRITTEN));
        explained(&mut explainer, 1_999_000, 5_000);
        assert_eq!(explainer.summary().unwrap().lost_events, 500, "once");
    }

    #[test]
    fn the_begin_before_the_ring_stays_unexplained() {
        let mut explainer = explainer([(story(5_000_000), 9)]);
        let spike = explained(&mut explainer, 1_000_000, 4_013_000);
        assert_eq!(durations(&spike), (vec![(CauseKind::Timer, Some(2_000))], Some(4_011_000)));
        assert_eq!(explainer.summary().unwrap().lost_events, 9);
    }

    #[test]
    fn reports_edges_that_cannot_be_measured() {
        let mut explainer = explainer([(Vec::new(), 0), (story(1_000), 0)]);
        // No test machine has so many CPUs.
        explainer.calibrate(&CpuSet::from_iter([1023]));
        let summary = explainer.summary().unwrap();
        assert!(
            summary
                .could_not_see
                .iter()
                .any(|line| line.starts_with("entry and exit of interruptions on cpu 1023: "))
        );
        assert_eq!(summary.edges, [cause::Edges { cpu: 1023, ..cause::Edges::default() }]);
    }
}
