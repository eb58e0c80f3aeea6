// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the claims of the documentation in guests, and writes the results into the page with the claim.
//!
//! [`claims`]: the isolator's kernel part; [`causes`]: names of causes; [`repeats`] and [`responses`]: the
//! lab; [`live`]: the page of a run; [`published`]: the lab's matrix beside published figures. [`page`] puts
//! a table between two comments of a page.
#![forbid(unsafe_code)]

pub mod causes;
pub mod claims;
pub mod guests;
pub mod live;
pub mod page;
pub mod published;
pub mod repeats;
pub mod responses;

use std::cmp::Ordering;

/// The middle one in that order, of two the later; `None` if empty.
pub fn middle<T: Copy>(mut values: Vec<T>, order: impl FnMut(&T, &T) -> Ordering) -> Option<T> {
    values.sort_by(order);
    values.get(values.len() / 2).copied()
}
