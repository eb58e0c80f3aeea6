// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers, names and CPUs that cannot be measured as asked.

use super::*;

#[test]
fn refuses_periods_and_limits_that_make_no_sense() {
    check(&[
        ("a period of 0", |c| c.asked.periods_ns = vec![0], &[(Refuse, "period", None)]),
        ("a coarse clock", |c| c.clock_resolution_ns = 4_000_000, &[(Refuse, "period", None)]),
        ("a period as long as the resolution", |c| c.clock_resolution_ns = 1_000_000, &[]),
        ("a limit above the period", |c| c.limits_ns = vec![1_000_001], &[(Refuse, "limit", None)]),
        ("a limit of one period", |c| c.limits_ns = vec![1_000_000], &[]),
        (
            "the second of two periods below its limit",
            |c| (c.asked.periods_ns, c.limits_ns) = (vec![1_000_000, 25_000], vec![100_000, 100_000]),
            &[(Refuse, "limit", None)],
        ),
        (
            "a period of 0 for a probe without one",
            |c| {
                probes(c, "spin");
                c.asked.periods_ns = vec![0];
            },
            &[],
        ),
    ]);
}

#[test]
fn refuses_unknown_names_and_numbers_that_measure_nothing() {
    check(&[
        ("a probe", |c| probes(c, "wakeups"), &[(Refuse, "unknown-name", None)]),
        ("a policy", |c| c.asked.policy = Some("fif".into()), &[(Refuse, "unknown-name", None)]),
        ("a timer", |c| c.asked.timer = Some("hpet".into()), &[(Refuse, "unknown-name", None)]),
        ("no time", |c| c.asked.duration_ns = Some(0), &[(Refuse, "duration", None)]),
        (
            "no cycle",
            |c| (c.asked.loops, c.asked.duration_ns) = (Some(0), Some(1)),
            &[(Refuse, "loops", None)],
        ),
        ("a spin row without end", |c| c.asked.loops = Some(1000), &[(Refuse, "loops", None)]),
        ("every sample a spike", |c| c.asked.threshold_ns = Some(0), &[(Refuse, "threshold", None)]),
        ("a claim of nothing", |c| c.asked.claim = Some(0.0), &[(Refuse, "claim", None)]),
        ("a claim of everything", |c| c.asked.claim = Some(1.0), &[(Refuse, "claim", None)]),
        ("a claim of no number", |c| c.asked.claim = Some(f64::NAN), &[(Refuse, "claim", None)]),
    ]);
}

#[test]
fn refuses_cpus_that_cannot_be_measured() {
    check(&[
        ("no CPU", |c| c.asked.cpus = CpuSet::new(), &[(Refuse, "no-cpu", None)]),
        ("a CPU that is not there", |c| c.asked.cpus = cpus("3,9"), &[(Refuse, "unknown-cpu", Some(9))]),
        ("an offline CPU", |c| c.cpu(3).online = false, &[(Refuse, "offline-cpu", Some(3))]),
        ("an offline housekeeping CPU", |c| c.cpu(1).online = false, &[(Refuse, "offline-cpu", None)]),
        (
            "another cpuset",
            |c| c.machine.cgroup.cpus = Some(cpus("0-2")),
            &[(Refuse, "outside-cpuset", None)],
        ),
        ("a cpuset without CPUs", |c| c.machine.cgroup.cpus = Some(CpuSet::new()), &[]),
        ("an overlap", |c| c.asked.house_keeping = cpus("1-2"), &[(Refuse, "housekeeping-measured", None)]),
        (
            "no housekeeping CPU left online",
            |c| {
                c.machine.cpus.drain(..2);
                c.asked.house_keeping = CpuSet::new();
            },
            &[(Refuse, "no-housekeeping-cpu", None)],
        ),
        (
            "no housekeeping CPU left in the cpuset",
            |c| {
                c.machine.cgroup.cpus = Some(cpus("2-3"));
                c.asked.house_keeping = CpuSet::new();
            },
            &[(Refuse, "no-housekeeping-cpu", None)],
        ),
        ("no CPU known", |c| c.machine.cpus.clear(), &[(Note, "cpus-unknown", None)]),
    ]);
}

#[test]
fn an_offline_cpu_is_refused_with_those_that_are_online() {
    let mut case = Case::well_tuned();
    case.cpu(3).online = false;
    let finding = case.findings().remove(0);
    assert_eq!(
        finding.to_string(),
        "cpu 3 is offline; choose from the online cpus 0-2, or bring it online: \
         echo 1 > /sys/devices/system/cpu/cpu3/online"
    );
}
