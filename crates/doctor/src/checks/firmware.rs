// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware and hardware threads.

use machine::advice::{self, Advice, SettingId};

use super::isolation::{known_siblings, split_siblings};
use super::{Check, GRAVE, MIDDLING};
use crate::Profile;
use crate::facts::{AS_ROOT, BY_SAMPLE, CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "fw-smi-count",
        question: "Is the machine free of SMIs?",
        weights: GRAVE,
        why: "a system management interrupt stops every CPU for up to milliseconds, unseen by the kernel",
        source: "Intel SDM, MSR_SMI_COUNT (0x34); MinnowBoard issue 99: 1 to 2 ms",
        look: smi,
    },
    Check {
        id: "fw-smt",
        question: "Are the SMT siblings of isolated CPUs isolated too?",
        weights: [
            Some(Severity::Medium),
            Some(Severity::High),
            Some(Severity::Low),
            Some(Severity::Medium),
            None,
        ],
        why: "a busy sibling takes a share of the core's execution units and caches",
        source: "Linux 6.12, Documentation/admin-guide/hw-vuln/l1tf.rst (smt/control)",
        look: smt,
    },
    Check {
        id: "fw-jetson-ab",
        question: "Does the board have boot retries left?",
        weights: [Some(Severity::High); 5],
        why: "a few failed boots use up both slots' retries, and the board stays in recovery until its UEFI is reset",
        source: "silicondoritos/jetson-rt-stack; edk2-nvidia, L4TLauncher",
        look: retries,
    },
    Check {
        id: "fw-mce-poll",
        question: "Is polling for corrected machine-check errors off?",
        weights: MIDDLING,
        why: "a timer polls on every CPU every five minutes",
        source: "Linux 6.12, arch/x86/kernel/cpu/mce/core.c",
        look: machine_checks,
    },
];

fn smi(facts: &CheckFacts) -> CheckResult {
    if !facts.x86 {
        return Err(Conclusion::not_applicable("no x86 processor: its firmware has no such interrupt"));
    }
    if facts.machine.hypervisor.is_some() {
        return Err(Conclusion::not_applicable("the SMIs of a guest are those of its host"));
    }
    match facts.inventory.cpu_vendor.as_deref() {
        Some("GenuineIntel") => {}
        Some(vendor) => {
            let fix = "isolator measure hardware, as root: it measures every stall of a CPU";
            return Err(Conclusion::unknown("MSR 0x34", format!("{vendor} has no such counter"), fix));
        }
        None => return Err(not_captured("/proc/cpuinfo")),
    }
    let Some(sample) = &facts.inventory.sample else {
        return Err(Conclusion::unknown(
            "/dev/cpu/0/msr",
            "nothing was sampled",
            format!("modprobe msr; {BY_SAMPLE}, as root"),
        ));
    };
    let Some(count) = sample.smi else {
        let why = sample.smi_unread.as_deref().unwrap_or("it could not be read");
        return Err(Conclusion::unknown("/dev/cpu/0/msr", why, format!("modprobe msr; {AS_ROOT}")));
    };
    let rate = sample.per_second(count);
    let read = read_in(format!("/dev/cpu/0/msr at 0x34 over {} ms", sample.duration_ms), count);
    let fix = advice::FIRMWARE;
    Ok(match rate {
        rate if rate >= 1.0 => {
            Conclusion::fail(read, format!("{rate:.1} system management interrupts a second"), fix)
        }
        rate if rate > 0.0 => Conclusion::warn(read, format!("{count} system management interrupts"), fix),
        _ => Conclusion::pass(read, "no SMI came"),
    })
}

fn smt(facts: &CheckFacts) -> CheckResult {
    let control = "/sys/devices/system/cpu/smt/control";
    let threads =
        facts.machine.cpus.iter().map(|cpu| cpu.siblings.and(&facts.online).len()).max().unwrap_or(0);
    let text = facts.hint(control);
    if threads == 0 && text.is_none() {
        return Err(not_captured(control));
    }
    let read = read_in(format!("{control}, topology/core_cpus_list"), text.unwrap_or("unknown"));
    if threads <= 1 {
        let one = |word: &str| ["off", "forceoff", "notsupported", "notimplemented"].contains(&word);
        if !text.is_some_and(one) {
            known_siblings(facts, &facts.online)?;
        }
        return Ok(Conclusion::pass(read, "one hardware thread to a core"));
    }
    let split = split_siblings(facts);
    let fix = Advice::plan("isolate whole cores, or use --nosmt for one hardware thread per core");
    Ok(if facts.isolated.is_empty() && facts.profile == Profile::Audio {
        Conclusion::not_applicable("the profile audio needs no isolated core")
    } else if facts.isolated.is_empty() {
        Conclusion::warn(read, format!("{threads} hardware threads per core, and none is isolated"), fix)
    } else if split.is_empty() {
        known_siblings(facts, &facts.isolated)?;
        Conclusion::pass(read, "siblings are isolated together")
    } else {
        Conclusion::fail(read, format!("cpus {split} share cores with isolated CPUs"), fix)
    })
}

fn retries(facts: &CheckFacts) -> CheckResult {
    if !facts.jetson() {
        return Err(Conclusion::not_applicable("no Jetson"));
    }
    Err(Conclusion::unknown(
        "nvbootctrl dump-slots-info",
        "the retry counts are in the firmware's variables",
        "nvbootctrl dump-slots-info, as root, before any edit of the boot files",
    ))
}

fn machine_checks(facts: &CheckFacts) -> CheckResult {
    if !facts.x86 {
        return Err(Conclusion::not_applicable("no x86 processor"));
    }
    let folder = "/sys/devices/system/machinecheck/machinecheck0";
    let interval_file = format!("{folder}/check_interval");
    let interval = facts.text(&interval_file)?;
    if interval.is_empty() || !interval.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Conclusion::unknown(
            interval_file,
            format!("'{interval}' is not a number"),
            "look at it",
        ));
    }
    let ignored = facts.word(&format!("{folder}/ignore_ce"), &["0", "1"])?;
    let read = read_in(format!("{folder}/check_interval, ignore_ce"), format!("{interval}, {ignored}"));
    // The file prints seconds in hexadecimal.
    let off = interval.chars().all(|digit| digit == '0') || ignored == "1";
    Ok(if off {
        Conclusion::pass(read, "polling is off")
    } else {
        Conclusion::warn(
            read,
            "every CPU polls for corrected errors",
            SettingId::CheckInterval.advice(&facts.aim()).then(", which also stops their log"),
        )
    })
}
