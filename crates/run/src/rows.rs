// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a run: which threads measure on which CPUs, and what judges their series.

use std::num::NonZeroU64;
use std::time::Duration;

use evidence::manifest::RowKey;
use machine::Snapshot;
use measure::probes::ProbeKind;
use measure::program::LoopFound;
use measure::row::{MeasuringThread, RowPlan, RowSpec};
use measure::schedule::Schedule;
use measure::series::SeriesSpec;
use rt::Policy;
use rt::clock::Calibration;

use crate::spec::RunSpec;

/// How long a counter's rate is measured.
const CALIBRATION: Duration = Duration::from_millis(50);

/// A thread of a row before its probe is made.
struct ThreadPlan {
    series: SeriesSpec,
    schedule: Schedule,
    policy: Policy,
    /// The CPU of a second thread that has a part in it, and its policy.
    partner: Option<(u32, Policy)>,
}

/// The series of `kind` under `load`: on each CPU one for each schedule, the fastest first.
pub fn series(spec: &RunSpec, kind: &ProbeKind, load: &str) -> Vec<SeriesSpec> {
    let cpus = spec.cpus.iter();
    cpus.flat_map(|cpu| {
        schedules(spec, kind).into_iter().map(move |schedule| of(spec, kind, load, cpu, schedule))
    })
    .collect()
}

/// The series of a program's loops under `load`, one for each.
pub fn loops(spec: &RunSpec, load: &str, loops: &[LoopFound]) -> Vec<SeriesSpec> {
    let first = spec.cpus.iter().next().unwrap_or(0);
    let series = |found: &LoopFound| {
        let cpu = found.cpu.unwrap_or(first);
        let series = of(spec, &ProbeKind::Loop, load, cpu, Schedule::Periodic(found.period));
        let key = RowKey { thread_name: found.thread_name.clone(), ..series.key };
        SeriesSpec { key, followed: found.followed.clone(), ..series }
    };
    loops.iter().map(series).collect()
}

/// The row of `kind`, a probe whose threads are ours, under `load`.
pub fn row(spec: &RunSpec, kind: &ProbeKind, load: &str, machine: &Snapshot) -> rt::Result<RowPlan> {
    let mut known = None;
    let mut clock = || match known {
        Some(clock) => Ok(clock),
        None => Calibration::measure(CALIBRATION).inspect(|clock| known = Some(*clock)),
    };
    let mut threads = Vec::new();
    for place in places(spec, kind, load)? {
        let cpu = place.series.key.cpu;
        let affinity = match place.policy {
            Policy::Deadline { .. } => machine.deadline_cpus(cpu).iter().collect(),
            _ => vec![cpu],
        };
        let Some(probe) = kind.probe(place.schedule, place.partner, &mut clock)? else { continue };
        threads.push(MeasuringThread { probe, series: place.series, policy: place.policy, affinity });
    }
    let spec = RowSpec {
        warm_up_ns: spec.warm_up_ns,
        length: spec.length,
        lock_memory: true,
        isolate: spec.isolate,
    };
    Ok(RowPlan { threads, spec })
}

fn schedules(spec: &RunSpec, kind: &ProbeKind) -> Vec<Schedule> {
    kind.schedules(&spec.periods.iter().map(|period| period.ns).collect::<Vec<_>>())
}

fn of(spec: &RunSpec, kind: &ProbeKind, load: &str, cpu: u32, schedule: Schedule) -> SeriesSpec {
    let limit_of = |period: NonZeroU64| spec.periods.iter().find(|known| known.ns == period);
    let limit_ns = match schedule {
        Schedule::Periodic(period) => limit_of(period).map_or(spec.limit_ns, |known| known.limit_ns),
        Schedule::Continuous => spec.limit_ns,
    };
    SeriesSpec {
        key: RowKey::new(kind.name(), load, cpu, schedule.period_ns()),
        limit_ns,
        threshold_ns: spec.threshold_ns.unwrap_or(limit_ns),
        followed: None,
    }
}

/// The threads of a row: on each CPU one for each schedule, the fastest with the highest priority.
fn places(spec: &RunSpec, kind: &ProbeKind, load: &str) -> rt::Result<Vec<ThreadPlan>> {
    let mut places = Vec::new();
    for (cpu, partner) in pairs(spec, kind) {
        for (rank, schedule) in schedules(spec, kind).into_iter().enumerate() {
            let policy = policy(spec, rank as u32, schedule)?;
            // On a CPU for housekeeping the partner must not keep others from theirs.
            let partner =
                partner.map(|cpu| (cpu, if spec.cpus.contains(cpu) { policy } else { Policy::Other }));
            places.push(ThreadPlan {
                series: of(spec, kind, load, cpu, schedule),
                schedule,
                policy,
                partner,
            });
        }
    }
    Ok(places)
}

/// The policy of a CPU's thread of that rank.
fn policy(spec: &RunSpec, rank: u32, schedule: Schedule) -> rt::Result<Policy> {
    // A continuous probe has a quarter of each millisecond.
    const SPINS: u64 = 1_000_000;
    let period_ns = schedule.period_ns().unwrap_or(SPINS);
    let deadline = (period_ns / 4, period_ns, period_ns);
    spec.policy.with(spec.priority.saturating_sub(rank).max(1), deadline)
}

/// The CPUs whose threads measure, each with its other one. With the message probe each is answered by the
/// next measured one, with the response probe it answers edges of the next one; the last of an odd number has
/// one for housekeeping.
fn pairs(spec: &RunSpec, kind: &ProbeKind) -> Vec<(u32, Option<u32>)> {
    let cpus = spec.cpus.iter().collect::<Vec<_>>();
    if !kind.has_partner() {
        return cpus.into_iter().map(|cpu| (cpu, None)).collect();
    }
    let helper = spec.house_keeping.iter().last();
    cpus.chunks(2).map(|pair| (pair[0], pair.get(1).copied().or(helper))).collect()
}

#[cfg(test)]
mod tests {
    use evidence::manifest::{Asked, ResponseSetup};
    use machine::CpuSet;

    use super::*;
    use crate::spec::complete;
    use crate::spec::tests::machine;

    fn spec(asked: Asked, cpus: u32, isolated: &str) -> RunSpec {
        RunSpec::of(complete(asked, &machine(cpus, isolated))).unwrap()
    }

    fn on(cpus: &str, probe: &str) -> Asked {
        Asked { probes: vec![probe.into()], cpus: cpus.parse().unwrap(), ..Asked::default() }
    }

    fn partners(spec: &RunSpec) -> Vec<(u32, Option<(u32, Policy)>)> {
        let places = places(spec, &spec.probes[0], "idle").unwrap();
        places.iter().map(|place| (place.series.key.cpu, place.partner)).collect()
    }

    #[test]
    fn messages_go_between_pairs_of_measured_cpus() {
        let spec = spec(on("3-5", "message"), 8, "");
        assert_eq!(spec.probes.len(), measure::probes::message::MEANS.len());
        // An ordinary thread on a CPU that does the housekeeping.
        assert_eq!(partners(&spec), [(3, Some((4, Policy::Fifo(80)))), (5, Some((7, Policy::Other)))]);
    }

    #[test]
    fn a_message_that_no_cpu_can_answer_is_refused() {
        let mut spec = spec(on("3", "message-futex"), 8, "");
        spec.house_keeping = CpuSet::new();
        let refusal = row(&spec, &spec.probes[0], "idle", &machine(8, "")).unwrap_err().to_string();
        let line = "cannot measure message-futex: no other CPU is there to answer; give two CPUs, or one for housekeeping";
        assert_eq!(refusal, line);
    }

    #[test]
    fn responses_are_to_edges_of_the_next_cpu_or_from_outside() {
        let memory = spec(on("3-5", "response"), 8, "");
        assert_eq!(memory.asked.probes, ["response-shared"]);
        assert_eq!(partners(&memory), [(3, Some((4, Policy::Fifo(80)))), (5, Some((7, Policy::Other)))]);
        let response = ResponseSetup {
            signal: Some("/dev/shm/words".into()),
            role: Some("generator".into()),
            ..ResponseSetup::default()
        };
        let file = spec(Asked { response: Some(response), ..on("3-5", "response") }, 8, "");
        assert!(partners(&file).iter().all(|(_, other)| other.is_none()));
    }

    #[test]
    fn base_and_servo_threads_run_on_every_cpu_the_faster_one_above() {
        let asked =
            Asked { periods_ns: vec![1_000_000, 25_000], probes: vec!["wakeup".into()], ..Asked::default() };
        let row =
            row(&spec(asked, 4, "2-3"), &ProbeKind::Wakeup(Default::default()), "idle", &machine(4, "2-3"));
        let threads = row.unwrap().threads;
        let seen = threads.iter().map(|thread| {
            let SeriesSpec { key, limit_ns, .. } = &thread.series;
            assert_eq!(thread.probe.schedule().period_ns(), key.period_ns);
            (key.cpu, key.period_ns.unwrap(), thread.policy, *limit_ns)
        });
        let (base, servo) = ((25_000, Policy::Fifo(80), 2_500), (1_000_000, Policy::Fifo(79), 100_000));
        let expected =
            [(2, base), (2, servo), (3, base), (3, servo)].map(|(cpu, (p, policy, l))| (cpu, p, policy, l));
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_probe_with_threads_of_ours_has_one_for_each_cpu() {
        for name in measure::probes::NAMES {
            for kind in spec(on("2-3", name), 4, "2-3").probes {
                let spec = spec(on("2-3", name), 4, "2-3");
                let row = row(&spec, &kind, "idle", &machine(4, "2-3")).unwrap();
                let threads = if kind.has_partner() { 1 } else { 2 };
                assert_eq!(
                    row.threads.len(),
                    if kind.row_kind().has_own_threads() { threads } else { 0 },
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_deadline_thread_is_allowed_what_the_kernel_demands_and_others_are_pinned() {
        let affinity = |policy: &str| {
            let asked =
                Asked { policy: Some(policy.into()), probes: vec!["wakeup".into()], ..Asked::default() };
            let spec = spec(asked, 4, "2-3");
            row(&spec, &spec.probes[0], "idle", &machine(4, "2-3")).unwrap().threads[0].affinity.clone()
        };
        assert_eq!((affinity("deadline"), affinity("rr")), (vec![2, 3], vec![2]));
    }
}
