// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fleets that are made up, for tests and the bench: bundles as the program writes them, of machines of which
//! it is known what is wrong with them. Nothing here is measured.
//!
//! | what | which machines |
//! |---|---|
//! | class | eight, by the number; class 5 exceeds its limit although its CPUs are isolated |
//! | `governor` powersave | every fifth: three times as late, and most of them exceed their limit |
//! | outlier | number 7 of each 500: eight times as late |
//! | clock | number 3 of each 500: begins in 2099 |
//! | other version | number 9 of each 500 |
//! | same name | number 2 of each 500 has the name of number 0, on other hardware |

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use evidence::manifest::{Asked, Manifest, RowEntry, RowKey, Second, WrittenBy};
use evidence::taint::{self, Taint};
use evidence::{Result, Series};
use machine::snapshot::{Cpu, Preemption};

/// How large a fleet is.
#[derive(Debug, Clone, Copy)]
pub struct FleetSize {
    /// Measured CPUs of a machine.
    pub cpus: u32,
    /// Loads it was measured under.
    pub loads: u32,
    /// Seconds of each row, at 1 kHz.
    pub seconds: u32,
}

/// Classes of machines.
const CLASSES: u64 = 8;

/// The number of machines after which faults repeat.
const ROUND: u64 = 500;

const LOADS: [&str; 8] = ["idle", "cpu", "l2", "storage", "system", "net", "ipi", "timers"];

const LIMIT_NS: u64 = 100_000;

/// 1 March 2026.
const START_UNIX_S: u64 = 1_772_323_200;

/// Writes the `run`-th bundle of machine `number` to the file `archive`; each run is a day after the one
/// before and `drift` times as late.
pub fn write(archive: &Path, number: u64, run: u64, drift: f64, size: FleetSize) -> Result<()> {
    evidence::archive::pack_files(&files(number, run, drift, size), archive)
}

/// The files of that bundle, by their names within its folder.
pub fn files(number: u64, run: u64, drift: f64, size: FleetSize) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let class = number % CLASSES;
    let powersave = number % 5 == 4;
    let mut scale = 1.0 + 0.05 * noise(number, run) + class as f64 * 0.2;
    scale *= if powersave { 3.0 } else { 1.0 } * drift.powi(run as i32);
    scale *= if number % ROUND == 7 { 8.0 } else { 1.0 };
    let late = class == 5 || powersave && noise(number, 99) > -0.5 || noise(number, 98) > 1.9;
    let mut entries = Vec::new();
    for load in 0..size.loads {
        for cpu in 0..size.cpus {
            let load_name = LOADS[load as usize % LOADS.len()];
            let key = RowKey::new("wakeup", load_name, cpu + 1, Some(1_000_000));
            let series = series(
                number,
                run,
                scale * (1.0 + 0.1 * f64::from(load)),
                cpu,
                size.seconds,
                late && cpu == 0,
            );
            for (name, text) in evidence::writer::series_files(&key, &series) {
                files.insert(name, text.into_bytes());
            }
            entries.push(entry(key));
        }
    }
    let manifest = manifest(number, run, size, entries, powersave);
    let mut text = json(&manifest);
    if number % ROUND == 9 {
        text = text.replacen("\"schema_version\":1", "\"schema_version\":2", 1);
    }
    files.insert("manifest.json".into(), text.into_bytes());
    files.insert("spikes.jsonl".into(), Vec::new());
    files
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn series(number: u64, run: u64, scale: f64, cpu: u32, seconds: u32, late: bool) -> Series {
    let mut series = Series::default();
    let total = u64::from(seconds) * 1_000;
    // An exponential tail of 2 us above 5 us, by its distribution function: each bucket's share is known.
    let scale = scale * (1.0 + 0.02 * noise(number * 100 + u64::from(cpu), run));
    let steps = 120;
    let mut left = total;
    for step in 0..steps {
        let (from, to) = (f64::from(step) * 0.1, f64::from(step + 1) * 0.1);
        let share = (-from).exp() - (-to).exp();
        let count = ((total as f64 * share).round() as u64).min(left);
        left -= count;
        series.latency.record_many((scale * (5_000.0 + 2_000.0 * to)) as u64, count);
    }
    series.latency.record_many((scale * 31_000.0) as u64, left);
    if late {
        series.latency.record(LIMIT_NS + 20_000 + (scale * 1_000.0) as u64);
    }
    let (mean_ns, max_ns) = (series.latency.mean_ns(), series.latency.max_ns());
    let counted = series.latency.count();
    series.seconds = (0..seconds)
        .map(|second| {
            let count = if second == 0 { counted - 1_000 * u64::from(seconds - 1) } else { 1_000 };
            let sum_ns = (mean_ns * count as f64) as u64;
            Second { second, count, min_ns: series.latency.min_ns(), sum_ns, max_ns, missed: 0 }
        })
        .collect();
    series
}

fn entry(key: RowKey) -> RowEntry {
    RowEntry { limit_ns: Some(LIMIT_NS), ..RowEntry::new(key) }
}

fn manifest(number: u64, run: u64, size: FleetSize, rows: Vec<RowEntry>, powersave: bool) -> Manifest {
    let class = number % CLASSES;
    let cpus = (1..=size.cpus).collect::<machine::CpuSet>();
    let mut machine = machine::Snapshot {
        hostname: Some(format!("host-{:05}", if number % ROUND == 2 { number - 2 } else { number })),
        architecture: Some("x86_64".into()),
        cpu_model: Some(format!("Made-up CPU {}", class / 2)),
        product: Some("Made-up machine".into()),
        ..Default::default()
    };
    machine.kernel.release = Some("6.12.30-rt".into());
    machine.kernel.preemption = if class.is_multiple_of(2) { Preemption::RealTime } else { Preemption::Full };
    machine.kernel.command_line =
        Some(format!("BOOT_IMAGE=/vmlinuz root=/dev/sda{} quiet nohz_full=1-{}", number % 3, size.cpus));
    let governor = Some(if powersave { "powersave" } else { "performance" }.to_string());
    machine.cpus = (0..=size.cpus)
        .map(|id| Cpu { id, online: true, governor: governor.clone(), ..Cpu::default() })
        .collect();
    if class == 5 || number.is_multiple_of(2) {
        machine.isolation.isolated = cpus.clone();
    }
    for (place, name) in ["vm/stat_interval", "kernel/watchdog", "kernel/timer_migration"].iter().enumerate()
    {
        let value = (number / (7 + place as u64)) % 2;
        machine.settings.insert(format!("/proc/sys/{name}"), value.to_string());
    }
    // A class without PREEMPT_RT is one that its owner measures all the same.
    let code = taint::NOT_REAL_TIME_KERNEL;
    let accept = if class.is_multiple_of(2) { vec![] } else { vec![code.to_string()] };
    let taint = Taint { accepted: true, ..Taint::new(code, "made up", "boot another kernel") };
    let taints = accept.iter().map(|_| taint.clone()).collect();
    let day = if number % ROUND == 3 { 27_000 } else { run };
    let start = UNIX_EPOCH + Duration::from_secs(START_UNIX_S + day * 86_400);
    let length = Duration::from_secs(u64::from(size.seconds * size.loads));
    let time = |time| Some(humantime::format_rfc3339_seconds(time).to_string());
    Manifest {
        written_by: WrittenBy {
            program: "isolator".into(),
            version: Some("0.1.0".into()),
            commit: None,
            command_line: Some("made up".into()),
        },
        started_at: time(start),
        ended_at: time(start + length),
        machine,
        rows,
        taints,
        ..Manifest::new(
            "isolator",
            Asked {
                probes: vec!["wakeup".into()],
                loads: (0..size.loads).map(|load| LOADS[load as usize % LOADS.len()].to_string()).collect(),
                cpus,
                periods_ns: vec![1_000_000],
                policy: Some("fifo".into()),
                priority: Some(80),
                accept,
                ..Asked::default()
            },
        )
    }
}

/// A number that looks drawn, about -2 to 2 and around 0, and is the same for the same machine and run: the
/// sum of twelve bytes.
fn noise(number: u64, run: u64) -> f64 {
    let mut state =
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ run.wrapping_mul(0xD1B5_4A32_D192_ED03) ^ 0xA5A5;
    let mut sum = 0.0;
    for _ in 0..12 {
        // SplitMix64 (Steele and others 2014).
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        sum += ((z ^ (z >> 31)) & 0xff) as f64 / 255.0;
    }
    sum - 6.0
}
