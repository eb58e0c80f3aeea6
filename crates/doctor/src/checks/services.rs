// SPDX-License-Identifier: MIT OR Apache-2.0
//! Services that write the settings that this is about.

use machine::advice::Manual::Service;

use super::Check;
use crate::facts::{CheckFacts, not_captured, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

pub(super) const ALL: &[Check] = &[Check {
    id: "svc-tuner-conflict",
    question: "Does only one service tune the machine?",
    weights: [Some(Severity::Medium); 5],
    why: "two services that write one setting undo the changes of each other",
    source: "TuneD's documentation; each service's own",
    look: conflict,
}];

/// Services that write governors, frequencies, affinities or sysctls.
const TUNERS: &[&str] = &[
    "isolator-tune",
    "tuned",
    "power-profiles-daemon",
    "tlp",
    "auto-cpufreq",
    "thermald",
    "cpupower",
    "cpufrequtils",
    "laptop-mode",
    "system76-power",
    "auto-epp",
    "powertop",
    "ondemand",
    "rt-conf",
    "gamemoded",
];

fn conflict(facts: &CheckFacts) -> CheckResult {
    let services = &facts.inventory.services;
    if services.processes.is_empty() && services.active.is_empty() && services.enabled.is_empty() {
        return Err(not_captured("/sys/fs/cgroup/system.slice, /etc/systemd/system"));
    }
    let there: Vec<String> = TUNERS
        .iter()
        .filter(|name| services.runs(name) || services.enabled.contains(**name))
        .map(|name| match facts.hint("/etc/tuned/active_profile") {
            Some(profile) if *name == "tuned" => format!("tuned ({profile})"),
            _ => name.to_string(),
        })
        .collect();
    if there.len() < 2 {
        facts.unseen_host("/sys/fs/cgroup/system.slice")?;
        facts.unseen_threads()?;
    }
    let read = read_in("/sys/fs/cgroup/system.slice, /etc/systemd/system, /proc", there.join(", "));
    Ok(match there.len() {
        0 => Conclusion::pass(read, "no tuning service runs"),
        1 => Conclusion::pass(read, there[0].clone()),
        _ => {
            let one = there[1].split(' ').next().unwrap_or_default();
            let many = if there.len() == 2 { "two".to_string() } else { there.len().to_string() };
            let says = format!("{many}: {}", some(&there, 4));
            Conclusion::warn(read, says, Service.advice(format!("keep one: systemctl disable --now {one}")))
        }
    })
}
