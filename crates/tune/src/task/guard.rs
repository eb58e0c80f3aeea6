// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings that would starve the machine.
//!
//! A thread of a real-time policy that does not sleep takes its CPU from all others. One CPU is what its
//! owner has isolated for that; all CPUs is a machine that does not respond. The kernel's own threads keep
//! the machine going, and the highest priority is theirs.

use machine::CpuSet;
use rt::policy::Policy;

use super::{Task, TaskChange};
use crate::system::{self, System};
use crate::{Error, Result};

/// Refuses what would starve the machine, unless it is forced.
pub(super) fn check(system: &dyn System, tasks: &[Task], wanted: &TaskChange) -> Result<()> {
    let online = list(system, "/sys/devices/system/cpu/online").unwrap_or_default();
    if let Some(cpus) = &wanted.cpus {
        let what = format!("set CPUs {cpus}");
        if cpus.is_empty() {
            return Err(Error::new("set no CPUs", "a task needs one", format!("choose from {online}")));
        }
        let missing = cpus.without(&online);
        if !online.is_empty() && !missing.is_empty() {
            let why = format!("CPU {missing} is not online");
            return Err(Error::new(what, why, format!("choose from {online}")));
        }
    }
    if wanted.force {
        return Ok(());
    }
    match dangerous(system, tasks, wanted, &online) {
        Some((what, why, cure)) => Err(Error::new(what, why, format!("{cure}, or --force"))),
        None => Ok(()),
    }
}

fn dangerous(
    system: &dyn System,
    tasks: &[Task],
    wanted: &TaskChange,
    online: &CpuSet,
) -> Option<(String, String, &'static str)> {
    let name = |task: &Task| format!("set {} ({})", task.id, task.name);
    if let Some(task) = tasks.iter().find(|task| task.kernel && task.irq.is_none()) {
        let why = "it is a thread of the kernel, which others wait for".to_string();
        if wanted.policy.is_some() {
            return Some((name(task), why, "leave its policy alone"));
        }
    }
    let policy = wanted.policy.as_ref()?;
    let real_time = policy.priority().is_some() || matches!(policy, Policy::Deadline { .. });
    if let Some(task) = tasks.iter().find(|task| task.irq.is_some() && !real_time) {
        let why = "the thread of an interrupt would wait behind ordinary tasks".to_string();
        return Some((name(task), why, "keep it real-time"));
    }
    if !real_time {
        return None;
    }
    if policy.priority() == Some(99) {
        let why = "99 is the kernel's: threads that move tasks and watch CPUs have it".to_string();
        return Some((format!("set {policy}"), why, "choose 1 to 98"));
    }
    if let Some(task) = tasks.iter().find(|task| task.id == 1) {
        let why = "all others are its children, and a restart makes them real-time too".to_string();
        return Some((name(task), why, "choose the program that is to be real-time"));
    }
    // As many threads as CPUs, each of which may run on every CPU that is not isolated.
    let apart = list(system, "/sys/devices/system/cpu/isolated").unwrap_or_default();
    let apart = apart.or(&list(system, "/sys/fs/cgroup/cpuset.cpus.isolated").unwrap_or_default());
    let house = online.without(&apart);
    let everywhere = |task: &&Task| {
        let cpus = wanted.cpus.as_ref().or(task.cpus.as_ref());
        cpus.is_none_or(|cpus| house.without(cpus).is_empty())
    };
    let many = tasks.iter().filter(|task| task.irq.is_none()).filter(everywhere).count();
    if !house.is_empty() && many >= house.len() {
        let why = format!("{many} of its threads may take all of CPUs {house} from everything else");
        return Some((format!("set {policy}"), why, "give it isolated CPUs by --cpus"));
    }
    None
}

fn list(system: &dyn System, path: &str) -> Option<CpuSet> {
    system::word(system, path)?.parse().ok()
}
