// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that was recorded elsewhere, read as a run of the loops in it.
//!
//! Nothing of this machine is looked at. What the trace does not say of its own machine stays unknown, and is
//! a taint, as it is for another tool's results.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cause::Explainer;
use evidence::cause::{Causes, Collector};
use evidence::fact;
use evidence::kind::RowKind;
use evidence::manifest::{Asked, Manifest, RunState, UNKNOWN_LOAD, WrittenBy};
use evidence::writer::BundleWriter;
use evidence::{Bundle, Taint};
use ftrace::recorded::AboutTrace;
use load::Load;
use machine::Snapshot;
use machine::snapshot::{Cpu, Kernel, Preemption};
use measure::followed::FollowedProgram;
use measure::program::Program;
use measure::recording::Recording;
use measure::series::RowProgress;
use trace::follow::LoopChoice;
use trace::recorded::RecordedSource;

use crate::error::Result;
use crate::rows;
use crate::spec::{RunSpec, complete};

/// The clock of a trace whose times are those of timers.
const CLOCK: &str = "mono";

/// A request to read a trace.
#[derive(Debug)]
pub struct TraceRun<'a> {
    /// The file, or the folder.
    pub trace: &'a Path,
    /// The loops in it.
    pub choice: LoopChoice,
    /// The limits, and how they are judged.
    pub asked: Asked,
    /// The program that writes the evidence.
    pub written_by: WrittenBy,
    /// Ends the run early, in order, once it is set.
    pub stop: Arc<AtomicBool>,
}

/// Reads a trace into a new bundle in `folder`, and reads that back. `observe` is told how far it is.
pub fn read(run: TraceRun<'_>, folder: &Path, observe: &mut dyn FnMut(&RowProgress)) -> Result<Bundle> {
    let trace = RecordedSource::open(run.trace)?;
    let machine = machine_of(trace.about());
    let about = trace.about().clone();
    let mut program = FollowedProgram::in_trace(trace, &run.choice)?;
    let loops = program.loops();
    let asked = Asked {
        probes: vec![RowKind::Loop.name().to_string()],
        loads: vec![Load::Idle.to_string()],
        cpus: loops.iter().filter_map(|found| found.cpu).collect(),
        periods_ns: loops.iter().map(|found| found.period.get()).collect(),
        policy: program.thread().map(|thread| thread.policy.name().to_string()),
        priority: program.thread().map(|thread| thread.priority),
        ..run.asked
    };
    let mut spec = RunSpec::of(complete(asked, &machine))?;
    // None is started here, and none is known.
    (spec.asked.timer, spec.asked.warm_up_ns) = (None, None);
    spec.asked.loads = vec![UNKNOWN_LOAD.to_string()];
    let mut manifest = Manifest::new("isolator", spec.asked.clone());
    manifest.written_by = run.written_by;
    manifest.state = RunState::Running;
    manifest.machine = machine;
    let (file, format) = (run.trace.display(), &about.format);
    manifest.notes.push(format!("read from {file}, a {format}: its machine's load is not in it"));
    if let Some(clock) = about.clock.as_deref().filter(|clock| *clock != CLOCK) {
        manifest.notes.push(format!(
            "its times are of the trace clock {clock}, from which due times of timers are told"
        ));
    }
    manifest.notes.extend(program.notes());
    let could_not_see = program.recorded().map(|trace| trace.could_not_see().to_vec()).unwrap_or_default();
    let causes = Causes {
        collector: Collector::Trace,
        could_not_see,
        not_tried: Vec::new(),
        lost_events: 0,
        edges: Vec::new(),
    };
    manifest.causes = Some(causes);
    let mut bundle = BundleWriter::create(folder, &manifest)?;
    let series = rows::loops(&spec, UNKNOWN_LOAD, &loops);
    let mut recording = Recording {
        bundle: &mut bundle,
        manifest: &mut manifest,
        stop: &run.stop,
        explainer: &mut Explainer::default(),
        wants_latency: false,
        observe,
    };
    let measured = program.measure(&series, spec.length, &mut recording);
    if let Err(error) = measured {
        // What was read until then is of no use without the rest.
        bundle.abandon();
        return Err(error.into());
    }
    let is_whole = !run.stop.load(Ordering::SeqCst);
    manifest.state = if is_whole { RunState::Finished } else { RunState::Interrupted };
    if manifest.machine.kernel.preemption != Preemption::Unknown {
        manifest.taints.extend(fact::of_kernel(&manifest.machine.kernel));
    }
    manifest.taints.extend(fact::unknown(&manifest));
    for taint in &mut manifest.taints {
        *taint = Taint { accepted: spec.asked.accept.contains(&taint.code), ..taint.clone() };
    }
    bundle.manifest(&manifest)?;
    drop(bundle);
    Ok(Bundle::open(folder)?)
}

/// The machine of a trace, as far as it says. `uname` there has no words of the kernel's preemption.
fn machine_of(about: &AboutTrace) -> Snapshot {
    // `Linux robot 6.12.1-rt x86_64`, `6.12.1-rt`
    let words: Vec<&str> = about.uname.iter().flat_map(|uname| uname.split_whitespace()).collect();
    let (hostname, release) = match words[..] {
        ["Linux", host, release, ..] => (Some(host.to_string()), Some(release.to_string())),
        [release] => (None, Some(release.to_string())),
        _ => (None, None),
    };
    let of = |id: u32| Cpu { id, online: true, ..Cpu::default() };
    let cpus = (0..about.cpus.unwrap_or(0).min(CPUS)).map(of).collect();
    Snapshot { hostname, cpus, kernel: Kernel { release, ..Kernel::default() }, ..Snapshot::default() }
}

/// The most CPUs that a trace can state.
const CPUS: u32 = 8_192;
