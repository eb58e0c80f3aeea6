// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware probe: what firmware and hardware take from the CPUs behind the kernel's back.
//!
//! Two sources, each where there is one: the kernel's hwlat tracer (Documentation/trace/hwlat_detector.rst),
//! which spins with interrupts off for half of each second and so disturbs everything else; and the count of
//! system management interrupts in MSR_SMI_COUNT (Intel SDM vol. 4, 0x34). The tracer runs in a tracing instance
//! of our own; what is set beside it is read before and written back, whatever happens but SIGKILL, and an
//! instance left by a kill is removed at the next start.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evidence::Histogram;
use evidence::manifest::{Granted, Manifest, Second, Spike, State};
use evidence::writer::{BundleWriter, SeriesWriter, Totals};
use rt::clock::monotonic_ns;
use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::row::{Lane, entry_of};

const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const INSTANCE: &str = "isolator-hwlat";
const MSR_SMI_COUNT: u64 = 0x34;
const WHAT: &str = "the hardware probe";

/// Measures for `duration_ns` on the CPUs of `lanes`; rows hold one sample per event above the threshold.
pub fn measure(
    lanes: &[Lane],
    duration_ns: u64,
    bundle: &mut BundleWriter,
    manifest: &mut Manifest,
    stop: &AtomicBool,
) -> Result<()> {
    let smi_before = lanes.iter().map(|lane| smi_count(lane.key.cpu)).collect::<Vec<_>>();
    let threshold_ns = lanes.iter().map(|lane| lane.threshold_ns).min().unwrap_or(0);
    let cpus = lanes.iter().map(|lane| lane.key.cpu).collect::<Vec<_>>();
    let tracer = TRACEFS.iter().map(Path::new).find(|root| root.join("available_tracers").exists());
    let tracer = match tracer {
        None => Err("tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing)".to_string()),
        Some(root) => Tracer::start(root, threshold_ns, &cpus),
    };
    if let (Err(why), true) = (&tracer, smi_before.iter().all(Option::is_none)) {
        return Err(Error::NotAvailable(
            WHAT,
            format!("{why}, and no SMI count can be read from /dev/cpu/N/msr"),
        ));
    }
    let first = manifest.rows.len();
    let mut series = Vec::new();
    for lane in lanes {
        manifest.rows.push(entry_of(lane, &Granted::default()));
        series.push((bundle.series(&lane.key, 0.0)?, Histogram::new()));
    }
    bundle.manifest(manifest)?;
    let start_ns = monotonic_ns();
    let mut second = 0;
    let mut pending = vec![Second::default(); lanes.len()];
    while monotonic_ns() < start_ns.saturating_add(duration_ns) && !stop.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(250));
        for event in tracer.iter().flat_map(Tracer::events) {
            let Some(place) = cpus.iter().position(|cpu| *cpu == event.cpu) else { continue };
            series[place].1.record(event.length_ns);
            pending[place] = pending[place].joined(&one(event.length_ns));
            bundle.spikes(&[spike(&lanes[place], &event, start_ns)])?;
            manifest.rows[first + place].spikes += 1;
        }
        let now = ((monotonic_ns() - start_ns) / 1_000_000_000) as u32;
        if now > second {
            hand_on(&mut series, &mut pending, second)?;
            second = now;
        }
    }
    hand_on(&mut series, &mut pending, second)?;
    for ((writer, _), entry) in series.into_iter().zip(&mut manifest.rows[first..]) {
        writer.finish()?;
        entry.state = if stop.load(Ordering::SeqCst) { State::Interrupted } else { State::Finished };
    }
    for (lane, before) in lanes.iter().zip(smi_before) {
        let taken = before.zip(smi_count(lane.key.cpu)).map(|(before, after)| after.wrapping_sub(before));
        let counted =
            taken.map_or("cannot be counted here".to_string(), |count| format!("were counted: {count}"));
        manifest.notes.push(format!("{}: system management interrupts {counted}", lane.key));
    }
    if let Err(why) = &tracer {
        manifest.notes.push(format!("hardware: only SMIs were counted, because {why}"));
    }
    Ok(())
}

fn hand_on(series: &mut [(SeriesWriter, Histogram)], pending: &mut [Second], second: u32) -> Result<()> {
    for ((writer, histogram), row) in series.iter_mut().zip(pending) {
        let totals = histogram.buckets().map(|bucket| (bucket.index, bucket.count));
        let row = std::mem::take(row);
        writer.advance(
            &[Second { second, ..row }],
            Totals { latency: totals, jitter: std::iter::empty(), cells: std::iter::empty() },
        )?;
    }
    Ok(())
}

fn one(length_ns: u64) -> Second {
    Second { second: 0, count: 1, min_ns: length_ns, sum_ns: length_ns, max_ns: length_ns, missed: 0 }
}

fn spike(lane: &Lane, event: &Event, start_ns: u64) -> Spike {
    let monotonic_ns = monotonic_ns();
    Spike {
        key: lane.key.clone(),
        at_ns: monotonic_ns.saturating_sub(start_ns),
        monotonic_ns,
        wall_time: Some(humantime::format_rfc3339_nanos(event.wall).to_string()),
        latency_ns: event.length_ns,
        missed: 0,
        causes: Vec::new(),
        unexplained_ns: None,
    }
}

/// The number of system management interrupts since power-on; `None` where the MSR cannot be read.
fn smi_count(cpu: u32) -> Option<u64> {
    let mut value = [0; 8];
    let msr = File::open(format!("/dev/cpu/{cpu}/msr")).ok()?;
    msr.read_exact_at(&mut value, MSR_SMI_COUNT).ok()?;
    Some(u64::from_ne_bytes(value))
}

/// The hwlat tracer, on while it lives.
struct Tracer {
    instance: PathBuf,
    pipe: File,
    /// Settings outside the instance with what they held before, restored in reverse.
    saved: Vec<(PathBuf, String)>,
}

/// A stretch of time that nobody accounts for.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    cpu: u32,
    length_ns: u64,
    wall: std::time::SystemTime,
}

impl Tracer {
    fn start(root: &Path, threshold_ns: u64, cpus: &[u32]) -> std::result::Result<Tracer, String> {
        let tracers = read(&root.join("available_tracers"))?;
        if !tracers.split_whitespace().any(|tracer| tracer == "hwlat") {
            return Err("this kernel has no hwlat tracer (CONFIG_HWLAT_TRACER)".into());
        }
        let instance = root.join("instances").join(INSTANCE);
        // One that a killed run left behind stops here; a fresh one has no foreign settings.
        let _ = fs::remove_dir(&instance);
        fs::create_dir(&instance).map_err(|e| format!("no tracing instance can be made ({})", e.kind()))?;
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(instance.join("trace_pipe"));
        let pipe = pipe.map_err(|e| format!("its output cannot be read ({})", e.kind()));
        let mut tracer = match pipe {
            Ok(pipe) => Tracer { instance, pipe, saved: Vec::new() },
            Err(why) => {
                let _ = fs::remove_dir(&instance);
                return Err(why);
            }
        };
        tracer.set(&root.join("tracing_thresh"), &(threshold_ns / 1000).max(1).to_string())?;
        write(&tracer.instance.join("tracing_cpumask"), &mask(cpus))?;
        write(&tracer.instance.join("current_tracer"), "hwlat")?;
        write(&tracer.instance.join("tracing_on"), "1")?;
        Ok(tracer)
    }

    /// Changes a setting that is not ours alone.
    fn set(&mut self, path: &Path, value: &str) -> std::result::Result<(), String> {
        let before = read(path)?.trim().to_string();
        write(path, value)?;
        self.saved.push((path.to_path_buf(), before));
        Ok(())
    }

    /// Events since the last call.
    fn events(&self) -> Vec<Event> {
        let (mut text, mut chunk) = (Vec::new(), [0; 16_384]);
        loop {
            match (&self.pipe).read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => text.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        String::from_utf8_lossy(&text).lines().filter_map(event).collect()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Best effort in every step: one that fails must not keep the next from being tried.
        let _ = write(&self.instance.join("tracing_on"), "0");
        let _ = write(&self.instance.join("current_tracer"), "nop");
        for (path, before) in self.saved.iter().rev() {
            let _ = write(path, before);
        }
        if let Ok(null) = File::open("/dev/null") {
            // The instance can be removed only once nobody has a file of it open.
            self.pipe = null;
        }
        let _ = fs::remove_dir(&self.instance);
    }
}

/// One line of the tracer:
/// `<...>-1729 [001] d.... 714.756290: #1 inner/outer(us): 11/27 ts:1581527690.064289233 count:3`.
fn event(line: &str) -> Option<Event> {
    let cpu = line.split_once('[')?.1.split_once(']')?.0.parse().ok()?;
    let lengths = line.split_once("inner/outer(us):")?.1.split_whitespace().next()?;
    let (inner, outer) = lengths.split_once('/')?;
    let length_us = inner.parse::<u64>().ok()?.max(outer.parse().ok()?);
    let (seconds, nanoseconds) = line.split_once("ts:")?.1.split_whitespace().next()?.split_once('.')?;
    let wall = std::time::UNIX_EPOCH + Duration::new(seconds.parse().ok()?, nanoseconds.parse().ok()?);
    Some(Event { cpu, length_ns: length_us.saturating_mul(1000), wall })
}

/// CPUs as the kernel's mask: hexadecimal words of 32 bits, the highest first.
fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |cpu| cpu / 32 + 1);
    let word =
        |n: u32| cpus.iter().filter(|cpu| *cpu / 32 == n).fold(0u32, |word, cpu| word | 1 << (cpu % 32));
    (0..words).rev().map(|n| format!("{:x}", word(n))).collect::<Vec<_>>().join(",")
}

fn read(path: &Path) -> std::result::Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{} cannot be read ({})", path.display(), e.kind()))
}

fn write(path: &Path, value: &str) -> std::result::Result<(), String> {
    fs::write(path, value).map_err(|e| format!("{} cannot be set to {value} ({})", path.display(), e.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_from_the_tracers_line() {
        let line = "           <...>-1729    [001] d....   714.756290: #3     inner/outer(us):   11/27    ts:1581527690.064289233 count:3";
        let seen = event(line).unwrap();
        assert_eq!((seen.cpu, seen.length_ns), (1, 27_000));
        assert_eq!(humantime::format_rfc3339_nanos(seen.wall).to_string(), "2020-02-12T17:14:50.064289233Z");
        assert_eq!(event("# tracer: hwlat"), None);
        assert_eq!(event("x [001] #3 inner/outer(us): 11/ ts:1.2"), None);
    }

    #[test]
    fn a_mask_has_the_highest_cpus_first() {
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[1, 33, 35]), "a,2");
        assert_eq!(mask(&[]), "0");
    }
}
