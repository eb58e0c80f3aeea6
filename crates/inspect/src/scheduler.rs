// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limits of a real-time thread: throttling, the deadline server for ordinary tasks, RT group scheduling,
//! and the priorities of the interrupt threads.
//!
//! Since Linux 6.12, without RT group scheduling, `sched_rt_runtime_us` throttles nothing any more: a
//! deadline server (the fair server) runs starving ordinary tasks ahead of SCHED_FIFO instead. Its runtime
//! is in debugfs only.

use crate::config::KernelConfig;
use crate::tree::Tree;
use machine::Snapshot;
use machine::boot::line;

pub(crate) fn read(tree: &mut Tree, machine: &mut Snapshot, config: Option<&KernelConfig>) {
    let command_line = machine.kernel.command_line.as_deref().unwrap_or_default();
    let off_at_boot = matches!(line::value(command_line, "rt_group_sched"), Some("0" | "off" | "n" | "no"));
    let on_at_boot = matches!(line::value(command_line, "rt_group_sched"), Some("1" | "on" | "y" | "yes"));
    let limits = &mut machine.scheduler;
    limits.rt_runtime_us = tree.number("proc/sys/kernel/sched_rt_runtime_us");
    limits.rt_period_us = tree.number("proc/sys/kernel/sched_rt_period_us");
    limits.rt_group_scheduling = config.map(|config| {
        let by_default = !config.has("RT_GROUP_SCHED_DEFAULT_DISABLED");
        config.has("RT_GROUP_SCHED") && !off_at_boot && (on_at_boot || by_default)
    });
    limits.highest_irq_thread_priority = highest_irq_thread_priority(tree);

    let servers = "sys/kernel/debug/sched/fair_server";
    // Older kernels have no such folder, so that being kept from looking for it says nothing.
    if machine.kernel.at_least(6, 12) != Some(false) && !tree.names(servers).is_empty() {
        for cpu in &mut machine.cpus {
            cpu.fair_server_runtime_ns = tree.number(&format!("{servers}/cpu{}/runtime", cpu.id));
        }
    }
}

/// Kernel threads are processes of their own, so that `/proc/N/stat` shows every one that can be seen at all:
/// in a container's process namespace none can.
fn highest_irq_thread_priority(tree: &mut Tree) -> Option<u32> {
    let threads = tree.numbered("proc", "");
    threads.iter().filter_map(|id| irq_thread_priority(&tree.hint(&format!("proc/{id}/stat"))?)).max()
}

/// The real-time priority in a `stat` line, where it is one of an interrupt thread.
fn irq_thread_priority(stat: &str) -> Option<u32> {
    /// `PF_KTHREAD`: a program may call itself `irq/1-x` too.
    const KERNEL_THREAD: u32 = 0x0020_0000;
    let (head, tail) = stat.rsplit_once(')')?;
    if !head.split_once('(')?.1.starts_with("irq/") {
        return None;
    }
    // proc_pid_stat(5) counts from 1; the tail begins with field 3.
    let field = |number: usize| tail.split_whitespace().nth(number - 3)?.parse::<u32>().ok();
    if field(9)? & KERNEL_THREAD == 0 {
        return None;
    }
    field(40).filter(|priority| *priority > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;
    use machine::snapshot::{Cpu, Kernel};

    /// The `stat` line of a thread.
    fn stat(name: &str, flags: u32, priority: u32) -> String {
        let rest = ["0"; 30].join(" ");
        format!("77 ({name}) S 2 0 0 0 -1 {flags} {rest} {priority} 1 0 0 0 0")
    }

    #[test]
    fn finds_the_highest_priority_among_interrupt_threads() {
        let kernel_thread = 0x0020_8040;
        let cases = [
            ("11", stat("irq/24-eth0) (x", kernel_thread, 50)),
            ("12", stat("irq/9-acpi", kernel_thread, 90)),
            ("13", stat("irq/1-pretender", 0, 99)),
            ("14", stat("migration/0", kernel_thread, 99)),
            ("15", "77 (irq/".to_string()),
            ("16", String::new()),
            ("17", "77 (irq/3-x) S".to_string()),
        ];
        let files: Vec<_> = cases.iter().map(|(id, stat)| (format!("proc/{id}/stat"), stat)).collect();
        let files: Vec<_> = files.iter().map(|(path, stat)| (path.as_str(), stat.as_str())).collect();
        let (_folder, mut tree) = made_of(&files);
        assert_eq!(highest_irq_thread_priority(&mut tree), Some(90));
        assert_eq!(highest_irq_thread_priority(&mut made_of(&files[2..]).1), None);
    }

    #[test]
    fn reads_the_fair_server_of_each_cpu() {
        let (_folder, mut tree) = made_of(&[
            ("sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000\n"),
            ("sys/kernel/debug/sched/fair_server/cpu1/runtime", "0\n"),
        ]);
        let cpus = (0..3).map(|id| Cpu { id, ..Cpu::default() }).collect();
        let mut machine = Snapshot { cpus, ..Snapshot::default() };
        read(&mut tree, &mut machine, None);
        let seen: Vec<_> = machine.cpus.iter().map(|cpu| cpu.fair_server_runtime_ns).collect();
        assert_eq!(seen, [Some(50_000_000), Some(0), None]);
    }

    #[test]
    fn rt_group_scheduling_is_what_was_built_and_booted() {
        let on = "CONFIG_RT_GROUP_SCHED=y\n";
        let off_by_default = "CONFIG_RT_GROUP_SCHED=y\nCONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y\n";
        let cases = [
            (Some(on), "", Some(true)),
            (Some(on), "rt_group_sched=0", Some(false)),
            (Some(off_by_default), "", Some(false)),
            (Some(off_by_default), "rt_group_sched=1", Some(true)),
            (Some("# CONFIG_RT_GROUP_SCHED is not set\n"), "rt_group_sched=1", Some(false)),
            (None, "rt_group_sched=1", None),
        ];
        for (config, command_line, expected) in cases {
            let (_folder, mut tree) = made_of(&[]);
            let kernel = Kernel { command_line: Some(command_line.into()), ..Kernel::default() };
            let mut machine = Snapshot { kernel, ..Snapshot::default() };
            read(&mut tree, &mut machine, config.map(KernelConfig::of).as_ref());
            assert_eq!(machine.scheduler.rt_group_scheduling, expected, "{config:?} {command_line}");
        }
    }
}
