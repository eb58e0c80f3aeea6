// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of each machine of a fleet, the worst first, and the counts as the last line.

use fleet::ansible::document::{FleetRunDocument, MachineOutcome};

use crate::terminal::{ResultPaint, Style, wrapped};
use crate::text;

/// Machines of one outcome that are listed; the JSON has all.
const LISTED: usize = 20;

/// The outcome of a verb over many machines.
pub fn fleet_run(document: &FleetRunDocument, style: Style) -> String {
    let mut out = String::new();
    let counts = document.counts();
    for (&outcome, &count) in &counts {
        let title = format!("{} ({})\n", label(outcome), text::count(count as u64));
        out.push_str(&style.paint(ResultPaint::Plain, &title));
        let hosts = document.hosts.iter().filter(|host| host.outcome == outcome).take(LISTED);
        if paint(outcome) == ResultPaint::Good {
            // There is nothing to be said of each.
            let names = hosts.map(|host| text::clean(&host.host)).collect::<Vec<_>>().join(", ");
            wrapped(&mut out, "- ", &names, ResultPaint::Good, style);
        } else {
            for host in hosts {
                let reason =
                    if host.reason.is_empty() { String::new() } else { format!(": {}", host.reason) };
                wrapped(
                    &mut out,
                    "- ",
                    &text::clean(&format!("{}{reason}", host.host)),
                    paint(outcome),
                    style,
                );
            }
        }
        if count > LISTED {
            out.push_str(&format!("- and {} more\n", text::count((count - LISTED) as u64)));
        }
        out.push('\n');
    }
    let said =
        counts.iter().map(|(&outcome, &count)| format!("{} {}", text::count(count as u64), label(outcome)));
    out.push_str(&format!("{}\n", said.collect::<Vec<_>>().join(" · ")));
    out.push_str(&format!("in {}", document.folder));
    out
}

/// An outcome for people.
fn label(outcome: MachineOutcome) -> &'static str {
    match outcome {
        MachineOutcome::RolledBack => "rolled back",
        MachineOutcome::NotInForce => "not in force",
        MachineOutcome::NotReached => "not begun",
        MachineOutcome::WouldChange => "to be changed",
        MachineOutcome::InForce => "in force",
        MachineOutcome::Undone => "as before",
        other => other.name(),
    }
}

fn paint(outcome: MachineOutcome) -> ResultPaint {
    if outcome.could_not() || outcome.does_not_hold() {
        return ResultPaint::Bad;
    }
    match outcome {
        MachineOutcome::NotReached | MachineOutcome::WouldChange => ResultPaint::Unsure,
        _ => ResultPaint::Good,
    }
}
