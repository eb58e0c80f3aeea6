// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the formats that a text shows. Each format says by which lines.
//!
//! One line is not enough: prose quotes lines of other tools' results.

use std::collections::BTreeMap;

use super::ImportFormat;
use super::scan::format::{Mark, Told};

/// The formats whose results are in a text; more than one where it holds results of several tools.
pub(super) fn all(text: &str) -> Vec<ImportFormat> {
    let mut by_line = Vec::new();
    for format in ImportFormat::ALL {
        match format.description().told {
            Told::Text(tells) if tells(text) => return vec![format],
            Told::Lines(mark) => by_line.push((format, mark)),
            Told::Text(_) | Told::Json(_) => {}
        }
    }
    let (mut told, mut seen) = (Vec::new(), BTreeMap::new());
    for line in text.lines() {
        for (place, (format, mark)) in by_line.iter().enumerate() {
            let Some(mark) = mark(line) else { continue };
            let before = seen.insert(place, mark);
            let is_told = match mark {
                Mark::Sure => true,
                Mark::Half => before.is_some(),
                Mark::Kind(_) => before.is_some_and(|before| before != mark),
            };
            if is_told && !told.contains(format) {
                told.push(*format);
            }
        }
    }
    let is_part = |format: &ImportFormat| told.iter().any(|whole| whole.parts().contains(format));
    told.iter().copied().filter(|format| !is_part(format)).collect()
}

/// The format of a JSON document.
pub(super) fn json(document: &str) -> Option<ImportFormat> {
    let document = serde_json::from_str(document).unwrap_or_default();
    let tells = |format: &ImportFormat| match format.description().told {
        Told::Json(tells) => tells(&document),
        Told::Lines(_) | Told::Text(_) => false,
    };
    ImportFormat::ALL.into_iter().find(tells)
}

/// Beginnings of texts of which only the head is there, and the tools that print them.
const HEADS: [(&str, &str); 10] = [
    ("# /dev/cpu_dma_latency set to", "cyclictest or another tool of rt-tests"),
    ("policy: ", "cyclictest"),
    ("oslat V", "oslat"),
    ("# RTLA ", "rtla"),
    ("Timer Latency", "rtla timerlat top"),
    ("Operating System Noise", "rtla osnoise top"),
    ("Hardware-related Noise", "rtla hwnoise"),
    ("== All results in ", "Xenomai's latency or EVL's latmus"),
    ("hwlatdetect:", "hwlatdetect"),
    ("stress-ng: ", "stress-ng"),
];

/// Why a text of which no format was told cannot be read.
pub(super) fn without_result(text: &str) -> String {
    let head = |line: &str| HEADS.iter().find(|(beginning, _)| line.trim().starts_with(beginning));
    match text.lines().find_map(head) {
        Some((_, tool)) => format!("it holds no result: of {tool} only the head is there"),
        None if !text.trim_start().starts_with('{') => "it is in no format that is known".into(),
        None => match serde_json::from_str::<serde_json::Value>(text).unwrap_or_default().get("thread") {
            Some(threads) if threads.as_object().is_some_and(|threads| threads.is_empty()) => {
                "it holds no result: its list of threads is empty".into()
            }
            _ => "it is JSON of a tool that is not known".into(),
        },
    }
}
