// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks: their policy, priority and CPUs, read and set, as chrt and taskset do, for threads, children and
//! the threads of interrupts too.
//!
//! A setting that would starve the machine is refused: see [`guard`]. Where one of several tasks refuses,
//! those before it get back what they had.

use std::collections::BTreeSet;

use machine::CpuSet;
use rt::policy::Policy;
use schemars::JsonSchema;
use serde::Serialize;

pub mod guard;

use crate::system::{self, System};
use crate::{Error, Result};

/// Version of the documents.
pub const SCHEMA_VERSION: u32 = 1;

/// A thread of a process, or of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Task {
    /// Its number.
    pub id: u32,
    /// The thread's process; its own number for the first thread.
    pub process: u32,
    /// The parent of that process.
    pub parent: u32,
    /// Its name.
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// The interrupt that it serves.
    pub irq: Option<u32>,
    /// `other`, `fifo`, `rr`, `batch`, `idle`, `deadline` or `ext`.
    pub policy: String,
    /// Its real-time priority; 0 for ordinary policies.
    pub priority: u32,
    /// Its nice value.
    pub nice: i32,
    /// The CPUs that it may use; absent if the kernel does not report them.
    pub cpus: Option<CpuSet>,
    /// The CPU on which it last ran.
    pub last_cpu: u32,
}

/// The output of `task list` and `task show`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Listed")]
pub struct TaskList {
    /// Version of this document.
    pub schema_version: u32,
    /// The tasks.
    pub tasks: Vec<Task>,
}

/// The result of `task set`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Set {
    /// Version of this document.
    pub schema_version: u32,
    /// Each task that was set.
    pub tasks: Vec<Changed>,
}

/// One task before and after.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Changed {
    /// Before.
    pub before: Task,
    /// After.
    pub after: Task,
}

/// Which tasks are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The task of a number.
    Id(u32),
    /// The threads of an interrupt.
    Irq(u32),
    /// Every task of a name.
    Name(String),
}

impl std::str::FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(number) = text.strip_prefix("irq:") {
            return number
                .parse()
                .map(Which::Irq)
                .map_err(|_| "an interrupt is a number; write irq:24".into());
        }
        match text.parse() {
            Ok(0) => Err("0 is no task; give the number of one".into()),
            Ok(id) => Ok(Which::Id(id)),
            Err(_) if text.is_empty() => Err("it is empty; give a number or a name".into()),
            Err(_) => Ok(Which::Name(text.to_string())),
        }
    }
}

/// The settings to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct TaskChange {
    /// The policy with its priority.
    pub policy: Option<Policy>,
    /// The CPUs.
    pub cpus: Option<CpuSet>,
    /// Whether what would starve the machine is done too.
    pub force: bool,
}

/// Every process with its first thread; with `threads` all of them.
pub fn all(system: &dyn System, threads: bool) -> Vec<Task> {
    let mut found = Vec::new();
    for process in numbers(system, "/proc") {
        if threads {
            let ids = numbers(system, &format!("/proc/{process}/task"));
            found.extend(ids.into_iter().filter_map(|id| read(system, process, id)));
        } else {
            found.extend(read(system, process, process));
        }
    }
    found
}

/// The tasks that are meant, with all threads of their processes and with their children where that is asked
/// for.
pub fn find(system: &dyn System, which: &Which, threads: bool, children: bool) -> Result<Vec<Task>> {
    let every = all(system, true);
    let meant = |task: &&Task| match which {
        Which::Id(id) => task.id == *id,
        Which::Irq(irq) => task.irq == Some(*irq),
        Which::Name(name) => task.name == *name && (threads || task.id == task.process || task.kernel),
    };
    let mut ids: BTreeSet<u32> = every.iter().filter(meant).map(|task| task.id).collect();
    if ids.is_empty() {
        let (why, cure) = match which {
            Which::Id(id) => (format!("there is no task {id}"), "`isolator task list` says which there are"),
            Which::Irq(irq) => (
                format!("interrupt {irq} has no thread"),
                "only a PREEMPT_RT kernel, or one booted with threadirqs, gives every interrupt one",
            ),
            Which::Name(name) => {
                (format!("no task is called '{name}'"), "`isolator task list` says which there are")
            }
        };
        return Err(Error::new("find the task", why, cure));
    }
    let process_of = |id: u32| every.iter().find(|task| task.id == id).map(|task| task.process);
    let mut processes: BTreeSet<u32> = ids.iter().filter_map(|id| process_of(*id)).collect();
    if children {
        // Each round finds the children of those found before.
        loop {
            let more = every.iter().filter(|task| processes.contains(&task.parent)).map(|task| task.process);
            let more: BTreeSet<u32> = more.filter(|id| !processes.contains(id)).collect();
            if more.is_empty() {
                break;
            }
            ids.extend(every.iter().filter(|task| more.contains(&task.id)).map(|task| task.id));
            processes.extend(more);
        }
    }
    if threads {
        ids.extend(every.iter().filter(|task| processes.contains(&task.process)).map(|task| task.id));
    }
    Ok(every.into_iter().filter(|task| ids.contains(&task.id)).collect())
}

/// Sets what is wanted for all of `tasks`, or for none.
pub fn set(system: &mut dyn System, tasks: Vec<Task>, wanted: &TaskChange) -> Result<Set> {
    guard::check(system, &tasks, wanted)?;
    let mut changed: Vec<Changed> = Vec::new();
    for before in tasks {
        let done = set_one(system, &before, wanted);
        let after = read(system, before.process, before.id);
        match (done, after) {
            (Ok(()), Some(after)) => changed.push(Changed { before, after }),
            // It ended meanwhile: nothing of it is left to be set.
            (_, None) => {}
            (Err(error), Some(_)) => {
                let _ = give_back(system, &before);
                for changed in changed.iter().rev() {
                    let _ = give_back(system, &changed.before);
                }
                return Err(error);
            }
        }
    }
    Ok(Set { schema_version: SCHEMA_VERSION, tasks: changed })
}

fn set_one(system: &mut dyn System, task: &Task, wanted: &TaskChange) -> Result<()> {
    let what = format!("set {} ({})", task.id, task.name);
    // CPUs first: a deadline policy takes no narrower set afterwards, and a real-time one must not run
    // elsewhere.
    if let Some(cpus) = &wanted.cpus {
        if let Some(irq) = task.irq {
            // The thread of an interrupt follows the interrupt.
            let path = format!("/proc/irq/{irq}/smp_affinity_list");
            system.set(&path, &cpus.to_string()).map_err(|error| {
                let cure =
                    "the kernel manages this interrupt, or the hardware cannot move it; leave it where it is";
                Error::new(&what, format!("{path}: {}", error::reason(&error)), cure)
            })?;
        } else {
            system.set_affinity(task.id, cpus).map_err(|error| {
                let cure = match error.raw_os_error() {
                    Some(1) => "run it as root",
                    _ if task.kernel => "the kernel binds this thread to its CPU; leave it there",
                    _ => "give CPUs that are online and in its cgroup's cpuset",
                };
                Error::new(&what, error::reason(&error), cure)
            })?;
        }
    }
    if let Some(policy) = &wanted.policy {
        policy.apply_to(task.id, false).map_err(|error| Error::new(&what, error.why, error.cure))?;
    }
    Ok(())
}

fn give_back(system: &mut dyn System, before: &Task) -> Result<()> {
    let policy = Policy::named(&before.policy, before.priority, (0, 0, 0)).ok();
    // What a deadline was cannot be read from /proc; such a task keeps its policy.
    let policy = policy.filter(|policy| !matches!(policy, Policy::Deadline { .. }));
    let wanted = TaskChange { policy, cpus: before.cpus.clone(), force: true };
    set_one(system, before, &wanted)
}

fn numbers(system: &dyn System, folder: &str) -> Vec<u32> {
    let names = system.names(folder).unwrap_or_default();
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Reads one thread; none where it has ended, or says nothing that makes sense.
fn read(system: &dyn System, process: u32, id: u32) -> Option<Task> {
    let folder = format!("/proc/{process}/task/{id}");
    let stat = system::lossy(system, &format!("{folder}/stat"))?;
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    // Numbers are those of proc(5); what follows the name begins with the third.
    let field = |number: usize| fields.get(number - 3).copied();
    let name = head.split_once('(')?.1.to_string();
    let parent: u32 = field(4)?.parse().ok()?;
    let status = system::lossy(system, &format!("{folder}/status")).unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let irq = name.strip_prefix("irq/").and_then(|rest| rest.split('-').next()?.parse().ok());
    // `PF_KTHREAD`: in a container's process namespace 2 is any program.
    let kernel = field(9)?.parse::<u32>().ok()? & 0x0020_0000 != 0;
    Some(Task {
        id,
        process,
        parent,
        irq: irq.filter(|_| kernel),
        kernel,
        name,
        policy: policy_name(field(41)?.parse().ok()?).to_string(),
        priority: field(40)?.parse().ok()?,
        nice: field(19)?.parse().ok()?,
        cpus: allowed.and_then(|list| list.trim().parse().ok()),
        last_cpu: field(39)?.parse().ok()?,
    })
}

/// The names of the kernel's policies (include/uapi/linux/sched.h).
fn policy_name(number: u32) -> &'static str {
    match number {
        0 => "other",
        1 => "fifo",
        2 => "rr",
        3 => "batch",
        5 => "idle",
        6 => "deadline",
        7 => "ext",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
