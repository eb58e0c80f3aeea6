// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts: where they go, who moves them, and their threads.

use machine::CpuSet;
use machine::advice::Manual::{Kernel, Program, Search, Service};
use machine::advice::SettingId;
use machine::inventory::{BANNED, BANNED_MASK, BannedBy, Irq, Thread};

use super::{APART, APART_LESS, Check, SLIGHT};
use crate::Profile;
use crate::facts::{AS_ROOT, CheckFacts, not_captured, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

const EFFECTIVE: &str = "/proc/irq/N/effective_affinity_list";

pub(super) const ALL: &[Check] = &[
    Check {
        id: "irq-default-affinity",
        question: "Does the default affinity exclude isolated CPUs?",
        weights: APART_LESS,
        why: "a newly requested interrupt is placed on a CPU of this mask",
        source: "Linux 6.12, kernel/irq/irqdesc.c: the boot CPU is always added",
        look: default_affinity,
    },
    Check {
        id: "irq-on-isolated",
        question: "Are device interrupts kept off isolated CPUs?",
        weights: APART,
        why: "each delivery stops the program on that CPU for microseconds, and its softirq for longer",
        source: "Linux 6.12, Documentation/core-api/irq/irq-affinity.rst; seapath/ansible issue 865",
        look: on_isolated,
    },
    Check {
        id: "irq-pending",
        question: "Are all affinity changes in effect?",
        weights: SLIGHT,
        why: "some controllers change the affinity only at the next interrupt",
        source: "Linux 6.12, kernel/irq/migration.c; redhat-performance/tuned pull request 364",
        look: pending,
    },
    Check {
        id: "irq-managed",
        question: "Are managed interrupts kept off isolated CPUs?",
        weights: APART_LESS,
        why: "the kernel places the queue interrupts of NVMe and similar devices, and refuses to move them (EIO)",
        source: "Linux 6.12, kernel/irq/cpuhotplug.c, kernel/sched/isolation.c (managed_irq, since 5.6)",
        look: managed,
    },
    Check {
        id: "irq-balance",
        question: "Does irqbalance spare isolated CPUs?",
        weights: APART_LESS,
        why: "it moves interrupts back; it spares CPUs isolated at boot by itself, but not those of a cgroup partition",
        source: "Irqbalance/irqbalance, cputree.c (setup_banned_cpus), issues 19, 90, 156, 356, 358",
        look: balance,
    },
    Check {
        id: "irq-threaded",
        question: "Are interrupt handlers threaded?",
        weights: [
            Some(Severity::Low),
            Some(Severity::Low),
            Some(Severity::Medium),
            Some(Severity::Low),
            None,
        ],
        why: "a threaded handler has a priority; a hard interrupt handler preempts every thread",
        source: "Linux 6.12, kernel/irq/manage.c",
        look: threaded,
    },
    Check {
        id: "irq-thread-prio",
        question: "Do the priorities of interrupt threads fit those of programs?",
        weights: [
            Some(Severity::Medium),
            Some(Severity::Low),
            Some(Severity::Medium),
            Some(Severity::Low),
            None,
        ],
        why: "a program above the thread of the device that it waits for keeps that thread from running",
        source: "Linux 6.12, kernel/irq/manage.c (50 for all); rtirq",
        look: thread_priority,
    },
    Check {
        id: "irq-ipi-rate",
        question: "Are isolated CPUs free of IPIs?",
        weights: APART_LESS,
        why: "an IPI costs one to two microseconds, and the function it calls about as much again",
        source: "the kernel isolator's paper (UCAS, Phytium): 1.04 to 2.2 us an IPI",
        look: ipis,
    },
];

fn default_affinity(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let path = "/proc/irq/default_smp_affinity";
    let text = facts.text(path)?;
    let Ok(default) = CpuSet::from_mask(text) else {
        return Err(Conclusion::unknown(path, format!("'{text}' is not a mask"), "look at it"));
    };
    let overlap = default.and(isolated);
    let read = read_in(path, text);
    Ok(if overlap.is_empty() {
        Conclusion::pass(read, "new interrupts are placed on other CPUs")
    } else {
        let aim = facts.aim();
        let fix = SettingId::IrqDefault.advice(&aim);
        let fix = match SettingId::Irqaffinity.is_planned(&aim) {
            true => fix.then(format!("; from boot on: {}", SettingId::Irqaffinity.word(&aim))),
            false => fix,
        };
        Conclusion::warn(read, format!("new interrupts may be placed on cpus {overlap}"), fix)
    })
}

/// Interrupts that a device handles, or of which nothing says whether one does.
pub(super) fn devices<'a>(facts: &CheckFacts<'a>) -> Result<Vec<&'a Irq>, Conclusion> {
    let irqs = &facts.inventory.irqs;
    if irqs.is_empty() {
        return Err(not_captured("/proc/irq"));
    }
    let found: Vec<&Irq> = irqs.iter().filter(|irq| irq.unseen || !irq.actions.is_empty()).collect();
    match found.is_empty() {
        true => Err(Conclusion::unknown("/sys/kernel/irq/N/actions", "no interrupt has a handler", AS_ROOT)),
        false => Ok(found),
    }
}

pub(super) fn named(irq: &Irq) -> String {
    let actions = if irq.unseen { "of an unknown device".to_string() } else { irq.actions.join(",") };
    format!("{} ({actions})", irq.number)
}

/// Interrupts of `all` that may be delivered to these CPUs for all that is known: it is not shown where they
/// are delivered, and they were not asked to stay away.
pub(super) fn perhaps_on(all: &[&Irq], cpus: &CpuSet) -> Vec<String> {
    let perhaps = |irq: &&&Irq| {
        irq.effective.is_none() && irq.affinity.as_ref().is_none_or(|asked| !asked.and(cpus).is_empty())
    };
    all.iter().filter(perhaps).map(|irq| named(irq)).collect()
}

/// Whether an interrupt is delivered to isolated CPUs, and not by a plan for the loop that waits for it
/// there.
pub(super) fn disturbs(facts: &CheckFacts, irq: &Irq, isolated: &CpuSet) -> bool {
    irq.effective.as_ref().is_some_and(|cpus| !cpus.and(isolated).is_empty()) && facts.served(irq).is_none()
}

/// The sentence where none of `all` does: `none` where a plan put none there either.
pub(super) fn none_disturbs(facts: &CheckFacts, all: &[&Irq], none: &str) -> String {
    match all.iter().find_map(|irq| facts.served(irq)) {
        Some(device) => format!("none but those of {device}, for which the loop waits there by its plan"),
        None => none.to_string(),
    }
}

fn on_isolated(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let all = devices(facts)?;
    let here = all.iter().filter(|irq| disturbs(facts, irq, isolated));
    let found: Vec<&&Irq> = here.clone().filter(|irq| irq.managed != Some(true)).collect();
    let read = read_in(EFFECTIVE, some(&found.iter().map(|irq| named(irq)).collect::<Vec<_>>(), 12));
    if found.is_empty() {
        let unclear = perhaps_on(&all, isolated);
        if !unclear.is_empty() {
            let why = format!("where these are delivered is not shown: {}", some(&unclear, 3));
            return Err(Conclusion::unknown(EFFECTIVE, why, AS_ROOT));
        }
        // The kernel alone places managed ones; they are delivered there all the same.
        let managed: Vec<String> = here.map(|irq| named(irq)).collect();
        if !managed.is_empty() {
            let read = read_in(EFFECTIVE, some(&managed, 12));
            let says = format!("managed interrupts are delivered to cpus {isolated}: {}", some(&managed, 3));
            return Ok(Conclusion::warn(read, says, Search.advice("isolator doctor --explain irq-managed")));
        }
        let says = none_disturbs(facts, &all, "no interrupt is delivered to isolated CPUs");
        return Ok(Conclusion::pass(read, says));
    }
    let first = found[0].number;
    let fix = SettingId::IrqAffinity
        .advice_for(&facts.aim(), first)
        .then(", for each; where that is refused with EIO the kernel manages it: irq-managed");
    let names: Vec<String> = found.iter().map(|irq| named(irq)).collect();
    // What a sample saw come decides how grave it is.
    let busy = facts.inventory.sample.as_ref().and_then(|sample| {
        let counts = sample.cpus.iter().filter(|cpu| isolated.contains(cpu.cpu)).flat_map(|cpu| &cpu.devices);
        counts.map(|(name, count)| (sample.per_second(*count), name)).max_by(|a, b| a.0.total_cmp(&b.0))
    });
    Ok(match busy {
        Some((rate, name)) if rate > 1.0 => {
            Conclusion::fail(read, format!("{name} comes {rate:.0} times a second"), fix)
        }
        _ => Conclusion::warn(read, format!("interrupts on cpus {isolated}: {}", some(&names, 4)), fix),
    })
}

fn pending(facts: &CheckFacts) -> CheckResult {
    let late = |irq: &&Irq| match (&irq.affinity, &irq.effective) {
        (Some(asked), Some(effective)) => !effective.without(asked).is_empty(),
        _ => false,
    };
    let all = devices(facts)?;
    let found: Vec<String> = all.iter().copied().filter(late).map(named).collect();
    let unclear: Vec<String> = all
        .iter()
        .filter(|irq| irq.affinity.is_none() || irq.effective.is_none())
        .map(|irq| named(irq))
        .collect();
    if found.is_empty() && !unclear.is_empty() {
        let why = format!("where these are delivered is not shown: {}", some(&unclear, 3));
        return Err(Conclusion::unknown(EFFECTIVE, why, AS_ROOT));
    }
    let read = read_in(format!("{EFFECTIVE}, /proc/irq/N/smp_affinity_list"), some(&found, 8));
    Ok(if found.is_empty() {
        Conclusion::pass(read, "every interrupt is delivered where its affinity asks")
    } else {
        let says = format!("{} are not yet delivered where their affinity asks", some(&found, 3));
        Conclusion::warn(read, says, Search.advice("wait for the device's next interrupt, then look again"))
    })
}

fn managed(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let all = devices(facts)?;
    let here = |irq: &&&Irq| {
        let only_here =
            irq.affinity.as_ref().is_some_and(|cpus| !cpus.is_empty() && cpus.without(isolated).is_empty());
        irq.managed == Some(true) && only_here
    };
    let found: Vec<String> = all.iter().filter(here).map(|irq| named(irq)).collect();
    let read = read_in("/sys/kernel/debug/irq/irqs", some(&found, 8));
    if found.is_empty() {
        // One that may move to other CPUs, or has these CPUs alone as its affinity, does not matter.
        let unclear: Vec<String> = all
            .iter()
            .filter(|irq| match (&irq.affinity, irq.managed) {
                (None, managed) => managed != Some(false),
                (Some(cpus), None) => cpus.is_empty() || cpus.without(isolated).is_empty(),
                _ => false,
            })
            .map(|irq| named(irq))
            .collect();
        if !unclear.is_empty() {
            let why = format!("whether these are managed cannot be told: {}", some(&unclear, 3));
            let cure = "look as root, on a kernel with CONFIG_GENERIC_IRQ_DEBUGFS";
            return Err(Conclusion::unknown("/sys/kernel/debug/irq/irqs", why, cure));
        }
        return Ok(Conclusion::pass(read, "no managed interrupt is for these CPUs alone"));
    }
    // With managed_irq a queue whose CPUs are all isolated stays on them (kernel/irq/manage.c,
    // irq_do_set_affinity).
    let asked =
        facts.boot_value("isolcpus").is_some_and(|value| value.split(',').any(|flag| flag == "managed_irq"));
    let fewer =
        "give the driver fewer queues (its module's parameter), or do no input or output on these CPUs";
    let fix = match asked {
        true => Service.advice(fewer),
        false => SettingId::Isolcpus.advice(&facts.aim()).then(format!(", and {fewer}")),
    };
    Ok(Conclusion::warn(read, format!("{} are for cpus {isolated} alone", some(&found, 3)), fix))
}

fn balance(facts: &CheckFacts) -> CheckResult {
    if !facts.inventory.services.runs("irqbalance") {
        if facts.inventory.threads.is_empty() {
            return Err(not_captured("/proc/PID/stat"));
        }
        facts.unseen_host("/proc/PID/stat")?;
        facts.unseen_threads()?;
        return Ok(Conclusion::pass(
            read_in("/proc, /sys/fs/cgroup/system.slice", "no irqbalance"),
            "irqbalance does not run",
        ));
    }
    let isolated = facts.isolated()?;
    let Some(told) = &facts.inventory.services.irqbalance else {
        return Err(not_captured("/proc/PID/environ"));
    };
    if let Some(why) = &told.unread {
        return Err(Conclusion::unknown(&told.source, why, AS_ROOT));
    }
    let spares = told.spares(&facts.machine.isolation);
    let left = isolated.without(&spares.cpus);
    let (mask, list) = (told.mask.as_deref().unwrap_or_default(), told.list.as_deref().unwrap_or_default());
    let take_out = if mask.is_empty() { String::new() } else { format!("take {BANNED_MASK} out, ") };
    let aim = facts.aim();
    let fix =
        SettingId::Irqbalance.advice_in(&aim, format!("{take_out}{}", SettingId::Irqbalance.command(&aim)));
    let not_spared = || match (left.is_empty(), spares.cpus.is_empty()) {
        (true, _) => "irqbalance spares the isolated CPUs".to_string(),
        (_, true) => format!("irqbalance spares no CPU, cpus {left} neither"),
        _ => format!("irqbalance spares cpus {}, and not cpus {left}", spares.cpus),
    };
    Ok(match spares.by {
        BannedBy::Mask => {
            let read = read_in(&told.source, format!("{BANNED_MASK}={mask}"));
            let wrong = if spares.whole {
                ""
            } else {
                " is not a mask, and switches the detection of isolated CPUs off"
            };
            let first = if list.is_empty() { "" } else { ", which goes before the list" };
            let later = if left.is_empty() { "; a later irqbalance will not read that name" } else { "" };
            Conclusion::warn(
                read,
                format!("{BANNED_MASK}={mask}{first}{wrong}: {}{later}", not_spared()),
                fix,
            )
        }
        BannedBy::List if !spares.whole => Conclusion::warn(
            read_in(&told.source, format!("{BANNED}={list}")),
            format!(
                "'{list}' is not a list of CPUs, and switches the detection of isolated CPUs off: {}",
                not_spared()
            ),
            fix,
        ),
        BannedBy::List if list.is_empty() => Conclusion::warn(
            read_in(&told.source, format!("{BANNED}=")),
            "the empty list switches the detection of isolated CPUs off in an irqbalance of 2026 or later",
            fix,
        ),
        BannedBy::List if left.is_empty() => Conclusion::pass(
            read_in(&told.source, format!("{BANNED}={list}")),
            "irqbalance spares the isolated CPUs",
        ),
        BannedBy::List => {
            Conclusion::warn(read_in(&told.source, format!("{BANNED}={list}")), not_spared(), fix)
        }
        BannedBy::Itself if left.is_empty() => Conclusion::pass(
            read_in(&told.source, "no list"),
            "irqbalance spares CPUs that were isolated at boot without being told",
        ),
        BannedBy::Itself => {
            let blind = told.detects == Some(false);
            let says = match blind {
                true => format!("this version does not detect isolated CPUs: {}", not_spared()),
                false => format!("irqbalance does not detect the partition with cpus {left}"),
            };
            Conclusion::warn(read_in(&told.source, "no list"), says, fix)
        }
    })
}

fn irq_threads<'a>(facts: &CheckFacts<'a>) -> Result<Vec<&'a Thread>, Conclusion> {
    Ok(facts.kernel_threads()?.into_iter().filter(|thread| thread.name.starts_with("irq/")).collect())
}

fn threaded(facts: &CheckFacts) -> CheckResult {
    if facts.real_time() {
        return Ok(Conclusion::pass(
            read_in("/proc/sys/kernel/version", "PREEMPT_RT"),
            "handlers are threaded, as on every real-time kernel",
        ));
    }
    facts.known_command_line()?;
    let asked = facts.boot_value("threadirqs").is_some();
    let threads = irq_threads(facts).map(|threads| threads.len());
    let read = read_in(
        "/proc/cmdline, /proc/PID/stat",
        format!("threadirqs {}", if asked { "asked for" } else { "absent" }),
    );
    Ok(match (asked, threads) {
        (true, Ok(0)) => Conclusion::warn(
            read,
            "threadirqs is asked for, and there is no interrupt thread",
            Kernel.advice("boot a kernel with CONFIG_IRQ_FORCED_THREADING"),
        ),
        (true, _) => Conclusion::pass(read, "handlers are threaded (threadirqs)"),
        (false, _) => Conclusion::warn(
            read,
            "interrupt handlers are not threaded, except where drivers ask for it",
            SettingId::Threadirqs.advice(&facts.aim()).then(", or boot a real-time kernel"),
        ),
    })
}

fn thread_priority(facts: &CheckFacts) -> CheckResult {
    let threads = irq_threads(facts)?;
    let fifo: Vec<&&Thread> = threads.iter().filter(|thread| thread.priority > 0).collect();
    let Some(highest) = fifo.iter().map(|thread| thread.priority).max() else {
        return Err(Conclusion::not_applicable("there are no interrupt threads"));
    };
    let programs = facts.real_time_threads()?;
    let above: Vec<String> = programs
        .iter()
        .filter(|thread| thread.priority >= highest)
        .map(|thread| format!("{} ({}) {}", thread.name, thread.id, thread.priority))
        .collect();
    let lowest = fifo.iter().map(|thread| thread.priority).min().unwrap_or(highest);
    let read = read_in(
        "/proc/PID/stat",
        format!("interrupt threads {lowest} to {highest}; above: {}", some(&above, 6)),
    );
    Ok(if !above.is_empty() && facts.profile != Profile::Poll {
        let fix = Program
            .advice("chrt -f -p 90 the thread of the device that it waits for, or the program below it");
        Conclusion::warn(read, format!("not below interrupt threads ({highest}): {}", some(&above, 3)), fix)
    } else if facts.profile == Profile::Audio && lowest == highest && fifo.len() > 1 {
        Conclusion::warn(
            read,
            format!(
                "all interrupt threads have priority {highest}: the sound card's thread has no precedence"
            ),
            Service.advice("apt install rtirq-init, or chrt -f -p 90 the card's thread"),
        )
    } else {
        facts.unseen_threads()?;
        Conclusion::pass(read, format!("interrupt threads have {lowest} to {highest}, programs less"))
    })
}

fn ipis(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let sample = facts.sampled("/proc/interrupts")?;
    let counts = sample.cpus.iter().filter(|cpu| isolated.contains(cpu.cpu));
    let worst = counts
        .flat_map(|cpu| {
            cpu.calls.iter().map(move |(name, count)| (*count, format!("cpu {}: {name} {count}", cpu.cpu)))
        })
        .max();
    if worst.as_ref().is_none_or(|(count, _)| sample.per_second(*count) < 1.0) {
        facts.unsampled("/proc/interrupts", isolated)?;
    }
    let Some((count, name)) = worst else {
        return Ok(Conclusion::pass(read_in("/proc/interrupts", "none"), "no IPI came"));
    };
    let rate = sample.per_second(count);
    let read = read_in(format!("/proc/interrupts over {} ms", sample.duration_ms), &name);
    let fix = Search.advice("isolator why, or perf trace -e ipi:ipi_send_cpu, as root: it names the sender");
    Ok(match rate {
        rate if rate >= 100.0 => Conclusion::fail(read, format!("{name}, {rate:.0} a second"), fix),
        rate if rate >= 1.0 => Conclusion::warn(read, format!("{name}, {rate:.0} a second"), fix),
        _ => Conclusion::pass(read, name),
    })
}
