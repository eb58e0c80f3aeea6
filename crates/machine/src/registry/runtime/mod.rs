// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a running machine: sysctls, files, control groups, services, limits.

use super::Setting;

mod files;
mod session;
mod sysctls;

/// The tables.
pub(super) const ALL: &[&[Setting]] = &[sysctls::ALL, files::ALL, session::ALL];
