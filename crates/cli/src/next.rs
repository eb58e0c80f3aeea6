// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command to type next, as the last line of a verb.

use std::path::Path;

use doctor::{FindingOutcome, Profile, Report};
use evidence::Bundle;
use evidence::document::ProveDocument;
use evidence::taint;
use evidence::verdict::VerdictOutcome;

use crate::args::{DoctorArgs, Output, TunePlanArgs};

/// A run of this length bounds rare misses; after a shorter one a longer one is advised.
const LONG_NS: u64 = 3_600_000_000_000;

/// Prints the command, if there is one.
pub fn say(command: Option<String>, out: &Output) {
    if let Some(command) = command {
        out.print_text(&format!("next: {command}"));
    }
}

/// `word` as a shell takes it for one word.
pub fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:%@".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// After a run: what made it late, what stands in its way, or a longer run.
pub fn after_run(bundle: &Bundle, document: &ProveDocument) -> Option<String> {
    if document.rows.is_empty() {
        return None;
    }
    let asked = &bundle.manifest.asked;
    let folder = path(&bundle.path);
    let is_tainted = document.taints.iter().any(|taint| !taint.accepted);
    match document.verdict.outcome {
        VerdictOutcome::Exceeded => after_report(bundle, document),
        VerdictOutcome::Unproven if is_tainted => {
            let of_kernel = document.taints.iter().any(|taint| taint.code == taint::NOT_REAL_TIME_KERNEL);
            let only = if of_kernel { " --explain kernel-preempt-rt" } else { "" };
            let named = asked.purpose.as_ref().map(|purpose| format!(" --use {}", quoted(purpose)));
            Some(format!("isolator doctor{}{only}", named.unwrap_or_default()))
        }
        // A program's own loops cannot be asked again by the plan alone.
        _ if asked.probes == [evidence::manifest::LOOP] => None,
        VerdictOutcome::Unproven | VerdictOutcome::Held => {
            let is_long = asked.duration_ns.is_none_or(|ns| ns >= LONG_NS);
            (!is_long).then(|| format!("isolator prove --plan {folder}/manifest.json --duration 1h"))
        }
    }
}

/// After a report: the causes, where there are any.
pub fn after_report(bundle: &Bundle, document: &ProveDocument) -> Option<String> {
    let has_spikes = bundle.manifest.rows.iter().any(|row| row.spikes > 0);
    let is_late = document.verdict.outcome == VerdictOutcome::Exceeded;
    (has_spikes && is_late).then(|| format!("isolator why {}", path(&bundle.path)))
}

/// After an audit: a plan for the same machine and purpose.
pub fn after_doctor(args: &DoctorArgs, report: &Report) -> Option<String> {
    let is_bad = |result| matches!(result, FindingOutcome::Fail | FindingOutcome::Warn);
    let purpose = match (&report.purpose, report.profile) {
        (_, Profile::Server) => return None,
        (Some(purpose), _) => format!(" --use {}", quoted(&purpose.asked)),
        (None, Profile::Periodic) => String::new(),
        (None, profile) => format!(" --profile {profile}"),
    };
    if !report.checks.iter().any(|finding| is_bad(finding.result)) {
        return Some(format!("isolator prove{purpose}")).filter(|_| report.purpose.is_some());
    }
    let machine = match (&args.snapshot, args.root == Path::new("/")) {
        (Some(snapshot), _) => format!(" --snapshot {}", path(snapshot)),
        (None, false) => format!(" --root {}", path(&args.root)),
        (None, true) => String::new(),
    };
    Some(format!("isolator tune plan{purpose}{machine} --json plan.json"))
}

/// After a plan: the same in a file; after that a run to compare with.
pub fn after_plan(args: &TunePlanArgs) -> Option<String> {
    if args.snapshot.is_some() || args.root != Path::new("/") {
        return None;
    }
    let wanted = &args.wanted;
    let named = wanted.purpose.as_ref().map(|purpose| format!(" --use {}", quoted(&purpose.asked)));
    Some(match &args.out.json {
        Some(file) if !args.out.json_on_stdout() => {
            format!(
                "isolator prove{} -o before; isolator tune apply {}",
                named.unwrap_or_default(),
                path(file)
            )
        }
        Some(_) => return None,
        None => format!("{} --json plan.json", quoted_command_line()),
    })
}

/// This command line, as a shell takes it.
fn quoted_command_line() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word)).collect::<Vec<_>>();
    format!("isolator {}", words.join(" "))
}
