// SPDX-License-Identifier: MIT OR Apache-2.0
//! One row of a run: one probe under one load, on all measured CPUs at once.
//!
//! ```text
//! configured ── arm ──► armed ── start ──► running ── end, or stop ──► finished
//!   lanes       threads set up  one common     control thread drains      series closed,
//!               or refused      start time     every 250 ms               what disturbed it noted
//! ```
//! The caller's thread is the control thread; it must be off the measured CPUs (see [`crate::control`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use evidence::histogram::Histogram;
use evidence::manifest::{Exchanged, Granted, Manifest, RowEntry, RowKey, Second, State};
use evidence::writer::{BundleWriter, stem};
use rt::Policy;
use rt::clock::{Calibration, monotonic_ns};
use rt::isolation::{Counters, Mask};

use crate::disturbed::taints;
use crate::drain::{Drain, Start};
use crate::error::Result;
use crate::ethercat::{self, Wire};
use crate::explain::Explain;
use crate::message;
use crate::recorder::Recorder;
use crate::response::{self, Wiring};
use crate::samples::Samples;
use crate::spin::{self, ShortGaps};
use crate::steal::Steal;
use crate::watch::{Seat, Watch};

mod body;

use body::Body;

/// How often the control thread looks after the rows.
pub(crate) const DRAIN_EVERY: Duration = Duration::from_millis(250);

/// Time for the threads to reach their first sleep.
const LEAD_NS: u64 = 20_000_000;

/// A glow in the persistence picture halves this many times during a row.
const HALF_LIVES: f64 = 4.0;

/// A duration of at least this has no end but the user's.
pub const ENDLESS_NS: u64 = u64::MAX / 4;

/// Half-life of a glow where no end is known.
const ENDLESS_HALF_LIFE_S: f64 = 60.0;

/// The probes by name: those of [`Probe`] and [`crate::hardware`]. `message` stands for all of [`message::MEANS`],
/// `response` for those of [`response::MEANS`] that are asked.
pub const PROBES: [&str; 7] =
    ["wakeup", "spin", "toggle", message::MESSAGE, response::PROBE, ethercat::PROBE, "hardware"];

/// What the threads of a row do.
#[derive(Debug, Clone)]
pub enum Probe {
    /// Sleep and see how late they wake; the timer is one of [`crate::wakeup::TIMERS`].
    Wakeup {
        /// The timer's name.
        timer: String,
    },
    /// Read the processor's counter without pause.
    Spin {
        /// The counter's rate.
        clock: Calibration,
    },
    /// Store to a channel each period, by the processor's counter.
    Toggle {
        /// The counter's rate.
        clock: Calibration,
    },
    /// Signal another CPU each period, and wait for its answer.
    Message {
        /// The counter's rate.
        clock: Calibration,
        /// How they travel.
        means: message::Means,
    },
    /// Make edges of an input edges of an output, or give them.
    Response {
        /// The counter's rate.
        clock: Calibration,
        /// What is polled and driven.
        wiring: Wiring,
    },
    /// Exchange process data with EtherCAT SubDevices each period.
    Ethercat {
        /// What it drives.
        wire: Wire,
    },
}

/// One measuring thread.
#[derive(Debug, Clone)]
pub struct Lane {
    /// What identifies its series.
    pub key: RowKey,
    /// The policy it asks for.
    pub policy: Policy,
    /// CPUs that it asks for: its own, or with the deadline policy what the kernel demands
    /// ([`machine::Snapshot::deadline_cpus`]).
    pub affinity: Vec<u32>,
    /// The limit that judges it.
    pub limit_ns: Option<u64>,
    /// Above this a sample is listed as a spike.
    pub threshold_ns: u64,
    /// For the message probe the CPU that answers, for the response probe the one that edges come from, and how its
    /// thread is scheduled.
    pub partner: Option<(u32, Policy)>,
}

/// One row, as configured.
#[derive(Debug, Clone)]
pub struct Row {
    /// What its threads do.
    pub probe: Probe,
    /// Its threads.
    pub lanes: Vec<Lane>,
    /// Thrown away at the start.
    pub warm_up_ns: u64,
    /// How long it lasts; with `loops` it may end earlier.
    pub duration_ns: u64,
    /// Cycles to record at the most.
    pub loops: u64,
    /// Whether to lock memory.
    pub lock_memory: bool,
    /// What each thread has its CPU's isolator defer while it measures.
    pub isolate: Option<Mask>,
}

/// How soon a glow halves in a row that lasts so long.
pub(crate) fn half_life_s(duration_ns: u64) -> f64 {
    match duration_ns {
        ..ENDLESS_NS => duration_ns as f64 / 1e9 / HALF_LIVES,
        _ => ENDLESS_HALF_LIFE_S,
    }
}

/// How a lane stands, for a live display.
#[derive(Debug, Clone)]
pub struct LaneProgress {
    /// Which series.
    pub key: RowKey,
    /// The thread's number, priority in force.
    pub thread: u32,
    /// Its real-time priority, 0 where it has none.
    pub priority: u32,
    /// What was recorded so far, as if one second.
    pub so_far: Second,
    /// The latest sample.
    pub last_ns: u64,
    /// The limit that judges it.
    pub limit_ns: Option<u64>,
    /// Cycles lost so far.
    pub lost: u64,
    /// All samples so far, where they are wanted live: those of a program's own loop.
    pub latency: Option<Histogram>,
}

/// How a row stands.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Time since recording began; zero during the warm-up.
    pub elapsed: Duration,
    /// The row's length where it is known.
    pub length: Option<Duration>,
    /// Each lane.
    pub lanes: Vec<LaneProgress>,
}

/// An armed lane: its thread waits for the start.
struct Armed {
    /// The lane's own, and those beside it.
    series: Vec<Series>,
    granted: Granted,
    /// Its thread and those that have a part in it.
    seats: Vec<Arc<Seat>>,
    thread: JoinHandle<Ended>,
}

/// A series that a measuring thread fills.
struct Series {
    lane: Lane,
    drain: Drain,
    entry: usize,
}

/// Where a measuring thread puts what it sees.
enum Pen {
    Wakeups(Samples),
    Gaps(Recorder, ShortGaps),
    Ethercat(ethercat::Pens),
}

/// What a measuring thread leaves behind.
#[derive(Default)]
struct Ended {
    page_faults: u64,
    drift: Option<spin::Drift>,
    isolation: Option<Counters>,
    /// Why it ended before its time.
    failed: Option<rt::Error>,
    /// What its samples do not tell.
    note: Option<String>,
    /// Likewise, of the EtherCAT probe.
    exchanged: Option<Exchanged>,
}

/// What the threads of a row share.
#[derive(Default)]
struct Shared {
    /// When recording begins; 0 until that is known.
    start_ns: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
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

impl Row {
    /// Measures the row into `bundle`, its spikes with what `explain` knows of them; its entries and what disturbed it go into `manifest`.
    /// Ends early, in order, when `stop` is set. Nothing of it runs on afterwards, whatever the outcome.
    pub fn measure(
        &self,
        bundle: &mut BundleWriter,
        manifest: &mut Manifest,
        stop: &AtomicBool,
        explain: &mut dyn Explain,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<()> {
        let shared = Arc::new(Shared::default());
        let load = self.lanes.first().map_or("", |lane| &lane.key.load);
        let mut watch = Watch::begin(load, self.lanes.iter().map(|lane| lane.key.cpu).collect());
        let mut armed = self.arm(&shared, bundle, manifest).inspect_err(|_| {
            // Threads that are armed already end by themselves.
            shared.stop.store(true, Ordering::SeqCst);
        })?;
        armed.iter().flat_map(|armed| &armed.seats).for_each(|seat| watch.add(Arc::clone(seat)));
        let thread = |armed: &Armed| Some((armed.series[0].lane.key.cpu, armed.granted.thread?));
        explain.begin(&armed.iter().filter_map(thread).collect::<Vec<_>>());
        let steal = Steal::now();
        let start_ns = monotonic_ns() + LEAD_NS + self.warm_up_ns;
        let wall = SystemTime::now() + Duration::from_nanos(start_ns.saturating_sub(monotonic_ns()));
        let start = Start { monotonic_ns: start_ns, wall, end_ns: self.end_ns(start_ns), loops: self.loops };
        armed.iter_mut().flat_map(|armed| &mut armed.series).for_each(|series| series.drain.start(start));
        shared.start_ns.store(start_ns, Ordering::SeqCst);
        let drained = self.drain(&mut armed, bundle, &shared, stop, &mut watch, explain, observe);
        shared.stop.store(true, Ordering::SeqCst);
        let state = if stop.load(Ordering::SeqCst) { State::Interrupted } else { State::Finished };
        let finished = self.finish(armed, manifest, state, &steal);
        let (taints, notes) = watch.end(self.lanes.first().map_or("", |lane| &lane.key.probe));
        manifest.taints.extend(taints);
        manifest.notes.extend(notes);
        drained.and(finished)?;
        bundle.manifest(manifest)?;
        Ok(())
    }

    /// When it ends, begun at `start_ns`.
    fn end_ns(&self, start_ns: u64) -> u64 {
        start_ns.saturating_add(self.duration_ns)
    }

    /// The rate of the spin probe's counter.
    fn clock(&self) -> Option<Calibration> {
        match &self.probe {
            Probe::Wakeup { .. } | Probe::Ethercat { .. } => None,
            Probe::Spin { clock } | Probe::Toggle { clock } => Some(*clock),
            Probe::Message { clock, .. } | Probe::Response { clock, .. } => Some(*clock),
        }
    }

    /// Sets up every thread; where one is refused, all end and the refusal is returned.
    fn arm(
        &self,
        shared: &Arc<Shared>,
        bundle: &BundleWriter,
        manifest: &mut Manifest,
    ) -> Result<Vec<Armed>> {
        let half_life_s = half_life_s(self.duration_ns);
        let (mut armed, mut refusal) = (Vec::new(), None);
        for lane in &self.lanes {
            let (send, receive) = mpsc::channel();
            let wakeups = |lane: &Lane| Drain::wakeups(&lane.key, lane.threshold_ns, bundle, half_life_s);
            let (pen, drains) = match &self.probe {
                Probe::Wakeup { .. }
                | Probe::Toggle { .. }
                | Probe::Message { .. }
                | Probe::Response { .. } => {
                    let (samples, drain) = wakeups(lane)?;
                    (Pen::Wakeups(samples), vec![(lane.clone(), drain)])
                }
                Probe::Ethercat { .. } => {
                    let [passes, apart] = ethercat::beside(lane);
                    let (cycles, of_cycles) = wakeups(lane)?;
                    let (sync0, of_sync0) = wakeups(&passes)?;
                    let (drift, of_drift) = wakeups(&apart)?;
                    let drains = vec![(lane.clone(), of_cycles), (passes, of_sync0), (apart, of_drift)];
                    (Pen::Ethercat(ethercat::Pens { cycles, sync0, drift }), drains)
                }
                Probe::Spin { clock } => {
                    let (recorder, short, drain) =
                        Drain::gaps(&lane.key, lane.threshold_ns, *clock, bundle, half_life_s)?;
                    (Pen::Gaps(recorder, short), vec![(lane.clone(), drain)])
                }
            };
            let body = Body { row: self.clone(), lane: lane.clone(), shared: Arc::clone(shared) };
            let name = format!("{}-{}", lane.key.probe, lane.key.cpu);
            let thread = std::thread::Builder::new().name(name).spawn(move || body.run(pen, &send));
            let thread = thread
                .map_err(|e| rt::Error::os("start a measuring thread", &e, "raise the limit on processes"))?;
            let granted = receive.recv().unwrap_or_else(|_| {
                Err(rt::Error::new(
                    "set up a measuring thread",
                    "it ended at once",
                    "report this as a defect",
                ))
            });
            let granted = granted.unwrap_or_else(|error| {
                refusal.get_or_insert(error);
                (Granted::default(), Vec::new())
            });
            let (granted, seats) = granted;
            let mut series = Vec::new();
            for (lane, drain) in drains {
                let entry = manifest.rows.len();
                manifest.rows.push(entry_of(&lane, &granted));
                series.push(Series { lane, drain, entry });
            }
            armed.push(Armed { series, granted, seats, thread });
        }
        let written = bundle.manifest(manifest);
        if refusal.is_none() && written.is_ok() {
            return Ok(armed);
        }
        shared.stop.store(true, Ordering::SeqCst);
        let rows: usize = armed.iter().map(|armed| armed.series.len()).sum();
        manifest.rows.truncate(manifest.rows.len() - rows);
        for Armed { series, thread, .. } in armed {
            // Its thread was told to stop before it measured anything; how it ended says nothing more.
            let _ = thread.join();
            for series in series {
                series.drain.discard()?;
            }
        }
        bundle.manifest(manifest)?;
        written?;
        refusal.map_or(Ok(Vec::new()), |error| Err(error.into()))
    }

    /// Carries the recorders' data into the bundle until every thread has ended.
    #[allow(clippy::too_many_arguments, reason = "what a row is drained from and into")]
    fn drain(
        &self,
        armed: &mut [Armed],
        bundle: &mut BundleWriter,
        shared: &Shared,
        stop: &AtomicBool,
        watch: &mut Watch,
        explain: &mut dyn Explain,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<()> {
        let start_ns = shared.start_ns.load(Ordering::SeqCst);
        loop {
            let over = armed.iter().all(|lane| lane.thread.is_finished());
            explain.look();
            watch.look();
            for Series { drain, .. } in armed.iter_mut().flat_map(|armed| &mut armed.series) {
                if over { drain.carry_last(bundle, explain)? } else { drain.carry(bundle, explain)? }
            }
            let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(start_ns));
            let length = (self.duration_ns < ENDLESS_NS).then(|| Duration::from_nanos(self.duration_ns));
            observe(&Progress { elapsed, length, lanes: armed.iter().flat_map(Armed::progress).collect() });
            if over {
                return Ok(());
            }
            if stop.load(Ordering::SeqCst) {
                shared.stop.store(true, Ordering::SeqCst);
            }
            std::thread::sleep(DRAIN_EVERY);
        }
    }

    /// Joins the threads, closes the series and notes what disturbed them.
    fn finish(&self, armed: Vec<Armed>, manifest: &mut Manifest, state: State, steal: &Steal) -> Result<()> {
        let steal_now = Steal::now();
        let mut outcome = Ok(());
        for Armed { series, thread, .. } in armed {
            let mut ended = thread.join().unwrap_or_default();
            for (n, Series { lane, drain, entry }) in series.into_iter().enumerate() {
                let entry = &mut manifest.rows[entry];
                entry.state = state;
                (entry.spikes, entry.spikes_not_listed) = drain.spikes();
                entry.granted.page_faults = Some(ended.page_faults);
                entry.granted.steal_ns = steal_now.since(steal, lane.key.cpu);
                // Said once, of the lane's own series; what was lost, of each.
                let told = if n == 0 {
                    entry.granted.isolation = ended.isolation.take().map(|counts| {
                        counts.into_iter().map(|(name, count)| (name.to_string(), count)).collect()
                    });
                    entry.granted.ethercat = ended.exchanged.take();
                    manifest.notes.extend(ended.note.take().map(|note| format!("{}: {note}", lane.key)));
                    (entry.granted.clone(), ended.drift.take())
                } else {
                    (Granted::default(), None)
                };
                manifest.taints.extend(taints(&lane.key, &told.0, told.1, drain.lost()));
                outcome = outcome.and(drain.finish());
            }
            outcome = outcome.and(ended.failed.map_or(Ok(()), |why| Err(why.into())));
        }
        outcome
    }
}

impl Armed {
    fn progress(&self) -> impl Iterator<Item = LaneProgress> + '_ {
        self.series.iter().map(|Series { lane, drain, .. }| LaneProgress {
            key: lane.key.clone(),
            thread: self.granted.thread.unwrap_or(0),
            priority: self.granted.priority.unwrap_or(0),
            so_far: drain.so_far(),
            last_ns: drain.last_ns(),
            limit_ns: lane.limit_ns,
            lost: drain.lost(),
            latency: None,
        })
    }
}

pub(crate) fn entry_of(lane: &Lane, granted: &Granted) -> RowEntry {
    RowEntry {
        key: lane.key.clone(),
        files: stem(&lane.key),
        state: State::Running,
        granted: granted.clone(),
        limit_ns: lane.limit_ns,
        spikes: 0,
        spikes_not_listed: 0,
        load_did: None,
        coarse: None,
    }
}
