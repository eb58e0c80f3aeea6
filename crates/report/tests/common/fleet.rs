// SPDX-License-Identifier: MIT OR Apache-2.0
//! Documents of fleets.

use fleet::document::{
    FailingSetting, FleetDocument, FleetMachine, FleetTotals, LatencyDrift, MachineClass, Outlier, Unread,
};

const CLASSES: [&str; 2] = [
    "Framework Laptop 13, 12 CPUs, 6.12 PREEMPT_RT",
    "an industrial PC with a long name <script>, 4 CPUs, 6.1 PREEMPT_RT",
];

fn machine(rank: u64) -> FleetMachine {
    let outcome = ["held", "held", "unproven", "exceeded"][(rank as usize * 4 / 41).min(3)];
    FleetMachine {
        rank,
        hostname: format!("robot-{rank:02}.hall-3.plant.example"),
        class: CLASSES[rank as usize % 2].into(),
        outcome: outcome.into(),
        runs: 1 + rank % 3,
        started_at: Some(format!("2026-11-{:02}T06:00:00Z", 1 + rank % 20)),
        set_apart: rank.is_multiple_of(2),
        samples: 600_000,
        late: if outcome == "exceeded" { rank } else { 0 },
        missed: 0,
        accepted: (rank == 1).then(|| "not-real-time-kernel".to_string()),
        grade: (rank == 1).then(|| "usable for linuxcnc:1ms".to_string()),
        p99_9_ns: Some(9_000 + 700 * rank),
        max_ns: Some(31_000 + 90_000 * rank),
        limit_ns: Some(100_000),
        against_class: Some(0.9 + rank as f64 / 50.0),
        reason: if outcome == "held" {
            String::new()
        } else {
            format!("wakeup under cpu on cpu 3 every 1,000 us: maximum {} us exceeds 100 us", 31 + 90 * rank)
        },
        path: format!("bundles/robot-{rank:02}.tar.zst"),
    }
}

/// Forty machines of two classes, with something to be said in most parts.
pub fn large() -> FleetDocument {
    let class = |rank: u64| MachineClass {
        rank,
        class: CLASSES[rank as usize - 1].into(),
        machines: 20,
        held: 10,
        unproven: 5,
        exceeded: 5,
        set_apart: 10,
        best_p99_9_ns: Some(9_700),
        median_p99_9_ns: Some(22_000),
        worst_p99_9_ns: Some(1_037_000),
        best: Some("robot-01".into()),
        worst: Some("robot-40.hall-3.plant.example".into()),
    };
    let outlier = |rank: u64| Outlier {
        rank,
        hostname: format!("robot-{:02}", 41 - rank),
        class: CLASSES[0].into(),
        machines: 20,
        outcome: "exceeded".into(),
        times_the_median: 1.8,
        z: 12.0,
        worst_cell: "wakeup under storage".into(),
        worst_ratio: 3.4,
        p99_9_ns: Some(37_000),
        max_ns: Some(3_600_000),
        path: "bundles/robot-40.tar.zst".into(),
    };
    FleetDocument {
        schema_version: 1,
        store: "store".into(),
        totals: FleetTotals { bundles: 83, machines: 40, rows: 664, samples: 49_800_000, classes: 2 },
        machines: (1..=40).map(machine).collect(),
        classes: vec![class(1), class(2)],
        outliers: (1..=12).map(outlier).collect(),
        unfit: Vec::new(),
        drift: vec![LatencyDrift {
            rank: 1,
            hostname: "robot-07".into(),
            class: CLASSES[0].into(),
            runs: 9,
            first_at: "2026-10-01T06:00:00Z".into(),
            last_at: "2026-11-20T06:00:00Z".into(),
            kernels: 2,
            times: 1.4,
            z: 3.9,
        }],
        settings: vec![FailingSetting {
            rank: 1,
            settings: vec!["governor = powersave".into(), "turbo = on".into()],
            with_machines: 18,
            with_failed: 9,
            without_machines: 22,
            without_failed: 1,
            z: 3.3,
            tried: 41,
        }],
        clocks: Vec::new(),
        duplicates: Vec::new(),
        unread: vec![Unread {
            rank: 1,
            path: "bundles/old.tar.zst".into(),
            why: "its schema version is 0".into(),
        }],
    }
}

/// One machine that holds, of which there is nothing to be said.
pub fn small() -> FleetDocument {
    let one = FleetMachine {
        outcome: "held".into(),
        runs: 1,
        set_apart: false,
        against_class: None,
        reason: String::new(),
        ..machine(1)
    };
    let large = large();
    FleetDocument {
        totals: FleetTotals { bundles: 1, machines: 1, rows: 2, samples: 1_200_000, classes: 1 },
        machines: vec![one],
        classes: large.classes[..1].to_vec(),
        outliers: Vec::new(),
        drift: Vec::new(),
        settings: Vec::new(),
        unread: Vec::new(),
        ..large
    }
}
