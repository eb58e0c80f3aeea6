// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of what runs and tools leave: bundles, archives, other tools' files, guests, scenarios, the
//! fleet's store.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use evidence::manifest::{Asked, Manifest};
use evidence::{Bundle, Histogram, Row, Summary, tail as tails};
use exchange::{export, import as importers};
use fleet::synthetic::{FleetSize, write};
use report::prometheus::{MetricsFormat, answer, monitor};
use run::recorded::TraceRun;
use trace::choice::LoopChoice;

use super::parts::parts;
use super::render::render;

/// One row of a whole manifest, for inputs that have none: the readers of series are reached at once.
const MANIFEST: &[u8] = include_bytes!("../../../../fuzz/seeds/manifest.json");

/// A bundle's files, cut at lines `=== NAME`.
pub(crate) fn bundle(data: &[u8]) {
    let mut files: BTreeMap<String, Vec<u8>> = parts(data, "series/a.histograms.csv").into_iter().collect();
    files.entry("manifest.json".into()).or_insert_with(|| MANIFEST.to_vec());
    if let Ok(bundle) = Bundle::from_files(Path::new("bundle"), files) {
        render(&bundle);
    }
}

/// A `.tar.zst`.
pub(crate) fn archive(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("bundle.tar.zst");
    if fs::write(&path, data).is_ok()
        && let Ok(bundle) = Bundle::open(&path)
    {
        render(&bundle);
    }
}

/// Another tool's result.
pub(crate) fn import(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for format in importers::ImportFormat::ALL {
        let _ = importers::parse(&text, Some(format));
        let _ = importers::parse_with(&text, Some(format), Some(importers::FigureUnit::Nanoseconds));
    }
    if let Ok(mut bundle) = importers::parse(&text, None) {
        importers::set_load(&mut bundle, "cpu");
        importers::set_limit(&mut bundle, Some(100_000));
        bundle.rows.iter().for_each(in_order);
        render(&bundle);
        read_again(&bundle);
    }
}

/// Figures lie between the extremes, and the histogram has as many samples as are counted.
fn in_order(row: &Row) {
    let summary = Summary::of(row);
    let within = |ns: u64| summary.min_ns <= Some(ns) && ns <= summary.max_ns;
    assert!(summary.min_ns <= Some(summary.max_ns) && summary.p50_ns.is_none_or(within));
    let counts = row.series.latency.buckets().map(|bucket| bucket.count);
    assert_eq!(counts.fold(0, u64::saturating_add), summary.count);
}

/// Tables that are exported can be read.
fn read_again(bundle: &Bundle) {
    let probe = bundle.manifest.asked.probes.first().cloned();
    for format in [export::ExportFormat::Cyclictest, export::ExportFormat::Rtla] {
        if let Ok(text) =
            export::export(bundle, format, &export::RowFilter { load: None, probe: probe.clone() })
        {
            assert!(importers::parse(&text, None).is_ok(), "{text}");
        }
    }
}

/// Latencies and how often each came, as pairs of numbers of eight bytes.
pub(crate) fn tail(data: &[u8]) {
    let mut latency = Histogram::new();
    for pair in data.chunks_exact(16) {
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        latency.record_many(number(&pair[..8]), number(&pair[8..]));
    }
    let _ = serde_json::to_string(&tails::estimate(&latency, &[]));
    let _ = latency.corrected(1_000_000);
}

/// A trace of another tool, whose loops become a bundle; the files of a folder, cut at lines `=== NAME`.
pub(crate) fn trace(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let (file, bundle) = (folder.path().join("trace"), folder.path().join("bundle"));
    let written = match data.starts_with(b"=== ") {
        true => fs::create_dir(&file).and_then(|()| {
            // Names lead nowhere else.
            let files = parts(data, "").into_iter().filter(|(name, _)| !name.contains('/'));
            files.into_iter().try_for_each(|(name, bytes)| fs::write(file.join(name), bytes))
        }),
        false => fs::write(&file, data),
    };
    if written.is_err() {
        return;
    }
    let read = |period: Option<NonZeroU64>, folder: &Path| {
        let choice = LoopChoice { period, ..LoopChoice::default() };
        let (asked, stop) = (Asked::default(), Arc::default());
        let written_by = Manifest::new("isolator", Asked::default()).written_by;
        run::recorded::read(TraceRun { trace: &file, choice, asked, written_by, stop }, folder, &mut |_| {})
    };
    // A short one has a loop where its period is known.
    if let Ok(bundle) = read(None, &bundle).or_else(|_| read(NonZeroU64::new(2_000_000), &bundle)) {
        render(&bundle);
    }
}

/// A guest's output: frames, and in them a scope's record, a kernel's log and a trace.
pub(crate) fn guest(data: &[u8]) {
    let frames = ::lab::frame::read(data);
    let texts = frames.iter().map(|(_, bytes)| bytes.as_slice()).chain([data]);
    for text in texts.map(String::from_utf8_lossy) {
        let _ = ::lab::log::judge(&text, &[]);
        let _ = ::lab::scope::rows(&text, "guest");
        let _ = ::lab::witness::compare("guest", 1, &text, &text);
    }
}

/// A file of scenarios.
pub(crate) fn scenarios(data: &[u8]) {
    if let Ok(scenarios) = ::lab::scenario::parse(&String::from_utf8_lossy(data), "scenarios.toml") {
        scenarios.iter().map(::lab::scenario::text).for_each(drop);
    }
}

/// A table of the fleet's store, which more bundles are added to.
pub(crate) fn store(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let (bundle, store) = (folder.path().join("a.tar.zst"), folder.path().join("store"));
    let part = store.join("part-0001");
    let tables = ["bundles", "unread"].map(|table| part.join(format!("{table}.parquet")));
    let made =
        fs::create_dir_all(&part).and_then(|()| tables.iter().try_for_each(|table| fs::write(table, data)));
    let size = FleetSize { cpus: 1, loads: 1, seconds: 1 };
    if made.is_ok() && write(&bundle, 0, 0, 1.0, size).is_ok() {
        let _ = fleet::store(&store, &[bundle], &evidence::Judge::default());
    }
}

/// A peer's request over HTTP.
pub(crate) fn requests(data: &[u8]) {
    let families = monitor("loop", &[]);
    let answer = answer(&String::from_utf8_lossy(data), &|format: MetricsFormat| format.of(&families));
    assert!(answer.starts_with(b"HTTP/1.1 "));
}
