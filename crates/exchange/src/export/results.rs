// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of each row for programs that run tests: KTAP, as the kernel's own tests print it
//! (<https://docs.kernel.org/dev-tools/ktap.html>), and LAVA's signals
//! (<https://docs.lavasoftware.org/lava/writing-tests.html>).
//!
//! A row passes where its limit held. The last result is the verdict of the whole bundle, which may refuse
//! rows that all pass: the samples may be too few, or the measurement was disturbed.

use std::fmt::Write;

use evidence::document::{ACCEPTED, ProveDocument};
use evidence::manifest::RowKey;
use evidence::reader::Bundle;
use evidence::row::Row;
use evidence::verdict::{RowVerdict, VerdictOutcome};
use machine::quantity::{Say, Sign};
use machine::units::{count, us};

use super::RowFilter;

/// One result.
struct TestResult {
    name: String,
    outcome: TestOutcome,
    /// Figures, or the reasons.
    lines: Vec<String>,
    max_ns: Option<u64>,
}

enum TestOutcome {
    Pass,
    Fail,
    /// It is not known whether it kept its limit, or that is not proven.
    Unknown,
    /// Not measured, and why.
    Skip(String),
}

/// Each row, what was not measured, and the verdict.
fn results(bundle: &Bundle, choice: &RowFilter) -> Vec<TestResult> {
    let document = ProveDocument::without_tails(bundle);
    let verdict = &document.verdict;
    let rows = bundle
        .rows
        .iter()
        .zip(&verdict.rows)
        .filter(|(row, _)| choice.takes(&row.entry.key.load, &row.entry.key.probe));
    let mut results: Vec<TestResult> = rows.map(|(row, judged)| of_row(row, judged)).collect();
    for row in bundle.manifest.rows_not_run().into_iter().filter(|row| choice.takes(&row.load, &row.probe)) {
        let (name, outcome) = (format!("{}/{}", row.probe, row.load), TestOutcome::Skip(row.reason));
        results.push(TestResult { name, outcome, lines: Vec::new(), max_ns: None });
    }
    results.push(TestResult {
        name: "verdict".to_string(),
        outcome: match verdict.outcome {
            VerdictOutcome::Held => TestOutcome::Pass,
            VerdictOutcome::Exceeded => TestOutcome::Fail,
            VerdictOutcome::Unproven => TestOutcome::Unknown,
        },
        lines: document.parts().lines().iter().map(ToString::to_string).collect(),
        max_ns: None,
    });
    results
}

fn of_row(row: &Row, judged: &RowVerdict) -> TestResult {
    let max_ns = row.stated_max_ns();
    let limit = row.entry.limit_ns.map_or_else(|| "none".to_string(), us);
    let (samples, late) = (count(judged.count), judged.late_cycles().write(Sign::Plain));
    let samples = if judged.count == 0 { "no samples".to_string() } else { format!("{samples} samples") };
    let figures = match max_ns.map(us) {
        Some(max) => format!("{samples}, max {max}, limit {limit}, late {late}"),
        None if judged.measured() => format!("{samples}, max unknown, limit {limit}, late {late}"),
        None => format!("{samples}, limit {limit}"),
    };
    let outcome = match (judged.measured(), judged.held) {
        (false, _) => TestOutcome::Skip("it has no samples".to_string()),
        _ if row.entry.limit_ns.is_none() => TestOutcome::Skip("no limit judges it".to_string()),
        _ if judged.unknown.is_some() => TestOutcome::Unknown,
        (true, true) => TestOutcome::Pass,
        (true, false) => TestOutcome::Fail,
    };
    let unknown = judged.unknown.iter().map(ToString::to_string);
    TestResult {
        name: name(&row.entry.key),
        outcome,
        lines: [figures].into_iter().chain(unknown).collect(),
        max_ns,
    }
}

fn name(key: &RowKey) -> String {
    let period = key.period_ns.map(|ns| format!("/{}us", ns as f64 / 1e3)).unwrap_or_default();
    let thread = key.thread_name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    format!("{}/{}/cpu{}{period}{thread}", key.probe, key.load, key.cpu)
}

/// KTAP, version 1.
pub(super) fn ktap(bundle: &Bundle, choice: &RowFilter) -> String {
    // A `#` ends a name, and a line is one line.
    let clean = |text: &str| untrusted::text::clean(text).replace('#', "_");
    let results = results(bundle, choice);
    let mut out = format!("KTAP version 1\n1..{}\n", results.len());
    for (number, result) in (1..).zip(&results) {
        for line in &result.lines {
            let _ = writeln!(out, "# {}", clean(line));
        }
        let (word, skip) = match &result.outcome {
            TestOutcome::Pass => ("ok", String::new()),
            // KTAP has no third word, and what is not proven has not passed.
            TestOutcome::Fail | TestOutcome::Unknown => ("not ok", String::new()),
            TestOutcome::Skip(reason) => ("ok", format!(" # SKIP {}", clean(reason))),
        };
        let _ = writeln!(out, "{word} {number} {}{skip}", clean(&result.name));
    }
    out
}

/// LAVA's signals, a line each: its dispatcher reads them from what a test prints.
pub(super) fn lava(bundle: &Bundle, choice: &RowFilter) -> String {
    // What LAVA takes in a name.
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let mut out = String::new();
    for result in results(bundle, choice) {
        let name: String = result.name.chars().map(plain).collect();
        let word = match result.outcome {
            TestOutcome::Pass => "pass",
            TestOutcome::Fail => "fail",
            TestOutcome::Unknown => "unknown",
            TestOutcome::Skip(_) => "skip",
        };
        let measured = result.max_ns.map(|ns| format!(" MEASUREMENT={} UNITS=us", ns as f64 / 1e3));
        let measured = measured.unwrap_or_default();
        let _ = writeln!(out, "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={name} RESULT={word}{measured}>");
        // LAVA passes over other lines, and keeps them in its log.
        for line in result.lines.iter().filter(|line| line.starts_with(ACCEPTED)) {
            let _ = writeln!(out, "# {}", untrusted::text::clean(line));
        }
    }
    out
}
