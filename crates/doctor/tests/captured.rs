// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captured machines: what the doctor says of the tree it says of the snapshot, and what was not captured is
//! unknown.

use std::sync::LazyLock;

use crate::common::*;
use doctor::{DoctorQuestion, FindingOutcome, Profile};
use machine::Snapshot;

/// Every captured machine, read once.
static MACHINES: LazyLock<Vec<(String, Snapshot)>> = LazyLock::new(|| {
    captured().into_iter().map(|name| (name.clone(), inspect::read_whole(lay_out(&name).path()))).collect()
});

#[test]
fn a_snapshot_is_as_good_as_the_machine() {
    for (name, machine) in MACHINES.iter() {
        let saved = serde_json::to_string(machine).unwrap();
        let loaded: Snapshot = serde_json::from_str(&saved).unwrap();
        for profile in Profile::ALL {
            assert_eq!(examined(&loaded, profile), examined(machine, profile), "{name} {profile}");
        }
    }
}

#[test]
fn the_live_machines_snapshot_is_as_good_as_the_machine() {
    let machine = inspect::read_whole("/".as_ref());
    let saved = serde_json::to_string(&machine).unwrap();
    let loaded: Snapshot = serde_json::from_str(&saved).unwrap();
    for profile in Profile::ALL {
        assert_eq!(examined(&loaded, profile), examined(&machine, profile), "{profile}");
    }
}

#[test]
fn what_was_not_captured_is_unknown_and_no_fault() {
    // None of them has a kernel configuration, boot files or a log.
    for (name, machine) in MACHINES.iter() {
        for id in [
            "kernel-config-readable",
            "boot-loader-known",
            "boot-param-rejected",
            "kernel-rcu-normal",
            "lim-rtprio",
            "thr-prio-99",
        ] {
            let found = finding(machine, Profile::Periodic, id);
            assert_eq!(found.result, FindingOutcome::Unknown, "{name}: {found:#?}");
            assert!(found.fix.is_some() && !found.evidence.source.is_empty(), "{found:#?}");
        }
    }
}

#[test]
fn an_empty_tree_has_no_fault() {
    let machine = inspect::read_whole(tree(&[]).path());
    for profile in Profile::ALL {
        let report = examined(&machine, profile);
        let bad: Vec<_> = report
            .checks
            .iter()
            .filter(|f| matches!(f.result, FindingOutcome::Fail | FindingOutcome::Warn))
            .collect();
        assert!(bad.is_empty(), "{profile}: {bad:#?}");
    }
}

#[test]
fn every_finding_is_whole() {
    for (name, machine) in MACHINES.iter() {
        for profile in Profile::ALL {
            let report = examined(machine, profile);
            for found in &report.checks {
                let told = !found.why.is_empty() && !found.source.is_empty() && !found.says.is_empty();
                assert!(told, "{name}: {found:#?}");
                let bad = matches!(
                    found.result,
                    FindingOutcome::Fail | FindingOutcome::Warn | FindingOutcome::Unknown
                );
                assert_eq!(bad, found.fix.is_some(), "{name}: {found:#?}");
                assert!(!bad || !found.evidence.source.is_empty(), "{name}: {found:#?}");
            }
            let sum = &report.summary;
            assert_eq!(
                sum.pass + sum.warn + sum.fail + sum.unknown + sum.not_applicable,
                report.checks.len()
            );
        }
    }
}

#[test]
fn the_worst_comes_first() {
    for (name, machine) in MACHINES.iter() {
        let report = examined(machine, Profile::Periodic);
        assert!(
            report.checks.windows(2).all(|pair| pair[0].result.rank() <= pair[1].result.rank()),
            "{name}"
        );
    }
}

#[test]
fn finds_what_is_known_of_each_machine() {
    let machine = |name: &str| MACHINES.iter().find(|(known, _)| known == name).unwrap().1.clone();
    let hybrid = machine("hybrid");
    says(&hybrid, Profile::Periodic, "kernel-preempt-rt", FindingOutcome::Warn, "PREEMPT_DYNAMIC");
    says(&hybrid, Profile::Server, "kernel-preempt-rt", FindingOutcome::Pass, "right for throughput");
    says(&hybrid, Profile::Periodic, "virt-guest", FindingOutcome::Pass, "no hypervisor");
    let amd = machine("cgroup2");
    says(&amd, Profile::Periodic, "pwr-governor", FindingOutcome::Fail, "ondemand");
    says(&amd, Profile::Periodic, "clk-tsc-flags", FindingOutcome::Warn, "tsc_adjust");
    says(&amd, Profile::Periodic, "fw-smi-count", FindingOutcome::Unknown, "AuthenticAMD");
    says(&machine("sparse"), Profile::Periodic, "pwr-freq-pinned", FindingOutcome::Warn, "MHz");
    says(&machine("arm64"), Profile::Periodic, "clk-tsc-flags", FindingOutcome::NotApplicable, "no TSC");
    says(&machine("clusters"), Profile::Periodic, "fw-smt", FindingOutcome::Pass, "one hardware thread");
}

#[test]
fn a_check_has_one_name_and_a_group() {
    let mut ids: Vec<&str> = doctor::ALL.iter().copied().flatten().map(|check| check.id).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    assert!(all >= 89, "{all}");
    for check in doctor::ALL.iter().copied().flatten() {
        assert!(check.question.ends_with('?'), "{}", check.id);
        let only = DoctorQuestion { only: Some(check.group()), ..DoctorQuestion::default() };
        let report = doctor::examine(&Snapshot::default(), &only);
        assert!(report.checks.iter().any(|finding| finding.id == check.id), "{}", check.id);
        assert!(report.checks.len() < all);
    }
}
