// SPDX-License-Identifier: MIT OR Apache-2.0
//! JUnit's XML, for CI systems. A gate: a test case for each figure of each row, one for the verdict. What
//! lint found: a test case for each finding, and one for each rule that is kept.
//!
//! JUnit has no standard; this keeps to what Jenkins, GitLab and GitHub's reporters read: `testsuite` with
//! counts, `testcase` with `classname` and `name`, `failure`, `error` and `skipped` with a message,
//! `system-out` with the figures of a case that came out well, and `properties` with the candidate's verdict.
//! Written by hand: it is eight elements.

use std::fmt::Write;

use compare::gate::{GateReason, Gated};
use evidence::document::VerdictParts;
use evidence::fitness::UseVerdict;
use evidence::manifest::RowKey;
use lint::LintDocument;
use lint::rule::{LintSeverity, RULES};
use machine::quantity::{Say, Sign, Time};
use untrusted::text::xml as escaped;

/// The document of a gate that was judged, or could not be.
pub fn junit(gate: &Gated) -> String {
    let mut suite = Suite::default();
    suite.properties(&gate.candidate.verdict);
    gate.judging.iter().for_each(|line| suite.property("judged by", line));
    for taint in gate.baselines.iter().flat_map(|run| &run.verdict.taints) {
        let accepted = if taint.accepted { "accepted " } else { "" };
        suite.property(&format!("baseline's {accepted}taint"), &taint.to_string());
    }
    for why in gate.faults() {
        suite.case("isolator", "judged", Some((CaseKind::Error, &why.to_string())));
    }
    // A verdict without a baseline has no entry.
    if gate.faults().next().is_none() {
        let why = gate.verdict_changed().map(ToString::to_string);
        suite.case("isolator", "verdict", why.as_deref().map(|why| (CaseKind::Failure, why)));
    }
    for one in gate.figures.iter().filter(|one| one.judged) {
        let why = one.to_string();
        match one.worse {
            true => suite.case(&class(&one.key), one.figure.label(), Some((CaseKind::Failure, &why))),
            false => suite.passed(&class(&one.key), one.figure.label(), &why),
        }
    }
    for row in gate.rows.iter().filter(|row| row.limit_ns.is_some()) {
        // The verdict fails, not the row: a baseline may have been above its limit, too.
        suite.passed(&class(&row.key), "limit", &row.to_string());
    }
    for key in &gate.not_measured {
        let why = GateReason::NotMeasured(key.clone()).to_string();
        suite.case(&class(key), "measured", Some((CaseKind::Failure, &why)));
    }
    for row in &gate.not_judged {
        let name = row.figure.map_or("judged", |figure| figure.label());
        suite.case(&class(&row.key), name, Some((CaseKind::Error, &row.reason())));
    }
    for row in &gate.not_run {
        let class = format!("{} under {}", row.probe, row.load).replace('.', "·");
        let kind = if row.optional { CaseKind::Skipped } else { CaseKind::Error };
        suite.case(&class, "run", Some((kind, &row.reason)));
    }
    suite.document(&format!("isolator gate {}", gate.candidate.bundle))
}

/// The document of a gate that came to nothing: a bundle that cannot be read, or runs that are unlike.
pub fn junit_error(candidate: &str, why: &str) -> String {
    let mut suite = Suite::default();
    suite.case("isolator", "judged", Some((CaseKind::Error, why)));
    suite.document(&format!("isolator gate {candidate}"))
}

/// The document of what lint found; a note is a case that was skipped.
pub fn junit_lint(document: &LintDocument) -> String {
    let mut suite = Suite::default();
    for text in &RULES {
        let mut found = document.findings.iter().filter(|finding| finding.rule == text.rule).peekable();
        if found.peek().is_none() {
            suite.case("lint", text.id, None);
        }
        for finding in found {
            let kind = match finding.severity {
                LintSeverity::Error => CaseKind::Failure,
                LintSeverity::Note => CaseKind::Skipped,
            };
            let thread = finding.thread.as_ref().map(|thread| format!(" ({})", thread.name));
            let name = format!("{}{}", finding.place, thread.unwrap_or_default());
            let why = format!("{}, {} times; {}", finding.message, finding.count, finding.advice);
            suite.case(&format!("lint.{}", text.id), &name, Some((kind, &why)));
        }
    }
    suite.document(&format!("isolator lint {}", document.program))
}

/// The document of a program that could not be watched.
pub fn junit_lint_error(program: &str, why: &str) -> String {
    let mut suite = Suite::default();
    suite.case("lint", "watched", Some((CaseKind::Error, why)));
    suite.document(&format!("isolator lint {program}"))
}

#[derive(Clone, Copy)]
enum CaseKind {
    Failure,
    Error,
    Skipped,
}

/// Cases, and how many of them came out otherwise than well.
#[derive(Default)]
struct Suite {
    properties: String,
    cases: String,
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Suite {
    fn property(&mut self, name: &str, value: &str) {
        let (name, value) = (escaped(name), escaped(value));
        let _ = writeln!(self.properties, "    <property name=\"{name}\" value=\"{value}\"/>");
    }

    /// The verdict that the cases stand beside; a reason or a taint is a property each.
    fn properties(&mut self, parts: &VerdictParts) {
        let VerdictParts { held: _, outcome, kept, limit_ns, reasons, claim, taints, purpose, cycles } =
            parts;
        let mut add = |name: &str, value: &str| self.property(name, value);
        add("verdict", outcome.name());
        limit_ns.iter().for_each(|ns| add("limit", &Time::exact(*ns).write(Sign::Plain)));
        add("limit kept", kept.map_or("unknown", |kept| if kept { "yes" } else { "no" }));
        add("late cycles", &cycles.late().write(Sign::Plain));
        add("cycles", &cycles.due().map_or("unknown".to_string(), |due| due.write(Sign::Plain)));
        claim.iter().for_each(|claim| add("claim", &claim.sentence()));
        let purpose = purpose.as_ref();
        purpose.and_then(UseVerdict::sentence).iter().for_each(|said| add("use", said));
        purpose.and_then(|purpose| purpose.grade).iter().for_each(|grade| add("grade", grade.name()));
        reasons.iter().for_each(|reason| add("reason", reason));
        for taint in taints {
            add(if taint.accepted { "accepted taint" } else { "taint" }, &taint.to_string());
        }
    }

    fn case(&mut self, class: &str, name: &str, outcome: Option<(CaseKind, &str)>) {
        self.tests += 1;
        let head = format!("  <testcase classname=\"{}\" name=\"{}\"", escaped(class), escaped(name));
        let Some((kind, why)) = outcome else {
            let _ = writeln!(self.cases, "{head}/>");
            return;
        };
        let (number, element) = match kind {
            CaseKind::Failure => (&mut self.failures, "failure"),
            CaseKind::Error => (&mut self.errors, "error"),
            CaseKind::Skipped => (&mut self.skipped, "skipped"),
        };
        *number += 1;
        let why = escaped(why);
        let _ = writeln!(self.cases, "{head}>\n    <{element} message=\"{why}\"/>\n  </testcase>");
    }

    /// A case that came out well, with its figures.
    fn passed(&mut self, class: &str, name: &str, figures: &str) {
        self.tests += 1;
        let (class, name, figures) = (escaped(class), escaped(name), escaped(figures));
        let _ = writeln!(
            self.cases,
            "  <testcase classname=\"{class}\" name=\"{name}\">\n    <system-out>{figures}</system-out>\n  </testcase>"
        );
    }

    fn document(&self, name: &str) -> String {
        let Suite { properties, cases, tests, failures, errors, skipped } = self;
        let properties = match properties.is_empty() {
            true => String::new(),
            false => format!("  <properties>\n{properties}  </properties>\n"),
        };
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{tests}\" \
             failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">\n{properties}{cases}</testsuite>\n",
            escaped(name)
        )
    }
}

/// The group of a row's cases: dots part groups in what reads JUnit.
fn class(key: &RowKey) -> String {
    key.to_string().replace('.', "·")
}
