// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures isolator itself. Every figure is a ratio or a count of one run; machines are noisy, and a time alone
//! says little.
#![forbid(unsafe_code)]

pub mod calls;
pub mod causes;
pub mod day;
pub mod fleet;
pub mod ground_truth;
pub mod guests;
pub mod messages;
pub mod page;
pub mod peers;
pub mod proof;
pub mod published;
pub mod repeats;
pub mod responses;
pub mod scope;

use std::cmp::Ordering;

/// The middle one in that order, of two the later; none of none.
fn middle<T: Copy>(mut values: Vec<T>, order: impl FnMut(&T, &T) -> Ordering) -> Option<T> {
    values.sort_by(order);
    values.get(values.len() / 2).copied()
}
