// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot parameters.

use super::Setting;

mod isolation;
mod kernel_work;
mod power;

/// The tables.
pub(super) const ALL: &[&[Setting]] = &[isolation::ALL, kernel_work::ALL, power::ALL];
