// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures as people read them: thousands are grouped by commas, microseconds have three digits that matter.
//!
//! Every figure of a sentence, a table or a page is written here. JSON, CSV and metrics have plain numbers.

/// A number in groups of three digits: `1,036,800`.
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// A measured time in microseconds without its unit: three digits that matter, never fewer than all whole
/// microseconds. `9.99`, `99.9`, `1,854`.
pub fn figure(ns: f64) -> String {
    let us = ns / 1e3;
    match us {
        ..9.995 => format!("{us:.2}"),
        9.995..99.95 => format!("{us:.1}"),
        _ => grouped(&format!("{us:.0}")),
    }
}

/// The same with its unit: `1,854 us`.
pub fn us(ns: u64) -> String {
    with_unit(&figure(ns as f64))
}

/// A measured time in microseconds with one digit behind the point, for parts that add up: `1,854.3`.
pub fn tenth(ns: u64) -> String {
    let tenths = ns / 100 + u64::from(ns % 100 >= 50);
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

/// The same with its unit: `1,854.3 us`.
pub fn tenth_us(ns: u64) -> String {
    with_unit(&tenth(ns))
}

/// A time in microseconds that was set or requested, with all its digits: `1,333.333`.
pub fn exact(ns: u64) -> String {
    let text = (ns as f64 / 1e3).to_string();
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    format!("{}{rest}", grouped(whole))
}

/// The same with its unit: `1,333.333 us`.
pub fn exact_us(ns: u64) -> String {
    with_unit(&exact(ns))
}

/// Whole microseconds: `950,000`.
pub fn whole(us: impl Into<i128>) -> String {
    grouped(&us.into().to_string())
}

/// The same with its unit: `950,000 us`.
pub fn whole_us(us: impl Into<i128>) -> String {
    with_unit(&whole(us))
}

fn with_unit(figure: &str) -> String {
    format!("{figure} us")
}

fn grouped(digits: &str) -> String {
    let first = usize::from(digits.starts_with('-'));
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > first && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_keep_the_digits_that_matter() {
        let figures = [21.0, 9_994.0, 9_996.0, 99_940.0, 99_960.0, 999_600.0, 40_005_000.0].map(figure);
        assert_eq!(figures, ["0.02", "9.99", "10.0", "99.9", "100", "1,000", "40,005"]);
        assert_eq!(us(40_005_499), "40,005 us");
    }

    #[test]
    fn parts_keep_a_tenth() {
        let figures = [0, 49, 50, 1_100, 999_950, 40_005_020].map(tenth);
        assert_eq!(figures, ["0.0", "0.0", "0.1", "1.1", "1,000.0", "40,005.0"]);
    }

    #[test]
    fn requested_times_keep_all_digits() {
        assert_eq!(
            [500, 62_500, 1_333_333, 1_000_000].map(exact_us),
            ["0.5 us", "62.5 us", "1,333.333 us", "1,000 us"]
        );
        assert_eq!([-1_i64, -1_000, 950_000].map(whole_us), ["-1 us", "-1,000 us", "950,000 us"]);
    }

    #[test]
    fn numbers_are_grouped_in_threes() {
        assert_eq!([0, 999, 1_000, 1_036_800_000].map(count), ["0", "999", "1,000", "1,036,800,000"]);
    }
}
