// SPDX-License-Identifier: MIT OR Apache-2.0
//! All findings, and what they come to.

use machine::CpuSet;
use machine::inventory::MachineSample;
use machine::units::exact_us;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::facts::CheckFacts;
use crate::{DoctorQuestion, Finding, FindingOutcome, Profile, Use, obtain};

/// Version of this document.
pub const SCHEMA_VERSION: u32 = 1;

/// The results of a machine's checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this document.
    pub schema_version: u32,
    /// The purpose of the machine.
    pub profile: Profile,
    /// The use that was asked for.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Use>,
    /// The machine in a line.
    pub machine: String,
    /// The findings, worst first.
    pub checks: Vec<Finding>,
    /// The number of findings by result, and the conclusion.
    pub summary: FindingCounts,
    /// The activity of each CPU meanwhile, if it was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<MachineSample>,
    /// The judged CPUs: the isolated ones, else all that are online.
    pub measured: CpuSet,
}

/// The number of checks by result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Summary")]
pub struct FindingCounts {
    /// As it should be.
    pub pass: usize,
    /// Can make a cycle late.
    pub warn: usize,
    /// Will, or does not act.
    pub fail: usize,
    /// Could not be read.
    pub unknown: usize,
    /// Cannot have the problem.
    pub not_applicable: usize,
    /// The conclusions, a sentence each.
    pub advice: Vec<String>,
}

impl Report {
    pub(crate) fn new(facts: &CheckFacts, question: &DoctorQuestion, checks: Vec<Finding>) -> Report {
        let count = |result| checks.iter().filter(|finding| finding.result == result).count();
        let summary = FindingCounts {
            pass: count(FindingOutcome::Pass),
            warn: count(FindingOutcome::Warn),
            fail: count(FindingOutcome::Fail),
            unknown: count(FindingOutcome::Unknown),
            not_applicable: count(FindingOutcome::NotApplicable),
            advice: advice(facts, &checks),
        };
        Report {
            schema_version: SCHEMA_VERSION,
            profile: facts.profile,
            purpose: question.purpose.clone(),
            machine: machine(facts),
            checks,
            summary,
            sample: facts.inventory.sample.clone(),
            measured: facts.measured().clone(),
        }
    }
}

/// The machine in a line.
fn machine(facts: &CheckFacts) -> String {
    let kernel = &facts.machine.kernel;
    let mut parts = Vec::new();
    parts.extend(facts.machine.hostname.clone());
    parts.push(format!("Linux {}", kernel.release.as_deref().unwrap_or("of unknown release")));
    parts.push(crate::checks::preemption_words(kernel.preemption).to_string());
    let apart = match (facts.isolation_is_known(), facts.isolated.to_string()) {
        (false, _) => "isolation unknown".to_string(),
        (true, list) if list.is_empty() => "none isolated".to_string(),
        (true, list) => format!("{list} isolated"),
    };
    parts.push(format!("{} CPUs, {apart}", facts.online.len()));
    parts.extend(facts.machine.hypervisor.as_ref().map(|kind| format!("virtual ({kind})")));
    parts.join(" · ")
}

/// The demands of a use on the machine.
fn asks(purpose: &Use) -> String {
    let thread = |thread: &machine::purpose::UseThread| {
        let limit = exact_us(thread.limit.ns(thread.period_ns));
        format!("{} begins every {}, at most {limit} late", thread.name, exact_us(thread.period_ns))
    };
    let threads = match &purpose.threads[..] {
        [] => format!("no gap is longer than {}", exact_us(purpose.limit_ns)),
        threads => threads.iter().map(thread).collect::<Vec<_>>().join("; "),
    };
    format!("{purpose}: {threads}; isolator prove --use {purpose} measures it")
}

fn advice(facts: &CheckFacts, checks: &[Finding]) -> Vec<String> {
    let mut advice = Vec::new();
    let failed =
        |id: &str| checks.iter().any(|finding| finding.id == id && finding.result == FindingOutcome::Fail);
    if facts.profile == Profile::Server {
        advice.push(
            "You do not want a real-time kernel here. It bounds the longest wait by making every lock and interrupt \
             more expensive, so that throughput falls; isolated CPUs would be idle. \
             The distribution's stock kernel and TuneD's throughput-performance fit better."
                .to_string(),
        );
        return advice;
    }
    if let Some(purpose) = facts.purpose {
        advice.push(asks(purpose));
    }
    if failed("virt-wsl") {
        advice.push("No setting makes WSL keep a deadline; run Linux on bare metal.".to_string());
    } else if !facts.real_time() && facts.machine.kernel.release.is_some() {
        advice.push(obtain::real_time_kernel(facts.machine));
    } else if facts.real_time() {
        advice.extend(obtain::custom_kernel(facts.machine));
    }
    if checks.iter().any(|finding| finding.id == "iso-present" && finding.result == FindingOutcome::Warn) {
        advice.push("isolator tune plan says which CPUs to isolate here, and how.".to_string());
    }
    advice
}
