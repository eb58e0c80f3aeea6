// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings of lint as SARIF 2.1.0, which editors and code hosts show beside the code
//! (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>).
//!
//! Written by hand: of the format's many types these few are needed.

use std::path::Path;

use lint::LintDocument;
use lint::document::LintFinding;
use lint::rule::{RULES, RuleText};
use serde_json::{Value, json};

/// The log. Paths below `root`, where the sources are, become relative to it; `version` is the program's.
pub fn sarif(document: &LintDocument, root: &Path, version: &str) -> Value {
    let results: Vec<Value> = document.findings.iter().map(|finding| result(finding, root)).collect();
    let not_seen =
        document.not_seen.iter().map(|text| json!({ "level": "note", "message": { "text": text } }));
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "isolator lint",
                "version": version,
                "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
            } },
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": not_seen.collect::<Vec<_>>(),
            }],
            "results": results,
        }],
    })
}

fn rule(text: &RuleText) -> Value {
    json!({
        "id": text.id,
        "shortDescription": { "text": text.what },
        "fullDescription": { "text": format!("{}: {}.", text.what, text.why) },
        "help": { "text": format!("{}. Source: {}.", text.cure, text.source) },
        "defaultConfiguration": { "level": text.severity.name() },
    })
}

fn result(finding: &LintFinding, root: &Path) -> Value {
    let thread = finding.thread.as_ref();
    let of_thread = thread.map(|thread| format!("Thread {} ({}): ", thread.name, thread.tid));
    let (thread, message) = (of_thread.unwrap_or_default(), &finding.message);
    let text = format!("{thread}{message}, {} times; {}.", finding.count, finding.advice);
    json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": RULES.iter().position(|text| text.rule == finding.rule),
        "level": finding.severity.name(),
        "message": { "text": text },
        "occurrenceCount": finding.count,
        "locations": [location(finding, root)],
    })
}

fn location(finding: &LintFinding, root: &Path) -> Value {
    let mut location = json!({});
    if let Some(file) = &finding.file {
        let mut physical = json!({ "artifactLocation": { "uri": uri(Path::new(file), root) } });
        if let Some(line) = finding.line.filter(|line| *line > 0) {
            physical["region"] = json!({ "startLine": line });
        }
        location["physicalLocation"] = physical;
    }
    if let Some(function) = &finding.function {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": function, "kind": "function" }]);
    }
    location
}

/// A path as a reference: relative below the root, else of a file.
fn uri(file: &Path, root: &Path) -> String {
    match file.strip_prefix(root) {
        Ok(below) => encoded(&below.to_string_lossy()),
        Err(_) if file.is_absolute() => format!("file://{}", encoded(&file.to_string_lossy())),
        Err(_) => encoded(&file.to_string_lossy()),
    }
}

/// Percent-encoded where RFC 3986 asks for it.
fn encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(byte.into())
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_references() {
        let root = Path::new("/home/me/servo");
        assert_eq!(uri(Path::new("/home/me/servo/src/my loop.c"), root), "src/my%20loop.c");
        assert_eq!(uri(Path::new("/usr/src/bus.c"), root), "file:///usr/src/bus.c");
        assert_eq!(uri(Path::new("src/loop.c"), root), "src/loop.c");
    }
}
