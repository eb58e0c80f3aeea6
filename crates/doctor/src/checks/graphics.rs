// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphics drivers.

use machine::advice::Manual::{self, Service};

use super::{Check, MIDDLING, SLIGHT};
use crate::facts::{CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "gpu-intel-power",
        question: "Do Intel's graphics stay awake?",
        weights: SLIGHT,
        why: "their power states take the memory, the ring and its frequency with them, which every core waits for on the way back",
        source: "Intel ECI, kernel boot parameters; Linux, drivers/gpu/drm/i915/i915_params.c",
        look: intel,
    },
    Check {
        id: "gpu-nvidia-rt",
        question: "Does the graphics driver support this kernel?",
        weights: MIDDLING,
        why: "NVIDIA's desktop driver does not support PREEMPT_RT: it disables interrupts for long, and sleeps in atomic context",
        source: "NVIDIA/open-gpu-kernel-modules issue 1240, ApolloAuto/apollo issue 14320",
        look: nvidia,
    },
];

fn intel(facts: &CheckFacts) -> CheckResult {
    let drivers = &facts.inventory.graphics;
    let Some(driver) = drivers.iter().find(|driver| matches!(driver.as_str(), "i915" | "xe")) else {
        if drivers.is_empty() && facts.inventory.modules.is_empty() && facts.option("DRM") != Some(false) {
            return Err(not_captured("/sys/class/drm"));
        }
        return Err(Conclusion::not_applicable("no graphics of Intel's"));
    };
    let path = format!("/sys/module/{driver}/parameters/enable_dc");
    let state = facts.text(&path)?;
    let read = read_in(&path, state);
    Ok(match state {
        "0" => Conclusion::pass(read, "display power states are off"),
        _ => Conclusion::warn(
            read,
            format!("{driver} may enter display power states (enable_dc={state})"),
            Manual::BootLine
                .advice(format!("add {driver}.enable_dc=0 {driver}.disable_power_well=0 to the boot line")),
        ),
    })
}

fn nvidia(facts: &CheckFacts) -> CheckResult {
    let loaded = facts.inventory.has_module("nvidia")
        || facts.inventory.graphics.iter().any(|driver| driver == "nvidia");
    let read = read_in("/proc/modules, /sys/class/drm", if loaded { "nvidia" } else { "no nvidia" });
    if !loaded && facts.inventory.modules.is_empty() && facts.option("MODULES") != Some(false) {
        return Err(not_captured("/proc/modules"));
    }
    Ok(match (loaded, facts.real_time()) {
        (true, true) if !facts.jetson() => {
            let fix = "drive the screen by the processor's own graphics, or boot without it: modprobe.blacklist=nvidia";
            Conclusion::warn(
                read,
                "nvidia is loaded on a real-time kernel, which it does not support",
                Service.advice(fix),
            )
        }
        (true, _) => Conclusion::pass(read, "nvidia, on a kernel that it supports"),
        (false, _) => Conclusion::pass(read, "NVIDIA's is not loaded"),
    })
}
