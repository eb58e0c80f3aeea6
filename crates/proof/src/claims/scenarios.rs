// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that run storms, while the scope counts the interruptions of the isolated CPU.

use std::collections::BTreeMap;
use std::fmt::Write;

use evidence::lab::{LabDocument, LabRow};

use crate::claims::part::{ClaimLab, ClaimResult, Result};
use crate::guests;

/// An owner with an exclusive address space; kernel mappings are flushed at once, or deferred.
const ALONE: &str = "default,exclusive";
const ALONE_KTLB: &str = "default,exclusive,ktlb";

/// The best boot line, with a bound beyond any window: woken tasks wait for the owner's end.
const FULL: &str = "full";
const BOUND: &str = "sysctl.kernel.isolator_max_defer_ms=3600000";

/// Storms whose work can be deferred, or is refused, each alone; then those with delivered work.
const DEFERRABLE: &[&str] = &[
    "quiet",
    "static-keys",
    "tracepoints",
    "kprobes",
    "timers",
    "wake-pinned",
    "drop-caches",
    "compaction",
    "stat-refresh",
    "rcu-expedited",
    "mprotect-other",
    "munmap-other",
    "fork-other",
    "membarrier-other",
    "perf-open",
    "msr",
    "net-loopback",
    "disk",
];
const DELIVERED: &[&str] = &["module-load", "vmalloc", "bpf", "clock-settime"];

/// Storms that wait for each runnable thread, including one woken on the isolated CPU (RCU tasks). They
/// continue when that thread's bound is over, so the bound must be shorter than a window.
const BOUNDED: &[&str] = &["ftrace"];

/// Storms in the owner's process, whose address space is therefore not exclusive.
const OWN: &[&str] = &["membarrier-own", "mprotect-own", "munmap-own", "fork-own", "signals"];

/// One run of the lab.
struct ScenarioRun<'a> {
    kernel: &'a str,
    boot: &'a str,
    isolate: Option<&'a str>,
    scenarios: &'a [&'a str],
    duration: &'a str,
}

/// A minute of all deferrable storms.
pub fn silence(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    of_one_scenario(lab, "minute", "60s")
}

/// The default of PREEMPT_RT kernels: compaction does not move locked memory, here the owner's.
const LOCKED_STAYS: &str = "sysctl.vm.compact_unevictable_allowed=0";

/// The same for one isolating kernel: a table's row, and its deviations.
pub fn minute(lab: &ClaimLab<'_>) -> Result<(String, Vec<String>)> {
    let boot = format!("{} {BOUND} {LOCKED_STAYS}", lab::boot::line(FULL, 2)?);
    let (kernel, isolate, scenarios) = (&lab.ours(), Some(ALONE), &["minute"][..]);
    let (document, mut wrong) =
        run(lab, &ScenarioRun { kernel, boot: &boot, isolate, scenarios, duration: "60s" })?;
    let row = document.rows.first().ok_or("the lab gave no row")?;
    let (ways, breaches) = (row.excursions, kinds(row, "breach_"));
    if ways > 0 {
        wrong.push(format!("{kernel}: {ways} excursions; breaches: {breaches}"));
    }
    let (deferred, refused) = (sum(row, "defer_"), sum(row, "refused_"));
    let window = row.seconds_guest;
    Ok((format!("| {window:.0} s | {ways} | {breaches} | {deferred} | {refused} |"), wrong))
}

/// Storms that unmap the kernel's own memory, together; and churn of vmalloc space alone, which is deferred
/// with `ktlb`.
pub fn mappings(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let seen = of_one_scenario(lab, "mappings", "10s")?;
    let churn = of_one_scenario(lab, "vmalloc", "5s")?;
    // Code that becomes data again changes permissions, and that flush is never deferred.
    let wrong =
        seen.wrong.into_iter().filter(|what| !what.contains("kernel_tlb")).chain(churn.wrong).collect();
    Ok(ClaimResult { text: seen.text + "\n" + &churn.text, wrong })
}

fn of_one_scenario(lab: &ClaimLab<'_>, scenario: &str, duration: &str) -> Result<ClaimResult> {
    let patient = format!("{} {BOUND}", lab::boot::line(FULL, 2)?);
    let ours = lab.ours();
    let runs = [
        ("Debian's real-time kernel", "debian-rt", FULL, None),
        ("ours, not asked", ours.as_str(), FULL, None),
        ("ours, isolating", ours.as_str(), patient.as_str(), Some(ALONE)),
        ("the same with `ktlb`", ours.as_str(), patient.as_str(), Some(ALONE_KTLB)),
    ];
    let mut seen = ClaimResult {
        text: format!("On {}; scenario `{scenario}`, seed 1.\n\n", lab.kernel()?),
        ..ClaimResult::default()
    };
    seen.text += "| kernel | window | excursions | kernel instructions | breaches | deferred | refused |\n|---|--:|--:|--:|---|--:|--:|\n";
    for (name, kernel, boot, isolate) in runs {
        let (document, complaints) =
            run(lab, &ScenarioRun { kernel, boot, isolate, scenarios: &[scenario], duration })?;
        seen.wrong.extend(complaints.iter().map(|what| format!("{name}: {what}")));
        for row in &document.rows {
            let (window, breaches) = (row.seconds_guest, kinds(row, "breach_"));
            let (deferred, refused) = (sum(row, "defer_"), sum(row, "refused_"));
            let _ = writeln!(
                seen.text,
                "| {name} | {window:.0} s | {} | {} | {breaches} | {deferred} | {refused} |",
                row.excursions, row.kernel_instructions
            );
            if isolate == Some(ALONE_KTLB) && row.excursions > 0 {
                seen.wrong.push(format!("{name}: {} excursions; breaches: {breaches}", row.excursions));
            }
        }
        told_complaints(&mut seen, name, &complaints);
    }
    Ok(seen)
}

/// Each storm alone.
pub fn storms(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let patient = format!("{} {BOUND}", lab::boot::line(FULL, 2)?);
    let alone = [DEFERRABLE, DELIVERED].concat();
    let (ours, all) = (lab.ours(), [&alone, BOUNDED, OWN].concat());
    let counted = |kernel: &str, boot: &str, isolate, scenarios: &[&str]| {
        run(lab, &ScenarioRun { kernel, boot, isolate, scenarios, duration: "5s" })
    };
    let (stock, of_stock) = counted("debian-rt", FULL, None, &all)?;
    let (idle, of_idle) = counted(&ours, FULL, None, &all)?;
    let (mut isolating, of_alone) = counted(&ours, &patient, Some(ALONE), &alone)?;
    let (bounded, of_bounded) = counted(&ours, FULL, Some(ALONE), BOUNDED)?;
    let (own, of_own) = counted(&ours, FULL, Some("default"), OWN)?;
    isolating.rows.extend(bounded.rows);
    isolating.rows.extend(own.rows);
    let mut seen = ClaimResult {
        text: format!("On {}; 5 s and more each, seed 1.\n\n", lab.kernel()?),
        ..ClaimResult::default()
    };
    seen.text += "| storm | Debian's | ours, not asked | isolating | breaches | deferred | refused |\n|---|--:|--:|--:|---|--:|--:|\n";
    for row in &isolating.rows {
        let before = |document: &LabDocument| {
            let found = document.rows.iter().find(|other| other.scenario == row.scenario);
            found.map_or("-".to_string(), |row| row.excursions.to_string())
        };
        let (name, breaches) = (&row.scenario, kinds(row, "breach_"));
        let (deferred, refused) = (sum(row, "defer_"), sum(row, "refused_"));
        let _ = writeln!(
            seen.text,
            "| {name} | {} | {} | {} | {breaches} | {deferred} | {refused} |",
            before(&stock),
            before(&idle),
            row.excursions
        );
        let named = row.breaches().unwrap_or(0);
        if DEFERRABLE.contains(&name.as_str()) && row.excursions > named {
            seen.wrong.push(format!("{name}: {} excursions, {named} breaches", row.excursions));
        }
    }
    for (name, complaints) in [
        ("Debian's", of_stock),
        ("ours, not asked", of_idle),
        ("isolating", of_alone),
        ("isolating, bounded", of_bounded),
        ("isolating", of_own),
    ] {
        told_complaints(&mut seen, name, &complaints);
        // A stock kernel may fail in a storm; the claim is about ours.
        if name != "Debian's" {
            seen.wrong.extend(complaints.iter().map(|what| format!("{name}: {what}")));
        }
    }
    Ok(seen)
}

fn told_complaints(seen: &mut ClaimResult, name: &str, complaints: &[String]) {
    for (n, complaint) in complaints.iter().enumerate() {
        seen.text += if n == 0 { "\n" } else { "" };
        let _ = writeln!(seen.text, "- {name}: {complaint}");
    }
}

/// The result, and the reasons why it does not count: a storm without effect, a kernel that complained.
fn run(lab: &ClaimLab<'_>, run: &ScenarioRun<'_>) -> Result<(LabDocument, Vec<String>)> {
    let architecture = lab.architecture.to_string();
    let isolate = run.isolate.map(|what| format!("--isolate={what}"));
    let how = ["--kernel", run.kernel, "--boot", run.boot, "--arch", &architecture, "--mode", "count"];
    let args = [&["run"], run.scenarios, &how, &["--duration", run.duration]].concat();
    let args = args.into_iter().chain(isolate.as_deref()).collect::<Vec<_>>();
    let folder = tempfile::tempdir_in(lab.scratch)?;
    let document = guests::run(lab.isolator, &args, &folder.path().join("bundle"))?;
    let complaints = document.failures();
    Ok((document, complaints))
}

fn counters<'a>(row: &'a LabRow, kind: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
    let counters = row.isolation.as_ref().map(BTreeMap::iter).into_iter().flatten();
    counters.filter_map(move |(name, count)| Some((name.strip_prefix(kind)?, *count)))
}

fn sum(row: &LabRow, kind: &str) -> String {
    match row.isolation {
        Some(_) => counters(row, kind).map(|(_, count)| count).sum::<u64>().to_string(),
        None => String::new(),
    }
}

/// Each kind with a count: ``6 `kernel_tlb` ``; 0 without any.
fn kinds(row: &LabRow, kind: &str) -> String {
    let said = counters(row, kind).filter(|(_, count)| *count > 0);
    let said = said.map(|(name, count)| format!("{count} `{name}`")).collect::<Vec<_>>().join(", ");
    if said.is_empty() { sum(row, kind) } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_named_scenario_exists() {
        let names = [DEFERRABLE, DELIVERED, OWN, &["minute", "mappings"]].concat();
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(lab::scenario::named(&names).unwrap().len(), names.len());
    }

    #[test]
    fn lists_breaches_by_kind() {
        let count = |name: &str, count| (name.to_string(), count);
        let isolation = [count("breach_bound", 0), count("breach_kernel_tlb", 6), count("defer_sync", 5)];
        let row = LabRow { isolation: Some(isolation.into_iter().collect()), ..LabRow::default() };
        assert_eq!((kinds(&row, "breach_"), sum(&row, "defer_")), ("6 `kernel_tlb`".into(), "5".into()));
        assert_eq!(kinds(&row, "refused_"), "0");
        assert_eq!(kinds(&LabRow::default(), "breach_"), "");
    }
}
