// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks: one file per group, one table per file. A check is a question, its weight for each profile,
//! why it matters, where that is known from, and a pure function over the facts.

use std::fmt;
use std::str::FromStr;

use machine::snapshot::Preemption;

use crate::facts::CheckFacts;
use crate::finding::{CheckResult, Conclusion, Finding, Severity};
use crate::{FindingOutcome, Profile};

mod boot_line;
mod boot_loader;
mod clock;
mod container;
mod firmware;
mod graphics;
mod irq;
mod isolation;
mod isolation_work;
mod kernel;
mod kernel_options;
mod kernel_work;
mod limits;
mod memory;
mod network;
mod power;
mod power_devices;
mod scheduler;
mod see;
mod services;
mod threads;
mod virtualization;

/// All checks, group by group.
pub const ALL: &[&[Check]] = &[
    kernel::ALL,
    kernel_options::ALL,
    kernel_work::ALL,
    boot_line::ALL,
    boot_loader::ALL,
    isolation::ALL,
    isolation_work::ALL,
    irq::ALL,
    threads::ALL,
    scheduler::ALL,
    memory::ALL,
    power::ALL,
    power_devices::ALL,
    clock::ALL,
    firmware::ALL,
    limits::ALL,
    services::ALL,
    virtualization::ALL,
    graphics::ALL,
    network::ALL,
    container::ALL,
    see::ALL,
];

/// One check.
pub struct Check {
    /// Its name; what stands before the first `-` is its group's.
    pub id: &'static str,
    /// Its question.
    pub question: &'static str,
    /// How much it weighs for periodic, poll, audio, vm and server; absent: it is not asked.
    pub weights: [Option<Severity>; 5],
    /// Why it matters.
    pub why: &'static str,
    /// The source of the advice.
    pub source: &'static str,
    pub(crate) look: fn(&CheckFacts) -> CheckResult,
}

/// A group of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckGroup {
    /// The kernel itself.
    Kernel,
    /// Boot line and boot loader.
    Boot,
    /// Isolated CPUs.
    Isolation,
    /// Interrupts.
    Irq,
    /// Threads.
    Threads,
    /// The scheduler's limits.
    Scheduler,
    /// Memory.
    Memory,
    /// Idle states and frequencies.
    Power,
    /// Clocks.
    Clock,
    /// Firmware.
    Firmware,
    /// Limits of the session.
    Limits,
    /// Services.
    Services,
    /// Hypervisors.
    Virtualization,
    /// Graphics.
    Graphics,
    /// Networks.
    Network,
    /// Containers.
    Container,
    /// The answers that this kernel can give.
    See,
}

/// Groups with the beginnings of their checks' names, in the order in which they are shown.
pub const GROUPS: &[(CheckGroup, &str, &str)] = &[
    (CheckGroup::Kernel, "kernel", "kernel"),
    (CheckGroup::Boot, "boot", "boot"),
    (CheckGroup::Isolation, "isolation", "iso"),
    (CheckGroup::Irq, "irq", "irq"),
    (CheckGroup::Threads, "threads", "thr"),
    (CheckGroup::Scheduler, "scheduler", "sched"),
    (CheckGroup::Memory, "memory", "mem"),
    (CheckGroup::Power, "power", "pwr"),
    (CheckGroup::Clock, "clock", "clk"),
    (CheckGroup::Firmware, "firmware", "fw"),
    (CheckGroup::Limits, "limits", "lim"),
    (CheckGroup::Services, "services", "svc"),
    (CheckGroup::Virtualization, "virtualization", "virt"),
    (CheckGroup::Graphics, "graphics", "gpu"),
    (CheckGroup::Network, "network", "net"),
    (CheckGroup::Container, "container", "ctr"),
    (CheckGroup::See, "see", "see"),
];

impl CheckGroup {
    /// Its name.
    pub fn name(self) -> &'static str {
        GROUPS.iter().find(|(group, ..)| *group == self).map_or("", |(_, name, _)| name)
    }
}

impl fmt::Display for CheckGroup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for CheckGroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = GROUPS.iter().find(|(_, name, start)| text == *name || text == *start);
        found.map(|(group, ..)| *group).ok_or_else(|| {
            let names = GROUPS.iter().map(|(_, name, _)| *name).collect::<Vec<_>>();
            format!("no group has that name; write one of {}", names.join(", "))
        })
    }
}

use Severity::{High, Info, Low, Medium};

/// It decides everywhere but on a server.
pub(crate) const GRAVE: [Option<Severity>; 5] = [Some(High), Some(High), Some(High), Some(High), None];
/// It makes some cycles late.
pub(crate) const MIDDLING: [Option<Severity>; 5] =
    [Some(Medium), Some(Medium), Some(Medium), Some(Medium), None];
/// A little.
pub(crate) const SLIGHT: [Option<Severity>; 5] = [Some(Low), Some(Low), Some(Low), Some(Low), None];
/// Good to know, on a server too.
pub(crate) const TOLD: [Option<Severity>; 5] = [Some(Info); 5];
/// About isolated CPUs, which audio does not need.
pub(crate) const APART: [Option<Severity>; 5] = [Some(High), Some(High), Some(Low), Some(High), None];
/// As [`APART`], where it disturbs now and then.
pub(crate) const APART_LESS: [Option<Severity>; 5] =
    [Some(Medium), Some(High), Some(Low), Some(Medium), None];
/// Whether the machine boots, or what was configured acts, matters to everybody.
pub(crate) const ANYWHERE: [Option<Severity>; 5] =
    [Some(High), Some(High), Some(High), Some(High), Some(Medium)];

impl Check {
    /// Its group.
    pub fn group(&self) -> CheckGroup {
        let start = self.id.split('-').next().unwrap_or_default();
        GROUPS.iter().find(|(_, _, known)| *known == start).map_or(CheckGroup::Kernel, |(group, ..)| *group)
    }

    /// How much it weighs for a profile; absent: it is not asked.
    pub fn weight(&self, profile: Profile) -> Option<Severity> {
        self.weights[profile as usize]
    }

    pub(crate) fn run(&self, facts: &CheckFacts) -> Finding {
        let weight = self.weight(facts.profile);
        let found = match weight {
            Some(_) => (self.look)(facts).unwrap_or_else(|found| found),
            None => Conclusion::not_applicable(format!(
                "the check does not apply to the profile {}",
                facts.profile
            )),
        };
        let Conclusion { result, says, evidence, state, advice } = found;
        Finding {
            id: self.id.to_string(),
            group: self.group().name().to_string(),
            result,
            severity: if matches!(result, FindingOutcome::NotApplicable) {
                Severity::Info
            } else {
                weight.unwrap_or(Info)
            },
            says,
            evidence,
            state,
            why: self.why.to_string(),
            fix: advice.as_ref().map(ToString::to_string),
            advice,
            source: self.source.to_string(),
        }
    }
}

/// A preemption model in words.
pub(crate) fn preemption_words(preemption: Preemption) -> &'static str {
    match preemption {
        Preemption::RealTime => "PREEMPT_RT",
        Preemption::Full => "preemptible, not real-time",
        Preemption::Lazy => "lazily preemptible, not real-time",
        Preemption::Voluntary => "PREEMPT_VOLUNTARY",
        Preemption::None => "PREEMPT_NONE",
        Preemption::Dynamic => "PREEMPT_DYNAMIC, not real-time",
        Preemption::Unknown => "preemption unknown",
    }
}
