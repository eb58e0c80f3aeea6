// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphics drivers.

use machine::advice::Manual::Service;

use super::{Check, MIDDLING};
use crate::facts::{CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, read_in};

pub(super) const ALL: &[Check] = &[Check {
    id: "gpu-nvidia-rt",
    question: "Does the graphics driver support this kernel?",
    weights: MIDDLING,
    why: "NVIDIA's desktop driver does not support PREEMPT_RT: it disables interrupts for long, and sleeps in atomic context",
    source: "NVIDIA/open-gpu-kernel-modules issue 1240, ApolloAuto/apollo issue 14320",
    look: nvidia,
}];

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
