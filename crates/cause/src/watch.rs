// SPDX-License-Identifier: MIT OR Apache-2.0
//! A watch over measured CPUs: starts the collector that a machine allows, and explains spikes with it.

use std::collections::BTreeMap;
use std::path::Path;

use evidence::cause::{self, Causes, Choice, Collector, OnSibling};
use evidence::manifest::Spike;
use machine::snapshot::Cpu;
use machine::{CpuSet, Snapshot};

use crate::Result;
use crate::account::account;
use crate::bpf::Bpf;
use crate::calibrate::{Windows, calibrated};
use crate::depth::Depth;
use crate::edges::Edges;
use crate::event::Event;
use crate::names::Names;
use crate::rates::SentRate;
use crate::tracefs::{By, Tracefs};
use crate::unseen::Unseen;
use crate::{policy, senders, words};

/// What collects events.
#[derive(Debug)]
enum Source {
    Bpf(Box<Bpf>),
    Tracefs(Box<Tracefs>),
    /// What a test tells, one look after the other.
    #[cfg(test)]
    Told(std::collections::VecDeque<(Vec<Event>, u64)>),
}

impl Source {
    /// New events of a CPU, and how many were overwritten before they could be read.
    fn take(&mut self, cpu: u32) -> Result<(Vec<Event>, u64)> {
        match self {
            Source::Bpf(bpf) => bpf.take(cpu),
            Source::Tracefs(tracefs) => tracefs.take(cpu),
            #[cfg(test)]
            Source::Told(looks) => Ok(looks.pop_front().unwrap_or_default()),
        }
    }
}

/// What is watched.
#[derive(Debug, Clone)]
pub struct WatchSpec {
    /// The measured CPUs.
    pub cpus: CpuSet,
    /// How much of what happens there.
    pub depth: Depth,
}

/// A collector at work, and what it has seen.
#[derive(Debug)]
pub struct Watch {
    source: Source,
    unseen: Unseen,
    names: Names,
    siblings: BTreeMap<u32, CpuSet>,
    own: BTreeMap<u32, Vec<u32>>,
    /// What entry and exit take on each CPU, as last measured; and the longest of all rows.
    edges: BTreeMap<u32, Edges>,
    longest: BTreeMap<u32, Edges>,
    /// What was read of each CPU, the latest of it.
    seen: BTreeMap<u32, Seen>,
    could_not_see: Vec<String>,
    lost_events: u64,
}

/// What was read of a CPU.
#[derive(Debug, Default)]
struct Seen {
    events: Vec<Event>,
    /// Whether it is to be read again before the next spike is explained.
    is_old: bool,
    /// Events that were overwritten unread, and not counted as lost yet.
    overwritten: u64,
}

/// Events of one CPU that are kept.
const KEPT: usize = 32_768;

/// What came of asking for a watch.
#[derive(Debug)]
pub enum Started {
    /// It watches.
    Watching(Box<Watch>),
    /// Nothing here can collect events; the counters may.
    Counters {
        /// Why, in sentences.
        because: Vec<String>,
    },
}

/// Starts one of the collectors of events.
fn source(choice: Choice, is_asked: bool, asked: &WatchSpec, machine: &Snapshot) -> Result<Source> {
    let root = Path::new("/");
    let cpus = watched(asked, machine);
    let has_idle_states = have_idle_states(&cpus, machine);
    if choice == Choice::Bpf {
        policy::bpf(root, is_asked)?;
        policy::may_load()?;
        let bpf = Bpf::start(&cpus, asked.depth, has_idle_states)?;
        return Ok(Source::Bpf(Box::new(bpf)));
    }
    policy::tracefs(root, is_asked)?;
    let by = if choice == Choice::Osnoise { By::Osnoise } else { By::Events };
    Ok(Source::Tracefs(Box::new(Tracefs::start(root, &cpus, asked.depth, has_idle_states, by)?)))
}

impl Watch {
    /// Starts the collector that was asked for, or with `auto` the best that this machine allows.
    pub fn start(choice: Choice, asked: &WatchSpec, machine: &Snapshot) -> Result<Started> {
        let mut because = Vec::new();
        for one in [Choice::Bpf, Choice::Tracefs, Choice::Osnoise] {
            let is_asked = choice == one;
            if !is_asked && (choice != Choice::Auto || one == Choice::Osnoise) {
                continue;
            }
            match source(one, is_asked, asked, machine) {
                Ok(source) => {
                    return Ok(Started::Watching(Box::new(Watch::over(source, asked, machine))));
                }
                Err(error) if is_asked => return Err(error),
                Err(error) => because.push(format!("no events by {one}: {}", error.why)),
            }
        }
        Ok(Started::Counters { because })
    }

    fn over(source: Source, asked: &WatchSpec, machine: &Snapshot) -> Watch {
        let names = Names::read(Path::new("/"));
        let could_not_see = match &source {
            Source::Bpf(bpf) => bpf.could_not_see().to_vec(),
            Source::Tracefs(tracefs) => tracefs.could_not_see().to_vec(),
            #[cfg(test)]
            Source::Told(_) => Vec::new(),
        };
        let mut watch = Watch {
            source,
            unseen: Unseen::of(Path::new("/"), machine.hypervisor.is_some()),
            names,
            siblings: siblings(asked, machine),
            own: BTreeMap::new(),
            edges: BTreeMap::new(),
            longest: BTreeMap::new(),
            seen: BTreeMap::new(),
            could_not_see,
            lost_events: 0,
        };
        if !watch.names.knows_functions() {
            let line = "names of the kernel's functions: /proc/kallsyms shows no addresses; set kernel.kptr_restrict to 0 or 1";
            watch.could_not_see.push(line.into());
        }
        watch
    }

    /// Which one collects.
    pub fn collector(&self) -> Collector {
        match self.source {
            Source::Bpf(_) => Collector::Bpf,
            Source::Tracefs(ref tracefs) => match tracefs.by() {
                By::Events => Collector::Tracefs,
                By::Osnoise => Collector::Osnoise,
            },
            #[cfg(test)]
            Source::Told(_) => Collector::Bpf,
        }
    }

    /// Measures what entry and exit take on each of `cpus`, by interrupting a thread of its own there. Its caller runs
    /// elsewhere, and whatever measures on them sleeps.
    pub fn calibrate(&mut self, cpus: &CpuSet) -> Result<()> {
        for cpu in cpus.iter() {
            let edges = match Windows::on(cpu, |thread| self.armed(&[(cpu, thread)]))? {
                Ok(windows) => {
                    self.look_again();
                    self.look(cpu)?;
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
    pub fn armed(&mut self, threads: &[(u32, u32)]) -> Result<()> {
        self.own.clear();
        for (cpu, thread) in threads {
            self.own.entry(*cpu).or_default().push(*thread);
        }
        for (cpu, threads) in &self.own {
            match &mut self.source {
                Source::Bpf(bpf) => bpf.own(*cpu, threads)?,
                Source::Tracefs(tracefs) => tracefs.own(*cpu, threads),
                #[cfg(test)]
                Source::Told(_) => {}
            }
        }
        self.unseen.begin(self.own.keys().copied().collect());
        Ok(())
    }

    /// Forgets what the rings held: the next spike looks again.
    pub fn look_again(&mut self) {
        self.unseen.look();
        self.seen.values_mut().for_each(|seen| seen.is_old = true);
    }

    /// Fills in what happened in a spike, and on the siblings of its CPU.
    pub fn explain(&mut self, spike: &mut Spike) -> Result<()> {
        let cpu = spike.key.cpu;
        let window = spike.monotonic_ns..spike.monotonic_ns + spike.latency_ns;
        self.look(cpu)?;
        let own = self.own.get(&cpu).map_or(&[][..], Vec::as_slice);
        let Some(seen) = self.seen.get_mut(&cpu) else { return Ok(()) };
        let edges = self.edges.get(&cpu).copied().unwrap_or_default();
        let told = account(cpu, &seen.events, window.clone(), own, &edges);
        spike.causes = words::causes(&told, window.start, &self.names);
        let unseen = self.unseen.explain(cpu, &window, &told.longest_unexplained);
        let explained: u64 = unseen.iter().filter_map(|cause| cause.duration_ns).sum();
        spike.unexplained_ns = Some(told.unexplained_ns - explained);
        spike.causes.extend(unseen);
        spike.causes.sort_by_key(|cause| cause.begin_ns.unwrap_or(u64::MAX));
        if !told.is_whole {
            // At the most as many of this spike's.
            self.lost_events += std::mem::take(&mut seen.overwritten);
        }
        for sibling in self.siblings.get(&cpu).cloned().unwrap_or_default().iter() {
            self.look(sibling)?;
            let own = self.own.get(&sibling).map_or(&[][..], Vec::as_slice);
            let edges = Edges::default();
            let told = account(sibling, &self.seen[&sibling].events, window.clone(), own, &edges);
            let causes = words::causes(&told, window.start, &self.names);
            spike.siblings.extend(causes.into_iter().map(|cause| OnSibling { cpu: sibling, cause }));
        }
        Ok(())
    }

    /// Who sent IPIs to a watched CPU in the `interval_ns` since this was last asked, the most first, and how many events
    /// were overwritten unread.
    pub fn senders(&mut self, cpu: u32, interval_ns: u64) -> Result<(Vec<SentRate>, u64)> {
        let (events, overwritten) = self.source.take(cpu)?;
        Ok((senders::rates(cpu, &events, &self.names, interval_ns), overwritten))
    }

    /// The events of a watched CPU since this was last asked, in the order of time; for those who explain nothing.
    pub fn take(&mut self, cpu: u32) -> Result<Vec<Event>> {
        Ok(self.source.take(cpu)?.0)
    }

    fn look(&mut self, cpu: u32) -> Result<()> {
        if self.seen.get(&cpu).is_some_and(|seen| !seen.is_old) {
            return Ok(());
        }
        let (new, overwritten) = self.source.take(cpu)?;
        let seen = self.seen.entry(cpu).or_default();
        if overwritten > 0 {
            // What came before the hole says nothing of what comes after it.
            seen.events.clear();
            seen.overwritten += overwritten;
        }
        seen.events.extend(new);
        seen.events.sort_by_key(|event| event.at_ns);
        let beyond = seen.events.len().saturating_sub(KEPT);
        seen.events.drain(..beyond);
        seen.is_old = false;
        Ok(())
    }

    /// How causes were collected so far.
    pub fn summary(&self) -> Causes {
        Causes {
            collector: self.collector(),
            could_not_see: self.could_not_see.clone(),
            lost_events: self.lost_events,
            edges: self.longest.iter().map(|(cpu, edges)| edges_of(*cpu, edges)).collect(),
        }
    }
}

fn edges_of(cpu: u32, edges: &Edges) -> cause::Edges {
    let Edges { entry_ns, exit_ns, return_ns } = *edges;
    cause::Edges { cpu, entry_ns, exit_ns, return_ns }
}

/// Each measured CPU's siblings.
fn siblings(asked: &WatchSpec, machine: &Snapshot) -> BTreeMap<u32, CpuSet> {
    let of = |cpu: u32| {
        let one: CpuSet = [cpu].into_iter().collect();
        (cpu, machine.siblings_of(&one).without(&one).and(&machine.online()))
    };
    asked.cpus.iter().map(of).collect()
}

/// Whether one of these CPUs has a choice when it is idle.
fn have_idle_states(cpus: &CpuSet, machine: &Snapshot) -> bool {
    let choices = |cpu: &Cpu| cpu.idle_states.iter().filter(|state| !state.disabled).count();
    machine.cpus.iter().any(|cpu| cpus.contains(cpu.id) && choices(cpu) > 1)
}

/// The measured CPUs and their siblings.
fn watched(asked: &WatchSpec, machine: &Snapshot) -> CpuSet {
    let siblings = siblings(asked, machine);
    asked.cpus.iter().chain(siblings.values().flat_map(|set| set.iter().collect::<Vec<_>>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ContextKind, EventKind, Task, Vector};
    use evidence::cause::Kind;
    use evidence::manifest::RowKey;

    const TIMER: ContextKind = ContextKind::Vector(Vector::LocalTimer);

    fn at(at_ns: u64, what: EventKind) -> Event {
        Event { at_ns, cpu: 1, what }
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

    fn watch(looks: impl IntoIterator<Item = (Vec<Event>, u64)>) -> Watch {
        let asked = WatchSpec { cpus: CpuSet::from_iter([1]), depth: Depth::Busy };
        let mut watch = Watch::over(Source::Told(looks.into_iter().collect()), &asked, &Snapshot::default());
        watch.armed(&[(1, 7)]).unwrap();
        watch
    }

    fn explained(watch: &mut Watch, from_ns: u64, length_ns: u64) -> Spike {
        let mut spike = Spike {
            key: RowKey { probe: "spin".into(), load: "idle".into(), cpu: 1, period_ns: None },
            at_ns: 0,
            monotonic_ns: from_ns,
            wall_time: None,
            latency_ns: length_ns,
            missed: 0,
            causes: Vec::new(),
            unexplained_ns: None,
            siblings: Vec::new(),
        };
        watch.look_again();
        watch.explain(&mut spike).unwrap();
        spike
    }

    fn durations(spike: &Spike) -> (Vec<(Kind, Option<u64>)>, Option<u64>) {
        let causes = spike.causes.iter().map(|cause| (cause.kind, cause.duration_ns));
        (causes.collect(), spike.unexplained_ns)
    }

    #[test]
    fn a_spike_has_what_the_ring_tells_of_it() {
        let mut watch = watch([(story(1_000), 0)]);
        let spike = explained(&mut watch, 10_500, 3_000);
        assert_eq!(durations(&spike), (vec![(Kind::Timer, Some(2_000))], Some(1_000)));
        assert_eq!(watch.summary().lost_events, 0);
    }

    #[test]
    fn events_that_were_overwritten_are_counted_where_a_spike_misses_them() {
        let mut watch = watch([(story(1_000), 0), (story(2_000_000), 500), (Vec::new(), 0)]);
        explained(&mut watch, 10_500, 3_000);
        // All that this spike needs has come after the hole.
        let whole = explained(&mut watch, 2_009_500, 3_000);
        assert_eq!((durations(&whole).1, watch.summary().lost_events), (Some(1_000), 0));
        let cut = explained(&mut watch, 1_999_000, 5_000);
        assert_eq!((durations(&cut), watch.summary().lost_events), ((Vec::new(), Some(5_000)), 500));
        explained(&mut watch, 1_999_000, 5_000);
        assert_eq!(watch.summary().lost_events, 500, "once");
    }

    #[test]
    fn of_a_spike_longer_than_the_ring_the_beginning_stays_unexplained() {
        let mut watch = watch([(story(5_000_000), 9)]);
        let spike = explained(&mut watch, 1_000_000, 4_013_000);
        assert_eq!(durations(&spike), (vec![(Kind::Timer, Some(2_000))], Some(4_011_000)));
        assert_eq!(watch.summary().lost_events, 9);
    }

    #[test]
    fn entry_and_exit_that_cannot_be_measured_are_said_and_given_to_nobody() {
        let mut watch = watch([(Vec::new(), 0), (story(1_000), 0)]);
        // No machine of a test has so many.
        watch.calibrate(&CpuSet::from_iter([1023])).unwrap();
        let told_of = watch.summary();
        assert!(
            told_of
                .could_not_see
                .iter()
                .any(|line| line.starts_with("entry and exit of interruptions on cpu 1023: "))
        );
        assert_eq!(told_of.edges, [cause::Edges { cpu: 1023, ..cause::Edges::default() }]);
    }
}
