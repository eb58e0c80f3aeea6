// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run, from what is asked to the finished bundle: what `prove` and `measure` share.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use evidence::manifest::{Asked, ENDED_EARLY, LOOP, Manifest, NotRun, SCHEMA_VERSION, State, WrittenBy};
use evidence::writer::BundleWriter;
use evidence::{Bundle, Taint, Verdict, limit, taint};
use load::{Device, Load, Placement, Running};
use machine::Snapshot;
use measure::ethercat::{self, Wire};
use measure::monitor::Attached;
use measure::preflight::{Effect, Finding, Privilege, Request, preflight};
use measure::response::{self, Wiring};
use measure::row::{ENDLESS_NS, Probe, Progress, Row};
use measure::{control, hardware, message};
use rt::clock::Calibration;
use rt::isolation::{Isolator, Mask};
use rt::power::DmaLatency;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::asked;
use crate::causes::Explainer;
use crate::live::Live;
use crate::metrics::Exposed;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long a load may take to get going: fio lays out its file, a display server starts.
const SETTLE: Duration = Duration::from_secs(20);

/// A signal may have to wait for this long while a load gets going.
const SETTLE_SLICE: Duration = Duration::from_millis(100);

/// A program's loop to measure, and where its figures are shown meanwhile.
pub struct Followed {
    pub attached: Attached,
    pub exposed: Option<Exposed>,
}

/// A run under way.
struct Session<'a> {
    asked: &'a Asked,
    machine: &'a Snapshot,
    manifest: Manifest,
    bundle: BundleWriter,
    stop: Arc<AtomicBool>,
    live: Live,
    last: Option<Progress>,
    explainer: Explainer,
    followed: Option<Followed>,
}

/// Measures what is asked, the loop `followed` where that is the probe, into a new bundle in `folder`, and reads it back. An error before the first row leaves
/// nothing behind.
pub fn run(
    asked: &Asked,
    machine: Snapshot,
    followed: Option<Followed>,
    folder: &Path,
    live: Live,
    announce: &dyn Fn(&str),
) -> Result<Bundle> {
    if followed.is_none() && asked.probes.iter().any(|probe| probe == LOOP) {
        return Err("cannot measure a loop: no program was named that has one; use isolator monitor".into());
    }
    let loads = loads(asked)?;
    fits(asked, loads.len())?;
    let findings = look(asked, &machine)?;
    // Before a bundle is begun for nothing.
    Wiring::check(asked)?;
    Wire::check(asked)?;
    control::stay_on(&asked.house_keeping)?;
    if let Some(names) = &asked.isolate {
        // As above.
        Mask::named(names)?;
        Isolator::open()?;
    }
    let stop = stop_on_signals()?;
    if hardware::remove_leftover() {
        announce("a killed run had left the hwlat tracer on, which disturbs every probe: it is off now");
    }
    let dma_latency = asked.dma_latency_us.map(|latency_us| {
        announce(&format!(
            "requesting {latency_us} us in /dev/cpu_dma_latency while measuring; it ends with this program"
        ));
        DmaLatency::request(latency_us)
    });
    let dma_latency = dma_latency.transpose()?;
    let mut explainer = Explainer::start(asked, &machine)?;
    let mut manifest = manifest(asked, &machine, &findings);
    manifest.notes.extend(explainer.notes());
    manifest.causes = explainer.told();
    manifest.notes.extend(followed.iter().flat_map(|followed| followed.attached.notes()));
    let bundle = BundleWriter::create(folder, &manifest)?;
    let mut session =
        Session { asked, machine: &machine, manifest, bundle, stop, live, last: None, explainer, followed };
    let outcome = loads.iter().try_for_each(|load| session.under(load));
    drop(dma_latency);
    session.live.ended(session.last.as_ref());
    if outcome.is_err() && session.manifest.rows.is_empty() {
        session.bundle.abandon();
        outcome?;
    } else {
        session.close(&outcome)?;
        outcome?;
    }
    Ok(Bundle::open(folder)?)
}

/// The loads asked for. Rows are told apart by the load's name alone, whatever command goes with it.
fn loads(asked: &Asked) -> Result<Vec<Load>> {
    let named = asked.loads.iter().map(|name| load::parse(name));
    let named = named.collect::<std::result::Result<Vec<_>, _>>()?;
    let mut loads: Vec<Load> = Vec::new();
    for load in named.concat() {
        if let Some(other) = loads.iter().find(|other| other.name() == load.name() && **other != load) {
            let why = format!(
                "cannot measure under '{other}' and '{load}' in one run: both rows would be called {}",
                load.name()
            );
            return Err(format!("{why}; measure them one after the other").into());
        }
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    Ok(loads)
}

/// Refuses a run whose bundle would be too large to be read: its evidence would be lost to its length.
fn fits(asked: &Asked, loads: usize) -> evidence::Result<()> {
    let longest_ns = asked.periods_ns.iter().max().copied().unwrap_or(0);
    let loops_ns = asked.loops.map(|loops| loops.saturating_mul(longest_ns));
    let length_ns = asked.duration_ns.into_iter().chain(loops_ns).min().unwrap_or(0);
    let rows = [asked.probes.len(), asked.cpus.len(), asked.periods_ns.len().max(1)];
    let rows = rows.into_iter().fold(loads, usize::saturating_mul);
    evidence::reader::fits(rows, length_ns / 1_000_000_000)
}

/// The interface that the load ethercat drives. One that the probe drives has its MainDevice: the load simulates then.
fn device_of_loads(asked: &Asked) -> Option<Device> {
    let Wire { device, is_forced } = Wire::of(asked);
    let is_free = !asked.probes.iter().any(|probe| probe == ethercat::PROBE);
    device.filter(|_| is_free).map(|name| Device { name, is_forced })
}

/// What would spoil the run; an error where it had better not begin.
fn look(asked: &Asked, machine: &Snapshot) -> Result<Vec<Finding>> {
    // A period of 0 is the preflight's to refuse, not its share.
    let limit = |period_ns: &u64| {
        let period_ns = Some(*period_ns).filter(|ns| *ns > 0);
        limit::limit_ns(asked.limit.as_deref().unwrap_or(limit::DEFAULT), period_ns)
    };
    let request = Request {
        asked,
        limits_ns: &asked.periods_ns.iter().map(limit).collect::<evidence::Result<Vec<_>>>()?,
        clock_resolution_ns: rt::clock::resolution_ns(),
        privilege: Privilege::of_this_process(),
    };
    let findings = preflight(machine, &request);
    match findings.iter().find(|finding| finding.effect == Effect::Refuse) {
        Some(refused) => Err(refused.to_string().into()),
        None => Ok(findings),
    }
}

/// Adds verdict and report to a bundle; everything in them comes from the bundle itself. Where the report went.
pub fn finish(bundle: &Bundle) -> Result<PathBuf> {
    let verdict = serde_json::to_string_pretty(&Verdict::of(bundle))? + "\n";
    evidence::writer::replace_synced(&bundle.path.join("verdict.json"), verdict.as_bytes())?;
    let (html, path) = (report::html(std::slice::from_ref(bundle))?, bundle.path.join("report.html"));
    evidence::writer::replace(&path, html.as_bytes())?;
    Ok(path)
}

/// Where a bundle goes that was given no folder: `evidence/` and the time.
pub fn default_folder() -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut folder = PathBuf::from("evidence").join(now.replace([':', '-'], ""));
    let first = folder.clone();
    for n in 2.. {
        if !folder.exists() {
            break;
        }
        folder = first.with_extension(n.to_string());
    }
    folder
}

impl Session<'_> {
    /// All probes under one load.
    fn under(&mut self, load: &Load) -> Result<()> {
        let name = load.to_string();
        if let Some(reason) = self.over()? {
            self.asked.probes.iter().for_each(|probe| self.not_run(probe, &name, reason));
            return Ok(());
        }
        let first = self.manifest.rows.len();
        self.live.says("starts the load");
        let placement = Placement {
            house_keeping: self.asked.house_keeping.clone(),
            measured: self.asked.cpus.clone(),
            scratch: load::scratch_folder(self.bundle.folder()),
            device: device_of_loads(self.asked),
        };
        let mut running = match load.start(&placement) {
            Ok(running) => running,
            Err(error) => {
                let reason = match error {
                    load::Error::NotAvailable { reason, cure, .. } => format!("{reason}; {cure}"),
                    other => other.to_string(),
                };
                for probe in &self.asked.probes {
                    self.not_run(probe, &name, &reason);
                    self.live.row_ended(&format!("not run: {reason}"));
                }
                return Ok(self.bundle.manifest(&self.manifest)?);
            }
        };
        if let Err(why) = settle(&mut running, &self.stop) {
            self.live.says(&format!("the load ended: {why}"));
        }
        if *load == Load::Ipi
            && let Err(error) = rt::thread::join_global_barriers()
        {
            self.manifest.notes.push(format!("load ipi sends no memory barriers: {error}"));
        }
        let mut still = Vec::new();
        let measured = self.asked.probes.iter().try_for_each(|probe| -> Result<()> {
            let (began, before) = (Instant::now(), running.worked());
            self.row(probe, &name)?;
            let seconds = began.elapsed().as_secs_f64();
            let stood = before
                .zip(running.worked())
                .and_then(|(before, now)| now.stood_still_since(&before, seconds));
            still.extend(stood.map(|how| format!("during {probe} {how}")));
            Ok(())
        });
        let did = running.stop();
        // Where the whole load is none, its rows say so already.
        let still = if did.loaded.is_ok() { still } else { Vec::new() };
        for entry in &mut self.manifest.rows[first..] {
            entry.load_did = Some(did.words.clone());
        }
        for reason in did.loaded.err().iter().chain(&still).chain(&did.strays) {
            let reason = format!("load {name}: {reason}");
            let taint = Taint::new(taint::LOAD, reason, format!("see why with: isolator load {name}"));
            self.manifest.taints.push(Taint { load: Some(name.clone()), ..taint });
        }
        measured?;
        Ok(self.bundle.manifest(&self.manifest)?)
    }

    /// One probe under a load that runs.
    fn row(&mut self, probe: &str, load: &str) -> Result<()> {
        if let Some(reason) = self.over()? {
            self.not_run(probe, load, reason);
            return Ok(());
        }
        let lanes = asked::lanes(self.asked, probe, load, self.machine)?;
        let duration_ns = self.asked.duration_ns.unwrap_or(ENDLESS_NS);
        let first = self.manifest.rows.len();
        let clock = || Calibration::measure(Duration::from_millis(50));
        let kind = match (probe, &mut self.followed) {
            (LOOP, Some(Followed { attached, exposed })) => {
                let (live, last, explainer) = (&mut self.live, &mut self.last, &mut self.explainer);
                let loops = self.asked.loops.unwrap_or(u64::MAX);
                let mut observe = |progress: &Progress| {
                    live.progress(progress);
                    exposed.iter_mut().for_each(|exposed| exposed.progress(progress));
                    *last = Some(progress.clone());
                };
                let (bundle, manifest) = (&mut self.bundle, &mut self.manifest);
                attached.measure(
                    &lanes[0],
                    duration_ns,
                    loops,
                    bundle,
                    manifest,
                    &self.stop,
                    explainer,
                    &mut observe,
                )?;
                let ended = exposed.as_mut().zip(self.last.as_ref());
                if let Some(Err(error)) = ended.map(|(exposed, last)| exposed.ended(last)) {
                    self.manifest.notes.push(format!("figures for Prometheus are missing or old: {error}"));
                }
                self.live.row_ended(&figures(&self.manifest, first, self.last.as_ref()));
                return Ok(());
            }
            ("wakeup", _) => Probe::Wakeup { timer: self.asked.timer.clone().unwrap_or_default() },
            ("toggle", _) => Probe::Toggle { clock: clock()? },
            (probe, _) if let Some(means) = message::Means::of(probe) => {
                Probe::Message { clock: clock()?, means }
            }
            (probe, _) if response::is_one(probe) => {
                let wiring = Wiring::of(probe, self.asked)?;
                self.note_once(format!("{probe}: {}", wiring.meaning()));
                Probe::Response { clock: clock()?, wiring }
            }
            (ethercat::PROBE, _) => Probe::Ethercat { wire: Wire::of(self.asked) },
            ("spin", _) => Probe::Spin { clock: clock()? },
            _ => {
                let (live, last) = (&mut self.live, &mut self.last);
                let measured = hardware::measure(
                    &lanes,
                    duration_ns,
                    &mut self.bundle,
                    &mut self.manifest,
                    &self.stop,
                    &mut |progress| {
                        live.progress(progress);
                        *last = Some(progress.clone());
                    },
                );
                return match measured {
                    Err(measure::Error::NotAvailable(what, why)) => {
                        let reason = format!("{what} is not available, because {why}");
                        self.not_run(probe, load, &reason);
                        self.live.row_ended(&format!("not run: {reason}"));
                        Ok(())
                    }
                    other => {
                        self.live.row_ended(&figures(&self.manifest, first, self.last.as_ref()));
                        Ok(other?)
                    }
                };
            }
        };
        let row = Row {
            probe: kind,
            lanes,
            warm_up_ns: self.asked.warm_up_ns.unwrap_or(0),
            duration_ns,
            loops: self.asked.loops.unwrap_or(u64::MAX),
            lock_memory: true,
            isolate: self.asked.isolate.as_deref().map(Mask::named).transpose()?,
        };
        let (live, last, explainer) = (&mut self.live, &mut self.last, &mut self.explainer);
        row.measure(&mut self.bundle, &mut self.manifest, &self.stop, explainer, &mut |progress| {
            live.progress(progress);
            *last = Some(progress.clone());
        })?;
        self.live.row_ended(&figures(&self.manifest, first, self.last.as_ref()));
        Ok(())
    }

    fn note_once(&mut self, note: String) {
        if !self.manifest.notes.contains(&note) {
            self.manifest.notes.push(note);
        }
    }

    fn not_run(&mut self, probe: &str, load: &str, reason: &str) {
        let row = NotRun { probe: probe.to_string(), load: load.to_string(), reason: reason.to_string() };
        self.manifest.not_run.push(row);
    }

    /// Why no further row begins.
    fn over(&mut self) -> Result<Option<&'static str>> {
        if self.stopped() {
            return Ok(Some("the run was ended before it began"));
        }
        let ended = self.followed.as_mut().map(|followed| followed.attached.ended()).transpose()?;
        Ok(ended.filter(|ended| *ended).map(|_| "the loop had ended"))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// The manifest's last word.
    fn close(&mut self, outcome: &Result<()>) -> Result<()> {
        let whole = outcome.is_ok() && !self.stopped();
        self.manifest.state = if whole { State::Finished } else { State::Interrupted };
        self.manifest.ended_at = Some(now());
        self.manifest.causes = self.explainer.told().or(self.manifest.causes.take());
        self.manifest.notes.extend(self.explainer.notes());
        if let Err(error) = outcome {
            self.manifest.notes.push(format!("the run ended early: {error}"));
        }
        let endless = self.asked.duration_ns.is_none() && self.asked.loops.is_none();
        if !whole && !endless {
            self.manifest.notes.push(ENDED_EARLY.to_string());
        }
        for taint in &mut self.manifest.taints {
            taint.accepted = self.asked.accept.contains(&taint.code);
        }
        match self.bundle.manifest(&self.manifest) {
            // Where the run ended because nothing more can be written, that is the error to tell.
            Err(_) if outcome.is_err() => Ok(()),
            written => Ok(written?),
        }
    }
}

/// Waits until a load really loads, has ended, or had its time; a signal ends the wait.
pub fn settle(running: &mut Running, stop: &AtomicBool) -> std::result::Result<(), String> {
    let began = Instant::now();
    while began.elapsed() < SETTLE && !stop.load(Ordering::SeqCst) {
        if running.settle(SETTLE_SLICE)? {
            break;
        }
    }
    Ok(())
}

fn figures(manifest: &Manifest, first: usize, last: Option<&Progress>) -> String {
    let spikes: u64 = manifest.rows[first..].iter().map(|row| row.spikes).sum();
    let Some(progress) = last else { return format!("{spikes} events") };
    let max_ns = progress.lanes.iter().map(|lane| lane.so_far.max_ns).max().unwrap_or(0);
    let count: u64 = progress.lanes.iter().map(|lane| lane.so_far.count).sum();
    let missed: u64 = progress.lanes.iter().map(|lane| lane.so_far.missed).sum();
    format!("{count} samples · max {:.1} us · {missed} missed · {spikes} spikes", max_ns as f64 / 1e3)
}

fn manifest(asked: &Asked, machine: &Snapshot, findings: &[Finding]) -> Manifest {
    let taints = findings.iter().filter(|finding| finding.effect == Effect::Taint);
    let notes = findings.iter().filter(|finding| finding.effect == Effect::Note);
    Manifest {
        schema_version: SCHEMA_VERSION,
        written_by: WrittenBy {
            program: "isolator".into(),
            version: Some(env!("CARGO_PKG_VERSION").into()),
            commit: Some(env!("ISOLATOR_COMMIT").into()),
            command_line: Some(command_line()),
        },
        started_at: Some(now()),
        ended_at: None,
        state: State::Running,
        machine: machine.clone(),
        asked: asked.clone(),
        rows: Vec::new(),
        not_run: Vec::new(),
        notes: notes.map(|finding| finding.to_string()).collect(),
        taints: taints.cloned().map(Taint::from).collect(),
        causes: None,
    }
}

fn command_line() -> String {
    std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The first SIGINT or SIGTERM sets the flag, the second ends the program at once.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the second signal must find the flag that the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
