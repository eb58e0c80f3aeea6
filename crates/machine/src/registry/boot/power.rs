// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot parameters of idle states, frequencies and links.

use crate::registry::{BOOT, REAL_TIME, Setting, SettingKind, ValueKind, X86};

pub(super) const ALL: &[Setting] = &[
    Setting {
        name: "processor.max_cstate",
        takes: ValueKind::Number,
        needs: &["ACPI_PROCESSOR"],
        effective: &["/sys/module/processor/parameters/max_cstate"],
        reason: "no deeper idle state by ACPI's driver than this one",
        cost: "power and heat, on all CPUs; a limit per CPU (pm_qos_resume_latency_us) costs less",
        source: "Linux 6.12, drivers/acpi/processor_idle.c",
        ..BOOT
    },
    Setting {
        name: "intel_idle.max_cstate",
        takes: ValueKind::Number,
        needs: &["INTEL_IDLE"],
        architectures: X86,
        effective: &["/sys/module/intel_idle/parameters/max_cstate"],
        reason: "no deeper idle state by Intel's driver; 0 leaves idling to ACPI's",
        cost: "power and heat, on all CPUs; a limit per CPU (pm_qos_resume_latency_us) costs less",
        source: "Linux 6.12, drivers/idle/intel_idle.c",
        ..BOOT
    },
    Setting {
        name: "amd_idle.max_cstate",
        kind: SettingKind::Foreign,
        takes: ValueKind::Number,
        reason: "there is no module amd_idle; for its dot the kernel does not even say so",
        source: "absent from Linux 6.12; init/main.c skips names with a dot",
        ..BOOT
    },
    Setting {
        name: "idle",
        takes: ValueKind::Word(&["poll", "halt", "nomwait"]),
        architectures: X86,
        effective: &["/sys/devices/system/cpu/cpuidle/current_driver"],
        reason: "poll never sleeps; nohlt is its name on other architectures",
        cost: "heat, less turbo, and the sibling's execution units; takes PM QoS, which does it per CPU, out of use",
        source: REAL_TIME,
        ..BOOT
    },
    Setting {
        name: "nohlt",
        takes: ValueKind::Nothing,
        needs: &["GENERIC_IDLE_POLL_SETUP"],
        architectures: &["aarch64", "arm", "riscv", "ppc", "mips", "sh"],
        reason: "idle CPUs poll",
        cost: "heat and power",
        source: "Linux 6.12, kernel/sched/idle.c",
        ..BOOT
    },
    Setting {
        name: "cpuidle.off",
        takes: ValueKind::Switch,
        effective: &["/sys/module/cpuidle/parameters/off"],
        reason: "no idle driver: the processor's default remains",
        cost: "the limit on wakeup latency (PM QoS) works no more",
        source: REAL_TIME,
        ..BOOT
    },
    Setting {
        name: "cpuidle.governor",
        effective: &["/sys/devices/system/cpu/cpuidle/current_governor_ro"],
        since: Some((5, 0)),
        reason: "selects the cpuidle governor",
        ..BOOT
    },
    Setting {
        name: "cpufreq.off",
        takes: ValueKind::Switch,
        effective: &["/sys/module/cpufreq/parameters/off"],
        reason: "no frequency driver",
        cost: "the firmware chooses frequencies, and nothing can fix them",
        source: REAL_TIME,
        ..BOOT
    },
    Setting {
        name: "cpufreq.default_governor",
        since: Some((5, 9)),
        effective: &["/sys/module/cpufreq/parameters/default_governor"],
        reason: "performance: frequencies do not change from boot on",
        cost: "power and heat",
        source: "Linux 6.12, drivers/cpufreq/cpufreq.c",
        ..BOOT
    },
    Setting {
        name: "intel_pstate",
        takes: ValueKind::Word(&[
            "disable",
            "active",
            "passive",
            "force",
            "no_hwp",
            "hwp_only",
            "support_acpi_ppc",
            "per_cpu_perf_limits",
        ]),
        needs: &["X86_INTEL_PSTATE"],
        architectures: X86,
        effective: &["/sys/devices/system/cpu/intel_pstate/status"],
        since: Some((3, 9)),
        reason: "passive hands frequencies to the governors",
        source: "Linux 6.12, drivers/cpufreq/intel_pstate.c",
        ..BOOT
    },
    Setting {
        name: "amd_pstate",
        takes: ValueKind::Word(&["disable", "passive", "active", "guided"]),
        needs: &["X86_AMD_PSTATE"],
        architectures: X86,
        effective: &["/sys/devices/system/cpu/amd_pstate/status"],
        since: Some((5, 17)),
        reason: "selects whether the processor or a governor sets frequencies",
        source: "Linux 6.12, drivers/cpufreq/amd-pstate.c",
        ..BOOT
    },
    Setting {
        name: "pcie_aspm",
        takes: ValueKind::Word(&["off", "force"]),
        needs: &["PCIEASPM"],
        reason: "off: Linux leaves the links as the firmware set them, which need not be awake",
        source: "Linux 6.12, drivers/pci/pcie/aspm.c",
        ..BOOT
    },
    Setting {
        name: "pcie_aspm.policy",
        takes: ValueKind::Word(&["default", "performance", "powersave", "powersupersave"]),
        needs: &["PCIEASPM"],
        effective: &["/sys/module/pcie_aspm/parameters/policy"],
        reason: "performance: links to cards do not sleep, and need no time to wake",
        cost: "power",
        source: "Linux 6.12, drivers/pci/pcie/aspm.c",
        ..BOOT
    },
    Setting {
        name: "usbcore.autosuspend",
        takes: ValueKind::Number,
        needs: &["USB"],
        effective: &["/sys/module/usbcore/parameters/autosuspend"],
        reason: "-1: USB devices are not put to sleep",
        cost: "power",
        source: "Linux 6.12, drivers/usb/core/usb.c",
        ..BOOT
    },
    Setting {
        name: "cpuidle_haltpoll.force",
        takes: ValueKind::Switch,
        needs: &["HALTPOLL_CPUIDLE"],
        architectures: X86,
        effective: &["/sys/devices/system/cpu/cpuidle/current_driver"],
        since: Some((5, 4)),
        reason: "a guest polls for a moment before it halts",
        cost: "the host's time",
        source: "Linux 6.12, drivers/cpuidle/cpuidle-haltpoll.c",
        ..BOOT
    },
];
