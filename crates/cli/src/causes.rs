// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a run's spikes get their causes: the collector that was asked for, else the best that is allowed here, and
//! suspects where none is.

use std::path::Path;

use cause::{Started, Watch};
use evidence::cause::{Causes, Choice};
use evidence::manifest::{Asked, Spike};
use machine::Snapshot;
use measure::explain::Explain;
use measure::suspects::Suspects;

/// The collector of a run, or none.
#[derive(Debug, Default)]
pub struct Explainer {
    watch: Option<Box<Watch>>,
    suspects: Option<Suspects>,
    /// What a reader of the evidence should know.
    notes: Vec<String>,
}

impl Explainer {
    /// Starts what `asked` names; an error where that is a certain collector and this machine does not have it.
    pub fn start(asked: &Asked, machine: &Snapshot) -> cause::Result<Explainer> {
        let choice = asked.causes.unwrap_or_default();
        if choice == Choice::Off {
            return Ok(Explainer::default());
        }
        let busy = !asked.probes.iter().any(|probe| probe == "wakeup");
        Ok(match Watch::start(choice, &cause::Asked { cpus: asked.cpus.clone(), busy }, machine)? {
            Started::Watching(watch) => Explainer { watch: Some(watch), ..Explainer::default() },
            Started::Counters { because } => {
                let note = |why| format!("spikes have no causes with times: {why}");
                let suspects = Some(Suspects::on(Path::new("/"), &asked.cpus));
                Explainer { suspects, notes: because.into_iter().map(note).collect(), ..Explainer::default() }
            }
        })
    }

    /// What was noticed since this was last asked.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// How causes were collected; nothing where they were not.
    pub fn told(&self) -> Option<Causes> {
        let watch = self.watch.as_ref().map(|watch| watch.told());
        watch.or_else(|| self.suspects.as_ref().map(Suspects::told))
    }

    /// A collector that fails is done with; the run goes on.
    fn fails(&mut self, error: &cause::Error) {
        self.notes.push(format!("spikes from here on have no causes: {error}"));
        self.watch = None;
    }
}

impl Explain for Explainer {
    fn begin(&mut self, threads: &[(u32, u32)]) {
        if let Some(Err(error)) = self.watch.as_mut().map(|watch| watch.armed(threads)) {
            self.fails(&error);
        }
        if let Some(suspects) = &mut self.suspects {
            suspects.begin(threads);
        }
    }

    fn look(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.look_again();
        }
        if let Some(suspects) = &mut self.suspects {
            suspects.look();
        }
    }

    fn explain(&mut self, spike: &mut Spike) {
        if let Some(Err(error)) = self.watch.as_mut().map(|watch| watch.explain(spike)) {
            self.fails(&error);
        }
        if let Some(suspects) = &mut self.suspects {
            suspects.explain(spike);
        }
    }
}
