// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks, one line each.

use std::fmt::Write as _;

use tune::task::{Set, Task};

use crate::text::clean;

/// The table of tasks.
pub fn tasks(tasks: &[Task]) -> String {
    let mut text = format!(
        "{:>8} {:>8}  {:<12} {:<16} {:>4}  {}\n",
        "task", "process", "policy", "CPUs", "last", "name"
    );
    for task in tasks {
        let name = clean(&task.name);
        let name = if task.kernel { format!("[{name}]") } else { name };
        let _ = writeln!(
            text,
            "{:>8} {:>8}  {:<12} {:<16} {:>4}  {name}",
            task.id,
            task.process,
            policy(task),
            cpus(task),
            task.last_cpu
        );
    }
    text
}

/// The changed settings.
pub fn tasks_set(set: &Set) -> String {
    let mut text = String::new();
    for changed in &set.tasks {
        let (before, after) = (&changed.before, &changed.after);
        let _ = writeln!(
            text,
            "{} ({}): {} on CPUs {} -> {} on CPUs {}",
            after.id,
            clean(&after.name),
            policy(before),
            cpus(before),
            policy(after),
            cpus(after)
        );
    }
    text
}

fn policy(task: &Task) -> String {
    match (task.policy.as_str(), task.priority, task.nice) {
        (name @ ("fifo" | "rr"), priority, _) => format!("{name} {priority}"),
        (name @ ("other" | "batch"), _, nice) if nice != 0 => format!("{name} ({nice:+})"),
        (name, ..) => name.to_string(),
    }
}

fn cpus(task: &Task) -> String {
    task.cpus.as_ref().map_or("?".into(), ToString::to_string)
}
