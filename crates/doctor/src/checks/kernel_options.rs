// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's configuration beside what its documentation expects of a real-time kernel, option by option.
//!
//! Reference: Documentation/core-api/real-time/kernel-configuration.rst of 2026-08. Its options of the
//! expectation `allowed` cost nothing, and have no row; those of another check's subject name that check.

use machine::advice::Manual::Kernel;

use super::{Check, MIDDLING};
use crate::facts::{CheckFacts, some};
use crate::finding::{CheckResult, Conclusion, read_in};

pub(super) const ALL: &[Check] = &[Check {
    id: "kernel-config-expected",
    question: "Is the kernel configured as its documentation expects of a real-time kernel?",
    weights: MIDDLING,
    why: "an option that costs latency can show at any time, also after weeks; some can be made up for while the kernel runs",
    source: "Linux of 2026-08, Documentation/core-api/real-time/kernel-configuration.rst",
    look: expected,
}];

/// How grave the documentation calls another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Good to know.
    Info,
    /// It may cost latency.
    Medium,
    /// It costs latency.
    High,
    /// It is no real-time kernel.
    Fatal,
}

/// An option of the document.
struct Row {
    name: &'static str,
    enabled: bool,
    severity: Severity,
    /// Whether the running system makes up for another value, and by what.
    made_up: fn(&CheckFacts) -> Option<&'static str>,
}

const fn row(name: &'static str, enabled: bool, severity: Severity) -> Row {
    Row { name, enabled, severity, made_up: |_| None }
}

const ROWS: &[Row] = &[
    row("CPU_FREQ", true, Severity::High),
    Row { made_up: governed, ..row("CPU_FREQ_DEFAULT_GOV_PERFORMANCE", true, Severity::High) },
    Row { made_up: governed, ..row("CPU_FREQ_GOV_CONSERVATIVE", false, Severity::Medium) },
    Row { made_up: governed, ..row("CPU_FREQ_GOV_ONDEMAND", false, Severity::Medium) },
    Row { made_up: governed, ..row("CPU_FREQ_GOV_SCHEDUTIL", false, Severity::Medium) },
    row("CPU_IDLE", true, Severity::Info),
    row("DRM", false, Severity::Info),
    Row { made_up: no_runtime, ..row("EFI_DISABLE_RUNTIME", true, Severity::Medium) },
    Row { made_up: ticking, ..row("NO_HZ_FULL", false, Severity::Medium) },
    row("PREEMPT_RT", true, Severity::Fatal),
    row("TRACING", true, Severity::Info),
    row("IRQSOFF_TRACER", false, Severity::High),
    row("PREEMPT_TRACER", false, Severity::High),
    Row { made_up: no_detector, ..row("LOCKUP_DETECTOR", false, Severity::High) },
    row("PROVE_LOCKING", false, Severity::High),
];

/// Every policy has a governor that keeps the frequency.
fn governed(facts: &CheckFacts) -> Option<&'static str> {
    let all = &facts.inventory.frequencies;
    let keeps = |name: Option<&str>| matches!(name, Some("performance" | "powersave" | "userspace"));
    let by_itself = |driver: Option<&str>| matches!(driver, Some("intel_pstate" | "amd-pstate-epp"));
    let kept = |policy: &machine::inventory::Frequency| match by_itself(policy.driver.as_deref()) {
        // There `powersave` follows the load.
        true => policy.governor.as_deref() == Some("performance"),
        false => keeps(policy.governor.as_deref()),
    };
    (!all.is_empty() && all.iter().all(kept)).then_some("the governor that runs keeps the frequency")
}

/// The firmware is not called, by the boot line or for want of it.
fn no_runtime(facts: &CheckFacts) -> Option<&'static str> {
    let asked = facts.boot_value("efi").unwrap_or_default();
    if asked.split(',').any(|word| word == "noruntime") {
        return Some("efi=noruntime");
    }
    (facts.option("EFI") == Some(false)).then_some("a kernel without EFI")
}

/// No tick is asked to stop, or the loop is one that never sleeps.
fn ticking(facts: &CheckFacts) -> Option<&'static str> {
    if facts.profile == crate::Profile::Poll {
        return Some("a loop that never sleeps gains by it");
    }
    facts.nohz_full().is_ok_and(machine::CpuSet::is_empty).then_some("no CPU stops its tick")
}

/// Both detectors are off.
fn no_detector(facts: &CheckFacts) -> Option<&'static str> {
    let off = |path: &str| facts.hint(path) == Some("0");
    let both = off("/proc/sys/kernel/soft_watchdog") && off("/proc/sys/kernel/nmi_watchdog");
    (both || off("/proc/sys/kernel/watchdog")).then_some("the detectors are off")
}

fn expected(facts: &CheckFacts) -> CheckResult {
    if facts.machine.kernel.options.is_empty() {
        return Err(facts.config_unknown());
    }
    let differs = |row: &&Row| facts.option(row.name) == Some(!row.enabled) && (row.made_up)(facts).is_none();
    let mut found: Vec<&Row> = ROWS.iter().filter(differs).collect();
    found.sort_by_key(|row| std::cmp::Reverse(row.severity));
    let value = |row: &&Row| match row.enabled {
        true => format!("CONFIG_{} is off", row.name),
        false => format!("CONFIG_{}=y", row.name),
    };
    let (grave, slight): (Vec<&Row>, Vec<&Row>) =
        found.into_iter().partition(|row| row.severity > Severity::Info);
    let grave: Vec<String> = grave.iter().map(value).collect();
    let slight: Vec<String> = slight.iter().map(value).collect();
    if !grave.is_empty() {
        let read = read_in(facts.config_source(), some(&grave, 12));
        let says = format!("other than expected: {}", some(&grave, 5));
        let fix = Kernel.advice(
            "where a limit is missed, boot a kernel with the other value; the checks of each subject say what the running kernel can do instead",
        );
        return Ok(Conclusion::warn(read, says, fix));
    }
    let unnamed: Vec<&str> =
        ROWS.iter().map(|row| row.name).filter(|name| facts.option(name).is_none()).collect();
    let read = read_in(facts.config_source(), some(&slight, 12));
    Ok(match (slight.is_empty(), unnamed.is_empty()) {
        (false, _) => {
            Conclusion::pass(read, format!("as expected, but for what the use decides: {}", some(&slight, 4)))
        }
        (true, false) => Conclusion::pass(
            read,
            format!("as expected, as far as it names them (not {})", some(&unnamed, 4)),
        ),
        (true, true) => Conclusion::pass(read, "as expected"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options of the document, in its order, with expectation and severity; those that are allowed cost
    /// nothing.
    const DOCUMENT: &str = "CPU_FREQ enabled high\nCPU_FREQ_DEFAULT_GOV_PERFORMANCE enabled high\n\
        CPU_FREQ_GOV_ONDEMAND disabled medium\nCPU_IDLE enabled info\nDRM disabled info\n\
        EFI_DISABLE_RUNTIME enabled medium\nNO_HZ_FULL disabled medium\nPREEMPT_RT enabled fatal\n\
        TRACING enabled info\nIRQSOFF_TRACER disabled high\nPREEMPT_TRACER disabled high\n\
        LOCKUP_DETECTOR disabled high\nPROVE_LOCKING disabled high";

    #[test]
    fn each_option_of_the_document_has_its_row() {
        for line in DOCUMENT.lines() {
            let [name, expectation, severity] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!()
            };
            let row = ROWS.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}"));
            let said = format!("{:?}", row.severity).to_lowercase();
            assert_eq!((row.enabled, said.as_str()), (expectation == "enabled", severity), "{name}");
            let known = machine::registry::options::ALL.iter().any(|option| option.name == name);
            assert!(known, "{name} is in no snapshot");
        }
    }
}
