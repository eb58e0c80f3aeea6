// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a row's data go, what explains its spikes, and what looks on: the same for every probe.

use std::sync::atomic::{AtomicBool, Ordering};

use cause::Explainer;
use evidence::manifest::{Manifest, RunState};
use evidence::writer::BundleWriter;

use crate::series::RowProgress;

/// The place into which a row is measured.
pub struct Recording<'a> {
    /// Takes the series and the spikes.
    pub bundle: &'a mut BundleWriter,
    /// Takes the row's entries, and what disturbed it.
    pub manifest: &'a mut Manifest,
    /// Set by a signal: the row ends early, in order.
    pub stop: &'a AtomicBool,
    /// Gives each spike its causes.
    pub explainer: &'a mut Explainer,
    /// Whether that which looks on wants all samples so far of each series.
    pub wants_latency: bool,
    /// Is told how the row stands, some times a second.
    pub observe: &'a mut dyn FnMut(&RowProgress),
}

impl Recording<'_> {
    /// Whether the row is to end early.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// How a row that is over ended.
    pub(crate) fn state(&self) -> RunState {
        if self.is_stopped() { RunState::Interrupted } else { RunState::Finished }
    }

    /// Writes the manifest as it is now.
    pub(crate) fn write_manifest(&mut self) -> crate::Result<()> {
        Ok(self.bundle.manifest(self.manifest)?)
    }
}
