// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every boot parameter and runtime setting that decides latency: what it needs, where its effective state
//! stands, how the kernel says that it refused it, what it costs, why, and how it is set and undone.
//!
//! One table for the audit, the planner and what verifies a plan. Facts are read from Linux 6.12's source
//! unless an entry says otherwise. A setting that is in no table is not judged.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::boot::line::same_name;
use crate::snapshot::Kernel;

mod boot;
pub mod cpus;
pub mod known;
pub mod list;
pub mod options;
mod runtime;

/// A kernel version, `(6, 12)`.
pub type KernelVersion = (u32, u32);

/// One boot parameter or runtime setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Setting {
    /// Its name: a boot parameter's (`isolcpus`), a sysctl's (`kernel.timer_migration`), or a file, in which
    /// `cpuN` and `irq/N` stand for each of them.
    pub name: &'static str,
    /// Where it is set.
    pub kind: SettingKind,
    /// The kind of its value.
    pub takes: ValueKind,
    /// Kernel options without which it is not there; all of them are needed.
    pub needs: &'static [&'static str],
    /// Kernel options with which it does nothing.
    pub idle_with: &'static [&'static str],
    /// The first kernel that has it; absent: every kernel in use.
    pub since: Option<KernelVersion>,
    /// The first kernel that has it no more.
    pub until: Option<KernelVersion>,
    /// Architectures that have it, as `uname -m` begins; empty: all.
    pub architectures: &'static [&'static str],
    /// Files that show its effective state; empty: nothing does.
    pub effective: &'static [&'static str],
    /// The words of the kernel's log where it refused it; `*` stands for anything.
    pub rejected: &'static [&'static str],
    /// The words of the kernel's log where it took it; `*` stands for anything.
    pub accepted: &'static [&'static str],
    /// Why one sets it.
    pub reason: &'static str,
    /// Its cost; empty: nothing known.
    pub cost: &'static str,
    /// Where these facts are from.
    pub source: &'static str,
    /// How it is set; empty: as its kind is ([`Setting::how_to_set`]).
    pub fix: &'static str,
    /// How that is undone; empty: as its kind is ([`Setting::how_to_undo`]).
    pub undo: &'static str,
}

/// Where a setting is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Kind")]
pub enum SettingKind {
    /// The boot line, for the kernel.
    Boot,
    /// The boot line, for a program in user space that reads it too.
    BootUser,
    /// The boot line of kernels that carry a vendor's patch; no kernel of kernel.org ever had it.
    Foreign,
    /// A sysctl.
    Sysctl,
    /// A file of sysfs, procfs or debugfs.
    File,
    /// A control group's file.
    Cgroup,
    /// A service or its configuration.
    Service,
    /// A limit of the session (`limits.d`, a unit's `Limit…=`).
    Limit,
}

/// The kind of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ValueKind {
    /// Nothing: its presence says it.
    Nothing,
    /// A list of CPUs.
    Cpus,
    /// Flags, then a list of CPUs (`isolcpus`).
    FlagsAndCpus,
    /// A list of CPUs, or nothing (`rcu_nocbs`).
    MaybeCpus,
    /// A hexadecimal mask of CPUs.
    Mask,
    /// A number.
    Number,
    /// 0 or 1, or one of the words that the kernel takes for them.
    Switch,
    /// One of these words; a kernel may take more.
    Word(&'static [&'static str]),
    /// Some text.
    Text,
}

/// A boot parameter about which nothing more is known.
const BOOT: Setting = Setting {
    name: "",
    kind: SettingKind::Boot,
    takes: ValueKind::Text,
    needs: &[],
    idle_with: &[],
    since: None,
    until: None,
    architectures: &[],
    effective: &[],
    rejected: &[],
    accepted: &[],
    reason: "",
    cost: "",
    source: KERNEL,
    fix: "",
    undo: "",
};
/// A sysctl about which nothing more is known.
const SYSCTL: Setting = Setting { kind: SettingKind::Sysctl, takes: ValueKind::Number, ..BOOT };
/// A file about which nothing more is known.
const FILE: Setting = Setting { kind: SettingKind::File, ..BOOT };

/// The usual source.
const KERNEL: &str = "Linux 6.12, Documentation/admin-guide/kernel-parameters.txt";
/// The documentation's part on real-time kernels.
const REAL_TIME: &str = "Linux 7.0, Documentation/core-api/real-time";
const X86: &[&str] = &["x86_64", "i686", "i586", "i386"];

/// All boot parameters.
pub fn boot() -> impl Iterator<Item = &'static Setting> {
    boot::ALL.iter().copied().flatten()
}

/// All settings of a running machine.
pub fn runtime() -> impl Iterator<Item = &'static Setting> {
    runtime::ALL.iter().copied().flatten()
}

/// Everything in the table.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    boot().chain(runtime())
}

/// The boot parameter `name`; `-` and `_` are one to the kernel.
pub fn boot_parameter(name: &str) -> Option<&'static Setting> {
    boot().find(|setting| same_name(setting.name, name))
}

/// The runtime setting `name`.
pub fn runtime_setting(name: &str) -> Option<&'static Setting> {
    runtime().find(|setting| setting.name == name)
}

/// The setting of a file: a sysctl by its name, a file of one CPU by that of them all.
pub fn of_file(path: &str) -> Option<&'static Setting> {
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        return runtime_setting(&name.replace('/', "."));
    }
    let number = |part: &str| {
        let digits = part.trim_start_matches(|c: char| !c.is_ascii_digit());
        let start = &part[..part.len() - digits.len()];
        let numbered = matches!(start, "cpu" | "machinecheck" | "") && digits.parse::<u32>().is_ok();
        if numbered { format!("{start}N") } else { part.to_string() }
    };
    runtime_setting(&path.split('/').map(number).collect::<Vec<_>>().join("/"))
}

/// Why a setting cannot act on a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotAct {
    /// No kernel of kernel.org has it.
    Foreign,
    /// It is of another architecture.
    Architecture(String),
    /// It came later.
    TooOld(KernelVersion),
    /// It went away.
    TooNew(KernelVersion),
    /// The kernel is built without this option.
    Without(&'static str),
    /// The kernel is built with an option that leaves it nothing to do.
    AlreadyWith(&'static str),
}

impl fmt::Display for CannotAct {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotAct::Foreign => write!(out, "no kernel of kernel.org has it"),
            CannotAct::Architecture(ours) => write!(out, "{ours} has no such parameter"),
            CannotAct::TooOld((major, minor)) => write!(out, "it is new in Linux {major}.{minor}"),
            CannotAct::TooNew((major, minor)) => write!(out, "it went away in Linux {major}.{minor}"),
            CannotAct::Without(option) => write!(out, "this kernel is built without CONFIG_{option}"),
            CannotAct::AlreadyWith(option) => write!(out, "with CONFIG_{option} it changes nothing"),
        }
    }
}

impl Setting {
    /// Whether it can act on this machine, as far as is known: what is unknown speaks neither way.
    /// `option` says whether CONFIG_ of that name is set, where the configuration could be read.
    pub fn cannot_act(
        &self,
        kernel: &Kernel,
        architecture: Option<&str>,
        option: impl Fn(&str) -> Option<bool>,
    ) -> Option<CannotAct> {
        if self.kind == SettingKind::Foreign {
            return Some(CannotAct::Foreign);
        }
        if let Some(ours) = architecture
            && !self.architectures.is_empty()
            && !self.architectures.iter().any(|theirs| ours.starts_with(theirs))
        {
            return Some(CannotAct::Architecture(ours.to_string()));
        }
        let at_least =
            |version: Option<KernelVersion>| version.and_then(|(major, minor)| kernel.at_least(major, minor));
        if at_least(self.since) == Some(false) && !kernel.takes_over() {
            return self.since.map(CannotAct::TooOld);
        }
        if at_least(self.until) == Some(true) {
            return self.until.map(CannotAct::TooNew);
        }
        let without = self.needs.iter().find(|name| option(name) == Some(false));
        let with = self.idle_with.iter().find(|name| option(name) == Some(true));
        without.map(|name| CannotAct::Without(name)).or(with.map(|name| CannotAct::AlreadyWith(name)))
    }

    /// Whether the kernel names it in its line of unknown parameters where it does not know it. It skips
    /// names with a dot (`init/main.c`), which it takes for a module's; and `early_param`s of other
    /// vendors are known everywhere.
    pub fn refusal_is_named(&self) -> bool {
        !self.name.contains('.')
    }

    /// How to set it to `value`.
    pub fn how_to_set(&self, value: &str) -> String {
        match self.kind {
            _ if !self.fix.is_empty() => self.fix.replace("VALUE", value),
            SettingKind::Boot | SettingKind::BootUser | SettingKind::Foreign if value.is_empty() => {
                format!("add {} to the boot line", self.name)
            }
            SettingKind::Boot | SettingKind::BootUser | SettingKind::Foreign => {
                format!("add {}={value} to the boot line", self.name)
            }
            SettingKind::Sysctl => format!("sysctl -w {}={value}", self.name),
            _ => format!("echo {value} > {}", self.name),
        }
    }

    /// How to undo that, `before` being what it was.
    pub fn how_to_undo(&self, before: &str) -> String {
        match self.kind {
            _ if !self.undo.is_empty() => self.undo.replace("VALUE", before),
            SettingKind::Boot | SettingKind::BootUser | SettingKind::Foreign => {
                format!("take {} off the boot line and boot again", self.name)
            }
            _ => self.how_to_set(before),
        }
    }
}

#[cfg(test)]
mod tests;
