// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applied, undone and current changes of a machine.

use std::fmt::Write as _;

use tune::change::{Applied, BootChange, RolledBack, StepLine, TuneStatus};
use tune::transaction::{RecordKind, RecordState, Restoration, StepOutcome};

/// The outcome of apply or confirm.
pub fn applied(applied: &Applied) -> String {
    let mut text = String::new();
    for id in &applied.recovered {
        let _ = writeln!(text, "undone first, since it was interrupted: {id}");
    }
    for what in &applied.already {
        let _ = writeln!(text, "already so: {what}");
    }
    let would = if applied.dry_run { "would " } else { "" };
    for (what, step) in changes(&applied.steps) {
        let change = if step.before.is_empty() {
            String::new()
        } else {
            format!(": {} -> {}", step.before, step.after)
        };
        let _ = writeln!(text, "  {would}change {what}{change}");
    }
    let so = applied.steps.iter().filter(|step| step.outcome == StepOutcome::AlreadySo).count();
    if so > 0 {
        let _ = writeln!(text, "  {so} others already have the planned value");
    }
    let refused = applied.steps.iter().filter_map(|step| match &step.outcome {
        StepOutcome::Refused(why) => Some((step, why)),
        _ => None,
    });
    for (step, why) in refused {
        let _ = writeln!(text, "  refused {}: {why}", step.what);
    }
    for skipped in &applied.skipped {
        let _ = writeln!(text, "  skipped {}: {}", skipped.what, skipped.reason);
    }
    match &applied.boot {
        BootChange::Nothing => {}
        BootChange::Trial { .. } => text.push_str("boot line: an entry that is booted once\n"),
        BootChange::Lasting { fallback } => {
            let _ = writeln!(text, "boot line: every next boot; what still boots without it: {fallback}");
        }
        BootChange::Instructions { why, .. } => {
            let _ = writeln!(text, "boot line: not changed, since {why}");
        }
    }
    if !applied.records.is_empty() {
        let _ = writeln!(text, "recorded as {}", applied.records.join(", "));
    }
    next(&mut text, &applied.next);
    text
}

/// The changes, each with the first of the steps that made it: interrupts whose CPUs changed alike, and such
/// threads, are one change.
fn changes(steps: &[StepLine]) -> Vec<(String, &StepLine)> {
    let kind = |step: &StepLine| {
        let kinds = [("/proc/irq/", "interrupts"), ("thread ", "threads")];
        let one = |start: &str| {
            step.what.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        kinds.into_iter().find_map(|(start, many)| one(start).then_some(many))
    };
    let alike = |one: &StepLine, other: &StepLine| {
        kind(one).is_some()
            && kind(one) == kind(other)
            && (&one.before, &one.after) == (&other.before, &other.after)
    };
    let shown = |step: &&StepLine| matches!(step.outcome, StepOutcome::Done | StepOutcome::Pending);
    let shown: Vec<&StepLine> = steps.iter().filter(shown).collect();
    let mut changes = Vec::new();
    for (at, &step) in shown.iter().enumerate() {
        if shown[..at].iter().any(|before| alike(before, step)) {
            continue;
        }
        let count = shown.iter().filter(|other| alike(other, step)).count();
        let what = match kind(step) {
            Some(many) if count > 1 => format!("{count} {many}"),
            _ => step.what.clone(),
        };
        changes.push((what, step));
    }
    changes
}

/// The outcome of rollback.
pub fn rolled_back(rolled_back: &RolledBack) -> String {
    let mut text = String::new();
    if rolled_back.records.is_empty() {
        text.push_str("nothing is in force that could be undone\n");
    }
    for record in &rolled_back.records {
        let count = |became: &dyn Fn(&Restoration) -> bool| {
            record.undone.iter().filter(|u| became(&u.became)).count()
        };
        let restored = count(&|became| *became == Restoration::Restored);
        let gone = count(&|became| *became == Restoration::Gone);
        let _ = write!(text, "{}: {restored} restored", record.id);
        if gone > 0 {
            let _ = write!(text, ", {gone} ended by themselves");
        }
        let left = count(&|became| matches!(became, Restoration::Failed(_)));
        if left > 0 {
            let _ = write!(text, ", {left} STILL TO BE UNDONE");
        }
        text.push('\n');
        for undone in &record.undone {
            let said = match &undone.became {
                Restoration::Stripped => {
                    "another program changed or made it; only what is ours was taken out"
                }
                Restoration::MadeAnew => "another program made it anew; it was made anew without our words",
                Restoration::Left(why) | Restoration::Failed(why) => why,
                Restoration::Restored | Restoration::Untouched | Restoration::Gone => continue,
            };
            let _ = writeln!(text, "  {}: {said}", undone.what);
        }
    }
    text
}

/// The state in force.
pub fn status(status: &TuneStatus) -> String {
    let mut text = String::new();
    if status.records.is_empty() {
        text.push_str("no plan was ever applied here\n");
    }
    for record in &status.records {
        let part = match record.part {
            RecordKind::Runtime => "settings",
            RecordKind::Trial => "boot line, tried once",
            RecordKind::Boot => "boot line and unit",
            RecordKind::Units => "units of systemd",
            RecordKind::User => "rights of users",
        };
        let state = match record.state {
            RecordState::Applying => "interrupted while it was done",
            RecordState::Applied => "in force",
            RecordState::RollingBack => "interrupted while it was undone",
            RecordState::RolledBack => "undone",
        };
        let steps = if record.steps == 1 { "step" } else { "steps" };
        let _ = writeln!(text, "{}  {part}: {state}, {} {steps}", record.id, record.steps);
        if record.state == RecordState::RolledBack {
            continue;
        }
        if record.ended > 0 {
            let _ = writeln!(text, "  {} of them ended with the boot in which they were done", record.ended);
        }
        for lost in &record.lost {
            let _ = writeln!(text, "  no longer: {lost}");
        }
        for refused in &record.refused {
            let _ = writeln!(text, "  refused: {refused}");
        }
    }
    next(&mut text, &status.next);
    text
}

fn next(text: &mut String, next: &[String]) {
    for (number, line) in next.iter().enumerate() {
        let head = if number == 0 { "next: " } else { "      " };
        let _ = writeln!(text, "{head}{line}");
    }
}
