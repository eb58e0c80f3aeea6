// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans, their results, and tasks, as text.

use machine::Snapshot;
use machine::snapshot::Cpu;
use report::terminal::Style;
use report::terminal::tune::{plan as shown, tasks, verified};
use tune::plan::{Intent, MadeFor, Plan, Profile, WantedCpus, plan};
use tune::task::Task;
use tune::verify::verify;

const NARROW: Style = Style { color: false, width: 80 };

/// Four CPUs, of which none is isolated.
fn machine() -> Snapshot {
    let cpu = |id| Cpu { id, online: true, siblings: [id].into_iter().collect(), ..Cpu::default() };
    let mut machine = Snapshot { cpus: (0..4).map(cpu).collect(), ..Snapshot::default() };
    machine.possible = machine.online();
    machine.kernel.release = Some("6.12.1".to_string());
    machine.kernel.command_line = Some("root=/dev/sda1".to_string());
    machine.kernel.options.insert("CPU_ISOLATION".to_string(), "y".to_string());
    machine
}

fn planned() -> Plan {
    let intent = Intent::new(Profile::Periodic, WantedCpus::Default);
    plan(&machine(), &MadeFor::default(), &intent).unwrap()
}

#[test]
fn shows_reason_and_cost_of_each_action_within_the_width() {
    let text = shown(&planned(), NARROW);
    assert!(text.contains("  isolcpus=managed_irq,domain,3\n      why:  "), "{text}");
    assert!(text.contains("      cost: "), "{text}");
    // The boot line is copied as it is.
    let (before, _) = text.split_once("\nThe boot line\n").unwrap();
    assert!(before.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn names_the_actions_that_are_not_in_force() {
    let text = verified(&verify(&planned(), &machine(), &[]), NARROW);
    assert!(text.contains("NOT       isolcpus = managed_irq,domain,3\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.ends_with("unknown\n"), "{text}");
}

#[test]
fn shows_a_kernel_task_in_brackets() {
    let task = Task {
        id: 40,
        process: 40,
        parent: 2,
        name: "irq/24-eth1".to_string(),
        kernel: true,
        irq: Some(24),
        policy: "fifo".to_string(),
        priority: 50,
        nice: 0,
        cpus: Some("0-1".parse().unwrap()),
        last_cpu: 0,
    };
    let text = tasks(&[task]);
    assert!(
        text.contains("\n      40       40  fifo 50      0-1                 0  [irq/24-eth1]\n"),
        "{text}"
    );
}
