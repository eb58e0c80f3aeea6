// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hypervisors below.

use machine::advice;
use machine::advice::Manual::Host;
use machine::advice::SettingId;
use machine::units::whole_us;

use super::{Check, GRAVE};
use crate::facts::CheckFacts;
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

pub(super) const ALL: &[Check] = &[
    Check {
        id: "virt-guest",
        question: "Is this bare metal?",
        weights: [
            Some(Severity::High),
            Some(Severity::High),
            Some(Severity::Medium),
            Some(Severity::High),
            Some(Severity::Info),
        ],
        why: "the host can stop a virtual CPU at any time, and the guest cannot see why",
        source: "/proc/cpuinfo, DMI, the device tree, paravirtual clocks",
        look: guest,
    },
    Check {
        id: "virt-halt-poll",
        question: "Is it known for how long the host polls for its guests?",
        weights: [None, None, None, Some(Severity::Low), None],
        why: "whether the wakeup of a guest is found while the host polls decides between two latencies",
        source: "Linux 6.12, Documentation/virt/kvm/halt-polling.rst",
        look: halt_poll,
    },
    Check {
        id: "virt-steal",
        question: "Is the guest free of steal time?",
        weights: GRAVE,
        why: "during steal time the program does not run, whatever its priority",
        source: "proc_stat(5), steal, twice; a host may hide it",
        look: steal,
    },
    Check {
        id: "virt-wsl",
        question: "Is the system something other than WSL?",
        weights: GRAVE,
        why: "its clock jumps, and it stops for seconds",
        source: "microsoft/WSL issues 40745, 11790, 10167",
        look: wsl,
    },
];

fn guest(facts: &CheckFacts) -> CheckResult {
    Ok(match &facts.machine.hypervisor {
        Some(kind) => Conclusion::warn(
            read_in("/proc/cpuinfo, /sys/class/dmi/id, clock sources", kind),
            format!("a guest of a hypervisor ({kind}): its host bounds every result"),
            if kind == "wsl" {
                Host.advice("run Linux on bare metal")
            } else {
                advice::PIN_GUEST.then(" (isolator doctor --use vm there)")
            },
        ),
        // Of an x86 processor its flags tell, and each has one of those that are kept.
        None if facts.machine.architecture.is_none()
            || (facts.x86 && facts.inventory.cpu_flags.is_empty()) =>
        {
            return Err(crate::facts::not_captured("/proc/cpuinfo"));
        }
        None => Conclusion::pass(
            read_in("/proc/cpuinfo, /sys/class/dmi/id", "no sign of a hypervisor"),
            "no hypervisor was detected",
        ),
    })
}

fn halt_poll(facts: &CheckFacts) -> CheckResult {
    let path = SettingId::HaltPoll.file();
    let ns = facts.number(&path)?;
    let read = read_in(&path, ns);
    Ok(match ns {
        0 => Conclusion::pass(read, "the host does not poll: each wakeup takes the same way"),
        _ => Conclusion::warn(
            read,
            format!(
                "the host polls for up to {}, and adapts that to each guest",
                whole_us(ns.unsigned_abs() / 1_000)
            ),
            SettingId::HaltPoll.advice(&facts.aim()),
        ),
    })
}

fn steal(facts: &CheckFacts) -> CheckResult {
    if facts.machine.hypervisor.is_none() {
        return Err(Conclusion::not_applicable("no hypervisor was detected"));
    }
    let sample = facts.sampled("/proc/stat")?;
    let stolen: Vec<_> = sample.cpus.iter().filter(|cpu| cpu.steal_ticks > 0).collect();
    let Some(worst) = stolen.iter().max_by_key(|cpu| cpu.steal_ticks) else {
        facts.unsampled("/proc/stat", facts.measured())?;
        return Ok(Conclusion::pass(read_in("/proc/stat", "0"), "no time was stolen, or the host hides it"));
    };
    // A tick of /proc/stat is 10 ms (USER_HZ).
    let percent = worst.steal_ticks as f64 * 1_000.0 / sample.duration_ms.max(1) as f64;
    let read = read_in(
        format!("/proc/stat over {} ms", sample.duration_ms),
        format!("cpu {}: {} ticks", worst.cpu, worst.steal_ticks),
    );
    let fix = advice::PIN_GUEST.then(", at fifo 1");
    let says = format!("{percent:.1} % of the time of cpu {} was stolen", worst.cpu);
    Ok(if percent > 1.0 { Conclusion::fail(read, says, fix) } else { Conclusion::warn(read, says, fix) })
}

fn wsl(facts: &CheckFacts) -> CheckResult {
    let release = facts.machine.kernel.release.as_deref().unwrap_or("unknown");
    let read = read_in("/proc/sys/kernel/osrelease", release);
    Ok(match facts.machine.hypervisor.as_deref() {
        Some("wsl") => {
            Conclusion::fail(read, "WSL cannot keep deadlines", Host.advice("run Linux on bare metal"))
        }
        _ if facts.machine.kernel.release.is_none() => {
            return Err(crate::facts::not_captured("/proc/sys/kernel/osrelease"));
        }
        _ => Conclusion::pass(read, "this is not WSL"),
    })
}
