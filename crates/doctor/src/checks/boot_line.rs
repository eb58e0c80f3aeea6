// SPDX-License-Identifier: MIT OR Apache-2.0
//! The boot line that runs: is each word known, taken, and did it act?

use std::collections::BTreeMap;

use machine::CpuSet;
use machine::advice::Manual::BootLine;
use machine::boot::line;
use machine::registry::{self, CannotAct, Setting, SettingKind, ValueKind, cpus, known, list};

use super::kernel::bracketed;
use super::{ANYWHERE, Check, MIDDLING};
use crate::facts::{CheckFacts, some};
use crate::finding::{CheckResult, Conclusion, FindingState, read_in};

const LINE: &str = "/proc/cmdline";

pub(super) const ALL: &[Check] = &[
    Check {
        id: "boot-param-unknown",
        question: "Does the kernel know every isolation parameter of the boot line?",
        weights: ANYWHERE,
        why: "a misspelt parameter, or one the kernel was built without, is passed to init without a warning",
        source: "Linux 6.12, init/main.c (since 5.14 it names those without a dot); vyos/vyos-build pull request 1045",
        look: unknown,
    },
    Check {
        id: "boot-param-rejected",
        question: "Did the kernel accept the CPU lists of the boot line?",
        weights: ANYWHERE,
        why: "the kernel drops a whole list that it cannot parse, with a line in the log; for rcu_nocbs it takes all CPUs instead",
        source: "Linux 6.12, kernel/sched/isolation.c, kernel/rcu/tree_nocb.h",
        look: rejected,
    },
    Check {
        id: "boot-param-noop",
        question: "Does every parameter have an effect on this kernel?",
        weights: MIDDLING,
        why: "a parameter without effect suggests a setting that is not in force",
        source: "Isolator's table of settings; Linux 6.12 has no kthread_cpus= and no module amd_idle",
        look: noop,
    },
    Check {
        id: "boot-param-effective",
        question: "Did every parameter take effect?",
        weights: ANYWHERE,
        why: "the boot line only requests; a file in /sys or /proc shows whether the kernel did it",
        source: "Isolator's table of settings",
        look: effective,
    },
    Check {
        id: "boot-cpulist-range",
        question: "Do the CPU lists name existing CPUs?",
        weights: ANYWHERE,
        why: "the kernel drops a whole parameter for one CPU that does not exist",
        source: "Linux 6.12, lib/bitmap-str.c, kernel/sched/isolation.c",
        look: range,
    },
    Check {
        id: "boot-cpulist-N",
        question: "Are the CPU lists written as numbers?",
        weights: MIDDLING,
        why: "N is the last CPU to kernels since 5.13; programs that read the same list misread it, older kernels drop it",
        source: "seapath/ansible issues 865, 868",
        look: letters,
    },
    Check {
        id: "boot-param-duplicates",
        question: "Is every parameter given once?",
        weights: MIDDLING,
        why: "the last one wins for most, both must agree for isolcpus and nohz_full; a second root= has bricked boards",
        source: "Linux 6.12, kernel/sched/isolation.c; tuned issues 174, 311",
        look: duplicates,
    },
];

/// The words of the boot line that the table knows, with their settings.
fn settings<'a>(line: &'a str) -> impl Iterator<Item = (line::BootWord<'a>, &'static Setting)> {
    line::kernel_words(line).filter_map(|word| Some((word, registry::boot_parameter(word.name)?)))
}

/// The parameters that the kernel's log calls unknown, where it names any.
fn called_unknown<'a>(facts: &CheckFacts<'a>) -> Option<Vec<&'a str>> {
    let line = facts.inventory.log.matching("Unknown kernel command line parameters \"*\"").next()?;
    let names = line.split_once('"')?.1.rsplit_once('"')?.0;
    Some(line::all_words(names).map(|word| word.raw).collect())
}

fn unknown(facts: &CheckFacts) -> CheckResult {
    let boot_line = facts.known_command_line()?;
    let of_init = line::all_words(boot_line).filter(|word| word.of_init);
    let of_init: Vec<&str> = of_init
        // systemd reads `quiet` wherever it stands.
        .filter(|word| !word.is("quiet"))
        .filter(|word| {
            registry::boot_parameter(word.name).is_some_and(|known| known.kind == SettingKind::Boot)
        })
        .map(|word| word.raw)
        .collect();
    if !of_init.is_empty() {
        return Ok(Conclusion::fail(
            read_in(LINE, of_init.join(" ")),
            format!("the kernel gives {} to init: a `--` stands before", some(&of_init, 3)),
            BootLine.advice(format!("move {} before the `--`", of_init.join(" "))),
        ));
    }
    let misspelt =
        line::kernel_words(boot_line).filter_map(|word| Some((word.raw, known::meant(word.name)?)));
    let misspelt: Vec<String> =
        misspelt.map(|(raw, meant)| format!("{raw} (did you mean {meant}?)")).collect();
    let said = called_unknown(facts);
    let ours = |raw: &&&str| {
        let name = line::BootWord::new(raw).name;
        registry::boot_parameter(name)
            .is_some_and(|setting| !matches!(setting.kind, SettingKind::BootUser | SettingKind::Foreign))
    };
    let refused: Vec<&str> = said.iter().flatten().filter(ours).copied().collect();
    if !refused.is_empty() {
        return Ok(Conclusion::fail(
            read_in(facts.inventory.log.source.as_deref().unwrap_or("/dev/kmsg"), refused.join(" ")),
            format!("the kernel does not know {}", some(&refused, 3)),
            BootLine.advice("boot a kernel that has it, or take it off the boot line"),
        ));
    }
    if !misspelt.is_empty() {
        let fix = BootLine.advice("correct it in the boot loader's files");
        return Ok(Conclusion::fail(
            read_in(LINE, misspelt.join(", ")),
            format!("no kernel knows {}", some(&misspelt, 3)),
            fix,
        ));
    }
    if let Some(names) = said {
        let read = read_in(facts.inventory.log.source.as_deref().unwrap_or("/dev/kmsg"), names.join(" "));
        return Ok(Conclusion::pass(
            read,
            format!("{} parameters are unknown to the kernel, none of them for isolation", names.len()),
        ));
    }
    if facts.at_least(5, 14) == Some(false) {
        return Err(Conclusion::unknown(
            "/dev/kmsg",
            "before Linux 5.14 the kernel does not say",
            "compare with boot-param-effective",
        ));
    }
    let log = facts.log()?;
    if !log.from_boot {
        return Err(Conclusion::unknown(
            "/dev/kmsg",
            "the log has lost its beginning",
            "look at it right after a boot: journalctl -k -b",
        ));
    }
    Ok(Conclusion::pass(
        read_in(log.source.as_deref().unwrap_or_default(), "no such line"),
        "the kernel knows all parameters",
    ))
}

fn rejected(facts: &CheckFacts) -> CheckResult {
    let log = facts.log()?;
    let source = log.source.as_deref().unwrap_or_default();
    let refusals =
        registry::boot().flat_map(|setting| setting.rejected.iter().map(move |pattern| (setting, *pattern)));
    let hit =
        refusals.flat_map(|(setting, pattern)| log.matching(pattern).map(move |line| (setting, line))).next();
    if let Some((setting, line)) = hit {
        let fix = BootLine.advice(format!("correct {} in the boot loader's files", setting.name));
        return Ok(Conclusion::fail(read_in(source, line), format!("the kernel says: {line}"), fix));
    }
    if !log.from_boot {
        return Err(Conclusion::unknown(
            source,
            "the log has lost its beginning",
            "look at it right after a boot: journalctl -k -b",
        ));
    }
    Ok(Conclusion::pass(read_in(source, "no refusal"), "the kernel refused nothing"))
}

fn noop(facts: &CheckFacts) -> CheckResult {
    let boot_line = facts.known_command_line()?;
    let mut idle: Vec<(String, String)> = Vec::new();
    for pair in cpus::dropped(boot_line, &facts.machine.kernel) {
        let acts = registry::boot_parameter(pair.word.name)
            .is_some_and(|setting| matches!(effect(facts, &pair.word, setting), ParameterEffect::Acts));
        if !acts {
            let why =
                format!("{} comes first, and this kernel takes both for the same CPUs alone", pair.by.raw);
            idle.push((pair.word.raw.to_string(), why));
        }
    }
    for (word, setting) in settings(boot_line) {
        // A distribution may have taken a parameter over: what its file shows comes before versions and
        // options.
        let acts = || matches!(effect(facts, &word, setting), ParameterEffect::Acts);
        if let Some(why) = cannot_act(facts, &word, setting).filter(|_| !acts()) {
            idle.push((word.raw.to_string(), why));
        }
    }
    if idle.is_empty() {
        return Ok(Conclusion::pass(
            read_in(LINE, boot_line),
            "every parameter can have an effect, as far as is known",
        ));
    }
    let named: Vec<String> = idle.iter().map(|(raw, why)| format!("{raw}: {why}")).collect();
    let words: Vec<&str> = idle.iter().map(|(raw, _)| raw.as_str()).collect();
    Ok(Conclusion::warn(
        read_in(LINE, words.join(" ")),
        some(&named, 3),
        BootLine.advice(format!("take {} off the boot line", words.join(" "))),
    ))
}

fn cannot_act(facts: &CheckFacts, word: &line::BootWord, setting: &Setting) -> Option<String> {
    let vendor = facts.inventory.cpu_vendor.as_deref();
    match word.name.replace('-', "_").as_str() {
        "intel_pstate" if vendor.is_some_and(|name| name != "GenuineIntel") => {
            return Some("the processor is not Intel's".to_string());
        }
        "amd_pstate" if vendor.is_some_and(|name| !["AuthenticAMD", "HygonGenuine"].contains(&name)) => {
            return Some("the processor is not AMD's".to_string());
        }
        "rcu_nocb_poll"
            if facts.boot_value("rcu_nocbs").is_none() && facts.boot_value("nohz_full").is_none() =>
        {
            return Some("no CPU's callbacks are offloaded".to_string());
        }
        "nohz" if word.value == Some("on") => return Some("this is the default".to_string()),
        _ => {}
    }
    match facts.cannot_act(setting)? {
        // Some vendors' kernels carry the patch; then the kernel does not call it unknown.
        CannotAct::Foreign if setting.refusal_is_named() && facts.at_least(5, 14) == Some(true) => {
            let log = &facts.inventory.log;
            let unknown = called_unknown(facts);
            let names_it = unknown
                .as_ref()
                .is_some_and(|names| names.iter().any(|raw| line::BootWord::new(raw).is(setting.name)));
            let kernel_took_it = log.from_boot && !names_it;
            (!kernel_took_it).then(|| CannotAct::Foreign.to_string())
        }
        why => Some(why.to_string()),
    }
}

/// How a parameter of the boot line compares with the file of its effect.
enum ParameterEffect {
    Acts,
    /// The request, and the text that holds.
    Not(String, String, &'static str),
    Unknown(&'static str),
    NoFile,
}

fn effective(facts: &CheckFacts) -> CheckResult {
    let boot_line = facts.known_command_line()?;
    let (mut acts, mut failed, mut unknown) = (0, Vec::new(), Vec::new());
    // The last word of a name is the one that counts.
    let last: BTreeMap<&str, line::BootWord> =
        settings(boot_line).map(|(word, setting)| (setting.name, word)).collect();
    for (name, word) in last {
        let Some(setting) = registry::boot_parameter(name) else { continue };
        match effect(facts, &word, setting) {
            ParameterEffect::Acts => acts += 1,
            ParameterEffect::Not(asked, holds, file) => failed.push((word.raw, asked, holds, file)),
            ParameterEffect::Unknown(file) => unknown.push(file),
            ParameterEffect::NoFile => {}
        }
    }
    if let Some((raw, asked, holds, file)) = failed.first() {
        let named: Vec<&str> = failed.iter().map(|(raw, ..)| *raw).collect();
        let state =
            FindingState { configured: None, running: Some(asked.clone()), effective: Some(holds.clone()) };
        let fix = BootLine.advice(format!(
            "isolator doctor --explain boot-param-rejected; then correct {raw} in the boot loader's files"
        ));
        let says = format!("{} did not take effect: {file} says '{holds}'", some(&named, 3));
        return Ok(Conclusion::fail(read_in(file, holds), says, fix).state(state));
    }
    if let Some(file) = unknown.first() {
        let text = facts.text_or(file, || crate::facts::not_captured(file))?;
        return Err(Conclusion::unknown(
            file,
            format!("'{text}' cannot be compared with the boot line"),
            "look at it",
        ));
    }
    if acts == 0 {
        return Err(Conclusion::not_applicable("the boot line has no parameter whose effect could be seen"));
    }
    Ok(Conclusion::pass(
        read_in(LINE, boot_line),
        format!("all parameters with a visible effect ({acts}) are in effect"),
    ))
}

fn effect(facts: &CheckFacts, word: &line::BootWord, setting: &'static Setting) -> ParameterEffect {
    let value = word.value.unwrap_or_default();
    let Some(&file) = setting.effective.first().filter(|file| file.starts_with('/')) else {
        return ParameterEffect::NoFile;
    };
    let asked = match setting.takes {
        ValueKind::Cpus | ValueKind::FlagsAndCpus | ValueKind::MaybeCpus => {
            return effect_of_cpus(facts, value, setting, file);
        }
        _ => value.to_string(),
    };
    if !shows(setting) {
        return ParameterEffect::NoFile;
    }
    let Some(text) = facts.hint(file) else { return ParameterEffect::Unknown(file) };
    let holds = bracketed(text).unwrap_or(text);
    let same = match setting.name {
        "nosmt" => ["off", "forceoff", "notsupported", "notimplemented"].contains(&holds),
        "nosoftlockup" | "nowatchdog" => holds == "0",
        "nmi_watchdog" => match value.split(',').next_back() {
            Some(digit @ ("0" | "1")) => digit == holds,
            _ => return ParameterEffect::NoFile,
        },
        "numa_balancing" => match value {
            "disable" => holds == "0",
            "enable" => holds != "0",
            _ => return ParameterEffect::NoFile,
        },
        "intel_pstate" | "amd_pstate" => match value {
            "active" | "passive" | "guided" => value == holds,
            "disable" => !["active", "passive", "guided"].contains(&holds),
            _ => return ParameterEffect::NoFile,
        },
        _ if setting.takes == ValueKind::Switch => match (truth(value), truth(holds)) {
            (Some(asked), Some(holds)) => asked == holds,
            _ => return ParameterEffect::NoFile,
        },
        _ => value == holds,
    };
    if same { ParameterEffect::Acts } else { ParameterEffect::Not(asked, holds.to_string(), file) }
}

/// Whether what a parameter asks can be compared with what its file says.
fn shows(setting: &Setting) -> bool {
    const PLAIN: &[&str] = &[
        "nosmt",
        "nosoftlockup",
        "nowatchdog",
        "nmi_watchdog",
        "numa_balancing",
        "transparent_hugepage",
        "pcie_aspm.policy",
        "preempt",
        "processor.max_cstate",
        "intel_idle.max_cstate",
        "rcutree.kthread_prio",
        "rcutree.nohz_full_patience_delay",
        "usbcore.autosuspend",
        "watchdog_thresh",
        "cpufreq.default_governor",
        "clocksource",
        "intel_pstate",
        "amd_pstate",
    ];
    PLAIN.contains(&setting.name)
        || (setting.takes == ValueKind::Switch
            && setting.name.contains('.')
            && setting.kind == SettingKind::Boot)
}

fn effect_of_cpus(facts: &CheckFacts, value: &str, setting: &Setting, file: &'static str) -> ParameterEffect {
    let Ok(listed) = list::read(setting.takes, value, facts.last_possible()) else {
        let holds = facts.hint(file).unwrap_or_default();
        return ParameterEffect::Not(value.to_string(), holds.to_string(), file);
    };
    // Of isolcpus only the domain's CPUs show.
    let known_flags: Vec<&str> =
        listed.flags.iter().map(String::as_str).filter(|flag| list::FLAGS.contains(flag)).collect();
    if setting.name == "isolcpus" && !known_flags.is_empty() && !known_flags.contains(&"domain") {
        return ParameterEffect::NoFile;
    }
    let Some(text) = facts.hint(file) else {
        let absent = matches!(facts.inventory.files.get(file), Some(machine::inventory::Reading::Absent));
        return if absent && facts.too_old_for(file).is_none() {
            ParameterEffect::Not(value.to_string(), "no such file".to_string(), file)
        } else {
            ParameterEffect::Unknown(file)
        };
    };
    let mask = file.ends_with("affinity") || file.ends_with("cpumask");
    let holds = if mask { CpuSet::from_mask(text) } else { text.replace("(null)", "").parse() };
    let Ok(holds) = holds else { return ParameterEffect::Unknown(file) };
    let same = match setting.name {
        // The boot CPU is always added.
        "irqaffinity" => holds == listed.cpus.or(&CpuSet::from_iter([0])),
        // Isolation takes more away from it.
        "workqueue.unbound_cpus" => holds.without(&listed.cpus).is_empty(),
        _ => holds == listed.cpus,
    };
    if same {
        ParameterEffect::Acts
    } else {
        ParameterEffect::Not(listed.cpus.to_string(), holds.to_string(), file)
    }
}

/// A switch as the kernel reads it (`kstrtobool`).
fn truth(text: &str) -> Option<bool> {
    match text.as_bytes().first()? {
        b'y' | b'Y' | b't' | b'T' | b'1' => Some(true),
        b'n' | b'N' | b'f' | b'F' | b'0' => Some(false),
        b'o' | b'O' if text.len() > 1 => Some(text[1..].eq_ignore_ascii_case("n")),
        _ => None,
    }
}

/// The words that take lists of CPUs.
fn lists<'a>(line: &'a str) -> impl Iterator<Item = (line::BootWord<'a>, &'static Setting)> {
    settings(line).filter(|(_, setting)| {
        matches!(setting.takes, ValueKind::Cpus | ValueKind::FlagsAndCpus | ValueKind::MaybeCpus)
            && setting.kind == SettingKind::Boot
    })
}

fn range(facts: &CheckFacts) -> CheckResult {
    let boot_line = facts.known_command_line()?;
    let present: CpuSet = facts.machine.cpus.iter().map(|cpu| cpu.id).collect();
    if present.is_empty() {
        return Err(crate::facts::not_captured("/sys/devices/system/cpu/present"));
    }
    let mut seen = 0;
    for (word, setting) in lists(boot_line) {
        seen += 1;
        let fix =
            format!("correct {} in the boot loader's files: the machine has cpus {present}", setting.name);
        let fix = BootLine.advice(fix);
        match list::read(setting.takes, word.value.unwrap_or_default(), facts.last_possible()) {
            Err(why) => {
                return Ok(Conclusion::fail(read_in(LINE, word.raw), format!("{}: {why}", word.raw), fix));
            }
            Ok(listed) if listed.flags.iter().any(|flag| wrong_flag(facts, flag).is_some()) => {
                let wrong = listed.flags.iter().find_map(|flag| wrong_flag(facts, flag)).unwrap_or_default();
                return Ok(Conclusion::fail(read_in(LINE, word.raw), format!("{}: {wrong}", word.raw), fix));
            }
            Ok(listed) if setting.takes != ValueKind::MaybeCpus || word.value.is_some() => {
                let missing = listed.cpus.without(&present);
                if !missing.is_empty() {
                    let says = format!("{}: cpus {missing} do not exist", word.raw);
                    return Ok(Conclusion::fail(read_in(LINE, word.raw), says, fix));
                }
            }
            Ok(_) => {}
        }
    }
    if seen == 0 {
        return Err(Conclusion::not_applicable("the boot line has no list of CPUs"));
    }
    Ok(Conclusion::pass(read_in(LINE, format!("present: {present}")), "every list names existing CPUs"))
}

/// Why this kernel does not take a flag of `isolcpus` (kernel/sched/isolation.c). Up to Linux 5.7 one that it
/// does not know makes it drop the whole list, later ones skip the flag.
fn wrong_flag(facts: &CheckFacts, flag: &str) -> Option<String> {
    let since = match flag {
        "nohz" | "domain" => Some((4, 15)),
        "managed_irq" => Some((5, 6)),
        _ => None,
    };
    let drops = if facts.at_least(5, 8) == Some(true) { "skips it" } else { "drops the whole list" };
    match since {
        Some((major, minor)) if facts.at_least(major, minor) == Some(false) => {
            Some(format!("Linux {major}.{minor} is the first that knows {flag}, this kernel {drops}"))
        }
        Some(_) => None,
        None => Some(format!("isolcpus has no flag {flag}, the kernel {drops}")),
    }
}

fn letters(facts: &CheckFacts) -> CheckResult {
    let boot_line = facts.known_command_line()?;
    let (mut seen, mut unreadable) = (0, None);
    for (word, setting) in lists(boot_line) {
        seen += 1;
        let value = word.value.unwrap_or_default();
        let read = read_in(LINE, word.raw);
        let fix = |listed: &list::ValueList| {
            let flags: String = listed.flags.iter().map(|flag| format!("{flag},")).collect();
            let name = setting.name;
            BootLine.advice(format!("write {name}={flags}{} in the boot loader's files", listed.cpus))
        };
        match list::read(setting.takes, value, facts.last_possible()) {
            Ok(listed) if listed.by_letter && facts.at_least(5, 13) == Some(false) => {
                return Ok(Conclusion::fail(
                    read,
                    format!("{}: this kernel does not take letters", word.raw),
                    fix(&listed),
                ));
            }
            Ok(listed) if listed.by_letter => {
                return Ok(Conclusion::warn(
                    read,
                    format!("{}: other programs misread the letter", word.raw),
                    fix(&listed),
                ));
            }
            Ok(_) => {}
            Err(_) => {
                let upper = value.replace('n', "N");
                if let Ok(listed) = list::read(setting.takes, &upper, facts.last_possible()) {
                    return Ok(Conclusion::fail(
                        read,
                        format!("{}: no kernel takes n for a CPU", word.raw),
                        fix(&listed),
                    ));
                }
                unreadable = unreadable.or(Some(word.raw));
            }
        }
    }
    if let Some(raw) = unreadable {
        let why = format!("{raw} is not a list of CPUs");
        return Err(Conclusion::unknown(LINE, why, "isolator doctor --explain boot-cpulist-range"));
    }
    if seen == 0 {
        return Err(Conclusion::not_applicable("the boot line has no list of CPUs"));
    }
    Ok(Conclusion::pass(read_in(LINE, boot_line), "the lists have numbers only"))
}

/// Parameters that may stand several times.
const SEVERAL: &[&str] = &["sysctl", "cgroup_disable", "cgroup_no_v1", "mce", "tsc", "efi"];

fn duplicates(facts: &CheckFacts) -> CheckResult {
    let boot_line = facts.known_command_line()?;
    let mut values: BTreeMap<String, Vec<line::BootWord>> = BTreeMap::new();
    for word in line::kernel_words(boot_line) {
        let name = word.name.replace('-', "_");
        let known = registry::boot_parameter(&name).is_some_and(|setting| !SEVERAL.contains(&setting.name));
        if known || name == "root" {
            values.entry(name).or_default().push(word);
        }
    }
    values.retain(|_, words| words.len() > 1);
    let Some((name, words)) = values.iter().next() else {
        return Ok(Conclusion::pass(read_in(LINE, boot_line), "every parameter is given once"));
    };
    let raw = words.iter().map(|word| word.raw).collect::<Vec<_>>().join(" ");
    let same = words.windows(2).all(|pair| pair[0].value == pair[1].value);
    let fix = BootLine.advice(format!("leave one {name} in the boot loader's files"));
    let names: Vec<&str> = values.keys().map(String::as_str).collect();
    let says = format!("{} is given several times: {raw}", some(&names, 3));
    let grave =
        (name == "root" && facts.jetson()) || (!same && matches!(name.as_str(), "isolcpus" | "nohz_full"));
    Ok(if grave {
        Conclusion::fail(read_in(LINE, &raw), says, fix)
    } else {
        Conclusion::warn(read_in(LINE, &raw), says, fix)
    })
}
