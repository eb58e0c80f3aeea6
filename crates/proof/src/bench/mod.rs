// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures isolator itself. Every figure is a ratio or a count of one run; machines are noisy, and a time
//! alone says little.

pub mod calls;
pub mod day;
pub mod fleet;
pub mod ground_truth;
pub mod messages;
pub mod peers;
pub mod scope;
pub mod tables;
