// SPDX-License-Identifier: MIT OR Apache-2.0
//! A day of twelve CPUs at 1 kHz — 1.04 billion samples — through the real recorder, without waiting for it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Instant, SystemTime};

use evidence::Bundle;
use evidence::manifest::{RowEntry, RowKey};
use evidence::writer::BundleWriter;
use measure::drain::{Drain, Start};
use measure::samples::{Sample, Samples};
use measure::schedule::Length;
use measure::series::SeriesSpec;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::bench::ground_truth::manifest;

const PERIOD_NS: u64 = 1_000_000;
const PERIOD: NonZeroU64 = NonZeroU64::new(PERIOD_NS).unwrap();
const CPUS: u32 = 12;
/// A real run carries over every second; a day in a minute would then spend its time on that alone.
const CARRY_EVERY_S: u64 = 15;

const THRESHOLD_NS: u64 = 100_000;

/// The cost of a day.
#[derive(Debug, Clone)]
pub struct Day {
    /// Samples recorded.
    pub samples: u64,
    /// Largest resident memory of the process that recorded it, bytes.
    pub resident_bytes: u64,
    /// Size of the bundle without its report, bytes.
    pub bundle_bytes: u64,
    /// Size of the report.
    pub report_bytes: u64,
    /// Time that reading the bundle and making the report took.
    pub report_s: f64,
    /// Time to record a sample, the carrying over included.
    pub ns_per_sample: f64,
}

/// Records `seconds` of twelve CPUs into `folder`; for the memory of recording alone, call it in a fresh
/// process.
pub fn record(folder: &Path, seconds: u64) -> Result<(u64, f64), Box<dyn std::error::Error>> {
    let mut written = manifest("wakeup", 0);
    written.asked.cpus = (0..CPUS).collect();
    written.asked.periods_ns = vec![PERIOD_NS];
    let mut bundle = BundleWriter::create(folder, &written)?;
    let latencies = latencies();
    let mut series = Vec::new();
    for cpu in 0..CPUS {
        let key = RowKey::new("wakeup", "idle", cpu, Some(PERIOD_NS));
        let spec = SeriesSpec {
            key: key.clone(),
            limit_ns: THRESHOLD_NS,
            threshold_ns: THRESHOLD_NS,
            followed: None,
        };
        let length = Length { duration_ns: Some(seconds * 1_000_000_000), loops: None };
        let (samples, mut drain) = Drain::cycles(&spec, PERIOD, &bundle, length.half_life_s())?;
        drain.start(Start { window: length.from(0), wall: Some(SystemTime::now()) });
        written.rows.push(entry(&key));
        series.push((samples, drain));
    }
    bundle.manifest(&written)?;
    let began = Instant::now();
    for second in 0..seconds {
        for (cpu, (samples, drain)) in series.iter_mut().enumerate() {
            one_second(samples, second, &latencies, cpu as u64);
            if second % CARRY_EVERY_S == 0 {
                drain.carry(&mut bundle, None)?;
            }
        }
    }
    let mut samples = 0;
    for ((_, mut drain), entry) in series.into_iter().zip(&mut written.rows) {
        drain.carry_last(&mut bundle, None)?;
        (entry.spikes, entry.spikes_not_listed) = drain.spikes(&bundle);
        samples += drain.so_far().count;
        drain.finish()?;
    }
    let taken = began.elapsed().as_secs_f64();
    bundle.manifest(&written)?;
    Ok((samples, taken * 1e9 / samples as f64))
}

/// Reads the bundle and makes the report, timed.
pub fn report(folder: &Path) -> Result<(f64, u64), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let bundle = Bundle::open(folder)?;
    let html = report::html(std::slice::from_ref(&bundle))?;
    Ok((began.elapsed().as_secs_f64(), html.len() as u64))
}

/// Bytes of all files below `folder`.
pub fn size(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

/// This process' largest resident memory so far, in bytes.
pub fn peak_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let fields = status.lines().filter_map(|line| line.split_once(':')).collect::<BTreeMap<_, _>>();
    let kib = fields
        .get("VmHWM")
        .and_then(|value| value.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn one_second(samples: &mut Samples, second: u64, latencies: &[u64], cpu: u64) {
    let from = (second * 7919 + cpu * 104_729) as usize;
    for cycle in second * 1000..(second + 1) * 1000 {
        let latency_ns = latencies[(from + (cycle % 1000) as usize * 31) % latencies.len()];
        let due_ns = cycle * PERIOD_NS;
        samples.send(Sample { due_ns, woke_ns: due_ns + latency_ns });
    }
}

/// Plausible latencies: a log-normal body around 2.5 us with a heavier tail, a few above 100 us.
fn latencies() -> Vec<u64> {
    let mut random = SmallRng::seed_from_u64(20);
    let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let mut latency = || {
        let (body, tail) = ((7.8 + 0.25 * normal()).exp(), normal());
        if tail > 2.5 { body * (1.2 * (tail - 2.5)).exp() * 4.0 } else { body }
    };
    (0..1 << 16).map(|_| latency() as u64).collect()
}

fn entry(key: &RowKey) -> RowEntry {
    RowEntry { limit_ns: Some(THRESHOLD_NS), ..RowEntry::new(key.clone()) }
}
