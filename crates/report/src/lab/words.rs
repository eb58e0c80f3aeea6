// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words on a lab run that its page and the terminal share.

use evidence::lab::{LabDocument, LogVerdict, Witness};

use crate::text;

/// The boot line, or that there is none; and what the isolator was asked.
pub(crate) fn boot_line(lab: &LabDocument) -> String {
    let line =
        if lab.boot_line.is_empty() { "nothing added".to_string() } else { text::clean(&lab.boot_line) };
    match &lab.isolate {
        None => line,
        Some(what) => format!("{line}; isolator: {}", text::clean(what)),
    }
}

/// The judgement of the kernel's log, in words.
pub(crate) fn log(lab: &LabDocument) -> String {
    let lines = text::count(lab.guest_log.lines);
    match lab.guest_log.verdict {
        LogVerdict::Clean => format!("clean, {lines} lines"),
        LogVerdict::Bad => {
            format!("{} in {lines} lines", text::plural(lab.guest_log.warnings.len(), "complaint"))
        }
    }
}

/// The part that was not compared, where records were too long for it.
pub(crate) fn beyond(witness: &Witness) -> Option<String> {
    let (named, seen) = (witness.named_beyond, witness.seen_beyond);
    (named > 0 || seen > 0).then(|| {
        let (named, seen) = (text::count(named), text::count(seen));
        format!("not compared, since the records are too long: {named} more that the guest names and {seen} more that the scope saw")
    })
}
