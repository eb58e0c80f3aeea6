// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run, from its specification to the finished bundle.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cause::{Depth, Explainer, WatchSpec};
use evidence::kind::RowKind;
use evidence::limit::Until;
use evidence::manifest::{ENDED_EARLY, Manifest, NotRun, RunState, WrittenBy};
use evidence::writer::BundleWriter;
use evidence::{Bundle, Taint, taint};
use load::{Load, Placement, Running};
use machine::Snapshot;
use machine::units::{self, us, whole_us};
use measure::probes::ProbeKind;
use measure::probes::hardware;
use measure::program::Program;
use measure::recording::Recording;
use measure::series::{RowProgress, SeriesProgress};
use rt::isolation::Isolator;
use rt::power::DmaLatency;

use crate::control;
use crate::error::Result;
use crate::finding::{FindingEffect, PreflightFinding};
use crate::on_spike::OnSpike;
use crate::preflight::{PreflightRequest, preflight};
use crate::privilege::Privilege;
use crate::rows;
use crate::spec::RunSpec;

/// How long a load may take to get going: fio lays out its file, a display server starts.
const SETTLE: Duration = Duration::from_secs(20);

/// A signal may have to wait for this long while a load gets going.
const SETTLE_SLICE: Duration = Duration::from_millis(100);

/// Is told how a run goes on.
pub trait Observer {
    /// Something that is worth knowing beside the rows.
    fn announce(&mut self, text: &str) {
        let _ = text;
    }

    /// Receives the present step before a row is measured.
    fn prepares(&mut self, text: &str) {
        let _ = text;
    }

    /// Whether it wants all samples so far of each series, live.
    fn wants_latency(&self) -> bool {
        false
    }

    /// How the present row stands.
    fn progress(&mut self, progress: &RowProgress) {
        let _ = progress;
    }

    /// The present row ended: its figures, or why it was not run. Returns a note for the evidence, where
    /// there is one.
    fn row_ended(&mut self, figures: &str) -> Option<String> {
        let _ = figures;
        None
    }

    /// The last row ended.
    fn ended(&mut self) {}
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// The surroundings of a run.
pub struct SessionContext<'a> {
    /// The machine.
    pub machine: Snapshot,
    /// The program whose loop is measured, where the probe is [`ProbeKind::Loop`].
    pub program: Option<&'a mut dyn Program>,
    /// Ends the run early, in order, once it is set.
    pub stop: Arc<AtomicBool>,
    /// Is told how it goes on.
    pub observer: &'a mut dyn Observer,
    /// The reactions to spikes.
    pub on_spike: OnSpike,
    /// The program that writes the evidence.
    pub written_by: WrittenBy,
}

/// A run under way.
struct RunSession<'a, 's> {
    spec: &'a RunSpec,
    setting: SessionContext<'s>,
    manifest: Manifest,
    bundle: BundleWriter,
    last: Option<RowProgress>,
    explainer: Explainer,
}

/// Measures `spec` on this machine into a new bundle in `folder`, and reads it back.
///
/// Loads other than `idle` start this program again: its `main` calls [`load::worker_main`] first where its
/// first argument is [`load::WORKER_VERB`].
pub fn prove(spec: &RunSpec, folder: &Path) -> Result<Bundle> {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(Path::file_name);
    let setting = SessionContext {
        machine: inspect::read(Path::new("/")),
        program: None,
        stop: Arc::default(),
        observer: &mut NoObserver,
        on_spike: OnSpike::default(),
        written_by: WrittenBy {
            program: name.map_or("unknown".into(), |name| name.to_string_lossy().into_owned()),
            version: None,
            commit: None,
            command_line: Some(command_line()),
        },
    };
    prove_in(setting, spec, folder)
}

/// As [`prove`], in `setting`. An error before the first row leaves nothing behind.
pub fn prove_in(setting: SessionContext<'_>, spec: &RunSpec, folder: &Path) -> Result<Bundle> {
    if setting.program.is_none() && spec.probes.contains(&ProbeKind::Loop) {
        let why = "no program was named that has one";
        return Err(::error::Error::on("measure", "a loop", why, "use isolator monitor").into());
    }
    let findings = look(spec, &setting.machine)?;
    // Before a bundle is begun for nothing.
    spec.try_devices()?;
    control::stay_on(&spec.house_keeping)?;
    if spec.isolate.is_some() {
        // As above.
        Isolator::open()?;
    }
    if hardware::remove_leftover() {
        setting
            .observer
            .announce("a killed run had left the hwlat tracer on, which disturbs every probe: it is off now");
    }
    let dma_latency = spec.dma_latency_us.map(|latency_us| {
        setting.observer.announce(&format!(
            "requesting {} in /dev/cpu_dma_latency while measuring; it ends with this program",
            whole_us(latency_us)
        ));
        DmaLatency::request(latency_us)
    });
    let dma_latency = dma_latency.transpose()?;
    let depth = Depth::of(spec.has_kind(RowKind::calls_the_kernel));
    let watched = WatchSpec { cpus: spec.cpus.clone(), depth };
    let mut explainer = Explainer::start(spec.causes, &watched, &setting.machine)?;
    let mut manifest = manifest(spec, &setting, &findings);
    manifest.notes.extend(explainer.notes());
    manifest.causes = explainer.summary();
    manifest.notes.extend(setting.program.iter().flat_map(|program| program.notes()));
    let bundle = BundleWriter::create(folder, &manifest)?;
    let mut session = RunSession { spec, setting, manifest, bundle, last: None, explainer };
    let outcome = spec.loads.iter().try_for_each(|load| session.under(load));
    drop(dma_latency);
    session.setting.observer.ended();
    if outcome.is_err() && session.manifest.rows.is_empty() {
        session.bundle.abandon();
        outcome?;
    } else {
        session.close(&outcome)?;
        outcome?;
    }
    Ok(Bundle::open(folder)?)
}

/// Findings that would spoil the run; an error where it had better not begin.
fn look(spec: &RunSpec, machine: &Snapshot) -> Result<Vec<PreflightFinding>> {
    let clock_resolution_ns = rt::clock::resolution_ns();
    let request = PreflightRequest { spec, clock_resolution_ns, privilege: Privilege::of_this_process() };
    let findings = preflight(machine, &request);
    match findings.iter().find(|finding| finding.effect == FindingEffect::Refuse) {
        Some(refused) => Err(refused.clone().into()),
        None => Ok(findings),
    }
}

/// Where a bundle goes that was given no folder: `evidence/` and the time.
pub fn default_folder() -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    unused_folder(PathBuf::from("evidence").join(now.replace([':', '-'], "")))
}

/// A folder of that name, or with a number behind it, that is not there yet.
pub fn unused_folder(first: PathBuf) -> PathBuf {
    let mut folder = first.clone();
    for n in 2.. {
        if !untrusted::is_there(&folder) {
            break;
        }
        folder = first.with_extension(n.to_string());
    }
    folder
}

impl RunSession<'_, '_> {
    /// All probes under one load.
    fn under(&mut self, load: &Load) -> Result<()> {
        let name = load.to_string();
        if let Some(reason) = self.over()? {
            self.spec.probes.iter().for_each(|probe| self.not_run(probe, &name, reason));
            return Ok(());
        }
        let first = self.manifest.rows.len();
        self.setting.observer.prepares("starts the load");
        let placement = Placement {
            house_keeping: self.spec.house_keeping.clone(),
            measured: self.spec.cpus.clone(),
            scratch: load::scratch_folder(self.bundle.folder()),
            device: self.spec.device_of_loads(),
        };
        let mut running = match load.start(&placement) {
            Ok(running) => running,
            Err(error) => {
                let (reason, optional) = match error {
                    load::LoadError::NotAvailable { reason, cure, .. } => (format!("{reason}; {cure}"), true),
                    other => (other.to_string(), false),
                };
                for probe in &self.spec.probes {
                    self.left_out(probe, &name, &reason, optional);
                    self.row_ended(&format!("not run: {reason}"));
                }
                return Ok(self.bundle.manifest(&self.manifest)?);
            }
        };
        if let Err(why) = settle(&mut running, &self.setting.stop) {
            self.setting.observer.prepares(&format!("the load ended: {why}"));
        }
        if *load == Load::Ipi
            && let Err(error) = rt::thread::join_global_barriers()
        {
            self.manifest.notes.push(format!("load ipi sends no memory barriers: {error}"));
        }
        let mut still = Vec::new();
        let measured = self.spec.probes.iter().try_for_each(|probe| -> Result<()> {
            let (began, before) = (Instant::now(), running.worked());
            self.row(probe, &name)?;
            let seconds = began.elapsed().as_secs_f64();
            let stood = before
                .zip(running.worked())
                .and_then(|(before, now)| now.stood_still_since(&before, seconds));
            still.extend(stood.map(|how| format!("during {} {how}", probe.name())));
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
    fn row(&mut self, probe: &ProbeKind, load: &str) -> Result<()> {
        if let Some(reason) = self.over()? {
            self.not_run(probe, load, reason);
            return Ok(());
        }
        if let ProbeKind::Response(wiring) = probe {
            self.note_once(format!("{}: {}", probe.name(), wiring.meaning()));
        }
        let first = self.manifest.rows.len();
        match self.measure(probe, load) {
            Err(measure::MeasureError::NotAvailable(what, why)) => {
                let reason = format!("{what} is not available, because {why}");
                self.not_run(probe, load, &reason);
                self.row_ended(&format!("not run: {reason}"));
                Ok(())
            }
            measured => {
                measured?;
                self.row_ended(&figures(&self.manifest, first, self.last.as_ref()));
                Ok(())
            }
        }
    }

    fn measure(&mut self, probe: &ProbeKind, load: &str) -> measure::Result<()> {
        let RunSession { spec, setting, manifest, bundle, last, explainer } = self;
        let (observer, on_spike) = (&mut *setting.observer, &mut setting.on_spike);
        let folder = bundle.folder().to_path_buf();
        let wants_latency = observer.wants_latency();
        let ends_late = spec.asked.until.contains(&Until::Exceeded);
        let (stop, mut was_late) = (Arc::clone(&setting.stop), false);
        let mut observe = |progress: &RowProgress| {
            if ends_late && progress.series.iter().any(is_late) {
                stop.store(true, Ordering::SeqCst);
                was_late = true;
            }
            on_spike.poll(&folder, progress);
            observer.progress(progress);
            *last = Some(progress.clone());
        };
        let mut recording = Recording {
            bundle,
            manifest,
            stop: &setting.stop,
            explainer,
            wants_latency,
            observe: &mut observe,
        };
        let measured = match (probe, &mut setting.program) {
            (ProbeKind::Loop, Some(program)) => {
                let series = rows::loops(spec, load, &program.loops());
                program.measure(&series, spec.length, &mut recording)
            }
            (ProbeKind::Hardware, _) => {
                hardware::measure(&rows::series(spec, probe, load), spec.length, &mut recording)
            }
            _ => rows::row(spec, probe, load, &setting.machine)?.measure(&mut recording),
        };
        if was_late {
            self.note_once("a cycle was late, which ended the run (--until exceeded)".to_string());
        }
        measured
    }

    fn row_ended(&mut self, figures: &str) {
        self.manifest.notes.extend(self.setting.observer.row_ended(figures));
    }

    fn note_once(&mut self, note: String) {
        if !self.manifest.notes.contains(&note) {
            self.manifest.notes.push(note);
        }
    }

    fn not_run(&mut self, probe: &ProbeKind, load: &str, reason: &str) {
        self.left_out(probe, load, reason, false);
    }

    /// A row that is not run; `optional` where the machine cannot run its load, which only counts where its
    /// name asked for it.
    fn left_out(&mut self, probe: &ProbeKind, load: &str, reason: &str, optional: bool) {
        let (probe, load, reason) = (probe.name().to_string(), load.to_string(), reason.to_string());
        let row = NotRun { probe, load, reason, optional };
        let optional = self.manifest.does_without(&row);
        self.manifest.not_run.push(NotRun { optional, ..row });
    }

    /// Why no further row begins.
    fn over(&mut self) -> Result<Option<&'static str>> {
        if self.stopped() {
            return Ok(Some("the run was ended before it began"));
        }
        let ended = self.setting.program.as_mut().map(|program| program.ended()).transpose()?;
        Ok(ended.filter(|ended| *ended).map(|_| "the loop had ended"))
    }

    fn stopped(&self) -> bool {
        self.setting.stop.load(Ordering::SeqCst)
    }

    /// The manifest's last word.
    fn close(&mut self, outcome: &Result<()>) -> Result<()> {
        let whole = outcome.is_ok() && !self.stopped();
        self.manifest.state = if whole { RunState::Finished } else { RunState::Interrupted };
        self.manifest.ended_at = Some(now());
        self.manifest.causes = self.explainer.summary().or(self.manifest.causes.take());
        self.manifest.notes.extend(self.explainer.notes());
        self.manifest.notes.extend(self.setting.on_spike.end());
        if let Err(error) = outcome {
            self.manifest.notes.push(format!("the run ended early: {error}"));
        }
        let endless = self.spec.asked.duration_ns.is_none() && self.spec.asked.loops.is_none();
        if !whole && !endless {
            self.manifest.notes.push(ENDED_EARLY.to_string());
        }
        for taint in &mut self.manifest.taints {
            taint.accepted = self.spec.asked.accept.contains(&taint.code);
        }
        match self.bundle.manifest(&self.manifest) {
            // Where the run ended because nothing more can be written, that is the error to tell.
            Err(_) if outcome.is_err() => Ok(()),
            written => Ok(written?),
        }
    }
}

/// Whether a cycle of the series was late, by its maximum.
fn is_late(series: &SeriesProgress) -> bool {
    series.so_far.missed > 0 || series.so_far.max_ns > series.limit_ns
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

fn figures(manifest: &Manifest, first: usize, last: Option<&RowProgress>) -> String {
    let spikes = units::count(manifest.rows[first..].iter().map(|row| row.spikes).sum());
    let Some(progress) = last else { return format!("{spikes} events") };
    let max_ns = progress.series.iter().map(|series| series.so_far.max_ns).max().unwrap_or(0);
    let count: u64 = progress.series.iter().map(|series| series.so_far.count).sum();
    let missed: u64 = progress.series.iter().map(|series| series.so_far.missed).sum();
    format!(
        "{} samples · max {} · {} missed · {spikes} spikes",
        units::count(count),
        us(max_ns),
        units::count(missed)
    )
}

fn manifest(spec: &RunSpec, setting: &SessionContext<'_>, findings: &[PreflightFinding]) -> Manifest {
    let taints = findings.iter().filter(|finding| finding.effect == FindingEffect::Taint);
    let notes = findings.iter().filter(|finding| finding.effect == FindingEffect::Note);
    Manifest {
        written_by: setting.written_by.clone(),
        started_at: Some(now()),
        state: RunState::Running,
        machine: setting.machine.clone(),
        by_boot: inspect::by_boot(Path::new("/")),
        notes: notes.map(|finding| finding.to_string()).collect(),
        taints: taints.cloned().map(Taint::from).collect(),
        ..Manifest::new("isolator", spec.asked.clone())
    }
}

/// The command line of this process.
pub fn command_line() -> String {
    std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
