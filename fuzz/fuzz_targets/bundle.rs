// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle's files damaged in any way: no panic, and what is read can be judged and exported.
//!
//! The input is cut at lines `=== NAME` into files. Where it names no manifest, one row of a whole manifest is
//! put in, so that the readers of the series are reached at once.
#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use evidence::export::{Choice, Format, export};
use evidence::{Bundle, Summary, Verdict};
use libfuzzer_sys::fuzz_target;

const MANIFEST: &str = include_str!("../seeds/manifest.json");

fuzz_target!(|data: &[u8]| {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut name = "series/a.histograms.csv".to_string();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if let Some(next) = line.strip_prefix(b"=== ") {
            name = String::from_utf8_lossy(next).trim().to_string();
        } else {
            files.entry(name.clone()).or_default().extend(line);
        }
    }
    files.entry("manifest.json".into()).or_insert_with(|| MANIFEST.as_bytes().to_vec());
    let Ok(bundle) = Bundle::from_files(Path::new("bundle"), files) else { return };
    bundle.rows.iter().map(Summary::of).for_each(drop);
    let _ = Verdict::of(&bundle);
    for format in [Format::Cyclictest, Format::Rtla, Format::Csv] {
        let _ = export(&bundle, format, &Choice::default());
    }
});
