// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a run's spikes get their causes: the collector that was asked for, else the best that is allowed here.

use std::path::Path;

use cause::{Depth, Started, Watch};
use evidence::cause::{Causes, Choice};
use evidence::manifest::Spike;
use machine::{CpuSet, Snapshot};
use measure::explain::Explain;
use measure::kind::ProbeKind;
use measure::suspects::Suspects;

use crate::spec::RunSpec;

/// The collector of a run, or none.
#[derive(Debug, Default)]
pub struct Explainer {
    source: Source,
    cpus: CpuSet,
    /// Whether somebody else's program is looked at: nothing of ours may run on its CPUs.
    foreign: bool,
    /// What a reader of the evidence should know.
    notes: Vec<String>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Nothing,
    Events(Box<Watch>),
    Counters(Box<Suspects>),
}

impl Explainer {
    /// Starts what `spec` names; an error where that is a certain collector and this machine does not have it.
    pub fn start(spec: &RunSpec, machine: &Snapshot) -> cause::Result<Explainer> {
        let choice = spec.causes;
        if choice == Choice::Off {
            return Ok(Explainer::default());
        }
        let foreign = spec.probes.contains(&ProbeKind::Loop);
        let depth = Depth::of(spec.probes.iter().any(ProbeKind::calls_the_kernel));
        let cpus = spec.cpus.clone();
        let (source, because) =
            match Watch::start(choice, &cause::WatchSpec { cpus: cpus.clone(), depth }, machine)? {
                Started::Watching(watch) => (Source::Events(watch), Vec::new()),
                Started::Counters { because } => (counters(&cpus), because),
            };
        let note = |why| format!("spikes have suspects instead of causes with times: {why}");
        Ok(Explainer { source, cpus, foreign, notes: because.into_iter().map(note).collect() })
    }

    /// What was noticed since this was last asked.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// How causes were collected; nothing where they were not.
    pub fn summary(&self) -> Option<Causes> {
        match &self.source {
            Source::Nothing => None,
            Source::Events(watch) => Some(watch.summary()),
            Source::Counters(suspects) => Some(suspects.summary()),
        }
    }

    /// Lets the watch do something; one that fails is done with, and the run goes on with the counters.
    fn with(&mut self, act: impl FnOnce(&mut Watch) -> cause::Result<()>) {
        if let Source::Events(watch) = &mut self.source
            && let Err(error) = act(watch)
        {
            self.notes.push(format!("spikes have suspects instead of causes from here on: {error}"));
            self.source = counters(&self.cpus);
        }
    }
}

fn counters(cpus: &CpuSet) -> Source {
    Source::Counters(Box::new(Suspects::on(Path::new("/"), cpus)))
}

impl Explain for Explainer {
    fn begin(&mut self, threads: &[(u32, u32)]) {
        if !self.foreign {
            let cpus = threads.iter().map(|(cpu, _)| *cpu).collect();
            self.with(|watch| watch.calibrate(&cpus));
        }
        self.with(|watch| watch.armed(threads));
        if let Source::Counters(suspects) = &mut self.source {
            suspects.begin(threads);
        }
    }

    fn look(&mut self) {
        match &mut self.source {
            Source::Nothing => {}
            Source::Events(watch) => watch.look_again(),
            Source::Counters(suspects) => suspects.look(),
        }
    }

    fn explain(&mut self, spike: &mut Spike) {
        self.with(|watch| watch.explain(spike));
        if let Source::Counters(suspects) = &mut self.source {
            suspects.explain(spike);
        }
    }
}
