// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as any tool's result: no panic, no endless loop, and what is read can be judged and exported.
#![no_main]

use evidence::export::{self, Choice, export};
use evidence::import::{Format, Unit, parse, parse_with, set_limit, set_load};
use evidence::{Histogram, Summary, Verdict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in Format::ALL {
        let _ = parse(text, Some(format));
        let _ = parse_with(text, Some(format), Some(Unit::Nanoseconds));
    }
    let Ok(mut bundle) = parse(text, None) else { return };
    set_load(&mut bundle, "cpu");
    set_limit(&mut bundle, Some(100_000));
    for row in &bundle.rows {
        let summary = Summary::of(row);
        let within = |ns: u64| summary.min_ns <= ns && ns <= summary.max_ns;
        assert!(summary.min_ns <= summary.max_ns && summary.p50_ns.is_none_or(within));
        assert_eq!(listed(&row.series.latency), summary.count);
    }
    // A verdict that holds rests on samples none of which is above the limit.
    let verdict = Verdict::of(&bundle);
    assert!(!verdict.held || bundle.rows.iter().all(|row| row.series.latency.max_ns() <= 100_000));
    let probe = bundle.manifest.asked.probes.first().cloned();
    for format in [export::Format::Cyclictest, export::Format::Rtla, export::Format::Csv] {
        let choice = Choice { load: None, probe: probe.clone() };
        let Ok(text) = export(&bundle, format, &choice) else { continue };
        assert!(format == export::Format::Csv || parse(&text, None).is_ok(), "{text}");
    }
});

fn listed(latency: &Histogram) -> u64 {
    latency.buckets().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.count))
}
