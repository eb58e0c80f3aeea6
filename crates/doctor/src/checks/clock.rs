// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks.

use machine::advice::Manual::{Firmware, Search};
use machine::advice::{self, SettingId};

use super::{Check, GRAVE, MIDDLING};
use crate::facts::{CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "clk-source",
        question: "Is the clocksource fast?",
        weights: [
            Some(Severity::High),
            Some(Severity::High),
            Some(Severity::High),
            Some(Severity::High),
            Some(Severity::Medium),
        ],
        why: "reading hpet or acpi_pm takes about a microsecond, and only one CPU can read at a time",
        source: "Linux 6.12, arch/x86/kernel/hpet.c, drivers/clocksource/acpi_pm.c",
        look: source,
    },
    Check {
        id: "clk-tsc-flags",
        question: "Is the TSC constant, nonstop and synchronized?",
        weights: MIDDLING,
        why: "otherwise the clocksource watchdog checks the TSC twice a second, on each CPU in turn, and may reject it",
        source: "Linux 6.12, arch/x86/kernel/tsc.c (check_system_tsc_reliable), kernel/time/clocksource.c",
        look: flags,
    },
    Check {
        id: "clk-tsc-unstable",
        question: "Does the kernel still trust the TSC?",
        weights: GRAVE,
        why: "after the kernel marks the TSC unstable, it uses a slow clocksource",
        source: "Linux 6.12, kernel/time/clocksource.c",
        look: unstable,
    },
];

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

fn source(facts: &CheckFacts) -> CheckResult {
    let name = facts.text(CURRENT)?;
    let read = read_in(CURRENT, name);
    let guest = facts.machine.hypervisor.is_some();
    let fix =
        Search.advice("find out why the kernel left the TSC: isolator doctor --explain clk-tsc-unstable");
    Ok(match name {
        "hpet" | "acpi_pm" | "jiffies" | "pit" if !guest => {
            Conclusion::fail(read, format!("{name} is slow"), fix)
        }
        "hpet" | "acpi_pm" | "jiffies" | "pit" => {
            Conclusion::warn(read, format!("{name} is slow, and asks the host each time"), fix)
        }
        _ if guest && name != "tsc" && facts.x86 => {
            Conclusion::warn(read, format!("{name}, the hypervisor's"), advice::STABLE_CLOCK)
        }
        _ => Conclusion::pass(read, name),
    })
}

fn flags(facts: &CheckFacts) -> CheckResult {
    if !facts.x86 {
        return Err(Conclusion::not_applicable("the processor has no TSC"));
    }
    let flags = &facts.inventory.cpu_flags;
    if flags.is_empty() {
        return Err(not_captured("/proc/cpuinfo"));
    }
    let missing: Vec<&str> = ["constant_tsc", "nonstop_tsc", "tsc_adjust"]
        .into_iter()
        .filter(|flag| !flags.iter().any(|has| has == flag))
        .collect();
    let read = read_in("flags in /proc/cpuinfo", flags.join(" "));
    let trusted = facts.boot_value("tsc").is_some_and(|value| matches!(value, "reliable" | "nowatchdog"));
    Ok(if missing.is_empty() {
        Conclusion::pass(read, "the TSC has all three flags")
    } else if missing == ["tsc_adjust"] && trusted {
        Conclusion::pass(read, "the TSC is not watched (tsc= on the boot line)")
    } else if missing == ["tsc_adjust"] {
        // Both checks keep the one at boot.
        Conclusion::warn(
            read,
            "the kernel watches the TSC, since the processor lacks tsc_adjust",
            SettingId::Tsc.advice(&facts.aim()),
        )
    } else {
        Conclusion::warn(
            read,
            format!("the processor lacks {}", missing.join(", ")),
            Firmware.advice("none; in a guest: -cpu host,+invtsc"),
        )
    })
}

fn unstable(facts: &CheckFacts) -> CheckResult {
    if !facts.x86 {
        return Err(Conclusion::not_applicable("the processor has no TSC"));
    }
    let log = facts.log()?;
    let source = log.source.as_deref().unwrap_or_default();
    let patterns = ["Marking TSC unstable", "TSC found unstable", "timekeeping watchdog*unstable"];
    Ok(match patterns.iter().find_map(|pattern| log.matching(pattern).next()) {
        Some(line) => Conclusion::fail(
            read_in(source, line),
            format!("the kernel says: {line}"),
            Firmware.advice("update the firmware; look for SMIs (fw-smi-count)"),
        ),
        None if log.from_boot => {
            Conclusion::pass(read_in(source, "no such line"), "the kernel has not marked the TSC unstable")
        }
        // One that it distrusts is its clock no more.
        None if facts.hint(CURRENT) == Some("tsc") => {
            Conclusion::pass(read_in(CURRENT, "tsc"), "the kernel uses the TSC")
        }
        None => Conclusion::unknown(
            source,
            "the log has lost its beginning",
            "look after the next boot: journalctl -k -b",
        ),
    })
}
