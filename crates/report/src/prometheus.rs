// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures for Prometheus: what `isolator watch` and `isolator monitor` expose, and the two formats in which
//! it goes out.
//!
//! `watch` has counts alone, so they are counters; `monitor` has every cycle's times, so they are native
//! histograms ([`Exponential`]). Those exist in the protobuf format only: the text has the same data in one
//! classic bucket an octave, whose bounds are bounds of the others too, so that both agree.
//!
//! An exported bundle has its [`verdict()`] beside its rows.
//!
//! Written by hand: the text is a few lines, the protobuf three kinds of field (`protobuf`). Client libraries
//! want to count for themselves, in a registry of families known beforehand, and take no histogram that is
//! there already. `prost` would take the messages as structures of their own, filled from ours: about as many
//! lines, and six more crates.

mod answer;
mod exponential;
mod monitor;
mod negotiation;
mod protobuf;
mod text;
mod verdict;
mod watch;

pub use answer::{answer, headers};
pub use exponential::Exponential;
pub use monitor::{MonitoredRow, monitor};
pub use negotiation::MetricsFormat;
pub use verdict::verdict;
pub use watch::watch;

/// The classic buckets: at most so many octaves, powers of two seconds. From 0.95 µs to 1 s.
const CLASSIC: std::ops::RangeInclusive<i32> = -20..=0;

/// A metric with all its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    samples: MetricSamples,
}

impl Family {
    fn has_samples(&self) -> bool {
        match &self.samples {
            MetricSamples::Counters(samples) | MetricSamples::Gauges(samples) => !samples.is_empty(),
            MetricSamples::Histograms(samples) => !samples.is_empty(),
        }
    }
}

/// Names and values; no control characters but line feeds in values.
type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Clone, PartialEq)]
enum MetricSamples {
    /// Only grow while the program runs; the next begins at nothing, as a counter may.
    Counters(Vec<(Labels, f64)>),
    Gauges(Vec<(Labels, f64)>),
    Histograms(Vec<(Labels, Exponential)>),
}

/// A label whose value may come from anywhere.
fn label(name: &'static str, value: &str) -> (&'static str, String) {
    let plain = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    (name, value.chars().map(plain).collect())
}
