// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate as JUnit's XML, for CI systems: a test case for each figure of each row, one for the verdict.
//!
//! JUnit has no standard; this keeps to what Jenkins, GitLab and GitHub's reporters read: `testsuite` with
//! counts, `testcase` with `classname` and `name`, `failure`, `error` and `skipped` with a message. Written
//! by hand: it is five elements.

use std::fmt::Write;

use evidence::gate::{Gated, gone};
use evidence::manifest::RowKey;
use untrusted::text::xml as escaped;

/// The document of a gate that was judged, or could not be.
pub fn junit(gate: &Gated) -> String {
    let mut suite = Suite::default();
    for why in &gate.errors {
        suite.case("isolator", "judged", Some((CaseKind::Error, why)));
    }
    // Nothing is said of a verdict that nothing was held against.
    if gate.errors.is_empty() {
        suite.case("isolator", "verdict", gate.verdict_changed().map(|why| (CaseKind::Failure, why)));
    }
    for one in &gate.figures {
        let why = one.to_string();
        suite.case(&class(&one.key), one.figure.label(), one.worse.then_some((CaseKind::Failure, &why)));
    }
    for key in &gate.not_measured {
        suite.case(&class(key), "measured", Some((CaseKind::Failure, &gone(key))));
    }
    for row in &gate.not_judged {
        let name = row.figure.map_or("judged", |figure| figure.label());
        suite.case(&class(&row.key), name, Some((CaseKind::Skipped, &row.why)));
    }
    suite.document(&gate.candidate.bundle)
}

/// The document of a gate that came to nothing: a bundle that cannot be read, or runs that are unlike.
pub fn junit_error(candidate: &str, why: &str) -> String {
    let mut suite = Suite::default();
    suite.case("isolator", "judged", Some((CaseKind::Error, why)));
    suite.document(candidate)
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
    cases: String,
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Suite {
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

    fn document(&self, candidate: &str) -> String {
        let Suite { cases, tests, failures, errors, skipped } = self;
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"isolator gate {}\" tests=\"{tests}\" \
             failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">\n{cases}</testsuite>\n",
            escaped(candidate)
        )
    }
}

/// What groups the cases of a row: dots part groups in what reads JUnit.
fn class(key: &RowKey) -> String {
    key.to_string().replace('.', "·")
}
