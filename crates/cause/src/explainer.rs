// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a run's spikes get their causes: the collector that was asked for, else the best that is allowed
//! here. The control thread asks, on a housekeeping CPU; only a calibration runs on measured CPUs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use evidence::cause::{self, Cause, Causes, Choice, Collector, OnSibling};
use evidence::manifest::{RowKey, Spike};
use machine::{CpuSet, Snapshot};

use crate::Result;
use crate::account::{Account, account};
use crate::calibrate::{Windows, calibrated};
use crate::causes::{KernelFacts, causes};
use crate::collect::Collect;
use crate::edges::Edges;
use crate::event::Event;
use crate::kept::priority;
use crate::names::Names;
use crate::start::{Started, WatchSpec, start};
use crate::suspects::Suspects;
use crate::unseen::Unseen;

/// The collector of a run, and what it has seen. [`Explainer::default`] has none, and explains nothing.
#[derive(Debug, Default)]
pub struct Explainer {
    events: Option<Events>,
    /// The counters, where there are no events.
    suspects: Option<Suspects>,
    cpus: CpuSet,
    /// Causes that whoever measures knows itself, by the spike.
    known: BTreeMap<SpikeName, Vec<Cause>>,
    has_known: bool,
    /// What a reader of the evidence should know.
    notes: Vec<String>,
}

/// What names a spike of a row: the row's probe and thread, and the moment.
type SpikeName = (String, Option<String>, u64);

/// Spikes whose causes are known, at the most, and how long a spike is waited for: those that are never
/// listed must not pile up.
const KNOWN: usize = 10_000;
const WAITED_FOR_NS: u64 = 10_000_000_000;

/// A collector of events, and what is known of the CPUs that it watches.
#[derive(Debug)]
struct Events {
    collector: Box<dyn Collect>,
    unseen: Unseen,
    facts: KernelFacts,
    siblings: BTreeMap<u32, CpuSet>,
    own: BTreeMap<u32, Vec<u32>>,
    /// What entry and exit take on each CPU, as last measured; and the longest of all rows.
    edges: BTreeMap<u32, Edges>,
    longest: BTreeMap<u32, Edges>,
    /// What was read of each CPU since the last look: spikes come together.
    seen: BTreeMap<u32, Seen>,
    /// Events of each CPU that were overwritten untold, and not counted as lost yet.
    overwritten: BTreeMap<u32, u64>,
    could_not_see: Vec<String>,
    lost_events: u64,
}

/// What was read of a CPU.
#[derive(Debug)]
struct Seen {
    /// All from about then on.
    from_ns: u64,
    events: Vec<Event>,
}

/// Events that are held while another CPU is read; those of more are read again where they are needed.
const HELD: usize = 8_192;

impl Explainer {
    /// Starts the collector of `choice`; an error where that is a certain collector and this machine does not
    /// have it.
    pub fn start(choice: Choice, spec: &WatchSpec, machine: &Snapshot) -> Result<Explainer> {
        if choice == Choice::Off {
            return Ok(Explainer::default());
        }
        let mut explainer = Explainer { cpus: spec.cpus.clone(), ..Explainer::default() };
        match start(choice, spec, machine)? {
            Started::Events(collector) => explainer.events = Some(Events::of(collector, spec, machine)),
            Started::Counters { because } => {
                let note = |why| format!("spikes have suspects instead of causes with times: {why}");
                explainer.notes = because.into_iter().map(note).collect();
                explainer.suspects = Some(Suspects::on(Path::new("/"), &spec.cpus));
            }
        }
        Ok(explainer)
    }

    /// What was noticed since this was last asked.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// How causes were collected so far; nothing where they were not.
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

    /// Measures what entry and exit take on each of `cpus`, by interrupting a thread of its own there. Its
    /// caller runs elsewhere, and whatever measures on them sleeps.
    pub fn calibrate(&mut self, cpus: &CpuSet) {
        self.with_events(|events| events.calibrate(cpus));
    }

    /// A row begins: each of these threads will measure on that CPU, (CPU, thread).
    pub fn arm(&mut self, threads: &[(u32, u32)]) {
        self.with_events(|events| events.arm(threads));
        if let Some(suspects) = &mut self.suspects {
            suspects.restart();
        }
    }

    /// Called four times a second while a row is measured, before its spikes are taken.
    pub fn look(&mut self) {
        if !self.known.is_empty() {
            let oldest_ns = rt::clock::monotonic_ns().saturating_sub(WAITED_FOR_NS);
            self.known.retain(|(.., monotonic_ns), _| *monotonic_ns >= oldest_ns);
        }
        if let Some(events) = &mut self.events {
            events.look_again();
        }
        if let Some(suspects) = &mut self.suspects {
            suspects.look();
        }
    }

    /// The causes of the spike of this row that begins then: they are not looked for.
    pub fn knows(&mut self, key: &RowKey, monotonic_ns: u64, causes: Vec<Cause>) {
        self.has_known = true;
        if self.known.len() < KNOWN {
            self.known.insert((key.probe.clone(), key.thread_name.clone(), monotonic_ns), causes);
        }
    }

    /// Forgets the causes of spikes that begin before that moment: they were explained, or are not listed.
    pub fn forget_before(&mut self, monotonic_ns: u64) {
        self.known.retain(|(.., begin_ns), _| *begin_ns >= monotonic_ns);
    }

    /// Adds to `spike`, which ended at most some hundred milliseconds ago, what is known of it.
    pub fn explain(&mut self, spike: &mut Spike) {
        let name = (spike.key.probe.clone(), spike.key.thread_name.clone(), spike.monotonic_ns);
        if let Some(causes) = self.known.remove(&name) {
            let explained: u64 = causes.iter().filter_map(|cause| cause.duration_ns).sum();
            spike.unexplained_ns = Some(spike.latency_ns.saturating_sub(explained));
            spike.causes = causes;
            return;
        }
        self.with_events(|events| events.explain(spike));
        if let Some(suspects) = &mut self.suspects {
            suspects.explain(spike);
        }
    }

    /// Lets the collector do something; one that fails is dropped, and the run goes on with the counters.
    fn with_events(&mut self, act: impl FnOnce(&mut Events) -> Result<()>) {
        if let Some(events) = &mut self.events
            && let Err(error) = act(events)
        {
            self.notes.push(format!("spikes have suspects instead of causes from here on: {error}"));
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
            edges: BTreeMap::new(),
            longest: BTreeMap::new(),
            seen: BTreeMap::new(),
            overwritten: BTreeMap::new(),
            could_not_see,
            lost_events: 0,
        }
    }

    /// Measures what entry and exit take on each of `cpus`, by interrupting a thread of its own there. Its
    /// caller runs elsewhere, and whatever measures on them sleeps.
    fn calibrate(&mut self, cpus: &CpuSet) -> Result<()> {
        for cpu in cpus.iter() {
            let edges = match Windows::on(cpu, |thread| self.arm(&[(cpu, thread)]))? {
                Ok(windows) => {
                    self.look_again();
                    self.look(cpu, windows.begin_ns())?;
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

    /// Says which threads measure, by their CPU.
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
        self.unseen.begin(self.own.keys().copied().collect());
        Ok(())
    }

    /// Forgets what the rings held: the next spike looks again.
    fn look_again(&mut self) {
        self.unseen.look();
        self.seen.clear();
    }

    /// Fills in what happened in a spike, and on the siblings of its CPU.
    fn explain(&mut self, spike: &mut Spike) -> Result<()> {
        let cpu = spike.key.cpu;
        let window = spike.monotonic_ns..spike.monotonic_ns + spike.latency_ns;
        let edges = self.edges.get(&cpu).copied().unwrap_or_default();
        let of_cpu = self.account(cpu, &window, &edges)?;
        spike.causes = causes(&of_cpu, window.start, &self.facts);
        let unseen = self.unseen.explain(cpu, &window, &of_cpu.longest_unexplained);
        let explained: u64 = unseen.iter().filter_map(|cause| cause.duration_ns).sum();
        spike.unexplained_ns = Some(of_cpu.unexplained_ns - explained);
        spike.causes.extend(unseen);
        spike.causes.sort_by_key(|cause| cause.begin_ns.unwrap_or(u64::MAX));
        if !of_cpu.is_whole {
            // At the most as many of this spike's.
            self.lost_events += self.overwritten.remove(&cpu).unwrap_or(0);
        }
        for sibling in self.siblings.get(&cpu).cloned().unwrap_or_default().iter() {
            let of_sibling = self.account(sibling, &window, &Edges::default())?;
            let causes = causes(&of_sibling, window.start, &self.facts);
            spike.siblings.extend(causes.into_iter().map(|cause| OnSibling { cpu: sibling, cause }));
        }
        Ok(())
    }

    /// What had a CPU in a window.
    fn account(&mut self, cpu: u32, window: &Range<u64>, edges: &Edges) -> Result<Account> {
        self.look(cpu, window.start)?;
        let own = self.own.get(&cpu).map_or(&[][..], Vec::as_slice);
        let events = self.seen.get(&cpu).map_or(&[][..], |seen| &seen.events);
        Ok(account(cpu, events, window.clone(), own, edges))
    }

    /// Reads the events of a CPU from about `from_ns` on, where they were not read since the last look. The
    /// collector's ring is the memory: nothing is kept here that no spike of this look needs.
    fn look(&mut self, cpu: u32, from_ns: u64) -> Result<()> {
        if self.seen.get(&cpu).is_some_and(|seen| seen.from_ns <= from_ns) {
            return Ok(());
        }
        if self.seen.values().map(|seen| seen.events.len()).sum::<usize>() > HELD {
            self.seen.clear();
        }
        let (events, overwritten) = self.collector.since(cpu, from_ns)?;
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
    use crate::event::{ContextKind, EventKind, Task, Vector};
    use evidence::cause::{CauseKind, Collector};
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

    /// What a collector gives, one look after the other.
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
            unreachable!("events stay there")
        }

        fn since(&mut self, _: u32, _: u64) -> Result<(Vec<Event>, u64)> {
            Ok(self.0.pop_front().unwrap_or_default())
        }
    }

    fn explainer(looks: impl IntoIterator<Item = (Vec<Event>, u64)>) -> Explainer {
        let spec = WatchSpec { cpus: CpuSet::from_iter([1]), depth: Depth::Busy };
        let script = Box::new(Script(looks.into_iter().collect()));
        let events = Some(Events::of(script, &spec, &Snapshot::default()));
        let mut explainer = Explainer { events, cpus: spec.cpus, ..Explainer::default() };
        explainer.arm(&[(1, 7)]);
        explainer
    }

    fn explained(explainer: &mut Explainer, monotonic_ns: u64, latency_ns: u64) -> Spike {
        let mut spike = Spike {
            key: RowKey {
                probe: "spin".into(),
                load: "idle".into(),
                cpu: 1,
                period_ns: None,
                thread_name: None,
            },
            at_ns: 0,
            monotonic_ns,
            wall_time: None,
            latency_ns,
            missed: 0,
            causes: Vec::new(),
            unexplained_ns: None,
            siblings: Vec::new(),
        };
        explainer.look();
        explainer.explain(&mut spike);
        spike
    }

    fn durations(spike: &Spike) -> (Vec<(CauseKind, Option<u64>)>, Option<u64>) {
        let causes = spike.causes.iter().map(|cause| (cause.kind, cause.duration_ns));
        (causes.collect(), spike.unexplained_ns)
    }

    #[test]
    fn a_spike_has_what_the_ring_tells_of_it() {
        let mut explainer = explainer([(story(1_000), 0)]);
        let spike = explained(&mut explainer, 10_500, 3_000);
        assert_eq!(durations(&spike), (vec![(CauseKind::Timer, Some(2_000))], Some(1_000)));
        assert_eq!(explainer.summary().unwrap().lost_events, 0);
    }

    #[test]
    fn events_that_were_overwritten_are_counted_where_a_spike_misses_them() {
        let hole = || story(2_000_000);
        let mut explainer = explainer([(story(1_000), 0), (hole(), 500), (hole(), 0), (hole(), 0)]);
        explained(&mut explainer, 10_500, 3_000);
        // All that this spike needs has come after the hole.
        let whole = explained(&mut explainer, 2_009_500, 3_000);
        assert_eq!((durations(&whole).1, explainer.summary().unwrap().lost_events), (Some(1_000), 0));
        let cut = explained(&mut explainer, 1_999_000, 5_000);
        assert_eq!(
            (durations(&cut), explainer.summary().unwrap().lost_events),
            ((Vec::new(), Some(5_000)), 500)
        );
        explained(&mut explainer, 1_999_000, 5_000);
        assert_eq!(explainer.summary().unwrap().lost_events, 500, "once");
    }

    #[test]
    fn of_a_spike_longer_than_the_ring_the_beginning_stays_unexplained() {
        let mut explainer = explainer([(story(5_000_000), 9)]);
        let spike = explained(&mut explainer, 1_000_000, 4_013_000);
        assert_eq!(durations(&spike), (vec![(CauseKind::Timer, Some(2_000))], Some(4_011_000)));
        assert_eq!(explainer.summary().unwrap().lost_events, 9);
    }

    #[test]
    fn entry_and_exit_that_cannot_be_measured_are_said_and_given_to_nobody() {
        let mut explainer = explainer([(Vec::new(), 0), (story(1_000), 0)]);
        // No machine of a test has so many.
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
