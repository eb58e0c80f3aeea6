// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware probe: what firmware and hardware take from the CPUs behind the kernel's back.
//!
//! Two sources, each where there is one: the kernel's hwlat tracer (`hwlat`), and the count of system
//! management interrupts ([`machine::counters::smi_count`]).
//!
//! Limits: the tracer watches a part of the time only, and one CPU after the other where its mode is
//! round-robin; a note says which part. Of each stretch it reports the longest gap alone, in whole
//! microseconds, so that a row has one sample a stretch at the most, and a row without samples means that no
//! gap above the threshold was seen. While it watches, interrupts are off: it disturbs whatever else runs on
//! the CPU, other probes included. SMIs alone have no length and make no row.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evidence::Histogram;
use evidence::manifest::{Granted, RowKey, Second, Spike};
use evidence::taint::{self, Taint};
use evidence::writer::{RunningTotals, SPIKES_LISTED, SeriesWriter};
use machine::counters::smi_count;
use rt::clock::monotonic_ns;

use crate::error::{MeasureError, Result};
use crate::recording::{DRAIN_EVERY, Recording};
use crate::schedule::{Length, Window};
use crate::series::{RowProgress, SeriesProgress, SeriesSpec};
use crate::watch::RowWatch;
use hwlat::{Gap, Hwlat};

mod hwlat;

pub use hwlat::remove_leftover;

const NS_PER_S: u64 = 1_000_000_000;

/// Measures the `series`, one for each CPU. Ends early, in order, when it is stopped.
pub fn measure(series: &[SeriesSpec], length: Length, recording: &mut Recording<'_>) -> Result<()> {
    let smis = |series: &SeriesSpec| smi_count(Path::new("/"), series.key.cpu).ok();
    let smi_before = series.iter().map(smis).collect::<Vec<_>>();
    let threshold_ns = series.iter().map(|series| series.threshold_ns).min().unwrap_or(0);
    let cpus = series.iter().map(|series| series.key.cpu).collect::<Vec<_>>();
    let measured = match Hwlat::start(threshold_ns, &cpus) {
        Ok(tracer) => {
            recording.manifest.notes.push(format!("hardware: {}", tracer.watches()));
            trace(&tracer, series, length, recording)
        }
        Err(why) if smi_before.iter().all(Option::is_none) => {
            Err(not_available(format!("{why}, and no SMI count can be read from /dev/cpu/N/msr")))
        }
        Err(why) => {
            let window = length.from(monotonic_ns());
            while monotonic_ns() < window.end_ns && !recording.is_stopped() {
                std::thread::sleep(DRAIN_EVERY);
            }
            Err(not_available(format!("{why}; SMIs alone were counted")))
        }
    };
    for (series, before) in series.iter().zip(smi_before) {
        if let Some((before, after)) = before.zip(smis(series)) {
            let count = after.wrapping_sub(before);
            recording.manifest.notes.push(format!("{}: {count} system management interrupts", series.key));
        }
    }
    measured
}

fn not_available(why: String) -> MeasureError {
    MeasureError::NotAvailable("the hardware probe", why)
}

/// Carries what the tracer tells into the bundle.
fn trace(tracer: &Hwlat, series: &[SeriesSpec], length: Length, recording: &mut Recording<'_>) -> Result<()> {
    let Window { start_ns, end_ns, .. } = length.from(monotonic_ns());
    let duration_ns = end_ns - start_ns;
    let first = recording.manifest.rows.len();
    let mut records = Vec::new();
    for series in series {
        recording.manifest.rows.push(series.entry(&Granted::default()));
        records.push(HardwareSeries::of(series, duration_ns, recording.bundle.series(&series.key, 0.0)?));
    }
    recording.write_manifest()?;
    let load = series.first().map_or("", |series| &series.key.load);
    let mut watch = RowWatch::begin(load, series.iter().map(|series| series.key.cpu).collect());
    let mut taken = None;
    let mut elapsed_ns = 0;
    while elapsed_ns < duration_ns && !recording.is_stopped() {
        std::thread::sleep(DRAIN_EVERY.min(Duration::from_nanos(duration_ns - elapsed_ns)));
        for gap in tracer.gaps() {
            let Some(place) = series.iter().position(|series| series.key.cpu == gap.cpu) else { continue };
            let spike = spike(&series[place].key, &gap, start_ns);
            records[place].take(&spike);
            let entry = &mut recording.manifest.rows[first + place];
            entry.spikes += 1;
            if entry.spikes <= SPIKES_LISTED {
                recording.bundle.spikes(&[spike])?;
            } else {
                entry.spikes_not_listed += 1;
            }
        }
        elapsed_ns = monotonic_ns() - start_ns;
        watch.look();
        taken = taken.or_else(|| tracer.taken());
        for record in &mut records {
            record.hand_on(elapsed_ns / NS_PER_S)?;
        }
        (recording.observe)(&RowProgress {
            elapsed: Duration::from_nanos(elapsed_ns),
            length: length.duration(),
            series: records.iter_mut().map(|record| record.progress(recording.wants_latency)).collect(),
        });
    }
    let state = recording.state();
    let manifest = &mut *recording.manifest;
    for (mut record, entry) in records.into_iter().zip(&mut manifest.rows[first..]) {
        record.hand_on(elapsed_ns.min(duration_ns).div_ceil(NS_PER_S))?;
        record.writer.finish()?;
        entry.state = state;
    }
    let (taints, notes) = watch.end("hardware");
    manifest.taints.extend(taints);
    manifest.notes.extend(notes);
    manifest.taints.extend(taken.map(|what| taken_back(load, what)));
    if elapsed_ns < tracer.round_ns() {
        manifest.taints.push(too_short(load, elapsed_ns, tracer.round_ns()));
    }
    Ok(())
}

/// Without this, no gap seen by a tracer that is off would read as none there.
fn taken_back(load: &str, what: String) -> Taint {
    let cure = "stop other users of the tracer (trace-cmd, rtla, perf)";
    let taint = Taint::new(taint::GRANT_LOST, format!("the hwlat tracer was changed: {what}"), cure);
    Taint { load: Some(load.to_string()), ..taint }
}

/// Without this, no gap seen would read as none there.
fn too_short(load: &str, had_ns: u64, needed_ns: u64) -> Taint {
    let s = |ns: u64| ns as f64 / 1e9;
    let reason = format!(
        "not every CPU was watched: the hwlat tracer had {:.1} s of {:.1} s",
        s(had_ns),
        s(needed_ns)
    );
    let cure = format!("measure hardware for {} s at the least", needed_ns.div_ceil(NS_PER_S));
    Taint { load: Some(load.to_string()), ..Taint::new(taint::TOO_SHORT, reason, cure) }
}

/// The series of one CPU while it grows.
struct HardwareSeries {
    spec: SeriesSpec,
    length_ns: u64,
    writer: SeriesWriter,
    histogram: Histogram,
    /// Seconds that were written.
    written: u64,
    /// Gaps whose second was not written yet.
    waiting: Vec<(u64, u64)>,
    so_far: Second,
    last_ns: u64,
    /// The longest since the last progress.
    new_spike: Option<Spike>,
}

impl HardwareSeries {
    fn of(spec: &SeriesSpec, length_ns: u64, writer: SeriesWriter) -> HardwareSeries {
        HardwareSeries {
            spec: spec.clone(),
            length_ns,
            writer,
            histogram: Histogram::new(),
            written: 0,
            waiting: Vec::new(),
            so_far: Second::default(),
            last_ns: 0,
            new_spike: None,
        }
    }

    fn take(&mut self, spike: &Spike) {
        let at_ns = spike.at_ns.min(self.length_ns.saturating_sub(1));
        self.waiting.push((at_ns / NS_PER_S, spike.latency_ns));
        self.so_far = self.so_far.joined(&one(spike.latency_ns));
        self.last_ns = spike.latency_ns;
        if self.new_spike.as_ref().is_none_or(|longest| longest.latency_ns < spike.latency_ns) {
            self.new_spike = Some(spike.clone());
        }
    }

    /// Writes every second before `end`. A gap reported after its second was written counts in the next
    /// one.
    fn hand_on(&mut self, end: u64) -> Result<()> {
        for second in self.written..end {
            let mut row = Second::default();
            for (_, latency_ns) in self.waiting.extract_if(.., |(at, _)| *at <= second) {
                self.histogram.record(latency_ns);
                row = row.joined(&one(latency_ns));
            }
            let totals = self.histogram.buckets().map(|bucket| (bucket.index, bucket.count));
            self.writer.advance(
                &[Second { second: second as u32, ..row }],
                RunningTotals { latency: totals, jitter: std::iter::empty(), cells: std::iter::empty() },
            )?;
        }
        self.written = self.written.max(end);
        Ok(())
    }

    fn progress(&mut self, wants_latency: bool) -> SeriesProgress {
        SeriesProgress {
            key: self.spec.key.clone(),
            thread: 0,
            priority: 0,
            so_far: self.so_far,
            last_ns: self.last_ns,
            limit_ns: self.spec.limit_ns,
            lost: 0,
            latency: wants_latency.then(|| Arc::new(self.histogram.clone())),
            spike: self.new_spike.take(),
        }
    }
}

fn one(latency_ns: u64) -> Second {
    Second { second: 0, count: 1, min_ns: latency_ns, sum_ns: latency_ns, max_ns: latency_ns, missed: 0 }
}

fn spike(key: &RowKey, gap: &Gap, start_ns: u64) -> Spike {
    // The tracer tells wall time alone.
    let age = SystemTime::now().duration_since(gap.wall).unwrap_or_default();
    let monotonic_ns = monotonic_ns().saturating_sub(age.as_nanos() as u64);
    Spike {
        key: key.clone(),
        at_ns: monotonic_ns.saturating_sub(start_ns),
        monotonic_ns,
        wall_time: Some(humantime::format_rfc3339_nanos(gap.wall).to_string()),
        latency_ns: gap.latency_ns,
        missed: 0,
        causes: Vec::new(),
        unexplained_ns: None,
        siblings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::manifest::{Asked, Manifest, RunState, SCHEMA_VERSION, WrittenBy};
    use evidence::writer::{BundleWriter, stem};

    fn series() -> SeriesSpec {
        let key = RowKey {
            probe: "hardware".into(),
            load: "idle".into(),
            cpu: 1,
            period_ns: None,
            thread_name: None,
        };
        SeriesSpec { key, limit_ns: 10_000, threshold_ns: 10_000, followed: None }
    }

    fn manifest() -> Manifest {
        let program = "isolator".to_string();
        Manifest {
            schema_version: SCHEMA_VERSION,
            written_by: WrittenBy { program, version: None, commit: None, command_line: None },
            started_at: None,
            ended_at: None,
            state: RunState::Running,
            machine: machine::Snapshot::default(),
            asked: Asked::default(),
            rows: Vec::new(),
            not_run: Vec::new(),
            notes: Vec::new(),
            taints: Vec::new(),
            causes: None,
        }
    }

    /// A gap that opened `age_ns` ago.
    fn aged(age_ns: u64) -> Gap {
        Gap { cpu: 1, latency_ns: 20_000, wall: SystemTime::now() - Duration::from_nanos(age_ns) }
    }

    #[test]
    fn a_gap_told_late_counts_in_the_next_second_and_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (bundle, series) = (BundleWriter::create(folder.path(), &manifest()).unwrap(), series());
        let mut record = HardwareSeries::of(&series, 3 * NS_PER_S, bundle.series(&series.key, 0.0).unwrap());
        let at = |second: u64| Spike { at_ns: second * NS_PER_S, ..spike(&series.key, &aged(0), 0) };
        record.take(&at(0));
        record.hand_on(1).unwrap();
        record.take(&at(0));
        record.take(&at(1));
        // One that opened when the row was over belongs to its last second.
        record.take(&at(3));
        record.hand_on(3).unwrap();
        record.writer.finish().unwrap();
        let path = folder.path().join("series").join(stem(&series.key) + ".seconds.csv");
        let seconds = std::fs::read_to_string(path).unwrap();
        let counts: Vec<_> = seconds.lines().skip(1).map(|line| &line[..3]).collect();
        assert_eq!(counts, ["0,1", "1,2", "2,1"]);
    }

    #[test]
    fn a_gap_is_placed_by_its_age() {
        let now_ns = monotonic_ns();
        let key = series().key;
        let older = spike(&key, &aged(2 * NS_PER_S), 0);
        let newer = spike(&key, &aged(NS_PER_S), 0);
        assert!(older.at_ns < newer.at_ns && newer.at_ns < now_ns);
        let before_the_row = spike(&key, &aged(NS_PER_S), now_ns + NS_PER_S);
        assert_eq!(before_the_row.at_ns, 0);
    }
}
