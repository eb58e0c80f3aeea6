// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle states, frequencies, heat.

use std::collections::BTreeMap;

use machine::CpuSet;
use machine::advice::Manual::{Board, BootLine, Firmware};
use machine::advice::SettingId;
use machine::inventory::Frequency;
use machine::units::whole_us;

use super::{Check, GRAVE, MIDDLING, SLIGHT};
use crate::facts::{AS_ROOT, CheckFacts, not_captured, some};
use crate::finding::{CheckResult, Conclusion, Severity, read_in};

const POLICIES: &str = "/sys/devices/system/cpu/cpufreq/policyN";

pub(super) const ALL: &[Check] = &[
    Check {
        id: "pwr-governor",
        question: "Is the cpufreq governor performance?",
        weights: [
            Some(Severity::High),
            Some(Severity::Medium),
            Some(Severity::High),
            Some(Severity::High),
            Some(Severity::Low),
        ],
        why: "a CPU that slept wakes at a low frequency, which adds tens of microseconds, sometimes over a hundred",
        source: "Linux of 2026-08, Documentation/core-api/real-time/kernel-configuration.rst; evlproject.org, core/caveat",
        look: governor,
    },
    Check {
        id: "pwr-freq-pinned",
        question: "Is the frequency fixed?",
        weights: SLIGHT,
        why: "each frequency change stalls the CPU briefly, and execution times vary",
        source: "Linux 6.12, Documentation/admin-guide/pm/cpufreq.rst",
        look: pinned,
    },
    Check {
        id: "pwr-cstate-latency",
        question: "Do idle CPUs wake up fast enough?",
        weights: [
            Some(Severity::High),
            Some(Severity::Low),
            Some(Severity::High),
            Some(Severity::Medium),
            None,
        ],
        why: "leaving a deep idle state takes 100 us and more, which every wakeup pays",
        source: "Linux 6.12, Documentation/admin-guide/pm/cpuidle.rst, drivers/cpuidle/governors/menu.c",
        look: idle_states,
    },
    Check {
        id: "pwr-pmqos-holder",
        question: "Is low latency independent of a temporary PM QoS request?",
        weights: MIDDLING,
        why: "cyclictest and other tools hold a limit of 0 while they measure: latency is low only until they end",
        source: "jlelli/rt-tests issue 7; Linux 6.12, kernel/power/qos.c",
        look: holder,
    },
    Check {
        id: "pwr-thermal-throttle",
        question: "Is the machine free of thermal throttling?",
        weights: GRAVE,
        why: "thermal throttling delays a program by milliseconds, without warning",
        source: "Linux 6.12, drivers/thermal/intel/therm_throt.c",
        look: throttled,
    },
    Check {
        id: "pwr-nvpmodel",
        question: "Is the board's power mode the highest?",
        weights: GRAVE,
        why: "lower modes take CPUs offline and bound frequencies",
        source: "NVIDIA Jetson Linux, nvpmodel; which number has all differs by module, its name is MAXN",
        look: nvpmodel,
    },
    Check {
        id: "pwr-jetson-clocks",
        question: "Are the board's clocks fixed?",
        weights: MIDDLING,
        why: "otherwise CPU, GPU and memory clocks follow the load",
        source: "NVIDIA Jetson Linux, jetson_clocks; Jetson AGX Orin PREEMPT_RT validation (tech.wimcorp.dev)",
        look: jetson_clocks,
    },
    Check {
        id: "pwr-driver-off",
        question: "Are cpuidle and cpufreq on?",
        weights: MIDDLING,
        why: "without them no latency or frequency can be set; idle=poll slows the sibling and lowers turbo",
        source: "Linux 7.0, Documentation/core-api/real-time/hardware.rst",
        look: drivers_off,
    },
];

/// Frequency policies of the CPUs whose latency counts.
fn policies<'a>(facts: &CheckFacts<'a>) -> Result<Vec<&'a Frequency>, Conclusion> {
    let all = &facts.inventory.frequencies;
    if all.is_empty() {
        if !facts.inventory.whole {
            return Err(not_captured(POLICIES));
        }
        let who = if facts.machine.hypervisor.is_some() { "the host" } else { "the firmware" };
        return Err(Conclusion::not_applicable(format!("there is no frequency driver: {who} chooses")));
    }
    Ok(all.iter().filter(|policy| !policy.cpus.and(facts.measured()).is_empty()).collect())
}

/// That no policy names one of the CPUs whose latency counts, so that nothing is known of its frequency.
fn all_have_policies(facts: &CheckFacts) -> Result<(), Conclusion> {
    let named = facts.inventory.frequencies.iter().fold(CpuSet::new(), |all, policy| all.or(&policy.cpus));
    let bare = facts.measured().and(&facts.online).without(&named);
    if bare.is_empty() {
        return Ok(());
    }
    let path = format!("{POLICIES}/affected_cpus");
    Err(Conclusion::unknown(path, format!("no policy names cpus {bare}"), "look at the machine itself"))
}

/// Whether the driver chooses by itself, its governors being preferences.
fn by_itself(policy: &Frequency) -> bool {
    matches!(policy.driver.as_deref(), Some("intel_pstate" | "amd-pstate-epp"))
}

fn fixed(policy: &Frequency) -> bool {
    policy.min_khz.is_some() && policy.min_khz == policy.max_khz
}

/// CPUs with the same word: `cpus 0-19: powersave`.
fn together(said: impl Iterator<Item = (String, CpuSet)>) -> Vec<String> {
    let mut by_word: BTreeMap<String, CpuSet> = BTreeMap::new();
    for (word, cpus) in said {
        let known = by_word.entry(word).or_default();
        *known = known.or(&cpus);
    }
    by_word.into_iter().map(|(word, cpus)| format!("cpus {cpus}: {word}")).collect()
}

fn governor(facts: &CheckFacts) -> CheckResult {
    let policies = policies(facts)?;
    let named = |list: &[&&Frequency]| {
        let word = |policy: &&&Frequency| policy.governor.clone().unwrap_or("unknown".to_string());
        together(list.iter().map(|policy| (word(policy), policy.cpus.clone())))
    };
    let follows = |policy: &&&Frequency| {
        matches!(policy.governor.as_deref(), Some("ondemand" | "conservative" | "schedutil" | "interactive"))
    };
    let saves = |policy: &&&Frequency| match policy.governor.as_deref() {
        Some("performance") => false,
        Some("powersave") => !(by_itself(policy) && fixed(policy)),
        Some(_) => !fixed(policy),
        None => true,
    };
    let bad: Vec<&&Frequency> = policies.iter().filter(|policy| follows(policy) && !fixed(policy)).collect();
    let weak: Vec<&&Frequency> = policies.iter().filter(saves).collect();
    let fix = SettingId::Governor.advice_on(&facts.aim(), facts.measured());
    let read = |list: &[&&Frequency]| read_in(format!("{POLICIES}/scaling_governor"), some(&named(list), 8));
    Ok(if !bad.is_empty() {
        Conclusion::fail(read(&bad), some(&named(&bad), 2), fix)
    } else if !weak.is_empty() {
        Conclusion::warn(read(&weak), some(&named(&weak), 2), fix)
    } else {
        all_have_policies(facts)?;
        let all: Vec<&&Frequency> = policies.iter().collect();
        Conclusion::pass(read(&all), "no governor follows the load")
    })
}

fn pinned(facts: &CheckFacts) -> CheckResult {
    let policies = policies(facts)?;
    let mhz = |khz: Option<u64>| khz.map_or("?".to_string(), |khz| (khz / 1000).to_string());
    let range = |policy: &Frequency| format!("{} to {} MHz", mhz(policy.min_khz), mhz(policy.max_khz));
    let free = policies.iter().filter(|policy| !fixed(policy));
    let free = together(free.map(|policy| (range(policy), policy.cpus.clone())));
    let read = read_in(format!("{POLICIES}/scaling_min_freq, scaling_max_freq"), some(&free, 8));
    if free.is_empty() {
        all_have_policies(facts)?;
    }
    Ok(if free.is_empty() {
        Conclusion::pass(read, "the frequency is fixed")
    } else {
        let fix = SettingId::LowestFrequency.advice_on(&facts.aim(), facts.measured());
        Conclusion::warn(read, some(&free, 2), fix)
    })
}

/// An exit latency of at most this is that of C1, or of WFI.
const SHALLOW_US: u64 = 2;

fn idle_states(facts: &CheckFacts) -> CheckResult {
    let cpus: Vec<_> = facts.machine.cpus.iter().filter(|cpu| facts.measured().contains(cpu.id)).collect();
    if cpus.iter().all(|cpu| cpu.idle_states.is_empty()) {
        if !facts.inventory.whole {
            return Err(not_captured("/sys/devices/system/cpu/cpuN/cpuidle"));
        }
        return Err(Conclusion::not_applicable("there is no idle driver"));
    }
    let asked = facts.inventory.dma_latency.limit_us.and_then(|limit| u64::try_from(limit).ok());
    let bound = |own: Option<u64>| own.into_iter().chain(asked).min().unwrap_or(u64::MAX);
    let deepest = cpus
        .iter()
        .flat_map(|cpu| {
            let bound = bound(cpu.idle_latency_limit_us);
            let open =
                cpu.idle_states.iter().filter(move |state| !state.disabled && state.exit_latency_us <= bound);
            open.map(move |state| (state.exit_latency_us, state.name.as_str(), cpu.id))
        })
        .max();
    let unread = cpus.iter().find(|cpu| cpu.idle_states_unread > 0 || cpu.idle_states.is_empty());
    let unknown = unread.map(|cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{}/cpuidle/stateN/latency", cpu.id);
        Conclusion::unknown(path, "it could not be read of every idle state", "look at the machine itself")
    });
    let Some((latency, name, cpu)) = deepest else {
        if let Some(found) = unknown {
            return Err(found);
        }
        return Ok(Conclusion::pass(
            read_in("/sys/devices/system/cpu/cpuN/cpuidle", "none"),
            "no idle state is allowed",
        ));
    };
    let read = read_in(
        format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/stateN/latency, power/pm_qos_resume_latency_us"),
        format!("{name}: {}", whole_us(latency)),
    );
    let leaves = format!("{name} takes {} to leave", whole_us(latency));
    let limit = facts.limit_us();
    let aim = facts.aim();
    let fix = SettingId::ResumeLatency.advice_on(&aim, facts.measured());
    // What the table of advice allows is no fault where the limit has room for it.
    let allowed = SettingId::ResumeLatency.value(&aim, Some(cpu)).and_then(|value| value.parse().ok());
    let shallow = allowed.filter(|allowed| *allowed < limit).unwrap_or(0).max(SHALLOW_US);
    let polls = facts.x86 && cpus.iter().any(|cpu| bound(cpu.idle_latency_limit_us) == 0);
    Ok(if polls {
        let says = "a limit of 0 us makes idle CPUs poll: more heat, and less turbo for the other CPUs";
        Conclusion::warn(read, says, fix)
    } else if let (true, Some(found)) = (latency <= shallow, unknown) {
        found
    } else if latency <= shallow {
        Conclusion::pass(read, format!("{name}, {} at most", whole_us(latency)))
    } else if latency <= limit / 2 {
        Conclusion::warn(read, format!("{leaves}, of a limit of {}", whole_us(limit)), fix)
    } else {
        Conclusion::fail(read, format!("{leaves}; the limit is {}", whole_us(limit)), fix)
    })
}

fn holder(facts: &CheckFacts) -> CheckResult {
    let path = "/dev/cpu_dma_latency";
    let found = &facts.inventory.dma_latency;
    let Some(limit) = found.limit_us else {
        return Err(match &found.unread {
            Some(why) => Conclusion::unknown(path, why, AS_ROOT),
            None if facts.machine.container.is_some() => {
                Conclusion::not_applicable(format!("no {path} in a container"))
            }
            None if facts.inventory.whole => {
                Conclusion::not_applicable(format!("this machine has no {path}"))
            }
            None => not_captured(path),
        });
    };
    let read = read_in(path, format!("{}; held by {}", whole_us(limit), some(&found.holders, 4)));
    let keeper = |name: &String| name.starts_with("tuned") || name.starts_with("isolator");
    Ok(if limit >= 2_000_000_000 {
        Conclusion::pass(read_in(path, limit), "no program asks for a limit")
    } else if !found.holders.is_empty() && found.holders.iter().all(keeper) {
        Conclusion::pass(read, format!("{}, held by a service", whole_us(limit)))
    } else {
        let who = if found.holders.is_empty() { "a program".to_string() } else { some(&found.holders, 2) };
        let fix =
            "hold it in the program that has the deadline, or bound each CPU (pm_qos_resume_latency_us)";
        let fix = SettingId::ResumeLatency.advice_in(&facts.aim(), fix);
        Conclusion::warn(read, format!("{who} asks for {}; latency rises when it ends", whole_us(limit)), fix)
    })
}

fn throttled(facts: &CheckFacts) -> CheckResult {
    let path = "/sys/devices/system/cpu/cpuN/thermal_throttle/core_throttle_count";
    let counts = &facts.inventory.cpu_power;
    let fix = Firmware.advice("better cooling, or a lower scaling_max_freq");
    if let Some(sample) = &facts.inventory.sample {
        let hot: CpuSet = sample.cpus.iter().filter(|cpu| cpu.throttled > 0).map(|cpu| cpu.cpu).collect();
        if !hot.is_empty() {
            return Ok(Conclusion::fail(
                read_in(path, &hot),
                format!("cpus {hot} were throttled during the sample"),
                fix,
            ));
        }
    }
    if counts.is_empty() {
        if !facts.inventory.whole {
            return Err(not_captured(path));
        }
        return Err(Conclusion::not_applicable("the processor does not count it"));
    }
    let hot: CpuSet =
        counts.iter().filter(|cpu| cpu.core_throttled.unwrap_or(0) > 0).map(|cpu| cpu.cpu).collect();
    if hot.is_empty() && counts.iter().any(|cpu| cpu.core_throttled.is_none()) {
        return Err(Conclusion::unknown(path, "it could not be read of every CPU", AS_ROOT));
    }
    Ok(if hot.is_empty() {
        Conclusion::pass(read_in(path, "0"), "no CPU was throttled since boot")
    } else {
        Conclusion::warn(read_in(path, &hot), format!("cpus {hot} were throttled since boot"), fix)
    })
}

/// The number and the name of the board's power mode, and the number of the one named MAXN.
fn power_mode<'a>(facts: &CheckFacts<'a>) -> Result<(u32, Option<&'a str>, Option<u32>), Conclusion> {
    if !facts.jetson() {
        return Err(Conclusion::not_applicable("no Jetson"));
    }
    let path = "/var/lib/nvpmodel/status";
    let status = facts.text(path)?;
    let digits = status
        .split_once("pmode:")
        .map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    let Some(mode) = digits.and_then(|digits| digits.parse::<u32>().ok()) else {
        return Err(Conclusion::unknown(path, format!("'{status}' names no mode"), "nvpmodel -q"));
    };
    // "< POWER_MODEL ID=0 NAME=MAXN >"
    let conf = "/etc/nvpmodel.conf";
    let text = facts.text_or(conf, || Conclusion::unknown(conf, "there is no such file", "nvpmodel -q"))?;
    let modes = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("< POWER_MODEL ID=")?;
        let (id, name) = rest.split_once(" NAME=")?;
        Some((id.trim().parse::<u32>().ok()?, name.trim_end_matches('>').trim()))
    });
    let modes: Vec<(u32, &str)> = modes.collect();
    if modes.is_empty() {
        return Err(Conclusion::unknown(conf, "it names no power mode", "nvpmodel -q"));
    }
    let name = modes.iter().find(|(id, _)| *id == mode).map(|(_, name)| *name);
    Ok((mode, name, modes.iter().filter(|(_, name)| name.starts_with("MAXN")).map(|(id, _)| *id).next_back()))
}

fn nvpmodel(facts: &CheckFacts) -> CheckResult {
    let (mode, name, most) = power_mode(facts)?;
    let offline: CpuSet = facts.machine.cpus.iter().filter(|cpu| !cpu.online).map(|cpu| cpu.id).collect();
    let words = name.map_or(format!("mode {mode}"), |name| format!("mode {mode}, {name}"));
    let read = read_in("/var/lib/nvpmodel/status, /etc/nvpmodel.conf", &words);
    let fix = match most {
        Some(most) => Board.advice(format!("nvpmodel -m {most}, which may need a boot")),
        None => Board.advice("nvpmodel -m the mode named MAXN in /etc/nvpmodel.conf"),
    };
    Ok(if !offline.is_empty() {
        Conclusion::fail(read, format!("{words} takes cpus {offline} offline"), fix)
    } else if most.is_some_and(|most| most != mode) || (most.is_none() && mode != 0) {
        Conclusion::warn(read, format!("{words} is not the highest"), fix)
    } else {
        Conclusion::pass(read, words)
    })
}

fn jetson_clocks(facts: &CheckFacts) -> CheckResult {
    if !facts.jetson() {
        return Err(Conclusion::not_applicable("no Jetson"));
    }
    let free: Vec<String> =
        policies(facts)?.iter().filter(|policy| !fixed(policy)).map(|policy| policy.name.clone()).collect();
    let read = read_in(format!("{POLICIES}/scaling_min_freq, scaling_max_freq"), some(&free, 8));
    if free.is_empty() {
        all_have_policies(facts)?;
    }
    Ok(if free.is_empty() {
        Conclusion::pass(read, "the CPU clocks are fixed; jetson_clocks --show lists GPU and memory")
    } else {
        Conclusion::warn(
            read,
            "the CPU clocks are not fixed",
            Board.advice("jetson_clocks --store, then jetson_clocks, from a unit at each boot"),
        )
    })
}

fn drivers_off(facts: &CheckFacts) -> CheckResult {
    let off = |name: &str| {
        facts.hint(&format!("/sys/module/{name}/parameters/off")).is_some_and(|text| text == "1")
    };
    let mut found: Vec<&str> = Vec::new();
    found.extend(off("cpuidle").then_some("cpuidle.off=1"));
    found.extend(off("cpufreq").then_some("cpufreq.off=1"));
    found.extend((facts.boot_value("idle") == Some("poll") && facts.x86).then_some("idle=poll"));
    found.extend((facts.boot_value("nohlt").is_some() && !facts.x86).then_some("nohlt"));
    let read = read_in("/sys/module/{cpuidle,cpufreq}/parameters/off, /proc/cmdline", found.join(" "));
    if found.is_empty() {
        facts.word("/sys/module/cpuidle/parameters/off", &["0", "1"])?;
        facts.known_command_line()?;
        return Ok(Conclusion::pass(read, "cpuidle and cpufreq are on"));
    }
    let fix = format!(
        "take {} off the boot line; bound latency by pm_qos_resume_latency_us instead",
        found.join(" ")
    );
    Ok(Conclusion::warn(read, found.join(" "), BootLine.advice(fix)))
}
