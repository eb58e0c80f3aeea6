// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler's limits on real-time threads, and its watchdogs.

use machine::CpuSet;
use machine::advice::Manual::Search;
use machine::advice::SettingId;
use machine::inventory::ThreadPolicy;
use machine::units::whole_us;

use super::{Check, GRAVE, MIDDLING};
use crate::Profile;
use crate::facts::{AS_ROOT, CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "sched-rt-runtime",
        question: "Does the limit on real-time runtime (sched_rt_runtime_us) fit the profile?",
        weights: MIDDLING,
        why: "before Linux 6.12 it stops real-time threads for 50 ms of each second once they use up 95 %; since then it \
              throttles nothing, and -1 switches off the admission test of SCHED_DEADLINE",
        source: "Linux 6.12, kernel/sched/rt.c, kernel/sched/deadline.c",
        look: runtime,
    },
    Check {
        id: "sched-rt-throttled-log",
        question: "Is the machine free of real-time throttling?",
        weights: GRAVE,
        why: "a throttled thread does not run for milliseconds",
        source: "Linux 6.12, kernel/sched/rt.c, kernel/sched/deadline.c",
        look: throttled,
    },
    Check {
        id: "sched-fair-server",
        question: "Is the fair server off for programs that never sleep?",
        weights: [Some(Severity::Low), Some(Severity::High), Some(Severity::Low), Some(Severity::High), None],
        why: "it gives starving ordinary threads up to 50 ms of each second, ahead of SCHED_FIFO, and keeps the tick going",
        source: "Linux 6.12, kernel/sched/deadline.c; ni/meta-nilrt pull request 864, NVIDIA/NV-Kernels pull request 400",
        look: fair_server,
    },
    Check {
        id: "sched-softlockup",
        question: "Does the soft lockup watchdog spare isolated CPUs?",
        weights: [
            Some(Severity::Low),
            Some(Severity::Medium),
            Some(Severity::Low),
            Some(Severity::Low),
            None,
        ],
        why: "every few seconds it interrupts each of its CPUs",
        source: "Linux 6.12, kernel/watchdog.c: nohz_full CPUs are left out by itself",
        look: soft_lockup,
    },
    Check {
        id: "sched-hardlockup",
        question: "Is the hard lockup watchdog off?",
        weights: [
            Some(Severity::Low),
            Some(Severity::Medium),
            Some(Severity::Low),
            Some(Severity::Low),
            None,
        ],
        why: "it raises a performance-counter NMI on every CPU",
        source: "Linux 6.12, kernel/watchdog_perf.c",
        look: hard_lockup,
    },
];

fn runtime(facts: &CheckFacts) -> CheckResult {
    let path = "/proc/sys/kernel/sched_rt_runtime_us";
    let limits = &facts.machine.scheduler;
    let Some(runtime) = limits.rt_runtime_us else {
        facts.text(path)?;
        return Err(not_captured(path));
    };
    let period = limits.rt_period_us.unwrap_or(1_000_000);
    let read =
        read_in(format!("{path}, /proc/sys/kernel/sched_rt_period_us"), format!("{runtime} of {period}"));
    let deadline = facts
        .inventory
        .threads
        .iter()
        .any(|thread| !thread.kernel && thread.policy == ThreadPolicy::Deadline);
    let set = |value| SettingId::RtRuntime.advice_to(&facts.aim(), value);
    Ok(match (runtime, facts.machine.limits_real_time()) {
        (-1, _) if deadline => {
            Conclusion::warn(read, "no limit: SCHED_DEADLINE admits threads without a test", set("950000"))
        }
        (-1, Some(true)) if facts.housekeeping.len() < 2 && !facts.housekeeping.is_empty() => {
            Conclusion::warn(
                read,
                "no limit, and one housekeeping CPU: a spinning loop hangs the machine",
                set("950000"),
            )
        }
        (-1, _) => Conclusion::pass(read, "no limit"),
        (_, Some(false)) => {
            Conclusion::pass(read, "this kernel does not throttle by it; see sched-fair-server")
        }
        (_, Some(true)) if matches!(facts.profile, Profile::Poll | Profile::Vm) => Conclusion::warn(
            read,
            format!(
                "a program that never sleeps is stopped for {} of each {}",
                whole_us(period - runtime),
                whole_us(period)
            ),
            set("-1").then(", with two CPUs for housekeeping"),
        ),
        (_, None) if matches!(facts.profile, Profile::Poll | Profile::Vm) => Conclusion::unknown(
            facts.config_source(),
            "whether this kernel throttles real-time threads cannot be told",
            "modprobe configs, or install the kernel's package with its /boot/config",
        ),
        _ => Conclusion::pass(read, "a program that sleeps each period does not reach it"),
    })
}

fn throttled(facts: &CheckFacts) -> CheckResult {
    let log = facts.log()?;
    let source = log.source.as_deref().unwrap_or_default();
    let hit = ["RT throttling activated", "DL replenish lagged too much"]
        .iter()
        .find_map(|pattern| log.matching(pattern).next());
    Ok(match hit {
        Some(line) => Conclusion::fail(
            read_in(source, line),
            format!("the kernel says: {line}"),
            Search.advice(
                "find the thread that never sleeps: isolator doctor --sample 10s --explain thr-spinner",
            ),
        ),
        None if log.from_boot => {
            Conclusion::pass(read_in(source, "no such line"), "no thread was throttled since boot")
        }
        None => Conclusion::unknown(
            source,
            "the log has lost its beginning",
            "look after the next boot: journalctl -k -b",
        ),
    })
}

fn fair_server(facts: &CheckFacts) -> CheckResult {
    if facts.at_least(6, 12) == Some(false) {
        return Err(Conclusion::not_applicable("Linux 6.12 introduced it"));
    }
    let polls = matches!(facts.profile, Profile::Poll | Profile::Vm);
    let folder = "/sys/kernel/debug/sched/fair_server";
    let running: CpuSet = facts
        .machine
        .cpus
        .iter()
        .filter(|cpu| {
            facts.measured().contains(cpu.id) && cpu.fair_server_runtime_ns.is_some_and(|ns| ns > 0)
        })
        .map(|cpu| cpu.id)
        .collect();
    if facts.machine.cpus.iter().all(|cpu| cpu.fair_server_runtime_ns.is_none()) {
        if !polls {
            return Err(Conclusion::not_applicable("it does not affect a program that sleeps each period"));
        }
        facts.text_or(folder, || {
            Conclusion::unknown(
                folder,
                "the kernel does not show it",
                "mount -t debugfs none /sys/kernel/debug, as root, on a kernel with SCHED_DEBUG",
            )
        })?;
        return Err(Conclusion::unknown(folder, "it shows no CPU", AS_ROOT));
    }
    let read = read_in(format!("{folder}/cpuN/runtime"), &running);
    Ok(if running.is_empty() {
        Conclusion::pass(read, "the fair server is off")
    } else if polls {
        let fix = SettingId::FairServer.advice_on(&facts.aim(), &running);
        Conclusion::warn(read, format!("the fair server is on for cpus {running}"), fix)
    } else {
        Conclusion::pass(read, "the fair server is on, and does not affect a program that sleeps each period")
    })
}

fn soft_lockup(facts: &CheckFacts) -> CheckResult {
    let (on, mask) = ("/proc/sys/kernel/soft_watchdog", "/proc/sys/kernel/watchdog_cpumask");
    let soft = facts.word(on, &["0", "1"])?;
    if soft == "0" || facts.hint("/proc/sys/kernel/watchdog") == Some("0") {
        return Ok(Conclusion::pass(read_in(on, soft), "the soft lockup watchdog is off"));
    }
    let text = facts.text(mask)?;
    let Ok(cpus) = text.parse::<CpuSet>() else {
        return Err(Conclusion::unknown(mask, format!("'{text}' names no CPUs"), "look at it"));
    };
    let isolated = facts.isolated()?;
    let overlap = cpus.and(isolated);
    Ok(if overlap.is_empty() {
        Conclusion::pass(read_in(mask, text), format!("the watchdog runs on cpus {cpus} only"))
    } else {
        let fix = SettingId::WatchdogCpumask.advice(&facts.aim());
        Conclusion::warn(read_in(mask, text), format!("the watchdog runs on cpus {overlap}"), fix)
    })
}

fn hard_lockup(facts: &CheckFacts) -> CheckResult {
    let path = "/proc/sys/kernel/nmi_watchdog";
    let text = facts.word(path, &["0", "1"])?;
    let read = read_in(path, text);
    Ok(match text {
        "0" => Conclusion::pass(read, "the hard lockup watchdog is off"),
        _ => Conclusion::warn(
            read,
            "the hard lockup watchdog is on",
            SettingId::NmiWatchdog.advice(&facts.aim()),
        ),
    })
}
