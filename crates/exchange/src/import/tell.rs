// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the text formats that show themselves by lines of two kinds, or by two lines of one.
//!
//! One line is not enough: prose quotes lines of other tools' results.

use super::threads::PairTool;
use super::{
    ImportFormat, cyclictest, deadline_test, latmus, linuxcnc, oslat, pairs, rteval, rtla_top, stress_ng,
    xenomai,
};

/// What a line shows: a format, and which of its marks.
type FormatMark = (ImportFormat, u8);

/// A thread's line of latency-test that names its figures.
const NAMED: FormatMark = (ImportFormat::LinuxcncTest, 3);

/// The formats whose results are in a text; more than one where it holds results of several tools.
pub(super) fn all(text: &str) -> Vec<ImportFormat> {
    if rteval::is_report(text) {
        return vec![ImportFormat::Rteval];
    }
    let (mut told, mut seen, mut rows) = (Vec::new(), Vec::<FormatMark>::new(), 0);
    let mut tell = |format| {
        if !told.contains(&format) {
            told.push(format);
        }
    };
    let mut head = None;
    for mark in text.lines().filter_map(|line| columns_of_rtla(line, &mut head).or_else(|| mark(line))) {
        if mark.0 == ImportFormat::Xenomai {
            rows += 1;
        } else if seen.iter().any(|before| before.0 == mark.0 && before.1 != mark.1) || is_told_by_one(mark) {
            tell(mark.0);
        } else if !seen.contains(&mark) {
            seen.push(mark);
        }
    }
    // The histogram of latmus says more than its table, which may stand before it.
    if rows > 1 && !told.contains(&ImportFormat::Latmus) {
        told.push(ImportFormat::Xenomai);
    }
    without_parts(told)
}

/// How a text begins of which only the head is there, and the tool that prints it.
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

/// What one run of one tool may print besides: cyclictest its summary beside a histogram or samples,
/// signaltest and others samples beside their summary.
fn without_parts(told: Vec<ImportFormat>) -> Vec<ImportFormat> {
    use ImportFormat::*;
    let has = |formats: &[ImportFormat]| told.iter().any(|format| formats.contains(format));
    let is_part = |format: &ImportFormat| match format {
        CyclictestSummary => has(&[CyclictestHistogram, CyclictestVerbose]),
        CyclictestVerbose => has(&[CyclictestHistogram, Signaltest, Cyclicdeadline]),
        _ => false,
    };
    told.iter().copied().filter(|format| !is_part(format)).collect()
}

/// The columns of rtla's histogram, of which its first line says whether it is timerlat's or osnoise's.
fn columns_of_rtla(line: &str, head: &mut Option<ImportFormat>) -> Option<FormatMark> {
    match line {
        "# RTLA timerlat histogram" => *head = Some(ImportFormat::Timerlat),
        "# RTLA osnoise histogram" => *head = Some(ImportFormat::Osnoise),
        _ => {}
    }
    let format = (*head)?;
    (line.split_whitespace().next() == Some("Index")).then_some((format, 1))
}

/// Whether every field of a line has its name, so that no other text looks like it.
fn is_told_by_one(mark: FormatMark) -> bool {
    use ImportFormat::*;
    let whole = [LinuxcncHistogram, Signaltest, Cyclicdeadline, CyclictestSummary];
    whole.contains(&mark.0) || mark == NAMED
}

/// The lines of cyclictest, oslat, hwlatdetect and rtla hist that show which tool wrote them.
fn begins(line: &str) -> Option<FormatMark> {
    const BEGINNINGS: [(&str, FormatMark); 17] = [
        ("# Histogram", (ImportFormat::CyclictestHistogram, 0)),
        ("# Min Latencies:", (ImportFormat::CyclictestHistogram, 1)),
        ("# Avg Latencies:", (ImportFormat::CyclictestHistogram, 2)),
        ("# Max Latencies:", (ImportFormat::CyclictestHistogram, 3)),
        ("# Total:", (ImportFormat::CyclictestHistogram, 4)),
        ("oslat V", (ImportFormat::OslatText, 255)),
        ("Counter Freq:", (ImportFormat::OslatText, 254)),
        ("Core:", (ImportFormat::OslatText, 253)),
        ("Workload mem:", (ImportFormat::OslatText, 252)),
        ("hwlatdetect:", (ImportFormat::Hwlatdetect, 0)),
        ("Latency threshold:", (ImportFormat::Hwlatdetect, 1)),
        ("Sample window:", (ImportFormat::Hwlatdetect, 2)),
        ("Samples recorded:", (ImportFormat::Hwlatdetect, 3)),
        ("ts:", (ImportFormat::Hwlatdetect, 4)),
        ("# RTLA timerlat histogram", (ImportFormat::Timerlat, 0)),
        ("# RTLA osnoise histogram", (ImportFormat::Osnoise, 0)),
        ("Thread 0 Interval:", (ImportFormat::CyclictestVerbose, 255)),
    ];
    let beginning = || BEGINNINGS.iter().find(|(beginning, _)| line.starts_with(beginning));
    if let Some((_, cycle, _)) = cyclictest::sample(line) {
        return Some((ImportFormat::CyclictestVerbose, (cycle % 255) as u8));
    }
    beginning().map(|found| found.1).or_else(|| {
        let mut words = line.split_whitespace();
        let is_count = |word: Option<&str>| {
            word.is_some_and(|word| word.len() >= 6 && word.bytes().all(|byte| byte.is_ascii_digit()))
        };
        (is_count(words.next()) && is_count(words.next())).then_some((ImportFormat::CyclictestHistogram, 5))
    })
}

fn mark(line: &str) -> Option<FormatMark> {
    begins(line).or_else(|| other(line))
}

fn other(line: &str) -> Option<FormatMark> {
    let marks = [
        (xenomai::is_row(line) || xenomai::is_frame(line), (ImportFormat::Xenomai, 0)),
        (latmus::is_head(line), (ImportFormat::Latmus, line.as_bytes().get(2).copied().unwrap_or(0))),
        (rtla_top::heads_timerlat(line), (ImportFormat::TimerlatTop, 0)),
        (line.contains("IRQ Timer Latency ("), (ImportFormat::TimerlatTop, 1)),
        (rtla_top::heads_osnoise(line), (ImportFormat::OsnoiseTop, 0)),
        (line.starts_with("duration:") && line.contains("time is in us"), (ImportFormat::OsnoiseTop, 1)),
        (pairs::is_head(line), (ImportFormat::PairsText, 0)),
        (pairs::is_figures(line), (ImportFormat::PairsText, 1)),
        (
            deadline_test::is_figure(line),
            (ImportFormat::DeadlineTest, line.as_bytes().first().copied().unwrap_or(0)),
        ),
        (stress_ng::is_head(line), (ImportFormat::StressNg, 0)),
        (stress_ng::is_extremes(line), (ImportFormat::StressNg, 1)),
        (linuxcnc::is_histogram(line), (ImportFormat::LinuxcncHistogram, 0)),
        (oslat::bucket(line).is_some(), (ImportFormat::OslatText, oslat::bucket(line).unwrap_or(0) as u8)),
        (cyclictest::is_summary(line), (ImportFormat::CyclictestSummary, 0)),
        (linuxcnc::names_its_figures(line), NAMED),
        (linuxcnc::is_heading(line), (ImportFormat::LinuxcncTest, 0)),
        (
            linuxcnc::is_thread(line),
            (ImportFormat::LinuxcncTest, if line.to_lowercase().starts_with('s') { 1 } else { 2 }),
        ),
    ];
    let found = marks.into_iter().find(|mark| mark.0).map(|mark| mark.1);
    found.or_else(|| match PairTool::of(line)? {
        PairTool::Signaltest => Some((ImportFormat::Signaltest, 0)),
        PairTool::Cyclicdeadline => Some((ImportFormat::Cyclicdeadline, 0)),
    })
}
