// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine for which the pages of the reference print advice, and a run on its CPU 3.

use std::collections::BTreeMap;

use evidence::Bundle;
use evidence::cause::{Cause, CauseKind, QUOTA, RESERVATION, RETURN, RT_LIMIT, STOPPED};
use evidence::manifest::{Asked, Manifest, RowKey, Spike};
use machine::advice::SettingId;
use machine::snapshot::{Cpu, IdleState, Kernel, Preemption};
use machine::{CpuSet, Snapshot};
use why::{Question, WhyDocument};

/// The measured CPU.
pub fn measured() -> CpuSet {
    CpuSet::from_iter([3])
}

/// All others.
pub fn housekeeping() -> CpuSet {
    CpuSet::from_iter(0..3)
}

/// Four CPUs, Linux 6.12 with PREEMPT_RT, systemd and irqbalance. It has every file that is advised.
pub fn machine() -> Snapshot {
    let on = ["PREEMPT_RT", "NO_HZ_FULL", "RCU_NOCB_CPU", "CPU_ISOLATION"];
    let cpu = |id| Cpu {
        id,
        online: true,
        core: Some(id),
        siblings: CpuSet::from_iter([id]),
        max_frequency_khz: Some(3_000_000),
        governor: Some("schedutil".into()),
        idle_states: vec![
            IdleState { name: "C1".into(), exit_latency_us: 1, disabled: false },
            IdleState { name: "C6".into(), exit_latency_us: 133, disabled: false },
        ],
        fair_server_runtime_ns: Some(50_000_000),
        ..Cpu::default()
    };
    let files = SettingId::ALL.iter().map(|setting| setting.file()).filter(|file| file.starts_with('/'));
    let mut settings: BTreeMap<String, String> = files.map(|file| (file, String::new())).collect();
    settings.insert("/sys/fs/cgroup/cgroup.controllers".into(), "cpuset cpu".into());
    Snapshot {
        kernel: Kernel {
            release: Some("6.12.0-rt".into()),
            preemption: Preemption::RealTime,
            options: on.map(|name| (name.to_string(), "y".to_string())).into(),
            ..Kernel::default()
        },
        cpus: (0..4).map(cpu).collect(),
        possible: CpuSet::from_iter(0..4),
        settings,
        services: ["systemd", "irqbalance"].map(String::from).into(),
        ..Snapshot::default()
    }
}

/// Names that the advice tells apart.
const NAMES: &[(CauseKind, &[&str])] = &[
    (CauseKind::Irq, &["45 nvme0q3"]),
    (CauseKind::IrqThread, &["irq/45-nvme0q3"]),
    (
        CauseKind::Ipi,
        &[
            "call function do_sync_core",
            "call function ipi_mb",
            "call function flush_tlb_func",
            "reschedule",
            "call function rcu_exp_handler",
        ],
    ),
    (CauseKind::Softirq, &["NET_RX", "TIMER", "RCU", "SCHED", "BLOCK"]),
    (CauseKind::Workqueue, &["vmstat_update", "lru_add_drain_per_cpu", "wb_workfn"]),
    (CauseKind::Kthread, &["kworker/3:1", "ksoftirqd/3", "rcuc/3", "migration/3"]),
    (CauseKind::Thread, &["cc"]),
    (CauseKind::Syscall, &["write", RETURN]),
    (CauseKind::IdleExit, &["C6"]),
    (CauseKind::Timer, &["it_real_fn"]),
    (CauseKind::Throttled, &[QUOTA, RT_LIMIT, RESERVATION]),
    (CauseKind::Stopped, &[STOPPED]),
    (CauseKind::Interrupt, &["virtio0-req"]),
    (CauseKind::Lock, &["servo!buffer_lock"]),
    (CauseKind::Wait, &["read (descriptor 5)"]),
];

/// The advice of `isolator why` on each cause there, in the order of [`NAMES`].
pub fn advice_on_causes() -> Vec<(CauseKind, String, String)> {
    let named: BTreeMap<CauseKind, &[&str]> = NAMES.iter().copied().collect();
    let all = CauseKind::ALL.iter().copied();
    let all = all.flat_map(|kind| {
        let names = named.get(&kind).copied().unwrap_or(&[""]);
        names.iter().map(move |name| (kind, name.to_string()))
    });
    all.filter_map(|(kind, name)| {
        let why = WhyDocument::of(&bundle(kind, &name), &Question::default());
        let advice = why.by_cause.into_iter().find_map(|cause| cause.advice)?;
        Some((kind, name, advice))
    })
    .collect()
}

/// A bundle with a spike that one cause made.
fn bundle(kind: CauseKind, name: &str) -> Bundle {
    let key = RowKey::new("wakeup", "idle", 3, Some(1_000_000));
    let spike = Spike {
        unexplained_ns: Some(0),
        causes: vec![Cause::timed(kind, name, 0, 100_000)],
        ..Spike::new(key, 100_000)
    };
    let asked = Asked {
        probes: vec!["wakeup".into()],
        cpus: measured(),
        house_keeping: housekeeping(),
        periods_ns: vec![1_000_000],
        ..Asked::default()
    };
    let manifest = Manifest { machine: machine(), ..Manifest::new("isolator", asked) };
    Bundle { spikes: vec![spike], ..Bundle::new("bundle", manifest) }
}
