// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and repeated screens of the tools' texts.

/// Refuses a text with more than one run.
pub(super) fn second_run<T>() -> Result<T, String> {
    Err("it holds more than one run".into())
}

/// The same where something shows that a second run begins.
pub(super) fn second_run_if(begins: bool) -> Result<(), String> {
    if begins { second_run() } else { Ok(()) }
}

/// Puts a value in that a run states once.
pub(super) fn once<T>(place: &mut Option<T>, value: T) -> Result<(), String> {
    second_run_if(place.replace(value).is_some())
}

/// The fate of the digits of a latency that a tool states in whole units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::import) enum Digits {
    /// Its unit is that of its clock: none is lost.
    #[default]
    All,
    /// It cuts them off: a value lies up to a unit above.
    Cut,
    /// It rounds up: a value lies up to a unit below.
    RoundedUp,
    /// It takes the difference of two times that it cut: a value lies up to a unit to either side.
    OfCutTimes,
}

impl Digits {
    /// How far a value may lie below and above the figure that states it.
    pub fn apart_ns(self, unit_ns: u64) -> [u64; 2] {
        let less = unit_ns.saturating_sub(1);
        match self {
            Digits::All => [0, 0],
            Digits::Cut => [0, less],
            Digits::RoundedUp => [less, 0],
            Digits::OfCutTimes => [less, less],
        }
    }
}

/// A number that may have a fraction, in thousandths: `12.345` is 12345. More digits are rounded up, so that
/// a figure never gets smaller. `None` where it is no plain decimal number, as with a decimal comma.
pub(super) fn thousandths(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let (kept, rest) = fraction.split_at(fraction.len().min(3));
    let padded = format!("{kept:0<3}").parse::<i64>().ok()?;
    let up = i64::from(rest.bytes().any(|byte| byte != b'0'));
    let value = whole.parse::<i64>().ok()?.checked_mul(1_000)?.checked_add(padded)?.checked_add(up)?;
    Some(sign * value)
}

/// The word that follows `name` in a line: of `Min:      7 Act:` the 7.
pub(super) fn after<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(name)?.1.split_whitespace().next()
}

/// Figures of one row on the screen that a tool draws again and again.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ToolScreen {
    /// Figures that tell one run's thread from another's: thread id, period.
    pub identity: (u64, u64),
    pub cycles: u64,
    pub min: Option<u64>,
    pub avg: Option<f64>,
    pub max: Option<u64>,
}

impl ToolScreen {
    /// Takes the row's next screen. The last one counts, and the worst maximum of all; an error where it
    /// belongs to another run.
    pub fn redraw(&mut self, next: ToolScreen) -> Result<(), String> {
        second_run_if(next.identity != self.identity || next.cycles < self.cycles)?;
        let (min, avg) = (next.min.or(self.min), next.avg.or(self.avg));
        *self = ToolScreen { min, avg, max: self.max.max(next.max), ..next };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plain_decimal_numbers_and_rounds_up() {
        for (text, expected) in [
            ("12.345", Some(12_345)),
            ("7", Some(7_000)),
            ("-0.5", Some(-500)),
            ("1.0001", Some(1_001)),
            ("1.0000", Some(1_000)),
            ("12,345", None),
            (".5", None),
            ("-", None),
            ("+1", None),
            ("nan", None),
            ("1e3", None),
            ("\u{661}", None),
            ("9999999999999999999", None),
        ] {
            assert_eq!(thousandths(text), expected, "{text}");
        }
    }

    #[test]
    fn keeps_the_worst_maximum_of_all_screens() {
        let screen = |cycles, max| ToolScreen { cycles, max: Some(max), ..ToolScreen::default() };
        let mut seen = screen(1, 9);
        assert!(seen.redraw(screen(2, 7)).is_ok());
        assert_eq!((seen.cycles, seen.max), (2, Some(9)));
        assert!(seen.redraw(screen(1, 7)).is_err(), "fewer cycles are another run's");
        assert!(seen.redraw(ToolScreen { identity: (2, 0), ..screen(3, 7) }).is_err());
    }
}
