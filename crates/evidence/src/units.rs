// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers with their units, as sentences of this crate have them.

/// Nanoseconds as microseconds for people.
pub fn us(ns: u64) -> String {
    match ns {
        0..100_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.0} us", ns as f64 / 1e3),
    }
}
