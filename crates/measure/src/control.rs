// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control loop of a row: one for every source of samples.
//!
//! ```text
//!            ┌───────────────────────── until the source is over ─────────────────────────┐
//! open ► start ► poll (explainer, watch) ► take ► carry ► observe ► sleep at most 250 ms ─┴► end ► close
//! ```
//! A [`SampleSource`] only takes samples: threads of ours through their rings ([`crate::row`]), a loop that
//! stamps its cycles ([`crate::monitor`]), loops that are followed ([`crate::followed`]), the kernel's tracer
//! ([`crate::probes::hardware`]). Whatever disturbs a row is judged here, for all of them: steal, page
//! faults, memory that is not locked, lost samples, spikes that are not listed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evidence::fact;
use evidence::manifest::{Exchanged, Granted, Manifest};
use evidence::taint::Taint;
use machine::CpuSet;
use rt::clock::monotonic_ns;
use rt::isolation::PageCounters;

use crate::drain::{Drain, Start};
use crate::error::{MeasureError, Result};
use crate::lost::{Lost, drift_taint};
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::schedule::{Length, Schedule, Window};
use crate::series::{RowProgress, SeriesProgress, SeriesSpec};
use crate::steal::Steal;
use crate::watch::{RowWatch, Seat};

/// How often the control thread looks after a row at the least.
pub(crate) const DRAIN_EVERY: Duration = Duration::from_millis(250);

/// How often memory that is free goes back to the kernel.
const SWEEP_EVERY_NS: u64 = 60_000_000_000;

/// The outcome of a poll.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenSamples {
    /// Whether that was the last.
    pub is_over: bool,
    /// How long the control thread may be away at the most.
    pub wait: Duration,
}

/// When a poll is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookAt {
    /// CLOCK_MONOTONIC, before anything is taken.
    pub now_ns: u64,
    /// Whether the row's time is over.
    pub is_past_end: bool,
    /// Whether the user ends the run.
    pub is_stopped: bool,
}

impl LookAt {
    /// Whether the row is to end now.
    pub(crate) fn is_last(&self) -> bool {
        self.is_past_end || self.is_stopped
    }
}

/// The words of a source that is over.
#[derive(Debug, Default)]
pub(crate) struct SourceEnd {
    /// For a reader of the evidence.
    pub notes: Vec<String>,
    /// Disturbances that it alone can see.
    pub taints: Vec<Taint>,
    /// Why it ended before its time, or has no samples.
    pub failed: Option<MeasureError>,
}

/// Where a row's samples come from.
pub(crate) trait SampleSource {
    /// Whether threads of this program measure: giving memory back would interrupt their CPUs.
    fn has_threads_here(&self) -> bool {
        false
    }

    /// Whether its spikes have causes: not where that which measures has the CPU itself meanwhile.
    fn is_explained(&self) -> bool {
        true
    }

    /// Takes the samples that have come into the series of `row`.
    fn take(&mut self, row: &mut OpenRow, at: LookAt, recording: &mut Recording<'_>) -> Result<TakenSamples>;

    /// Called once all of that is in the bundle.
    fn carried(&mut self, recording: &mut Recording<'_>) {
        let _ = recording;
    }

    /// Ends it, whatever came before: nothing of it runs on afterwards.
    fn end(&mut self, row: &mut OpenRow) -> SourceEnd;
}

/// Facts of a series that are known only when it is over.
#[derive(Debug, Default)]
pub(crate) struct SeriesEnd {
    /// Page faults of its thread.
    pub page_faults: Option<u64>,
    /// Counts of the kernel part, by the counter's name.
    pub isolation: Option<PageCounters>,
    /// Results of EtherCAT cycles.
    pub exchanged: Option<Exchanged>,
    /// How far the processor's counter was off.
    pub drift: Option<f64>,
}

/// A series of a row under way.
pub(crate) struct OpenSeries {
    pub spec: SeriesSpec,
    /// Where the control thread records the samples itself.
    pub recorder: Option<Recorder>,
    /// Cycles that the source lost so far, beside those that the ring lost.
    pub lost: u64,
    pub end: SeriesEnd,
    /// Whether it is beside another one of the same thread, with which disturbances are stated.
    is_beside: bool,
    thread: u32,
    priority: u32,
    drain: Drain,
    entry: usize,
}

/// A row under way.
pub(crate) struct OpenRow {
    /// Over what may disturb it here: not over a trace of another time.
    watch: Option<RowWatch>,
    pub series: Vec<OpenSeries>,
    label: String,
    length: Length,
    start: Option<Start>,
    steal: Steal,
}

impl OpenRow {
    /// A row of a recorded trace: nothing of this machine disturbs it.
    pub(crate) fn of_trace(label: &str) -> OpenRow {
        let (series, steal, length) = (Vec::new(), Steal::default(), Length::default());
        OpenRow { watch: None, series, label: label.to_string(), length, start: None, steal }
    }

    /// A row without series yet, which notes call `label`, under `load` on `cpus`.
    pub(crate) fn begin(label: &str, load: &str, cpus: CpuSet, length: Length) -> OpenRow {
        let watch = Some(RowWatch::begin(load, cpus));
        let (series, steal) = (Vec::new(), Steal::default());
        OpenRow { watch, series, label: label.to_string(), length, start: None, steal }
    }

    /// Watches a thread of another program, where it is there.
    pub(crate) fn watch_thread(&mut self, what: String, process: u32, thread: u32, cpu: u32) {
        Seat::of(what, process, thread, cpu, Some(cpu)).into_iter().for_each(|seat| self.adds(seat));
    }

    /// Watches a thread of this program too.
    pub(crate) fn adds(&mut self, seat: Arc<Seat>) {
        self.watch.iter_mut().for_each(|watch| watch.add(Arc::clone(&seat)));
    }

    /// Adds a series that has begun, and its entry; its place in the row.
    pub(crate) fn add(
        &mut self,
        spec: SeriesSpec,
        granted: &Granted,
        (recorder, mut drain): (Option<Recorder>, Drain),
        is_beside: bool,
        manifest: &mut Manifest,
    ) -> usize {
        let mut recorder = recorder;
        if let Some(start) = self.start {
            drain.start(start);
            recorder.iter_mut().for_each(|recorder| recorder.start(start.window.start_ns));
        }
        let entry = manifest.rows.len();
        manifest.rows.push(spec.entry(granted));
        let (thread, priority) = (granted.thread.unwrap_or(0), granted.priority.unwrap_or(0));
        let (lost, end) = (0, SeriesEnd::default());
        self.series.push(OpenSeries { spec, recorder, lost, end, is_beside, thread, priority, drain, entry });
        self.series.len() - 1
    }

    /// Adds a series of which the control thread records every sample.
    pub(crate) fn add_recorded(
        &mut self,
        spec: SeriesSpec,
        schedule: Schedule,
        granted: &Granted,
        is_beside: bool,
        recording: &mut Recording<'_>,
    ) -> Result<usize> {
        let (recorder, drain) =
            Drain::recorded(&spec, schedule, recording.bundle, self.length.half_life_s())?;
        Ok(self.add(spec, granted, (Some(recorder), drain), is_beside, recording.manifest))
    }

    /// The recorder of the series at `place`, which was added as one that is recorded here.
    pub(crate) fn recorder(&mut self, place: usize) -> Option<&mut Recorder> {
        self.series.get_mut(place)?.recorder.as_mut()
    }

    /// When it begins, and from when on no cycle is due: CLOCK_MONOTONIC.
    pub(crate) fn window(&self) -> Window {
        self.start.map_or(self.length.from(0), |start| start.window)
    }

    /// Says when the row begins; its series carry nothing before.
    pub(crate) fn start(&mut self, start_ns: u64) -> Window {
        let is_here = self.watch.is_some();
        let wall = SystemTime::now() + Duration::from_nanos(start_ns.saturating_sub(monotonic_ns()));
        let start = Start { window: self.length.from(start_ns), wall: is_here.then_some(wall) };
        self.start = Some(start);
        if is_here {
            self.steal = Steal::now();
        }
        for OpenSeries { drain, recorder, .. } in &mut self.series {
            drain.start(start);
            recorder.iter_mut().for_each(|recorder| recorder.start(start_ns));
        }
        start.window
    }

    /// Removes a row that was never measured, with its entries.
    pub(crate) fn discard(self, recording: &mut Recording<'_>) -> Result<()> {
        let first = self.series.iter().map(|series| series.entry).min();
        first.into_iter().for_each(|first| recording.manifest.rows.truncate(first));
        self.series.into_iter().try_for_each(|series| series.drain.discard())?;
        recording.write_manifest()
    }

    /// Measures the row to its end: what disturbed it goes into the manifest. Nothing of it runs on
    /// afterwards, whatever the outcome.
    pub(crate) fn run(mut self, source: &mut dyn SampleSource, recording: &mut Recording<'_>) -> Result<()> {
        let carried = self.carry_all(source, recording);
        let SourceEnd { notes, taints, failed } = source.end(&mut self);
        recording.manifest.notes.extend(notes);
        recording.manifest.taints.extend(taints);
        let closed = self.close(recording);
        carried.and(failed.map_or(Ok(()), Err)).and(closed)?;
        recording.write_manifest()
    }

    /// The loop.
    fn carry_all(&mut self, source: &mut dyn SampleSource, recording: &mut Recording<'_>) -> Result<()> {
        let end_ns = self.window().end_ns;
        let (is_explained, mut swept_ns) = (source.is_explained(), None);
        loop {
            // Before the poll: what was due until then has come, but for the cycle under way.
            let now_ns = monotonic_ns();
            // The start of a collector needs most memory: it reads the kernel's types.
            let is_to_sweep = swept_ns.is_none_or(|at_ns| now_ns >= at_ns + SWEEP_EVERY_NS);
            if is_to_sweep && !source.has_threads_here() {
                rt::heap::sweep();
                swept_ns = Some(now_ns);
            }
            recording.explainer.poll();
            self.watch.iter_mut().for_each(RowWatch::poll);
            // The times of a trace are those of another machine.
            let is_past_end = now_ns >= end_ns && self.watch.is_some();
            let at = LookAt { now_ns, is_past_end, is_stopped: recording.is_stopped() };
            let taken = source.take(self, at, recording)?;
            for OpenSeries { recorder, drain, .. } in &mut self.series {
                let explainer = is_explained.then_some(&mut *recording.explainer);
                if taken.is_over {
                    recorder.iter_mut().for_each(Recorder::finish);
                    drain.carry_last(recording.bundle, explainer)?;
                } else {
                    drain.carry(recording.bundle, explainer)?;
                }
            }
            source.carried(recording);
            (recording.observe)(&self.progress(recording.wants_latency));
            if taken.is_over {
                return Ok(());
            }
            std::thread::sleep(DRAIN_EVERY.min(taken.wait));
        }
    }

    /// How it stands, for a live display; with all samples so far where it wants these.
    fn progress(&self, wants_latency: bool) -> RowProgress {
        let start_ns = self.start.map_or(u64::MAX, |start| start.window.start_ns);
        RowProgress {
            elapsed: Duration::from_nanos(monotonic_ns().saturating_sub(start_ns)),
            length: self.length.duration(),
            series: self.series.iter().map(|series| series.progress(wants_latency)).collect(),
        }
    }

    /// Ends the series: their entries get their last word, the manifest what disturbed them.
    fn close(self, recording: &mut Recording<'_>) -> Result<()> {
        let mut result = recording.bundle.settle_spikes().map_err(Into::into);
        let (state, manifest) = (recording.state(), &mut *recording.manifest);
        let steal = if self.watch.is_some() { Steal::now() } else { Steal::default() };
        for OpenSeries { spec, entry, drain, end, is_beside, .. } in self.series {
            let key = &spec.key;
            let row = &mut manifest.rows[entry];
            row.state = state;
            (row.spikes, row.spikes_not_listed) = drain.spikes(recording.bundle);
            let granted = &mut row.granted;
            granted.page_faults = end.page_faults.or(granted.page_faults);
            granted.steal_ns = steal.since(&self.steal, key.cpu);
            granted.isolation = end.isolation.map(by_name);
            granted.ethercat = end.exchanged;
            if !is_beside {
                let taints = fact::taints_of(manifest, &manifest.rows[entry]);
                manifest.taints.extend(taints);
            }
            manifest.taints.extend(Lost::Wakeups.taint(key, drain.lost()));
            manifest.taints.extend(end.drift.and_then(|drift| drift_taint(key, drift)));
            result = result.and(drain.finish());
        }
        let (taints, notes) = self.watch.map(|watch| watch.end(&self.label)).unwrap_or_default();
        manifest.taints.extend(taints);
        manifest.notes.extend(notes);
        result
    }
}

fn by_name(counts: PageCounters) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_string(), count)).collect()
}

impl OpenSeries {
    fn progress(&self, wants_latency: bool) -> SeriesProgress {
        let carried = self.drain.so_far();
        let so_far = self.recorder.as_ref().map_or(carried, |recorder| recorder.second().joined(&carried));
        SeriesProgress {
            key: self.spec.key.clone(),
            thread: self.thread,
            priority: self.priority,
            so_far,
            last_ns: self.drain.last_ns(),
            limit_ns: self.spec.limit_ns,
            lost: self.drain.lost() + self.lost,
            latency: wants_latency.then(|| Arc::new(self.drain.latency(&so_far))),
            spike: self.drain.new_spike(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use cause::Explainer;
    use evidence::Bundle;
    use evidence::kind::RowKind;
    use evidence::manifest::{Asked, RowKey, RunState};
    use evidence::taint;
    use evidence::writer::BundleWriter;
    use machine::snapshot::Preemption;

    use super::*;

    /// A source whose one poll brings a sample for each series, of which the first lost two.
    struct OnePoll;

    impl SampleSource for OnePoll {
        fn take(&mut self, row: &mut OpenRow, at: LookAt, _: &mut Recording<'_>) -> Result<TakenSamples> {
            for recorder in row.series.iter_mut().filter_map(|series| series.recorder.as_mut()) {
                recorder.span(at.now_ns, 20_000);
            }
            row.series[0].lost = 2;
            Ok(TakenSamples { is_over: true, wait: DRAIN_EVERY })
        }

        fn end(&mut self, row: &mut OpenRow) -> SourceEnd {
            let lost = Lost::Cycles.taint(&row.series[0].spec.key, row.series[0].lost);
            SourceEnd { taints: lost.into_iter().collect(), ..SourceEnd::default() }
        }
    }

    fn manifest() -> Manifest {
        let mut manifest = Manifest::new("isolator", Asked::default());
        manifest.state = RunState::Running;
        manifest.machine.hostname = Some("robot".into());
        manifest.machine.kernel.preemption = Preemption::RealTime;
        manifest
    }

    fn spec(kind: RowKind) -> SeriesSpec {
        let key = RowKey::new(kind.name(), "idle", 0, None);
        SeriesSpec { key, limit_ns: 10_000, threshold_ns: 10_000, followed: None }
    }

    /// The bundle of a row of these kinds, each beside the first, with those grants.
    fn measured(kinds: &[RowKind], granted: &Granted) -> Bundle {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = manifest();
        let mut bundle = BundleWriter::create(folder.path(), &manifest).unwrap();
        let mut recording = Recording {
            bundle: &mut bundle,
            manifest: &mut manifest,
            stop: &AtomicBool::new(false),
            explainer: &mut Explainer::default(),
            wants_latency: true,
            observe: &mut |progress| assert_eq!(progress.series[0].lost, 2),
        };
        let mut row = OpenRow::begin("row", "idle", CpuSet::from_iter([0]), Length::default());
        for (n, kind) in kinds.iter().enumerate() {
            row.add_recorded(spec(*kind), Schedule::Continuous, granted, n > 0, &mut recording).unwrap();
        }
        row.start(monotonic_ns());
        row.run(&mut OnePoll, &mut recording).unwrap();
        drop(bundle);
        Bundle::open(folder.path()).unwrap()
    }

    #[test]
    fn every_source_closes_its_entries_alike() {
        let bundle = measured(&[RowKind::Hardware], &Granted::default());
        let entry = &bundle.manifest.rows[0];
        assert_eq!((entry.state, entry.spikes, entry.spikes_not_listed), (RunState::Finished, 1, 0));
        // Where the kernel counts it: the hardware row too can be tainted by steal.
        assert_eq!(entry.granted.steal_ns.is_some(), Steal::now().since(&Steal::now(), 0).is_some());
        assert_eq!(bundle.spikes.len(), 1);
        assert_eq!(bundle.rows[0].series.latency.count(), 1);
    }

    #[test]
    fn facts_of_a_thread_taint_its_row_once() {
        let granted =
            Granted { memory_locked: Some(false), policy: Some("other".into()), ..Granted::default() };
        let bundle = measured(&[RowKind::Loop, RowKind::Execution], &granted);
        let count = |code: &str| bundle.manifest.taints.iter().filter(|taint| taint.code == code).count();
        assert_eq!(
            [taint::MEMORY_NOT_LOCKED, taint::NOT_REAL_TIME_POLICY, taint::SAMPLES_LOST].map(count),
            [1, 1, 1]
        );
        let verdict = evidence::Verdict::of(&bundle);
        let untold = |reason: &&machine::quantity::Sentence| reason.contains("no taint says so");
        assert_eq!(verdict.reasons.iter().find(untold), None);
    }
}
