// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune` and `isolator task` for a terminal: plans, changes, the worth of settings, and tasks.

mod change;
mod plan;
mod settings;
mod tasks;
mod verified;

pub use change::{applied, rolled_back, status};
pub use plan::plan;
pub use settings::settings;
pub use tasks::{tasks, tasks_set};
pub use verified::verified;

use super::{ResultPaint, Style, hanging};

/// Adds `text` in lines that begin below each other after `lead`.
fn entry(out: &mut String, lead: &str, text: &str, style: Style) {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    hanging(out, lead, &words, lead.chars().count(), ResultPaint::Plain, style);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hangs_lines_below_each_other_and_keeps_long_words() {
        let mut out = String::new();
        let long = "x".repeat(50);
        let text = format!("one two three four five six seven\neight {long} \u{1b}[2J");
        entry(&mut out, "  - ", &text, Style { color: false, width: 20 });
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "  - one two three four five six seven");
        assert_eq!(lines[1], "    eight");
        assert_eq!(lines[2], format!("    {long}"));
        assert_eq!(lines[3], "    \u{fffd}[2J");
    }
}
