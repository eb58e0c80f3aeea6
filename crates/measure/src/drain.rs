// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control thread's half of a series: carries what a measuring thread recorded into the bundle.

use std::cmp::Reverse;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cause::Explainer;
use evidence::histogram::Histogram;
use evidence::manifest::{RowKey, Second, Spike};
use evidence::writer::{BundleWriter, RunningTotals, SeriesWriter};
use rt::clock::Calibration;

use crate::error::Result;
use crate::recorder::{FEW_SECONDS, LiveSeries, RawSpike, Recorder, recorder, with_room};
use crate::samples::{Arrivals, Sample, Samples, sample_ring};
use crate::schedule::{Schedule, Window, missed};
use crate::series::SeriesSpec;
use crate::short_gaps::ShortGaps;

/// When a row begins, on both clocks, and what of it there is to miss.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Its recorded part, on CLOCK_MONOTONIC.
    pub window: Window,
    /// The wall time at which that begins, where it is known.
    pub wall: Option<SystemTime>,
}

/// One series on its way from the measuring thread to the bundle.
#[derive(Debug)]
pub struct Drain {
    key: RowKey,
    live: LiveSeries,
    source: DrainSource,
    start: Option<Start>,
    writer: SeriesWriter,
    so_far: Second,
    /// The longest spike of those that were last carried over.
    new_spike: Option<Spike>,
}

/// The data that the measuring thread sends.
#[derive(Debug)]
enum DrainSource {
    /// Cycles that come each period, recorded here.
    Cycles { arrivals: Arrivals, recorder: Recorder, period_ns: u64, ran_ns: Option<u64> },
    /// The spin loop records long gaps itself; short ones are counted by ticks.
    Gaps { short: ShortGaps, clock: Calibration },
    /// The caller records.
    Recorded,
}

impl DrainSource {
    /// Records what has arrived of a row that began at `start`.
    fn record(&mut self, start: &Start) {
        let DrainSource::Cycles { arrivals, recorder, period_ns, ran_ns } = self else { return };
        let period_ns = *period_ns;
        while let Some(Sample { due_ns, woke_ns }) = arrivals.take() {
            let interval_ns = woke_ns.saturating_sub(ran_ns.unwrap_or(due_ns.saturating_sub(period_ns)));
            let left = start.window.loops.saturating_sub(recorder.cycles() + 1);
            let missed = missed(due_ns, woke_ns, period_ns, start.window.end_ns).min(left);
            recorder.wakeup(due_ns, woke_ns, interval_ns, missed);
            *ran_ns = Some(woke_ns);
        }
    }
}

impl Drain {
    /// Begins a series of cycles in `bundle`, one each `period`; glows in its persistence picture halve every
    /// `half_life_s`.
    pub fn cycles(
        series: &SeriesSpec,
        period: NonZeroU64,
        bundle: &BundleWriter,
        half_life_s: f64,
    ) -> Result<(Samples, Drain)> {
        let (recorder, live) = recorder(series.threshold_ns, Schedule::Periodic(period));
        let (samples, arrivals) = sample_ring(period.get());
        let source = DrainSource::Cycles { arrivals, recorder, period_ns: period.get(), ran_ns: None };
        Ok((samples, Drain::new(series, live, source, bundle, half_life_s)?))
    }

    /// Begins a series of gaps, likewise; `clock` is the rate of the loop's counter.
    pub fn gaps(
        series: &SeriesSpec,
        clock: Calibration,
        bundle: &BundleWriter,
        half_life_s: f64,
    ) -> Result<(Recorder, ShortGaps, Drain)> {
        let (recorder, live) = recorder(series.threshold_ns, Schedule::Continuous);
        live.touch();
        let short = ShortGaps::default();
        let source = DrainSource::Gaps { short: short.clone(), clock };
        Ok((recorder, short, Drain::new(series, live, source, bundle, half_life_s)?))
    }

    /// Begins a series of which the caller records every sample; `recorder.start()` is its to call too.
    pub fn recorded(
        series: &SeriesSpec,
        schedule: Schedule,
        bundle: &BundleWriter,
        half_life_s: f64,
    ) -> Result<(Recorder, Drain)> {
        let (recorder, live) = with_room(series.threshold_ns, schedule, FEW_SECONDS);
        Ok((recorder, Drain::new(series, live, DrainSource::Recorded, bundle, half_life_s)?))
    }

    fn new(
        series: &SeriesSpec,
        live: LiveSeries,
        source: DrainSource,
        bundle: &BundleWriter,
        half_life_s: f64,
    ) -> Result<Drain> {
        let writer = bundle.series(&series.key, half_life_s)?;
        Ok(Drain {
            key: series.key.clone(),
            live,
            source,
            start: None,
            writer,
            so_far: Second::default(),
            new_spike: None,
        })
    }

    /// Says when the row begins; nothing is carried over before.
    pub fn start(&mut self, start: Start) {
        self.start = Some(start);
        if let DrainSource::Cycles { recorder, .. } = &mut self.source {
            recorder.start(start.window.start_ns);
        }
    }

    /// Carries finished seconds and spikes over; spikes have no causes without an explainer.
    pub fn carry(&mut self, bundle: &mut BundleWriter, mut explainer: Option<&mut Explainer>) -> Result<()> {
        let Some(start) = self.start else { return Ok(()) };
        self.source.record(&start);
        let spikes = self.live.take_spikes();
        let mut chosen = spikes.clone();
        if bundle.is_long_run() {
            chosen.sort_by_key(|raw| Reverse(raw.latency_ns));
        }
        chosen.truncate(bundle.room_for_spikes(&self.key));
        let listed =
            chosen.iter().map(|raw| self.spike(raw, start, explainer.as_deref_mut())).collect::<Vec<_>>();
        if !listed.is_empty() {
            bundle.spikes(&listed)?;
        }
        let longest = listed.into_iter().max_by_key(|spike| spike.latency_ns);
        // Those that are only counted have no causes.
        let counted = || spikes.iter().max_by_key(|raw| raw.latency_ns).map(|raw| self.bare(raw, start));
        self.new_spike = longest.or_else(counted);
        let seconds = self.live.take_seconds();
        seconds.iter().for_each(|second| self.so_far = second.joined(&self.so_far));
        let counts = Arc::clone(&self.live.counts);
        let (jitter, cells) = (counts.jitter(), counts.cells());
        match &self.source {
            DrainSource::Cycles { .. } | DrainSource::Recorded => {
                self.writer
                    .advance(&seconds, RunningTotals { latency: counts.latency.totals(), jitter, cells })?;
            }
            DrainSource::Gaps { short, clock } => {
                let latency = short.with(counts.latency.totals(), clock).into_iter();
                self.writer.advance(&seconds, RunningTotals { latency, jitter, cells })?;
            }
        }
        Ok(())
    }

    /// Carries the rest over, once the measuring thread has ended: the last second may be a part of one.
    pub fn carry_last(&mut self, bundle: &mut BundleWriter, explainer: Option<&mut Explainer>) -> Result<()> {
        if let Some(start) = &self.start {
            self.source.record(start);
        }
        if let DrainSource::Cycles { recorder, .. } = &mut self.source {
            recorder.finish();
        }
        self.carry(bundle, explainer)
    }

    /// Wakeups that were lost because the control thread was kept away for too long.
    pub fn lost(&self) -> u64 {
        match &self.source {
            DrainSource::Cycles { arrivals, .. } => arrivals.lost(),
            DrainSource::Gaps { .. } | DrainSource::Recorded => 0,
        }
    }

    /// Everything carried over so far, as if one second.
    pub fn so_far(&self) -> Second {
        self.so_far
    }

    /// All samples of a series that is [`Drain::recorded`], of which `so_far` has sum and extremes.
    pub fn latency(&self, so_far: &Second) -> Histogram {
        let mut latency = Histogram::new();
        for (index, count) in self.live.counts.latency.totals() {
            latency.add(index, count, 0, so_far.min_ns, so_far.max_ns);
        }
        latency.set_sum(so_far.sum_ns.into());
        latency
    }

    /// The latest sample.
    pub fn last_ns(&self) -> u64 {
        self.live.counts.last_ns()
    }

    /// The longest spike of those that were last carried over.
    pub fn new_spike(&self) -> Option<Spike> {
        self.new_spike.clone()
    }

    /// Spikes seen, and how many of them `bundle` does not list.
    pub fn spikes(&self, bundle: &BundleWriter) -> (u64, u64) {
        let (seen, _) = self.live.counts.spikes();
        (seen, seen.saturating_sub(bundle.listed(&self.key)))
    }

    /// Closes the series.
    pub fn finish(self) -> Result<()> {
        Ok(self.writer.finish()?)
    }

    /// Removes the series, which was never measured.
    pub fn discard(self) -> Result<()> {
        Ok(self.writer.discard()?)
    }

    fn spike(&self, raw: &RawSpike, start: Start, explainer: Option<&mut Explainer>) -> Spike {
        let mut spike = self.bare(raw, start);
        explainer.into_iter().for_each(|explainer| explainer.explain(&mut spike));
        spike
    }

    /// A spike without its causes.
    fn bare(&self, raw: &RawSpike, start: Start) -> Spike {
        let at_ns = raw.monotonic_ns.saturating_sub(start.window.start_ns);
        let wall = start.wall.map(|wall| wall + Duration::from_nanos(at_ns));
        Spike {
            at_ns,
            monotonic_ns: raw.monotonic_ns,
            wall_time: wall.map(|wall| humantime::format_rfc3339_nanos(wall).to_string()),
            missed: raw.missed,
            ..Spike::new(self.key.clone(), raw.latency_ns)
        }
    }
}
