// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and foreign text as people read them.

use machine::CpuSet;

/// Nanoseconds as a figure in microseconds, without its unit: three digits that matter, never fewer than all
/// whole microseconds.
pub(crate) fn us(ns: f64) -> String {
    let us = ns / 1e3;
    match us {
        ..9.995 => format!("{us:.2}"),
        9.995..99.95 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    }
}

/// The same in groups of three digits, with its unit.
pub(crate) fn us_unit(ns: u64) -> String {
    if ns < 100_000 {
        format!("{} us", us(ns as f64))
    } else {
        format!("{} us", count(ns / 1000 + u64::from(ns % 1000 >= 500)))
    }
}

/// A number in groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
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
    fn microseconds_keep_the_digits_that_matter() {
        let figures = [21.0, 9_994.0, 9_996.0, 99_940.0, 99_960.0, 40_005_000.0].map(us);
        assert_eq!(figures, ["0.02", "9.99", "10.0", "99.9", "100", "40005"]);
        assert_eq!(us_unit(40_005_499), "40,005 us");
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
    fn numbers_are_grouped_in_threes() {
        assert_eq!([0, 999, 1_000, 1_036_800_000].map(count), ["0", "999", "1,000", "1,036,800,000"]);
    }

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        assert_eq!(short("a\u{1b}[31mb\nc", 20), "a\u{fffd}[31mb\u{fffd}c");
        assert_eq!(short("custom=stress-ng", 8), "custom=…");
    }
}
