// SPDX-License-Identifier: MIT OR Apache-2.0
//! Periods and CPUs that cannot be measured as asked.

use super::*;

#[test]
fn refuses_a_period_below_the_clocks_resolution() {
    check(&[
        ("a coarse clock", |c| c.clock_resolution_ns = 4_000_000, &[(Refuse, "period", None)]),
        ("a period as long as the resolution", |c| c.clock_resolution_ns = 1_000_000, &[]),
        (
            "a coarse clock for a probe without a period",
            |c| {
                probes(c, "spin");
                c.clock_resolution_ns = 4_000_000;
            },
            &[],
        ),
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
