// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences between probes whose loop is a thread of ours: one value of [`Probe`] for each measuring
//! thread.
//!
//! ```text
//! configured ── open ──► opened ── arm ──► armed ── run ──► over ── ended ──► outcome
//! Probe         control   Arm      measuring  HotLoop
//!               thread             thread
//! ```
//! Everything else of a row is the same for all of them (see [`crate::row`]).

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evidence::manifest::{Exchanged, Granted};
use evidence::writer::BundleWriter;

use crate::drain::Drain;
use crate::error::Result;
use crate::samples::Samples;
use crate::schedule::{Schedule, Window};
use crate::series::SeriesSpec;
use crate::watch::Seat;

/// A probe on one CPU, as configured.
pub trait Probe: fmt::Debug + Send {
    /// When it takes its samples.
    fn schedule(&self) -> Schedule;

    /// Begins its series: what the control thread drains, and what arms the measuring thread.
    fn open(self: Box<Self>, opening: &Opening<'_>) -> Result<Opened>;
}

/// The data from which a probe begins its series.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The probe's own series.
    pub series: &'a SeriesSpec,
    /// The bundle that they go into.
    pub bundle: &'a BundleWriter,
    /// How soon a glow in a persistence picture halves.
    pub half_life_s: f64,
}

impl Opening<'_> {
    /// Begins `series` of cycles that come each `period`.
    pub(crate) fn cycles_of(&self, series: &SeriesSpec, period: NonZeroU64) -> Result<(Samples, Drain)> {
        Drain::cycles(series, period, self.bundle, self.half_life_s)
    }

    /// Begins the probe's own series of cycles, the only one that it has: `armed` makes the loop, which sends
    /// them.
    pub(crate) fn of_cycles<L: HotLoop + 'static>(
        &self,
        period: NonZeroU64,
        armed: impl FnOnce(Samples) -> rt::Result<L> + Send + 'static,
    ) -> Result<Opened> {
        let (samples, drain) = self.cycles_of(self.series, period)?;
        let arm = move || -> rt::Result<Box<dyn HotLoop>> { Ok(Box::new(armed(samples)?)) };
        Ok(Opened { arm: Box::new(arm), drained: vec![(self.series.clone(), drain)] })
    }
}

/// A probe whose series have begun.
pub struct Opened {
    /// Called on the measuring thread.
    pub arm: Arm,
    /// The series that the control thread drains: the probe's own first.
    pub drained: Vec<(SeriesSpec, Drain)>,
}

/// Opens what a loop needs. Called on the measuring thread, before that has a policy that threads which it
/// starts would have too.
pub type Arm = Box<dyn FnOnce() -> rt::Result<Box<dyn HotLoop>> + Send>;

/// An armed probe, on its measuring thread.
pub trait HotLoop {
    /// Other threads that have a part in the measurement, to be watched.
    fn helpers(&self) -> Vec<Arc<Seat>> {
        Vec::new()
    }

    /// Adds to what the thread was granted.
    fn add_to(&self, granted: &mut Granted) {
        let _ = granted;
    }

    /// Called again and again until the row begins.
    fn keep_alive(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Measures until the window is over or `stop` is set. Allocates nothing, takes no lock, and makes no
    /// system call that the measurement does not need.
    fn run(&mut self, window: &Window, stop: &AtomicBool);

    /// Ends its helpers; what it has to say beside its samples.
    fn ended(self: Box<Self>) -> LoopOutcome {
        LoopOutcome::default()
    }
}

/// The result of a loop beside its samples.
#[derive(Debug, Default)]
pub struct LoopOutcome {
    /// Why it ended before its time, or has no samples.
    pub failed: Option<rt::Error>,
    /// A note beside its samples, in words.
    pub note: Option<String>,
    /// How far the processor's counter was off: (its length of the row / CLOCK_MONOTONIC's) - 1.
    pub drift: Option<f64>,
    /// The work of the EtherCAT probe's cycles.
    pub exchanged: Option<Exchanged>,
}
