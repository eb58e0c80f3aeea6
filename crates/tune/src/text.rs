// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for terminals: lines of a given width. Foreign text cannot steer the terminal: control characters are replaced.

use std::fmt::Write;

/// Below this no line is made shorter.
const NARROWEST: usize = 40;

/// Adds `text` in lines that begin below each other after `lead`; a word that is too long stays whole.
pub(crate) fn wrapped(out: &mut String, lead: &str, text: &str, width: usize) {
    let width = width.max(NARROWEST);
    let indent = lead.chars().count();
    let (mut line, mut used, mut fresh) = (lead.to_string(), indent, true);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !fresh && used + 1 + length > width {
            let _ = writeln!(out, "{}", line.trim_end());
            (line, used, fresh) = (" ".repeat(indent), indent, true);
        }
        if !fresh {
            line.push(' ');
            used += 1;
        }
        line.push_str(&cleaned(word));
        used += length;
        fresh = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

/// Without characters that steer a terminal.
pub(crate) fn cleaned(text: &str) -> String {
    untrusted::text::clean(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hang_below_each_other_and_long_words_stay_whole() {
        let mut out = String::new();
        let long = "x".repeat(50);
        wrapped(&mut out, "  - ", &format!("one two three four five six seven eight {long} \u{1b}[2J"), 20);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "  - one two three four five six seven");
        assert_eq!(lines[1], "    eight");
        assert_eq!(lines[2], format!("    {long}"));
        assert_eq!(lines[3], "    \u{fffd}[2J");
    }
}
