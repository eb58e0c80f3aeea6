// SPDX-License-Identifier: MIT OR Apache-2.0
//! One row of a run: one probe under one load, on all measured CPUs at once.
//!
//! ```text
//! configured ── arm ──► armed ── start ──► running ── end, or stop ──► finished
//!   threads     threads set up  one common     control thread drains      series closed,
//!               or refused      start time     every 250 ms               what disturbed it noted
//! ```
//! The caller's thread is the control thread; it must be off the measured CPUs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use evidence::manifest::{Granted, RunState};
use rt::Policy;
use rt::clock::monotonic_ns;
use rt::isolation::{Mask, PageCounters};

use crate::disturbed::taints;
use crate::drain::{Drain, Start};
use crate::error::Result;
use crate::probe::{LoopOutcome, Opened, Opening, Probe};
use crate::recording::{DRAIN_EVERY, Recording};
use crate::schedule::Length;
use crate::series::{RowProgress, SeriesProgress, SeriesSpec};
use crate::steal::Steal;
use crate::watch::{RowWatch, Seat};

mod body;

use body::Body;

/// Time for the threads to reach their first sleep.
const LEAD_NS: u64 = 20_000_000;

/// One measuring thread.
#[derive(Debug)]
pub struct MeasuringThread {
    /// Its probe.
    pub probe: Box<dyn Probe>,
    /// Its own series; a probe may have others beside it.
    pub series: SeriesSpec,
    /// The policy it asks for.
    pub policy: Policy,
    /// CPUs that it asks for: its own, or with the deadline policy what the kernel demands
    /// ([`machine::Snapshot::deadline_cpus`]).
    pub affinity: Vec<u32>,
}

/// What the threads of a row have in common.
#[derive(Debug, Clone, Copy)]
pub struct RowSpec {
    /// Thrown away at the start.
    pub warm_up_ns: u64,
    /// How long it lasts after that.
    pub length: Length,
    /// Whether to lock memory.
    pub lock_memory: bool,
    /// What each thread has its CPU's isolator defer while it measures.
    pub isolate: Option<Mask>,
}

/// One row, as configured: its threads have one probe and one load.
#[derive(Debug)]
pub struct RowPlan {
    /// Its threads.
    pub threads: Vec<MeasuringThread>,
    /// What they have in common.
    pub spec: RowSpec,
}

/// An armed thread: it waits for the start.
struct Armed {
    /// Its own, and those beside it.
    series: Vec<ThreadSeries>,
    cpu: u32,
    granted: Granted,
    /// Itself and those that have a part in it.
    seats: Vec<Arc<Seat>>,
    thread: JoinHandle<Ended>,
}

/// A series that a measuring thread fills.
struct ThreadSeries {
    spec: SeriesSpec,
    drain: Drain,
    entry: usize,
}

/// What a measuring thread leaves behind.
#[derive(Default)]
struct Ended {
    page_faults: u64,
    isolation: Option<PageCounters>,
    outcome: LoopOutcome,
}

/// What the threads of a row share.
#[derive(Default)]
struct RowShared {
    /// When recording begins; 0 until that is known.
    start_ns: AtomicU64,
    stop: AtomicBool,
}

impl RowShared {
    /// Waits for the start, and does `meanwhile` again and again; `None` where there is none.
    fn wait(&self, mut meanwhile: impl FnMut()) -> Option<u64> {
        loop {
            match (self.stop.load(Ordering::SeqCst), self.start_ns.load(Ordering::SeqCst)) {
                (true, _) => return None,
                (false, 0) => meanwhile(),
                (false, start_ns) => return Some(start_ns),
            }
        }
    }
}

impl RowPlan {
    /// Measures the row; its entries and what disturbed it go into the manifest. Ends early, in order, when
    /// it is stopped. Nothing of it runs on afterwards, whatever the outcome.
    pub fn measure(self, recording: &mut Recording<'_>) -> Result<()> {
        let RowPlan { threads, spec } = self;
        let shared = Arc::new(RowShared::default());
        let (load, probe) = threads.first().map_or((String::new(), String::new()), |first| {
            (first.series.key.load.clone(), first.series.key.probe.clone())
        });
        let mut watch = RowWatch::begin(&load, threads.iter().map(|thread| thread.series.key.cpu).collect());
        let mut armed = arm(threads, spec, &shared, recording).inspect_err(|_| {
            // Threads that are armed already end by themselves.
            shared.stop.store(true, Ordering::SeqCst);
        })?;
        armed.iter().flat_map(|armed| &armed.seats).for_each(|seat| watch.add(Arc::clone(seat)));
        let thread = |armed: &Armed| Some((armed.cpu, armed.granted.thread?));
        let sleeping: Vec<_> = armed.iter().filter_map(thread).collect();
        recording.explainer.calibrate(&sleeping.iter().map(|(cpu, _)| *cpu).collect());
        recording.explainer.arm(&sleeping);
        let steal = Steal::now();
        let start_ns = monotonic_ns() + LEAD_NS + spec.warm_up_ns;
        let wall = SystemTime::now() + Duration::from_nanos(start_ns.saturating_sub(monotonic_ns()));
        let start = Start { window: spec.length.from(start_ns), wall };
        armed.iter_mut().flat_map(|armed| &mut armed.series).for_each(|series| series.drain.start(start));
        shared.start_ns.store(start_ns, Ordering::SeqCst);
        let drained = drain(&mut armed, spec.length, &shared, &mut watch, recording);
        shared.stop.store(true, Ordering::SeqCst);
        let finished = finish(armed, recording.state(), &steal, recording);
        let (taints, notes) = watch.end(&probe);
        recording.manifest.taints.extend(taints);
        recording.manifest.notes.extend(notes);
        drained.and(finished)?;
        recording.write_manifest()
    }
}

/// Sets up every thread; where one is refused, all end and the refusal is returned.
fn arm(
    threads: Vec<MeasuringThread>,
    spec: RowSpec,
    shared: &Arc<RowShared>,
    recording: &mut Recording<'_>,
) -> Result<Vec<Armed>> {
    let half_life_s = spec.length.half_life_s();
    let (mut armed, mut refusal) = (Vec::new(), None);
    for MeasuringThread { probe, series, policy, affinity } in threads {
        let opening = Opening { series: &series, bundle: recording.bundle, half_life_s };
        let Opened { arm, drained } = probe.open(&opening)?;
        let (send, receive) = mpsc::channel();
        let name = format!("{}-{}", series.key.probe, series.key.cpu);
        let cpu = series.key.cpu;
        let body = Body { key: series.key, policy, affinity, spec, shared: Arc::clone(shared) };
        let thread = std::thread::Builder::new().name(name).spawn(move || body.run(arm, &send));
        let thread = thread
            .map_err(|e| rt::Error::os("start a measuring thread", &e, "raise the limit on processes"))?;
        let granted = receive.recv().unwrap_or_else(|_| {
            Err(rt::Error::new("set up a measuring thread", "it ended at once", "report this as a defect"))
        });
        let (granted, seats) = granted.unwrap_or_else(|error| {
            refusal.get_or_insert(error);
            (Granted::default(), Vec::new())
        });
        let series = drained.into_iter().map(|(spec, drain)| {
            recording.manifest.rows.push(spec.entry(&granted));
            ThreadSeries { spec, drain, entry: recording.manifest.rows.len() - 1 }
        });
        armed.push(Armed { series: series.collect(), cpu, granted, seats, thread });
    }
    let written = recording.write_manifest();
    if refusal.is_none() && written.is_ok() {
        return Ok(armed);
    }
    shared.stop.store(true, Ordering::SeqCst);
    let rows: usize = armed.iter().map(|armed| armed.series.len()).sum();
    recording.manifest.rows.truncate(recording.manifest.rows.len() - rows);
    for Armed { series, thread, .. } in armed {
        // Its thread was told to stop before it measured anything; how it ended says nothing more.
        let _ = thread.join();
        for series in series {
            series.drain.discard()?;
        }
    }
    recording.write_manifest()?;
    written?;
    refusal.map_or(Ok(Vec::new()), |error| Err(error.into()))
}

/// Carries the recorders' data into the bundle until every thread has ended.
fn drain(
    armed: &mut [Armed],
    length: Length,
    shared: &RowShared,
    watch: &mut RowWatch,
    recording: &mut Recording<'_>,
) -> Result<()> {
    let start_ns = shared.start_ns.load(Ordering::SeqCst);
    loop {
        let over = armed.iter().all(|armed| armed.thread.is_finished());
        recording.explainer.look();
        watch.look();
        for ThreadSeries { drain, .. } in armed.iter_mut().flat_map(|armed| &mut armed.series) {
            if over {
                drain.carry_last(recording.bundle, recording.explainer)?;
            } else {
                drain.carry(recording.bundle, recording.explainer)?;
            }
        }
        let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(start_ns));
        let series = armed.iter().flat_map(|armed| armed.progress(recording.wants_latency)).collect();
        (recording.observe)(&RowProgress { elapsed, length: length.duration(), series });
        if over {
            return Ok(());
        }
        if recording.is_stopped() {
            shared.stop.store(true, Ordering::SeqCst);
        }
        std::thread::sleep(DRAIN_EVERY);
    }
}

/// Joins the threads, closes the series and notes what disturbed them.
fn finish(armed: Vec<Armed>, state: RunState, steal: &Steal, recording: &mut Recording<'_>) -> Result<()> {
    recording.bundle.settle_spikes()?;
    let manifest = &mut *recording.manifest;
    let steal_now = Steal::now();
    let mut result = Ok(());
    for Armed { series, thread, .. } in armed {
        let Ended { page_faults, mut isolation, mut outcome } = thread.join().unwrap_or_default();
        for (n, ThreadSeries { spec, drain, entry }) in series.into_iter().enumerate() {
            let entry = &mut manifest.rows[entry];
            entry.state = state;
            (entry.spikes, entry.spikes_not_listed) = drain.spikes(recording.bundle);
            entry.granted.page_faults = Some(page_faults);
            entry.granted.steal_ns = steal_now.since(steal, spec.key.cpu);
            // Stated once, with the thread's own series; what was lost, with each.
            let (granted, drift) = if n == 0 {
                entry.granted.isolation = isolation.take().map(|counts| {
                    counts.into_iter().map(|(name, count)| (name.to_string(), count)).collect()
                });
                entry.granted.ethercat = outcome.exchanged.take();
                manifest.notes.extend(outcome.note.take().map(|note| format!("{}: {note}", spec.key)));
                (entry.granted.clone(), outcome.drift.take())
            } else {
                (Granted::default(), None)
            };
            manifest.taints.extend(taints(&spec.key, &granted, drift, drain.lost()));
            result = result.and(drain.finish());
        }
        result = result.and(outcome.failed.map_or(Ok(()), |why| Err(why.into())));
    }
    result
}

impl Armed {
    fn progress(&self, wants_latency: bool) -> impl Iterator<Item = SeriesProgress> + '_ {
        self.series.iter().map(move |ThreadSeries { spec, drain, .. }| SeriesProgress {
            key: spec.key.clone(),
            thread: self.granted.thread.unwrap_or(0),
            priority: self.granted.priority.unwrap_or(0),
            so_far: drain.so_far(),
            last_ns: drain.last_ns(),
            limit_ns: spec.limit_ns,
            lost: drain.lost(),
            latency: wants_latency.then(|| Arc::new(drain.latency(&drain.so_far()))),
            spike: drain.new_spike(),
        })
    }
}
