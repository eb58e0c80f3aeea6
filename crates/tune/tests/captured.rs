// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans for captured machines. `vectors/captured.json` has of each what decides a plan: which CPUs share
//! what, as the trees of hwloc's test suite (tests/hwloc/linux, BSD-3-Clause) say it; their names there are
//! in it. None has a kernel's configuration, some not even a version: unknown facts are listed, and left out
//! where it decides.

use std::collections::BTreeMap;

use crate::common::{Topology, cpus};
use tune::plan::{Intent, MadeFor, Plan, PlanRefusal, Profile, WantedCpus, plan};

fn topologies() -> BTreeMap<String, Topology> {
    serde_json::from_str(include_str!("vectors/captured.json")).unwrap()
}

fn planned(name: &str, profile: Profile, wanted: WantedCpus) -> Result<Plan, PlanRefusal> {
    plan(&topologies()[name].snapshot(), &MadeFor::default(), &Intent::new(profile, wanted))
}

#[test]
fn every_captured_machine_gets_a_sensible_plan() {
    assert_eq!(topologies().len(), 9);
    // Machine, cores, isolated CPUs, the CPUs for real-time threads, a word of why.
    for (name, cores, isolated, real_time, why) in [
        // 4 of 128: a whole cluster, not the boot CPU's.
        ("clusters", 4, "124-127", "124-127", "the whole of a cluster"),
        ("clusters", 2, "126-127", "126-127", "highest"),
        // 32 would be a whole node, of which one core stays: the rest is of the next node.
        ("clusters", 32, "95,97-127", "95,97-127", "highest"),
        // Whole caches; the siblings of some CPUs are offline.
        ("offline", 2, "6,10", "6,10", "the whole of a last-level cache"),
        // Six fast cores of two threads, eight slow of one: fast ones, both threads.
        ("hybrid", 1, "10-11", "10", "highest"),
        ("hybrid", 4, "4-11", "4,6,8,10", "highest"),
        // More than there are fast ones: all of the slow.
        ("hybrid", 6, "14-19", "14-19", "highest"),
        ("ppc64", 2, "248-255", "248,252", "highest"),
        ("eight-nodes", 3, "29-31", "29-31", "highest"),
        // Each node keeps a core, so four are of two nodes.
        ("eight-nodes", 4, "27,29-31", "27,29-31", "highest"),
        ("sparse", 5, "43-47", "43-47", "highest"),
        // Every node claims every CPU: they are none. Caches tell.
        ("wrong-numa", 2, "5,7", "5,7", "the whole of a last-level cache"),
        ("wrong-numa", 4, "4-7", "4-7", "the whole of a last-level cache"),
        // Ten fast of twenty; one a little faster than the others is no type of its own.
        ("gb10", 4, "16-19", "16-19", "highest"),
        ("gb10", 5, "15-19", "15-19", "highest"),
    ] {
        for profile in [Profile::Periodic, Profile::Poll, Profile::Vm] {
            let plan = planned(name, profile, WantedCpus::Cores(cores))
                .unwrap_or_else(|why| panic!("{name} {cores}: {why}"));
            assert_eq!(plan.isolated, cpus(isolated), "{name} {cores}");
            assert_eq!(plan.real_time, cpus(real_time), "{name} {cores}");
            assert!(plan.why.contains(why), "{name} {cores}: {}", plan.why);
            let unknown = plan.skipped.iter().filter(|skipped| skipped.reason.contains("is not known"));
            let unknown: Vec<&str> = unknown.map(|skipped| skipped.what.as_str()).collect();
            let expected: &[&str] =
                if profile == Profile::Periodic { &["rcu_nocbs"] } else { &["nohz_full", "rcu_nocbs"] };
            assert_eq!(unknown, expected, "{name} {cores}");
            assert!(plan.warnings.iter().any(|text| text.contains("configuration is not known")), "{name}");
        }
    }
}

#[test]
fn what_a_captured_machine_cannot_give_is_refused() {
    for (name, wanted, said) in [
        ("two-threads", WantedCpus::Cores(1), "one physical core"),
        ("two-threads", WantedCpus::Cpus(cpus("1")), "choose from"),
        ("offline", WantedCpus::Cpus(cpus("5")), "cpus 5 are offline"),
        ("offline", WantedCpus::Cpus(cpus("3")), "cpus 11 share cores"),
        ("ppc64", WantedCpus::Cpus(cpus("248-254")), "cpus 255 share cores"),
        ("hybrid", WantedCpus::Cores(13), "of one type cannot be isolated"),
        ("gb10", WantedCpus::Cores(20), "ask for at most"),
        ("sparse", WantedCpus::Cpus(cpus("48")), "cpus 48 do not exist"),
    ] {
        let refusal = planned(name, Profile::Periodic, wanted.clone()).unwrap_err();
        assert!(refusal.to_string().contains(said), "{name} {wanted:?}: {refusal}");
    }
}

#[test]
fn cores_of_several_types_are_never_mixed_unless_named() {
    for cores in 1..=8 {
        let Ok(plan) = planned("hybrid", Profile::Periodic, WantedCpus::Cores(cores)) else { continue };
        let fast = plan.isolated.without(&cpus("12-19"));
        assert!(fast.is_empty() || fast == plan.isolated, "{cores}: {}", plan.isolated);
    }
    let named = planned("hybrid", Profile::Periodic, WantedCpus::Cpus(cpus("10-12"))).unwrap();
    assert!(named.warnings.iter().any(|text| text.contains("of several types")));
}

#[test]
fn a_reboot_keeps_hardware_threads_off() {
    let one_thread = "sparse";
    let control = "/sys/devices/system/cpu/smt/control";
    // The switch, whether CPUs are offline, and whether the line has the word.
    for (state, offline, word) in [
        (Some("off"), true, true),
        (Some("on"), true, true),
        (Some("on"), false, false),
        (Some("notsupported"), true, false),
        (None, true, false),
    ] {
        let mut machine = topologies()[one_thread].snapshot();
        machine.cpus.retain(|cpu| cpu.online);
        machine.settings.extend(state.map(|state| (control.to_string(), state.to_string())));
        if offline {
            machine.cpus.push(machine::snapshot::Cpu { id: 1_000, ..Default::default() });
        }
        for no_reboot in [false, true] {
            let intent = Intent { no_reboot, ..Intent::new(Profile::Periodic, WantedCpus::Default) };
            let plan = plan(&machine, &MadeFor::default(), &intent).unwrap();
            let has = plan.boot_line().iter().any(|word| word == "nosmt");
            assert_eq!(has, word && !no_reboot, "{state:?} {offline} {:?}", plan.boot_line());
            let warned = plan.warnings.iter().any(|text| text.contains("are offline"));
            assert_eq!(warned, offline && !word, "{state:?} {offline}: {:?}", plan.warnings);
        }
    }
}

#[test]
fn nodes_with_memory_come_first() {
    let mut machine = topologies()["eight-nodes"].snapshot();
    machine.nodes_without_memory = cpus("4-7");
    let planned =
        |wanted| plan(&machine, &MadeFor::default(), &Intent::new(Profile::Periodic, wanted)).unwrap();
    let told = |plan: &Plan| plan.warnings.iter().any(|text| text.contains("a node without memory"));
    let near = planned(WantedCpus::Cores(3));
    assert_eq!((near.isolated.to_string(), told(&near)), ("13-15".to_string(), false));
    let far = planned(WantedCpus::Cpus(cpus("29-31")));
    assert!(told(&far), "{:?}", far.warnings);
}

/// The settings that a plan writes on a machine with this kernel.
fn written(release: Option<&str>, profile: Profile, files: &[&str]) -> Vec<String> {
    let mut machine = topologies()["sparse"].snapshot();
    machine.kernel.release = release.map(str::to_string);
    machine.settings.extend(files.iter().map(|path| (path.to_string(), "1".to_string())));
    let plan = plan(&machine, &MadeFor::default(), &Intent::new(profile, WantedCpus::Default)).unwrap();
    plan.actions.into_iter().map(|action| action.target).collect()
}

#[test]
fn memory_statistics_wait_before_linux_6_5() {
    let file = "/proc/sys/vm/stat_interval";
    for (release, profile, planned) in [
        (Some("5.15.0-1032-realtime"), Profile::Periodic, true),
        (Some("6.1.0-rt"), Profile::Periodic, true),
        (Some("6.4.16"), Profile::Poll, true),
        (Some("6.1.0"), Profile::Vm, true),
        (Some("4.19.0-rt"), Profile::Poll, true),
        (Some("6.5.0"), Profile::Periodic, false),
        (Some("6.12.9-rt"), Profile::Poll, false),
        (Some("7.0.0"), Profile::Vm, false),
        (None, Profile::Periodic, false),
        (Some("6.1.0"), Profile::Audio, false),
    ] {
        let has = written(release, profile, &[file]).iter().any(|target| target == file);
        assert_eq!(has, planned, "{release:?} {profile:?}");
    }
    assert!(!written(Some("6.1.0"), Profile::Periodic, &[]).iter().any(|target| target == file));
}

#[test]
fn links_to_cards_stay_awake_where_a_loop_waits() {
    let file = "/sys/module/pcie_aspm/parameters/policy";
    for (profile, planned) in
        [(Profile::Periodic, true), (Profile::Poll, true), (Profile::Vm, false), (Profile::Audio, false)]
    {
        let has = written(Some("6.12.0"), profile, &[file]).iter().any(|target| target == file);
        assert_eq!(has, planned, "{profile:?}");
    }
    assert!(!written(Some("6.12.0"), Profile::Periodic, &[]).iter().any(|target| target == file));
}

#[test]
fn a_polling_loop_is_told_of_throttling() {
    for (release, groups, profile, told) in [
        ("5.15.0", None, Profile::Poll, true),
        ("6.6.0", Some(false), Profile::Poll, true),
        ("6.11.9", None, Profile::Poll, true),
        ("6.12.0", Some(true), Profile::Poll, true),
        ("7.0.0", Some(true), Profile::Poll, true),
        ("6.12.0", Some(false), Profile::Poll, false),
        ("6.12.0", None, Profile::Poll, false),
        ("7.0.0", Some(false), Profile::Poll, false),
        ("5.15.0", None, Profile::Periodic, false),
        ("5.15.0", Some(true), Profile::Vm, false),
    ] {
        let mut machine = topologies()["sparse"].snapshot();
        machine.kernel.release = Some(release.to_string());
        machine.scheduler.rt_group_scheduling = groups;
        let plan = plan(&machine, &MadeFor::default(), &Intent::new(profile, WantedCpus::Default)).unwrap();
        let said = plan.warnings.iter().any(|text| text.contains("stops real-time threads"));
        assert_eq!(said, told, "{release} {groups:?} {profile:?}");
    }
}
