// SPDX-License-Identifier: MIT OR Apache-2.0
//! Periods and CPUs that cannot be measured as asked.

use super::*;

#[test]
fn refuses_a_period_below_the_clocks_resolution() {
    check(&[
        ("a coarse clock", "clock-resolution=4000000", "refuse period"),
        ("a period as long as the resolution", "clock-resolution=1000000", ""),
        ("a coarse clock for a probe without a period", "probe=spin clock-resolution=4000000", ""),
    ]);
}

#[test]
fn refuses_cpus_that_cannot_be_measured() {
    check(&[
        ("no CPU", "cpus=", "refuse no-cpu"),
        ("a CPU that is not there", "cpus=3,9", "refuse unknown-cpu of cpu 9"),
        ("an offline CPU", "offline=3", "refuse offline-cpu of cpu 3"),
        ("an offline housekeeping CPU", "offline=1", "refuse offline-cpu"),
        ("another cpuset", "cgroup-cpus=0-2", "refuse outside-cpuset"),
        ("a cpuset without CPUs", "cgroup-cpus=", ""),
        ("an overlap", "housekeeping=1-2", "refuse housekeeping-measured"),
        ("no housekeeping CPU left online", "known-cpus=2-3 housekeeping=", "refuse no-housekeeping-cpu"),
        ("none left in the cpuset", "cgroup-cpus=2-3 housekeeping=", "refuse no-housekeeping-cpu"),
        ("no CPU known", "known-cpus=", "note cpus-unknown"),
    ]);
}

#[test]
fn an_offline_cpu_is_refused_with_those_that_are_online() {
    let finding = Case::well_tuned().with("offline=3").findings().remove(0);
    assert_eq!(
        finding.to_string(),
        "cpu 3 is offline; choose from the online cpus 0-2, or bring it online: \
         echo 1 > /sys/devices/system/cpu/cpu3/online"
    );
}
