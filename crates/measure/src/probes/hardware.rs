// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware probe: what firmware and hardware take from the CPUs behind the kernel's back.
//!
//! Two sources, each where there is one: the kernel's hwlat tracer (`hwlat`), and the count of system
//! management interrupts ([`inspect::counters::smi_count`]).
//!
//! Limits: the tracer watches a part of the time only, and one CPU after the other where its mode is
//! round-robin; a note says which part. Of each stretch it reports the longest gap alone, in whole
//! microseconds, so that a row has one sample a stretch at the most, and a row without samples means that no
//! gap above the threshold was seen. While it watches, interrupts are off: it disturbs whatever else runs on
//! the CPU, other probes included. SMIs alone have no length and make no row.

use std::path::Path;
use std::time::{Duration, SystemTime};

use evidence::kind::RowKind;
use evidence::manifest::{Coarse, Granted};
use evidence::taint::{self, Taint};
use inspect::counters::smi_count;
use rt::clock::monotonic_ns;

use crate::control::{DRAIN_EVERY, LookAt, OpenRow, SampleSource, SourceEnd, TakenSamples};
use crate::error::{MeasureError, Result};
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::schedule::{Length, Schedule, Window};
use crate::series::SeriesSpec;
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

/// The tracer cuts its gaps to whole microseconds.
const DIGITS: Coarse = Coarse {
    resolution_ns: 1_000,
    unit_ns: 1_000,
    below_ns: 0,
    above_ns: 999,
    overflow_from_ns: None,
    overflow_count: 0,
    mean_known: true,
    min_known: true,
    max_known: true,
    count_known: true,
    missed_known: true,
    missed: 0,
};

/// Carries what the tracer tells into the bundle.
fn trace(tracer: &Hwlat, series: &[SeriesSpec], length: Length, recording: &mut Recording<'_>) -> Result<()> {
    let load = series.first().map_or("", |series| &series.key.load);
    let cpus = series.iter().map(|series| series.key.cpu).collect();
    let mut row = OpenRow::begin(RowKind::Hardware.name(), load, cpus, length);
    for series in series {
        row.add_recorded(series.clone(), Schedule::Continuous, &Granted::default(), false, recording)?;
    }
    let entries = recording.manifest.rows.iter_mut();
    entries
        .filter(|entry| entry.key.kind() == RowKind::Hardware)
        .for_each(|entry| entry.coarse = Some(DIGITS));
    recording.write_manifest()?;
    recording.explainer.arm(&[]);
    let window = row.start(monotonic_ns());
    let load = load.to_string();
    row.run(&mut Tracer { tracer, load, window, taken: None, elapsed_ns: 0 }, recording)
}

/// The kernel's tracer, as a source of samples.
struct Tracer<'a> {
    tracer: &'a Hwlat,
    load: String,
    window: Window,
    /// A setting of the tracer that another program changed.
    taken: Option<String>,
    elapsed_ns: u64,
}

impl SampleSource for Tracer<'_> {
    /// The tracer's own thread has the CPU, with interrupts off.
    fn is_explained(&self) -> bool {
        false
    }

    fn take(&mut self, row: &mut OpenRow, at: LookAt, _: &mut Recording<'_>) -> Result<TakenSamples> {
        let Window { start_ns, end_ns, .. } = self.window;
        for gap in self.tracer.gaps() {
            let series = row.series.iter_mut().find(|series| series.spec.key.cpu == gap.cpu);
            let Some(recorder) = series.and_then(|series| series.recorder.as_mut()) else { continue };
            record(recorder, opened_ns(&gap), gap.latency_ns, end_ns);
        }
        self.taken = self.taken.take().or_else(|| self.tracer.taken());
        let is_over = at.is_last();
        self.elapsed_ns = at.now_ns.min(end_ns).saturating_sub(start_ns);
        let seconds = if is_over { self.elapsed_ns.div_ceil(NS_PER_S) } else { self.elapsed_ns / NS_PER_S };
        for recorder in row.series.iter_mut().filter_map(|series| series.recorder.as_mut()) {
            recorder.pass(start_ns + seconds * NS_PER_S);
        }
        Ok(TakenSamples { is_over, wait: Duration::from_nanos(end_ns.saturating_sub(at.now_ns)) })
    }

    fn end(&mut self, _: &mut OpenRow) -> SourceEnd {
        let taken = self.taken.take().map(|what| taken_back(&self.load, what));
        let needed_ns = self.tracer.round_ns();
        let is_short = self.elapsed_ns < needed_ns;
        let short = is_short.then(|| too_short(&self.load, self.elapsed_ns, needed_ns));
        SourceEnd { taints: taken.into_iter().chain(short).collect(), ..SourceEnd::default() }
    }
}

/// Records a gap. One that is reported after its second was handed on counts in the next, and one that opened
/// when the row was over in its last.
fn record(recorder: &mut Recorder, opened_ns: u64, latency_ns: u64, end_ns: u64) {
    recorder.pass(opened_ns.min(end_ns.saturating_sub(1)));
    recorder.report(opened_ns, latency_ns);
}

/// When a gap opened, on CLOCK_MONOTONIC: the tracer tells wall time alone.
fn opened_ns(gap: &Gap) -> u64 {
    let age = SystemTime::now().duration_since(gap.wall).unwrap_or_default();
    monotonic_ns().saturating_sub(age.as_nanos() as u64)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::recorder;

    #[test]
    fn a_gap_told_late_counts_in_the_next_second_and_none_is_lost() {
        let (mut recorder, mut live) = recorder(10_000, Schedule::Continuous);
        recorder.start(0);
        let end_ns = 4 * NS_PER_S;
        let mut gap = |second: u64| record(&mut recorder, second * NS_PER_S, 20_000, end_ns);
        gap(0);
        gap(1);
        // Its second was handed on by then.
        gap(0);
        // The second between has none; one that opened when the row was over belongs to its last second.
        gap(4);
        recorder.pass(end_ns);
        recorder.finish();
        let seconds = live.take_seconds();
        let counts: Vec<_> = seconds.iter().map(|second| (second.second, second.count)).collect();
        assert_eq!(counts, [(0, 1), (1, 2), (2, 0), (3, 1)]);
        assert_eq!(live.take_spikes().len(), 4);
    }

    #[test]
    fn a_gap_is_placed_by_its_age() {
        let aged = |seconds| Gap {
            cpu: 1,
            latency_ns: 20_000,
            wall: SystemTime::now() - Duration::from_secs(seconds),
        };
        let now_ns = monotonic_ns();
        let (older, newer) = (opened_ns(&aged(2)), opened_ns(&aged(1)));
        assert!(older < newer && newer < now_ns);
    }
}
