// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command to type next, as the last line of a verb.

use std::path::Path;

use doctor::{FindingOutcome, Profile, Report};
use evidence::Bundle;
use evidence::document::ProveDocument;
use evidence::kind::RowKind;
use evidence::taint;
use evidence::verdict::VerdictOutcome;
use fleet::ansible::{AnsibleJob, AnsibleVerb};
use lint::LintDocument;
use machine::CpuSet;
use why::WhyDocument;

use crate::args::{
    CompareArgs, DoctorArgs, FleetReportArgs, GateArgs, LintArgs, Output, RunOptions, TunePlanArgs,
};

/// The command that plans.
const PLAN: &str = "isolator tune plan";

/// A run of this length bounds rare misses; after a shorter one a longer one is advised.
const LONG_NS: u64 = 3_600_000_000_000;

/// Prints the command, if there is one; not beside JSON, which a program reads.
pub fn say(command: Option<String>, out: &Output) {
    if let Some(command) = command.filter(|_| !out.json_on_stdout()) {
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

/// A path as a shell takes it for one word.
pub fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// After a run: what made it late, what stands in its way, the next boot, or a longer run.
pub fn after_run(bundle: &Bundle, document: &ProveDocument, options: &RunOptions) -> Option<String> {
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
        _ if document
            .verdict
            .claim
            .as_ref()
            .and_then(|claim| claim.more_boots)
            .is_some_and(|more| more > 0) =>
        {
            Some(next_boot(bundle, options))
        }
        // A program's own loops cannot be asked again by the plan alone.
        _ if asked.is_of_program() => None,
        VerdictOutcome::Unproven | VerdictOutcome::Held => {
            let is_long = asked.duration_ns.is_none_or(|ns| ns >= LONG_NS);
            (!is_long).then(|| format!("isolator prove --like {folder} --duration 1h"))
        }
    }
}

/// The same in another boot, beside this run.
fn next_boot(bundle: &Bundle, options: &RunOptions) -> String {
    let (folder, asked) = (path(&bundle.path), &bundle.manifest.asked);
    let boots = options.boots.boots.unwrap_or(0);
    let another = options.output.as_ref().map(|output| {
        let name = output.display().to_string();
        let number =
            name.rsplit_once('-').and_then(|(stem, number)| Some((stem, number.parse::<u64>().ok()?)));
        let name = number.map_or(format!("{name}-2"), |(stem, number)| format!("{stem}-{}", number + 1));
        format!(" -o {}", quoted(&name))
    });
    let another = another.unwrap_or_default();
    match asked.is_of_program() {
        true => format!("reboot; then the same command{another}"),
        false => format!("reboot; then: isolator prove --like {folder} --boots {boots}{another}"),
    }
}

/// After a report: the causes, where there are any.
pub fn after_report(bundle: &Bundle, document: &ProveDocument) -> Option<String> {
    let has_spikes = bundle.manifest.rows.iter().any(|row| row.spikes > 0);
    let is_late = document.verdict.outcome == VerdictOutcome::Exceeded;
    (has_spikes && is_late).then(|| format!("isolator why {}", path(&bundle.path)))
}

/// After causes: a plan, where advice is of one.
pub fn after_why(bundle: &Bundle, document: &WhyDocument) -> Option<String> {
    let has_plan = document.spikes.iter().flat_map(|spike| &spike.advice).any(|line| line.contains(PLAN));
    let purpose = bundle.manifest.asked.purpose.as_ref();
    let named = purpose.map(|purpose| format!(" --use {}", quoted(purpose))).unwrap_or_default();
    has_plan.then(|| format!("{PLAN}{named} --json plan.json"))
}

/// After a comparison: the causes where the second run is late, else a page of the comparison.
pub fn after_compare(args: &CompareArgs, after: &Bundle) -> Option<String> {
    let judge = args.judge.options();
    let causes = after_report(after, &ProveDocument::of(after)).map(|command| format!("{command}{judge}"));
    let page =
        || format!("isolator compare {} {}{judge} -o change.html", path(&args.before), path(&args.after));
    causes.or_else(|| args.output.is_none().then(page))
}

/// After a gate that did not hold: what changed.
pub fn after_gate(args: &GateArgs, held: bool) -> Option<String> {
    let baseline = args.baseline.first().filter(|_| !held)?;
    let judge = args.judge.options();
    Some(format!("isolator compare {} {}{judge} -o change.html", path(baseline), path(&args.candidate)))
}

/// After an import that does not hold: the same measured here, with causes, where this machine has the CPUs.
pub fn after_import(bundle: &Bundle, document: &ProveDocument) -> Option<String> {
    if document.verdict.held || bundle.rows.iter().any(|row| row.entry.key.kind() != RowKind::Wakeup) {
        return None;
    }
    let cpus: CpuSet = bundle.rows.iter().map(|row| row.entry.key.cpu).collect();
    let is_here = cpus.without(&inspect::read(Path::new("/")).online()).is_empty();
    let period_ns = bundle.rows.first()?.entry.key.period_ns.filter(|ns| ns % 1_000 == 0);
    let period = period_ns.map(|ns| format!(" --period {}us", ns / 1_000)).unwrap_or_default();
    is_here.then(|| format!("isolator prove --cpus {cpus}{period} --loads all"))
}

/// After a program without findings: its loops under loads.
pub fn after_lint(args: &LintArgs, document: &LintDocument) -> Option<String> {
    if !document.is_clean() {
        return None;
    }
    let (program, arguments) = match (args.process, args.command.split_first()) {
        (Some(process), _) => (process.to_string(), &[][..]),
        (None, Some((program, arguments))) => (quoted(program), arguments),
        (None, None) => return None,
    };
    let arguments = arguments.iter().map(|word| format!(" {}", quoted(word))).collect::<String>();
    let arguments = if arguments.is_empty() { arguments } else { format!(" --{arguments}") };
    Some(format!("isolator prove --program {program} --loads all{arguments}"))
}

/// After a fleet's report on the terminal: the page.
pub fn after_fleet_report(args: &FleetReportArgs) -> Option<String> {
    args.output.is_none().then(|| format!("isolator fleet report {} -o fleet.html", path(&args.store)))
}

/// After a run on many machines: their bundles into a store, or what a plan, or its trial, is for.
pub fn after_fleet_run(job: &AnsibleJob) -> Option<String> {
    let inventory = path(&job.inventory);
    match job.verb {
        _ if job.check => None,
        AnsibleVerb::Prove | AnsibleVerb::Apply => {
            Some(format!("isolator fleet store -o store {}", path(&job.folder.join("bundles"))))
        }
        AnsibleVerb::Plan => Some(format!("isolator fleet apply -i {inventory} --batches 1,10%,100%")),
        AnsibleVerb::Verify | AnsibleVerb::Rollback => None,
    }
}

/// After a watch: how late a thread is on the isolated CPUs, or a plan that isolates some.
pub fn after_watch(isolated: &CpuSet) -> String {
    match isolated.is_empty() {
        true => format!("{PLAN} --json plan.json"),
        false => format!("isolator prove --cpus {isolated} --loads all"),
    }
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
    Some(format!("{PLAN}{purpose}{machine} --json plan.json"))
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
