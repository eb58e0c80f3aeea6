// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of a plan on the running machine: each action becomes steps, one per file, task or command,
//! with the value that was there before.
//!
//! An object that the kernel refuses to move (an interrupt that it manages itself, a thread that it binds) is
//! not an error: the step says so and the others go on. Only an isolated partition that is not valid ends the
//! whole change, since then nothing is isolated.

use machine::CpuSet;
use machine::inventory::BANNED;

use crate::Result;
use crate::action::{Action, ActionKind, Skipped};
use crate::places::BALANCE;
use crate::record::kept::Kept;
use crate::record::own::{OwnPart, with_lines};
use crate::record::{Compare, Step};
use crate::system::{self, System, chosen};
use crate::transaction::step::started_at;

/// The kernel says that a task's CPUs are not to be changed (`PF_NO_SETAFFINITY`).
const BOUND: u64 = 0x0400_0000;

/// The steps of `actions`, and the actions that cannot be done here.
pub fn steps(system: &mut dyn System, actions: &[Action]) -> Result<(Vec<Step>, Vec<Skipped>)> {
    let mut made = Made { system, steps: Vec::new(), skipped: Vec::new() };
    for action in actions {
        let cpus = || action.value.parse::<CpuSet>().unwrap_or_default();
        match action.kind {
            ActionKind::BootParameter => {}
            // Units last: see `units`.
            ActionKind::RealTimeSlice | ActionKind::ManagerAffinity | ActionKind::Service => {}
            kind if kind.writes_one_file() => made.one_file(action),
            ActionKind::Irqs => made.irqs(&cpus(), None),
            ActionKind::DeviceIrqs => made.irqs(&cpus(), Some(&action.target)),
            ActionKind::IrqBalance => made.irqbalance(action)?,
            ActionKind::KernelThreads => made.kernel_threads(&cpus()),
            ActionKind::Slice => made.slice(action),
            ActionKind::Partition => made.partition(&action.target, &cpus()),
            ActionKind::Limits => made.limits(action)?,
            other => made.skip(&format!("{other:?}"), "this program does not know how"),
        }
    }
    Ok((made.steps, made.skipped))
}

struct Made<'a> {
    system: &'a mut dyn System,
    steps: Vec<Step>,
    skipped: Vec<Skipped>,
}

impl Made<'_> {
    fn skip(&mut self, what: &str, reason: &str) {
        self.skipped.push(Skipped { what: what.into(), reason: reason.into() });
    }

    fn setting(&mut self, path: &str, write: &str, compare: Compare, name: Option<String>) {
        let old = match system::text(self.system, path) {
            Ok(old) => old.trim().to_string(),
            Err(error) => return self.skip(path, &error::reason(&error)),
        };
        let undo = if compare == Compare::Choice { chosen(&old).to_string() } else { old.clone() };
        self.steps.push(Step::Setting {
            path: path.into(),
            old,
            write: write.into(),
            undo,
            compare,
            needed: false,
            name,
        });
    }

    fn one_file(&mut self, action: &Action) {
        let now = system::word(self.system, &action.target).unwrap_or_default();
        let compare = match action.kind {
            ActionKind::IrqDefault | ActionKind::Workqueues => Compare::Mask,
            _ if action.target.ends_with("watchdog_cpumask") => Compare::Cpus,
            _ if now.contains('[') => Compare::Choice,
            _ => Compare::Text,
        };
        self.setting(&action.target, &action.value, compare, None);
    }

    /// Every interrupt that may come to another CPU than `cpus`; or those of a device, to `cpus`.
    fn irqs(&mut self, cpus: &CpuSet, device: Option<&str>) {
        let names = self.system.names("/proc/irq").unwrap_or_default();
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let own = device.map(|device| self.device_irqs(device));
        for number in numbers {
            let folder = format!("/proc/irq/{number}");
            let path = format!("{folder}/smp_affinity_list");
            let actions: Vec<String> = self.system.names(&folder).unwrap_or_default();
            let is_action =
                |name: &&String| self.system.stat(&format!("{folder}/{name}")).is_ok_and(|stat| stat.folder);
            let actions: Vec<String> = actions.iter().filter(is_action).cloned().collect();
            let Some(now) = system::word(self.system, &path).and_then(|text| text.parse::<CpuSet>().ok())
            else {
                continue;
            };
            let wanted = match (&own, device) {
                (Some(own), Some(device)) => {
                    let named =
                        actions.iter().any(|name| name == device || name.starts_with(&format!("{device}-")));
                    if !own.contains(&number) && !named {
                        continue;
                    }
                    cpus.clone()
                }
                _ if now.without(cpus).is_empty() => continue,
                _ if now.and(cpus).is_empty() => cpus.clone(),
                _ => now.and(cpus),
            };
            let name = (!actions.is_empty()).then(|| actions.join(", "));
            self.setting(&path, &wanted.to_string(), Compare::Cpus, name);
        }
    }

    /// The interrupts of a device that has messages for them.
    fn device_irqs(&self, device: &str) -> Vec<u32> {
        let folders = ["/sys/class/net", "/sys/class/sound", "/sys/bus/pci/devices"];
        let folders = folders.iter().flat_map(|folder| {
            [format!("{folder}/{device}/device/msi_irqs"), format!("{folder}/{device}/msi_irqs")]
        });
        let names = folders.flat_map(|folder| self.system.names(&folder).unwrap_or_default());
        names.filter_map(|name| name.parse().ok()).collect()
    }

    fn irqbalance(&mut self, action: &Action) -> Result<()> {
        if self.system.stat(system::folder(BALANCE)).is_err() {
            self.skip(
                &action.target,
                &format!("no systemd runs here; set {BANNED} where irqbalance is started"),
            );
            return Ok(());
        }
        let path = format!("{BALANCE}/isolator.conf");
        let systemctl = |rest: &[&str]| -> Vec<String> {
            ["systemctl"].iter().chain(rest).map(|word| word.to_string()).collect()
        };
        let command =
            |run: Vec<String>, undo: Vec<String>| Step::Command { run, undo, volatile: true, needed: false };
        let (reload, restart) = (systemctl(&["daemon-reload"]), systemctl(&["try-restart", &action.target]));
        // Undone in reverse order: the file goes, then the service reads that it is gone.
        self.steps.push(command(Vec::new(), restart.clone()));
        self.steps.push(command(Vec::new(), reload.clone()));
        if self.system.stat(BALANCE).is_err() {
            self.steps.push(Step::Folder { path: BALANCE.into() });
        }
        let text = format!("[Service]\nEnvironment={BANNED}={}\n", action.value);
        let old = Kept::of(self.system, &path)?;
        self.steps.push(Step::File {
            new: Some(Kept::new(&text, old.as_ref())),
            path,
            old,
            own: OwnPart::Lines,
        });
        self.steps.push(command(reload, Vec::new()));
        self.steps.push(command(restart, Vec::new()));
        Ok(())
    }

    fn kernel_threads(&mut self, cpus: &CpuSet) {
        for task in tasks(self.system) {
            // 2 is the parent of all kernel threads, and one itself. An interrupt's thread goes where its
            // interrupt goes.
            let kernels = task.parent == 2 || task.id == 2;
            if !kernels || task.flags & BOUND != 0 || task.name.starts_with("irq/") {
                continue;
            }
            let Ok(old) = self.system.affinity(task.id) else { continue };
            if old.without(cpus).is_empty() {
                continue;
            }
            let shared = old.and(cpus);
            let new = if shared.is_empty() { cpus.clone() } else { shared };
            let TaskStat { id, started, name, .. } = task;
            self.steps.push(Step::Affinity { task: id, started, name, old, new });
        }
    }

    fn slice(&mut self, action: &Action) {
        let unit = action.target.as_str();
        let show = ["systemctl", "show", "--property=AllowedCPUs", "--value", "--", unit].map(String::from);
        let old = match self.system.run(&show) {
            Ok(ran) if ran.good => String::from_utf8_lossy(&ran.output).trim().replace(' ', ","),
            _ => return self.skip(unit, "systemctl does not answer"),
        };
        let set = |cpus: &str| {
            ["systemctl", "set-property", "--runtime", "--", unit, &format!("AllowedCPUs={cpus}")]
                .map(String::from)
                .to_vec()
        };
        let (run, undo) = (set(&action.value), set(&old));
        self.steps.push(Step::Command { run, undo, volatile: true, needed: false });
    }

    fn partition(&mut self, folder: &str, cpus: &CpuSet) {
        // Making and ending a partition lets the kernel widen the CPUs of interrupts' threads; undone after
        // it, in reverse order, they get theirs back.
        for task in
            tasks(self.system).into_iter().filter(|task| task.parent == 2 && task.name.starts_with("irq/"))
        {
            let Ok(cpus) = self.system.affinity(task.id) else { continue };
            let TaskStat { id, started, name, .. } = task;
            self.steps.push(Step::Affinity { task: id, started, name, old: cpus.clone(), new: cpus });
        }
        let root = system::folder(folder).to_string();
        let control = format!("{root}/cgroup.subtree_control");
        let setting = |path: String, old: &str, write: &str, compare, needed| Step::Setting {
            path,
            old: old.into(),
            write: write.into(),
            // An empty write would be none.
            undo: if old.is_empty() { "\n".into() } else { old.into() },
            compare,
            needed,
            name: None,
        };
        let controllers = system::word(self.system, &control).unwrap_or_default();
        if !controllers.split_whitespace().any(|name| name == "cpuset") {
            self.steps.push(setting(control, "-cpuset", "+cpuset", Compare::Member, true));
        }
        self.steps.push(Step::Folder { path: folder.into() });
        let list = cpus.to_string();
        self.steps.push(setting(format!("{folder}/cpuset.cpus"), "", &list, Compare::Cpus, true));
        let partition = format!("{folder}/cpuset.cpus.partition");
        self.steps.push(setting(partition, "member", "isolated", Compare::Text, true));
    }

    fn limits(&mut self, action: &Action) -> Result<()> {
        let old = Kept::of(self.system, &action.target)?;
        let before = old.as_ref().map_or("", |old| old.text.as_str());
        let new = Some(Kept::new(&with_lines(before, &action.value), old.as_ref()));
        let folder = system::folder(&action.target).to_string();
        if self.system.stat(&folder).is_err() {
            self.skip(&action.target, "no PAM here reads such files");
            return Ok(());
        }
        self.steps.push(Step::File { path: action.target.clone(), old, new, own: OwnPart::Lines });
        Ok(())
    }
}

/// A task, as `/proc/N/stat` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStat {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its parent's number.
    pub parent: u32,
    /// The kernel's flags for it.
    pub flags: u64,
    /// When it started, in ticks since boot.
    pub started: u64,
}

/// Every process, kernel threads among them; those that end meanwhile are left out.
pub fn tasks(system: &dyn System) -> Vec<TaskStat> {
    let names = system.names("/proc").unwrap_or_default();
    let mut ids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    ids.into_iter().filter_map(|id| task(system, id)).collect()
}

/// The process of a number.
pub fn task(system: &dyn System, id: u32) -> Option<TaskStat> {
    let stat = system::text(system, &format!("/proc/{id}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    Some(TaskStat {
        id,
        name: head.split_once('(')?.1.to_string(),
        parent: fields.get(1)?.parse().ok()?,
        flags: fields.get(6)?.parse().ok()?,
        started: started_at(system, id)?,
    })
}

#[cfg(test)]
mod tests;
