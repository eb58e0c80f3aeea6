// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate as JUnit's XML, for CI systems: a test case for each figure of each row, one for the verdict.
//!
//! JUnit has no standard; this keeps to what Jenkins, GitLab and GitHub's reporters read: `testsuite` with counts,
//! `testcase` with `classname` and `name`, `failure` and `skipped` with a message. Written by hand: it is four elements.

use std::fmt::Write;

use evidence::gate::{Gated, gone};
use evidence::manifest::RowKey;

/// The document.
pub fn junit(gate: &Gated) -> String {
    let (mut cases, mut failures, mut skipped, mut tests) = (String::new(), 0, 0, 0);
    let mut case = |class: &str, name: &str, outcome: Option<(&str, &str)>| {
        tests += 1;
        let head = format!("  <testcase classname=\"{}\" name=\"{}\"", escaped(class), escaped(name));
        let _ = match outcome {
            None => writeln!(cases, "{head}/>"),
            Some((kind, why)) => {
                *(if kind == "failure" { &mut failures } else { &mut skipped }) += 1;
                writeln!(cases, "{head}>\n    <{kind} message=\"{}\"/>\n  </testcase>", escaped(why))
            }
        };
    };
    case("isolator", "verdict", gate.verdict_changed().map(|why| ("failure", why)));
    for one in &gate.figures {
        let why = one.to_string();
        case(&class(&one.key), one.figure.words(), one.worse.then_some(("failure", &why)));
    }
    for key in &gate.not_measured {
        case(&class(key), "measured", Some(("failure", &gone(key))));
    }
    for row in &gate.not_judged {
        case(&class(&row.key), "judged", Some(("skipped", &row.why)));
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"isolator gate {}\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n{cases}</testsuite>\n",
        escaped(&gate.candidate.bundle)
    )
}

/// What groups the cases of a row: dots part groups in what reads JUnit.
fn class(key: &RowKey) -> String {
    key.to_string().replace('.', "·")
}

/// Text of an attribute. XML 1.0 has no place for control characters, not even escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out_of_its_attribute() {
        assert_eq!(escaped("a\"b<c>&d\u{1b}\n"), "a&quot;b&lt;c&gt;&amp;d\u{fffd}\u{fffd}");
    }
}
