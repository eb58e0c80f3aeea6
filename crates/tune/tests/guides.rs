// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of `docs/howto/tune.md` that compares plans with other guides.

use crate::common::{Topology, cpus};
use tune::plan::{Intent, MadeFor, Plan, Profile, WantedCpus, plan};

const PAGE: &str = include_str!("../../../docs/howto/tune.md");

/// A row of the table: the settings in backquotes, and where a plan has them.
struct Row {
    settings: Vec<String>,
    place: String,
}

fn rows() -> Vec<Row> {
    let (_, section) = PAGE.split_once("## Compared with other guides").expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let settings = cells[1].split('`').skip(1).step_by(2).map(str::to_string).collect();
        Row { settings, place: cells[3].to_string() }
    })
    .collect()
}

/// A plan for four cores of two threads each, on a kernel that can do everything.
fn planned(profile: Profile) -> Plan {
    let topology = Topology {
        name: "bench".to_string(),
        arch: "x86".to_string(),
        kernel: Some((6, 12)),
        config: Some(["NO_HZ_FULL", "RCU_NOCB_CPU", "CPU_ISOLATION"].map(str::to_string).to_vec()),
        tsc_watchdog_risk: false,
        device_node: None,
        cores: ["0,4", "1,5", "2,6", "3,7"].map(cpus).to_vec(),
        nodes: vec![cpus("0-7")],
        llc: vec![cpus("0-7")],
        cluster: Vec::new(),
        capacity: Default::default(),
        max_khz: Default::default(),
        offline: cpus(""),
    };
    plan(&topology.snapshot(), &MadeFor::default(), &Intent::new(profile, WantedCpus::Cores(2))).unwrap()
}

fn has(plan: &Plan, setting: &str) -> bool {
    let name = setting.split('=').next().unwrap_or_default();
    let on_the_line =
        plan.boot_line().to_string().split(' ').any(|word| word.split('=').next() == Some(name));
    let file = format!("/proc/sys/{}", name.replace('.', "/"));
    on_the_line || plan.actions.iter().any(|action| action.target == file)
}

#[test]
fn the_table_of_guides_agrees_with_plans() {
    let (periodic, poll) = (planned(Profile::Periodic), planned(Profile::Poll));
    let mut seen = Vec::new();
    for row in rows() {
        for setting in row.settings.iter().filter(|setting| !setting.starts_with('@')) {
            let found = (has(&periodic, setting), has(&poll, setting));
            let right = match row.place.as_str() {
                "line" => found == (true, true),
                "poll" => found == (false, true),
                "no" => found == (false, false),
                // The plan has another setting to the same end, or depends on what the machine has.
                "running" => {
                    !periodic.boot_line().to_string().contains(setting)
                        && !poll.boot_line().to_string().contains(setting)
                }
                place => panic!("{setting}: unknown place '{place}'"),
            };
            assert!(right, "{setting} is listed as '{}': {}", row.place, poll.boot_line());
            seen.push(row.place.clone());
        }
    }
    for place in ["line", "poll", "running", "no"] {
        assert!(seen.iter().any(|seen| seen == place), "no row says '{place}'");
    }
}
