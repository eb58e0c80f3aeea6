// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own work: tracing, RCU, groups of real-time threads.

use machine::advice::Manual::{Kernel, Service};
use machine::advice::SettingId;
use machine::sight;

use super::{Check, GRAVE, MIDDLING, SLIGHT};
use crate::facts::CheckFacts;
use crate::finding::{CheckResult, Conclusion, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "kernel-tracer-active",
        question: "Is tracing off?",
        weights: MIDDLING,
        why: "a function tracer or event session that was left on slows the kernel",
        source: "Linux 6.12, Documentation/trace/ftrace.rst",
        look: tracer,
    },
    Check {
        id: "kernel-rt-group-sched",
        question: "May every control group have real-time threads?",
        weights: GRAVE,
        why: "with RT_GROUP_SCHED a group without runtime refuses real-time policies with EPERM, and throttles them",
        source: "Linux 6.12, Documentation/scheduler/sched-rt-group.rst; moby/moby issues 22380, 38271",
        look: group_sched,
    },
    Check {
        id: "kernel-console",
        question: "Do the kernel's messages stay off a serial line?",
        weights: SLIGHT,
        why: "at 115200 baud a letter takes 87 us; a kernel whose consoles print by themselves does that with interrupts off",
        source: "Linux 6.12, kernel/printk/printk.c, Documentation/core-api/real-time/differences.rst",
        look: console,
    },
    Check {
        id: "kernel-rcu-normal",
        question: "Are expedited RCU grace periods off?",
        weights: MIDDLING,
        why: "an expedited grace period sends an IPI to every CPU that is not idle, isolated ones too",
        source: "Linux 6.12, kernel/rcu/update.c, kernel/rcu/tree_exp.h: rcu_normal prevails over rcu_expedited",
        look: rcu_normal,
    },
    Check {
        id: "kernel-sched-ext",
        question: "Is no BPF scheduler (sched_ext) loaded?",
        weights: SLIGHT,
        why: "a BPF scheduler replaces the fair class and sends IPIs of its own",
        source: "Linux 6.12, Documentation/scheduler/sched-ext.rst",
        look: sched_ext,
    },
];

fn tracer(facts: &CheckFacts) -> CheckResult {
    let (folder, path) = (sight::TRACEFS, sight::TRACER);
    let current = facts.text_or(path, super::see::not_mounted)?;
    if current != "nop" {
        return Ok(Conclusion::warn(
            read_in(path, current),
            format!("the tracer {current} runs"),
            Service.advice(format!("echo nop > {path}")),
        ));
    }
    for (file, what) in [("set_event", "events are traced"), ("kprobe_events", "kprobes are set")] {
        let path = format!("{folder}/{file}");
        if let Some(text) = facts.hint(&path).filter(|text| !text.is_empty()) {
            let first = text.lines().next().unwrap_or_default();
            return Ok(Conclusion::warn(
                read_in(&path, first),
                what,
                Service.advice(format!("echo > {path}")),
            ));
        }
    }
    Ok(Conclusion::pass(read_in(path, current), "no tracer runs"))
}

fn group_sched(facts: &CheckFacts) -> CheckResult {
    let read = facts.option_read("RT_GROUP_SCHED");
    let fix = if facts.at_least(6, 16) == Some(true) {
        SettingId::RtGroupSched.advice(&facts.aim())
    } else {
        Kernel.advice(
            "boot a kernel without CONFIG_RT_GROUP_SCHED, or give the group cpu.rt_runtime_us (control groups of version 1)",
        )
    };
    let limits = &facts.machine.scheduler;
    match limits.rt_group_scheduling {
        Some(false) => Ok(Conclusion::pass(read, "real-time runtime is not divided by group")),
        Some(true) if facts.machine.cgroup.rt_runtime_us == Some(0) => {
            let path = facts.machine.cgroup.path.as_deref().unwrap_or("this control group");
            Ok(Conclusion::fail(
                read,
                format!("{path} has no real-time runtime: every real-time policy is refused"),
                fix,
            ))
        }
        Some(true) => Ok(Conclusion::warn(read, "real-time runtime is divided by group", fix)),
        None => Err(facts.config_unknown()),
    }
}

fn console(facts: &CheckFacts) -> CheckResult {
    let (consoles, level) = ("/proc/consoles", "/proc/sys/kernel/printk");
    let text = facts.text(consoles)?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    let slow = |name: &&str| {
        ["ttyS", "ttyAMA", "ttymxc", "ttyTCU", "ttyO", "hvc"].iter().any(|tty| name.starts_with(tty))
    };
    let Some(serial) = names.clone().find(slow) else {
        return Ok(Conclusion::pass(
            read_in(consoles, names.collect::<Vec<_>>().join(", ")),
            "no serial line is a console",
        ));
    };
    let printk = facts.text(level)?;
    let Some(most) = printk.split_whitespace().next().and_then(|number| number.parse::<u32>().ok()) else {
        return Err(Conclusion::unknown(level, format!("'{printk}' is no level"), "look at it"));
    };
    let read = read_in(format!("{consoles}, {level}"), format!("{serial}, {most}"));
    // Consoles print in a thread there (since 6.12), but for emergencies.
    if facts.real_time() && facts.at_least(6, 12) == Some(true) {
        return Ok(Conclusion::pass(read, format!("{serial} is written to by a thread")));
    }
    Ok(match most {
        0..=4 => Conclusion::pass(read, format!("{serial} gets errors alone")),
        _ => Conclusion::warn(
            read,
            format!("{serial} gets messages up to level {}, each with interrupts off", most - 1),
            SettingId::Printk.advice(&facts.aim()),
        ),
    })
}

fn rcu_normal(facts: &CheckFacts) -> CheckResult {
    let (normal_file, expedited_file) = ("/sys/kernel/rcu_normal", "/sys/kernel/rcu_expedited");
    let expedited = facts.word(expedited_file, &["0", "1"])?;
    let normal = facts.word(normal_file, &["0", "1"])?;
    let aim = facts.aim();
    let word = SettingId::RcuNormalAfterBoot.word(&aim);
    let fix = SettingId::RcuNormal.advice(&aim).then(format!("; from boot on: {word}"));
    let read = read_in(format!("{normal_file}, {expedited_file}"), format!("{normal}, {expedited}"));
    Ok(match (normal, expedited) {
        ("1", _) => Conclusion::pass(read, "no grace period is expedited"),
        (_, "0") => Conclusion::warn(read, "grace periods may be expedited", fix),
        _ => {
            let fix = fix.then(format!("; {}", SettingId::RcuExpedited.command(&aim)));
            Conclusion::fail(read, "every grace period is expedited", fix)
        }
    })
}

fn sched_ext(facts: &CheckFacts) -> CheckResult {
    let path = "/sys/kernel/sched_ext/state";
    let state = facts.word(path, &["disabled", "enabling", "enabled", "disabling"])?;
    Ok(match state {
        "enabled" | "enabling" => Conclusion::warn(
            read_in(path, state),
            "a BPF scheduler is loaded",
            Service.advice("stop its service (systemctl stop scx)"),
        ),
        _ => Conclusion::pass(read_in(path, state), "no BPF scheduler is loaded"),
    })
}
