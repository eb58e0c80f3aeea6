// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings of lint: by finding, the worst first; the unseen part; how many.

use lint::LintDocument;
use lint::document::LintFinding;
use lint::rule::LintSeverity;

use super::{ResultPaint, Style, hanging, wrapped};
use crate::text;

/// Everything that was found.
pub fn lint(document: &LintDocument, style: Style) -> String {
    let mut out = String::new();
    let LintDocument { program, process, threads, .. } = document;
    let seconds = document.watched_ns as f64 / 1e9;
    let count =
        if threads.len() == 1 { "1 thread".to_string() } else { format!("{} threads", threads.len()) };
    let head = format!("{program} (process {process}): {count}, watched for {seconds:.1} s");
    wrapped(&mut out, "", &text::clean(&head), ResultPaint::Plain, style);
    for finding in &document.findings {
        out.push('\n');
        let lead = format!("{:<5} {}: ", finding.severity.name(), finding.rule);
        hanging(&mut out, &lead, &text::clean(&what(finding)), 6, paint(finding.severity), style);
        hanging(&mut out, "      ", &text::clean(&finding.advice), 6, ResultPaint::Quiet, style);
    }
    if !document.not_seen.is_empty() {
        out.push('\n');
    }
    for text in &document.not_seen {
        hanging(&mut out, "not seen: ", &text::clean(text), 10, ResultPaint::Unsure, style);
    }
    let of = |severity| document.findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, notes) = (of(LintSeverity::Error), of(LintSeverity::Note));
    let summary = match (errors, notes) {
        (0, 0) => "no rule is broken".to_string(),
        _ => format!("errors: {errors}, notes: {notes}"),
    };
    out.push('\n');
    let all = if errors > 0 { ResultPaint::Bad } else { ResultPaint::Good };
    wrapped(&mut out, "", &summary, all, style);
    out
}

fn what(finding: &LintFinding) -> String {
    let thread = finding.thread.as_ref().map(|thread| format!("{} (thread {}): ", thread.name, thread.tid));
    let times = if finding.count == 1 { String::new() } else { format!(", {} times", finding.count) };
    format!("{}: {}{}{times}", finding.place, thread.unwrap_or_default(), finding.message)
}

fn paint(severity: LintSeverity) -> ResultPaint {
    match severity {
        LintSeverity::Error => ResultPaint::Bad,
        LintSeverity::Note => ResultPaint::Unsure,
    }
}
