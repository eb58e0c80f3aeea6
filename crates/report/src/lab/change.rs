// SPDX-License-Identifier: MIT OR Apache-2.0
//! The change from one run to another, in words and with a direction where it has one.

use evidence::lab::LabRow;
use serde::Serialize;

use crate::text;

/// A change against the first run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FigureChange {
    pub words: String,
    /// `fewer`, `more`, or `alike` where chance could make the difference of two counts.
    pub direction: &'static str,
}

/// A change has a direction where it is more than chance makes of two counts, and their rates agree.
pub(super) fn of_counts(first: &LabRow, row: &LabRow) -> FigureChange {
    // Twice the standard deviation of the difference of two independent counts.
    let by_chance = 2.0 * (first.excursions as f64 + row.excursions as f64).sqrt();
    let rate = |row: &LabRow| row.excursions as f64 / row.seconds_guest.max(f64::MIN_POSITIVE);
    let agree = (rate(row) > rate(first)) == (row.excursions > first.excursions);
    of(first.excursions, row.excursions, if agree { by_chance } else { f64::INFINITY })
}

/// The change from `first` to `now`; a difference up to `by_chance` has no direction.
pub(super) fn of(first: u64, now: u64, by_chance: f64) -> FigureChange {
    let difference = now as f64 - first as f64;
    let words = match (first, now) {
        _ if first == now => "±0 %".to_string(),
        (0, _) => "from none".to_string(),
        _ => percent(difference / first as f64 * 100.0),
    };
    let direction = match difference {
        _ if difference.abs() <= by_chance => "alike",
        ..0.0 => "fewer",
        _ => "more",
    };
    FigureChange { words, direction }
}

fn percent(percent: f64) -> String {
    let sign = if percent < 0.0 { '−' } else { '+' };
    match percent.abs() {
        // What is not gone altogether is not said to be.
        size if percent < 0.0 && size > 99.0 && size < 100.0 => {
            format!("{sign}{:.2} %", (size * 100.0).floor() / 100.0)
        }
        size @ ..10.0 => format!("{sign}{size:.1} %"),
        size => format!("{sign}{} %", text::count(size.round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_said_in_per_cent_of_the_first() {
        let words = |first, now| of(first, now, 0.0).words;
        assert_eq!(words(1_947, 362), "−81 %");
        assert_eq!(words(2, 803), "+40,050 %");
        assert_eq!(words(1_000, 1_025), "+2.5 %");
        assert_eq!([words(100_000, 1), words(9, 0)], ["−99.99 %", "−100 %"]);
        assert_eq!([words(0, 0), words(7, 7), words(0, 3)], ["±0 %", "±0 %", "from none"]);
    }

    #[test]
    fn what_chance_could_do_to_counts_has_no_direction() {
        let row = |excursions| LabRow { excursions, seconds_guest: 5.0, ..LabRow::default() };
        let direction = |first, now| of_counts(&row(first), &row(now)).direction;
        assert_eq!([direction(2, 3), direction(2, 20), direction(1_947, 362)], ["alike", "more", "fewer"]);
    }

    #[test]
    fn a_longer_window_alone_gives_a_change_no_direction() {
        let row = |excursions, seconds_guest| LabRow { excursions, seconds_guest, ..LabRow::default() };
        assert_eq!(of_counts(&row(100, 5.0), &row(200, 20.0)).direction, "alike");
        assert_eq!(of_counts(&row(100, 5.0), &row(200, 6.0)).direction, "more");
        assert_eq!(of_counts(&row(100, 5.0), &row(0, 6.0)).direction, "fewer");
    }
}
