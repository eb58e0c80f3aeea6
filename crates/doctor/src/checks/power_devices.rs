// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power that devices save, and the frequency above the nominal one.

use machine::advice::SettingId;

use super::{Check, SLIGHT};
use crate::facts::CheckFacts;
use crate::finding::{CheckResult, Conclusion, FindingOutcome, Severity, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "pwr-turbo",
        question: "Is the frequency independent of neighbours and temperature (turbo off)?",
        weights: [Some(Severity::Low), Some(Severity::Low), None, Some(Severity::Low), None],
        why: "with turbo the execution time of the same cycle depends on how many cores work, and on their heat",
        source: "Linux 6.12, Documentation/admin-guide/pm/intel_pstate.rst, cpufreq.rst (boost)",
        look: turbo,
    },
    Check {
        id: "pwr-aspm",
        question: "Do links to PCI Express cards stay awake?",
        weights: SLIGHT,
        why: "a network card whose link sleeps (ASPM L1) answers tens of microseconds later; an EtherCAT cycle waits for it twice",
        source: "Linux 6.12, drivers/pci/pcie/aspm.c; Intel ECI, EtherCAT",
        look: aspm,
    },
    Check {
        id: "pwr-usb-autosuspend",
        question: "Do USB devices stay awake?",
        weights: SLIGHT,
        why: "a device that sleeps takes milliseconds to resume: an adapter in the loop, a joystick, a sound interface",
        source: "Linux 6.12, Documentation/driver-api/usb/power-management.rst",
        look: usb,
    },
];

/// A file that most kernels lack says nothing where it is absent.
fn switch<'a>(facts: &CheckFacts<'a>, path: &str) -> Result<Option<&'a str>, Conclusion> {
    match facts.text(path) {
        Ok(text) => Ok(Some(text)),
        Err(found) if found.result == FindingOutcome::NotApplicable => Ok(None),
        Err(found) => Err(found),
    }
}

fn turbo(facts: &CheckFacts) -> CheckResult {
    for (setting, off) in [(SettingId::NoTurbo, "1"), (SettingId::Boost, "0")] {
        let path = setting.file();
        let Some(now) = switch(facts, &path)? else { continue };
        return match now {
            now if now == off => Ok(Conclusion::pass(read_in(&path, now), "turbo is off")),
            "0" | "1" => Ok(Conclusion::warn(
                read_in(&path, now),
                "turbo is on: execution times depend on other cores and on heat",
                setting.advice(&facts.aim()),
            )),
            other => Err(Conclusion::unknown(&path, format!("'{other}' is neither 0 nor 1"), "look at it")),
        };
    }
    Err(Conclusion::not_applicable("this kernel has no switch for turbo"))
}

fn aspm(facts: &CheckFacts) -> CheckResult {
    let path = SettingId::Aspm.file();
    let text = facts.text(&path)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    let read = read_in(&path, text);
    match chosen {
        Some("performance") => Ok(Conclusion::pass(read, "links stay awake")),
        Some("default") => Ok(Conclusion::warn(
            read,
            "links sleep where the firmware set them so",
            SettingId::Aspm.advice(&facts.aim()),
        )),
        Some("powersave" | "powersupersave") => {
            Ok(Conclusion::warn(read, "links sleep", SettingId::Aspm.advice(&facts.aim())))
        }
        _ => Err(Conclusion::unknown(&path, format!("'{text}' names no policy"), "look at it")),
    }
}

fn usb(facts: &CheckFacts) -> CheckResult {
    let path = "/sys/module/usbcore/parameters/autosuspend";
    let seconds = facts.number(path)?;
    let read = read_in(path, seconds);
    Ok(match seconds {
        ..0 => Conclusion::pass(read, "USB devices are not put to sleep"),
        _ => Conclusion::warn(
            read,
            format!("an idle USB device whose driver allows it sleeps after {seconds} s"),
            SettingId::UsbAutosuspend.advice(&facts.aim()).then(", where one is in the loop"),
        ),
    })
}
