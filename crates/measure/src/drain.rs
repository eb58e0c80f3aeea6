// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control thread's half of a series: carries what a measuring thread recorded into the bundle.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evidence::manifest::{RowKey, Second, Spike};
use evidence::writer::{BundleWriter, SPIKES_LISTED, SeriesWriter, Totals};
use rt::clock::Calibration;

use crate::error::Result;
use crate::recorder::{Live, RawSpike};
use crate::spin::ShortGaps;

/// When a row began, on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Wall time.
    pub wall: SystemTime,
}

/// One series on its way from recorder to bundle.
#[derive(Debug)]
pub struct Drain {
    key: RowKey,
    live: Live,
    /// The spin probe's short gaps and the rate that makes nanoseconds of them.
    short: Option<(ShortGaps, Calibration)>,
    writer: SeriesWriter,
    so_far: Second,
    listed: u64,
}

impl Drain {
    /// Begins a series of `bundle`; glows in its persistence picture halve every `half_life_s`.
    pub fn new(
        key: &RowKey,
        live: Live,
        short: Option<(ShortGaps, Calibration)>,
        bundle: &BundleWriter,
        half_life_s: f64,
    ) -> Result<Drain> {
        let writer = bundle.series(key, half_life_s)?;
        Ok(Drain { key: key.clone(), live, short, writer, so_far: Second::default(), listed: 0 })
    }

    /// Carries finished seconds and spikes over.
    pub fn carry(&mut self, bundle: &mut BundleWriter, start: Start) -> Result<()> {
        let spikes = self.live.take_spikes();
        let room = SPIKES_LISTED.saturating_sub(self.listed) as usize;
        let listed = spikes.iter().take(room).map(|raw| self.spike(raw, start)).collect::<Vec<_>>();
        self.listed += listed.len() as u64;
        if !listed.is_empty() {
            bundle.spikes(&listed)?;
        }
        let seconds = self.live.take_seconds();
        seconds.iter().for_each(|second| self.so_far = second.joined(&self.so_far));
        let counts = Arc::clone(&self.live.counts);
        let (jitter, cells) = (counts.jitter(), counts.cells.totals());
        match &self.short {
            None => {
                self.writer.advance(&seconds, Totals { latency: counts.latency.totals(), jitter, cells })?
            }
            Some((short, clock)) => {
                let latency = short.with(counts.latency.totals(), clock).into_iter();
                self.writer.advance(&seconds, Totals { latency, jitter, cells })?;
            }
        }
        Ok(())
    }

    /// Everything carried over so far, as if one second.
    pub fn so_far(&self) -> Second {
        self.so_far
    }

    /// The latest sample.
    pub fn last_ns(&self) -> u64 {
        self.live.counts.last_ns()
    }

    /// Spikes seen, and how many of them are not listed.
    pub fn spikes(&self) -> (u64, u64) {
        let (seen, _) = self.live.counts.spikes();
        (seen, seen - self.listed)
    }

    /// Closes the series.
    pub fn finish(self) -> Result<()> {
        Ok(self.writer.finish()?)
    }

    /// Removes the series, which was never measured.
    pub fn discard(self) -> Result<()> {
        Ok(self.writer.discard()?)
    }

    fn spike(&self, raw: &RawSpike, start: Start) -> Spike {
        let at_ns = raw.monotonic_ns.saturating_sub(start.monotonic_ns);
        let wall = start.wall + Duration::from_nanos(at_ns);
        Spike {
            key: self.key.clone(),
            at_ns,
            monotonic_ns: raw.monotonic_ns,
            wall_time: Some(humantime::format_rfc3339_nanos(wall).to_string()),
            latency_ns: raw.latency_ns,
            missed: raw.missed,
            causes: Vec::new(),
            unexplained_ns: None,
        }
    }
}
