// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row that threads of ours measure: one probe under one load, on all measured CPUs at once.
//!
//! ```text
//! configured ── arm ──► armed ── start ──► running ── end, or stop ──► finished
//!   threads     threads set up  one common     the control loop drains    threads joined
//!               or refused      start time     their rings
//! ```
//! The caller's thread is the control thread; it must be off the measured CPUs.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use evidence::manifest::Granted;
use rt::Policy;
use rt::clock::monotonic_ns;
use rt::isolation::{Mask, PageCounters};

use crate::control::{DRAIN_EVERY, LookAt, OpenRow, SampleSource, SourceEnd, TakenSamples};
use crate::error::Result;
use crate::probe::{LoopOutcome, Opened, Opening, Probe};
use crate::recording::Recording;
use crate::schedule::Length;
use crate::series::SeriesSpec;

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

/// The settings that the threads of a row have in common.
#[derive(Debug, Clone, Copy)]
pub struct RowSpec {
    /// Thrown away at the start.
    pub warm_up_ns: u64,
    /// How long it lasts after that.
    pub length: Length,
    /// Whether to lock memory.
    pub lock_memory: bool,
    /// The work that the isolator of a CPU defers while its thread measures.
    pub isolate: Option<Mask>,
}

/// One row, as configured: its threads have one probe and one load.
#[derive(Debug)]
pub struct RowPlan {
    /// Its threads.
    pub threads: Vec<MeasuringThread>,
    /// Their common settings.
    pub spec: RowSpec,
}

/// An armed thread: it waits for the start, and then measures.
struct Armed {
    /// Its own series, and the place behind those beside it.
    series: Range<usize>,
    cpu: u32,
    number: Option<u32>,
    thread: Option<JoinHandle<Ended>>,
}

/// The measuring threads of a row, as a source of samples: they come through the rings that the series drain.
struct Threads {
    armed: Vec<Armed>,
    shared: Arc<RowShared>,
}

/// The outcome of a measuring thread.
#[derive(Default)]
struct Ended {
    page_faults: u64,
    isolation: Option<PageCounters>,
    outcome: LoopOutcome,
}

/// The signals that the threads of a row share.
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
        let (load, probe) = threads.first().map_or((String::new(), String::new()), |first| {
            (first.series.key.load.clone(), first.series.key.probe.clone())
        });
        let cpus = threads.iter().map(|thread| thread.series.key.cpu).collect();
        let mut row = OpenRow::begin(&probe, &load, cpus, spec.length);
        let mut source = Threads { armed: Vec::new(), shared: Arc::default() };
        let armed = source.arm(threads, spec, &mut row, recording);
        let written = recording.write_manifest();
        if let Err(error) = armed.and(written) {
            source.stop();
            source.armed.drain(..).for_each(|armed| drop(armed.join()));
            row.discard(recording)?;
            return Err(error);
        }
        let sleeping: Vec<_> =
            source.armed.iter().filter_map(|armed| Some((armed.cpu, armed.number?))).collect();
        recording.explainer.calibrate(&sleeping.iter().map(|(cpu, _)| *cpu).collect());
        recording.explainer.arm(&sleeping);
        let start_ns = monotonic_ns() + LEAD_NS + spec.warm_up_ns;
        row.start(start_ns);
        source.shared.start_ns.store(start_ns, Ordering::SeqCst);
        row.run(&mut source, recording)
    }
}

impl Threads {
    /// Sets up every thread, so that one that is refused leaves none out; an error where one was refused.
    fn arm(
        &mut self,
        threads: Vec<MeasuringThread>,
        spec: RowSpec,
        row: &mut OpenRow,
        recording: &mut Recording<'_>,
    ) -> Result<()> {
        let half_life_s = spec.length.half_life_s();
        let mut refusal = None;
        for MeasuringThread { probe, series, policy, affinity } in threads {
            let opening = Opening { series: &series, bundle: recording.bundle, half_life_s };
            let Opened { arm, drained } = probe.open(&opening)?;
            let (send, receive) = mpsc::channel();
            let name = format!("{}-{}", series.key.probe, series.key.cpu);
            let cpu = series.key.cpu;
            let body = Body { key: series.key, policy, affinity, spec, shared: Arc::clone(&self.shared) };
            let thread = std::thread::Builder::new().name(name).spawn(move || body.run(arm, &send));
            let thread = thread
                .map_err(|e| rt::Error::os("start a measuring thread", &e, "raise the limit on processes"))?;
            let set_up = receive.recv().unwrap_or_else(|_| {
                Err(rt::Error::new(
                    "set up a measuring thread",
                    "it ended at once",
                    "report this as a defect",
                ))
            });
            let (granted, seats) = set_up.unwrap_or_else(|error| {
                refusal.get_or_insert(error);
                (Granted::default(), Vec::new())
            });
            seats.into_iter().for_each(|seat| row.adds(seat));
            let first = row.series.len();
            for (n, (spec, drain)) in drained.into_iter().enumerate() {
                row.add(spec, &granted, (None, drain), n > 0, recording.manifest);
            }
            let (series, number) = (first..row.series.len(), granted.thread);
            self.armed.push(Armed { series, cpu, number, thread: Some(thread) });
        }
        refusal.map_or(Ok(()), |error| Err(error.into()))
    }

    fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }
}

impl Armed {
    /// The outcome of the thread; it was told to stop, or its time is over.
    fn join(self) -> (Range<usize>, Ended) {
        let ended = self.thread.and_then(|thread| thread.join().ok());
        (self.series, ended.unwrap_or_default())
    }
}

impl SampleSource for Threads {
    fn has_threads_here(&self) -> bool {
        true
    }

    fn take(&mut self, _: &mut OpenRow, at: LookAt, _: &mut Recording<'_>) -> Result<TakenSamples> {
        let is_over =
            self.armed.iter().all(|armed| armed.thread.as_ref().is_none_or(JoinHandle::is_finished));
        if at.is_stopped {
            self.stop();
        }
        Ok(TakenSamples { is_over, wait: DRAIN_EVERY })
    }

    fn end(&mut self, row: &mut OpenRow) -> SourceEnd {
        self.stop();
        let mut end = SourceEnd::default();
        for armed in self.armed.drain(..) {
            let (places, Ended { page_faults, isolation, mut outcome }) = armed.join();
            let series = &mut row.series[places];
            series.iter_mut().for_each(|series| series.end.page_faults = Some(page_faults));
            // Stated once, with the thread's own series.
            if let Some(own) = series.first_mut() {
                own.end.isolation = isolation;
                own.end.exchanged = outcome.exchanged.take();
                own.end.drift = outcome.drift;
                end.notes.extend(outcome.note.map(|note| format!("{}: {note}", own.spec.key)));
            }
            end.failed = end.failed.or(outcome.failed.map(Into::into));
        }
        end
    }
}
