// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan as a profile of TuneD, for machines on which TuneD owns the settings.
//!
//! | Plan | Profile |
//! |---|---|
//! | boot parameters | `[bootloader]` |
//! | files below `/proc/sys` | `[sysctl]` |
//! | files below `/sys` | `[sysfs]`, one line a file: the plugin `cpu` would also change latencies of its own accord |
//! | interrupts and kernel threads | `[scheduler]` with `isolated_cores`, without its watch of new tasks |
//! | irqbalance | `[irqbalance]` |
//! | CPUs of systemd | `[systemd]` |
//! | services | `[service]` with a drop-in in the profile's folder |
//! | interrupts of a device | `[script]`: their numbers change from boot to boot |
//!
//! The rest is listed as left out, in the profile too. Reference: TuneD 2.20 to 2.27, tuned/plugins.

use std::fmt::Write;

use machine::CpuSet;

use crate::action::{Action, ActionKind, Skipped};
use crate::plan::Plan;
use crate::units;

/// How each of the files begins, so that a later export may replace it.
pub const HEAD: &str = "# Made by `isolator tune export`";
/// The file that TuneD looks for in a profile's folder.
pub const MAIN_FILE: &str = "tuned.conf";
/// The script that does the rest.
const SCRIPT: &str = "script.sh";

/// The files of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunedProfile {
    /// Each of them.
    pub files: Vec<ProfileFile>,
    /// The actions that TuneD has no way to do.
    pub left_out: Vec<Skipped>,
}

/// A file in the profile's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileFile {
    /// Its name.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Whether it is a program.
    pub is_program: bool,
}

/// Whether TuneD takes this name for a profile.
pub fn is_name(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    !name.starts_with(['.', '-']) && !name.is_empty() && name.chars().all(letter)
}

/// The profile that does what `plan` says, as far as TuneD can.
pub fn profile(plan: &Plan) -> TunedProfile {
    let mut made = Made { plan, sections: Vec::new(), files: Vec::new(), left_out: Vec::new() };
    let boot = plan.boot_line();
    if !boot.is_empty() {
        made.comment(
            "bootloader",
            "GRUB 2, entries of the Boot Loader Specification, and ostree; without a trial boot.",
        );
        for action in plan.actions.iter().filter(|action| action.kind == ActionKind::BootParameter) {
            made.comment("bootloader", &format!("{}: {}", action.target, action.reason));
        }
        made.line("bootloader", &format!("cmdline_isolator=+{boot}"));
    }
    for action in &plan.actions {
        made.action(action);
    }
    let main = ProfileFile { path: MAIN_FILE.into(), text: made.text(), is_program: false };
    let files = std::iter::once(main).chain(made.files).collect();
    TunedProfile { files, left_out: made.left_out }
}

/// A profile as it is gathered.
struct Made<'a> {
    plan: &'a Plan,
    sections: Vec<(&'static str, String)>,
    files: Vec<ProfileFile>,
    left_out: Vec<Skipped>,
}

impl Made<'_> {
    fn line(&mut self, section: &'static str, line: &str) {
        let at = self.sections.iter().position(|(name, _)| *name == section).unwrap_or_else(|| {
            self.sections.push((section, String::new()));
            self.sections.len() - 1
        });
        let _ = writeln!(self.sections[at].1, "{line}");
    }

    fn comment(&mut self, section: &'static str, text: &str) {
        self.line(section, &format!("# {}", untrusted::text::line(text)));
    }

    /// A setting, with its reason before it, unless that of the setting before is the same.
    fn set(&mut self, section: &'static str, action: &Action, lines: &[String]) {
        let written = self.sections.iter().find(|(name, _)| *name == section).map(|(_, text)| text.as_str());
        let latest = written.and_then(|text| text.lines().rfind(|line| line.starts_with('#')));
        if latest != Some(format!("# {}", untrusted::text::line(&action.reason)).as_str()) {
            self.comment(section, &action.reason);
        }
        for line in lines {
            self.line(section, line);
        }
    }

    fn leave(&mut self, action: &Action, reason: &str) {
        self.left_out.push(Skipped { what: action.target.clone(), reason: reason.into() });
    }

    fn action(&mut self, action: &Action) {
        let (target, value) = (action.target.as_str(), action.value.as_str());
        match action.kind {
            ActionKind::BootParameter => {}
            ActionKind::Sysctl => {
                let name = target.trim_start_matches("/proc/sys/").replace('/', ".");
                self.set("sysctl", action, &[format!("{name}={value}")]);
            }
            ActionKind::IrqDefault => {
                let cpus = CpuSet::from_mask(value).unwrap_or_default();
                self.set("scheduler", action, &[format!("default_irq_smp_affinity={cpus}")]);
            }
            kind if kind.writes_one_file() => self.set("sysfs", action, &[format!("{target}={value}")]),
            ActionKind::Irqs => {
                let isolated = format!("isolated_cores={}", self.plan.isolated);
                self.set("scheduler", action, &[isolated]);
            }
            // Tasks of programs are in groups of their own, and keep the CPUs that they have.
            ActionKind::KernelThreads => self.set(
                "scheduler",
                action,
                &["runtime=0", "cgroup_ps_blacklist=:/[^,]", "ps_blacklist=^irq/"].map(String::from),
            ),
            ActionKind::IrqBalance => {
                self.set("irqbalance", action, &[format!("banned_cpus={value}")]);
                let note = format!(
                    "TuneD writes /etc/sysconfig/irqbalance. Debian's irqbalance reads /etc/default/irqbalance instead: put \
                     IRQBALANCE_BANNED_CPULIST={value} there."
                );
                self.comment("irqbalance", &note);
            }
            ActionKind::ManagerAffinity => self.set("systemd", action, &[format!("cpu_affinity={value}")]),
            ActionKind::Service => self.service(action),
            ActionKind::DeviceIrqs => self.device(action),
            ActionKind::Slice | ActionKind::Partition => self.leave(
                action,
                "TuneD has no cpusets of cgroup version 2; plan without --no-reboot: isolcpus= does it",
            ),
            ActionKind::RealTimeSlice => {
                self.leave(action, "TuneD writes no slice; its services get the CPUs by CPUAffinity=");
            }
            ActionKind::Limits => {
                self.leave(action, "TuneD gives users no rights; isolator setup-user does");
            }
            other => self.leave(action, &format!("this program knows no option for {other:?}")),
        }
    }

    fn service(&mut self, action: &Action) {
        let Some(settings) = units::service_settings(&action.value) else {
            return self.leave(action, "its value is not a policy, a priority and CPUs");
        };
        let path = format!("{}.conf", action.target);
        let name = action.target.trim_end_matches(".service");
        self.set("service", action, &[format!("service.{name}=file:${{i:PROFILE_DIR}}/{path}")]);
        let text = format!("{HEAD}; TuneD copies it where systemd reads it.\n[Service]\n{settings}");
        self.files.push(ProfileFile { path, text, is_program: false });
    }

    /// There is one device at most.
    fn device(&mut self, action: &Action) {
        // After the scheduler, which moves all interrupts.
        let lines = ["priority=5".to_string(), format!("script=${{i:PROFILE_DIR}}/{SCRIPT}")];
        self.set("script", action, &lines);
        let assigned = format!("device='{}' cpus='{}'", action.target, action.value);
        let text = include_str!("tuned/script.sh").replace("device='' cpus=''", &assigned);
        self.files.push(ProfileFile { path: SCRIPT.into(), text, is_program: true });
    }

    fn text(&self) -> String {
        let Plan { made_for, intent, isolated, housekeeping, digest, .. } = self.plan;
        let known = |text: &Option<String>| match text {
            Some(text) => untrusted::text::line(text).into_owned(),
            None => "of a name that is not known".to_string(),
        };
        let mut text = format!(
            "{HEAD} from the plan {digest}\n# for the machine {} with the kernel {}.\n",
            known(&made_for.hostname),
            known(&made_for.kernel)
        );
        for left in &self.left_out {
            let line = format!("{}: {}", left.what, left.reason);
            let _ = writeln!(text, "# Left out: {}", untrusted::text::line(&line));
        }
        let cpus = match isolated.is_empty() {
            true => "no CPU isolated".to_string(),
            false => format!("CPUs {isolated} isolated, {housekeeping} for the rest"),
        };
        let _ = writeln!(text, "\n[main]\nsummary=Isolator's profile {}, {cpus}", intent.profile);
        for (name, lines) in &self.sections {
            let _ = write!(text, "\n[{name}]\n{lines}");
        }
        text
    }
}

#[cfg(test)]
mod tests;
