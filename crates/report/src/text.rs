// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and foreign text as people read them.

use machine::CpuSet;
use machine::quantity::{Say, Sign, Time};
pub(crate) use machine::units::{count, figure, tenth, tenth_us, us};

/// A figure, or a sentence with figures, as a page writes it.
pub(crate) fn page(said: impl Say) -> String {
    said.write(Sign::Page)
}

/// A label of an axis of microseconds: `0.5`, `10`, `1,000`.
pub(crate) fn axis(ns: f64) -> String {
    let us = ns / 1e3;
    if us < 1_000.0 { format!("{}", (us * 1e4).round() / 1e4) } else { count(us.round() as u64) }
}

/// How long something took, for a page, in at most two units: `24 h`, `1 min 30 s`.
pub(crate) fn duration(ns: u64) -> String {
    if ns < 60_000_000_000 {
        return page(Time::round(ns));
    }
    let seconds = ns / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let parts = [(hours, "h"), (minutes, "min"), (seconds, "s")];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}"));
    parts.take(2).collect::<Vec<_>>().join(" ")
}

/// `1 row`, `2 rows`.
pub(crate) fn plural(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// At most `most` characters of `text`, control characters made visible, with an ellipsis where it was cut.
pub(crate) fn short(text: &str, most: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// `text` without the characters that could move a terminal's cursor, colour it, or turn its letters round.
pub(crate) fn clean(text: &str) -> String {
    untrusted::text::clean(text).into_owned()
}

/// `cpu 3`, `cpus 1-11`.
pub(crate) fn cpus(set: &CpuSet) -> String {
    match set.len() {
        0 => "no cpu".to_string(),
        1 => format!("cpu {set}"),
        _ => format!("cpus {set}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_page_are_grouped_alike() {
        assert_eq!([50.0, 500.0, 10e3, 1e6, 2.5e9].map(axis), ["0.05", "0.5", "10", "1,000", "2,500,000"]);
    }

    #[test]
    fn a_length_has_at_most_two_units() {
        assert_eq!(
            [500_000, 20_000_000_000, 90_000_000_000, 86_400_000_000_000].map(duration),
            ["500 µs", "20 s", "1 min 30 s", "24 h"]
        );
    }

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        assert_eq!(short("a\u{1b}[31mb\nc", 20), "a\u{fffd}[31mb\u{fffd}c");
        assert_eq!(short("custom=stress-ng", 8), "custom=…");
    }
}
