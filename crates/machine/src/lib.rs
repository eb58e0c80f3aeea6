// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types that say what a Linux machine is, and the tables of its settings.
//!
//! [`Snapshot`] is the whole; [`inventory`] and [`boot`] are parts of it. [`registry`] has the settings that
//! decide latency, [`advice`] their values for a machine and a profile. [`purpose`] is the use of a machine,
//! [`sight`] the parts of a kernel that answers about it come from.
//! The crate `inspect` reads a machine into these types; nothing here opens a file.
#![forbid(unsafe_code)]

pub mod advice;
pub mod boot;
pub mod counters;
pub mod cpuset;
pub mod inventory;
mod isolation;
mod likely;
mod profile;
pub mod purpose;
pub mod quantity;
pub mod registry;
pub mod sight;
pub mod snapshot;
pub mod units;

pub use boot::Boot;
pub use cpuset::CpuSet;
pub use likely::likely;
pub use profile::Profile;
pub use purpose::Use;
pub use snapshot::Snapshot;

/// Bytes, a digest for example, in hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
