// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines and the plans that they must get, as they were worked out by hand (`vectors/planner.json`).

use std::collections::BTreeMap;

use crate::common::Topology;
use machine::CpuSet;
use serde::Deserialize;
use tune::plan::{ActionKind, Intent, MadeFor, Profile, WantedCpus, plan};

#[derive(Deserialize)]
struct Vectors {
    topologies: BTreeMap<String, Topology>,
    plans: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    key: String,
    class: String,
    want_cores: u32,
    why: String,
    isolated: CpuSet,
    rt_cpus: CpuSet,
    idle_siblings: CpuSet,
    housekeeping: CpuSet,
    wq_mask_hex: String,
    iso_mask_hex: String,
    cmdline: String,
    skipped: Vec<String>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("vectors/planner.json")).unwrap()
}

#[test]
fn every_machine_gets_the_plan_that_was_worked_out() {
    let vectors = vectors();
    assert_eq!(vectors.plans.len(), 17);
    for expected in &vectors.plans {
        let topology = &vectors.topologies[&expected.key];
        let machine = topology.snapshot();
        let name = format!("{} {} {}", topology.name, expected.class, expected.want_cores);
        let profile = if expected.class == "poll" { Profile::Poll } else { Profile::Periodic };
        let mut asked = Intent::new(profile, WantedCpus::Cores(expected.want_cores));
        asked.device = topology.device_node.map(|_| "eth1".to_string());
        let plan = plan(&machine, &MadeFor::default(), &asked).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(plan.boot_line().to_string(), expected.cmdline, "{name}");
        assert_eq!(plan.isolated, expected.isolated, "{name}");
        assert_eq!(plan.real_time, expected.rt_cpus, "{name}");
        assert_eq!(plan.isolated.without(&plan.real_time), expected.idle_siblings, "{name}");
        assert_eq!(plan.housekeeping, expected.housekeeping, "{name}");
        assert_eq!(plan.why.contains("whole"), expected.why.contains("whole"), "{name}: {}", plan.why);
        let highest = machine.online().iter().max().unwrap();
        assert_eq!(plan.isolated.to_mask(highest), expected.iso_mask_hex, "{name}");
        let default = plan.actions.iter().find(|action| action.kind == ActionKind::IrqDefault).unwrap();
        assert_eq!(default.value, expected.wq_mask_hex, "{name}");
        let off = plan.skipped.iter().filter(|skipped| skipped.reason.starts_with("CONFIG_"));
        let off: Vec<String> = off
            .map(|skipped| {
                format!("{} ({})", skipped.what, skipped.reason.replace(" is off in this kernel", " off"))
            })
            .collect();
        assert_eq!(off, expected.skipped, "{name}");
    }
}

#[test]
fn a_list_with_an_error_is_found_as_such() {
    // The vectors would pass with any plan if they were not compared token by token.
    let vectors = vectors();
    let machine = vectors.topologies["pc4"].snapshot();
    let one =
        plan(&machine, &MadeFor::default(), &Intent::new(Profile::Periodic, WantedCpus::Cores(1))).unwrap();
    let two =
        plan(&machine, &MadeFor::default(), &Intent::new(Profile::Periodic, WantedCpus::Cores(2))).unwrap();
    assert_ne!(one.boot_line(), two.boot_line());
}
