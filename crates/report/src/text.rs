// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and foreign text as people read them.

use std::borrow::Cow;

use machine::CpuSet;
pub(crate) use machine::units::{count, exact_us, figure, tenth, tenth_us, us};

/// A label of an axis of microseconds: `0.5`, `10`, `1,000`.
pub(crate) fn axis(ns: f64) -> String {
    let us = ns / 1e3;
    if us < 1_000.0 { format!("{}", (us * 1e4).round() / 1e4) } else { count(us.round() as u64) }
}

/// Words beside which a number is one of samples, and not a name: `of 10000`, `3000 samples`.
const COUNTED: [&str; 6] = ["samples", "periods", "cycles", "without", "late", "of"];

/// A text as the page shows it: its microseconds by their sign, and they and numbers of samples in groups of
/// three digits, as all figures there. Other numbers may be names, and stay as they are.
pub fn with_signs(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Cow::Borrowed(text);
    }
    let words: Vec<&str> = text.split(' ').collect();
    let bare = |word: &str| word.trim_end_matches([',', ';', ')', '.', ':']).to_string();
    let mut is_changed = false;
    let mut shown = |(place, word): (usize, &&str)| {
        let after = words.get(place + 1).map_or(String::new(), |next| bare(next));
        let before = place.checked_sub(1).map_or("", |place| words[place]);
        if bare(word) == "us" && before.ends_with(|last: char| last.is_ascii_digit()) {
            is_changed = true;
            return format!("µs{}", &word[2..]);
        }
        let is_figure = after == "us" || before == "of" || COUNTED.contains(&after.as_str());
        let digits = word.trim_start_matches('(');
        let number = bare(digits);
        match number.parse::<u64>() {
            Ok(figure) if is_figure && number.len() > 3 => {
                is_changed = true;
                let [open, rest] = [&word[..word.len() - digits.len()], &digits[number.len()..]];
                format!("{open}{}{rest}", count(figure))
            }
            _ => word.to_string(),
        }
    };
    let shown = words.iter().enumerate().map(&mut shown).collect::<Vec<_>>().join(" ");
    if is_changed { Cow::Owned(shown) } else { Cow::Borrowed(text) }
}

/// A share of one in per cent, rounded down: what is not all is never 100 %.
pub(crate) fn share(share: f64) -> String {
    format!("{} %", (share * 1000.0 + 1e-9).floor() / 10.0)
}

/// A round time in the largest unit that leaves it above one: `25 us`, `1 ms`, `1.5 s`.
pub(crate) fn time(ns: f64) -> String {
    let (unit, name) = match ns {
        ..1e3 => (1.0, "ns"),
        1e3..1e6 => (1e3, "us"),
        1e6..1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {name}", (ns / unit * 1000.0).round() / 1000.0)
}

/// How long something took, in at most two units: `24 h`, `1 min 30 s`.
pub(crate) fn duration(ns: u64) -> String {
    if ns < 60_000_000_000 {
        return time(ns as f64);
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
        let said = "every 1000 us: maximum 2605 us, 2,605 us of 0.5 us; (2 late of 10000, 3000 samples); 100us, pid 5000";
        let shown = "every 1,000 µs: maximum 2,605 µs, 2,605 µs of 0.5 µs; (2 late of 10,000, 3,000 samples); 100us, pid 5000";
        assert_eq!(with_signs(said), shown);
        assert_eq!(with_signs("a bus us, 80.2–130 us)"), "a bus us, 80.2–130 µs)");
        assert!(matches!(with_signs("a bus used"), Cow::Borrowed(_)));
    }

    #[test]
    fn times_are_written_in_the_largest_unit_that_fits() {
        assert_eq!([500.0, 25e3, 1e6, 1.5e9].map(time), ["500 ns", "25 us", "1 ms", "1.5 s"]);
        assert_eq!(
            [20_000_000_000, 90_000_000_000, 86_400_000_000_000].map(duration),
            ["20 s", "1 min 30 s", "24 h"]
        );
    }

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        assert_eq!(short("a\u{1b}[31mb\nc", 20), "a\u{fffd}[31mb\u{fffd}c");
        assert_eq!(short("custom=stress-ng", 8), "custom=…");
    }
}
