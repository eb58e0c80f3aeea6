// SPDX-License-Identifier: MIT OR Apache-2.0
//! The snapshot as checks want it: which CPUs are isolated, the boot line, the text of a file or why it
//! does not.

use machine::advice::Aim;
use machine::boot::line;
use machine::inventory::{Inventory, Irq, MachineSample, Reading, Thread};
use machine::registry::{Setting, ValueKind, list};
use machine::snapshot::Preemption;
use machine::{CpuSet, Snapshot};

use crate::finding::{Conclusion, Evidence, read_in};
use crate::{DoctorQuestion, Profile, Use};

/// The facts that checks look at.
pub struct CheckFacts<'a> {
    pub(crate) machine: &'a Snapshot,
    pub(crate) inventory: &'a Inventory,
    pub(crate) profile: Profile,
    pub(crate) purpose: Option<&'a Use>,
    /// CPUs that are isolated: outside of the scheduler's domains, in a partition, or without a tick.
    pub(crate) isolated: CpuSet,
    /// Why that is not known, where it is not.
    isolation_unknown: Option<Conclusion>,
    /// Why it is not known which CPUs may stop their tick, where it is not.
    nohz_unknown: Option<Conclusion>,
    /// CPUs that are online and not isolated.
    pub(crate) housekeeping: CpuSet,
    pub(crate) online: CpuSet,
    pub(crate) x86: bool,
}

const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";
const PARTITIONS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

static NOTHING: std::sync::LazyLock<Inventory> = std::sync::LazyLock::new(Inventory::default);

/// The cure for a file that cannot be read.
pub(crate) const AS_ROOT: &str = "run isolator doctor as root";
pub(crate) const ON_HOST: &str = "run isolator doctor on the host";
pub(crate) const BY_SAMPLE: &str = "isolator doctor --sample 10s";

impl<'a> CheckFacts<'a> {
    pub(crate) fn new(machine: &'a Snapshot, question: &'a DoctorQuestion) -> Self {
        let inventory = machine.inventory.as_deref().unwrap_or(&NOTHING);
        let isolated = machine.isolation.set_apart().or(&machine.isolation.nohz_full);
        let online = machine.online();
        let mut facts = CheckFacts {
            machine,
            inventory,
            profile: question.purpose.as_ref().map_or(question.profile, |purpose| purpose.profile),
            purpose: question.purpose.as_ref(),
            isolation_unknown: None,
            nohz_unknown: None,
            housekeeping: online.without(&isolated),
            isolated,
            online,
            x86: machine.architecture.as_deref().is_some_and(|name| name == "x86_64" || name.ends_with("86")),
        };
        let partition =
            facts.cpus_unknown(PARTITIONS, false).filter(|_| inventory.files.contains_key(PARTITIONS));
        let isolated = facts.cpus_unknown(ISOLATED, facts.boot_value("isolcpus").is_some()).or(partition);
        // Of a tree of which a part was taken, what is there is believed.
        let taken = |path: &str| facts.isolated.is_empty() || inventory.files.contains_key(path);
        facts.isolation_unknown = isolated.filter(|_| taken(ISOLATED));
        facts.nohz_unknown = match facts.option("NO_HZ_FULL") {
            Some(false) if !inventory.files.contains_key(NOHZ_FULL) => None,
            built => facts.cpus_unknown(NOHZ_FULL, facts.asks_for_no_tick() && built != Some(false)),
        };
        facts
    }

    /// The CPUs of the table of advice: the isolated ones, or those that a plan chooses.
    pub(crate) fn aim(&self) -> Aim<'a> {
        Aim {
            machine: self.machine,
            profile: self.profile,
            isolated: self.isolated.clone(),
            housekeeping: self.housekeeping.clone(),
        }
    }

    /// Why it is not known which CPUs a file names; `asked`: whether the boot line asks for some, so that a
    /// file that is not there does not mean that there are none.
    fn cpus_unknown(&self, path: &str, asked: bool) -> Option<Conclusion> {
        match self.inventory.files.get(path) {
            Some(Reading::Text(text)) if text == "(null)" || text.parse::<CpuSet>().is_ok() => None,
            Some(Reading::Text(text)) => {
                Some(Conclusion::unknown(path, format!("'{text}' names no CPUs"), "look at it"))
            }
            Some(Reading::Unreadable { unreadable }) => Some(Conclusion::unknown(path, unreadable, AS_ROOT)),
            Some(Reading::Absent) if asked => {
                let why = "there is no such file, so that the effect of the boot line is not visible";
                Some(Conclusion::unknown(path, why, "look at the kernel's log: dmesg"))
            }
            Some(Reading::Absent) => None,
            None => Some(not_captured(path)),
        }
    }

    /// Whether the boot line asks that a tick stop.
    pub(crate) fn asks_for_no_tick(&self) -> bool {
        let flags = self
            .boot_value("isolcpus")
            .and_then(|value| list::read(ValueKind::FlagsAndCpus, value, self.last_possible()).ok());
        self.boot_value("nohz_full").is_some()
            || flags.is_some_and(|listed| listed.flags.iter().any(|flag| flag == "nohz"))
    }

    /// The CPUs that may stop their tick; else why that is not known.
    pub(crate) fn nohz_full(&self) -> Result<&'a CpuSet, Conclusion> {
        match &self.nohz_unknown {
            Some(found) => Err(found.clone()),
            None => Ok(&self.machine.isolation.nohz_full),
        }
    }

    /// Whether it is known which CPUs are isolated.
    pub(crate) fn isolation_is_known(&self) -> bool {
        self.isolation_unknown.is_none()
    }

    /// A file's text; else the reason why that is not known, or that this machine has no such thing.
    pub(crate) fn text(&self, path: &str) -> Result<&'a str, Conclusion> {
        self.text_or(path, || Conclusion::not_applicable(format!("this kernel has no {path}")))
    }

    /// As [`CheckFacts::text`], with what an absent file means.
    pub(crate) fn text_or(
        &self,
        path: &str,
        absent: impl FnOnce() -> Conclusion,
    ) -> Result<&'a str, Conclusion> {
        match self.inventory.files.get(path) {
            Some(Reading::Text(text)) => Ok(text),
            Some(Reading::Absent) => Err(self.too_old_for(path).unwrap_or_else(absent)),
            Some(Reading::Unreadable { unreadable }) => Err(Conclusion::unknown(path, unreadable, AS_ROOT)),
            None => Err(not_captured(path)),
        }
    }

    /// That this kernel does not show a file which newer ones do: what it would say may be the case all the
    /// same.
    pub(crate) fn too_old_for(&self, path: &str) -> Option<Conclusion> {
        let (major, minor) = machine::registry::options::file_since(path)?;
        if self.at_least(major, minor) != Some(false) {
            return None;
        }
        let why = format!("Linux {major}.{minor} is the first that shows it");
        Some(Conclusion::unknown(path, why, "boot a newer kernel, or measure: isolator measure wakeup"))
    }

    /// The text of a file that says one of `words`; else why it is not known.
    pub(crate) fn word(&self, path: &str, words: &[&str]) -> Result<&'a str, Conclusion> {
        let text = self.text(path)?;
        if words.contains(&text) {
            return Ok(text);
        }
        Err(Conclusion::unknown(path, format!("'{text}' is none of {}", words.join(", ")), "look at it"))
    }

    /// The number in a file; else why it is not known.
    pub(crate) fn number(&self, path: &str) -> Result<i64, Conclusion> {
        let text = self.text(path)?;
        text.parse().map_err(|_| Conclusion::unknown(path, format!("'{text}' is not a number"), "look at it"))
    }

    /// The text of a file, where there is one.
    pub(crate) fn hint(&self, path: &str) -> Option<&'a str> {
        self.inventory.text(path)
    }

    /// Whether CONFIG_`name` is set; `None` where the configuration could not be read.
    pub(crate) fn option(&self, name: &str) -> Option<bool> {
        self.machine.kernel.option(name)
    }

    /// Where the kernel's configuration is, or would be.
    pub(crate) fn config_source(&self) -> String {
        let release = self.machine.kernel.release.as_deref().unwrap_or("RELEASE");
        let known = self.machine.kernel.config_source.clone();
        known.unwrap_or_else(|| format!("/proc/config.gz, /boot/config-{release}"))
    }

    /// Evidence that an option is or is not set.
    pub(crate) fn option_read(&self, name: &str) -> Evidence {
        let value = self.machine.kernel.options.get(name).map_or("unknown", String::as_str);
        read_in(self.config_source(), format!("CONFIG_{name}={value}"))
    }

    /// The conclusion where the configuration would decide and could not be read.
    pub(crate) fn config_unknown(&self) -> Conclusion {
        let cure = "modprobe configs, or install the kernel's package with its /boot/config";
        Conclusion::unknown(self.config_source(), "no configuration could be read", cure)
    }

    /// The conclusion where an option would decide: the configuration could not be read, or this kernel need
    /// not know it.
    pub(crate) fn option_unknown(&self, name: &str) -> Conclusion {
        if self.machine.kernel.config_source.is_none() {
            return self.config_unknown();
        }
        let release = self.machine.kernel.release.as_deref().unwrap_or("of unknown release");
        let why = format!("it does not name CONFIG_{name}, which Linux {release} need not know");
        Conclusion::unknown(self.config_source(), why, "look at what the kernel does: boot-param-effective")
    }

    /// The boot line that runs.
    pub(crate) fn command_line(&self) -> &'a str {
        self.machine.kernel.command_line.as_deref().unwrap_or_default()
    }

    /// The boot line, or that it is unknown.
    pub(crate) fn known_command_line(&self) -> Result<&'a str, Conclusion> {
        self.machine.kernel.command_line.as_deref().ok_or_else(|| not_captured("/proc/cmdline"))
    }

    /// The value of a boot parameter; empty where it has none.
    pub(crate) fn boot_value(&self, name: &str) -> Option<&'a str> {
        line::value(self.command_line(), name)
    }

    /// The CPUs that a parameter of the boot line names, as far as they can be read.
    pub(crate) fn boot_cpus(&self, name: &str) -> Option<CpuSet> {
        let value = self.boot_value(name)?;
        let takes = machine::registry::boot_parameter(name).map_or(ValueKind::Cpus, |setting| setting.takes);
        list::read(takes, value, self.last_possible()).ok().map(|listed| listed.cpus)
    }

    /// The device for which a plan put this interrupt where it is delivered: the loop waits for it there.
    pub(crate) fn served(&self, irq: &Irq) -> Option<&'a str> {
        let of_device = |name: &str| {
            let own = self.machine.devices.iter().find(|device| device.name == name);
            own.is_some_and(|device| device.irqs.contains(&irq.number))
        };
        let there = |cpus: &CpuSet| irq.effective.as_ref().is_some_and(|now| now.without(cpus).is_empty());
        let found = self.inventory.served.iter().find(|(name, cpus)| of_device(name) && there(cpus));
        found.map(|(name, _)| name.as_str())
    }

    /// The highest CPU that there could be.
    pub(crate) fn last_possible(&self) -> u32 {
        self.machine
            .possible
            .iter()
            .last()
            .or_else(|| self.machine.cpus.last().map(|cpu| cpu.id))
            .unwrap_or(0)
    }

    /// Why a setting cannot act here, as far as is known.
    pub(crate) fn cannot_act(&self, setting: &Setting) -> Option<machine::registry::CannotAct> {
        let architecture = self.machine.architecture.as_deref();
        setting.cannot_act(&self.machine.kernel, architecture, |name| self.option(name))
    }

    pub(crate) fn real_time(&self) -> bool {
        self.machine.kernel.preemption == Preemption::RealTime
    }

    pub(crate) fn at_least(&self, major: u32, minor: u32) -> Option<bool> {
        self.machine.kernel.at_least(major, minor)
    }

    /// The isolated CPUs, if they may be looked at; else why there is nothing to look at.
    pub(crate) fn isolated(&self) -> Result<&CpuSet, Conclusion> {
        let unknown = self.isolation_unknown.as_ref().or(self
            .nohz_unknown
            .as_ref()
            .filter(|_| self.isolated.is_empty() || self.inventory.files.contains_key(NOHZ_FULL)));
        if let Some(found) = unknown {
            return Err(found.clone());
        }
        if self.isolated.is_empty() {
            return Err(Conclusion::not_applicable("no CPU is isolated"));
        }
        Ok(&self.isolated)
    }

    /// The judged CPUs: the isolated ones, else all that are online.
    pub(crate) fn measured(&self) -> &CpuSet {
        if self.isolated.is_empty() { &self.online } else { &self.isolated }
    }

    /// How long waking up may take, in µs: the limit of the use, else 100 µs, a tenth of a millisecond's
    /// period.
    pub(crate) fn limit_us(&self) -> u64 {
        self.purpose.map_or(100, |purpose| purpose.limit_ns / 1_000)
    }

    /// Kernel threads; else that none can be seen.
    pub(crate) fn kernel_threads(&self) -> Result<Vec<&'a Thread>, Conclusion> {
        let threads: Vec<&Thread> = self.inventory.threads.iter().filter(|thread| thread.kernel).collect();
        if threads.is_empty() {
            let cure = "run it on the host, outside of a container's process namespace";
            return Err(Conclusion::unknown("/proc/PID/stat", "no kernel thread can be seen", cure));
        }
        Ok(threads)
    }

    /// Threads of programs; else that none was captured.
    pub(crate) fn user_threads(&self) -> Result<Vec<&'a Thread>, Conclusion> {
        let threads: Vec<&Thread> = self.inventory.threads.iter().filter(|thread| !thread.kernel).collect();
        if threads.is_empty() { Err(not_captured("/proc/PID/stat")) } else { Ok(threads) }
    }

    /// Real-time threads of programs.
    pub(crate) fn real_time_threads(&self) -> Result<Vec<&'a Thread>, Conclusion> {
        Ok(self.user_threads()?.into_iter().filter(|thread| thread.is_real_time()).collect())
    }

    /// That some threads could not be seen, so that finding none says nothing.
    pub(crate) fn unseen_threads(&self) -> Result<(), Conclusion> {
        if let Some(why) = &self.inventory.threads_unread {
            return Err(Conclusion::unknown("/proc/PID", why, AS_ROOT));
        }
        let nowhere = self.inventory.threads.iter().find(|thread| thread.cpus.is_empty());
        match nowhere.filter(|_| self.inventory.whole) {
            Some(thread) => Err(Conclusion::unknown(
                format!("/proc/{}/task/{}/status", thread.process, thread.id),
                "it does not say which CPUs the thread may use",
                AS_ROOT,
            )),
            None => Ok(()),
        }
    }

    /// The sample; else that nothing was sampled.
    pub(crate) fn sampled(&self, source: &str) -> Result<&'a MachineSample, Conclusion> {
        let sample = self.inventory.sample.as_ref();
        sample.ok_or_else(|| Conclusion::unknown(source, "nothing was sampled", BY_SAMPLE))
    }

    /// That nothing is known of one of these CPUs, so that finding nothing says nothing.
    pub(crate) fn unsampled(&self, source: &str, cpus: &CpuSet) -> Result<(), Conclusion> {
        let sample = self.sampled(source)?;
        if let Some(line) = sample.unread.iter().find(|line| line.starts_with(source)) {
            return Err(Conclusion::unknown(source, line.trim_start_matches(source).trim(), BY_SAMPLE));
        }
        let seen: CpuSet = sample.cpus.iter().map(|cpu| cpu.cpu).collect();
        let missing = cpus.and(&self.online).without(&seen);
        if !missing.is_empty() {
            return Err(Conclusion::unknown(source, format!("cpus {missing} were not sampled"), BY_SAMPLE));
        }
        Ok(())
    }

    /// That the host around a container cannot be seen, so that nothing found says nothing.
    pub(crate) fn unseen_host(&self, source: &str) -> Result<(), Conclusion> {
        match &self.machine.container {
            Some(kind) => Err(Conclusion::unknown(
                source,
                format!("a container ({kind}) does not see the host's"),
                ON_HOST,
            )),
            None => Ok(()),
        }
    }

    /// The kernel's log, or why it is not known.
    pub(crate) fn log(&self) -> Result<&'a machine::inventory::KernelLog, Conclusion> {
        let log = &self.inventory.log;
        match (&log.source, &log.unread) {
            (Some(_), _) => Ok(log),
            (None, Some(why)) => {
                let (path, why) = why.split_once(": ").unwrap_or(("/dev/kmsg", why));
                Err(Conclusion::unknown(
                    path,
                    why,
                    format!("{AS_ROOT}, or sysctl -w kernel.dmesg_restrict=0"),
                ))
            }
            (None, None) => Err(not_captured("/dev/kmsg, /var/log/dmesg")),
        }
    }

    /// Whether this is a Jetson.
    pub(crate) fn jetson(&self) -> bool {
        let product = self.machine.product.as_deref().unwrap_or_default();
        self.hint("/etc/nv_tegra_release").is_some() || product.contains("Jetson")
    }
}

/// The conclusion where a captured tree lacks a file.
pub(crate) fn not_captured(path: &str) -> Conclusion {
    Conclusion::unknown(
        path,
        "not in what was captured",
        "look at the machine itself, or at a snapshot that isolator doctor --save wrote there",
    )
}

/// Several names in a line, at most `most`.
pub(crate) fn some<T: AsRef<str>>(names: &[T], most: usize) -> String {
    let shown = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
