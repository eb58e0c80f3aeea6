// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine around a row: whether its CPUs are online, its clocks, what limits real-time threads, and
//! quotas of control groups.

use std::collections::BTreeMap;

use evidence::taint;
use inspect::cgroup::{Stops, stops};
use machine::CpuSet;
use rt::clock::{boottime_ns, monotonic_ns, realtime_ns};

use super::GrantDifference;

const ONLINE: &str = "/sys/devices/system/cpu/online";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Clocks that differ by less have not been set: they are read one after the other.
const APART_NS: i128 = 1_000_000;

/// How often the clocks are read at a poll; the reading that took least counts.
const READINGS: usize = 5;

/// The watched surroundings of the machine.
#[derive(Debug)]
pub(super) struct Surroundings {
    cpus: CpuSet,
    first: SurroundingState,
    /// The stops of each control group at the first poll that saw it, and at the last.
    stops: BTreeMap<String, (Stops, Stops)>,
    found: BTreeMap<(&'static str, Option<u32>), GrantDifference>,
    clocks: Clocks,
    /// For how long the machine slept, and by how much its wall clock was set.
    slept_ns: i128,
    set_ns: i128,
}

/// The content of files; `None` where there is none.
#[derive(Debug, Clone, PartialEq)]
struct SurroundingState {
    online: Option<CpuSet>,
    clock: Option<String>,
    rt_runtime: Option<String>,
}

/// How far clocks are apart, and how long it took to read them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Clocks {
    /// CLOCK_BOOTTIME, which goes on while the machine sleeps, less CLOCK_MONOTONIC.
    boot_ns: i128,
    /// CLOCK_REALTIME less CLOCK_BOOTTIME.
    wall_ns: i128,
    width_ns: i128,
}

impl Surroundings {
    pub fn now(cpus: CpuSet) -> Surroundings {
        Surroundings {
            cpus,
            first: SurroundingState::now(),
            stops: BTreeMap::new(),
            found: BTreeMap::new(),
            clocks: Clocks::now(),
            slept_ns: 0,
            set_ns: 0,
        }
    }

    pub fn poll(&mut self) {
        self.files(&SurroundingState::now());
        self.time(Clocks::now());
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

    fn time(&mut self, now: Clocks) {
        let apart_ns = APART_NS + now.width_ns + self.clocks.width_ns;
        let beyond = |ns: i128| if ns.abs() > apart_ns { ns } else { 0 };
        self.slept_ns += beyond(now.boot_ns - self.clocks.boot_ns);
        self.set_ns += beyond(now.wall_ns - self.clocks.wall_ns);
        self.clocks = now;
        if self.slept_ns > 0 {
            let found = format!("the machine slept for {} while it was measured", seconds(self.slept_ns));
            self.found.remove(&(taint::SUSPENDED, None));
            self.add(taint::SUSPENDED, found, "mask sleep.target while it measures", None);
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
        self.found.values().cloned().chain(quota).collect()
    }

    /// Whether the wall clock was set, in words.
    pub fn wall_clock(&self) -> Option<String> {
        (self.set_ns != 0).then(|| {
            let way = if self.set_ns > 0 { "forward" } else { "back" };
            format!(
                "the wall clock was set {way} by {} meanwhile: times of day before that are by the old one; latencies are by \
                 CLOCK_MONOTONIC and are not touched",
                seconds(self.set_ns)
            )
        })
    }
}

fn seconds(ns: i128) -> String {
    format!("{:.3} s", ns.unsigned_abs() as f64 / 1e9)
}

impl SurroundingState {
    fn now() -> SurroundingState {
        let word = |path: &str| untrusted::text(path).ok().map(|text| text.trim().to_string());
        SurroundingState {
            online: word(ONLINE).and_then(|text| text.parse().ok()),
            clock: word(CLOCK),
            rt_runtime: word(RT_RUNTIME),
        }
    }
}

impl Clocks {
    fn now() -> Clocks {
        let read = || {
            let before = i128::from(monotonic_ns());
            let (boot, wall) = (i128::from(boottime_ns()), i128::from(realtime_ns()));
            let width_ns = i128::from(monotonic_ns()) - before;
            Clocks { boot_ns: boot - before, wall_ns: wall - boot, width_ns }
        };
        let first = read();
        (1..READINGS)
            .map(|_| read())
            .fold(first, |best, next| if next.width_ns < best.width_ns { next } else { best })
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
        let clocks = Clocks { boot_ns: 0, wall_ns: 0, width_ns: 0 };
        Surroundings { first: seen(), clocks, ..Surroundings::now("2-3".parse().unwrap()) }
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
        same.look_at_live_clocks();
        assert_eq!((found(&same), same.wall_clock()), (vec![], None));
    }

    impl Surroundings {
        fn look_at_live_clocks(&mut self) {
            self.clocks = Clocks::now();
            self.time(Clocks::now());
        }
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
    fn a_sleep_taints_and_a_set_wall_clock_is_noted() {
        let mut watch = watched();
        let clocks = |boot_ns, wall_ns| Clocks { boot_ns, wall_ns, width_ns: 50_000 };
        // As far apart as reading them one after the other may be.
        watch.time(clocks(900_000, -900_000));
        assert_eq!((found(&watch), watch.wall_clock()), (vec![], None));
        watch.time(clocks(5_000_000_000, -3_600_000_000_000));
        watch.time(clocks(5_000_000_000, -3_600_000_000_000));
        assert_eq!(
            found(&watch),
            [("suspended", "the machine slept for 4.999 s while it was measured".into())]
        );
        let noted = watch.wall_clock().unwrap();
        assert!(noted.starts_with("the wall clock was set back by 3599.999 s meanwhile"), "{noted}");
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
