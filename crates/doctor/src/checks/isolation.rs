// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs are isolated, and whether the sets fit each other and the machine.

use std::collections::BTreeSet;

use machine::CpuSet;
use machine::advice::Manual::{Board, BootLine, Service};
use machine::advice::{Advice, SettingId};
use machine::inventory::Reading;
use machine::registry::{ValueKind, list};

use super::{APART, APART_LESS, Check};
use crate::Profile;
use crate::facts::{CheckFacts, not_captured};
use crate::finding::{CheckResult, Conclusion, FindingState, Severity, read_in};

const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const SMT: &str = "/sys/devices/system/cpu/smt/control";
const NOHZ: &str = "/sys/devices/system/cpu/nohz_full";

pub(super) const ALL: &[Check] = &[
    Check {
        id: "iso-present",
        question: "Are CPUs isolated?",
        weights: APART,
        why: "on a shared CPU any other program, interrupt or deferred work can delay the real-time program",
        source: "Jetson AGX Orin PREEMPT_RT validation (tech.wimcorp.dev): 159 to 15 us under GPU load",
        look: present,
    },
    Check {
        id: "iso-consistent",
        question: "Do the parameters name the same CPUs?",
        weights: APART,
        why: "a CPU is isolated only if all parameters name it; some published recipes invert a list",
        source: "Linux 6.12, kernel/sched/isolation.c; canonical/rt-conf's sample configuration",
        look: consistent,
    },
    Check {
        id: "iso-cpus-online",
        question: "Are the isolated CPUs online?",
        weights: APART,
        why: "power modes and nosmt take CPUs offline, and a program pinned there cannot start",
        source: "silicondoritos/jetson-rt-stack",
        look: online,
    },
    Check {
        id: "iso-boot-cpu",
        question: "Is the boot CPU a housekeeping CPU?",
        weights: APART,
        why: "it keeps time and receives interrupts regardless of the settings",
        source: "Linux 6.12, kernel/irq/irqdesc.c, kernel/sched/isolation.c; raspberrypi/linux issue 4106",
        look: boot_cpu,
    },
    Check {
        id: "iso-housekeeping-size",
        question: "Are there enough housekeeping CPUs?",
        weights: APART_LESS,
        why: "overloaded housekeeping CPUs cause RCU stalls, which affect every CPU",
        source: "openshift/cluster-node-tuning-operator, Performance Profile Creator",
        look: housekeeping,
    },
    Check {
        id: "iso-smt-siblings",
        question: "Are whole cores isolated?",
        weights: APART,
        why: "a housekeeping sibling shares execution units and caches with the isolated CPU",
        source: "Linux 6.12, topology/thread_siblings_list; redhat-performance/tuned calc_isolated_cores takes single threads",
        look: siblings,
    },
    Check {
        id: "iso-nohz-full-fit",
        question: "Does nohz_full fit the program?",
        weights: APART_LESS,
        why: "it makes every kernel entry more expensive: good for polling programs, bad for programs that sleep each period",
        source: "Linux of 2026-08, Documentation/core-api/real-time/kernel-configuration.rst",
        look: nohz_fit,
    },
    Check {
        id: "iso-timer-migration",
        question: "Do timers fire on the CPU that armed them?",
        weights: APART_LESS,
        why: "with nohz_full a periodic loop's timer moves to a housekeeping CPU, and each wakeup comes by IPI",
        source: "Linux 6.12, kernel/time/hrtimer.c; openshift/cluster-node-tuning-operator pull requests 850, 1384, 1534",
        look: timer_migration,
    },
    Check {
        id: "iso-cpuset-partition",
        question: "Are the partitions of control groups valid?",
        weights: [Some(Severity::High); 5],
        why: "an invalid partition isolates nothing, and only its own file shows that",
        source: "Linux 6.12, Documentation/admin-guide/cgroup-v2.rst",
        look: partitions,
    },
];

fn present(facts: &CheckFacts) -> CheckResult {
    if facts.online.len() == 1 {
        return Err(Conclusion::not_applicable("the machine has a single CPU"));
    }
    if facts.profile == Profile::Audio && facts.isolated.is_empty() {
        return Err(Conclusion::not_applicable("the profile audio needs no isolated CPU"));
    }
    let isolation = &facts.machine.isolation;
    // nohz_full keeps the kernel's own work away; the scheduler still balances over such a CPU.
    let balanced = facts.isolated.without(&isolation.isolated.or(&isolation.partitions));
    match facts.isolated() {
        Ok(cpus) if balanced.is_empty() => {
            Ok(Conclusion::pass(read_in(format!("{ISOLATED}, {NOHZ}"), cpus), format!("cpus {cpus}")))
        }
        Ok(_) => Ok(Conclusion::warn(
            read_in(ISOLATED, &isolation.isolated),
            format!("cpus {balanced} are in nohz_full alone: the scheduler still moves other threads there"),
            Advice::plan("isolate them"),
        )),
        Err(found) if found.result == crate::FindingOutcome::Unknown => Err(found),
        Err(_) => {
            Ok(Conclusion::warn(read_in(ISOLATED, ""), "no CPU is isolated", Advice::plan("isolate some")))
        }
    }
}

fn consistent(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let mut sets: Vec<(&str, CpuSet)> = Vec::new();
    if !facts.machine.isolation.isolated.is_empty() {
        sets.push(("isolated", facts.machine.isolation.isolated.clone()));
    }
    if !facts.machine.isolation.nohz_full.is_empty() {
        sets.push(("nohz_full", facts.machine.isolation.nohz_full.clone()));
    }
    // Offloading all CPUs spares the isolated ones too.
    let some = facts.boot_cpus("rcu_nocbs").filter(|cpus| !facts.online.without(cpus).is_empty());
    sets.extend(some.map(|cpus| ("rcu_nocbs", cpus)));
    // The boot CPU is in the mask whatever is asked.
    let default = facts.machine.isolation.irq_default.without(&CpuSet::from_iter([0]));
    let state = || FindingState {
        configured: None,
        running: Some(facts.command_line().to_string()),
        effective: Some(
            sets.iter().map(|(name, cpus)| format!("{name} {cpus}")).collect::<Vec<_>>().join("; "),
        ),
    };
    let value = sets.iter().map(|(name, cpus)| format!("{name}={cpus}")).collect::<Vec<_>>().join(" ");
    let read = read_in(format!("{ISOLATED}, {NOHZ}, /proc/cmdline, /proc/irq/default_smp_affinity"), value);
    let flags = facts
        .boot_value("isolcpus")
        .and_then(|value| list::read(ValueKind::FlagsAndCpus, value, facts.last_possible()).ok());
    let tick = flags.as_ref().is_some_and(|listed| listed.flags.iter().any(|flag| flag == "nohz"));
    let fix =
        Advice::plan("name the same CPUs in isolcpus, nohz_full and rcu_nocbs, the others in irqaffinity");
    let inverted = sets.iter().find(|(name, cpus)| *name == "rcu_nocbs" && cpus.and(isolated).is_empty());
    Ok(
        if let (true, Some(listed)) = (tick, &flags)
            && !facts.machine.isolation.nohz_full.is_empty()
            && listed.cpus != facts.machine.isolation.nohz_full
        {
            Conclusion::fail(read, "isolcpus=nohz and nohz_full name different CPUs", fix).state(state())
        } else if facts.boot_value("irqaffinity").is_some() && !default.and(isolated).is_empty() {
            Conclusion::fail(
                read,
                format!("irqaffinity leaves interrupts on cpus {}", default.and(isolated)),
                fix,
            )
            .state(state())
        } else if let Some((_, cpus)) = inverted {
            Conclusion::fail(
                read,
                format!("rcu_nocbs={cpus} names none of the isolated CPUs: it is inverted"),
                fix,
            )
            .state(state())
        } else if sets.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            let says =
                sets.iter().map(|(name, cpus)| format!("{name} {cpus}")).collect::<Vec<_>>().join(", ");
            Conclusion::warn(read, format!("the sets differ: {says}"), fix).state(state())
        } else {
            Conclusion::pass(read, "the parameters agree")
        },
    )
}

fn online(facts: &CheckFacts) -> CheckResult {
    let asked = ["isolcpus", "nohz_full"].into_iter().filter_map(|name| facts.boot_cpus(name));
    let wanted = asked.fold(facts.isolated.clone(), |all, cpus| all.or(&cpus));
    let there: CpuSet = facts.machine.cpus.iter().map(|cpu| cpu.id).collect();
    let missing = wanted.without(&facts.online);
    let read = read_in("/sys/devices/system/cpu/online", &facts.online);
    if missing.is_empty() {
        // What the boot line asks and the kernel dropped is not isolated.
        facts.isolated()?;
        let path = "/sys/devices/system/cpu/online";
        let text = facts.text_or(path, || not_captured(path))?;
        if text.parse::<CpuSet>().is_err() {
            return Err(Conclusion::unknown(path, format!("'{text}' names no CPUs"), "look at it"));
        }
        return Ok(Conclusion::pass(read, format!("cpus {wanted} are online")));
    }
    let back = missing.and(&there);
    let fix = match back.iter().next() {
        _ if facts.jetson() => {
            Board.advice("nvpmodel -m the mode that has all CPUs (see pwr-nvpmodel), then boot")
        }
        // The kernel refuses to bring a second thread of a core online while SMT is off.
        Some(cpu) => {
            let online = format!("echo 1 > {}, for each", SettingId::CpuOnline.file_of(cpu));
            match facts.hint(SMT) {
                Some("forceoff") => BootLine.advice("take nosmt=force off the boot line, then boot"),
                Some("off") => {
                    SettingId::CpuOnline.advice_in(&facts.aim(), format!("echo on > {SMT}, then {online}"))
                }
                _ => SettingId::CpuOnline.advice_in(&facts.aim(), online),
            }
        }
        None => Advice::plan("name existing CPUs"),
    };
    Ok(Conclusion::fail(read, format!("cpus {missing} are isolated and not online"), fix))
}

fn boot_cpu(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let read = read_in(ISOLATED, isolated);
    Ok(if isolated.contains(0) {
        Conclusion::fail(read, "cpu 0 is isolated", Advice::plan("leave CPU 0 out"))
    } else {
        Conclusion::pass(read, "cpu 0 is a housekeeping CPU")
    })
}

fn housekeeping(facts: &CheckFacts) -> CheckResult {
    facts.isolated()?;
    // A core by its package and number; a CPU of which neither is known is one.
    let core =
        |id: u32| facts.machine.cpu(id).and_then(|cpu| Some((cpu.package, cpu.core?))).unwrap_or((None, id));
    let cores = |cpus: &CpuSet| cpus.iter().map(core).collect::<BTreeSet<_>>().len();
    let (left, all) = (cores(&facts.housekeeping), cores(&facts.online));
    let node = |id: u32| facts.machine.cpu(id).and_then(|cpu| cpu.node);
    let nodes = |cpus: &CpuSet| cpus.iter().filter_map(node).collect::<BTreeSet<_>>();
    let bare: Vec<String> =
        nodes(&facts.online).difference(&nodes(&facts.housekeeping)).map(|node| node.to_string()).collect();
    let read = read_in("/sys/devices/system/cpu/online without the isolated ones", &facts.housekeeping);
    let without_node = facts.online.iter().filter(|id| node(*id).is_none()).count();
    let fix = Advice::plan("isolate fewer CPUs");
    Ok(match left {
        0 => Conclusion::fail(read, "there is no housekeeping CPU", fix),
        1 if all > 4 => Conclusion::warn(read, format!("one core of {all} is left for housekeeping"), fix),
        _ if !bare.is_empty() => {
            Conclusion::warn(read, format!("node {} has no housekeeping CPU", bare.join(", ")), fix)
        }
        _ if without_node > 0
            && (without_node < facts.online.len() || facts.option("NUMA") == Some(true)) =>
        {
            Conclusion::unknown(
                "/sys/devices/system/node/nodeN/cpulist",
                format!("the memory node of {without_node} CPUs is not known"),
                "look at the machine itself",
            )
        }
        _ => Conclusion::pass(read, format!("{left} of {all} cores are left for housekeeping")),
    })
}

/// Siblings of isolated CPUs that are housekeeping CPUs.
pub(super) fn split_siblings(facts: &CheckFacts) -> CpuSet {
    facts.machine.siblings_of(&facts.isolated).and(&facts.online)
}

/// That the siblings of a CPU that is online are not known.
pub(super) fn known_siblings(facts: &CheckFacts, cpus: &CpuSet) -> Result<(), Conclusion> {
    let known = |id: u32| facts.machine.cpu(id).is_some_and(|cpu| !cpu.siblings.is_empty());
    match cpus.and(&facts.online).iter().find(|id| !known(*id)) {
        Some(id) => Err(not_captured(&format!("/sys/devices/system/cpu/cpu{id}/topology/core_cpus_list"))),
        None => Ok(()),
    }
}

fn siblings(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let split = split_siblings(facts);
    if split.is_empty() {
        known_siblings(facts, isolated)?;
    }
    let read = read_in("/sys/devices/system/cpu/cpuN/topology/core_cpus_list", &split);
    Ok(match split.iter().next() {
        None => Conclusion::pass(read, "no sibling of an isolated CPU is a housekeeping CPU"),
        Some(cpu) => Conclusion::fail(
            read,
            format!("cpus {split} are not isolated, and share cores with isolated CPUs"),
            SettingId::CpuOnline.advice_in(
                &facts.aim(),
                format!(
                    "isolate whole cores: isolator tune plan; until then echo 0 > {}, for each",
                    SettingId::CpuOnline.file_of(cpu)
                ),
            ),
        ),
    })
}

fn nohz_fit(facts: &CheckFacts) -> CheckResult {
    let isolated = facts.isolated()?;
    let nohz = facts.nohz_full()?.and(isolated);
    let read = read_in(NOHZ, &facts.machine.isolation.nohz_full);
    let aim = facts.aim();
    Ok(match facts.profile {
        Profile::Periodic if !nohz.is_empty() => Conclusion::warn(
            read,
            format!("cpus {nohz} are nohz_full, which delays a loop that sleeps each period"),
            BootLine.advice(format!(
                "take nohz_full= off the boot line; while it stays: {}",
                SettingId::TimerMigration.command(&aim)
            )),
        ),
        Profile::Audio if !nohz.is_empty() => Conclusion::warn(
            read,
            format!("cpus {nohz} are nohz_full, which delays a program that sleeps for each buffer"),
            BootLine.advice("take nohz_full= off the boot line"),
        ),
        Profile::Poll if nohz != *isolated => Conclusion::warn(
            read,
            format!("cpus {} tick, and interrupt a program that polls", isolated.without(&nohz)),
            SettingId::NohzFull.advice(&aim),
        ),
        _ => Conclusion::pass(read, "nohz_full fits the profile"),
    })
}

fn timer_migration(facts: &CheckFacts) -> CheckResult {
    let path = "/proc/sys/kernel/timer_migration";
    let text = facts.text(path)?;
    let read = read_in(path, text);
    let text = facts.word(path, &["0", "1"]).map(|_| text)?;
    let nohz = !facts.nohz_full()?.is_empty();
    let fix = SettingId::TimerMigration.advice(&facts.aim());
    Ok(match (facts.profile, text) {
        (Profile::Poll, "0") if nohz => {
            Conclusion::warn(read, "timers armed on an isolated CPU fire there", fix)
        }
        (Profile::Periodic, "1") if nohz => Conclusion::fail(
            read,
            "with nohz_full each wakeup of a periodic loop comes by IPI from another CPU",
            fix,
        ),
        _ if nohz => Conclusion::pass(read, "the setting fits this profile"),
        _ => Conclusion::pass(read, "without nohz_full, timers fire on the CPU that armed them"),
    })
}

fn partitions(facts: &CheckFacts) -> CheckResult {
    let services = &facts.inventory.services;
    if !services.unified {
        if facts.inventory.whole {
            return Err(Conclusion::not_applicable("no control groups of version 2"));
        }
        return Err(not_captured("/sys/fs/cgroup/cgroup.controllers"));
    }
    let partitions: Vec<_> = services
        .groups
        .iter()
        .filter(|group| group.partition.as_deref().is_some_and(|word| word != "member"))
        .collect();
    let file = |path: &str| format!("/sys/fs/cgroup{path}/cpuset.cpus.partition");
    let invalid = partitions
        .iter()
        .find(|group| group.partition.as_deref().is_some_and(|word| word.contains("invalid")));
    if let Some(group) = invalid {
        let text = group.partition.as_deref().unwrap_or_default();
        let fix = Service
            .advice(format!("remove the cause that it names, then echo isolated > {}", file(&group.path)));
        return Ok(Conclusion::fail(
            read_in(file(&group.path), text),
            format!("{} is {text}", group.path),
            fix,
        ));
    }
    let odd = partitions
        .iter()
        .find(|group| !group.partition.as_deref().is_some_and(|word| ["root", "isolated"].contains(&word)));
    if let Some(group) = odd {
        let text = group.partition.as_deref().unwrap_or_default();
        let why = format!("'{text}' is not a kind of partition");
        return Err(Conclusion::unknown(file(&group.path), why, "look at it"));
    }
    if partitions.is_empty() {
        let housekeeping = facts.inventory.files.get("/sys/fs/cgroup/cpuset.housekeeping.cpus");
        return Err(Conclusion::not_applicable(match housekeeping {
            Some(Reading::Text(_)) => {
                "no control group is a partition; the kernel has cpuset.housekeeping.cpus, which no plan uses"
            }
            _ => "no control group is a partition",
        }));
    }
    let names: Vec<&str> = partitions.iter().map(|group| group.path.as_str()).collect();
    Ok(Conclusion::pass(
        read_in("/sys/fs/cgroup/*/cpuset.cpus.partition", names.join(", ")),
        "all partitions are valid",
    ))
}
