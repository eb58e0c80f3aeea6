// SPDX-License-Identifier: MIT OR Apache-2.0
//! The value in the middle of several.

use std::cmp::Ordering;

/// The middle one in that order, of two the later; `None` if empty.
pub(crate) fn middle<T: Copy>(mut values: Vec<T>, order: impl FnMut(&T, &T) -> Ordering) -> Option<T> {
    values.sort_by(order);
    values.get(values.len() / 2).copied()
}

/// Of two in the middle the greater one; not a number if there is none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    middle(values.into_iter().collect(), f64::total_cmp).unwrap_or(f64::NAN)
}
