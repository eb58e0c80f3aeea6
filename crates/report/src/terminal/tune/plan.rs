// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan: each action with its reason, its cost, and what it disturbs.

use std::fmt::Write;

use tune::plan::{Action, ActionKind, Disruption, Plan};

use super::entry;
use crate::terminal::Style;

/// The plan in lines of the style's width; a longer word stays whole.
pub fn plan(plan: &Plan, style: Style) -> String {
    let mut page = PlanText { out: String::new(), style };
    head(&mut page, plan);
    let (boot, running): (Vec<&Action>, Vec<&Action>) =
        plan.actions.iter().partition(|action| action.disruption == Disruption::Reboot);
    section(&mut page, "On the boot line, in force after a reboot", &boot);
    section(&mut page, "Set while the machine runs", &running);
    if !plan.skipped.is_empty() {
        page.title("Left out");
        for skipped in &plan.skipped {
            page.entry("  ", &format!("{}: {}", skipped.what, skipped.reason));
        }
    }
    if !plan.warnings.is_empty() {
        page.title("Warnings");
        for warning in &plan.warnings {
            page.entry("  - ", warning);
        }
    }
    if !plan.boot_line().is_empty() {
        page.title("The boot line");
        let _ = writeln!(page.out, "{}", plan.boot_line());
    }
    page.out
}

fn head(page: &mut PlanText, plan: &Plan) {
    let of = plan.made_for.hostname.as_deref().unwrap_or("this machine");
    let kernel =
        plan.made_for.kernel.as_deref().map(|kernel| format!(", Linux {kernel}")).unwrap_or_default();
    page.entry("", &format!("A plan for {of}{kernel}; profile {}", plan.intent.profile.name()));
    page.out.push('\n');
    if plan.isolated.is_empty() {
        page.entry("isolated      ", "none");
    } else {
        let idle = plan.isolated.without(&plan.real_time);
        let rest = if idle.is_empty() {
            String::new()
        } else {
            format!("; {idle} share their cores, keep them idle")
        };
        page.entry(
            "isolated      ",
            &format!("{} (real-time threads on {}{rest})", plan.isolated, plan.real_time),
        );
    }
    page.entry("housekeeping  ", &plan.housekeeping.to_string());
    page.entry("why these     ", &plan.why);
}

/// Actions with the same reason and value are one entry.
fn section(page: &mut PlanText, title: &str, actions: &[&Action]) {
    if actions.is_empty() {
        return;
    }
    page.title(title);
    let mut rest = actions;
    while let Some(first) = rest.first() {
        let same = |other: &&&Action| {
            other.kind == first.kind && other.reason == first.reason && other.value == first.value
        };
        let alike = rest.iter().take_while(same).count();
        let more = if alike > 1 { format!(", and {} more like it", alike - 1) } else { String::new() };
        let brief = if first.disruption == Disruption::Brief { " (brief disruption)" } else { "" };
        page.entry("  ", &format!("{}{more}{brief}", what(first)));
        page.entry("      why:  ", &first.reason);
        page.entry("      cost: ", &first.cost);
        rest = &rest[alike..];
    }
}

/// The action in a few words.
fn what(action: &Action) -> String {
    let Action { target, value, .. } = action;
    match action.kind {
        ActionKind::BootParameter if value.is_empty() => target.clone(),
        ActionKind::BootParameter => format!("{target}={value}"),
        ActionKind::Irqs => format!("interrupts that can move: to cpus {value}"),
        ActionKind::DeviceIrqs => format!("interrupts of {target}: to cpu {value}"),
        ActionKind::IrqBalance => format!("irqbalance: leaves cpus {value} alone"),
        ActionKind::KernelThreads => format!("kernel threads that can move: to cpus {value}"),
        ActionKind::Slice => format!("{target}: cpus {value}"),
        ActionKind::Partition => format!("isolated partition {target}: cpus {value}"),
        ActionKind::Limits => format!("{target}: rtprio 98, memlock unlimited for @realtime"),
        ActionKind::RealTimeSlice => format!("{target}: cpus {value}"),
        ActionKind::ManagerAffinity => format!("{target} and what it starts: cpus {value}"),
        ActionKind::Service => format!("{target}: {value}"),
        _ => format!("{target} = {value}"),
    }
}

struct PlanText {
    out: String,
    style: Style,
}

impl PlanText {
    fn title(&mut self, title: &str) {
        let _ = writeln!(self.out, "\n{title}");
    }

    /// `text` in lines that begin below each other after `lead`.
    fn entry(&mut self, lead: &str, text: &str) {
        entry(&mut self.out, lead, text, self.style);
    }
}
