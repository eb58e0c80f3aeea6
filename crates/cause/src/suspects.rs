// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suspects, for users without permission to trace. The control thread reads the kernel's counters once a
//! second. A counter of the spike's CPU that grew in the same second is a suspect, not a cause: its times are
//! unknown.
//!
//! Suspects are in the order of their growth above the row's mean: a regular tick does not explain a rare
//! spike.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use evidence::cause::{Cause, Causes, Collector};
use evidence::manifest::Spike;
use inspect::counters::Counters;
use machine::CpuSet;
use machine::counters::Grown;
use rt::clock::monotonic_ns;

/// Time between two readings.
const EVERY_NS: u64 = 1_000_000_000;

/// The number of readings that are kept: a spike is recorded within a second.
const READINGS: usize = 8;

/// Suspects of one spike.
const SUSPECTS: usize = 8;

/// The evidence's note about this collector.
const TIMES: &str = "times: counters name what happened in the same second, as suspects; as root --causes auto gives \
                     each spike its timeline, and each IPI its sender";

/// Readings of the counters while a row is measured.
#[derive(Debug)]
pub struct Suspects {
    root: PathBuf,
    cpus: CpuSet,
    first: Option<Reading>,
    readings: VecDeque<Reading>,
    unread: Vec<String>,
    /// The last answer: the spikes of a burst share it.
    last: Option<(u64, u64, u32, Vec<Cause>)>,
}

#[derive(Debug, Clone)]
struct Reading {
    at_ns: u64,
    counters: Counters,
}

impl Suspects {
    /// Suspects on `cpus`, from the counters below `root`.
    pub fn on(root: &Path, cpus: &CpuSet) -> Suspects {
        let mut suspects = Suspects {
            root: root.to_path_buf(),
            cpus: cpus.clone(),
            first: None,
            readings: VecDeque::new(),
            unread: Vec::new(),
            last: None,
        };
        suspects.restart();
        suspects
    }

    /// The description of the collector in a bundle.
    pub fn summary(&self) -> Causes {
        let mut could_not_see = vec![TIMES.to_string()];
        could_not_see.extend(self.unread.iter().cloned());
        Causes {
            collector: Collector::Counters,
            could_not_see,
            not_tried: Vec::new(),
            lost_events: 0,
            edges: Vec::new(),
        }
    }

    /// A row begins.
    pub fn restart(&mut self) {
        self.readings.clear();
        self.last = None;
        self.read();
        self.first = self.readings.back().cloned();
    }

    fn read(&mut self) {
        // The time before the read, so that all values are from after a spike that ended by then.
        let at_ns = monotonic_ns();
        let counters = Counters::read(&self.root, &self.cpus);
        for what in counters.unread() {
            if !self.unread.contains(what) {
                self.unread.push(what.clone());
            }
        }
        self.take(at_ns, counters);
    }

    fn take(&mut self, at_ns: u64, counters: Counters) {
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(Reading { at_ns, counters });
    }

    fn read_at(&self) -> u64 {
        self.readings.back().map_or(0, |reading| reading.at_ns)
    }

    /// The counters of `cpu` that grew between the readings around `from_ns` and `to_ns`, the most unusual
    /// first.
    fn between(&mut self, from_ns: u64, to_ns: u64, cpu: u32) -> Vec<Cause> {
        let before = self.readings.iter().rev().find(|reading| reading.at_ns <= from_ns);
        let Some(before) = before.or(self.readings.front()) else { return Vec::new() };
        let Some(after) = self.readings.iter().find(|reading| reading.at_ns >= to_ns) else {
            return Vec::new();
        };
        if let Some((from, to, of, causes)) = &self.last
            && (*from, *to, *of) == (before.at_ns, after.at_ns, cpu)
        {
            return causes.clone();
        }
        let mut grown = after.counters.since(&before.counters);
        grown.retain(|one| one.cpu == cpu);
        let seconds = |from: u64, to: u64| to.saturating_sub(from).max(1) as f64 / 1e9;
        let length_s = seconds(before.at_ns, after.at_ns);
        let whole = self.first.as_ref();
        let whole =
            whole.map(|first| (after.counters.since(&first.counters), seconds(first.at_ns, after.at_ns)));
        let usual = |one: &Grown| {
            let of = |(all, row_s): &(Vec<Grown>, f64)| {
                let same = all.iter().find(|other| other.cpu == cpu && other.source == one.source);
                same.map_or(0.0, |same| same.count as f64 / row_s * length_s)
            };
            whole.as_ref().map_or(0.0, of)
        };
        let mut by_surprise: Vec<_> =
            grown.iter().map(|one| (one.count as f64 / (usual(one) + 1.0), one)).collect();
        by_surprise.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.source.cmp(&b.1.source)));
        let suspects = by_surprise.into_iter().take(SUSPECTS).map(|(_, one)| suspect(one));
        let causes: Vec<_> = suspects.collect();
        self.last = Some((before.at_ns, after.at_ns, cpu, causes.clone()));
        causes
    }

    /// Reads the counters, if the last reading is old.
    pub fn poll(&mut self) {
        if monotonic_ns().saturating_sub(self.read_at()) >= EVERY_NS {
            self.read();
        }
    }

    /// Gives a spike the suspects of its second.
    pub fn explain(&mut self, spike: &mut Spike) {
        let end_ns = spike.monotonic_ns.saturating_add(spike.latency_ns);
        if self.read_at() < end_ns {
            self.read();
        }
        spike.causes = self.between(spike.monotonic_ns, end_ns, spike.key.cpu);
    }
}

fn suspect(one: &Grown) -> Cause {
    Cause::suspect(one.source.class.into(), one.source.name.clone(), one.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::cause::CauseKind;
    use evidence::manifest::RowKey;

    fn counters(nvme: u64, tick: u64) -> Counters {
        let text =
            format!("CPU0 CPU1\n 45: 9 {nvme} x 1-edge nvme0q3\nLOC: 9 {tick} Local timer interrupts\n");
        Counters::parse([&text, "", "", ""], &CpuSet::from_iter([0, 1]))
    }

    fn spike(monotonic_ns: u64) -> Spike {
        Spike { monotonic_ns, ..Spike::new(RowKey::new("wakeup", "idle", 1, None), 50_000) }
    }

    /// Readings a second apart, of which the third has twelve of the disk's interrupts.
    fn watched() -> Suspects {
        let folder = tempfile::tempdir().unwrap();
        let mut suspects = Suspects::on(folder.path(), &CpuSet::from_iter([1]));
        suspects.readings.clear();
        for (second, (nvme, tick)) in [(0, 0), (1, 1_000), (13, 2_000), (13, 3_000)].into_iter().enumerate() {
            suspects.take(second as u64 * EVERY_NS, counters(nvme, tick));
        }
        suspects.first = suspects.readings.front().cloned();
        suspects
    }

    #[test]
    fn the_least_usual_counter_is_the_first_suspect() {
        let mut spike = spike(EVERY_NS + 500_000);
        watched().explain(&mut spike);
        let names: Vec<_> =
            spike.causes.iter().map(|cause| (cause.kind, cause.name.as_str(), cause.count)).collect();
        let expected =
            [(CauseKind::Irq, "45 nvme0q3", Some(12)), (CauseKind::Tick, "local timer", Some(1_000))];
        assert_eq!(names, expected);
        assert!(spike.causes.iter().all(Cause::is_suspect));
        assert_eq!(spike.unexplained_ns, None, "a suspect explains nothing");
    }

    #[test]
    fn a_spike_has_the_suspects_of_its_own_second() {
        let mut suspects = watched();
        let mut later = spike(2 * EVERY_NS + 500_000);
        suspects.explain(&mut later);
        let names: Vec<_> = later.causes.iter().map(|cause| cause.name.as_str()).collect();
        assert_eq!(names, ["local timer"]);
        // One across a reading has those of both seconds.
        let mut over = spike(2 * EVERY_NS - 20_000);
        suspects.explain(&mut over);
        assert_eq!(over.causes[0].count, Some(12));
        assert_eq!(over.causes[1].count, Some(2_000));
    }

    #[test]
    fn a_machine_without_counters_has_no_suspects_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut suspects = Suspects::on(folder.path(), &CpuSet::from_iter([1]));
        let mut spike = spike(5);
        suspects.explain(&mut spike);
        assert!(spike.causes.is_empty());
        let told = suspects.summary();
        assert_eq!(told.collector, Collector::Counters);
        assert!(told.could_not_see.contains(&"/proc/interrupts cannot be read".to_string()), "{told:?}");
    }
}
