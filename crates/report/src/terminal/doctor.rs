// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings of the doctor: by group, worst first; unknown facts by what would help; the rest as
//! numbers.

use std::collections::BTreeMap;

use doctor::{Check, Finding, FindingOutcome, Profile, Report};
use machine::advice::CarriedOutBy;
use machine::quantity::{Say, Sign, Time};

use super::{ResultPaint, Style, hanging, wrapped};
use crate::text;

/// Everything that was found.
pub fn doctor(report: &Report, style: Style) -> String {
    let mut out = String::new();
    wrapped(
        &mut out,
        "",
        &text::clean(&format!("{} · {}", report.profile, report.machine)),
        ResultPaint::Plain,
        style,
    );
    let bad: Vec<&Finding> = of(report, &[FindingOutcome::Fail, FindingOutcome::Warn]);
    // Groups in the order of their worst finding, which is the order in which they come up.
    let mut groups: Vec<&str> = Vec::new();
    for finding in &bad {
        if !groups.contains(&finding.group.as_str()) {
            groups.push(&finding.group);
        }
    }
    for group in groups {
        out.push('\n');
        out.push_str(group);
        out.push('\n');
        for finding in bad.iter().filter(|finding| finding.group == group) {
            let lead = format!("  {:<5} {}: ", finding.result, finding.id);
            hanging(&mut out, &lead, &finding.says, 8, paint(finding.result), style);
            if let Some(fix) = &finding.fix {
                hanging(&mut out, "        fix: ", fix, 13, ResultPaint::Quiet, style);
            }
        }
    }
    unknown(&mut out, report, style);
    sampled(&mut out, report, style);
    let passed = of(report, &[FindingOutcome::Pass]);
    if !passed.is_empty() {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for finding in passed {
            match counts.iter_mut().find(|(group, _)| *group == finding.group) {
                Some((_, count)) => *count += 1,
                None => counts.push((&finding.group, 1)),
            }
        }
        let counts: Vec<String> = counts.iter().map(|(group, count)| format!("{group} {count}")).collect();
        out.push('\n');
        hanging(&mut out, "passed: ", &counts.join(", "), 8, ResultPaint::Good, style);
    }
    let sum = &report.summary;
    let line = format!(
        "{} fail, {} warn, {} unknown, {} pass, {} not applicable",
        sum.fail, sum.warn, sum.unknown, sum.pass, sum.not_applicable
    );
    let worst = if sum.fail > 0 {
        ResultPaint::Bad
    } else if sum.warn > 0 {
        ResultPaint::Unsure
    } else {
        ResultPaint::Good
    };
    out.push('\n');
    wrapped(&mut out, "", &line, worst, style);
    for sentence in &sum.advice {
        hanging(&mut out, "→ ", &text::clean(sentence), 2, ResultPaint::Plain, style);
    }
    out
}

/// Most CPUs of which a sample is shown; the JSON has all.
const CPUS: usize = 16;

/// Interrupts of each CPU.
fn sampled(out: &mut String, report: &Report, style: Style) {
    let Some(sample) = &report.sample else { return };
    out.push('\n');
    let seconds = Time::round(sample.duration_ms.saturating_mul(1_000_000)).write(Sign::Plain);
    wrapped(out, "", &format!("in {seconds}, interrupts of each CPU"), ResultPaint::Plain, style);
    let ours: Vec<_> = sample.cpus.iter().filter(|cpu| report.measured.contains(cpu.cpu)).collect();
    for cpu in ours.iter().take(CPUS) {
        let words = cpu.describe();
        let words = if words.is_empty() { "none".to_string() } else { words.join(", ") };
        hanging(out, &format!("  cpu {}: ", cpu.cpu), &words, 4, ResultPaint::Plain, style);
    }
    if ours.len() > CPUS {
        wrapped(out, "", &format!("  and {} more CPUs", ours.len() - CPUS), ResultPaint::Quiet, style);
    }
}

/// The unknown facts, those with one reason together.
fn unknown(out: &mut String, report: &Report, style: Style) {
    let mut by_reason: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for finding in of(report, &[FindingOutcome::Unknown]) {
        let key = (finding.fix.clone().unwrap_or_default(), finding.says.clone());
        by_reason.entry(key).or_default().push(&finding.id);
    }
    let mut last = String::new();
    for ((fix, says), ids) in by_reason {
        if fix != last || last.is_empty() {
            out.push('\n');
            hanging(out, "not known; ", &text::clean(&fix), 2, ResultPaint::Unsure, style);
            last = fix;
        }
        hanging(out, "  ", &format!("{}: {says}", ids.join(", ")), 4, ResultPaint::Quiet, style);
    }
}

fn of<'a>(report: &'a Report, results: &[FindingOutcome]) -> Vec<&'a Finding> {
    report.checks.iter().filter(|finding| results.contains(&finding.result)).collect()
}

fn paint(result: FindingOutcome) -> ResultPaint {
    match result {
        FindingOutcome::Fail => ResultPaint::Bad,
        FindingOutcome::Warn | FindingOutcome::Unknown => ResultPaint::Unsure,
        FindingOutcome::Pass => ResultPaint::Good,
        FindingOutcome::NotApplicable => ResultPaint::Quiet,
    }
}

/// All about one check, with its result.
pub fn explained(check: &Check, report: &Report, style: Style) -> String {
    let mut out = String::new();
    let mut say = |lead: &str, text: &str, paint: ResultPaint| {
        if !text.is_empty() {
            hanging(&mut out, &format!("{lead:<11}"), text, 11, paint, style);
        }
    };
    say("", &format!("{}: {}", check.id, check.question), ResultPaint::Plain);
    for finding in &report.checks {
        let severity = if finding.result == FindingOutcome::NotApplicable {
            String::new()
        } else {
            format!(" ({} for {})", finding.severity, report.profile)
        };
        say(&finding.result.to_string(), &format!("{}{severity}", finding.says), paint(finding.result));
        say("read in", &finding.evidence.source, ResultPaint::Plain);
        say("value", &finding.evidence.value, ResultPaint::Plain);
        if let Some(state) = &finding.state {
            say("configured", state.configured.as_deref().unwrap_or("not known"), ResultPaint::Plain);
            say("running", state.running.as_deref().unwrap_or("not known"), ResultPaint::Plain);
            say("effective", state.effective.as_deref().unwrap_or("not known"), ResultPaint::Plain);
        }
        say("fix", finding.fix.as_deref().unwrap_or_default(), ResultPaint::Plain);
        if let Some(CarriedOutBy::Manual(manual)) = finding.advice.as_ref().map(|advice| advice.by()) {
            say("by hand", manual.reason(), ResultPaint::Plain);
        }
    }
    say("why", check.why, ResultPaint::Plain);
    let weights = Profile::ALL.map(|profile| {
        format!(
            "{profile} {}",
            check.weight(profile).map_or("not asked".to_string(), |weight| weight.to_string())
        )
    });
    say("weight", &weights.join(", "), ResultPaint::Plain);
    say("source", check.source, ResultPaint::Quiet);
    out
}
