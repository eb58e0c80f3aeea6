// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that this program changes: the targets of each kind of action, and the files, settings
//! and commands of each kind of step.
//!
//! A plan may come from a stranger and a record lies on a disk. Each is checked once, when it is read, so
//! that what follows may rely on it. The planner's own plans and records pass by construction, which the
//! tests hold it to.

use machine::CpuSet;

use crate::accounts::{attribute, is_account};
use crate::action::{Action, ActionKind, PlanRefusal};
use crate::places::{
    BALANCE, DEVICE, DROP_IN, GROUPS, LIMITS, LIMITS_FILE, OPTIONAL, PARTITION, PROGRAM, PROGRAM_MODE,
    RULES_FILE, TRIAL, UNIT, USER_LIMITS_FILE,
};
use crate::record::{Record, Step};
use crate::service::{self, SLICE, ServiceValue};
use crate::{Error, Result};

/// Why something is not allowed.
type Allowed = std::result::Result<(), String>;

/// Parameters of the boot line that a plan may have.
const PARAMETERS: [&str; 10] = [
    "irqaffinity",
    "isolcpus",
    "nohz_full",
    "nosmt",
    "rcu_nocb_poll",
    "rcu_nocbs",
    "rcutree.nohz_full_patience_delay",
    "skew_tick",
    "threadirqs",
    "tsc",
];
const SYSCTLS: [&str; 7] = [
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/timer_migration",
    "/proc/sys/kernel/watchdog_cpumask",
    "/proc/sys/vm/compaction_proactiveness",
    "/proc/sys/vm/stat_interval",
    "/proc/sys/vm/swappiness",
];
const LINKS: &str = "/sys/module/pcie_aspm/parameters/policy";
const UNITS: [&str; 4] = ["init.scope", "machine.slice", "system.slice", "user.slice"];
/// Folders of boot loaders.
const BOOT: [&str; 2] = ["/boot/", "/efi/"];
/// Files elsewhere that a boot line comes from.
const SOURCES: [&str; 4] = ["/etc/default/grub", DROP_IN, "/etc/default/u-boot", "/etc/kernel/cmdline"];
/// No value of a setting is longer.
const LONGEST: usize = 64 << 10;

/// Whether every action of a plan is one that this program makes.
pub fn actions(actions: &[Action]) -> std::result::Result<(), PlanRefusal> {
    actions.iter().try_for_each(action).map_err(|why| PlanRefusal {
        reason: format!("this program did not write the plan: {why}"),
        cure: "plan on this machine, with this program".to_string(),
    })
}

fn action(action: &Action) -> Allowed {
    let (target, value) = (action.target.as_str(), action.value.as_str());
    let one_of = |all: &[&str]| all.contains(&target);
    let of_cpu = |start: &str, end: &str| numbered(target, start, end);
    let known = match action.kind {
        ActionKind::BootParameter => one_of(&PARAMETERS),
        ActionKind::Governor => of_cpu("/sys/devices/system/cpu/cpu", "/cpufreq/scaling_governor"),
        ActionKind::Frequency => of_cpu("/sys/devices/system/cpu/cpu", "/cpufreq/scaling_min_freq"),
        ActionKind::PmQos => of_cpu("/sys/devices/system/cpu/cpu", "/power/pm_qos_resume_latency_us"),
        ActionKind::FairServer => of_cpu("/sys/kernel/debug/sched/fair_server/cpu", "/runtime"),
        ActionKind::MachineCheck => {
            of_cpu("/sys/devices/system/machinecheck/machinecheck", "/check_interval")
        }
        ActionKind::Sysctl => one_of(&SYSCTLS),
        ActionKind::IrqDefault => one_of(&["/proc/irq/default_smp_affinity"]),
        ActionKind::Workqueues => one_of(&[
            "/sys/devices/virtual/workqueue/cpumask",
            "/sys/devices/virtual/workqueue/writeback/cpumask",
        ]),
        ActionKind::Memory => {
            one_of(&["/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/ksm/run"])
        }
        ActionKind::Links => one_of(&[LINKS]),
        ActionKind::Irqs => one_of(&["/proc/irq"]),
        ActionKind::DeviceIrqs => device(target),
        ActionKind::IrqBalance => one_of(&["irqbalance.service"]),
        ActionKind::KernelThreads => one_of(&["kthreads"]),
        ActionKind::Slice => one_of(&UNITS),
        ActionKind::Partition => one_of(&[PARTITION]),
        ActionKind::Limits => one_of(&[LIMITS_FILE]),
        ActionKind::RealTimeSlice => one_of(&[SLICE]),
        ActionKind::ManagerAffinity => one_of(&["systemd"]),
        ActionKind::Service => service::is_service(target),
    };
    if !known {
        return Err(format!("'{}' is not a target of the kind {}", shown(target), name(action.kind)));
    }
    let plain = |extra: &str| {
        let letter = |letter: char| letter.is_ascii_alphanumeric() || extra.contains(letter);
        value.len() <= LONGEST && value.chars().all(letter)
    };
    let takes = match action.kind {
        ActionKind::BootParameter => plain("_-,."),
        ActionKind::Governor | ActionKind::Memory | ActionKind::Links => !value.is_empty() && plain("_"),
        ActionKind::Frequency | ActionKind::FairServer | ActionKind::MachineCheck => number(value),
        ActionKind::PmQos => number(value) || value == "n/a",
        ActionKind::Sysctl if target.ends_with("cpumask") => cpus(value),
        ActionKind::Sysctl => number(value),
        ActionKind::IrqDefault | ActionKind::Workqueues => {
            plain(",") && CpuSet::from_mask(value).is_ok_and(|set| !set.is_empty())
        }
        ActionKind::Limits => value == LIMITS,
        ActionKind::Service => value.parse::<ServiceValue>().is_ok(),
        ActionKind::Irqs
        | ActionKind::DeviceIrqs
        | ActionKind::IrqBalance
        | ActionKind::KernelThreads
        | ActionKind::Slice
        | ActionKind::RealTimeSlice
        | ActionKind::ManagerAffinity
        | ActionKind::Partition => cpus(value),
    };
    if takes { Ok(()) } else { Err(format!("{} is not a value for {}", shown(value), shown(target))) }
}

/// The kind as documents name it.
fn name(kind: ActionKind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_string)).unwrap_or_default()
}

/// Foreign text within an error: short, and it steers no terminal.
fn shown(text: &str) -> String {
    untrusted::text::clean(&text.chars().take(80).collect::<String>()).into_owned()
}

fn number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

fn cpus(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b",-".contains(&byte))
        && text.parse::<CpuSet>().is_ok_and(|set| !set.is_empty())
}

fn numbered(path: &str, start: &str, end: &str) -> bool {
    let middle = path.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    middle.is_some_and(|middle| middle.len() <= 6 && number(middle) && !middle.is_empty())
}

/// A device's name, or where it is on its bus: it becomes part of a path.
fn device(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "._:@-".contains(letter);
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(letter)
}

/// Whether every step of a record is one that this program makes.
pub fn record(record: &Record) -> Result<()> {
    let checked = identity(record).and_then(|()| record.steps.iter().try_for_each(|done| step(&done.step)));
    checked.map_err(|why| {
        Error::new(
            format!("use the record {}", shown(&record.id)),
            why,
            "it is not as this program wrote it: move it away, and undo by hand what it names",
        )
    })
}

fn identity(record: &Record) -> Allowed {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if record.id.is_empty() || record.id.len() > 100 || !record.id.chars().all(letter) {
        return Err(format!("'{}' is not a name of a record", shown(&record.id)));
    }
    if !record.plan.chars().all(letter) {
        return Err(format!("'{}' is not a digest of a plan", shown(&record.plan)));
    }
    record.words.iter().try_for_each(|raw| word(raw))
}

/// A word of the boot line.
fn word(raw: &str) -> Allowed {
    let (name, value) = raw.split_once('=').unwrap_or((raw, ""));
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-,.".contains(letter);
    match PARAMETERS.contains(&name) && value.chars().all(plain) {
        true => Ok(()),
        false => Err(format!("'{}' is not a word that a plan puts into the boot line", shown(raw))),
    }
}

fn step(step: &Step) -> Allowed {
    match step {
        Step::File { path, .. } => file(path),
        Step::Generated { path, command, words, .. } => {
            file(path)?;
            words.iter().try_for_each(|raw| word(raw))?;
            let maker = matches!(command.as_slice(), [program] if program == "grub-mkconfig");
            if maker { Ok(()) } else { Err(no_command(command)) }
        }
        Step::Folder { path } => {
            let known = [crate::system::folder(DROP_IN), BALANCE, PARTITION];
            let known = known.contains(&path.as_str()) || (path.ends_with(".d") && service::is_ours(path));
            if known { Ok(()) } else { Err(no_file(path)) }
        }
        Step::Setting { path, write, undo, .. } => {
            if write.len().max(undo.len()) > LONGEST {
                return Err(format!("the value of {} is too long", shown(path)));
            }
            setting(path)
        }
        Step::Affinity { .. } => Ok(()),
        Step::Command { run, undo, .. } => command(run).and_then(|()| command(undo)),
        Step::Members { path, group, line, users } => {
            if !GROUPS.contains(&path.as_str()) {
                return Err(no_file(path));
            }
            let made = |gid: &str| [format!("{group}:x:{gid}:"), format!("{group}:!::")];
            let gid = line.as_deref().and_then(|line| line.split(':').nth(2)).unwrap_or_default();
            let whole =
                line.as_ref().is_none_or(|line| number(&format!("0{gid}")) && made(gid).contains(line));
            let mut names = std::iter::once(group).chain(users);
            match whole && names.all(|name| is_account(name)) {
                true => Ok(()),
                false => Err(format!("'{}' is not a line of a group that this program makes", shown(group))),
            }
        }
        Step::Access { path, old, new } => {
            // Neither of them lets all users open it, or gives it to a user.
            let fits = |access: &crate::system::FileAccess| access.uid == 0 && access.mode & !0o660 == 0;
            match path == DEVICE && fits(new) && old.mode & !0o666 == 0 {
                true => Ok(()),
                false => Err(no_file(path)),
            }
        }
        Step::Program { path, capabilities, .. } => {
            match path == PROGRAM && PROGRAM_MODE & 0o7 == 0 && attribute(capabilities).is_some() {
                true => Ok(()),
                false => Err(no_file(path)),
            }
        }
    }
}

fn no_file(path: &str) -> String {
    format!("no change of this program touches '{}'", shown(path))
}

fn no_command(command: &[String]) -> String {
    format!("no change of this program runs `{}`", shown(&command.join(" ")))
}

/// A file that a change may write.
fn file(path: &str) -> Allowed {
    let plain = path.starts_with('/')
        && !path.contains(char::is_control)
        && path[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
    let drop_in = format!("{BALANCE}/isolator.conf");
    let known = [UNIT, LIMITS_FILE, USER_LIMITS_FILE, RULES_FILE, &drop_in].contains(&path)
        || SOURCES.contains(&path)
        || (!path.ends_with(".d") && service::is_ours(path))
        || BOOT.iter().any(|folder| path.starts_with(folder));
    if plain && known { Ok(()) } else { Err(no_file(path)) }
}

/// A file of the kernel that a change may write to.
fn setting(path: &str) -> Allowed {
    let of_cpus = [
        ("/sys/devices/system/cpu/cpu", "/cpufreq/scaling_governor"),
        ("/sys/devices/system/cpu/cpu", "/cpufreq/scaling_min_freq"),
        ("/sys/devices/system/cpu/cpu", "/power/pm_qos_resume_latency_us"),
        ("/sys/kernel/debug/sched/fair_server/cpu", "/runtime"),
        ("/sys/devices/system/machinecheck/machinecheck", "/check_interval"),
        ("/proc/irq/", "/smp_affinity_list"),
    ];
    let one = [
        "/proc/irq/default_smp_affinity",
        "/sys/devices/virtual/workqueue/cpumask",
        "/sys/devices/virtual/workqueue/writeback/cpumask",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/mm/ksm/run",
        LINKS,
        "/sys/fs/cgroup/cgroup.subtree_control",
    ];
    let of_partition = path.strip_prefix(PARTITION);
    let known = SYSCTLS.contains(&path)
        || one.contains(&path)
        || of_cpus.iter().any(|(start, end)| numbered(path, start, end))
        || matches!(of_partition, Some("/cpuset.cpus" | "/cpuset.cpus.partition"));
    if known { Ok(()) } else { Err(no_file(path)) }
}

/// A command that a change may run; an empty one does nothing.
fn command(words: &[String]) -> Allowed {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let allowed = |raw: &str, option: &str| raw.strip_prefix(option).is_some_and(|raw| word(raw).is_ok());
    let fenced =
        |raw: &str| raw.strip_prefix("AllowedCPUs=").is_some_and(|list| list.is_empty() || cpus(list));
    let known = match words.as_slice() {
        [] | ["systemctl", "daemon-reload"] | ["systemctl", "try-restart", "irqbalance.service"] => true,
        ["systemctl", "enable" | "disable", unit] => UNIT.ends_with(&format!("/{unit}")),
        ["systemctl", "set-property", "--runtime", "--", unit, property]
        | ["systemctl", "set-property", "--runtime", unit, property] => {
            UNITS.contains(unit) && fenced(property)
        }
        ["bootctl", "set-oneshot", id] => id.is_empty() || *id == format!("{TRIAL}.conf"),
        ["rpm-ostree", "kargs", options @ ..] => options
            .iter()
            .all(|raw| allowed(raw, "--append-if-missing=") || allowed(raw, "--delete-if-present=")),
        ["fw_setenv", name, ..] if words.len() <= 3 => OPTIONAL.contains(name),
        _ => false,
    };
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    if known { Ok(()) } else { Err(no_command(&words)) }
}

#[cfg(test)]
mod tests;
