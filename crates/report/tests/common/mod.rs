// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generated evidence: plausible distributions, a few spikes, taints; the same bytes every time.
#![allow(dead_code, reason = "every file of tests uses a part of it")]

pub mod fleet;
pub mod lab;

use std::path::Path;

use evidence::cause::{Cause, CauseKind, Causes, Collector, OnSibling, Sender};
use evidence::histogram::index;
use evidence::manifest::{Asked, Granted, Manifest, NotRun, RowEntry, RowKey, Second, Spike, WrittenBy};
use evidence::series::{LEVEL_SHIFT, SWEEP_COLUMNS};
use evidence::taint::{self, Taint};
use evidence::writer::BundleWriter;
use evidence::{Bundle, Row, Series};
use machine::snapshot::{Cpu, IdleState, Isolation, Kernel, Preemption, Scheduler};
use machine::{CpuSet, Snapshot};

/// A run to generate.
#[derive(Clone)]
pub struct Plan {
    pub name: &'static str,
    pub loads: Vec<&'static str>,
    pub cpus: std::ops::Range<u32>,
    pub seconds: u32,
    pub limit_ns: Option<u64>,
    /// How far the tail reaches: 1 for an isolated CPU, 8 for a stock machine.
    pub noise: f64,
    pub spin: bool,
    pub tainted: bool,
}

impl Plan {
    /// A stock machine: three loads, two CPUs, limit exceeded, tainted.
    pub fn before() -> Plan {
        Plan {
            name: "stock",
            loads: vec!["idle", "cpu", "io", "custom=stress-ng --vm 2 && <script>alert(1)</script>"],
            cpus: 1..3,
            seconds: 60,
            limit_ns: Some(100_000),
            noise: 8.0,
            spin: true,
            tainted: true,
        }
    }

    /// The same machine, isolated.
    pub fn after() -> Plan {
        Plan { name: "isolated", noise: 1.0, tainted: false, ..Plan::before() }
    }

    /// Twelve CPUs for a day.
    pub fn day() -> Plan {
        Plan {
            name: "day",
            loads: vec!["l2"],
            cpus: 0..12,
            seconds: 86_400,
            noise: 2.0,
            spin: false,
            ..Plan::before()
        }
    }

    /// Twelve CPUs under three loads.
    pub fn many() -> Plan {
        Plan {
            name: "many",
            loads: vec!["idle", "l2", "storage"],
            cpus: 0..12,
            seconds: 20,
            noise: 5.0,
            spin: false,
            ..Plan::before()
        }
    }

    /// The bundle as it would be read, made without a file.
    pub fn in_memory(&self) -> Bundle {
        let mut rows = Vec::new();
        for (n, load) in self.loads.iter().enumerate() {
            for cpu in self.cpus.clone() {
                rows.push(self.row("wakeup", Some(1_000_000), load, n, cpu));
                if self.spin {
                    rows.push(self.row("spin", None, load, n, cpu));
                }
            }
        }
        let spikes: Vec<Spike> = rows.iter().flat_map(spikes).collect();
        let manifest = self.manifest(rows.iter().map(|row| row.entry.clone()).collect());
        Bundle { rows, spikes, ..Bundle::new(self.name, manifest) }
    }

    /// The bundle written into `folder` and read again.
    pub fn on_disk(&self, folder: &Path) -> Bundle {
        let bundle = self.in_memory();
        let folder = folder.join(self.name);
        let mut writer = BundleWriter::create(&folder, &bundle.manifest).unwrap();
        writer.spikes(&bundle.spikes).unwrap();
        for row in &bundle.rows {
            writer.whole_series(&row.entry.key, &row.series).unwrap();
        }
        Bundle::open(&folder).unwrap()
    }

    fn row(&self, probe: &str, period_ns: Option<u64>, load: &str, place: usize, cpu: u32) -> Row {
        let key = RowKey::new(probe, load, cpu, period_ns);
        let seed = u64::from(cpu) * 31 + place as u64 * 7 + 1;
        let weight = 1.0 + place as f64 * 0.5;
        let series = match period_ns {
            Some(_) => wakeups(seed, self.seconds, self.noise * weight),
            None => gaps(seed, self.seconds, self.noise * weight),
        };
        let own = CpuSet::from_iter([cpu]);
        let entry = RowEntry {
            granted: Granted {
                policy: Some("fifo".into()),
                priority: Some(80),
                affinity: Some(own),
                memory_locked: Some(true),
                page_faults: Some(0),
                steal_ns: Some(if self.tainted { 3_000_000 } else { 0 }),
                counter_hz: period_ns.is_none().then_some(2_400_000_000),
                thread: Some(4711 + cpu),
                ..Granted::default()
            },
            limit_ns: self.limit_ns,
            spikes: series.latency.above(60_000),
            load_did: (load != "idle").then(|| format!("{load}: 2 workers, 1.9 s of CPU time a second")),
            ..RowEntry::new(key)
        };
        Row::new(entry, series)
    }

    fn manifest(&self, rows: Vec<RowEntry>) -> Manifest {
        let kernel = Taint::new(
            taint::NOT_REAL_TIME_KERNEL,
            "the kernel is not PREEMPT_RT",
            "boot a PREEMPT_RT kernel",
        );
        let steal = Taint::new(taint::STEAL, "the hypervisor took 3 ms from the CPU", "");
        let taints = vec![
            Taint { accepted: true, ..kernel },
            Taint { load: Some("io".into()), cpu: Some(2), cure: None, ..steal },
        ];
        let not_run = vec![NotRun {
            probe: "wakeup".into(),
            load: "gpu".into(),
            reason: "package glmark2 missing; apt-get install glmark2".into(),
            optional: false,
        }];
        Manifest {
            written_by: WrittenBy {
                program: "isolator".into(),
                version: Some("0.1.0".into()),
                commit: Some("1a2b3c4".into()),
                command_line: Some("isolator prove --limit 100us".into()),
            },
            started_at: Some("2026-03-01T10:00:00Z".into()),
            ended_at: Some("2026-03-01T10:04:10Z".into()),
            machine: machine(self.noise),
            rows,
            not_run: if self.tainted { not_run } else { Vec::new() },
            notes: vec!["cpu_dma_latency was held at 0 us while measuring and let go afterwards".into()],
            taints: if self.tainted { taints } else { Vec::new() },
            causes: Some(Causes {
                collector: Collector::Bpf,
                could_not_see: vec![
                    "the firmware's interrupts: the counter of this processor cannot be read".into(),
                ],
                not_tried: vec!["NMIs".into(), "interrupts of devices".into()],
                lost_events: 12,
                edges: Vec::new(),
            }),
            ..Manifest::new("isolator", self.asked())
        }
    }

    fn asked(&self) -> Asked {
        Asked {
            probes: if self.spin { vec!["wakeup".into(), "spin".into()] } else { vec!["wakeup".into()] },
            loads: self.loads.iter().map(|load| load.to_string()).collect(),
            cpus: self.cpus.clone().collect(),
            house_keeping: CpuSet::from_iter([0]),
            periods_ns: vec![1_000_000],
            policy: Some("fifo".into()),
            priority: Some(80),
            timer: Some("nanosleep".into()),
            duration_ns: Some(u64::from(self.seconds) * 1_000_000_000),
            warm_up_ns: Some(2_000_000_000),
            limit: Some("100us".into()),
            threshold_ns: Some(60_000),
            claim: Some(1e-3),
            dma_latency_us: Some(0),
            accept: vec!["not-real-time-kernel".into()],
            ..Asked::default()
        }
    }
}

fn machine(noise: f64) -> Snapshot {
    let cpu = |id| Cpu {
        id,
        online: true,
        core: Some(id / 2),
        siblings: CpuSet::from_iter([id / 2 * 2, id / 2 * 2 + 1]),
        governor: Some(if id == 0 { "schedutil" } else { "performance" }.into()),
        idle_states: vec![
            IdleState { name: "POLL".into(), exit_latency_us: 0, disabled: false },
            IdleState { name: "C6".into(), exit_latency_us: 133, disabled: id > 0 },
        ],
        ..Cpu::default()
    };
    let isolated = noise < 2.0;
    Snapshot {
        hostname: Some("bench-<b>7</b>".into()),
        architecture: Some("x86_64".into()),
        cpu_model: Some("Example Processor E-2278GE at 3.30 GHz".into()),
        memory_bytes: Some(32 << 30),
        kernel: Kernel {
            release: Some(if isolated { "6.18.3-rt4" } else { "6.18.3" }.into()),
            version: Some("#1 SMP".into()),
            preemption: if isolated { Preemption::RealTime } else { Preemption::Voluntary },
            command_line: Some(
                match isolated {
                    true => "root=/dev/sda1 isolcpus=managed_irq,domain,1-11 nohz_full=1-11 rcu_nocbs=1-11 irqaffinity=0",
                    false => "root=/dev/sda1 quiet",
                }
                .into(),
            ),
            config_sha256: Some("9f2c".repeat(16)),
            config_source: Some("/boot/config-6.18.3".into()),
            ..Kernel::default()
        },
        cpus: (0..12).map(cpu).collect(),
        isolation: if isolated {
            Isolation {
                isolated: (1..12).collect(),
                nohz_full: (1..12).collect(),
                irq_default: CpuSet::from_iter([0]),
                ..Isolation::default()
            }
        } else {
            Isolation { irq_default: (0..12).collect(), ..Isolation::default() }
        },
        scheduler: Scheduler {
            rt_runtime_us: Some(950_000),
            rt_period_us: Some(1_000_000),
            highest_irq_thread_priority: Some(50),
            ..Scheduler::default()
        },
        clocksource: Some("tsc".into()),
        firmware: Some("Example Firmware 1.2, 2025-11-02".into()),
        product: Some("Example Box".into()),
        unread: vec!["/proc/config.gz: no such file".into()],
        ..Snapshot::default()
    }
}

/// A small generator (xorshift64*), so that the same evidence is made everywhere.
struct Dice(u64);

impl Dice {
    fn of(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Between 0 and 1, both excluded.
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A latency: a body around `body_ns`, and a tail that grows with `noise`.
    fn latency_ns(&mut self, body_ns: f64, noise: f64) -> f64 {
        let body = body_ns * (0.75 + 0.2 * (self.roll() + self.roll() + self.roll()));
        body - self.roll().ln() * body_ns * 0.08 * noise
    }
}

fn wakeups(seed: u64, seconds: u32, noise: f64) -> Series {
    let mut dice = Dice::of(seed);
    let mut series = Series::default();
    let body_ns = 3_000.0 + 150.0 * noise;
    let drawn = 3_000;
    let each = (u64::from(seconds) * 999).div_ceil(drawn);
    for _ in 0..drawn {
        let value_ns = dice.latency_ns(body_ns, noise);
        series.latency.record_many(value_ns as u64, each);
        series.late.record_many((value_ns * 0.3) as u64, each / 2);
        series.early.record_many((value_ns * 0.3) as u64, each / 2);
    }
    let mean_ns = series.latency.mean_ns();
    for second in 0..seconds {
        let mut max_ns = dice.latency_ns(body_ns * 1.8, noise * 1.6);
        if dice.roll() < 0.02 {
            max_ns *= 1.0 + noise * dice.roll();
        }
        // A stall of forty periods, once in the noisiest rows.
        let stall = noise > 15.0 && second == seconds / 2;
        let max_ns = if stall { 4_200_000 } else { max_ns as u64 };
        series.latency.record(max_ns);
        series.seconds.push(Second {
            second,
            count: 1_000,
            min_ns: (body_ns * 0.8) as u64,
            sum_ns: (mean_ns * 999.0) as u64 + max_ns,
            max_ns,
            missed: if stall { 4 } else { 0 },
        });
    }
    sweeps(&mut series, &mut dice, seconds, body_ns, noise);
    series
}

/// Sweeps with a structure: a disturbance every 20 periods, and rare strays from long ago.
fn sweeps(series: &mut Series, dice: &mut Dice, seconds: u32, body_ns: f64, noise: f64) {
    let picture = &mut series.persistence;
    picture.half_life_s = 10.0;
    for (age, draws, weight) in [(seconds, 6, 20), (20, 12, 40), (3, 30, 60), (0, 40, 90)] {
        for column in 0..SWEEP_COLUMNS as u16 {
            for _ in 0..draws {
                let periodic = if column % 20 < 2 { 3.0 } else { 1.0 };
                let ns = dice.latency_ns(body_ns * periodic, noise);
                let level = (index(ns as u64) >> LEVEL_SHIFT) as u16;
                picture.add(column, level, weight, seconds.saturating_sub(age));
            }
        }
    }
}

fn gaps(seed: u64, seconds: u32, noise: f64) -> Series {
    let mut dice = Dice::of(seed ^ 0x55);
    let mut series = Series::default();
    for second in 0..seconds {
        series.latency.record_many(21 + (dice.roll() * 4.0) as u64, 40_000_000);
        (0..20).for_each(|_| series.latency.record((200.0 - dice.roll().ln() * 400.0 * noise) as u64));
        let max_ns = dice.latency_ns(2_000.0, noise * 2.0) as u64;
        series.latency.record(max_ns);
        series.seconds.push(Second {
            second,
            count: 40_000_021,
            min_ns: 21,
            sum_ns: 900_000_000,
            max_ns,
            missed: 0,
        });
    }
    series
}

fn spikes(row: &Row) -> Vec<Spike> {
    let above = row.series.seconds.iter().filter(|second| second.max_ns > 60_000);
    let spike = |second: &Second| Spike {
        at_ns: u64::from(second.second) * 1_000_000_000 + 123_456_789,
        monotonic_ns: 5_000_000_000 + u64::from(second.second) * 1_000_000_000,
        wall_time: Some("2026-03-01T10:00:17.123456Z".into()),
        missed: second.missed,
        causes: causes(second.second, second.max_ns),
        unexplained_ns: (second.second % 3 < 2)
            .then_some(second.max_ns / [50, 5][second.second as usize % 2]),
        siblings: vec![OnSibling {
            cpu: 7,
            cause: Cause::timed(CauseKind::Thread, "stress-ng-cpu", 0, second.max_ns),
        }],
        ..Spike::new(row.entry.key.clone(), second.max_ns)
    };
    above.take(500).map(spike).collect()
}

/// The causes of `latency_ns`, but for a remainder: a worker that an interrupt woke, the tick, or nothing but
/// suspects.
fn causes(which: u32, latency_ns: u64) -> Vec<Cause> {
    let share = |percent| latency_ns * percent / 100;
    match which % 3 {
        0 => {
            let mut worker = Cause::timed(CauseKind::Kthread, "kworker/3:1H", share(2), share(90));
            worker.detail = Some("woken by irq 45".into());
            let mut ipi = Cause::timed(CauseKind::Ipi, "call function do_sync_core", share(40), share(5));
            ipi.sender = Some(Sender {
                cpu: Some(0),
                pid: Some(4211),
                comm: Some("echo".into()),
                context: None,
                function: Some("do_sync_core".into()),
                call_site: Some("text_poke_bp_batch".into()),
            });
            vec![Cause::timed(CauseKind::Irq, "45 nvme0q3", share(1), share(1)), worker, ipi]
        }
        1 => vec![Cause::timed(CauseKind::Tick, "sched_timer", 700, share(80))],
        _ => vec![
            Cause::suspect(CauseKind::Irq, "45 nvme0q3", 12),
            Cause::suspect(CauseKind::Softirq, "BLOCK", 9),
        ],
    }
}
