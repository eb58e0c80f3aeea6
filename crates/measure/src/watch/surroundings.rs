// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine around a row: whether its CPUs are online, its clock source, what limits real-time threads,
//! and quotas of control groups.

use std::collections::BTreeMap;

use evidence::taint;
use inspect::cgroup::{Stops, stops};
use machine::CpuSet;

use super::GrantDifference;
use super::clocks::{CLOCK, ClockWatch, seconds, word};

const ONLINE: &str = "/sys/devices/system/cpu/online";
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The watched surroundings of the machine.
#[derive(Debug)]
pub(super) struct Surroundings {
    cpus: CpuSet,
    first: SurroundingState,
    /// The stops of each control group at the first poll that saw it, and at the last.
    stops: BTreeMap<String, (Stops, Stops)>,
    found: BTreeMap<(&'static str, Option<u32>), GrantDifference>,
    clocks: ClockWatch,
}

/// The content of files; `None` where there is none.
#[derive(Debug, Clone, PartialEq)]
struct SurroundingState {
    online: Option<CpuSet>,
    clock: Option<String>,
    rt_runtime: Option<String>,
}

impl Surroundings {
    pub fn now(cpus: CpuSet) -> Surroundings {
        Surroundings {
            cpus,
            first: SurroundingState::now(),
            stops: BTreeMap::new(),
            found: BTreeMap::new(),
            clocks: ClockWatch::now(),
        }
    }

    pub fn poll(&mut self) {
        self.files(&SurroundingState::now());
        self.clocks.poll();
    }

    fn files(&mut self, now: &SurroundingState) {
        let offline = now.online.as_ref().map(|online| self.cpus.without(online)).unwrap_or_default();
        for cpu in offline.iter() {
            self.add(
                taint::CPU_OFFLINE,
                format!("cpu {cpu} was offline while it was measured"),
                "find what takes CPUs offline, and keep it off",
                Some(cpu),
            );
        }
        if let (Some(before), Some(clock)) = (&self.first.clock, &now.clock)
            && before != clock
        {
            let found =
                format!("the kernel changed its clock from {before} to {clock} while it was measured");
            self.add(taint::CLOCKSOURCE, found, "find out why in the kernel's log (clocksource, tsc)", None);
        }
        if let (Some(before), Some(runtime)) = (&self.first.rt_runtime, &now.rt_runtime)
            && before != runtime
        {
            let found =
                format!("kernel.sched_rt_runtime_us was {runtime} instead of {before} while it was measured");
            self.add(taint::RT_THROTTLING, found, "find what sets it, and keep it off", None);
        }
    }

    /// Takes in the stops of the control groups in `membership`.
    pub fn stops_of(&mut self, membership: String) {
        for (folder, now) in stops(&membership) {
            self.stops.entry(folder).or_insert((now, now)).1 = now;
        }
    }

    fn add(&mut self, code: &'static str, found: String, cure: &'static str, cpu: Option<u32>) {
        self.found.entry((code, cpu)).or_insert(GrantDifference { code, found, cure, cpu });
    }

    /// The differences.
    pub fn found(&self) -> Vec<GrantDifference> {
        let stopped = self.stops.iter().filter(|(_, (first, last))| last.times > first.times);
        let quota = stopped.map(|(folder, (first, last))| GrantDifference {
            code: taint::CPU_QUOTA,
            found: format!(
                "the quota of the control group {folder} stopped its ordinary tasks in {} periods, for {}",
                last.times - first.times,
                seconds(i128::from(last.length_ns.saturating_sub(first.length_ns)))
            ),
            cure: "write max to its cpu.max, or -1 to its cpu.cfs_quota_us",
            cpu: None,
        });
        let clocks = [
            (taint::SUSPENDED, self.clocks.slept(), "mask sleep.target while it measures"),
            (
                taint::CLOCK_SLEWED,
                self.clocks.slewed(),
                "let the time daemon settle first (chronyc waitsync)",
            ),
        ];
        let clocks = clocks
            .into_iter()
            .filter_map(|(code, found, cure)| Some(GrantDifference { code, found: found?, cure, cpu: None }));
        self.found.values().cloned().chain(clocks).chain(quota).collect()
    }

    /// Whether the wall clock was set, in words.
    pub fn wall_clock(&self) -> Option<String> {
        self.clocks.set()
    }
}

impl SurroundingState {
    fn now() -> SurroundingState {
        SurroundingState {
            online: word(ONLINE).and_then(|text| text.parse().ok()),
            clock: word(CLOCK),
            rt_runtime: word(RT_RUNTIME),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> SurroundingState {
        SurroundingState {
            online: "0-3".parse().ok(),
            clock: Some("tsc".into()),
            rt_runtime: Some("-1".into()),
        }
    }

    fn watched() -> Surroundings {
        Surroundings { first: seen(), ..Surroundings::now("2-3".parse().unwrap()) }
    }

    fn found(surroundings: &Surroundings) -> Vec<(&'static str, String)> {
        surroundings.found().into_iter().map(|found| (found.code, found.found)).collect()
    }

    #[test]
    fn a_machine_that_stays_as_it_was_differs_in_nothing() {
        let mut same = watched();
        // CPUs that are not measured may come and go, and what no file tells is no difference.
        for now in [
            seen(),
            SurroundingState { online: "2-3".parse().ok(), ..seen() },
            SurroundingState { online: None, clock: None, rt_runtime: None },
        ] {
            same.files(&now);
        }
        assert_eq!((found(&same), same.wall_clock()), (vec![], None));
    }

    #[test]
    fn a_measured_cpu_that_was_offline_is_found_later() {
        let mut watch = watched();
        watch.files(&SurroundingState { online: "0-2".parse().ok(), ..seen() });
        watch.files(&seen());
        let difference = &watch.found()[0];
        assert_eq!((difference.code, difference.cpu), ("cpu-offline", Some(3)));
    }

    #[test]
    fn every_measured_cpu_that_was_offline_is_named() {
        let cases: [(&[&str], &[u32]); 10] = [
            (&["0-1"], &[2, 3]),
            (&["0-1,3"], &[2]),
            (&["0-2", "0-1,3"], &[2, 3]),
            (&["0-3", "0-3", "0-2"], &[3]),
            (&["3"], &[2]),
            (&["0"], &[2, 3]),
            (&["0-1,4-7"], &[2, 3]),
            (&["0-2", "0-2", "0-3"], &[3]),
            (&["1-3"], &[]),
            (&["0-63"], &[]),
        ];
        for (polls, offline) in cases {
            let mut watch = watched();
            polls
                .iter()
                .for_each(|online| watch.files(&SurroundingState { online: online.parse().ok(), ..seen() }));
            let found = watch.found();
            assert!(found.iter().all(|found| found.code == "cpu-offline"), "{polls:?}");
            assert_eq!(found.iter().filter_map(|found| found.cpu).collect::<Vec<_>>(), offline, "{polls:?}");
        }
    }

    #[test]
    fn a_changed_clock_and_real_time_limit_are_found() {
        let mut watch = watched();
        watch.files(&SurroundingState {
            clock: Some("hpet".into()),
            rt_runtime: Some("950000".into()),
            ..seen()
        });
        let found = found(&watch);
        assert_eq!(
            found[0],
            ("clocksource", "the kernel changed its clock from tsc to hpet while it was measured".into())
        );
        assert_eq!(found[1].0, "rt-throttling");
    }

    #[test]
    fn stops_count_from_the_first_look_at_a_group() {
        let mut watch = watched();
        let stop = |times| Stops { times, length_ns: times * 500_000_000 };
        watch.stops.insert("/cpu/a".into(), (stop(3), stop(3)));
        watch.stops.insert("/cpu/b".into(), (stop(1), stop(5)));
        assert_eq!(
            found(&watch),
            [(
                "cpu-quota",
                "the quota of the control group /cpu/b stopped its ordinary tasks in 4 periods, for 2.000 s"
                    .into()
            )]
        );
    }
}
