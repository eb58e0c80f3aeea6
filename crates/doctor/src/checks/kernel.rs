// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel and its configuration.

use machine::advice::Manual::{BootLine, Firmware, Kernel, Search};
use machine::advice::SettingId;
use machine::snapshot::Preemption;
use machine::units::exact_us;

use super::{APART, Check, GRAVE, MIDDLING, SLIGHT, TOLD, preemption_words};
use crate::facts::{AS_ROOT, CheckFacts, not_captured, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};
use crate::{Profile, obtain};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "kernel-preempt-rt",
        question: "Is this a real-time kernel?",
        weights: [
            Some(Severity::High),
            Some(Severity::Medium),
            Some(Severity::Medium),
            Some(Severity::High),
            Some(Severity::Info),
        ],
        why: "a kernel without PREEMPT_RT holds locks and interrupts off for as long as it likes: 10 ms spikes of a stock \
              kernel under load become less than 0.1 ms",
        source: "Linux 7.0, Documentation/core-api/real-time/theory.rst; kernel.version, since a name with rt proves nothing",
        look: preempt_rt,
    },
    Check {
        id: "kernel-preempt-mode",
        question: "Is the kernel preemptible?",
        weights: MIDDLING,
        why: "with voluntary or no preemption, one system call can delay every other thread",
        source: "Linux 6.12, kernel/Kconfig.preempt, kernel/sched/core.c",
        look: preempt_mode,
    },
    Check {
        id: "kernel-config-readable",
        question: "Can the kernel's configuration be read?",
        weights: TOLD,
        why: "without it doctor cannot tell which parameters this kernel was built without",
        source: "Linux 6.12, init/Kconfig (IKCONFIG_PROC)",
        look: config_readable,
    },
    Check {
        id: "kernel-config-nohz-full",
        question: "Can the tick be stopped?",
        weights: [
            Some(Severity::Medium),
            Some(Severity::High),
            Some(Severity::Low),
            Some(Severity::Medium),
            None,
        ],
        why: "a kernel without NO_HZ_FULL ignores nohz_full= and says so only in its log",
        source: "Linux 6.12, kernel/sched/isolation.c",
        look: nohz_full,
    },
    Check {
        id: "kernel-config-rcu-nocb",
        question: "Can RCU callbacks be offloaded?",
        weights: [
            Some(Severity::Medium),
            Some(Severity::High),
            Some(Severity::Low),
            Some(Severity::Medium),
            None,
        ],
        why: "without RCU_NOCB_CPU callbacks run in the softirq, or in rcuc, of the isolated CPU",
        source: "Linux 6.12, kernel/rcu/Kconfig, kernel/rcu/tree_nocb.h",
        look: rcu_nocb,
    },
    Check {
        id: "kernel-config-cpu-isolation",
        question: "Does the kernel support isolcpus=?",
        weights: APART,
        why: "without CPU_ISOLATION neither isolcpus= nor nohz_full= is a parameter",
        source: "Linux 6.12, init/Kconfig",
        look: cpu_isolation,
    },
    Check {
        id: "kernel-highres",
        question: "Are high-resolution timers active?",
        weights: GRAVE,
        why: "without high-resolution timers every wakeup waits for the next tick, 1 to 10 ms",
        source: "Linux 6.12, kernel/time/hrtimer.c",
        look: highres,
    },
    Check {
        id: "kernel-debug-options",
        question: "Is the kernel free of debugging that costs latency?",
        weights: GRAVE,
        why: "lock debugging and sanitizers keep interrupts disabled for hundreds of microseconds",
        source: "Linux of 2026-08, Documentation/core-api/real-time/kernel-configuration.rst; evlproject.org, core/caveat",
        look: debug_options,
    },
    Check {
        id: "kernel-lockdown",
        question: "Does lockdown refuse root access to debugfs and MSRs?",
        weights: TOLD,
        why: "it explains why writes to debugfs (fair server, preempt) and reading MSRs (SMIs) are refused to root",
        source: "Linux 6.12, security/lockdown, kernel_lockdown(7)",
        look: lockdown,
    },
    Check {
        id: "kernel-rt-false-name",
        question: "Does the kernel's name match its preemption model?",
        weights: SLIGHT,
        why: "rt in a kernel name is only a convention; programs that rely on it can be wrong",
        source: "LinuxCNC/linuxcnc issue 3262",
        look: false_name,
    },
];

fn version(facts: &CheckFacts) -> crate::Evidence {
    read_in("/proc/sys/kernel/version", facts.machine.kernel.version.as_deref().unwrap_or("unknown"))
}

fn preempt_rt(facts: &CheckFacts) -> CheckResult {
    let kernel = &facts.machine.kernel;
    if kernel.version.is_none() && kernel.release.is_none() {
        return Err(not_captured("/proc/version"));
    }
    let server = facts.profile == Profile::Server;
    let words = preemption_words(kernel.preemption);
    Ok(match kernel.preemption {
        Preemption::RealTime if server => Conclusion::warn(
            version(facts),
            "a real-time kernel, which costs a server throughput",
            Kernel.advice("boot the distribution's stock kernel"),
        ),
        Preemption::RealTime => Conclusion::pass(version(facts), "PREEMPT_RT"),
        Preemption::Unknown => {
            Conclusion::unknown("/proc/sys/kernel/version", "it does not show the preemption model", AS_ROOT)
        }
        _ if server => Conclusion::pass(version(facts), format!("{words}: right for throughput")),
        Preemption::Full | Preemption::Dynamic => {
            Conclusion::warn(version(facts), words, Kernel.advice(obtain::command(facts.machine)))
        }
        _ => Conclusion::fail(version(facts), words, Kernel.advice(obtain::command(facts.machine))),
    })
}

fn preempt_mode(facts: &CheckFacts) -> CheckResult {
    let path = "/sys/kernel/debug/sched/preempt";
    let fix = if facts.option("PREEMPT_DYNAMIC") == Some(false) {
        Kernel.advice("boot a kernel with CONFIG_PREEMPT or CONFIG_PREEMPT_DYNAMIC")
    } else {
        SettingId::Preempt.advice(&facts.aim()).then(format!("; until then echo full > {path}"))
    };
    let words = preemption_words(facts.machine.kernel.preemption);
    Ok(match facts.machine.kernel.preemption {
        Preemption::RealTime => Conclusion::not_applicable("a real-time kernel is always preemptible"),
        Preemption::Full => Conclusion::pass(version(facts), words),
        Preemption::Lazy => Conclusion::warn(version(facts), words, fix),
        Preemption::Voluntary | Preemption::None => Conclusion::fail(version(facts), words, fix),
        Preemption::Dynamic => {
            facts.text_or(path, || not_captured(path))?;
            Conclusion::unknown(path, "its choice could not be read", AS_ROOT)
        }
        Preemption::Unknown => {
            Conclusion::unknown("/proc/sys/kernel/version", "it does not show the preemption model", AS_ROOT)
        }
    })
}

fn config_readable(facts: &CheckFacts) -> CheckResult {
    match &facts.machine.kernel.config_source {
        Some(source) => Ok(Conclusion::pass(read_in(source, "readable"), format!("read in {source}"))),
        None if facts.inventory.whole => Ok(Conclusion::warn(
            read_in(facts.config_source(), "absent"),
            "no configuration could be read: checks that need it are UNKNOWN",
            Search.advice("modprobe configs, or install the kernel's package with its /boot/config"),
        )),
        None => Err(not_captured(&facts.config_source())),
    }
}

fn nohz_full(facts: &CheckFacts) -> CheckResult {
    let file = "/sys/devices/system/cpu/nohz_full";
    // What it shows comes before what a configuration says.
    let shown = &facts.machine.isolation.nohz_full;
    if !shown.is_empty() {
        return Ok(Conclusion::pass(read_in(file, shown), format!("the tick can stop on cpus {shown}")));
    }
    let there = match facts.option("NO_HZ_FULL") {
        Some(built) => built,
        // The file is there only with the option (drivers/base/cpu.c).
        None => facts.text_or(file, || Conclusion::not_applicable("")).map(|_| true).or_else(|found| {
            if found.result == crate::FindingOutcome::NotApplicable {
                Ok(false)
            } else {
                Err(facts.option_unknown("NO_HZ_FULL"))
            }
        })?,
    };
    let read = facts.option_read("NO_HZ_FULL");
    let build = Kernel.advice("boot a kernel with CONFIG_NO_HZ_FULL, or take nohz_full= off the boot line");
    if !there {
        facts.known_command_line()?;
    }
    Ok(match (there, facts.asks_for_no_tick()) {
        (true, _) => Conclusion::pass(read, "built with NO_HZ_FULL"),
        (false, true) => Conclusion::fail(
            read,
            "the boot line asks for it, and the kernel is built without NO_HZ_FULL",
            build,
        ),
        (false, false) if facts.profile == Profile::Poll => Conclusion::warn(
            read,
            "built without NO_HZ_FULL: a program that polls is interrupted by every tick",
            build,
        ),
        (false, false) => Conclusion::pass(read, "built without NO_HZ_FULL, and nothing asks for it"),
    })
}

fn rcu_nocb(facts: &CheckFacts) -> CheckResult {
    let option = facts.option("RCU_NOCB_CPU");
    let thread =
        facts.inventory.threads.iter().any(|thread| thread.kernel && thread.name.starts_with("rcuo"));
    let asked = facts.boot_value("rcu_nocbs").is_some();
    let read = facts.option_read("RCU_NOCB_CPU");
    let build = Kernel.advice("boot a kernel with CONFIG_RCU_NOCB_CPU, or take rcu_nocbs= off the boot line");
    if option == Some(false) && !thread {
        facts.known_command_line()?;
    }
    match (option, thread) {
        (Some(true), _) => Ok(Conclusion::pass(read, "built with RCU_NOCB_CPU")),
        (_, true) => Ok(Conclusion::pass(read_in("/proc/PID/stat", "rcuo threads"), "callback threads run")),
        (Some(false), _) if asked => Ok(Conclusion::fail(
            read,
            "rcu_nocbs= is asked for, and the kernel is built without RCU_NOCB_CPU",
            build,
        )),
        (Some(false), _) if facts.profile == Profile::Poll => {
            Ok(Conclusion::warn(read, "built without RCU_NOCB_CPU", build))
        }
        (Some(false), _) => Ok(Conclusion::pass(read, "built without RCU_NOCB_CPU, and nothing asks for it")),
        (None, false) => Err(facts.option_unknown("RCU_NOCB_CPU")),
    }
}

fn cpu_isolation(facts: &CheckFacts) -> CheckResult {
    let read = facts.option_read("CPU_ISOLATION");
    // What the kernel does comes before what a configuration says of it.
    let shown = &facts.machine.isolation.isolated;
    if !shown.is_empty() {
        return Ok(Conclusion::pass(read_in("/sys/devices/system/cpu/isolated", shown), "CPUs are isolated"));
    }
    match facts.option("CPU_ISOLATION") {
        Some(true) => Ok(Conclusion::pass(read, "built with CPU_ISOLATION")),
        Some(false) => {
            let fix = Kernel.advice("boot a kernel with CONFIG_CPU_ISOLATION");
            Ok(Conclusion::fail(read, "built without CPU_ISOLATION", fix))
        }
        None => Err(facts.option_unknown("CPU_ISOLATION")),
    }
}

fn highres(facts: &CheckFacts) -> CheckResult {
    if let Some(word @ "off") = facts.boot_value("highres").or(facts.boot_value("nohz")) {
        let name = if facts.boot_value("highres").is_some() { "highres" } else { "nohz" };
        return Ok(Conclusion::fail(
            read_in("/proc/cmdline", format!("{name}={word}")),
            "high-resolution timers are switched off",
            BootLine.advice(format!("take {name}={word} off the boot line")),
        ));
    }
    if let Some(resolution) = facts.inventory.clock_resolution_ns {
        let read = read_in("clock_getres(CLOCK_MONOTONIC)", format!("{resolution} ns"));
        return Ok(match resolution {
            1 => Conclusion::pass(read, "timers have a resolution of 1 ns"),
            _ => Conclusion::fail(
                read,
                format!("timers fire every {} only", exact_us(resolution)),
                Kernel.advice("boot a kernel with CONFIG_HIGH_RES_TIMERS, on a clock that allows it"),
            ),
        });
    }
    let timers = "/proc/timer_list";
    if let Some(text) = facts.hint(timers).filter(|text| !text.is_empty()) {
        let active =
            text.lines().any(|line| line.starts_with(".hres_active") && line.trim_end().ends_with('1'));
        let read = read_in(timers, text.lines().next().unwrap_or_default());
        return Ok(if active {
            Conclusion::pass(read, "high-resolution timers are active")
        } else {
            Conclusion::fail(
                read,
                "high-resolution timers are not active",
                Kernel.advice("boot a kernel with CONFIG_HIGH_RES_TIMERS"),
            )
        });
    }
    match facts.option("HIGH_RES_TIMERS") {
        Some(false) => Ok(Conclusion::fail(
            facts.option_read("HIGH_RES_TIMERS"),
            "built without HIGH_RES_TIMERS",
            Kernel.advice("boot a kernel with CONFIG_HIGH_RES_TIMERS"),
        )),
        _ => Err(not_captured(timers)),
    }
}

/// Options that hold interrupts or locks for long.
const HEAVY: &[&str] = &[
    "PROVE_LOCKING",
    "LOCKDEP",
    "DEBUG_LOCK_ALLOC",
    "LOCK_STAT",
    "KASAN",
    "KCSAN",
    "KMSAN",
    "IRQSOFF_TRACER",
    "PREEMPT_TRACER",
];
/// Options that cost less.
const LIGHT: &[&str] = &[
    "DEBUG_PREEMPT",
    "DEBUG_OBJECTS",
    "UBSAN_TRAP",
    "SLUB_DEBUG_ON",
    "DEBUG_PAGEALLOC",
    "DEBUG_KMEMLEAK",
    "FTRACE_STARTUP_TEST",
];

fn debug_options(facts: &CheckFacts) -> CheckResult {
    if facts.machine.kernel.options.is_empty() {
        return Err(facts.config_unknown());
    }
    let set = |names: &[&'static str]| -> Vec<&'static str> {
        names.iter().copied().filter(|name| facts.option(name) == Some(true)).collect()
    };
    let (heavy, light) = (set(HEAVY), set(LIGHT));
    let fix = Kernel.advice("boot a kernel that is not built for debugging");
    let read =
        |names: &[&str]| read_in(facts.config_source(), format!("CONFIG_{}=y", names.join("=y CONFIG_")));
    Ok(match (heavy.is_empty(), light.is_empty()) {
        (false, _) => Conclusion::fail(read(&heavy), format!("built with {}", some(&heavy, 4)), fix),
        (true, false) => Conclusion::warn(read(&light), format!("built with {}", some(&light, 4)), fix),
        (true, true) => {
            Conclusion::pass(read_in(facts.config_source(), "none"), "no debugging option that costs latency")
        }
    })
}

fn lockdown(facts: &CheckFacts) -> CheckResult {
    let path = "/sys/kernel/security/lockdown";
    let text = facts.text(path)?;
    let chosen = bracketed(text).unwrap_or(text);
    Ok(match chosen {
        "none" => Conclusion::pass(read_in(path, text), "lockdown is off"),
        word => Conclusion::warn(
            read_in(path, text),
            format!("lockdown={word}: writes to debugfs and MSRs are refused, also to root"),
            Firmware.advice("switch secure boot off in the firmware, or do without those settings"),
        ),
    })
}

fn false_name(facts: &CheckFacts) -> CheckResult {
    let kernel = &facts.machine.kernel;
    let release = kernel.release.as_deref().ok_or_else(|| not_captured("/proc/sys/kernel/osrelease"))?;
    if kernel.preemption == Preemption::Unknown {
        return Err(Conclusion::unknown(
            "/proc/sys/kernel/version",
            "it does not show the preemption model",
            AS_ROOT,
        ));
    }
    if !release.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(Conclusion::unknown(
            "/proc/sys/kernel/osrelease",
            format!("'{release}' is not a release"),
            "look at it",
        ));
    }
    let words = release.split(|c: char| !c.is_ascii_alphanumeric());
    let named = words.into_iter().any(|word| {
        let word = word.to_ascii_lowercase();
        word == "realtime"
            || word.strip_prefix("rt").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let read = read_in("/proc/sys/kernel/osrelease", release);
    Ok(match (named, facts.real_time()) {
        (true, false) => {
            let fix = Kernel.advice(obtain::command(facts.machine));
            Conclusion::warn(read, "the kernel's name says real-time, and it is not PREEMPT_RT", fix)
        }
        (false, true) => Conclusion::pass(
            read,
            "a real-time kernel without rt in its name: some programs take it for a stock kernel",
        ),
        _ => Conclusion::pass(read, "the name matches"),
    })
}

/// The word in brackets, `[never]` or `(full)`, that marks a choice.
pub(super) fn bracketed(text: &str) -> Option<&str> {
    let rest = text.split_once(['[', '('])?.1;
    rest.split_once([']', ')']).map(|(word, _)| word)
}
